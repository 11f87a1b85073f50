/*
 * file_levels.c - from the options of a cache to those of its tiers
 */
#include "cache/file_levels.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/directory.h"

/* Half of the free space on the file system of a directory, which need not exist yet. */
static uint64_t half_of_free(const hth_fs *fs, const char *directory)
{
    char path[4096];
    uint64_t free_bytes = 0;
    char *slash;

    if (snprintf(path, sizeof(path), "%s", directory) >= (int)sizeof(path))
        return 0; /* the open refuses it */
    while (hth_fs_free_bytes(fs, path, &free_bytes) != 0) {
        if (strcmp(path, "/") == 0 || strcmp(path, ".") == 0)
            return 0;
        slash = strrchr(path, '/');
        if (!slash)
            (void)snprintf(path, sizeof(path), ".");
        else
            slash[slash == path ? 1 : 0] = '\0';
    }
    return free_bytes / 2;
}

typedef struct level_plan {
    hth_file_tier_options roots[HTH_FILE_TIER_ROOTS_MAX];
    char index[HTH_FILE_TIER_ROOTS_MAX][4096];
    size_t n;
} level_plan;

/* Open a file tier. NULL, after one warning, when it cannot be used. */
static hth_file_tier_set *open_files(const hth_log *log, const level_plan *plan, hearth_tier tier)
{
    hearth_error trouble = { .message = "" };
    hth_file_tier_set *files = NULL;

    if (plan->n > 0 && hth_file_tier_set_open(plan->roots, plan->n, &files, &trouble) != HEARTH_OK) {
        hth_warn(log, "nothing will be cached %s: %s", tier == HEARTH_TIER_DISK ? "on disk" : "in memory files",
                 trouble.message);
        return NULL;
    }
    return files;
}

/* Returns the number of levels with this one; files NULL: without it. */
static size_t add_level(hth_level *levels, size_t n, hth_file_tier_set *files, hearth_tier tier)
{
    if (files)
        levels[n++] = (hth_level){ .files = files, .tier = tier };
    return n;
}

static void plan_ram_files(const hth_cache_options *options, level_plan *plan)
{
    const char *directory = options->ram_file_directory;
    const hth_fs *fs = options->fs ? options->fs : hth_fs_system();

    plan->n = directory ? 1 : 0;
    if (directory)
        plan->roots[0] = (hth_file_tier_options){
            .directory = directory,
            .bytes_max = options->ram_file_bytes_max ? options->ram_file_bytes_max : half_of_free(fs, directory),
            /* Half of the free space is another number at each time; the one of the process that saves rows counts. */
            .with_noted_quota = options->is_of_copies && options->ram_file_bytes_max == 0,
            .free_min = options->ram_file_free_min,
            .fs = options->fs,
            .log = options->log,
        };
}

static void plan_disk(const hth_cache_options *options, level_plan *plan)
{
    plan->n = options->directory ? 1 + options->n_more_directories : 0;
    assert(plan->n <= HTH_FILE_TIER_ROOTS_MAX);
    for (size_t i = 0; i < plan->n; i++) {
        hth_file_tier_options *root = &plan->roots[i];

        *root = (hth_file_tier_options){
            .directory = i == 0 ? options->directory : options->more_directories[i - 1],
            .bytes_max = options->disk_bytes_max == UINT64_MAX ? UINT64_MAX : options->disk_bytes_max / plan->n,
            .free_min = options->disk_free_min,
            .durable = !options->is_of_copies,
            .fs = options->fs,
            .log = options->log,
        };
        if (options->index_directory &&
            hth_cache_index_place(options->index_directory, root->directory, plan->index[i], sizeof(plan->index[i])))
            root->index_directory = plan->index[i];
    }
}

/*
 * Open the file tiers, or none if there is no memory for the plan. The disk comes first, because its rows last: if both
 * tiers name one directory, the memory tier is left out. No directory is opened twice, because a process may not open
 * an LMDB environment twice.
 */
size_t hth_file_levels_open(const hth_cache_options *options, hth_level levels[HTH_WRITER_TIERS_MAX])
{
    hth_file_tier_set *disk, *ram_files = NULL;
    size_t n;
    level_plan *plan = calloc(1, sizeof(*plan));

    if (!plan) {
        hth_warn(options->log, "nothing will be cached in files: no memory");
        return 0;
    }
    plan_disk(options, plan);
    disk = open_files(options->log, plan, HEARTH_TIER_DISK);
    plan_ram_files(options, plan);
    if (disk && plan->n > 0 && hth_file_tier_set_is_in(disk, plan->roots[0].directory))
        hth_warn(options->log, "nothing will be cached in memory files: '%s' is a directory of the disk's rows already",
                 plan->roots[0].directory);
    else
        ram_files = open_files(options->log, plan, HEARTH_TIER_RAM_FILE);
    n = add_level(levels, 0, ram_files, HEARTH_TIER_RAM_FILE);
    n = add_level(levels, n, disk, HEARTH_TIER_DISK);
    free(plan);
    return n;
}

void hth_file_levels_close(hth_level *levels, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hth_file_tier_set_close(levels[i].files);
}
