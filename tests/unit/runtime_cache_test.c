/*
 * runtime_cache_test.c - watching and steering the cache through the public API, and the options that say where rows go
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PROMPT_BYTES = 700, ROWS_OF_PROMPT = 5 }; /* two blocks, two tails, of which one goes, and logits */

typedef struct fixture {
    char *directory;
    char *other_directory;
    hearth_runtime_options options;
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->other_directory = hth_test_directory_new();
    f->options = hth_test_runtime_options(f->directory);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
    hth_test_directory_remove(f->other_directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* One request for five tokens, in a model of its own; the stats of it. */
static hearth_stats ask(hearth_runtime *runtime, const char *prompt)
{
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy(prompt, 5);
    const hearth_result *result = hth_test_complete(model, &request);
    hearth_stats stats = *result->stats;

    hearth_result_unref(result);
    hth_test_model_end(runtime, model);
    hth_test_flush(runtime);
    return stats;
}

/* The same in a runtime that is opened for it and closed. */
static hearth_stats ask_anew(const hearth_runtime_options *options, const char *prompt)
{
    hearth_runtime *runtime = hth_test_runtime_open(options);
    hearth_stats stats = ask(runtime, prompt);

    hearth_runtime_close(runtime);
    return stats;
}

/* ---- where rows go ---- */

FIXTURE_TEST(a_second_runtime_finds_rows_in_memory_files_before_those_on_disk)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_stats warm;

    f->options.ram_file_directory = f->other_directory;
    f->options.ram_file_free_min = 0;
    (void)ask_anew(&f->options, prompt);
    assert_true(hth_test_n_files(f->directory, ".kvc") > 0);
    assert_int_equal(hth_test_n_files(f->other_directory, ".kvc"), hth_test_n_files(f->directory, ".kvc"));
    warm = ask_anew(&f->options, prompt);
    assert_int_equal(warm.hit, HEARTH_HIT_EXACT);
    assert_int_equal(warm.tier, HEARTH_TIER_RAM_FILE);

    /* Lost memory files, as after a start of the machine, are filled again from the disk. */
    hth_test_directory_remove(f->other_directory);
    f->other_directory = hth_test_directory_new();
    f->options.ram_file_directory = f->other_directory;
    assert_int_equal(ask_anew(&f->options, prompt).tier, HEARTH_TIER_DISK);
    assert_int_equal(ask_anew(&f->options, prompt).tier, HEARTH_TIER_RAM_FILE);
    free(prompt);
}

FIXTURE_TEST(rows_are_spread_over_all_directories_and_found_in_each)
{
    enum { PROMPTS = 16 };
    const char *more[1] = { f->other_directory };
    hearth_counters counters;
    hearth_runtime *runtime;
    char *prompts[PROMPTS];

    f->options.more_directories = more;
    f->options.n_more_directories = 1;
    runtime = hth_test_runtime_open(&f->options);
    for (unsigned i = 0; i < PROMPTS; i++) {
        prompts[i] = hth_test_prompt(300, i);
        (void)ask(runtime, prompts[i]);
    }
    counters = hth_test_counters(runtime);
    hearth_runtime_close(runtime);
    assert_true(hth_test_n_files(f->directory, ".kvc") > 0);
    assert_true(hth_test_n_files(f->other_directory, ".kvc") > 0);
    assert_int_equal(hth_test_n_files(f->directory, ".kvc") + hth_test_n_files(f->other_directory, ".kvc"),
                     counters.disk_rows);
    runtime = hth_test_runtime_open(&f->options);
    for (unsigned i = 0; i < PROMPTS; i++) {
        assert_int_equal(ask(runtime, prompts[i]).hit, HEARTH_HIT_EXACT);
        free(prompts[i]);
    }
    hearth_runtime_close(runtime);
}

FIXTURE_TEST(the_index_is_where_it_is_wanted)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    char path[4096];
    FILE *file;

    f->options.index_directory = f->other_directory;
    (void)ask_anew(&f->options, prompt);
    assert_int_equal(ask_anew(&f->options, prompt).hit, HEARTH_HIT_EXACT);
    (void)snprintf(path, sizeof(path), "%s/index", f->directory);
    file = fopen(path, "re");
    assert_null(file);
    free(prompt);
}

