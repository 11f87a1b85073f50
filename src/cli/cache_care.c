/*
 * cache_care.c - `hearth cache verify`, `gc`, `rm`, `pin`, `unpin` and `repair`, and `export` and `import`: a cached
 * prefix as one file, and back
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cache/upkeep.h"
#include "cli/cache_options.h"
#include "console/output.h"
#include "console/progress.h"
#include "options/commands.h"
#include "transfer/row_transfer.h"

typedef struct work {
    hth_progress progress;
    const char *label;
    hth_key key; /* rm, pin, unpin */
} work;

static bool show_progress(const hth_upkeep_progress *at, void *user_data)
{
    work *w = user_data;
    char detail[64], size[32];
    double fraction = 0;

    if (at->bytes_total > 0)
        fraction = (double)at->bytes / (double)at->bytes_total;
    else if (at->n_rows_total > 0)
        fraction = (double)at->n_rows / (double)at->n_rows_total;
    (void)snprintf(detail, sizeof(detail), "%" PRIu64 " rows, %s", at->n_rows, hth_size_text(at->bytes, size));
    hth_progress_draw(&w->progress, w->label, fraction < 1 ? fraction : 1, detail);
    return !hth_cache_command_interrupted();
}

static void print_counts(const hth_verify_counts *counts, bool as_json)
{
    if (as_json) {
        printf("{ \"sound\": %" PRIu64 ", \"unverifiable\": %" PRIu64 ", \"quarantined\": %" PRIu64
               ", \"gone\": %" PRIu64 " }\n",
               counts->sound, counts->unverifiable, counts->quarantined, counts->gone);
        return;
    }
    printf("sound    %" PRIu64 "\n", counts->sound + counts->unverifiable);
    if (counts->unverifiable > 0)
        printf("  alone  %" PRIu64 ", harmless: rows before them left, or longer ones took their place\n",
               counts->unverifiable);
    if (counts->gone > 0)
        printf("gone     %" PRIu64 ", harmless: they left meanwhile\n", counts->gone);
    printf("damaged  %" PRIu64 "%s\n", counts->quarantined,
           counts->quarantined > 0 ? ", now in the folder quarantine/" : "");
}

static int verify(const hth_cache_command_options *options, hth_file_tier_set *files, work *w)
{
    hearth_error err = { .message = "" };
    hth_verify_counts counts = { .sound = 0 };
    hearth_status status;

    hth_progress_draw(&w->progress, w->label, 0, "");
    status = hth_file_tiers_verify(hth_file_tier_set_roots(files), hth_file_tier_set_n_roots(files), show_progress, w,
                                   &counts, &err);
    hth_progress_end(&w->progress);
    print_counts(&counts, options->as_json);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    return counts.quarantined > 0 ? HTH_EXIT_FAILED : HTH_EXIT_OK;
}

/* Repair every root, even if one fails; the first failure is reported. */
static int repair(hth_file_tier_set *files, work *w)
{
    hearth_error err = { .message = "" };
    hth_index_totals totals;
    char n_rows[32], size[32];
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(files) && status != HEARTH_CANCELLED; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_repair(hth_file_tier_set_roots(files)[i], show_progress, w, &why);

        hth_progress_end(&w->progress);
        if (result == HEARTH_CANCELLED || (result != HEARTH_OK && status == HEARTH_OK)) {
            status = result;
            err = why;
        }
    }
    if (status == HEARTH_OK)
        status = hth_file_tier_set_totals(files, &totals, &err);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    printf("the index has %s, %s\n", hth_count_text(totals.rows, "row", n_rows), hth_size_text(totals.bytes, size));
    return HTH_EXIT_OK;
}

static int collect_garbage(const hth_cache_command_options *options, hth_file_tier_set *files, work *w)
{
    hearth_error err = { .message = "" };
    hth_index_totals totals;
    uint64_t n_evicted = 0;
    char n_rows[32], size[32];
    hearth_status status;

    hth_progress_say(&w->progress, "removing rows ...");
    status = hth_file_tier_set_gc(files, options->to_bytes, &n_evicted, &err);
    hth_progress_end(&w->progress);
    if (status == HEARTH_OK)
        status = hth_file_tier_set_totals(files, &totals, &err);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    printf("%s evicted, %s left\n", hth_count_text(n_evicted, "row", n_rows), hth_size_text(totals.bytes, size));
    return HTH_EXIT_OK;
}

