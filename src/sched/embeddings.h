/*
 * embeddings.h - the embeddings of a request, with a reference count
 *
 * The values of all vectors are one array, which is allocated before the first evaluation: the number of vectors is
 * known then. Until the request ends, only the embedder's thread uses it. Afterwards it never changes, and any thread
 * may read it. References may be taken and given back by any thread.
 */
#ifndef HTH_SCHED_EMBEDDINGS_H
#define HTH_SCHED_EMBEDDINGS_H

#include <stdatomic.h>

#include "hearth.h"

enum { HTH_EMBEDDINGS_VALUES_MAX = 1 << 28 }; /* 1 GiB */

/* The bytes of all embeddings that count in it. It has references, because embeddings may outlive their model. */
typedef struct hth_vector_memory hth_vector_memory;

/* One reference; NULL without memory. */
hth_vector_memory *hth_vector_memory_new(void);
void hth_vector_memory_unref(hth_vector_memory *memory); /* accepts NULL */
uint64_t hth_vector_memory_bytes(const hth_vector_memory *memory);

typedef struct hth_counted_embeddings {
    hearth_embeddings shown; /* first, so that hearth_embeddings_ref finds the rest; points to the arrays below */
    float *values;
    const float **vectors;
    uint32_t *n_vectors;
    uint32_t *n_tokens;
    uint64_t n_bytes;          /* of the vectors */
    hth_vector_memory *memory; /* a reference, owned; NULL: they count in none */
    atomic_uint references;
} hth_counted_embeddings;

/*
 * Room for the vectors, of n_values floats each, of inputs of so many tokens, [n_inputs]: a vector for each input, or
 * with HEARTH_POOLING_NONE for each token. One reference, for hearth_embeddings_unref(&embeddings->shown).
 * HEARTH_MISUSE beyond n_values_max floats; HEARTH_NO_MEMORY.
 */
hearth_status hth_embeddings_new(hearth_pooling pooling, uint32_t n_values, const uint32_t *n_tokens, size_t n_inputs,
                                 uint64_t n_values_max, hth_counted_embeddings **out, hearth_error *err);
/* The memory of the vectors, also of those of a failure. */
uint64_t hth_embeddings_bytes(const hth_counted_embeddings *embeddings);
/* Count the vectors in that memory until the last reference is given back, or until uncount. Once, before on_done. */
void hth_embeddings_count(hth_counted_embeddings *embeddings, hth_vector_memory *memory);
/* By the holder of the only reference that still counts. Any thread. */
void hth_embeddings_uncount(hth_counted_embeddings *embeddings);
/* Turn it into a failure, without vectors. Only while no other holder knows it. */
void hth_embeddings_fail(hth_counted_embeddings *embeddings, const hearth_error *error);

/*
 * Write vector number k of an input, 0 .. n_vectors[input] - 1: the leading n_values of values, with a norm as in
 * hearth_embed_request. Only while no other holder knows it.
 */
void hth_embeddings_set(hth_counted_embeddings *embeddings, size_t input, uint32_t k, const float *values,
                        int32_t norm);

#endif