FIXTURE_TEST(a_row_is_written_when_it_is_used_where_second_use_is_asked_for)
{
    hearth_model_options options = hearth_model_options_default();
    char *first = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_request request = hth_test_greedy(first, 5);
    hearth_runtime *runtime;
    hearth_model *model;
    const hearth_result *result;

    f->options.save_on_second_use = true;
    runtime = hth_test_runtime_open(&f->options);
    options.n_ctx = 2 * PROMPT_BYTES; /* no room for both prompts */
    model = hth_test_model_load(runtime, "stub:", &options);
    for (uint32_t i = 0; i < 2; i++) {
        char *prompt = hth_test_prompt(PROMPT_BYTES, i);

        request.prompt = prompt;
        result = hth_test_complete(model, &request);
        hearth_result_unref(result);
        free(prompt);
    }
    hth_test_flush(runtime);
    assert_int_equal(hth_test_n_files(f->directory, ".kvc"), 0);

    request.prompt = first;
    result = hth_test_complete(model, &request);
    assert_int_equal(result->stats->tier, HEARTH_TIER_RAM);
    hearth_result_unref(result);
    hth_test_flush(runtime);
    assert_int_equal(hth_test_n_files(f->directory, "-block.kvc"), 2);
    assert_int_equal(hth_test_n_files(f->directory, "-logits.kvc"), 1);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    assert_int_equal(ask_anew(&f->options, first).hit, HEARTH_HIT_EXACT);
    free(first);
}

FIXTURE_TEST(options_out_of_range_are_refused_by_name)
{
    static const char *const none[1] = { NULL };
    hearth_runtime *runtime = NULL;
    hearth_runtime_options options = f->options;
    hearth_error err;

    options.n_writer_threads = 0;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_writer_threads"));
    options.n_writer_threads = 17;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    options = f->options;
    options.write_queue_rows_max = 0;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "write_queue_rows_max"));
    options = f->options;
    options.more_directories = none;
    options.n_more_directories = 1;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "more_directories[0]"));
    options.n_more_directories = 16;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_more_directories"));
    options.more_directories = NULL;
    options.n_more_directories = 2;
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_MISUSE);
    assert_string_equal(err.message, "n_more_directories is 2, but more_directories is NULL");
    options = f->options;
    options.signing_key_file = "/nonexistent/key";
    assert_int_equal(hearth_runtime_open(&options, &runtime, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/key"));
    assert_null(runtime);
}

/* ---- what is saved ---- */

/* Complete one prompt under a policy; what was saved. */
static hearth_counters saved_under(fixture *f, const char *path, const hearth_cache_policy *policy, size_t n_prompt)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    char *prompt = hth_test_prompt(n_prompt, 0);
    hearth_request request = hth_test_greedy(prompt, 5);
    hearth_model *model;
    const hearth_result *result;
    hearth_counters counters;

    options.cache_policy = policy;
    model = hth_test_model_load(runtime, path, &options);
    result = hth_test_complete(model, &request);
    hth_test_flush(runtime);
    counters = hth_test_counters(runtime);
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    free(prompt);
    return counters;
}

FIXTURE_TEST(a_prompt_below_min_tokens_is_not_saved)
{
    hearth_cache_policy policy = hearth_cache_policy_default();

    assert_true(saved_under(f, "stub:", &policy, PROMPT_BYTES).rows_saved >= ROWS_OF_PROMPT);
    policy.min_tokens = policy.cold_min_tokens = 1000;
    f->options.cache_directory = f->other_directory;
    assert_int_equal(saved_under(f, "stub:", &policy, PROMPT_BYTES).rows_saved, 0);
    assert_int_equal(hth_test_n_files(f->other_directory, ".kvc"), 0);
}

