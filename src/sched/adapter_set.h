/*
 * adapter_set.h - adapters that requests share, and the ones that a request runs with
 *
 * An adapter is loaded once. Its owner and every set that names it hold references, and the last one frees it. So a
 * request keeps the adapters and scales that it was submitted with, whatever is loaded, scaled or unloaded meanwhile.
 *
 * A set never changes. Its digest stands for all that it does: sequences under sets of one digest have equal cells, and
 * may lie in one batch. NULL is the set of no adapters; its digest is all zeros.
 *
 * Any thread may call every function, except hth_adapter_set_apply and hth_adapter_set_embed.
 */
#ifndef HTH_SCHED_ADAPTER_SET_H
#define HTH_SCHED_ADAPTER_SET_H

#include "base/hash.h"
#include "engine/backend.h"

typedef struct hth_adapter hth_adapter;

/*
 * The caller owns the only reference. The adapter owns engine_adapter, and frees it with the last reference; backend is
 * borrowed for as long. sha256 is copied. NULL without memory: engine_adapter still belongs to the caller.
 */
hth_adapter *hth_adapter_new(const hth_backend *backend, hth_engine_adapter *engine_adapter,
                             const uint8_t sha256[HTH_SHA256_BYTES]);
hth_adapter *hth_adapter_ref(hth_adapter *adapter); /* returns adapter, with one reference more */
void hth_adapter_unref(hth_adapter *adapter);       /* accepts NULL */
/* [HTH_SHA256_BYTES], borrowed from the adapter. */
const uint8_t *hth_adapter_sha256(const hth_adapter *adapter);

typedef struct hth_adapter_use {
    hth_adapter *adapter;
    float scale;
} hth_adapter_use;

typedef struct hth_adapter_set hth_adapter_set;

/*
 * Make the set of n different adapters, without those of scale 0. uses is read only during the call, and the set has
 * references of its own. The caller owns the one reference to *out, which may be NULL, the set of none. Scales are
 * rounded to multiples of 2^-32, which is how fingerprints tell them apart. HEARTH_MISUSE for a scale that is no
 * number, or is 2^31 or more, and for more than HTH_ADAPTERS_MAX; HEARTH_NO_MEMORY. After an error *out is as it was.
 */
hearth_status hth_adapter_set_new(const hth_adapter_use *uses, size_t n, hth_adapter_set **out, hearth_error *err);
hth_adapter_set *hth_adapter_set_ref(hth_adapter_set *set); /* accepts NULL; likewise below */
void hth_adapter_set_unref(hth_adapter_set *set);

size_t hth_adapter_set_count(const hth_adapter_set *set);
const uint8_t *hth_adapter_set_digest(const hth_adapter_set *set); /* 32 bytes, borrowed from the set */
/* Fold the set into the fingerprint of a model (rows/key.h). out may be fingerprint. HEARTH_NO_MEMORY. */
hearth_status hth_adapter_set_fold(const hth_adapter_set *set, const uint8_t fingerprint[32], uint8_t out[32],
                                   hearth_error *err);
/*
 * Let the context, or the embedder, apply the set from the next evaluation on. The caller keeps a reference to the set
 * until another one is applied. Only the thread that evaluates in the context, or with the embedder. After an error,
 * which is the engine's, no adapters are applied.
 */
hearth_status hth_adapter_set_apply(const hth_adapter_set *set, const hth_backend *backend, hth_engine_context *context,
                                    hearth_error *err);
hearth_status hth_adapter_set_embed(const hth_adapter_set *set, const hth_backend *backend,
                                    hth_engine_embedder *embedder, hearth_error *err);

#endif
