/*
 * embeddings.h - the embeddings of a request, with a reference count
 *
 * The values of all vectors are one array. It is allocated before the first evaluation, since the number of vectors is
 * already known. Until the request ends, only the embedder's thread uses it. Afterwards it never changes, and any
 * thread may read it. Any thread may take and release references.
 */
#ifndef HTH_SCHED_EMBEDDINGS_H
#define HTH_SCHED_EMBEDDINGS_H

#include <stdatomic.h>

#include "hearth.h"

enum { HTH_EMBEDDINGS_VALUES_MAX = 1 << 28 }; /* 1 GiB */

/*
 * The total bytes of the embeddings that count in it. It is reference-counted, because embeddings may outlive their
 * model.
 */
typedef struct hth_vector_memory hth_vector_memory;

/* One reference; NULL if out of memory. */
hth_vector_memory *hth_vector_memory_new(void);
void hth_vector_memory_unref(hth_vector_memory *memory); /* accepts NULL */
uint64_t hth_vector_memory_bytes(const hth_vector_memory *memory);

typedef struct hth_counted_embeddings {
    hearth_embeddings shown; /* first, for hearth_embeddings_ref; points to the arrays below */
    float *values;
    const float **vectors;
    uint32_t *n_vectors;
    uint32_t *n_tokens;
    uint64_t n_bytes;          /* of the vectors, even after a failure */
    hth_vector_memory *memory; /* an owned reference; NULL: they are not counted */
    atomic_uint references;
} hth_counted_embeddings;

/*
 * Allocate the vectors of n_inputs inputs with n_tokens tokens each. A vector has n_values floats. There is one for
 * each input, or for each token with HEARTH_POOLING_NONE. One reference, for
 * hearth_embeddings_unref(&embeddings->shown). HEARTH_MISUSE beyond n_values_max floats; HEARTH_NO_MEMORY.
 */
hearth_status hth_embeddings_new(hearth_pooling pooling, uint32_t n_values, const uint32_t *n_tokens, size_t n_inputs,
                                 uint64_t n_values_max, hth_counted_embeddings **out, hearth_error *err);
/*
 * Count the vectors in that memory until the last reference is released, or until uncount. Call once, before on_done.
 */
void hth_embeddings_count(hth_counted_embeddings *embeddings, hth_vector_memory *memory);
/* Called by the holder of the only reference that still counts. Any thread. */
void hth_embeddings_uncount(hth_counted_embeddings *embeddings);
/* Turn it into a failure without vectors. Only while there is no other holder. */
void hth_embeddings_fail(hth_counted_embeddings *embeddings, const hearth_error *error);

/*
 * Write vector number k of an input, 0 .. n_vectors[input] - 1: the leading n_values of values, with a norm as in
 * hearth_embed_request. Only while there is no other holder.
 */
void hth_embeddings_set(hth_counted_embeddings *embeddings, size_t input, uint32_t k, const float *values,
                        int32_t norm);

#endif