FIXTURE_TEST(a_prompt_that_is_not_to_be_saved_leaves_no_row_that_stands_on_nothing)
{
    hearth_cache_policy policy = hearth_cache_policy_default();

    policy.cold_max_tokens = 600;
    assert_int_equal(saved_under(f, "stub:", &policy, PROMPT_BYTES).rows_saved, 0);
    policy = hearth_cache_policy_default();
    policy.cold_min_tokens = 800;
    assert_int_equal(saved_under(f, "stub:", &policy, PROMPT_BYTES).rows_saved, 0);
    policy = hearth_cache_policy_default();
    policy.boundary_trim_tokens = 300; /* the second block and the tail */
    assert_int_equal(saved_under(f, "stub:", &policy, PROMPT_BYTES).rows_saved, 1);
    assert_int_equal(hth_test_n_files(f->directory, ".kvc"), 1);
}

FIXTURE_TEST(states_are_saved_every_snapshot_interval)
{
    hearth_cache_policy policy = hearth_cache_policy_default();
    uint64_t rare = saved_under(f, "stub:kind=recurrent", &policy, 2100).rows_saved;

    policy.snapshot_interval = 256;
    f->options.cache_directory = f->other_directory;
    assert_int_equal(rare + 6, saved_under(f, "stub:kind=recurrent", &policy, 2100).rows_saved); /* 8 instead of 2 */
}

FIXTURE_TEST(a_wrong_policy_is_refused_with_the_name_of_its_key)
{
    static const struct {
        const char *key;
        hearth_cache_policy policy;
    } wrong[] = {
        { "min_tokens", { sizeof(hearth_cache_policy), -1, 32, 0, 256, 0, 256, 1024 } },
        { "cold_min_tokens", { sizeof(hearth_cache_policy), 64, 32, 0, 256, 0, 256, 1024 } },
        { "cold_max_tokens", { sizeof(hearth_cache_policy), 32, 64, 63, 256, 0, 256, 1024 } },
        { "continued_interval", { sizeof(hearth_cache_policy), 32, 32, 0, 0, 0, 256, 1024 } },
        { "boundary_trim_tokens", { sizeof(hearth_cache_policy), 32, 32, 0, 256, -1, 256, 1024 } },
        { "boundary_align_tokens", { sizeof(hearth_cache_policy), 32, 32, 0, 256, 0, 0, 1024 } },
        { "snapshot_interval", { sizeof(hearth_cache_policy), 32, 32, 0, 256, 0, 256, 0 } },
        { "snapshot_interval", { sizeof(hearth_cache_policy), 32, 32, 0, 256, 0, 256, 300 } },
    };
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hearth_model_options options = hearth_model_options_default();
        hearth_model *model = NULL;
        hearth_error err;

        options.cache_policy = &wrong[i].policy;
        assert_int_equal(hearth_model_load(runtime, "stub:", &options, &model, &err), HEARTH_MISUSE);
        if (!strstr(err.message, wrong[i].key))
            fail_msg("'%s' does not name %s", err.message, wrong[i].key);
        assert_null(model);
    }
    hearth_runtime_close(runtime);
}

/* ---- counters and times ---- */

