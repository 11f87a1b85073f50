/*
 * row_transfer_test.c - a cached prefix can be taken out as a file and put into another cache, where it hits
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "rows/kvc_signature.h"
#include "transfer/row_transfer.h"
#include "hearth.h"
#include "support/cmocka_all.h"
#include "support/made_row.h"
#include "support/support.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { N_PROMPT = 2 * HTH_BLOCK_TOKENS + 100, N_REPLY = 6, PATH_BYTES = 4096 };

/* ---- a conversation, and what it left in a cache ---- */

typedef struct reply {
    hearth_stats stats;
    char text[1024];
    hearth_token tokens[64];
} reply;

static hearth_token prompt[N_PROMPT + 64];

static reply ask_for(const char *directory, const char *model_path, size_t n_tokens, const uint8_t *parent_key,
                     int n_reply)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_runtime *runtime;
    hearth_model *model;
    const hearth_result *result;
    hearth_error err = { .message = "" };
    reply got;

    options.cache_directory = directory;
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.ram_bytes_max = 256 << 20;
    options.disk_free_min = 0;
    request.tokens = prompt;
    request.n_tokens = n_tokens;
    request.n_predict = n_reply;
    request.ignore_eos = true;
    request.no_cache_read = n_reply == 0;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.parent_key = parent_key;
    if (hearth_runtime_open(&options, &runtime, &err) != HEARTH_OK ||
        hearth_model_load(runtime, model_path, NULL, &model, &err) != HEARTH_OK ||
        hearth_complete(model, &request, &result, &err) != HEARTH_OK ||
        hearth_runtime_flush(runtime, 60000, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    got.stats = *result->stats;
    assert_true(result->n_bytes < sizeof(got.text));
    memcpy(got.text, result->text, result->n_bytes + 1);
    memcpy(got.tokens, result->tokens, result->stats->completion_tokens * sizeof(got.tokens[0]));
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return got;
}

/* A reply of N_REPLY tokens. Its tail supersedes the prompt's, which is then made once more. */
static reply ask(const char *directory, const char *model_path, size_t n_tokens, const uint8_t *parent_key)
{
    reply got = ask_for(directory, model_path, n_tokens, parent_key, N_REPLY);

    (void)ask_for(directory, model_path, n_tokens, NULL, 0);
    return got;
}

static hth_file_tier *open_tier(const char *directory)
{
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_MAX };
    hth_file_tier *tier;
    hearth_error err = { .message = "" };

    assert_ok(hth_file_tier_open(&options, &tier, &err), err);
    hth_file_tier_settle(tier);
    return tier;
}

/* One cache that a conversation filled, and its file. Made once; tests that change the rows put them back. */
static char *home;
static char cache_path[PATH_BYTES], file_path[PATH_BYTES];
static hth_file_tier *filled;
static reply first;
static hth_key prompt_key, finish_key;

static hth_signing_key *signing_key;

static const hth_export_options export_defaults;
static const hth_import_options import_defaults;

static void in_home(char path[PATH_BYTES], const char *name)
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", home, name);
}

static int set_up(void **state)
{
    static const uint8_t key_bytes[32] = { 7 };

    (void)state;
    home = hth_test_directory_new();
    in_home(cache_path, "filled");
    in_home(file_path, "prompt.kvc");
    for (size_t i = 0; i < sizeof(prompt) / sizeof(prompt[0]); i++)
        prompt[i] = (hearth_token)(i * 7 % 1000 + 5);
    signing_key = hth_hmac_key_new(key_bytes, sizeof(key_bytes));
    first = ask(cache_path, TINY, N_PROMPT, NULL);
    memcpy(prompt_key.bytes, first.stats.prompt_key, HTH_KEY_BYTES);
    memcpy(finish_key.bytes, first.stats.finish_key, HTH_KEY_BYTES);
    filled = open_tier(cache_path);
    return signing_key ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    hth_file_tier_close(filled);
    hth_signing_key_free(signing_key);
    hth_test_directory_remove(home);
    return 0;
}

static int no_file(void **state)
{
    (void)state;
    (void)unlink(file_path);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, no_file, NULL)

static hth_exported export_file(const hth_key *key, const hth_export_options *options)
{
    hth_exported exported;
    hearth_error err = { .message = "" };

    assert_ok(hth_row_export(&filled, 1, key, file_path, options, &exported, &err), err);
    return exported;
}