/* Remove the rows of a key, of one kind or all. */
static int remove_rows(const hth_cache_command_options *options, hth_file_tier_set *files, work *w)
{
    hth_file_tier *const *roots = hth_file_tier_set_roots(files);
    size_t n_roots = hth_file_tier_set_n_roots(files);
    hearth_error why = { .message = "" };
    hearth_status unpinned;
    uint64_t n_removed = 0;
    char n_rows[32];

    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        hth_row_id id = { .key = w->key, .kind = (hth_row_kind)kind };
        hearth_error err = { .message = "" };
        hearth_status status;
        uint64_t n = 1;

        if (options->kind != HTH_ROW_KINDS && id.kind != options->kind)
            continue;
        if (options->with_descendants)
            status = hth_file_tiers_remove_tree(roots, n_roots, &id, show_progress, w, &n, &err);
        else
            status = hth_file_tier_set_remove(files, &id, &err);
        hth_progress_end(&w->progress);
        if (status == HEARTH_OK)
            n_removed += n;
        else if (status != HEARTH_NOT_FOUND)
            return hth_cache_command_fail(status, &err);
    }
    unpinned = hth_file_tiers_drop_pin(roots, n_roots, &w->key, &why);
    if (unpinned != HEARTH_OK)
        return hth_cache_command_fail(unpinned, &why);
    printf("%s removed\n", hth_count_text(n_removed, "row", n_rows));
    if (n_removed == 0)
        (void)fputs("hearth: the cache has no such row; 'hearth cache ls' lists its rows\n", stderr);
    return n_removed > 0 ? HTH_EXIT_OK : HTH_EXIT_FAILED;
}

/* Pin or unpin a prefix, and print what is pinned now. */
static int change_pin(const hth_cache_command_options *options, hth_file_tier_set *files, const work *w)
{
    hearth_error err = { .message = "" };
    hth_pins broken = { .keys = NULL };
    hth_pin_totals totals;
    char n_rows[32], bytes[32], most[32];
    hearth_status status = options->verb == HTH_CACHE_PIN ? hth_file_tier_set_pin(files, &w->key, &err)
                                                          : hth_file_tier_set_unpin(files, &w->key, &err);

    if (status == HEARTH_OK)
        status = hth_file_tier_set_pin_totals(files, &broken, &totals, &err);
    hth_pins_deinit(&broken);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    printf("%" PRIu64 "%s pinned: %s, %s", totals.prefixes, totals.prefixes == 1 ? " prefix is" : " prefixes are",
           hth_count_text(totals.rows, "row", n_rows), hth_size_text(totals.bytes, bytes));
    if (totals.bytes_max != UINT64_MAX)
        printf(" of at most %s", hth_size_text(totals.bytes_max, most));
    printf("\n");
    return HTH_EXIT_OK;
}

int hth_cache_care(const hth_cache_command_options *options)
{
    hearth_error err = { .message = "" };
    hth_file_tier_set *files = NULL;
    work w = { .label = options->verb == HTH_CACHE_VERIFY ? "verifying"
                      : options->verb == HTH_CACHE_REPAIR ? "repairing"
                                                          : "removing" };
    hearth_status status;
    int result;

    hth_cache_command_watch();
    hth_progress_init(&w.progress, !options->quiet);
    status = hth_cache_command_open(options, HTH_CACHE_TO_LOOK, &files, &err);
    if (status == HEARTH_OK && options->key_begin)
        status = hth_cache_command_find_key(options, files, &w.key, &err);
    if (status != HEARTH_OK) {
        hth_file_tier_set_close(files);
        result = hth_cache_command_fail(status, &err);
        return options->verb == HTH_CACHE_GC && status == HEARTH_NOT_FOUND ? HTH_EXIT_OK : result; /* nothing to do */
    }
    switch (options->verb) {
    case HTH_CACHE_VERIFY: result = verify(options, files, &w); break;
    case HTH_CACHE_REPAIR: result = repair(files, &w); break;
    case HTH_CACHE_PIN:
    case HTH_CACHE_UNPIN: result = change_pin(options, files, &w); break;
    case HTH_CACHE_GC: result = collect_garbage(options, files, &w); break;
    default: result = remove_rows(options, files, &w); break;
    }
    hth_file_tier_set_close(files);
    return hth_output_end(result);
}

/* ---- export and import ---- */

