/*
 * prefix_test.c - the rows of a prompt go into a file, come back from it, and go away, while the model serves
 */
#include "models/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define TINY HTH_TEST_SOURCE_DIR "/models/hearth-tiny.gguf"
enum { N_PROMPT = 700, N_REPLY = 20, PATH_BYTES = 512 };

static char *home;
static char file_path[PATH_BYTES];
static hearth_token prompt[N_PROMPT + 64];

typedef struct place {
    hearth_runtime *runtime;
    hearth_model *model;
} place;

static place place_open(const char *directory)
{
    hearth_runtime_options options = hth_test_runtime_options(directory);
    place p;

    options.ram_bytes_max = 64 << 20;
    p.runtime = hth_test_runtime_open(&options);
    p.model = hth_test_model_load(p.runtime, TINY, NULL);
    return p;
}

static void place_close(place *p)
{
    hearth_model_unref(p->model);
    hearth_runtime_close(p->runtime);
}

/* Ask for N_REPLY tokens after n of the prompt; how many of those were cached. The reply goes behind the prompt. */
static uint32_t ask(const place *p, const char *salt, uint32_t n)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *result;
    hearth_error err = { .message = "" };
    uint32_t n_cached;

    request.tokens = prompt;
    request.n_tokens = n;
    request.n_predict = N_REPLY;
    request.ignore_eos = true;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.cache_salt = salt;
    assert_ok(hearth_complete(p->model, &request, &result, &err), err);
    assert_int_equal(result->stats->completion_tokens, N_REPLY);
    assert_int_equal(result->stats->finish_tokens, n + N_REPLY - 1);
    memcpy(prompt + n, result->tokens, N_REPLY * sizeof(prompt[0]));
    n_cached = result->stats->cached_tokens;
    hearth_result_unref(result);
    return n_cached;
}

static hth_prefix_saved save(const place *p, const char *salt, uint32_t n)
{
    hth_prefix_saved saved;
    hearth_error err = { .message = "" };

    assert_ok(
        hth_prefix_save(p->model, &(hth_prefix_owner){ .cache_salt = salt }, prompt, n, file_path, NULL, &saved, &err),
        err);
    return saved;
}

static uint32_t erase(const place *p, const char *salt, uint32_t n, uint32_t n_kept)
{
    uint32_t n_erased = UINT32_MAX;
    hearth_error err = { .message = "" };

    assert_ok(hth_prefix_erase(p->model, &(hth_prefix_owner){ .cache_salt = salt }, prompt, n, n_kept, &n_erased, &err),
              err);
    return n_erased;
}

static uint32_t restore(const place *p, const char *salt)
{
    hth_imported restored;
    hearth_error err = { .message = "" };

    assert_ok(hth_prefix_restore(p->model, &(hth_prefix_owner){ .cache_salt = salt }, file_path, &restored, &err), err);
    assert_memory_equal(restored.tokens, prompt, restored.n_tokens * sizeof(prompt[0]));
    free(restored.tokens);
    return restored.n_tokens;
}

static int set_up(void **state)
{
    (void)state;
    home = hth_test_directory_new();
    (void)snprintf(file_path, sizeof(file_path), "%s/prompt.kvc", home);
    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (hearth_token)(i * 7 % 1000 + 5);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hth_test_directory_remove(home);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

static place open_in(const char *name)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%s", home, name);
    return place_open(path);
}

FIXTURE_TEST(what_was_saved_is_warm_in_another_cache)
{
    place p = open_in("from"), other = open_in("to");
    uint32_t n = N_PROMPT + N_REPLY - 1;
    hth_prefix_saved saved;
    struct stat st;

    assert_int_equal(ask(&p, NULL, N_PROMPT), 0);
    saved = save(&p, NULL, n);
    assert_int_equal(saved.file.n_tokens, n);
    assert_int_equal(stat(file_path, &st), 0);
    assert_int_equal(saved.file.bytes, st.st_size);
    place_close(&p);

    assert_int_equal(restore(&other, NULL), n);
    assert_true(ask(&other, NULL, N_PROMPT) >=
                512); /* the logits of its end are not in the file: a chunk is evaluated */
    place_close(&other);
}

