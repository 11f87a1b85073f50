/*
 * cache_transfer.c - `hearth cache export` and `import`: a cached prefix as one file, and back
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cache_open.h"
#include "cli/cache_verbs.h"
#include "console/output.h"
#include "console/progress.h"
#include "options/commands.h"
#include "transfer/row_transfer.h"

typedef struct work {
    hth_progress progress;
    const char *label;
} work;

static bool show_progress(uint64_t bytes_done, uint64_t bytes_total, void *user_data)
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
        .progress = show_progress,
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
        .progress = show_progress,
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
