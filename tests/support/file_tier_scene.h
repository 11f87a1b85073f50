/*
 * file_tier_scene.h - what the tests of the file tier share: a tier on a file layer that stops where it is told to, and
 * looks into its directory
 */
#ifndef HTH_TESTS_FILE_TIER_SCENE_H
#define HTH_TESTS_FILE_TIER_SCENE_H

#include "support/cmocka_all.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/file_tier.h"
#include "rows/directory.h"
#include "rows/row_file.h"
#include "support/made_row.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { IMAGE_BYTES = 3000 };

typedef struct fixture {
    char *directory; /* of the test; the cache is below */
    char cache[4096];
    test_step_fs step;
    hth_log log;
    unsigned n_warnings;
    char last_warning[1024];
    hth_file_tier *tier;
} fixture;

static inline void keep_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    if (level > HEARTH_LOG_WARNING)
        return;
    f->n_warnings++;
    (void)snprintf(f->last_warning, sizeof(f->last_warning), "%s", message);
}

/* The way of naming files that the whole group is run with. */
static hth_publish_way forced_way;

static inline hth_file_tier_options options_of(fixture *f)
{
    return (hth_file_tier_options){
        .publish_way = f->step.no_unnamed ? HTH_PUBLISH_PROBED : forced_way,
        .directory = f->cache,
        .bytes_max = UINT64_C(1) << 30,
        .durable = true,
        .fs = &f->step.fs,
        .log = &f->log,
    };
}

static inline void open_tier(fixture *f)
{
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    assert_ok(hth_file_tier_open(&options, &f->tier, &err), err);
    hth_file_tier_settle(f->tier);
}

static inline void close_tier(fixture *f)
{
    hth_file_tier_close(f->tier);
    f->tier = NULL;
}

static inline void fixture_setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->cache, sizeof(f->cache), "%s/a/b", f->directory);
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = keep_warning, .user_data = f };
    test_step_fs_init(&f->step, NULL);
}

static inline void open_setup(fixture *f)
{
    fixture_setup(f);
    open_tier(f);
}

static inline void fixture_teardown(fixture *f)
{
    hth_file_tier_close(f->tier);
    hth_test_directory_remove(f->directory);
}

static inline const char *below(const fixture *f, const char *name)
{
    static char path[8192];

    (void)snprintf(path, sizeof(path), "%s/%s", f->cache, name);
    return path;
}

static size_t n_regular_files; /* nftw passes no context */

static inline int count_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path;
    (void)where;
    n_regular_files += type == FTW_F && S_ISREG(st->st_mode);
    return 0;
}

static inline size_t n_files(const fixture *f, const char *folder)
{
    n_regular_files = 0;
    (void)nftw(below(f, folder), count_file, 16, FTW_PHYS);
    return n_regular_files;
}

static inline hearth_status publish(fixture *f, const test_row *row, bool *published_out)
{
    return hth_file_tier_publish(f->tier, &row->meta, row->bytes, row->n_bytes, published_out, NULL);
}

static inline void assert_published(fixture *f, const test_row *row)
{
    bool published = false;

    assert_int_equal(publish(f, row, &published), HEARTH_OK);
    assert_true(published);
}

typedef struct buffer {
    uint8_t *bytes;
    size_t n_bytes;
    bool refuse;
} buffer;

static inline uint8_t *buffer_take(size_t n_bytes, void *user_data)
{
    buffer *b = user_data;

    if (b->refuse)
        return NULL;
    b->bytes = malloc(n_bytes);
    b->n_bytes = n_bytes;
    return b->bytes;
}

static inline hearth_status read_row(fixture *f, const hth_row_id *id, buffer *out)
{
    size_t n = 0;
    hearth_status status = hth_file_tier_read(f->tier, id, buffer_take, out, &n, NULL);

    if (status == HEARTH_OK)
        assert_int_equal(n, out->n_bytes);
    return status;
}

static inline void assert_reads_back(fixture *f, const test_row *row)
{
    buffer b = { .bytes = NULL };

    assert_int_equal(read_row(f, &row->meta.id, &b), HEARTH_OK);
    assert_int_equal(b.n_bytes, row->n_bytes);
    assert_memory_equal(b.bytes, row->bytes, row->n_bytes);
    free(b.bytes);
}

static inline uint64_t index_rows(fixture *f)
{
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    return totals.rows;
}

static inline const char *row_path(fixture *f, const test_row *row)
{
    static char path[8192];

    assert_true(hth_file_tier_path(f->tier, &row->meta.id, path, sizeof(path)));
    return path;
}

static inline void overwrite(const char *path, long offset, const char *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "r+");

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_new(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

/* Make the index of the closed tier vanish. */
static inline void lose_index(const fixture *f)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "rm -r %s/index", f->cache);
    assert_int_equal(system(command), 0);
}

/* The ways of naming files. All tests run with each of them. */
#define WAY(name, way)                  \
    static int set_##name(void **state) \
    {                                   \
        (void)state;                    \
        forced_way = way;               \
        return 0;                       \
    }                                   \
    GROUP(name, set_##name, NULL)
WAY(the_best_way_of_naming_files, HTH_PUBLISH_PROBED)
WAY(files_linked_by_name, HTH_PUBLISH_LINK)
WAY(files_renamed, HTH_PUBLISH_RENAME)

#define CLOSED(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)
#define OPEN(name) TEST_WITH(fixture, f, name, open_setup, fixture_teardown)

#endif
