/*
 * attention_test.c - what a sequence's next token is does not depend on who else is in the context
 *
 * A subject is continued among no, one or seven neighbours, with idle sequences below, between and above, beside the
 * chunk of somebody's prompt, and with other numbers of threads; its logits must keep their bits. And they must be
 * those of the engine's own attention within rounding, which another process computes. What is left of the engine's
 * dependence on batches is in the weights (docs/engine.md, "When bits stay the same"): with F16 weights one row differs
 * from two to eight, and the tiny shapes have such weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_CTX = 6144, N_BATCH = 512, N_SEQ_MAX = 16, N_STEPS = 10, N_NEIGHBOURS_MAX = 7, PATH_BYTES = 4096 };
enum { SUBJECT = 0, IDLE = 8, PROMPTED = 15 }; /* sequence ids; neighbours are 1 .. 7 */

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

static const hth_backend *llama;
static const hth_log silent = { .level = HEARTH_LOG_ERROR };

/* Who is there besides the subject. Lengths are multiples of 64, which the engine's prefill depends on. */
typedef struct company {
    size_t n_prompt; /* of the subject */
    size_t n_neighbours;
    size_t n_below, n_between, n_above; /* idle tokens: before the subject, after its prompt, and while it goes on */
    bool is_beside_chunk;               /* the first step carries a chunk of another prompt */
    uint32_t n_threads;
    const char *type; /* of K and V */
} company;

/* A context and what its sequences hold. */
typedef struct place {
    hth_engine_model *model;
    hth_engine_context *context;
    uint32_t ends[N_SEQ_MAX];
    uint32_t n_vocab;
    char params_text[sizeof(((hth_engine_context_info *)NULL)->params_text)];
    hth_batch_row rows[N_BATCH];
    size_t n_rows;
} place;

static void add_row(place *p, uint32_t sequence, bool wants_logits)
{
    uint32_t position = p->ends[sequence]++;
    uint64_t x = ((uint64_t)(sequence + 1) * 1000003 + position) * 0x9e3779b97f4a7c15u;

    p->rows[p->n_rows++] = (hth_batch_row){ .token = 3 + (hearth_token)((x >> 40) % (p->n_vocab - 3)),
                                            .position = position,
                                            .sequence = sequence,
                                            .wants_logits = wants_logits };
}

static void evaluate(place *p)
{
    hth_decode_result result;
    hearth_error err = { .message = "" };

    if (llama->decode(p->context, p->rows, p->n_rows, &result, &err) != HEARTH_OK || result != HTH_DECODE_OK)
        fail_msg("%d %s", (int)result, err.message);
    p->n_rows = 0;
}

static void prefill(place *p, uint32_t sequence, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add_row(p, sequence, i + 1 == n);
        if (p->n_rows == 256 || i + 1 == n)
            evaluate(p);
    }
}

static place *place_new(const char *path, const company *c)
{
    hth_engine_model_params model_params = { .log = &silent };
    hth_engine_context_params params = { .n_ctx = N_CTX,
                                         .n_batch = N_BATCH,
                                         .n_seq_max = N_SEQ_MAX,
                                         .n_threads = c->n_threads ? c->n_threads : 2,
                                         .type_k = c->type,
                                         .type_v = c->type };
    hth_engine_model_info info;
    hth_engine_context_info context_info;
    hearth_error err = { .message = "" };
    place *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(path, &model_params, &p->model, &err) != HEARTH_OK ||
        llama->context_new(p->model, &params, &p->context, &err) != HEARTH_OK)
        fail_msg("%s: %s", path, err.message);
    llama->model_info(p->model, &info);
    llama->context_info(p->context, &context_info);
    p->n_vocab = info.n_vocab;
    (void)snprintf(p->params_text, sizeof(p->params_text), "%s", context_info.params_text);
    return p;
}

static void place_free(place *p)
{
    llama->context_free(p->context);
    llama->model_free(p->model);
    free(p);
}

/* The subject's logits over N_STEPS steps, [N_STEPS][*n_vocab]; to be freed. */
static float *continue_among(const char *path, const company *c, size_t *n_vocab)
{
    place *p = place_new(path, c);
    float *logits = malloc(N_STEPS * p->n_vocab * sizeof(logits[0]));

    assert_non_null(logits);
    prefill(p, IDLE, c->n_below);
    prefill(p, SUBJECT, c->n_prompt);
    prefill(p, IDLE + 1, c->n_between);
    for (uint32_t i = 1; i <= c->n_neighbours; i++)
        prefill(p, i, 64 * i);
    for (size_t step = 0; step < N_STEPS; step++) {
        if (step == 0 && c->is_beside_chunk)
            for (size_t i = 0; i < 256; i++)
                add_row(p, PROMPTED, i == 255);
        add_row(p, SUBJECT, true);
        for (uint32_t i = 1; i <= c->n_neighbours; i++)
            add_row(p, i, true);
        {
            size_t row = p->rows[0].sequence == SUBJECT ? 0 : 256;
            const float *from;

            evaluate(p);
            from = llama->logits(p->context, row);
            assert_non_null(from);
            memcpy(logits + step * p->n_vocab, from, p->n_vocab * sizeof(logits[0]));
        }
        if (step == N_STEPS / 2)
            prefill(p, IDLE + 2, c->n_above);
    }
    *n_vocab = p->n_vocab;
    place_free(p);
    return logits;
}

static bool is_replaced(const char *path)
{
    company c = { .n_prompt = 0 };
    place *p = place_new(path, &c);
    bool found = strstr(p->params_text, " attn=own2 ") != NULL;

    place_free(p);
    return found;
}

