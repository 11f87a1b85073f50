/*
 * sampler_scene.h - what tests of the sampler share: a model with a real vocabulary, samplers of it, and random replies
 *
 * The file has GROUP(with_a_model, open_model, close_model).
 */
#ifndef HTH_TESTS_SAMPLER_SCENE_H
#define HTH_TESTS_SAMPLER_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { N_MAX = 65536, SCHEMA_BYTES = 262144 };

static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_model_info info;
static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static float logits[N_MAX];
static uint64_t seed;

static inline int open_model(void **state)
{
    hth_engine_model_params params = { .log = &silent };
    hearth_error err = { .message = "" };

    (void)state;
    seed = hth_test_seed();
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(MODEL, &params, &model, &err) != HEARTH_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    llama->model_info(model, &info);
    return info.n_vocab > N_MAX;
}

static inline int close_model(void **state)
{
    (void)state;
    llama->model_free(model);
    return 0;
}

static inline void random_logits(void)
{
    for (uint32_t i = 0; i < info.n_vocab; i++)
        logits[i] = (float)hth_test_random(&seed, 16000) / 1000 - 8;
}

/* Everything off. */
static inline hearth_sampling plain(void)
{
    return (hearth_sampling){ .temperature = 1,
                              .top_p = 1,
                              .typical_p = 1,
                              .repeat_penalty = 1,
                              .repeat_last_n = 64,
                              .dry_base = 1.75f,
                              .dry_allowed_length = 2,
                              .dry_last_n = 1024 };
}

static inline hth_engine_sampler *open_sampler(const hearth_sampling *sampling)
{
    hth_engine_sampler *sampler = NULL;
    hearth_error err;

    assert_ok(llama->sampler_new(model, sampling, &sampler, &err), err);
    return sampler;
}

static inline size_t apply(hth_engine_sampler *sampler, uint64_t position, bool forbids_end, const hth_candidate **out)
{
    hearth_error err;
    size_t n = 0;

    assert_ok(llama->sampler_apply(sampler, logits,
                                   &(hth_sample_at){ .position = position, .forbids_end = forbids_end }, out, &n, &err),
              err);
    return n;
}

static inline void accept(hth_engine_sampler *sampler, hearth_token token, bool is_reply)
{
    hearth_error err;

    assert_ok(llama->sampler_accept(sampler, token, is_reply, &err), err);
}

static inline size_t text_of(hearth_token token, char bytes[256])
{
    size_t n = 0;

    if (llama->piece(model, token, false, bytes, 255, &n, NULL) != HEARTH_OK)
        n = 0;
    bytes[n] = '\0';
    return n;
}

/* A reply of random choices; its length, 0 where it did not end within limit tokens. */
static inline size_t reply(const hearth_sampling *s, char *text, size_t capacity, size_t limit)
{
    hth_engine_sampler *sampler = open_sampler(s);
    size_t n = 0;

    for (size_t i = 0; i < limit; i++) {
        const hth_candidate *candidates;
        char piece[256];
        size_t n_candidates, n_piece;
        hearth_token token;

        random_logits();
        for (uint32_t j = 0; j < info.n_vocab; j++)
            if (llama->is_end(model, (hearth_token)j))
                logits[j] += 10; /* so that it ends */
        n_candidates = apply(sampler, i, false, &candidates);
        token = candidates[hth_test_random(&seed, n_candidates)].token;
        accept(sampler, token, true);
        if (llama->is_end(model, token)) {
            llama->sampler_free(sampler);
            text[n] = '\0';
            return n;
        }
        n_piece = text_of(token, piece);
        assert_true(n + n_piece + 1 < capacity);
        memcpy(text + n, piece, n_piece);
        n += n_piece;
    }
    llama->sampler_free(sampler);
    return 0;
}

#endif