static hth_imported import_file(hth_file_tier *tier, const hth_import_options *options)
{
    hth_imported imported;
    hearth_error err = { .message = "" };

    assert_ok(hth_row_import(tier, file_path, options, &imported, &err), err);
    return imported;
}

static void assert_export_fails(const hth_key *key, const hth_export_options *options, hearth_status expected,
                                const char *said)
{
    hth_exported exported;
    hearth_error err = { .message = "" };

    assert_int_equal(hth_row_export(&filled, 1, key, file_path, options, &exported, &err), expected);
    if (!strstr(err.message, said))
        fail_msg("the message is: %s", err.message);
}

static void assert_import_fails(hth_file_tier *tier, const hth_import_options *options, hearth_status expected,
                                const char *said)
{
    hth_imported imported;
    hearth_error err = { .message = "" };

    assert_int_equal(hth_row_import(tier, file_path, options, &imported, &err), expected);
    if (!strstr(err.message, said))
        fail_msg("the message is: %s", err.message);
}

static uint64_t n_rows_in(hth_file_tier *tier)
{
    hth_index_totals totals;
    hearth_error err;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(tier), &totals, &err), HEARTH_OK);
    return totals.rows;
}

static bool count_name(const char *name, void *user_data)
{
    (void)name;
    (*(size_t *)user_data)++;
    return true;
}

static size_t n_files_in_home(void)
{
    size_t n = 0;

    assert_int_equal(hth_fs_list(hth_fs_system(), home, count_name, &n), 0);
    return n;
}