FIXTURE_TEST(a_prompt_is_cut_out_of_a_longer_one_that_superseded_it)
{
    place p = open_in("cut"), other = open_in("cut-to");
    uint32_t n = N_PROMPT + N_REPLY - 1;

    (void)ask(&p, NULL, N_PROMPT);
    (void)ask(&p, NULL, n); /* goes on from the reply, whose tail makes room for a longer one */
    assert_int_equal(save(&p, NULL, n).file.n_tokens, n);
    assert_int_equal(save(&p, NULL, n - 3).file.n_tokens, n - 3);
    place_close(&p);
    assert_int_equal(restore(&other, NULL), n - 3);
    assert_true(ask(&other, NULL, n - 3) >= 512);
    place_close(&other);
}

FIXTURE_TEST(a_row_that_goes_while_it_is_saved_leaves_the_rest_of_the_prompt)
{
    place p = open_in("gone");
    uint32_t n = N_PROMPT + N_REPLY - 1;
    char directory[PATH_BYTES], *tail;

    (void)snprintf(directory, sizeof(directory), "%s/gone", home);
    (void)ask(&p, NULL, N_PROMPT);
    place_close(&p);
    tail = hth_test_file(directory, "-tail.kvc");
    assert_int_equal(unlink(tail), 0); /* the index still has the row */
    free(tail);
    p = open_in("gone");
    assert_int_equal(save(&p, NULL, n).file.n_tokens, 512);
    place_close(&p);
}

FIXTURE_TEST(what_was_erased_is_cold_and_what_is_kept_is_warm)
{
    place p = open_in("erased");
    uint32_t n = N_PROMPT + N_REPLY - 1;

    (void)ask(&p, NULL, N_PROMPT);
    assert_int_equal(erase(&p, NULL, n, n), 0);
    assert_true(ask(&p, NULL, N_PROMPT) >= N_PROMPT - 1);
    assert_int_equal(erase(&p, NULL, n, 600), n - 512);
    assert_int_equal(ask(&p, NULL, N_PROMPT), 512);
    assert_int_equal(erase(&p, NULL, n, 0), n);
    assert_int_equal(erase(&p, NULL, n, 0), 0);
    assert_int_equal(ask(&p, NULL, N_PROMPT), 0);
    place_close(&p);
    p = open_in("erased"); /* the second time it was asked, it was saved again */
    assert_true(ask(&p, NULL, N_PROMPT) > 0);
    (void)erase(&p, NULL, n, 0);
    place_close(&p);
    p = open_in("erased");
    assert_int_equal(ask(&p, NULL, N_PROMPT), 0);
    place_close(&p);
}

FIXTURE_TEST(nobody_gets_at_the_rows_of_another_salt)
{
    place p = open_in("salted");
    uint32_t n = N_PROMPT + N_REPLY - 1;
    hth_imported restored;
    hth_prefix_saved saved;
    hearth_error err = { .message = "" };

    (void)ask(&p, "ann", N_PROMPT);
    assert_int_equal(
        hth_prefix_save(p.model, &(hth_prefix_owner){ .cache_salt = "bob" }, prompt, n, file_path, NULL, &saved, &err),
        HEARTH_NOT_FOUND);
    assert_int_equal(
        hth_prefix_save(p.model, &(hth_prefix_owner){ .cache_salt = NULL }, prompt, n, file_path, NULL, &saved, &err),
        HEARTH_NOT_FOUND);
    assert_int_equal(erase(&p, "bob", n, 0), 0);
    assert_int_equal(erase(&p, NULL, n, 0), 0);
    assert_int_equal(save(&p, "ann", n).file.n_tokens, n);
    assert_int_equal(
        hth_prefix_restore(p.model, &(hth_prefix_owner){ .cache_salt = "bob" }, file_path, &restored, &err),
        HEARTH_MISUSE);
    assert_int_equal(hth_prefix_restore(p.model, &(hth_prefix_owner){ .cache_salt = NULL }, file_path, &restored, &err),
                     HEARTH_MISUSE);
    assert_int_equal(restore(&p, "ann"), n);
    place_close(&p);
}