static void assert_same_logits(const char *path, const char *what, const float *a, const float *b, size_t n_vocab)
{
    for (size_t step = 0; step < N_STEPS; step++)
        for (size_t i = 0; i < n_vocab; i++)
            if (memcmp(&a[step * n_vocab + i], &b[step * n_vocab + i], sizeof(a[0])) != 0)
                fail_msg("%s, %s: step %zu, token %zu: %.9g instead of %.9g", path, what, step, i,
                         (double)b[step * n_vocab + i], (double)a[step * n_vocab + i]);
}

/* The first company, and whether the others give the same. */
static void check_companies(const char *path, const company *companies, size_t n)
{
    size_t n_vocab;
    float *expected = continue_among(path, &companies[0], &n_vocab);

    for (size_t i = 1; i < n; i++) {
        float *got = continue_among(path, &companies[i], &n_vocab);
        char what[64];

        (void)snprintf(what, sizeof(what), "company %zu", i);
        assert_same_logits(path, what, expected, got, n_vocab);
        free(got);
    }
    free(expected);
}

/* ---- tests ---- */

TEST(a_sequence_goes_on_as_if_it_were_alone)
{
    static const char *const types[] = { "f16", "q8_0" };

    if (!is_replaced(TINY))
        skip();
    for (size_t i = 0; i < 2; i++) {
        const company companies[] = {
            { .n_prompt = 640, .type = types[i] },
            { .n_prompt = 640, .type = types[i], .n_threads = 1 },
            { .n_prompt = 640, .type = types[i], .n_threads = 3 },
            { .n_prompt = 640, .type = types[i], .n_neighbours = 1 },
            { .n_prompt = 640, .type = types[i], .n_neighbours = 7 },
            { .n_prompt = 640, .type = types[i], .n_below = 704 },
            { .n_prompt = 640, .type = types[i], .n_above = 800 },
            { .n_prompt = 640, .type = types[i], .n_below = 64, .n_between = 300, .n_above = 500, .n_neighbours = 4 },
            { .n_prompt = 640, .type = types[i], .is_beside_chunk = true },
            { .n_prompt = 640, .type = types[i], .n_neighbours = 5, .is_beside_chunk = true, .n_threads = 3 },
        };

        check_companies(TINY, companies, sizeof(companies) / sizeof(companies[0]));
    }
}

/* Shorter and longer than a window; two rows at least, because of the weights. */
TEST(so_it_is_with_every_kind_of_model)
{
    static const char *const shapes[] = { "tiny-llama",  "tiny-window",        "tiny-window600", "tiny-recurrent",
                                          "tiny-hybrid", "tiny-hybrid-window", "tiny-qwen35" };
    static const company companies[] = {
        { .n_prompt = 320, .n_neighbours = 1 },
        { .n_prompt = 320, .n_neighbours = 1, .n_threads = 3 },
        { .n_prompt = 320, .n_neighbours = 7 },
        { .n_prompt = 320, .n_neighbours = 3, .n_below = 128, .n_above = 200 },
    };

    if (!is_replaced(TINY))
        skip();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[PATH_BYTES];

        hth_test_model(shapes[i], path, sizeof(path));
        check_companies(path, companies, sizeof(companies) / sizeof(companies[0]));
    }
}

/* In another process, since what attention is used is settled when the engine starts. */
static void write_engines_logits(const char *model, const char *to)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("HEARTH_ATTENTION", "engine", 1);
        PLAY(model, to);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static const company usual = { .n_prompt = 320, .n_neighbours = 3, .n_below = 128 };

PLAYER(words)
{
    const char *model = words[0], *to = words[1];
    size_t n_vocab;
    float *logits = continue_among(model, &usual, &n_vocab);
    FILE *file = fopen(to, "wb");
    bool ok = file && !is_replaced(model) && fwrite(logits, n_vocab * sizeof(logits[0]), N_STEPS, file) == N_STEPS;

    free(logits);
    return file && fclose(file) == 0 && ok ? 0 : 1;
}

TEST(it_goes_on_as_with_the_engines_own_attention)
{
    static const char *const shapes[] = { "tiny-llama",  "tiny-window",        "tiny-window600", "tiny-recurrent",
                                          "tiny-hybrid", "tiny-hybrid-window", "tiny-qwen35" };
    char *directory;
    char to[PATH_BYTES];

    if (!is_replaced(TINY))
        skip();
    directory = hth_test_directory_new();
    (void)snprintf(to, sizeof(to), "%s/logits", directory);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[PATH_BYTES];
        size_t n_vocab;
        float *ours, *engines;
        float highest = 0, difference = 0;
        FILE *file;

        hth_test_model(shapes[i], path, sizeof(path));
        ours = continue_among(path, &usual, &n_vocab);
        write_engines_logits(path, to);
        engines = malloc(N_STEPS * n_vocab * sizeof(engines[0]));
        file = fopen(to, "rb");
        assert_true(engines && file && fread(engines, n_vocab * sizeof(engines[0]), N_STEPS, file) == N_STEPS);
        (void)fclose(file); /* only read from */
        for (size_t j = 0; j < N_STEPS * n_vocab; j++) {
            assert_true(isfinite(ours[j]));
            highest = fmaxf(highest, fabsf(engines[j]));
            difference = fmaxf(difference, fabsf(ours[j] - engines[j]));
        }
        if (!(difference <= highest * 0.03f)) /* the engine rounds Q and sums to f16; the weights are random */
            fail_msg("%s: logits differ by %g; the largest is %g", shapes[i], (double)difference, (double)highest);
        print_message("%s: logits differ by %.2g of the largest\n", shapes[i], (double)(difference / highest));
        free(ours);
        free(engines);
    }
    hth_test_directory_remove(directory);
}