FIXTURE_TEST(counters_tell_hits_by_tier_and_saves_by_reason)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_counters counters;

    (void)ask(runtime, prompt);
    counters = hth_test_counters(runtime);
    assert_int_equal(counters.requests, 1);
    assert_int_equal(counters.misses, 1);
    assert_int_equal(counters.tokens_prompt, PROMPT_BYTES + 1);
    assert_int_equal(counters.saves_by_reason[HEARTH_SAVE_COLD], 4);   /* two blocks, the tail, logits */
    assert_int_equal(counters.saves_by_reason[HEARTH_SAVE_FINISH], 1); /* the tail after the reply */
    assert_int_equal(counters.rows_saved, ROWS_OF_PROMPT);
    assert_int_equal(counters.rows_removed, 1);
    assert_int_equal(counters.disk_rows, ROWS_OF_PROMPT - 1);
    assert_int_equal(counters.disk_rows, hth_test_n_files(f->directory, ".kvc"));
    assert_int_equal(counters.ram_rows, ROWS_OF_PROMPT - 1);
    assert_int_equal(counters.write_queue_rows, 0);
    assert_int_equal(counters.write_queue_bytes, 0);
    (void)ask(runtime, prompt);
    counters = hth_test_counters(runtime);
    assert_int_equal(counters.hits_exact, 1);
    assert_int_equal(counters.hits_by_tier[HEARTH_TIER_RAM], 1);
    hearth_runtime_close(runtime);

    runtime = hth_test_runtime_open(&f->options);
    (void)ask(runtime, prompt);
    counters = hth_test_counters(runtime);
    assert_int_equal(counters.hits_by_tier[HEARTH_TIER_DISK], 1);
    assert_int_equal(counters.hits_by_tier[HEARTH_TIER_RAM], 0);
    assert_true(counters.rows_restored >= 4);
    hearth_runtime_close(runtime);
    free(prompt);
}

FIXTURE_TEST(a_reset_begins_at_zero_but_what_is_there_now_stays)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_times times = { .struct_size = sizeof(times) };
    hearth_counters before, after;

    (void)ask(runtime, prompt);
    assert_int_equal(hearth_runtime_evict(runtime, 1, HEARTH_EVICT_RAM, NULL, NULL), HEARTH_OK);
    before = hth_test_counters(runtime);
    assert_true(before.rows_evicted > 0);
    assert_int_equal(hearth_runtime_counters_reset(runtime, NULL), HEARTH_OK);
    after = hth_test_counters(runtime);
    assert_int_equal(after.requests + after.misses + after.tokens_prompt + after.rows_saved + after.rows_written, 0);
    assert_int_equal(after.rows_evicted + after.rows_removed + after.saves_by_reason[HEARTH_SAVE_COLD], 0);
    assert_int_equal(after.ram_rows, before.ram_rows);
    assert_int_equal(after.disk_rows, before.disk_rows);
    assert_int_equal(after.disk_bytes, before.disk_bytes);
    for (int path = 0; path < HEARTH_PATHS; path++) {
        assert_int_equal(hearth_runtime_times(runtime, (hearth_path)path, &times, NULL), HEARTH_OK);
        assert_int_equal(times.count, 0);
        assert_int_equal(times.max_ns, 0);
    }
    (void)ask(runtime, prompt);
    assert_int_equal(hth_test_counters(runtime).requests, 1);
    hearth_runtime_close(runtime);
    free(prompt);
}

FIXTURE_TEST(each_path_has_its_times)
{
    static const char *const names[HEARTH_PATHS] = { "lookup", "read", "unpack", "pack", "write" };
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_runtime *runtime;
    hearth_times times = { .struct_size = sizeof(times) };
    uint64_t counts[HEARTH_PATHS];

    for (int path = 0; path < HEARTH_PATHS; path++)
        assert_string_equal(hearth_path_name((hearth_path)path), names[path]);
    assert_string_equal(hearth_path_name((hearth_path)77), "unknown");

    for (int run = 0; run < 2; run++) {
        runtime = hth_test_runtime_open(&f->options);
        (void)ask(runtime, prompt);
        for (int path = 0; path < HEARTH_PATHS; path++) {
            assert_int_equal(hearth_runtime_times(runtime, (hearth_path)path, &times, NULL), HEARTH_OK);
            counts[path] = times.count;
            assert_true(times.p50_ns <= times.p90_ns);
            assert_true(times.p90_ns <= times.p99_ns);
            assert_true(times.p99_ns <= times.max_ns + times.max_ns / 4 + 1);
            assert_true(times.total_ns >= times.max_ns);
            assert_true(times.total_ns <= times.count * times.max_ns);
        }
        assert_true(counts[HEARTH_PATH_LOOKUP] > 0);
        assert_int_equal(counts[HEARTH_PATH_PACK] > 0, run == 0);
        assert_int_equal(counts[HEARTH_PATH_WRITE] > 0, run == 0);
        assert_int_equal(counts[HEARTH_PATH_READ] > 0, run == 1);
        assert_int_equal(counts[HEARTH_PATH_UNPACK] > 0, run == 1);
        hearth_runtime_close(runtime);
    }
    free(prompt);
}