static bool show_transfer(uint64_t bytes_done, uint64_t bytes_total, void *user_data)
{
    work *w = user_data;
    char size[32];

    hth_progress_draw(&w->progress, w->label, bytes_total ? (double)bytes_done / (double)bytes_total : 0,
                      hth_size_text(bytes_done, size));
    return !hth_cache_command_interrupted();
}

static int export_prefix(const hth_cache_command_options *options, hth_file_tier_set *files, const hth_signing_key *key,
                         work *w)
{
    hth_export_options export_options = {
        .replace = options->replace,
        .signing_key = key,
        .progress = show_transfer,
        .progress_user_data = w,
    };
    hearth_error err = { .message = "" };
    hth_exported exported;
    hth_key end;
    char size[32], n_tokens[32], n_rows[32];
    hearth_status status = hth_cache_command_find_key(options, files, &end, &err);

    if (status == HEARTH_OK)
        status = hth_row_export(hth_file_tier_set_roots(files), hth_file_tier_set_n_roots(files), &end, options->file,
                                &export_options, &exported, &err);
    hth_progress_end(&w->progress);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    printf("%s in %s%s, %s\n", hth_count_text(exported.n_tokens, "token", n_tokens),
           hth_count_text(exported.n_rows, "row", n_rows), exported.has_logits ? " and their logits" : "",
           hth_size_text(exported.bytes, size));
    return HTH_EXIT_OK;
}

/* Import into the first root with room; if none has room, into the first that can make room. */
static hearth_status import_somewhere(hth_file_tier_set *files, const char *path, const hth_import_options *options,
                                      hth_imported *out, hearth_error *err)
{
    size_t n_roots = hth_file_tier_set_n_roots(files), with_room = n_roots;
    hearth_status status = HEARTH_FULL;
    hth_fs_stat st;

    /* The file is about as large as its rows. If it cannot be examined, the import below refuses it. */
    if (hth_fs_stat_path(hth_fs_system(), path, &st) == 0)
        with_room = hth_file_tier_set_with_room(files, st.bytes);
    if (with_room < n_roots)
        status = hth_row_import(hth_file_tier_set_roots(files)[with_room], path, options, out, err);
    for (size_t i = 0; i < n_roots && status == HEARTH_FULL; i++)
        if (i != with_room)
            status = hth_row_import(hth_file_tier_set_roots(files)[i], path, options, out, err);
    return status;
}

static int import_prefix(const hth_cache_command_options *options, hth_file_tier_set *files, const hth_signing_key *key,
                         work *w)
{
    hth_import_options import_options = {
        .signing_key = key,
        .progress = show_transfer,
        .progress_user_data = w,
    };
    hearth_error err = { .message = "" };
    char key_text[2 * HTH_KEY_BYTES + 1], n_tokens[32], n_rows[32];
    hth_imported imported;
    hearth_status status = import_somewhere(files, options->file, &import_options, &imported, &err);

    hth_progress_end(&w->progress);
    if (status != HEARTH_OK)
        return hth_cache_command_fail(status, &err);
    printf("%s: %s, %s, %zu of them new\n", hth_cache_command_key_text(&imported.key, false, key_text),
           hth_count_text(imported.n_tokens, "token", n_tokens), hth_count_text(imported.n_rows, "row", n_rows),
           imported.n_published);
    return HTH_EXIT_OK;
}

int hth_cache_transfer(const hth_cache_command_options *options)
{
    bool exports = options->verb == HTH_CACHE_EXPORT;
    work w = { .label = exports ? "exporting" : "importing" };
    hearth_error err = { .message = "" };
    hth_signing_key *key = NULL;
    hth_file_tier_set *files = NULL;
    hearth_status status = HEARTH_OK;
    int result;

    hth_cache_command_watch();
    hth_progress_init(&w.progress, !options->quiet);
    if (options->signing_key_file)
        status = hth_signing_key_load(NULL, options->signing_key_file, &key, &err);
    if (status == HEARTH_OK)
        status = hth_cache_command_open(options, exports ? HTH_CACHE_TO_LOOK : HTH_CACHE_TO_ADD, &files, &err);
    if (status != HEARTH_OK)
        result = hth_cache_command_fail(status, &err);
    else
        result = exports ? export_prefix(options, files, key, &w) : import_prefix(options, files, key, &w);
    hth_file_tier_set_close(files);
    hth_signing_key_free(key);
    return hth_output_end(result);
}