/* A file's bytes, malloc'ed. */
static uint8_t *load(const char *path, size_t *n_bytes)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *n_bytes = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*n_bytes + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n_bytes, file), *n_bytes);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static void store(const char *path, const uint8_t *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

/* ---- there and back ---- */

FIXTURE_TEST(an_imported_prompt_is_an_exact_hit_with_the_same_reply)
{
    hth_exported exported = export_file(&prompt_key, &export_defaults);
    char other[PATH_BYTES];
    hth_file_tier *tier;
    hth_imported imported;
    reply again;

    assert_int_equal(exported.n_tokens, N_PROMPT);
    assert_int_equal(exported.n_rows, 3);
    assert_true(exported.has_logits);

    in_home(other, "imported");
    tier = open_tier(other);
    imported = import_file(tier, &import_defaults);
    assert_true(hth_key_equal(&imported.key, &prompt_key));
    assert_int_equal(imported.n_tokens, N_PROMPT);
    assert_int_equal(imported.n_rows, 4);
    assert_int_equal(imported.n_published, 4);
    assert_true(imported.has_logits);
    imported = import_file(tier, &import_defaults);
    assert_int_equal(imported.n_rows, 4);
    assert_int_equal(imported.n_published, 0);
    hth_file_tier_close(tier);

    again = ask(other, TINY, N_PROMPT, NULL);
    assert_int_equal(again.stats.hit, HEARTH_HIT_EXACT);
    assert_int_equal(again.stats.tier, HEARTH_TIER_DISK);
    assert_int_equal(again.stats.cached_tokens, N_PROMPT);
    assert_int_equal(again.stats.n_prefill_evaluations, 0);
    assert_string_equal(again.text, first.text);
    assert_memory_equal(again.stats.finish_key, first.stats.finish_key, HTH_KEY_BYTES);
}

FIXTURE_TEST(an_imported_conversation_is_resumed_with_the_same_reply)
{
    hth_exported exported = export_file(&finish_key, &export_defaults);
    size_t n_next = N_PROMPT + N_REPLY + 20;
    char other[PATH_BYTES], cold[PATH_BYTES];
    hth_file_tier *tier;
    reply warm, alone;

    assert_int_equal(exported.n_tokens, first.stats.finish_tokens);
    in_home(other, "resumed");
    tier = open_tier(other);
    (void)import_file(tier, &import_defaults);
    hth_file_tier_close(tier);

    memcpy(prompt + N_PROMPT, first.tokens, N_REPLY * sizeof(prompt[0]));
    warm = ask(other, TINY, n_next, first.stats.finish_key);
    assert_int_equal(warm.stats.hit, HEARTH_HIT_RESUME);
    assert_int_equal(warm.stats.cached_tokens, first.stats.finish_tokens);
    in_home(cold, "cold");
    alone = ask(cold, TINY, n_next, NULL);
    assert_int_equal(alone.stats.hit, HEARTH_HIT_NONE);
    assert_string_equal(warm.text, alone.text);
}

FIXTURE_TEST(an_exported_file_is_a_plain_one_of_the_whole_prefix)
{
    hth_exported exported = export_file(&prompt_key, &export_defaults);
    size_t n_bytes;
    uint8_t *bytes = load(file_path, &n_bytes);
    hth_kvc_fault fault;
    hth_kvc_info info;

    assert_int_equal(n_bytes, exported.bytes);
    assert_true(hth_kvc_parse(bytes, n_bytes, &prompt_key, &info, &fault));
    assert_int_equal(info.first_position, 0);
    assert_int_equal(info.kind, HTH_ROW_SNAPSHOT);
    assert_int_equal(info.cached_token_count, N_PROMPT);
    assert_int_equal(hth_kvc_n_tokens(&info), N_PROMPT);
    for (size_t i = 0; i < N_PROMPT; i++)
        assert_int_equal(hth_kvc_token(&info, i), prompt[i]);
    assert_true(info.logits.n > 0);
    assert_null(info.hmac.data);
    assert_int_equal(info.prompt.n, 0);
    free(bytes);
}

FIXTURE_TEST(what_was_imported_is_exported_as_the_same_bytes)
{
    char other[PATH_BYTES];
    size_t n_bytes, n_again;
    uint8_t *bytes, *again;
    hth_exported exported;
    hearth_error err = { .message = "" };
    hth_file_tier *tier;

    (void)export_file(&finish_key, &export_defaults);
    bytes = load(file_path, &n_bytes);
    in_home(other, "there-and-back");
    tier = open_tier(other);
    (void)import_file(tier, &import_defaults);
    (void)unlink(file_path);
    assert_ok(hth_row_export(&tier, 1, &finish_key, file_path, &export_defaults, &exported, &err), err);
    again = load(file_path, &n_again);
    memset(bytes + HTH_KVC_LAST_USED_OFFSET, 0, 8);
    memset(again + HTH_KVC_LAST_USED_OFFSET, 0, 8);
    assert_int_equal(n_again, n_bytes);
    assert_memory_equal(again, bytes, n_bytes);
    hth_file_tier_close(tier);
    free(bytes);
    free(again);
}

FIXTURE_TEST(a_block_is_exported_with_what_it_stands_on_and_nothing_after)
{
    hth_key key;
    hth_exported exported;
    size_t n_bytes;
    uint8_t *bytes;
    hth_kvc_fault fault;
    hth_kvc_info info;

    (void)export_file(&prompt_key, &export_defaults);
    bytes = load(file_path, &n_bytes);
    assert_true(hth_kvc_parse(bytes, n_bytes, NULL, &info, &fault));
    assert_true(hth_key_of(&info.keyspace, prompt, HTH_BLOCK_TOKENS, &key));
    free(bytes);
    (void)unlink(file_path);

    exported = export_file(&key, &export_defaults);
    assert_int_equal(exported.n_tokens, HTH_BLOCK_TOKENS);
    assert_int_equal(exported.n_rows, 1);
    assert_false(exported.has_logits);
    bytes = load(file_path, &n_bytes);
    assert_true(hth_kvc_parse(bytes, n_bytes, &key, &info, &fault));
    free(bytes);
}

FIXTURE_TEST(without_logits_the_prefix_hits_and_its_last_chunk_is_evaluated)
{
    hth_export_options options = { .without_logits = true };
    hth_exported exported = export_file(&prompt_key, &options);
    char other[PATH_BYTES];
    hth_file_tier *tier;
    reply again;

    assert_false(exported.has_logits);
    in_home(other, "without-logits");
    tier = open_tier(other);
    assert_false(import_file(tier, &import_defaults).has_logits);
    hth_file_tier_close(tier);
    again = ask(other, TINY, N_PROMPT, NULL);
    assert_int_equal(again.stats.hit, HEARTH_HIT_PREFIX);
    assert_int_equal(again.stats.cached_tokens, N_PROMPT / 256 * 256); /* as it was evaluated when it was cold */
}

FIXTURE_TEST(rows_are_found_in_whichever_tier_has_them)
{
    char other[PATH_BYTES];
    hth_file_tier *tiers[2];
    hth_row_id tail = { .key = prompt_key, .kind = HTH_ROW_TAIL };
    hth_exported exported;
    hearth_error err = { .message = "" };

    (void)export_file(&prompt_key, &export_defaults);
    in_home(other, "without-tail");
    tiers[0] = open_tier(other);
    tiers[1] = filled;
    (void)import_file(tiers[0], &import_defaults);
    assert_int_equal(hth_file_tier_remove(tiers[0], &tail, &err), HEARTH_OK);
    (void)unlink(file_path);
    assert_int_equal(hth_row_export(tiers, 1, &prompt_key, file_path, &export_defaults, &exported, &err),
                     HEARTH_NOT_FOUND);
    assert_int_equal(hth_row_export(tiers, 2, &prompt_key, file_path, &export_defaults, &exported, &err), HEARTH_OK);
    assert_int_equal(exported.n_tokens, N_PROMPT);
    hth_file_tier_close(tiers[0]);
}

/* ---- snapshots, and rows that cannot be joined ---- */

FIXTURE_TEST(prefixes_of_models_with_recurrent_layers_are_refused_with_a_reason)
{
    static const char model[] = "stub:kind=hybrid";
    hearth_token kept[N_PROMPT];
    char from[PATH_BYTES];
    hth_file_tier *tier;
    hth_exported exported;
    hearth_error err = { .message = "" };
    reply cold;
    hth_key key;

    memcpy(kept, prompt, sizeof(kept));
    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] %= 250;
    in_home(from, "hybrid");
    cold = ask(from, model, N_PROMPT, NULL);
    memcpy(prompt, kept, sizeof(kept));
    memcpy(key.bytes, cold.stats.prompt_key, HTH_KEY_BYTES);
    tier = open_tier(from);
    assert_int_equal(hth_row_export(&tier, 1, &key, file_path, &export_defaults, &exported, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "recurrent"));
    assert_int_not_equal(access(file_path, F_OK), 0);
    hth_file_tier_close(tier);
}