FIXTURE_TEST(a_caller_of_an_older_version_gets_the_fields_that_it_knows)
{
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_counters counters = { .struct_size = offsetof(hearth_counters, misses), .misses = 77 };
    hearth_times times = { .struct_size = offsetof(hearth_times, p50_ns), .p50_ns = 77 };
    hearth_error err;

    assert_int_equal(hearth_runtime_counters(runtime, &counters, NULL), HEARTH_OK);
    assert_int_equal(counters.misses, 77);
    assert_int_equal(counters.struct_size, offsetof(hearth_counters, misses));
    assert_int_equal(hearth_runtime_times(runtime, HEARTH_PATH_READ, &times, NULL), HEARTH_OK);
    assert_int_equal(times.p50_ns, 77);

    counters.struct_size = 0;
    assert_int_equal(hearth_runtime_counters(runtime, &counters, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_counters(NULL, &counters, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_counters(runtime, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_counters_reset(NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_times(runtime, (hearth_path)HEARTH_PATHS, &times, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_times(runtime, (hearth_path)-1, &times, &err), HEARTH_MISUSE);
    hearth_runtime_close(runtime);
}

/* ---- rows ---- */

typedef struct listed {
    size_t n, n_ram, n_disk;
    uint64_t ram_bytes, disk_bytes;
    uint32_t n_pins;
    bool disk_came;
    bool ram_after_disk;
    uint8_t first_logits[32]; /* of the RAM tier */
    bool has_first_logits;
    size_t end_after; /* 0: never */
} listed;

static bool note_row(const hearth_row *row, void *user_data)
{
    listed *l = user_data;

    l->n++;
    if (row->tier == HEARTH_TIER_DISK) {
        l->n_disk++;
        l->disk_bytes += row->bytes;
        l->disk_came = true;
        assert_true(row->last_used_s > 0);
    } else {
        assert_int_equal(row->tier, HEARTH_TIER_RAM);
        l->n_ram++;
        l->ram_bytes += row->bytes;
        l->ram_after_disk = l->disk_came;
        l->n_pins += row->n_pins;
        if (!l->has_first_logits && strcmp(row->kind, "logits") == 0) {
            memcpy(l->first_logits, row->key, sizeof(l->first_logits));
            l->has_first_logits = true;
        }
    }
    if (strcmp(row->kind, "block") == 0)
        assert_int_equal(row->n_tokens, 256);
    return l->end_after == 0 || l->n < l->end_after;
}

static listed list(hearth_runtime *runtime, size_t end_after)
{
    listed l = { .end_after = end_after };

    assert_int_equal(hearth_runtime_rows(runtime, note_row, &l, NULL), HEARTH_OK);
    return l;
}

FIXTURE_TEST(every_row_of_every_tier_is_listed_least_recently_used_first)
{
    char *first = hth_test_prompt(PROMPT_BYTES, 0), *second = hth_test_prompt(PROMPT_BYTES, 1);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_counters counters;
    hearth_stats stats;
    listed l = list(runtime, 0);

    assert_int_equal(l.n, 0);
    stats = ask(runtime, first);
    (void)ask(runtime, second);
    counters = hth_test_counters(runtime);
    l = list(runtime, 0);
    assert_int_equal(l.n_ram, counters.ram_rows);
    assert_int_equal(l.n_disk, counters.disk_rows);
    assert_int_equal(l.disk_bytes, counters.disk_bytes);
    assert_false(l.ram_after_disk);
    assert_int_equal(l.n_pins, 0);
    assert_memory_equal(l.first_logits, stats.prompt_key, 32);

    stats = ask(runtime, second);
    (void)ask(runtime, first);
    assert_memory_equal(list(runtime, 0).first_logits, stats.prompt_key, 32);
    assert_int_equal(list(runtime, 3).n, 3); /* ended by the caller */
    assert_int_equal(hearth_runtime_rows(runtime, NULL, NULL, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_rows(NULL, note_row, &l, NULL), HEARTH_MISUSE);
    hearth_runtime_close(runtime);
    free(first);
    free(second);
}

FIXTURE_TEST(garbage_is_collected_down_to_the_quota)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_counters before, after;
    uint64_t n_rows = 0;

    (void)ask(runtime, prompt);
    before = hth_test_counters(runtime);
    assert_true(before.disk_rows > 1);
    assert_int_equal(hearth_runtime_gc(runtime, &n_rows, NULL), HEARTH_OK);
    assert_int_equal(n_rows, 0); /* all is within the quota */
    hearth_runtime_close(runtime);

    f->options.disk_bytes_max = before.disk_bytes - 1;
    runtime = hth_test_runtime_open(&f->options);
    assert_int_equal(hearth_runtime_gc(runtime, &n_rows, NULL), HEARTH_OK);
    after = hth_test_counters(runtime);
    assert_int_equal(n_rows, 1);
    assert_int_equal(after.disk_rows, before.disk_rows - 1);
    assert_int_equal(hearth_runtime_gc(NULL, NULL, NULL), HEARTH_MISUSE);
    hearth_runtime_close(runtime);
    free(prompt);
}

FIXTURE_TEST(rows_are_evicted_from_the_tiers_that_are_named)
{
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_counters before, after;
    uint64_t freed = 0;
    hearth_error err;

    (void)ask(runtime, prompt);
    before = hth_test_counters(runtime);
    assert_int_equal(hearth_runtime_evict(runtime, 1, HEARTH_EVICT_RAM, &freed, NULL), HEARTH_OK);
    after = hth_test_counters(runtime);
    assert_int_equal(after.ram_rows, before.ram_rows - 1); /* one is enough */
    assert_true(freed > 0);
    assert_int_equal(hearth_runtime_evict(runtime, UINT64_MAX, HEARTH_EVICT_RAM, &freed, NULL), HEARTH_OK);
    after = hth_test_counters(runtime);
    assert_int_equal(after.ram_rows, 0);
    assert_int_equal(after.ram_bytes, 0);
    assert_int_equal(after.disk_rows, before.disk_rows);
    assert_int_equal(after.rows_evicted, before.ram_rows);
    assert_int_equal(ask(runtime, prompt).tier, HEARTH_TIER_DISK);

    before = hth_test_counters(runtime);
    assert_int_equal(hearth_runtime_evict(runtime, UINT64_MAX, HEARTH_EVICT_DISK, &freed, NULL), HEARTH_OK);
    after = hth_test_counters(runtime);
    assert_int_equal(freed, before.disk_bytes);
    assert_int_equal(after.disk_rows, 0);
    assert_int_equal(hth_test_n_files(f->directory, ".kvc"), 0);
    assert_int_equal(after.ram_rows, before.ram_rows);
    assert_int_equal(ask(runtime, prompt).tier, HEARTH_TIER_RAM);

    assert_int_equal(hearth_runtime_evict(runtime, 1, HEARTH_EVICT_RAM_FILE, &freed, NULL), HEARTH_OK);
    assert_int_equal(freed, 0); /* there is no such tier */
    assert_int_equal(hearth_runtime_evict(runtime, 1, 0, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_evict(runtime, 1, 8, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_evict(NULL, 1, HEARTH_EVICT_RAM, NULL, &err), HEARTH_MISUSE);
    hearth_runtime_close(runtime);
    free(prompt);
}

FIXTURE_TEST(full_queues_drop_saves_and_never_a_reply)
{
    char *prompt = hth_test_prompt(3000, 0);
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy(prompt, 5);
    const hearth_result *result;
    hearth_counters counters;

    assert_int_equal(hearth_runtime_write_limits(runtime, 4, 0, 1, NULL), HEARTH_OK); /* a byte a second */
    result = hth_test_complete(model, &request);
    assert_int_equal(result->stats->completion_tokens, 5);
    hearth_result_unref(result);
    counters = hth_test_counters(runtime);
    assert_true(counters.saves_dropped > 0);
    assert_in_range(counters.write_queue_rows, 1, 8);
    assert_true(counters.write_queue_bytes > 0);
    assert_true(counters.ram_rows > 8); /* dropped from the files only */

    assert_int_equal(hearth_runtime_write_limits(runtime, 0, 0, UINT64_MAX, NULL), HEARTH_OK);
    hth_test_flush(runtime);
    assert_int_equal(hearth_runtime_write_limits(runtime, 65536, UINT64_C(1) << 30, 0, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_counters_reset(runtime, NULL), HEARTH_OK);
    request.no_cache_read = true; /* what is computed once more finds its way to the files */
    result = hth_test_complete(model, &request);
    hearth_result_unref(result);
    hth_test_flush(runtime);
    counters = hth_test_counters(runtime);
    assert_int_equal(counters.saves_dropped, 0);
    assert_int_equal(hth_test_n_files(f->directory, "-block.kvc"), 3001 / 256);
    assert_int_equal(hearth_runtime_write_limits(NULL, 1, 1, 1, NULL), HEARTH_MISUSE);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    free(prompt);
}

/* Rows that wait for the writer fill the memory, so the last rows find no room before the writer is done. */
FIXTURE_TEST(a_save_waits_for_the_rows_that_take_its_room)
{
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_error err;

    f->options.ram_bytes_max = 1 << 20;
    f->options.disk_write_bytes_per_s = 1; /* until somebody waits for it */
    runtime = hth_test_runtime_open(&f->options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    for (int i = 0; i < 200 && hth_test_counters(runtime).saves_dropped == 0; i++) {
        char *prompt = hth_test_prompt(250, i);
        hearth_request request = hth_test_greedy(prompt, 1);

        hearth_result_unref(hth_test_complete(model, &request));
        free(prompt);
    }
    assert_true(hth_test_counters(runtime).saves_dropped > 0);
    if (hearth_model_save(model, HEARTH_SAVE_EVICT, 60000, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}

FIXTURE_TEST(without_a_cache_there_is_nothing_to_watch_and_nothing_fails)
{
    hearth_runtime *runtime;
    uint64_t freed = 77;
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0);

    f->options.cache_disabled = true;
    runtime = hth_test_runtime_open(&f->options);
    assert_int_equal(ask(runtime, prompt).hit, HEARTH_HIT_NONE);
    assert_int_equal(ask(runtime, prompt).hit, HEARTH_HIT_NONE);
    assert_int_equal(hth_test_counters(runtime).misses, 2);
    assert_int_equal(list(runtime, 0).n, 0);
    assert_int_equal(hearth_runtime_evict(runtime, UINT64_MAX, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK, &freed, NULL),
                     HEARTH_OK);
    assert_int_equal(freed, 0);
    assert_int_equal(hearth_runtime_write_limits(runtime, 1, 1, 1, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_counters_reset(runtime, NULL), HEARTH_OK);
    hearth_runtime_close(runtime);
    free(prompt);
}
