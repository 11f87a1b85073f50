/*
 * history_test.c - a process is killed at every step of writing the history, and the next one reads nothing wrong
 *
 * A child opens the history, notes conversations, rewrites its files, and kills itself (SIGKILL) before the n-th file
 * operation; a write is cut in half first. n goes through all steps. Then the history is opened again: what a child had
 * written before it was killed is there, nothing else is known, and it can be written again.
 */
#include "support/cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/true_tokens.h"
#include "stub/backend.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { WORD = 260, VOCAB = 300, CONVERSATIONS = 24, FLUSH_MS = 60000, STEPS_MAX = 400 };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const uint8_t fingerprint[32] = { 1 };

typedef struct scene {
    hth_engine_model *model;
    hth_true_tokens *known;
} scene;

static scene open_scene(const char *directory, const hth_fs *fs)
{
    hth_engine_model_params params = { .log = &silent };
    scene s;

    if (hth_backend_stub()->model_load("stub:vocab=300", &params, &s.model, NULL) != HEARTH_OK)
        abort();
    s.known = hth_true_tokens_new(&(hth_true_tokens_options){
        .backend = hth_backend_stub(),
        .model = s.model,
        .n_vocab = VOCAB,
        .bytes_max = 1 << 20,
        .directory = directory,
        .fs = fs,
        .log = &silent,
    });
    if (!s.known)
        abort();
    return s;
}

static void close_scene(scene *s)
{
    if (!hth_true_tokens_free(s->known))
        abort();
    hth_backend_stub()->model_free(s->model);
}

/* Conversation i gets its reply. */
static void note(const scene *s, int i)
{
    hearth_token prompt[64], reply[2] = { WORD, WORD + i % 30 };
    hth_prompt_text *text;
    char bytes[64];
    size_t n = (size_t)snprintf(bytes, sizeof(bytes), "conversation %02d", i);

    for (size_t k = 0; k < n; k++)
        prompt[k] = (unsigned char)bytes[k];
    text = hth_prompt_text_new(bytes, n, 0, 0);
    if (!text)
        abort();
    hth_true_tokens_note(s->known, fingerprint, text, prompt, n, reply, 2);
    hth_prompt_text_unref(text);
}

static bool knows(const scene *s, int i)
{
    char bytes[96];
    hearth_token *tokens;
    size_t n, n_known;

    (void)snprintf(bytes, sizeof(bytes), "conversation %02d w%d w%d, and more", i, WORD, WORD + i % 30);
    if (hth_true_tokens_of(s->known, fingerprint, bytes, strlen(bytes), 0, NULL, &tokens, &n, &n_known, NULL) !=
        HEARTH_OK)
        abort();
    if (n_known > 0) {
        assert_int_equal(n_known, strlen("conversation 00") + 2);
        assert_int_equal(tokens[n_known - 1], WORD + i % 30);
    }
    free(tokens);
    return n_known > 0;
}

/*
 * Note all conversations, each in an opening of its own, so that files are many and become one. Tell each that is
 * written.
 */
static void run_child(const char *directory, uint64_t kill_at, int told)
{
    test_step_fs step;

    test_step_fs_init(&step, NULL);
    step.kill_at = kill_at;
    for (int i = 0; i < CONVERSATIONS; i++) {
        scene s = open_scene(directory, &step.fs);

        note(&s, i);
        if (!hth_true_tokens_flush(s.known, FLUSH_MS) || write(told, "x", 1) != 1)
            abort();
        close_scene(&s);
    }
    _exit(0);
}

/* Kill a child at a step. True: it came to its end before that step. */
static bool kill_one(uint64_t kill_at)
{
    char *directory = hth_test_directory_new(), path[4096], told[CONVERSATIONS];
    ssize_t n_told;
    int pipe_ends[2], status = 0;
    scene s;
    pid_t child;

    (void)snprintf(path, sizeof(path), "%s/history/model", directory);
    assert_int_equal(pipe(pipe_ends), 0);
    child = fork();
    if (child == 0)
        run_child(path, kill_at, pipe_ends[1]);
    assert_true(child > 0);
    (void)close(pipe_ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    n_told = read(pipe_ends[0], told, sizeof(told));
    (void)close(pipe_ends[0]);
    assert_true(n_told >= 0);

    s = open_scene(path, NULL);
    for (int i = 0; i < CONVERSATIONS; i++)
        if (i < n_told)
            assert_true(knows(&s, i));
        else
            (void)knows(&s, i); /* perhaps; then with its tokens */
    note(&s, CONVERSATIONS);
    close_scene(&s);
    s = open_scene(path, NULL);
    assert_true(knows(&s, CONVERSATIONS));
    close_scene(&s);
    hth_test_directory_remove(directory);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(what_was_written_is_known_whatever_is_killed)
{
    uint64_t n = 1;

    while (n < STEPS_MAX && !kill_one(n))
        n += n < 40 ? 1 : 3; /* later openings repeat the steps of the first ones */
    assert_true(n > 40);
}
