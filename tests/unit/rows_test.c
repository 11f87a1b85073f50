/*
 * rows_test.c - rows by hand through the public interface: into files and back, into RAM, away, and pinned
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/greedy.h"
#include "support/support.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"
enum { N_PROMPT = 700, N_LONGER = 760, PATH_BYTES = 512, EVERYWHERE = HEARTH_EVICT_RAM | HEARTH_EVICT_DISK };

static char *home;
static char file_path[PATH_BYTES];
static hearth_token prompt[N_LONGER];

typedef struct place {
    hearth_runtime *runtime;
    hearth_model *model;
} place;

/* A cache of its own below home; NULL: none. */
static place place_open_with(const char *cache, const char *model, uint64_t disk_bytes_max)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_error err = { .message = "" };
    char directory[PATH_BYTES];
    place p;

    (void)snprintf(directory, sizeof(directory), "%s/%s", home, cache ? cache : "");
    options.cache_directory = directory;
    options.cache_disabled = !cache;
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.ram_bytes_max = 64 << 20;
    options.disk_free_min = 0;
    options.disk_bytes_max = disk_bytes_max;
    if (hearth_runtime_open(&options, &p.runtime, &err) != HEARTH_OK ||
        hearth_model_load(p.runtime, model, NULL, &p.model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return p;
}

static place place_open(const char *cache, const char *model)
{
    return place_open_with(cache, model, 0);
}

static void place_close(place p)
{
    hearth_model_unref(p.model);
    hearth_runtime_close(p.runtime);
}

static hearth_request request_of(size_t n_tokens, const char *salt)
{
    hearth_request request = hearth_request_default();

    request.tokens = prompt;
    request.n_tokens = n_tokens;
    request.n_predict = 4;
    request.ignore_eos = true;
    request.sampling = hth_test_greedy_sampling();
    request.cache_salt = salt;
    return request;
}

/* Ask, and wait until all rows are in files. Copies of what statistics say. */
static hearth_stats ask(const place *p, const hearth_request *request)
{
    const hearth_result *result;
    hearth_stats stats;
    hearth_error err = { .message = "" };

    assert_ok(hearth_complete(p->model, request, &result, &err), err);
    stats = *result->stats;
    hearth_result_unref(result);
    assert_int_equal(hearth_runtime_flush(p->runtime, 60000, NULL), HEARTH_OK);
    return stats;
}

static size_t ram_rows(const place *p)
{
    return (size_t)hth_test_counters(p->runtime).ram_rows;
}

static hearth_transfer transfer(void)
{
    return (hearth_transfer){ .struct_size = sizeof(hearth_transfer) };
}

static int set_up(void **state)
{
    (void)state;
    home = hth_test_directory_new();
    (void)snprintf(file_path, sizeof(file_path), "%s/prefix.kvc", home);
    for (size_t i = 0; i < N_LONGER; i++)
        prompt[i] = (hearth_token)(i * 7 % 200 + 5);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hth_test_directory_remove(home);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

/* ---- files ---- */

FIXTURE_TEST(a_prefix_goes_into_a_file_by_key_and_by_prompt)
{
    place p = place_open("from", TINY), other = place_open("to", TINY);
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats = ask(&p, &request);
    hearth_transfer by_key = transfer(), by_prompt = transfer(), in = transfer();
    struct stat st;

    assert_int_equal(hearth_runtime_export(p.runtime, stats.finish_key, file_path, &by_key, NULL), HEARTH_OK);
    assert_int_equal(by_key.n_tokens, stats.finish_tokens);
    assert_memory_equal(by_key.key, stats.finish_key, 32);
    assert_int_equal(by_key.n_rows, 3);
    assert_int_equal(stat(file_path, &st), 0);
    assert_int_equal(by_key.bytes, st.st_size);
    assert_int_equal(st.st_mode & 0777, 0600);

    /* The prompt ends inside the row that ends the reply. The file of that name is replaced. */
    assert_int_equal(hearth_prompt_export(p.model, &request, file_path, &by_prompt, NULL), HEARTH_OK);
    assert_int_equal(by_prompt.n_tokens, N_PROMPT);
    assert_memory_equal(by_prompt.key, stats.prompt_key, 32);
    place_close(p);

    assert_int_equal(hearth_runtime_import(other.runtime, file_path, &in, NULL), HEARTH_OK);
    assert_int_equal(in.n_tokens, N_PROMPT);
    assert_memory_equal(in.key, stats.prompt_key, 32);
    assert_int_equal(in.n_new, in.n_rows);
    assert_int_equal(hearth_runtime_import(other.runtime, file_path, &in, NULL), HEARTH_OK);
    assert_int_equal(in.n_new, 0);
    assert_true(ask(&other, &request).cached_tokens >= 512);
    place_close(other);
}

/* A binding of an older header has less room, and one that wants to know nothing gives none. */
FIXTURE_TEST(what_was_transferred_is_told_as_far_as_there_is_room)
{
    place p = place_open("room", TINY);
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats = ask(&p, &request);
    struct {
        size_t struct_size;
        uint8_t key[32];
        uint32_t n_tokens;
        uint32_t guard;
    } older = { .struct_size = offsetof(hearth_transfer, n_rows), .guard = 77 };
    hearth_transfer none = { .struct_size = 0 };
    hearth_error err;

    assert_int_equal(offsetof(hearth_transfer, n_rows), sizeof(size_t) + 32 + 4);
    assert_int_equal(
        hearth_runtime_export(p.runtime, stats.finish_key, file_path, (hearth_transfer *)(void *)&older, NULL),
        HEARTH_OK);
    assert_int_equal(older.n_tokens, stats.finish_tokens);
    assert_int_equal(older.guard, 77);
    assert_int_equal(hearth_runtime_import(p.runtime, file_path, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_export(p.runtime, stats.finish_key, file_path, &none, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "struct_size"));
    assert_int_equal(hearth_runtime_import(p.runtime, file_path, &none, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_export(p.model, &request, file_path, &none, &err), HEARTH_MISUSE);
    place_close(p);
}

FIXTURE_TEST(transfers_say_why_not)
{
    static const uint8_t nobody[32] = { 1 };
    place p = place_open("why", TINY);
    hearth_request cold = request_of(100, NULL), empty = hearth_request_default();
    hearth_transfer out = transfer();
    hearth_error err;
    FILE *file;

    assert_int_equal(hearth_runtime_export(p.runtime, nobody, file_path, &out, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_prompt_export(p.model, &cold, file_path, &out, &err), HEARTH_NOT_FOUND);
    assert_int_not_equal(access(file_path, F_OK), 0);
    assert_int_equal(out.n_tokens, 0);
    assert_int_equal(hearth_runtime_import(p.runtime, file_path, &out, &err), HEARTH_NOT_FOUND);
    file = fopen(file_path, "wb");
    assert_non_null(file);
    (void)fputs("no KVC file", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hearth_runtime_import(p.runtime, file_path, &out, &err), HEARTH_CORRUPT);

    assert_int_equal(hearth_runtime_export(NULL, nobody, file_path, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_export(p.runtime, NULL, file_path, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_export(p.runtime, nobody, NULL, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_import(NULL, file_path, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_import(p.runtime, NULL, &out, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_export(NULL, &cold, file_path, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_export(p.model, NULL, file_path, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_export(p.model, &cold, NULL, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_export(p.model, &empty, file_path, &out, &err), HEARTH_MISUSE);
    hearth_model_unload(p.model);
    assert_int_equal(hearth_prompt_export(p.model, &cold, file_path, &out, &err), HEARTH_CANCELLED);
    place_close(p);
}

/* ---- into RAM ---- */

FIXTURE_TEST(rows_are_brought_into_ram_ahead_of_use)
{
    place p = place_open("warm", TINY);
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats = ask(&p, &request), again;
    uint32_t n = 0;

    place_close(p);
    p = place_open("warm", TINY);
    assert_int_equal(ram_rows(&p), 0);
    assert_int_equal(hearth_runtime_warm(p.runtime, stats.finish_key, &n, NULL), HEARTH_OK);
    assert_true(n >= 3); /* two blocks and a tail, at least */
    assert_int_equal(ram_rows(&p), n);
    place_close(p);

    p = place_open("warm", TINY);
    assert_int_equal(hearth_prompt_warm(p.model, &request, &n, NULL), HEARTH_OK);
    assert_int_equal(n, N_PROMPT);
    assert_true(ram_rows(&p) >= 4); /* and the logits */
    again = ask(&p, &request);
    assert_int_equal(again.tier, HEARTH_TIER_RAM);
    assert_int_equal(again.hit, HEARTH_HIT_EXACT);
    place_close(p);
}

FIXTURE_TEST(what_is_not_there_is_not_warmed)
{
    static const uint8_t nobody[32] = { 1 };
    place p = place_open("cold", "stub:");
    hearth_request request = request_of(N_PROMPT, "ann"), of_bob = request_of(N_PROMPT, "bob");
    hearth_request beginning = request_of(256, "ann");
    hearth_stats stats = ask(&p, &request);
    uint32_t n = 77;
    hearth_error err;

    assert_int_equal(hearth_runtime_warm(p.runtime, nobody, &n, &err), HEARTH_NOT_FOUND);
    assert_int_equal(n, 77);
    assert_int_equal(hearth_runtime_warm(p.runtime, NULL, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_warm(NULL, nobody, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_warm(NULL, &request, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_warm(p.model, NULL, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_warm(p.model, &of_bob, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(hearth_prompt_warm(p.model, &request, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_warm(p.runtime, stats.finish_key, NULL, NULL), HEARTH_OK);

    /* A row in the middle is gone: the prefix is not whole. */
    hearth_stats first = ask(&p, &beginning);
    assert_int_equal(hearth_runtime_remove(p.runtime, first.prompt_key, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_warm(p.runtime, stats.finish_key, &n, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "lacks a row"));
    place_close(p);
}

FIXTURE_TEST(a_damaged_row_is_set_aside_while_it_is_warmed)
{
    char directory[PATH_BYTES];
    place p = place_open("damaged", "stub:");
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats = ask(&p, &request);
    uint32_t n = 77;
    hearth_error err;
    char *path;
    FILE *file;

    place_close(p);
    (void)snprintf(directory, sizeof(directory), "%s/damaged", home);
    path = hth_test_file(directory, "-tail.kvc");
    assert_non_null(path);
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    assert_int_not_equal(fputc(0x55, file), EOF);
    assert_int_equal(fclose(file), 0);
    p = place_open("damaged", "stub:");
    assert_int_equal(hearth_runtime_warm(p.runtime, stats.finish_key, &n, &err), HEARTH_CORRUPT);
    assert_int_equal(n, 77);
    assert_int_equal(hearth_runtime_warm(p.runtime, stats.finish_key, &n, &err), HEARTH_NOT_FOUND);
    place_close(p);
    free(path);
}

/* ---- pinned ---- */

/* Read the first n tokens of the prompt, so that a row ends there. */
static hearth_stats read_only(const place *p, size_t n, const char *salt)
{
    hearth_request request = request_of(n, salt);

    request.prefill_only = true;
    return ask(p, &request);
}

static void evict_all(const place *p)
{
    assert_int_equal(hearth_model_save(p->model, HEARTH_SAVE_EVICT, 60000, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_evict(p->runtime, UINT64_MAX, EVERYWHERE, NULL, NULL), HEARTH_OK);
}

/* How many leading tokens of the prompt are cached. */
static uint32_t n_known(const place *p, size_t n, const char *salt)
{
    hearth_request request = request_of(n, salt);
    hearth_explanation e = { .struct_size = sizeof(e) };

    assert_int_equal(hearth_explain(p->model, &request, &e, NULL), HEARTH_OK);
    return e.known_tokens;
}

FIXTURE_TEST(a_pinned_prefix_stays_until_it_is_unpinned)
{
    static const char *const models[] = { TINY, "stub:kind=recurrent", "stub:kind=hybrid", "stub:kind=window" };

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        char name[16];
        place p;
        hearth_stats stats;

        (void)snprintf(name, sizeof(name), "pinned-%zu", i);
        p = place_open(name, models[i]);
        stats = read_only(&p, N_PROMPT, NULL);
        (void)read_only(&p, 600, "ann");
        assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);
        assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);
        evict_all(&p);
        assert_true(n_known(&p, N_PROMPT, NULL) >= N_PROMPT - 1);
        assert_int_equal(n_known(&p, 600, "ann"), 0);
        place_close(p);

        p = place_open(name, models[i]);
        evict_all(&p);
        assert_true(n_known(&p, N_PROMPT, NULL) >= N_PROMPT - 1);
        assert_int_equal(hearth_runtime_unpin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);
        assert_true(n_known(&p, N_PROMPT, NULL) >= N_PROMPT - 1);
        assert_int_equal(hearth_runtime_unpin(p.runtime, stats.prompt_key, NULL), HEARTH_NOT_FOUND);
        evict_all(&p);
        assert_int_equal(n_known(&p, N_PROMPT, NULL), 0);
        place_close(p);
    }
}

FIXTURE_TEST(a_longer_row_does_not_replace_a_pinned_one)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        place p = place_open(pinned ? "longer" : "longer-unpinned", TINY);
        hearth_stats stats = read_only(&p, N_PROMPT, NULL);
        hearth_request longer = request_of(N_LONGER, NULL);
        hearth_transfer out = transfer();

        if (pinned)
            assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);
        (void)ask(&p, &longer);
        evict_all(&p);
        assert_int_equal(hearth_runtime_export(p.runtime, stats.prompt_key, file_path, &out, NULL),
                         pinned ? HEARTH_OK : HEARTH_NOT_FOUND);
        assert_int_equal(out.n_tokens, pinned ? N_PROMPT : 0);
        place_close(p);
    }
}

FIXTURE_TEST(a_prompt_is_pinned_and_unpinned)
{
    place p = place_open("by-prompt", TINY);
    hearth_stats stats = read_only(&p, N_PROMPT, "ann");
    hearth_request longer = request_of(N_LONGER, "ann"), of_bob = request_of(N_LONGER, "bob");
    uint8_t key[32] = { 0 };
    uint32_t n = 0;
    hearth_error err;

    assert_int_equal(hearth_prompt_pin(p.model, &of_bob, key, &n, &err), HEARTH_NOT_FOUND);
    assert_int_equal(n, 0);
    assert_int_equal(hearth_prompt_pin(p.model, &longer, key, &n, NULL), HEARTH_OK);
    assert_int_equal(n, N_PROMPT);
    assert_memory_equal(key, stats.prompt_key, 32);
    evict_all(&p);
    assert_true(n_known(&p, N_PROMPT, "ann") >= N_PROMPT - 1);
    n = 77;
    assert_int_equal(hearth_prompt_unpin(p.model, &of_bob, &n, &err), HEARTH_NOT_FOUND);
    assert_int_equal(n, 77);
    assert_int_equal(hearth_prompt_unpin(p.model, &longer, &n, NULL), HEARTH_OK);
    assert_int_equal(n, N_PROMPT);
    assert_int_equal(hearth_prompt_unpin(p.model, &longer, NULL, NULL), HEARTH_NOT_FOUND);
    evict_all(&p);
    assert_int_equal(n_known(&p, N_PROMPT, "ann"), 0);
    place_close(p);
}

FIXTURE_TEST(removing_rows_takes_their_pin_away)
{
    place p = place_open("removed", TINY);
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats;

    for (int by_prompt = 0; by_prompt < 2; by_prompt++) {
        stats = read_only(&p, N_PROMPT, NULL);
        assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);
        if (by_prompt)
            assert_int_equal(hearth_prompt_remove(p.model, &request, NULL, NULL), HEARTH_OK);
        else
            assert_int_equal(hearth_runtime_remove(p.runtime, stats.prompt_key, NULL, NULL), HEARTH_OK);
        assert_int_equal(hearth_runtime_unpin(p.runtime, stats.prompt_key, NULL), HEARTH_NOT_FOUND);
        evict_all(&p);
        assert_int_equal(n_known(&p, N_PROMPT, NULL), 0);
    }
    place_close(p);
}

FIXTURE_TEST(pins_have_bounds)
{
    static const uint8_t nobody[32] = { 1 };
    char path[PATH_BYTES];
    place p = place_open("bounds", TINY);
    hearth_stats stats = read_only(&p, N_PROMPT, NULL);
    uint64_t bytes = hth_test_counters(p.runtime).disk_bytes;
    hearth_error err;

    place_close(p);
    p = place_open_with("bounds", TINY, bytes * 3 / 2);
    assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, "half of the quota"));
    place_close(p);

    /* So many names, of which one is no pin. */
    p = place_open("bounds", TINY);
    (void)snprintf(path, sizeof(path), "%s/bounds/pins", home);
    assert_int_equal(mkdir(path, 0700), 0);
    for (unsigned i = 0; i <= 1024; i++) {
        FILE *file;

        (void)snprintf(path, sizeof(path), i < 1024 ? "%s/bounds/pins/%064x" : "%s/bounds/pins/notes-%u", home, i);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, "1024 pins"));
    (void)snprintf(path, sizeof(path), "%s/bounds/pins/%064x", home, 7u);
    assert_int_equal(remove(path), 0);
    assert_int_equal(hearth_runtime_pin(p.runtime, stats.prompt_key, NULL), HEARTH_OK);

    assert_int_equal(hearth_runtime_pin(p.runtime, nobody, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_runtime_pin(p.runtime, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_pin(NULL, nobody, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_unpin(p.runtime, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_unpin(NULL, nobody, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_pin(NULL, NULL, NULL, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_unpin(p.model, NULL, NULL, &err), HEARTH_MISUSE);
    place_close(p);
}

/* ---- away ---- */

FIXTURE_TEST(rows_go_by_key_and_by_prompt)
{
    static const uint8_t nobody[32] = { 1 };
    place p = place_open("away", TINY);
    hearth_request request = request_of(N_PROMPT, NULL);
    hearth_stats stats = ask(&p, &request);
    uint32_t n = 0;
    hearth_error err;

    /* Cells in the context are no rows. */
    assert_int_equal(hearth_model_save(p.model, HEARTH_SAVE_EVICT, 60000, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_remove(p.runtime, stats.finish_key, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 1);
    n = 77;
    assert_int_equal(hearth_runtime_remove(p.runtime, stats.finish_key, &n, &err), HEARTH_NOT_FOUND);
    assert_int_equal(n, 77);
    assert_int_equal(ask(&p, &request).cached_tokens, 512);

    assert_int_equal(hearth_prompt_remove(p.model, &request, &n, NULL), HEARTH_OK);
    assert_true(n >= N_PROMPT - 1);
    assert_int_equal(ask(&p, &request).cached_tokens, 0);
    assert_int_equal(hearth_prompt_remove(p.model, &request, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_prompt_remove(p.model, &request, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);

    assert_int_equal(hearth_runtime_remove(p.runtime, nobody, &n, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_runtime_remove(p.runtime, NULL, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_remove(NULL, nobody, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_remove(NULL, &request, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_prompt_remove(p.model, NULL, &n, &err), HEARTH_MISUSE);
    place_close(p);
}

FIXTURE_TEST(without_a_cache_there_is_nothing_to_do)
{
    static const uint8_t nobody[32] = { 1 };
    place p = place_open(NULL, "stub:");
    hearth_request request = request_of(100, NULL);
    hearth_error err;

    assert_int_equal(hearth_runtime_export(p.runtime, nobody, file_path, NULL, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cache_disabled"));
    assert_int_equal(hearth_runtime_import(p.runtime, file_path, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_runtime_remove(p.runtime, nobody, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_runtime_warm(p.runtime, nobody, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_prompt_export(p.model, &request, file_path, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_prompt_remove(p.model, &request, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_prompt_warm(p.model, &request, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_runtime_pin(p.runtime, nobody, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_runtime_unpin(p.runtime, nobody, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_prompt_pin(p.model, &request, NULL, NULL, &err), HEARTH_UNSUPPORTED);
    assert_int_equal(hearth_prompt_unpin(p.model, &request, NULL, &err), HEARTH_UNSUPPORTED);
    place_close(p);
}
