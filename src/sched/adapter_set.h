/*
 * adapter_set.h - adapters shared by requests, and the set that a request runs with
 *
 * An adapter is loaded once. Its owner and every set that names it hold references, and the last one frees it. So a
 * request keeps the adapters and scales that it was submitted with, even if adapters are loaded, scaled or unloaded
 * meanwhile.
 *
 * A set never changes. Its digest identifies its effect: sequences under sets with the same digest have equal cells and
 * can share a batch. NULL is the set of no adapters; its digest is all zeros.
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
 * borrowed until then. sha256 is copied. NULL if out of memory: engine_adapter still belongs to the caller.
 */
hth_adapter *hth_adapter_new(const hth_backend *backend, hth_engine_adapter *engine_adapter,
                             const uint8_t sha256[HTH_SHA256_BYTES]);
void hth_adapter_unref(hth_adapter *adapter); /* accepts NULL */
/* [HTH_SHA256_BYTES], borrowed from the adapter. */
const uint8_t *hth_adapter_sha256(const hth_adapter *adapter);

typedef struct hth_adapter_use {
    hth_adapter *adapter;
    float scale;
} hth_adapter_use;

typedef struct hth_adapter_set hth_adapter_set;

/*
 * Make the set of n different adapters, without those of scale 0. uses is read only during the call, and the set has
 * references of its own. The caller owns the only reference to *out, which may be NULL, the empty set. Scales are
 * rounded to multiples of 2^-32, which is how fingerprints tell them apart. HEARTH_MISUSE for a scale that is NaN, or
 * 2^31 or more, and for more than HTH_ADAPTERS_MAX adapters; HEARTH_NO_MEMORY. After an error, *out does not change.
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
 * Make the context, or the embedder, apply the set from the next evaluation on. The caller keeps a reference to the set
 * until another one is applied. Only on the thread that evaluates in the context, or with the embedder. After an error
 * (the engine's), no adapters are applied.
 */
hearth_status hth_adapter_set_apply(const hth_adapter_set *set, const hth_backend *backend, hth_engine_context *context,
                                    hearth_error *err);
hearth_status hth_adapter_set_embed(const hth_adapter_set *set, const hth_backend *backend,
                                    hth_engine_embedder *embedder, hearth_error *err);

#endif
