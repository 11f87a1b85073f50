#include "sched/embeddings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct hth_vector_memory {
    atomic_uint_least64_t n_bytes;
    atomic_uint references;
};

hth_vector_memory *hth_vector_memory_new(void)
{
    hth_vector_memory *memory = calloc(1, sizeof(*memory));

    if (memory)
        atomic_init(&memory->references, 1);
    return memory;
}

void hth_vector_memory_unref(hth_vector_memory *memory)
{
    if (memory && atomic_fetch_sub_explicit(&memory->references, 1, memory_order_acq_rel) == 1)
        free(memory);
}

uint64_t hth_vector_memory_bytes(const hth_vector_memory *memory)
{
    return atomic_load_explicit(&memory->n_bytes, memory_order_relaxed);
}

hearth_status hth_embeddings_new(hearth_pooling pooling, uint32_t n_values, const uint32_t *n_tokens, size_t n_inputs,
                                 uint64_t n_values_max, hth_counted_embeddings **out, hearth_error *err)
{
    hth_counted_embeddings *embeddings;
    uint64_t n_vectors = 0, n_tokens_total = 0, n = 0;

    for (size_t i = 0; i < n_inputs; i++)
        n_tokens_total += n_tokens[i];
    n_vectors = pooling == HEARTH_POOLING_NONE ? n_tokens_total : n_inputs;
    if (n_vectors > n_values_max / (n_values ? n_values : 1))
        return hth_fail(err, HEARTH_MISUSE,
                        "the embeddings would be %llu vectors of %u values; a request may have at most %llu values: "
                        "send fewer inputs at once",
                        (unsigned long long)n_vectors, n_values, (unsigned long long)n_values_max);
    embeddings = calloc(1, sizeof(*embeddings));
    if (!embeddings)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for embeddings");
    atomic_init(&embeddings->references, 1);
    embeddings->values = calloc((size_t)n_vectors * n_values + 1, sizeof(*embeddings->values));
    embeddings->vectors = calloc(n_inputs + 1, sizeof(*embeddings->vectors));
    embeddings->n_vectors = calloc(n_inputs + 1, sizeof(*embeddings->n_vectors));
    embeddings->n_tokens = calloc(n_inputs + 1, sizeof(*embeddings->n_tokens));
    if (!embeddings->values || !embeddings->vectors || !embeddings->n_vectors || !embeddings->n_tokens) {
        hearth_embeddings_unref(&embeddings->shown);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %llu vectors of %u values", (unsigned long long)n_vectors,
                        n_values);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        embeddings->vectors[i] = embeddings->values + n;
        embeddings->n_tokens[i] = n_tokens[i];
        embeddings->n_vectors[i] = pooling == HEARTH_POOLING_NONE ? n_tokens[i] : 1;
        n += (uint64_t)embeddings->n_vectors[i] * n_values;
    }
    embeddings->shown = (hearth_embeddings){
        .struct_size = sizeof(embeddings->shown),
        .pooling = pooling,
        .n_inputs = n_inputs,
        .n_values = n_values,
        .vectors = embeddings->vectors,
        .n_vectors = embeddings->n_vectors,
        .n_tokens = embeddings->n_tokens,
        .n_tokens_total = n_tokens_total,
    };
    embeddings->n_bytes = n * sizeof(*embeddings->values);
    *out = embeddings;
    return HEARTH_OK;
}

void hth_embeddings_count(hth_counted_embeddings *embeddings, hth_vector_memory *memory)
{
    atomic_fetch_add_explicit(&memory->references, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&memory->n_bytes, embeddings->n_bytes, memory_order_relaxed);
    embeddings->memory = memory;
}

void hth_embeddings_uncount(hth_counted_embeddings *embeddings)
{
    if (!embeddings->memory)
        return;
    atomic_fetch_sub_explicit(&embeddings->memory->n_bytes, embeddings->n_bytes, memory_order_relaxed);
    hth_vector_memory_unref(embeddings->memory);
    embeddings->memory = NULL;
}

void hth_embeddings_fail(hth_counted_embeddings *embeddings, const hearth_error *error)
{
    embeddings->shown.status = error->status;
    embeddings->shown.error = *error;
    embeddings->shown.n_inputs = 0;
}

/* Bit for bit as in llama.cpp v0.5.0 (common_embd_normalize). */
static float factor_of(const float *values, uint32_t n, int32_t norm)
{
    double sum = 0;

    if (norm < 0)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        double value = fabs((double)values[i]);

        if (norm == 0)
            sum = value > sum ? value : sum;
        else
            sum += norm == 2 ? value * value : pow(value, norm);
    }
    if (norm == 0)
        sum /= 32760;
    else
        sum = norm == 2 ? sqrt(sum) : pow(sum, 1.0 / norm);
    return sum > 0 ? (float)(1 / sum) : 0;
}

void hth_embeddings_set(hth_counted_embeddings *embeddings, size_t input, uint32_t k, const float *values, int32_t norm)
{
    uint32_t n = embeddings->shown.n_values;
    float *to = embeddings->values + (embeddings->vectors[input] - embeddings->values) + (size_t)k * n;
    float factor = factor_of(values, n, norm);

    for (uint32_t i = 0; i < n; i++)
        to[i] = values[i] * factor;
}

/* The struct that contains public embeddings. The cast is safe, because the library allocated them as non-const. */
static hth_counted_embeddings *whole_of(const hearth_embeddings *embeddings)
{
    return (hth_counted_embeddings *)embeddings;
}

const hearth_embeddings *hearth_embeddings_ref(const hearth_embeddings *embeddings)
{
    atomic_fetch_add_explicit(&whole_of(embeddings)->references, 1, memory_order_relaxed);
    return embeddings;
}

void hearth_embeddings_unref(const hearth_embeddings *embeddings)
{
    hth_counted_embeddings *whole = whole_of(embeddings);

    if (!whole || atomic_fetch_sub_explicit(&whole->references, 1, memory_order_acq_rel) > 1)
        return;
    hth_embeddings_uncount(whole);
    free(whole->values);
    free(whole->vectors);
    free(whole->n_vectors);
    free(whole->n_tokens);
    free(whole);
}

const char *hearth_pooling_name(hearth_pooling pooling)
{
    switch (pooling) {
    case HEARTH_POOLING_MODEL: return "model";
    case HEARTH_POOLING_NONE: return "none";
    case HEARTH_POOLING_MEAN: return "mean";
    case HEARTH_POOLING_CLS: return "cls";
    case HEARTH_POOLING_LAST: return "last";
    case HEARTH_POOLING_RANK: return "rank";
    }
    return "unknown";
}
