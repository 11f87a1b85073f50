/*
 * embeddings.h - the embeddings of a request, with a reference count
 *
 * The values of all vectors are one array, which is allocated before the first evaluation: the number of vectors is
 * known then. Until the request ends, only the embedder's thread uses it. Afterwards it never changes.
 */
#ifndef HTH_SCHED_EMBEDDINGS_H
#define HTH_SCHED_EMBEDDINGS_H

#include <stdatomic.h>

#include "hearth.h"

enum { HTH_EMBEDDINGS_VALUES_MAX = 1 << 28 }; /* 1 GiB */

typedef struct hth_counted_embeddings {
    hearth_embeddings shown; /* first, so that hearth_embeddings_ref finds the rest; points to the arrays below */
    float *values;
    const float **vectors;
    uint32_t *n_vectors;
    uint32_t *n_tokens;
    atomic_uint references;
} hth_counted_embeddings;

/*
 * Room for the vectors, of n_values each, of inputs of so many tokens, [n_inputs]. One reference, for
 * hearth_embeddings_unref(&embeddings->shown). HEARTH_MISUSE beyond n_values_max; HEARTH_NO_MEMORY.
 */
hearth_status hth_embeddings_new(hearth_pooling pooling, uint32_t n_values, const uint32_t *n_tokens, size_t n_inputs,
                                 uint64_t n_values_max, hth_counted_embeddings **out, hearth_error *err);
/* The memory of the vectors. */
uint64_t hth_embeddings_bytes(const hth_counted_embeddings *embeddings);
/* Turn it into a failure, without vectors. Only while no other holder knows it. */
void hth_embeddings_fail(hth_counted_embeddings *embeddings, const hearth_error *error);

/* Write vector number k of an input: the leading n_values of values, with a norm as in hearth_embed_request. */
void hth_embeddings_set(hth_counted_embeddings *embeddings, size_t input, uint32_t k, const float *values,
                        int32_t norm);

#endif