FIXTURE_TEST(rows_of_an_engine_with_other_states_are_refused_with_a_reason)
{
    char from[PATH_BYTES];
    hth_file_tier *tier;
    hth_exported exported;
    hearth_error err = { .message = "" };
    hth_key key = { { 0 } };

    in_home(from, "other-engine");
    tier = open_tier(from);
    for (uint32_t i = 0; i < 3; i++) {
        test_row row = test_row_make(1, i, 1000);

        assert_int_equal(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, NULL, &err), HEARTH_OK);
        key = row.meta.id.key;
        test_row_free(&row);
    }
    assert_int_equal(hth_row_export(&tier, 1, &key, file_path, &export_defaults, &exported, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cannot be joined"));
    assert_int_not_equal(access(file_path, F_OK), 0);
    hth_file_tier_close(tier);
}

FIXTURE_TEST(blocks_that_stand_on_a_recurrent_state_are_refused)
{
    hth_row_id id = { .key = prompt_key, .kind = HTH_ROW_STATE };
    hth_row_meta tail, meta;
    hth_kvc_fault fault;
    hth_kvc_info info;
    hearth_error err;
    char path[PATH_BYTES];
    uint8_t *bytes, file[4096];
    size_t n_bytes;

    assert_true(hth_file_tier_has(filled, &(hth_row_id){ .key = prompt_key, .kind = HTH_ROW_TAIL }, &tail));
    assert_true(hth_file_tier_path(filled, &tail.id, path, sizeof(path)));
    bytes = load(path, &n_bytes);
    assert_true(hth_kvc_parse(bytes, n_bytes, NULL, &info, &fault));
    info.kind = HTH_ROW_STATE;
    info.parent = prompt_key;
    info.first_position = N_PROMPT;
    info.tokens.n = 0;
    meta = (hth_row_meta){ .id = id, .parent = prompt_key, .first_position = N_PROMPT };
    meta.bytes = hth_kvc_head_bytes(&info) + 8;
    assert_true(meta.bytes <= sizeof(file));
    memset(file, 0, sizeof(file));
    hth_kvc_encode_head(&info, 8, hth_crc32c(0, file, 8), file);
    assert_int_equal(hth_file_tier_publish(filled, &meta, file, (size_t)meta.bytes, NULL, &err), HEARTH_OK);
    free(bytes);
    assert_export_fails(&prompt_key, &export_defaults, HEARTH_UNSUPPORTED, "recurrent layers");
    assert_int_equal(hth_file_tier_remove(filled, &id, &err), HEARTH_OK);
}

/* ---- refusals ---- */

FIXTURE_TEST(a_key_that_names_no_row_is_not_found)
{
    hth_key key = { { 1, 2, 3 } };

    assert_export_fails(&key, &export_defaults, HEARTH_NOT_FOUND, "0102030000");
}

FIXTURE_TEST(a_file_that_exists_is_replaced_only_on_request)
{
    hth_export_options options = { .replace = true };
    size_t n_bytes;
    uint8_t *bytes;

    store(file_path, (const uint8_t *)"mine", 4);
    assert_export_fails(&prompt_key, &export_defaults, HEARTH_MISUSE, "exists already");
    bytes = load(file_path, &n_bytes);
    assert_int_equal(n_bytes, 4);
    free(bytes);
    assert_int_equal(export_file(&prompt_key, &options).n_tokens, N_PROMPT);
}

FIXTURE_TEST(a_file_that_its_folder_has_no_room_for_is_not_begun)
{
    size_t n_files;
    hth_folder_limits limits = { .bytes_max = 1 };
    hth_export_options options = { .replace = true, .limits = &limits };
    char other[PATH_BYTES];
    uint64_t n_bytes;

    in_home(other, "other.kvc");
    store(other, (const uint8_t *)"mine", 4);
    n_files = n_files_in_home();
    assert_export_fails(&prompt_key, &options, HEARTH_FULL, "no room for");
    assert_int_equal(n_files_in_home(), n_files);

    limits.bytes_max = UINT64_MAX;
    n_bytes = export_file(&prompt_key, &options).bytes;
    /* The file that is replaced does not count. */
    limits.bytes_max = n_bytes + 4;
    assert_int_equal(export_file(&prompt_key, &options).bytes, n_bytes);
    limits.bytes_max--;
    assert_export_fails(&prompt_key, &options, HEARTH_FULL, "no room for");
    assert_int_equal(n_files_in_home(), n_files + 1);
    limits = (hth_folder_limits){ .free_min = UINT64_MAX };
    assert_export_fails(&prompt_key, &options, HEARTH_FULL, "are to stay free");
    assert_int_equal(n_files_in_home(), n_files + 1);
    assert_int_equal(unlink(other), 0);
}

FIXTURE_TEST(a_missing_block_is_told_with_a_remedy)
{
    hth_row_id id = { .kind = HTH_ROW_BLOCK };
    char path[PATH_BYTES], aside[PATH_BYTES + 8];
    hth_row_meta tail;

    assert_true(hth_file_tier_has(filled, &(hth_row_id){ .key = prompt_key, .kind = HTH_ROW_TAIL }, &tail));
    id.key = tail.parent;
    assert_true(hth_file_tier_path(filled, &id, path, sizeof(path)));
    (void)snprintf(aside, sizeof(aside), "%s.aside", path);
    assert_int_equal(rename(path, aside), 0);
    assert_export_fails(&prompt_key, &export_defaults, HEARTH_NOT_FOUND, "let the model read the prompt again");
    assert_int_not_equal(access(file_path, F_OK), 0);
    assert_int_equal(rename(aside, path), 0);
    (void)export_file(&prompt_key, &export_defaults);
}

FIXTURE_TEST(a_damaged_row_is_named_and_no_file_is_left)
{
    uint64_t random = hth_test_seed();
    hth_row_id id = { .key = prompt_key, .kind = HTH_ROW_TAIL };
    size_t n_files = n_files_in_home(), n_bytes;
    char path[PATH_BYTES];
    uint8_t *bytes;

    assert_true(hth_file_tier_path(filled, &id, path, sizeof(path)));
    bytes = load(path, &n_bytes);
    for (int i = 0; i < 50; i++) {
        size_t at = 40 + hth_test_random(&random, n_bytes - 40);

        bytes[at] ^= 0x40;
        store(path, bytes, n_bytes);
        assert_export_fails(&prompt_key, &export_defaults, HEARTH_CORRUPT, "cannot be used");
        assert_int_equal(n_files_in_home(), n_files);
        bytes[at] ^= 0x40;
    }
    store(path, bytes, n_bytes);
    free(bytes);
    (void)export_file(&prompt_key, &export_defaults);
}

typedef struct patience {
    int n_calls;
    int n_calls_max;
    uint64_t done;
    uint64_t total;
} patience;

static bool wait_a_while(uint64_t bytes_done, uint64_t bytes_total, void *user_data)
{
    patience *p = user_data;

    assert_true(bytes_done >= p->done);
    assert_true(bytes_done <= bytes_total);
    assert_true(p->n_calls == 0 || p->total == bytes_total);
    p->done = bytes_done;
    p->total = bytes_total;
    return p->n_calls++ < p->n_calls_max;
}

FIXTURE_TEST(a_transfer_can_be_watched_and_cancelled_at_any_time)
{
    size_t n_files = n_files_in_home();
    hth_export_options out = { .progress = wait_a_while };
    hth_import_options in = { .progress = wait_a_while };
    hearth_status status = HEARTH_CANCELLED;
    hearth_error err = { .message = "" };
    char other[PATH_BYTES];
    hth_file_tier *tier;
    patience p;

    for (int n = 0; status != HEARTH_OK; n += 1 + n / 4) {
        hth_exported exported;

        p = (patience){ .n_calls_max = n };
        out.progress_user_data = &p;
        status = hth_row_export(&filled, 1, &prompt_key, file_path, &out, &exported, &err);
        if (status != HEARTH_OK) {
            assert_int_equal(status, HEARTH_CANCELLED);
            assert_int_equal(n_files_in_home(), n_files);
        }
    }
    assert_true(p.done == p.total);

    in_home(other, "cancelled");
    tier = open_tier(other);
    status = HEARTH_CANCELLED;
    for (int n = 0; status != HEARTH_OK; n++) {
        hth_imported imported;

        p = (patience){ .n_calls_max = n };
        in.progress_user_data = &p;
        status = hth_row_import(tier, file_path, &in, &imported, &err);
        assert_true(status == HEARTH_OK || status == HEARTH_CANCELLED);
        assert_true(status == HEARTH_OK || n_rows_in(tier) == (uint64_t)(n < 4 ? n + 1 : 4));
    }
    assert_true(p.done == p.total);
    hth_file_tier_close(tier);
}

FIXTURE_TEST(a_damaged_file_is_refused_and_leaves_nothing_in_the_cache)
{
    uint64_t random = hth_test_seed();
    char other[PATH_BYTES];
    hth_file_tier *tier;
    size_t n_bytes;
    uint8_t *bytes;

    (void)export_file(&prompt_key, &export_defaults);
    bytes = load(file_path, &n_bytes);
    in_home(other, "damaged");
    tier = open_tier(other);
    for (int i = 0; i < 50; i++) {
        size_t at = 40 + hth_test_random(&random, n_bytes - 40);

        bytes[at] ^= 1;
        store(file_path, bytes, n_bytes);
        assert_import_fails(tier, &import_defaults, HEARTH_CORRUPT, "cannot be imported");
        bytes[at] ^= 1;
        store(file_path, bytes, hth_test_random(&random, n_bytes));
        assert_import_fails(tier, &import_defaults, HEARTH_CORRUPT, "cannot be imported");
    }
    store(file_path, bytes, 0);
    assert_import_fails(tier, &import_defaults, HEARTH_CORRUPT, "cannot be imported");
    (void)unlink(file_path);
    assert_import_fails(tier, &import_defaults, HEARTH_NOT_FOUND, file_path);
    assert_int_equal(symlink("/dev/null", file_path), 0);
    assert_import_fails(tier, &import_defaults, HEARTH_CORRUPT, "symbolic link");
    assert_int_equal(n_rows_in(tier), 0);
    hth_file_tier_close(tier);
    free(bytes);
}

FIXTURE_TEST(files_that_are_no_whole_prefix_of_this_model_are_refused)
{
    hth_row_id tail = { .key = prompt_key, .kind = HTH_ROW_TAIL },
               logits = { .key = prompt_key, .kind = HTH_ROW_LOGITS };
    hth_keyspace other_model = { .fingerprint = { 1 } };
    hth_import_options options = { .keyspace = &other_model };
    char other[PATH_BYTES], path[PATH_BYTES];
    hth_file_tier *tier;
    size_t n_bytes;
    uint8_t *bytes;

    in_home(other, "refused");
    tier = open_tier(other);
    (void)export_file(&prompt_key, &export_defaults);
    assert_import_fails(tier, &options, HEARTH_UNSUPPORTED, "another model");
    for (int i = 0; i < 2; i++) {
        assert_true(hth_file_tier_path(filled, i == 0 ? &tail : &logits, path, sizeof(path)));
        bytes = load(path, &n_bytes);
        store(file_path, bytes, n_bytes);
        free(bytes);
        assert_import_fails(tier, &import_defaults, HEARTH_UNSUPPORTED, "from the middle");
    }
    (void)snprintf(path, sizeof(path), "%s/kvc/k04-finish-512.kvc", HTH_TEST_FIXTURES "/kvc");
    bytes = load(path, &n_bytes);
    store(file_path, bytes, n_bytes);
    free(bytes);
    assert_import_fails(tier, &import_defaults, HEARTH_UNSUPPORTED, "cannot be cut");
    assert_int_equal(n_rows_in(tier), 0);
    hth_file_tier_close(tier);
}

/* ---- signatures ---- */

/* The same file, signed, as its writer would have made it with the key. */
static void sign_file(void)
{
    hth_kvc_fault fault;
    hth_kvc_info info;
    size_t n_bytes, n_head, n_image;
    uint8_t *bytes = load(file_path, &n_bytes), *file;

    assert_true(hth_kvc_parse(bytes, n_bytes, NULL, &info, &fault));
    info.hmac = hth_kvc_signature_room();
    n_head = hth_kvc_head_bytes(&info);
    n_image = (size_t)info.image_byte_count;
    file = malloc(n_head + n_image);
    assert_non_null(file);
    hth_kvc_encode_head(&info, n_image, info.image_crc32c, file);
    memcpy(file + n_head, bytes + info.image_offset, n_image);
    assert_true(hth_kvc_sign(file, n_head + n_image, signing_key));
    store(file_path, file, n_head + n_image);
    free(file);
    free(bytes);
}

FIXTURE_TEST(with_a_key_only_what_is_signed_goes_in_or_out_and_stays_signed)
{
    static const uint8_t other_bytes[32] = { 8 };
    hth_signing_key *other_key = hth_hmac_key_new(other_bytes, sizeof(other_bytes));
    hth_export_options out = { .signing_key = signing_key };
    hth_import_options in = { .signing_key = signing_key }, in_other = { .signing_key = other_key };
    char other[PATH_BYTES];
    hth_exported exported;
    hearth_error err = { .message = "" };
    hth_kvc_fault fault;
    hth_kvc_info info;
    hth_file_tier *tier;
    size_t n_bytes;
    uint8_t *bytes;

    assert_non_null(other_key);
    assert_export_fails(&prompt_key, &out, HEARTH_CORRUPT, "is not signed");
    (void)export_file(&prompt_key, &export_defaults);
    in_home(other, "signed");
    tier = open_tier(other);
    assert_import_fails(tier, &in, HEARTH_CORRUPT, "is not signed");
    sign_file();
    assert_import_fails(tier, &in_other, HEARTH_CORRUPT, "another key");
    assert_int_equal(n_rows_in(tier), 0);
    assert_int_equal(import_file(tier, &in).n_published, 4);

    (void)unlink(file_path);
    assert_ok(hth_row_export(&tier, 1, &prompt_key, file_path, &out, &exported, &err), err);
    bytes = load(file_path, &n_bytes);
    assert_true(hth_kvc_parse(bytes, n_bytes, &prompt_key, &info, &fault));
    assert_true(hth_kvc_verify_signature(bytes, n_bytes, &info, signing_key, &fault));
    free(bytes);
    hth_file_tier_close(tier);
    hth_signing_key_free(other_key);
    /* Who has no key reads signed rows like others. */
    assert_int_equal(ask(other, TINY, N_PROMPT, NULL).stats.hit, HEARTH_HIT_EXACT);
}

GROUP(with_models, set_up, tear_down)
