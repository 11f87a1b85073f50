/*
 * cache_open.c - shared by the verbs of `hearth cache`: opening the roots, keys, Ctrl-C, errors
 */
#include "cli/cache_options.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "console/interrupt.h"
#include "console/output.h"
#include "options/commands.h"
#include "rows/directory.h"

/* Free space that an import leaves on a device, as by default in 'hearth run'. */
#define FREE_MIN (UINT64_C(1) << 30)

/* Set by the thread that waits for signals. */
static atomic_bool interrupted;

static void note_interrupt(void *user_data)
{
    (void)user_data;
    atomic_store(&interrupted, true);
}

void hth_cache_command_watch(void)
{
    (void)hth_interrupt_watch(note_interrupt,
                              NULL); /* if it fails, Ctrl-C ends the command at once, which is safe, too */
}

bool hth_cache_command_interrupted(void)
{
    return atomic_load(&interrupted);
}

/* ---- opening ---- */

typedef struct roots_plan {
    hth_file_tier_options roots[HTH_FILE_TIER_ROOTS_MAX];
    char index[HTH_FILE_TIER_ROOTS_MAX][HTH_CACHE_PATH_BYTES];
    size_t n;
} roots_plan;

static void print_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level;
    (void)source;
    (void)user_data;
    (void)hth_say(message, 0);
}

/* For several roots. With one root, the command's message is enough. */
static const hth_log log_of_several = { .level = HEARTH_LOG_WARNING, .write = print_warning };

static const char *directory_of(const hth_cache_command_options *options, size_t i)
{
    return i == 0 ? options->directory : options->more_directories[i - 1];
}

#define EMPTY "the cache in '%s' is empty: nothing was kept yet"

bool hth_cache_command_was_used(const char *directory)
{
    char path[HTH_CACHE_PATH_BYTES + 16];
    hth_fs_stat st;

    (void)snprintf(path, sizeof(path), "%s/rows", directory);
    return hth_fs_stat_path(hth_fs_system(), path, &st) != -ENOENT;
}

hearth_status hth_cache_command_fail_empty(const char *directory, hearth_error *err)
{
    return hth_fail(err, HEARTH_NOT_FOUND, EMPTY "; 'hearth run' fills it", directory);
}

static hearth_status plan_root(const hth_cache_command_options *options, const char *directory,
                               hth_cache_purpose purpose, roots_plan *plan, hearth_error *err)
{
    hth_file_tier_options *root = &plan->roots[plan->n];
    char *index = plan->index[plan->n];

    *root = (hth_file_tier_options){
        .directory = directory,
        .bytes_max = UINT64_MAX,
        .with_noted_quota = purpose == HTH_CACHE_TO_ADD,
        .free_min = purpose == HTH_CACHE_TO_ADD ? FREE_MIN : 0,
        .spares_rows = true, /* the reserve of free space that servers keep is unknown here */
        .durable = true,
        .log = options->n_more_directories > 0 ? &log_of_several : NULL,
    };
    if (options->index_directory) {
        if (!hth_cache_index_place(options->index_directory, directory, index, sizeof(plan->index[0])))
            return hth_fail(err, HEARTH_MISUSE, "the directory of --index, '%.200s...', is too long",
                            options->index_directory);
        root->index_directory = index;
    }
    plan->n++;
    return HEARTH_OK;
}

/* Plan the roots to open; HEARTH_NOT_FOUND if there are none. */
static hearth_status plan_roots(const hth_cache_command_options *options, hth_cache_purpose purpose, roots_plan *plan,
                                hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    size_t n = 1 + options->n_more_directories, n_used = 0;

    for (size_t i = 0; i < n; i++)
        n_used += hth_cache_command_was_used(directory_of(options, i));
    if (purpose == HTH_CACHE_TO_LOOK && n_used == 0)
        return hth_cache_command_fail_empty(options->directory, err);
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        const char *directory = directory_of(options, i);

        if (purpose == HTH_CACHE_TO_ADD || hth_cache_command_was_used(directory))
            status = plan_root(options, directory, purpose, plan, err);
        else
            (void)fprintf(stderr, "hearth: " EMPTY "; it is left out\n", directory);
    }
    return status;
}

