#include "sched/adapter_set.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "rows/key.h"

struct hth_adapter {
    _Atomic unsigned references;
    const hth_backend *backend;
    hth_engine_adapter *engine_adapter;
    uint8_t sha256[HTH_SHA256_BYTES];
};

struct hth_adapter_set {
    _Atomic unsigned references;
    uint8_t digest[32];
    size_t n;
    hth_adapter_use uses[]; /* [n], by hash and scale: the engine adds their changes in this order */
};

/* ---- one adapter ---- */

hth_adapter *hth_adapter_new(const hth_backend *backend, hth_engine_adapter *engine_adapter,
                             const uint8_t sha256[HTH_SHA256_BYTES])
{
    hth_adapter *adapter = malloc(sizeof(*adapter));

    if (!adapter)
        return NULL;
    *adapter = (hth_adapter){ .references = 1, .backend = backend, .engine_adapter = engine_adapter };
    memcpy(adapter->sha256, sha256, sizeof(adapter->sha256));
    return adapter;
}

void hth_adapter_unref(hth_adapter *adapter)
{
    if (!adapter || atomic_fetch_sub_explicit(&adapter->references, 1, memory_order_acq_rel) != 1)
        return;
    adapter->backend->adapter_free(adapter->engine_adapter);
    free(adapter);
}

const uint8_t *hth_adapter_sha256(const hth_adapter *adapter)
{
    return adapter->sha256;
}

/* ---- sets ---- */

static int compare_uses(const void *a, const void *b)
{
    const hth_adapter_use *left = a, *right = b;
    int order = memcmp(left->adapter->sha256, right->adapter->sha256, HTH_SHA256_BYTES);

    return order ? order : (left->scale > right->scale) - (left->scale < right->scale);
}

hearth_status hth_adapter_set_new(const hth_adapter_use *uses, size_t n, hth_adapter_set **out, hearth_error *err)
{
    static const uint8_t zeros[32];
    hth_adapter_set *set;
    hearth_status status;

    if (n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a request runs with at most %d adapters, not %zu", HTH_ADAPTERS_MAX, n);
    set = calloc(1, sizeof(*set) + n * sizeof(set->uses[0]));
    if (!set)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu adapters", n);
    atomic_init(&set->references, 1);
    for (size_t i = 0; i < n; i++) {
        float scale = (float)(round(uses[i].scale * 0x1p32) * 0x1p-32);

        if (scale == 0)
            continue;
        atomic_fetch_add_explicit(&uses[i].adapter->references, 1, memory_order_relaxed);
        set->uses[set->n++] = (hth_adapter_use){ uses[i].adapter, scale }; /* a NaN is refused with the digest */
    }
    qsort(set->uses, set->n, sizeof(set->uses[0]), compare_uses);
    status = hth_adapter_set_fold(set, zeros, set->digest, err);
    if (status != HEARTH_OK || set->n == 0) {
        hth_adapter_set_unref(set);
        set = NULL;
    }
    if (status == HEARTH_OK)
        *out = set;
    return status;
}

hth_adapter_set *hth_adapter_set_ref(hth_adapter_set *set)
{
    if (set)
        atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    return set;
}

void hth_adapter_set_unref(hth_adapter_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < set->n; i++)
        hth_adapter_unref(set->uses[i].adapter);
    free(set);
}

size_t hth_adapter_set_count(const hth_adapter_set *set)
{
    return set ? set->n : 0;
}

const uint8_t *hth_adapter_set_digest(const hth_adapter_set *set)
{
    static const uint8_t zeros[32];

    return set ? set->digest : zeros;
}

hearth_status hth_adapter_set_fold(const hth_adapter_set *set, const uint8_t fingerprint[32], uint8_t out[32],
                                   hearth_error *err)
{
    hth_folded_adapter refs[HTH_ADAPTERS_MAX];
    size_t n = set ? set->n : 0;

    for (size_t i = 0; i < n; i++) {
        memcpy(refs[i].sha256, set->uses[i].adapter->sha256, sizeof(refs[i].sha256));
        refs[i].scale = set->uses[i].scale;
    }
    return hth_effective_fingerprint(fingerprint, refs, n, out, err);
}

static size_t engine_uses(const hth_adapter_set *set, hth_engine_adapter_use uses[HTH_ADAPTERS_MAX])
{
    size_t n = set ? set->n : 0;

    for (size_t i = 0; i < n; i++)
        uses[i] = (hth_engine_adapter_use){ set->uses[i].adapter->engine_adapter, set->uses[i].scale };
    return n;
}

hearth_status hth_adapter_set_apply(const hth_adapter_set *set, const hth_backend *backend, hth_engine_context *context,
                                    hearth_error *err)
{
    hth_engine_adapter_use uses[HTH_ADAPTERS_MAX];

    return backend->adapters_apply(context, uses, engine_uses(set, uses), err);
}

hearth_status hth_adapter_set_embed(const hth_adapter_set *set, const hth_backend *backend,
                                    hth_engine_embedder *embedder, hearth_error *err)
{
    hth_engine_adapter_use uses[HTH_ADAPTERS_MAX];

    return backend->embedder_adapters(embedder, uses, engine_uses(set, uses), err);
}
