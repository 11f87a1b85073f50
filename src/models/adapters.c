/*
 * adapters.c - see adapters.h
 */
#include "models/adapters.h"

#include <math.h>
#include <stdlib.h>

void hth_adapters_init(hth_adapters *adapters)
{
    pthread_mutex_init(&adapters->lock, NULL);
}

void hth_loaded_adapter_drop(hth_loaded_adapter *one)
{
    hth_adapter_unref(one->adapter);
    free(one->name);
    free(one->path);
}

void hth_adapters_clear(hth_adapters *adapters)
{
    for (size_t i = 0; i < adapters->n; i++)
        hth_loaded_adapter_drop(&adapters->loaded[i]);
    adapters->n = 0;
}

void hth_adapters_deinit(hth_adapters *adapters)
{
    hth_adapters_clear(adapters);
    pthread_mutex_destroy(&adapters->lock);
}

hth_loaded_adapter *hth_adapters_find_locked(hth_adapters *adapters, uint32_t id)
{
    for (size_t i = 0; i < adapters->n; i++)
        if (adapters->loaded[i].id == id)
            return &adapters->loaded[i];
    return NULL;
}

/* ---- the set of a request ---- */

hearth_status hth_adapter_scale_check(float scale, hearth_error *err)
{
    if (isfinite(scale) && fabsf(scale) <= HTH_ADAPTER_SCALE_MAX)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "the scale of an adapter is %g; it must be a finite number below 2^31", scale);
}

hearth_status hth_adapters_check_deterministic(size_t n, hearth_error *err)
{
    return n <= 1 ? HEARTH_OK
                  : hth_fail(err, HEARTH_UNSUPPORTED,
                             "a deterministic model runs a request with one adapter at most, not %zu: the order in "
                             "which several are added up is not fixed; a scale of 0 lets an adapter wait for requests "
                             "that name it",
                             n);
}

hearth_status hth_adapters_check_locked(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                        hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "%zu adapters are named; at most %d can be loaded", n, HTH_ADAPTERS_MAX);
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        status = hth_adapter_scale_check(named[i].scale, err);
        for (size_t j = 0; j < i && status == HEARTH_OK; j++)
            if (named[j].id == named[i].id)
                status = hth_fail(err, HEARTH_MISUSE, "adapter %u is named twice; give it one scale", named[i].id);
        if (status == HEARTH_OK && !hth_adapters_find_locked(adapters, named[i].id))
            status =
                hth_fail(err, HEARTH_NOT_FOUND, "there is no adapter %u; %zu are loaded", named[i].id, adapters->n);
    }
    return status;
}

hearth_status hth_adapters_choose(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                  hth_adapter_set **out, hearth_error *err)
{
    hth_adapter_use uses[HTH_ADAPTERS_MAX];
    hearth_status status;

    pthread_mutex_lock(&adapters->lock);
    status = hth_adapters_check_locked(adapters, named, named ? n : 0, err);
    if (!named)
        n = adapters->n;
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        const hth_loaded_adapter *one = named ? hth_adapters_find_locked(adapters, named[i].id) : &adapters->loaded[i];

        uses[i] = (hth_adapter_use){ one->adapter, named ? named[i].scale : one->scale };
    }
    if (status == HEARTH_OK)
        status = hth_adapter_set_new(uses, n, out, err); /* the set takes its own references */
    pthread_mutex_unlock(&adapters->lock);
    return status;
}