hearth_status hth_cache_command_open(const hth_cache_command_options *options, hth_cache_purpose purpose,
                                     hth_file_tier_set **out, hearth_error *err)
{
    roots_plan *plan = calloc(1, sizeof(*plan));
    hearth_status status;

    if (!plan)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to open the cache in '%s'", options->directory);
    status = plan_roots(options, purpose, plan, err);
    if (status == HEARTH_OK)
        status = hth_file_tier_set_open(plan->roots, plan->n, out, err);
    if (status == HEARTH_OK)
        hth_file_tier_set_settle(*out);
    free(plan);
    return status;
}

/* ---- keys ---- */

typedef struct key_search {
    const char *begin;
    hth_key first, other;
    size_t n; /* distinct keys, at most 2 */
} key_search;

static bool try_key(key_search *search, const hth_key *key)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    hth_hex_encode(key->bytes, HTH_KEY_BYTES, hex);
    if (strncmp(hex, search->begin, strlen(search->begin)) != 0 ||
        (search->n > 0 && memcmp(key, &search->first, sizeof(*key)) == 0))
        return true;
    *(search->n == 0 ? &search->first : &search->other) = *key;
    return ++search->n < 2;
}

static bool try_row(const hth_row_meta *meta, void *user_data)
{
    return try_key(user_data, &meta->id.key);
}

const char *hth_cache_command_key_text(const hth_key *key, bool full, char text[2 * HTH_KEY_BYTES + 1])
{
    hth_hex_encode(key->bytes, HTH_KEY_BYTES, text);
    if (!full)
        text[HTH_CACHE_KEY_DIGITS] = '\0';
    return text;
}

hearth_status hth_cache_command_find_key(const hth_cache_command_options *options, hth_file_tier_set *files,
                                         hth_key *out, hearth_error *err)
{
    key_search search = { .begin = options->key_begin };
    char first[2 * HTH_KEY_BYTES + 1], other[2 * HTH_KEY_BYTES + 1];
    hth_pins pins = { .keys = NULL };
    hearth_status status;

    if (strlen(search.begin) == (size_t)2 * HTH_KEY_BYTES && hth_hex_decode(search.begin, out->bytes, HTH_KEY_BYTES))
        return HEARTH_OK;
    status = hth_file_tier_set_pins(files, &pins, err);
    for (size_t i = 0; i < pins.n && status == HEARTH_OK; i++)
        (void)try_key(&search, &pins.keys[i]); /* the count shows the result */
    for (size_t i = 0; i < hth_file_tier_set_n_roots(files) && status == HEARTH_OK && search.n < 2; i++)
        status = hth_index_visit(hth_file_tier_index(hth_file_tier_set_roots(files)[i]), false, try_row, &search, err);
    hth_pins_deinit(&pins);
    if (status == HEARTH_OK && search.n == 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "no key begins with '%s'; 'hearth cache ls' lists the rows",
                        search.begin);
    if (status == HEARTH_OK && search.n > 1)
        return hth_fail(err, HEARTH_MISUSE, "several keys begin with '%s', such as %s and %s; give more digits",
                        search.begin, hth_cache_command_key_text(&search.first, true, first),
                        hth_cache_command_key_text(&search.other, true, other));
    *out = search.first;
    return status;
}

int hth_cache_command_fail(hearth_status status, const hearth_error *err)
{
    if (status == HEARTH_CANCELLED && hth_cache_command_interrupted())
        return hth_say("interrupted; the work so far is kept", HTH_EXIT_INTERRUPTED);
    return hth_say(err->message, HTH_EXIT_FAILED);
}
