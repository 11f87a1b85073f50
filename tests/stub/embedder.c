/*
 * embedder.c - the stub's vectors of inputs
 *
 * The vector of a token is a function of the input's tokens up to it. A model with labels gives each input as many
 * scores: functions of all of its tokens. An input with the byte 1 in it makes the whole evaluation fail.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stub/inside.h"

enum { N_INPUTS_MAX = 16 };

struct hth_engine_embedder {
    const hth_engine_model *model;
    hth_embedder_params params;
    size_t n_inputs;   /* of the last evaluation; 0: it failed */
    uint32_t *first;   /* [n_inputs + 1], the place of each input's vectors */
    float *vectors;    /* [n_tokens_max or n_inputs] */
    uint64_t adapters; /* their change; 0: none */
};

static uint32_t n_values(const hth_engine_embedder *embedder)
{
    return embedder->params.pooling == HEARTH_POOLING_RANK ? embedder->model->n_labels : HTH_STUB_EMBEDDING;
}

hearth_status hth_stub_embedder_new(hth_engine_model *model, const hth_embedder_params *params,
                                    hth_engine_embedder **out, hearth_error *err)
{
    hth_engine_embedder *embedder;

    if (!model->embeds)
        return hth_fail(err, HEARTH_UNSUPPORTED, "this stub makes no embeddings");
    if (params->pooling == HEARTH_POOLING_RANK && model->n_labels == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "this stub has no classifier");
    embedder = calloc(1, sizeof(*embedder));
    if (!embedder)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub's embedder");
    embedder->model = model;
    embedder->params = *params;
    if (embedder->params.n_inputs_max > N_INPUTS_MAX)
        embedder->params.n_inputs_max = N_INPUTS_MAX;
    embedder->first = calloc(N_INPUTS_MAX + 1, sizeof(embedder->first[0]));
    embedder->vectors =
        calloc((size_t)(params->n_tokens_max + N_INPUTS_MAX) * n_values(embedder), sizeof(embedder->vectors[0]));
    if (!embedder->first || !embedder->vectors) {
        hth_stub_embedder_free(embedder);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stub's embedder");
    }
    *out = embedder;
    return HEARTH_OK;
}

void hth_stub_embedder_free(hth_engine_embedder *embedder)
{
    if (!embedder)
        return;
    free(embedder->first);
    free(embedder->vectors);
    free(embedder);
}

hearth_status hth_stub_embedder_adapters(hth_engine_embedder *embedder, const hth_engine_adapter_use *uses, size_t n,
                                         hearth_error *err)
{
    (void)err; /* it cannot fail */
    embedder->adapters = hth_stub_adapters_change(uses, n);
    return HEARTH_OK;
}

uint32_t hth_stub_embedder_inputs(const hth_engine_embedder *embedder)
{
    return embedder->params.n_inputs_max;
}

static void add(const hth_engine_embedder *embedder, uint64_t hash, float factor, float *vector)
{
    for (uint32_t i = 0; i < n_values(embedder); i++)
        vector[i] += factor * ((float)(hth_stub_mix2(hash, i) >> 40) * (2.0f / (1 << 24)) - 1.0f);
}

/* The vectors of one input; returns how many there are. */
static uint32_t evaluate(const hth_engine_embedder *embedder, const hth_embedder_input *input, float *vectors)
{
    hearth_pooling pooling = embedder->params.pooling;
    uint32_t n = pooling == HEARTH_POOLING_NONE ? input->n_tokens : 1;
    uint64_t hash = embedder->adapters;

    memset(vectors, 0, (size_t)n * n_values(embedder) * sizeof(*vectors));
    for (uint32_t i = 0; i < input->n_tokens; i++) {
        bool is_last = i + 1 == input->n_tokens;

        hash = hth_stub_mix2(hash, (uint64_t)input->tokens[i]);
        if (pooling == HEARTH_POOLING_NONE)
            add(embedder, hash, 1, vectors + (size_t)i * n_values(embedder));
        else if (pooling == HEARTH_POOLING_MEAN)
            add(embedder, hash, 1 / (float)input->n_tokens, vectors);
        else if (pooling == HEARTH_POOLING_CLS ? i == 0 : is_last)
            add(embedder, hash, 1, vectors);
    }
    return n;
}

/* False: aborted. */
static bool take_time(const hth_engine_embedder *embedder, uint32_t n_tokens)
{
    uint32_t delay_us = embedder->model->delay_us;
    struct timespec pause = { .tv_sec = delay_us / 1000000, .tv_nsec = (long)(delay_us % 1000000) * 1000 };

    for (uint32_t i = 0; i < n_tokens; i++) {
        if (embedder->params.abort && embedder->params.abort(embedder->params.abort_user_data))
            return false;
        if (delay_us > 0)
            (void)nanosleep(&pause, NULL); /* a signal only makes the stub faster */
    }
    return true;
}

static bool fails(const hth_embedder_input *input)
{
    for (uint32_t i = 0; i < input->n_tokens; i++)
        if (input->tokens[i] == 1)
            return true;
    return false;
}

hearth_status hth_stub_embed(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                             hth_decode_result *result, hearth_error *err)
{
    uint32_t n = 0, n_tokens = 0;

    embedder->n_inputs = 0;
    if (n_inputs < 1 || n_inputs > embedder->params.n_inputs_max)
        return hth_fail(err, HEARTH_MISUSE, "%zu inputs; 1 to %u can be evaluated at once", n_inputs,
                        embedder->params.n_inputs_max);
    for (size_t i = 0; i < n_inputs; i++) {
        n_tokens += inputs[i].n_tokens;
        if (inputs[i].n_tokens < 1 || n_tokens > embedder->params.n_tokens_max)
            return hth_fail(err, HEARTH_MISUSE, "input %zu has %u tokens; there is no room for them", i,
                            inputs[i].n_tokens);
        if (fails(&inputs[i]))
            return hth_fail(err, HEARTH_ENGINE, "an input has the byte 1 in it");
    }
    for (size_t i = 0; i < n_inputs; i++) {
        if (!take_time(embedder, inputs[i].n_tokens)) {
            *result = HTH_DECODE_ABORTED;
            return HEARTH_OK;
        }
        embedder->first[i] = n;
        n += evaluate(embedder, &inputs[i], embedder->vectors + (size_t)n * n_values(embedder));
    }
    embedder->first[n_inputs] = n;
    embedder->n_inputs = n_inputs;
    *result = HTH_DECODE_OK;
    return HEARTH_OK;
}

const float *hth_stub_embedding(hth_engine_embedder *embedder, size_t input, uint32_t token)
{
    uint32_t place;

    if (input >= embedder->n_inputs)
        return NULL;
    place = embedder->first[input] + (embedder->params.pooling == HEARTH_POOLING_NONE ? token : 0);
    return place < embedder->first[input + 1] ? embedder->vectors + (size_t)place * n_values(embedder) : NULL;
}
