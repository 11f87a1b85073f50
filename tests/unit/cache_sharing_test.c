/*
 * cache_sharing_test.c - with whom rows are shared and with whom not: salts, signatures, parents of other processes,
 * and memory that outlives its process
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PROMPT_BYTES = 700, MORE_BYTES = 40, REPLY_TOKENS = 20, AGES_MS = 600000 };

typedef struct fixture {
    char *directory;
    char *other_directory;
    hearth_runtime_options options;
    char *prompt;
    _Atomic int n_warnings;
} fixture;

static void count_warnings(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source, (void)message;
    if (level <= HEARTH_LOG_WARNING)
        atomic_fetch_add(&f->n_warnings, 1);
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->other_directory = hth_test_directory_new();
    f->options = hth_test_runtime_options(f->directory);
    f->options.log = count_warnings;
    f->options.log_user_data = f;
    f->prompt = hth_test_prompt(PROMPT_BYTES, 0);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
    hth_test_directory_remove(f->other_directory);
    free(f->prompt);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static const hearth_result *ask(hearth_model *model, const char *prompt, const char *salt)
{
    hearth_request request = hth_test_greedy(prompt, REPLY_TOKENS);

    request.cache_salt = salt;
    return hth_test_complete(model, &request);
}

static hearth_hit hit_of(hearth_model *model, const char *prompt, const char *salt)
{
    const hearth_result *result = ask(model, prompt, salt);
    hearth_hit hit = result->stats->hit;

    hearth_result_unref(result);
    return hit;
}

/* One request in a runtime and a model of its own. */
static const hearth_result *ask_anew(const hearth_runtime_options *options, const char *prompt)
{
    hearth_runtime *runtime = hth_test_runtime_open(options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    const hearth_result *result = ask(model, prompt, NULL);

    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return result;
}

/* ---- memory that outlives its process: first, because it forks, and no other test may have started threads ---- */

/* The child: fill the memory, say so, and wait for its end. Fails by ending early. */
static void fill_and_wait(const fixture *f, int memory_fd, int ready_fd)
{
    hearth_runtime_options options = hth_test_runtime_options(f->directory);
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_request request = hth_test_greedy(f->prompt, REPLY_TOKENS);
    const hearth_result *result;

    options.ram_memory_fd = memory_fd;
    if (hearth_runtime_open(&options, &runtime, NULL) != HEARTH_OK ||
        hearth_model_load(runtime, "stub:", NULL, &model, NULL) != HEARTH_OK ||
        hearth_complete(model, &request, &result, NULL) != HEARTH_OK || write(ready_fd, "x", 1) != 1)
        _exit(1);
    for (;;)
        (void)pause(); /* until the signal that ends it */
}

FIXTURE_TEST(rows_in_given_memory_survive_the_death_of_their_process)
{
    int fd = hth_os_memory_file_new("hearth-test");
    int ready[2], status = 0;
    hearth_runtime_options options = hth_test_runtime_options(f->other_directory);
    hearth_runtime *runtime;
    hearth_model *model;
    const hearth_result *warm, *cold;
    hearth_request request = hth_test_greedy(f->prompt, REPLY_TOKENS);
    char byte;
    pid_t child;

    if (fd < 0)
        skip(); /* the system has none */
    assert_int_equal(pipe(ready), 0);
    child = fork(); /* no thread runs yet */
    assert_true(child >= 0);
    if (child == 0)
        fill_and_wait(f, fd, ready[1]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    (void)close(ready[0]);

    options.ram_memory_fd = fd;
    options.log = count_warnings;
    options.log_user_data = f;
    runtime = hth_test_runtime_open(&options);
    assert_int_equal(hth_test_counters(runtime).ram_rows, 4);
    model = hth_test_model_load(runtime, "stub:", NULL);
    warm = hth_test_complete(model, &request);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    assert_int_equal(warm->stats->tier, HEARTH_TIER_RAM);
    request.no_cache_read = true;
    cold = hth_test_complete(model, &request);
    assert_string_equal(warm->text, cold->text);
    assert_int_equal(atomic_load(&f->n_warnings), 0);
    hearth_result_unref(warm);
    hearth_result_unref(cold);

    /* Memory that is in use is not taken: the second runtime works with its own. */
    hearth_runtime *second = hth_test_runtime_open(&options);
    assert_int_equal(atomic_load(&f->n_warnings), 1);
    assert_int_equal(hth_test_counters(second).ram_rows, 0);
    hearth_runtime_close(second);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    (void)close(fd);
}

/* ---- salts ---- */

FIXTURE_TEST(requests_of_different_salts_share_nothing)
{
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);

    assert_int_equal(hit_of(model, f->prompt, NULL), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(model, f->prompt, "anna"), HEARTH_HIT_NONE); /* nor what lives in the context */
    assert_int_equal(hit_of(model, f->prompt, "bert"), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(model, f->prompt, "bert"), HEARTH_HIT_EXACT);
    assert_int_equal(hit_of(model, f->prompt, "anna"), HEARTH_HIT_EXACT); /* from rows */
    assert_int_equal(hit_of(model, f->prompt, NULL), HEARTH_HIT_EXACT);
    assert_int_equal(hit_of(model, f->prompt, ""), HEARTH_HIT_EXACT); /* an empty one is none */
    hearth_model_unref(model);
    hearth_runtime_close(runtime);

    runtime = hth_test_runtime_open(&f->options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    assert_int_equal(hit_of(model, f->prompt, "carl"), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(model, f->prompt, "anna"), HEARTH_HIT_EXACT);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}

FIXTURE_TEST(a_shared_beginning_is_not_shared_with_another_salt)
{
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    char *longer = malloc(PROMPT_BYTES + MORE_BYTES + 1);
    const hearth_result *alone, *salted;

    (void)snprintf(longer, PROMPT_BYTES + MORE_BYTES + 1, "%s and something more", f->prompt);
    assert_int_equal(hit_of(model, f->prompt, "anna"), HEARTH_HIT_NONE);
    alone = ask(model, longer, NULL);
    assert_int_equal(alone->stats->cached_tokens, 0);
    salted = ask(model, longer, "anna");
    assert_int_equal(salted->stats->hit, HEARTH_HIT_LIVE);
    assert_string_equal(salted->text, alone->text); /* a salt changes what is found, not what is said */
    hearth_result_unref(alone);
    hearth_result_unref(salted);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    free(longer);
}

FIXTURE_TEST(a_requests_salt_adds_to_its_models)
{
    hearth_runtime *runtime = hth_test_runtime_open(&f->options);
    hearth_model_options options = hearth_model_options_default();
    hearth_model *plain = hth_test_model_load(runtime, "stub:", NULL);
    hearth_model *salted;

    options.cache_salt = "house";
    salted = hth_test_model_load(runtime, "stub:", &options);
    assert_int_equal(hit_of(salted, f->prompt, "anna"), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(salted, f->prompt, NULL), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(plain, f->prompt, "anna"), HEARTH_HIT_NONE);
    assert_int_equal(hit_of(plain, f->prompt, "house"), HEARTH_HIT_EXACT); /* the same salt, wherever it is said */
    assert_int_equal(hit_of(salted, f->prompt, "anna"), HEARTH_HIT_EXACT);
    hearth_model_unref(plain);
    hearth_model_unref(salted);
    hearth_runtime_close(runtime);
}

/* ---- parents ---- */

typedef struct continuation {
    hearth_token tokens[PROMPT_BYTES + REPLY_TOKENS + MORE_BYTES];
    uint8_t parent[32];
    hearth_request request;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    hearth_status status;
    hearth_hit hit;
} continuation;

static void note_done(uint64_t id, const hearth_result *result, void *user_data)
{
    continuation *c = user_data;

    (void)id;
    pthread_mutex_lock(&c->lock);
    c->done = true;
    c->status = result->status;
    c->hit = result->stats->hit;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void await_done(continuation *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* The turn after the fixture's prompt and reply, which another directory computes: nobody here knows them. */
static continuation *continuation_new(const fixture *f)
{
    continuation *c = calloc(1, sizeof(*c));
    hearth_runtime_options options = hth_test_runtime_options(f->other_directory);
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    const hearth_result *result = ask(model, f->prompt, NULL);
    size_t n = 0;

    assert_non_null(c);
    assert_int_equal(
        hearth_tokenize(model, f->prompt, PROMPT_BYTES, HEARTH_TOKENIZE_BOS, c->tokens, PROMPT_BYTES + 1, &n, NULL),
        HEARTH_OK);
    memcpy(c->tokens + n, result->tokens, result->stats->completion_tokens * sizeof(*c->tokens));
    n += result->stats->completion_tokens;
    for (int i = 0; i < 10; i++)
        c->tokens[n++] = 'x';
    memcpy(c->parent, result->stats->finish_key, sizeof(c->parent));
    c->request = hth_test_greedy(NULL, 5);
    c->request.tokens = c->tokens;
    c->request.n_tokens = n;
    c->request.parent_key = c->parent;
    c->request.on_done = note_done;
    c->request.user_data = c;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return c;
}

static void continuation_free(continuation *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

FIXTURE_TEST(a_request_waits_for_the_parent_that_another_writes)
{
    continuation *c = continuation_new(f);
    hearth_runtime *waiting, *writing;
    hearth_model *waiter, *writer;
    const hearth_result *result;

    f->options.session_resume_wait_ms = AGES_MS;
    waiting = hth_test_runtime_open(&f->options);
    writing = hth_test_runtime_open(&f->options);
    waiter = hth_test_model_load(waiting, "stub:", NULL);
    writer = hth_test_model_load(writing, "stub:", NULL);
    assert_int_equal(hearth_submit(waiter, &c->request, NULL, NULL), HEARTH_OK);
    result = ask(writer, f->prompt, NULL);
    assert_memory_equal(result->stats->finish_key, c->parent, sizeof(c->parent));
    await_done(c);
    assert_int_equal(c->status, HEARTH_OK);
    assert_int_equal(c->hit, HEARTH_HIT_RESUME);
    hearth_result_unref(result);
    hearth_model_unref(waiter);
    hearth_model_unref(writer);
    hearth_runtime_close(waiting);
    hearth_runtime_close(writing);
    continuation_free(c);
}

/* A turn that is asked for again: its own rows have superseded the one that its parent key names. */
FIXTURE_TEST(a_parent_inside_a_longer_row_is_not_waited_for)
{
    continuation *c = continuation_new(f);
    hearth_runtime *runtime;
    hearth_model *model;
    const hearth_result *result;

    f->options.session_resume_wait_ms = AGES_MS;
    runtime = hth_test_runtime_open(&f->options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    result = ask(model, f->prompt, NULL);
    hearth_result_unref(result);
    for (int i = 0; i < 2; i++) {
        c->done = false;
        assert_int_equal(hearth_submit(model, &c->request, NULL, NULL), HEARTH_OK);
        await_done(c);
        assert_int_equal(c->hit, i == 0 ? HEARTH_HIT_RESUME : HEARTH_HIT_EXACT);
        assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, AGES_MS, NULL), HEARTH_OK);
    }
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    continuation_free(c);
}

FIXTURE_TEST(without_a_wait_an_unknown_parent_is_a_miss)
{
    continuation *c = continuation_new(f);
    hearth_runtime *runtime;
    hearth_model *model;

    f->options.session_resume_wait_ms = 0;
    runtime = hth_test_runtime_open(&f->options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    assert_int_equal(hearth_submit(model, &c->request, NULL, NULL), HEARTH_OK);
    await_done(c);
    assert_int_equal(c->status, HEARTH_OK);
    assert_int_equal(c->hit, HEARTH_HIT_NONE);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    continuation_free(c);
}

FIXTURE_TEST(a_cancel_ends_the_wait)
{
    continuation *c = continuation_new(f);
    hearth_runtime *runtime;
    hearth_model *model;
    uint64_t id = 0;

    f->options.session_resume_wait_ms = AGES_MS; /* the test's time limit is shorter */
    runtime = hth_test_runtime_open(&f->options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    assert_int_equal(hearth_submit(model, &c->request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_cancel(model, id, NULL), HEARTH_OK);
    await_done(c);
    assert_int_equal(c->status, HEARTH_CANCELLED);

    c->done = false; /* and so does the end of the model */
    assert_int_equal(hearth_submit(model, &c->request, &id, NULL), HEARTH_OK);
    hearth_model_unref(model);
    await_done(c);
    assert_int_equal(c->status, HEARTH_CANCELLED);
    hearth_runtime_close(runtime);
    continuation_free(c);
}

/* ---- signatures ---- */

/* A key file in the fixture's other directory; name distinguishes keys. */
static void write_key(const fixture *f, char name, char path[4096])
{
    FILE *file;

    (void)snprintf(path, 4096, "%s/key-%c", f->other_directory, name);
    file = fopen(path, "we");
    assert_non_null(file);
    for (int i = 0; i < 40; i++)
        assert_int_equal(fputc(name + i % 7, file), name + i % 7);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

/* A prompt in a runtime that refuses the rows which are there: computed, and the refused rows are set aside. */
static void expect_refused(fixture *f, const hearth_runtime_options *options, const char *reply)
{
    hearth_runtime *runtime = hth_test_runtime_open(options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    const hearth_result *result = ask(model, f->prompt, NULL);

    assert_int_equal(result->stats->cached_tokens, 0);
    assert_string_equal(result->text, reply);
    assert_true(hth_test_counters(runtime).rows_quarantined > 0);
    assert_true(atomic_load(&f->n_warnings) > 0);
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}

FIXTURE_TEST(signed_rows_are_accepted_with_their_key_only)
{
    hearth_runtime_options with_key = f->options, with_other_key = f->options;
    char key[4096], other_key[4096];
    const hearth_result *cold, *warm;

    write_key(f, 'a', key);
    write_key(f, 'b', other_key);
    with_key.signing_key_file = key;
    with_other_key.signing_key_file = other_key;
    cold = ask_anew(&with_key, f->prompt);
    warm = ask_anew(&with_key, f->prompt);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    assert_int_equal(warm->stats->tier, HEARTH_TIER_DISK);
    hearth_result_unref(warm);
    warm = ask_anew(&f->options, f->prompt); /* without a key there is nothing to check against */
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    assert_int_equal(atomic_load(&f->n_warnings), 0);

    expect_refused(f, &with_other_key, cold->text);
    warm = ask_anew(&with_other_key, f->prompt); /* what was computed instead is signed anew */
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    assert_string_equal(warm->text, cold->text);
    hearth_result_unref(warm);
    hearth_result_unref(cold);
}

FIXTURE_TEST(unsigned_rows_are_refused_where_a_key_is_configured)
{
    hearth_runtime_options with_key = f->options;
    const hearth_result *cold = ask_anew(&f->options, f->prompt), *warm;
    char key[4096];

    write_key(f, 'a', key);
    with_key.signing_key_file = key;
    expect_refused(f, &with_key, cold->text);
    assert_true(hth_test_n_files(f->directory, ".kvc") > 0);
    warm = ask_anew(&with_key, f->prompt);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    hearth_result_unref(cold);
}

/* ---- text ---- */

/* Do the bytes of a row file hold the text? */
static bool file_holds(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    size_t n_text = strlen(text), n;
    char *bytes = malloc(1 << 20);
    bool found = false;

    assert_non_null(file);
    assert_non_null(bytes);
    n = fread(bytes, 1, 1 << 20, file);
    for (size_t i = 0; i + n_text <= n && !found; i++)
        found = memcmp(bytes + i, text, n_text) == 0;
    (void)fclose(file);
    free(bytes);
    return found;
}

FIXTURE_TEST(a_rows_text_is_kept_only_where_it_is_asked_for)
{
    const hearth_result *result;
    char text[256], *path;

    memcpy(text, f->prompt, 255); /* after the token that begins every text */
    text[255] = '\0';
    result = ask_anew(&f->options, f->prompt);
    hearth_result_unref(result);
    for (int i = 0; i < 2; i++) {
        path = hth_test_file(f->directory, i == 0 ? "-block.kvc" : "-tail.kvc");
        assert_false(file_holds(path, "abc"));
        free(path);
    }

    hth_test_directory_remove(f->directory);
    f->directory = hth_test_directory_new();
    f->options.cache_directory = f->directory;
    f->options.keep_prompt_text = true;
    text[200] = '\0';
    result = ask_anew(&f->options, text);
    path = hth_test_file(f->directory, "-tail.kvc"); /* of the prompt and its reply */
    assert_true(file_holds(path, text));
    free(path);
    hearth_result_unref(result);
    result = ask_anew(&f->options, text);
    assert_int_equal(result->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(result);
}
