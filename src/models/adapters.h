/*
 * adapters.h - the loaded adapters of a model, and the set that a request gets
 */
#ifndef HTH_MODELS_ADAPTERS_H
#define HTH_MODELS_ADAPTERS_H

#include <pthread.h>

#include "sched/adapter_set.h"

typedef struct hth_loaded_adapter {
    uint32_t id;
    float scale;
    float named_scale; /* for requests that name it as their model */
    char *name;
    char *path;
    hth_adapter *adapter;
} hth_loaded_adapter;

typedef struct hth_adapters {
    /* Guards the fields below. Innermost lock: nothing is loaded or freed while it is held. */
    pthread_mutex_t lock;
    hth_loaded_adapter loaded[HTH_ADAPTERS_MAX]; /* [n], by id */
    size_t n;
    uint32_t n_ids;
} hth_adapters;

void hth_adapters_init(hth_adapters *adapters);
/* Drop all, before the engine's model is freed. The struct may be initialized again. */
void hth_adapters_clear(hth_adapters *adapters);
void hth_adapters_deinit(hth_adapters *adapters);

void hth_loaded_adapter_drop(hth_loaded_adapter *one);
/* NULL: none. */
hth_loaded_adapter *hth_adapters_find_locked(hth_adapters *adapters, uint32_t id);
hearth_status hth_adapter_scale_check(float scale, hearth_error *err);
/* HEARTH_UNSUPPORTED if a request to a deterministic model cannot use this many adapters. */
hearth_status hth_adapters_check_deterministic(size_t n, hearth_error *err);
/* Check that they are loaded, each named once, with valid scales. HEARTH_NOT_FOUND, HEARTH_MISUSE. */
hearth_status hth_adapters_check_locked(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                        hearth_error *err);

/*
 * The set of a request that names these adapters, [n]; named NULL: the loaded ones with their scales. *out may be NULL,
 * the empty set. HEARTH_NOT_FOUND, HEARTH_MISUSE, HEARTH_NO_MEMORY.
 */
hearth_status hth_adapters_choose(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                  hth_adapter_set **out, hearth_error *err);

#endif
