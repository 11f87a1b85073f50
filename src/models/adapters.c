/*
 * adapters.c - the loaded adapters of a model, and the adapter functions of hearth.h: load, unload, scale, list
 *
 * The file is hashed while it is loaded, like a model's. An adapter whose file changed meanwhile is refused, because
 * its rows would be stored under the hash of other bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/structs.h"
#include "models/adapter_spec.h"
#include "models/model_inside.h"

static void drop(hth_loaded_adapter *one)
{
    hth_adapter_unref(one->adapter);
    free(one->name);
    free(one->path);
}

void hth_adapters_clear(hth_adapters *adapters)
{
    for (size_t i = 0; i < adapters->n; i++)
        drop(&adapters->loaded[i]);
    adapters->n = 0;
}

/* NULL: none. */
static hth_loaded_adapter *find_locked(hth_adapters *adapters, uint32_t id)
{
    for (size_t i = 0; i < adapters->n; i++)
        if (adapters->loaded[i].id == id)
            return &adapters->loaded[i];
    return NULL;
}

/* ---- the set of a request ---- */

static hearth_status check_scale(float scale, hearth_error *err)
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

/* Check that they are loaded, each named once, with valid scales. HEARTH_NOT_FOUND, HEARTH_MISUSE. */
static hearth_status check_locked(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                  hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "%zu adapters are named; at most %d can be loaded", n, HTH_ADAPTERS_MAX);
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        status = check_scale(named[i].scale, err);
        for (size_t j = 0; j < i && status == HEARTH_OK; j++)
            if (named[j].id == named[i].id)
                status = hth_fail(err, HEARTH_MISUSE, "adapter %u is named twice; give it one scale", named[i].id);
        if (status == HEARTH_OK && !find_locked(adapters, named[i].id))
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
    status = check_locked(adapters, named, named ? n : 0, err);
    if (!named)
        n = adapters->n;
    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        const hth_loaded_adapter *one = named ? find_locked(adapters, named[i].id) : &adapters->loaded[i];

        uses[i] = (hth_adapter_use){ one->adapter, named ? named[i].scale : one->scale };
    }
    if (status == HEARTH_OK)
        status = hth_adapter_set_new(uses, n, out, err); /* the set takes its own references */
    pthread_mutex_unlock(&adapters->lock);
    return status;
}

/* ---- loading ---- */

static hearth_status check_name_locked(hth_adapters *adapters, const char *name, hearth_error *err)
{
    if (!name || !*name || strlen(name) >= sizeof(((hearth_adapter *)NULL)->name))
        return hth_fail(err, HEARTH_MISUSE, "the name of an adapter has 1 to %zu bytes",
                        sizeof(((hearth_adapter *)NULL)->name) - 1);
    for (size_t i = 0; i < adapters->n; i++)
        if (strcmp(adapters->loaded[i].name, name) == 0)
            return hth_fail(err, HEARTH_MISUSE, "adapter %u has the name '%s'; give the other one another name",
                            adapters->loaded[i].id, name);
    if (adapters->n == HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_BUSY, "%d adapters are loaded; unload one first", HTH_ADAPTERS_MAX);
    return HEARTH_OK;
}

/* Could requests that name no adapters run with one more adapter of this scale? */
static hearth_status check_scale_locked(const hearth_model *model, float scale, hearth_error *err)
{
    size_t n = scale != 0;

    for (size_t i = 0; i < model->adapters.n; i++)
        n += model->adapters.loaded[i].scale != 0;
    return model->is_deterministic && scale != 0 ? hth_adapters_check_deterministic(n, err) : HEARTH_OK;
}

/* Takes over one only on HEARTH_OK. */
static hearth_status add(hearth_model *model, hth_loaded_adapter *one, const hth_adapter_identity *identity,
                         uint32_t *id_out, hearth_error *err)
{
    hth_adapters *adapters = &model->adapters;
    hearth_status status;

    pthread_mutex_lock(&adapters->lock);
    status = check_name_locked(adapters, one->name, err);
    if (status == HEARTH_OK)
        status = check_scale_locked(model, one->scale, err);
    if (status == HEARTH_OK && identity && identity->id < adapters->n_ids)
        status = hth_fail(err, HEARTH_MISUSE, "the id %u was given to an adapter already", identity->id);
    if (status == HEARTH_OK) {
        one->id = identity ? identity->id : adapters->n_ids;
        adapters->n_ids = one->id + 1;
        adapters->loaded[adapters->n++] = *one;
        if (id_out)
            *id_out = one->id;
    }
    pthread_mutex_unlock(&adapters->lock);
    return status;
}

/* The adapter in a file, with its hash. */
static hearth_status read_file(hearth_model *model, const char *path, hth_adapter **out, hearth_error *err)
{
    hth_fingerprinting *fingerprinting = NULL;
    hth_engine_adapter *engine_adapter = NULL;
    uint8_t sha256[HTH_SHA256_BYTES];
    const hth_fingerprint_options how = {
        .mode = HEARTH_FINGERPRINT_SAFE,
        .memo_directory = model->runtime->memo_directory,
    };
    hearth_status status = hth_fingerprinting_new(path, &how, NULL, NULL, &fingerprinting, err);

    if (status == HEARTH_OK)
        status = model->backend->adapter_load(model->engine_model, path, &engine_adapter, err);
    if (status == HEARTH_OK)
        status = hth_fingerprinting_wait(fingerprinting, NULL, NULL, sha256, err);
    hth_fingerprinting_free(fingerprinting);
    if (status == HEARTH_OK) {
        *out = hth_adapter_new(model->backend, engine_adapter, sha256);
        if (*out)
            return HEARTH_OK;
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the adapter '%s'", path);
    }
    model->backend->adapter_free(engine_adapter);
    return status;
}

static hearth_status load(hearth_model *model, const char *path, const hearth_adapter_options *options,
                          const hth_adapter_identity *identity, uint32_t *id_out, hearth_error *err)
{
    const float load_scale = identity ? identity->load_scale : options->scale;
    hth_loaded_adapter one = {
        .scale = options->scale,
        .named_scale = load_scale != 0 ? load_scale : 1,
        .name = options->name ? strdup(options->name) : hth_gguf_name_of_path(path),
        .path = strdup(path),
    };
    hearth_status status = one.name && one.path
                             ? hth_check_text("the adapter's name", one.name, strlen(one.name), err)
                             : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the adapter '%s'", path);

    if (status == HEARTH_OK) {
        pthread_mutex_lock(&model->adapters.lock);
        status = check_name_locked(&model->adapters, one.name, err); /* before the work, and again afterwards */
        if (status == HEARTH_OK)
            status = check_scale_locked(model, one.scale, err);
        pthread_mutex_unlock(&model->adapters.lock);
    }
    if (status == HEARTH_OK)
        status = read_file(model, path, &one.adapter, err);
    if (status == HEARTH_OK)
        status = add(model, &one, identity, id_out, err);
    if (status != HEARTH_OK)
        drop(&one);
    return status;
}

hearth_status hth_model_adapter_load(hearth_model *model, const char *path, const hearth_adapter_options *options,
                                     const hth_adapter_identity *identity, uint32_t *id_out, hearth_error *err)
{
    hearth_adapter_options given = hearth_adapter_options_default();
    hearth_status status = HEARTH_OK;

    if (!path)
        return hth_fail(err, HEARTH_MISUSE, "hearth_adapter_load: path is NULL");
    if (options)
        status = hth_struct_read(&given, sizeof(given), options, "hearth_adapter_options", err);
    if (status == HEARTH_OK)
        status = check_scale(given.scale, err);
    if (status == HEARTH_OK)
        status = hth_model_enter(model, "hearth_adapter_load", err);
    if (status != HEARTH_OK)
        return status;
    status = load(model, path, &given, identity, id_out, err);
    hth_model_leave(model);
    return status;
}

hearth_status hearth_adapter_load(hearth_model *model, const char *path, const hearth_adapter_options *options,
                                  uint32_t *id_out, hearth_error *err)
{
    return hth_model_adapter_load(model, path, options, NULL, id_out, err);
}

hearth_status hth_adapter_specs_load(const hth_adapter_specs *specs, hearth_model *model, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < specs->n && status == HEARTH_OK; i++) {
        hearth_adapter_options options = hearth_adapter_options_default();
        hth_adapter_spec spec = { .scale = 1 };

        status = hth_adapter_spec_read(specs->list[i], &spec, err);
        if (status != HEARTH_OK)
            return status;
        options.name = spec.name;
        options.scale = spec.scale;
        status = hearth_adapter_load(model, spec.path, &options, NULL, err);
        if (status == HEARTH_OK && specs->wait) /* after each one: a deterministic model applies at most one */
            status = hearth_adapters_scale(model, NULL, 0, err);
    }
    return status;
}

hearth_status hearth_adapter_unload(hearth_model *model, uint32_t id, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hearth_adapter_unload", err);
    hth_loaded_adapter gone = { .adapter = NULL };
    hth_loaded_adapter *found;

    if (status != HEARTH_OK)
        return status;
    pthread_mutex_lock(&model->adapters.lock);
    found = find_locked(&model->adapters, id);
    if (found) {
        size_t i = (size_t)(found - model->adapters.loaded);

        gone = *found;
        memmove(found, found + 1, (--model->adapters.n - i) * sizeof(*found));
    } else {
        status = hth_fail(err, HEARTH_NOT_FOUND, "there is no adapter %u; %zu are loaded", id, model->adapters.n);
    }
    pthread_mutex_unlock(&model->adapters.lock);
    drop(&gone);
    hth_model_leave(model);
    return status;
}

/* ---- scales and lists ---- */

hearth_status hearth_adapters_scale(hearth_model *model, const hearth_adapter_scale *scales, size_t n,
                                    hearth_error *err)
{
    hearth_status status;
    size_t n_applied = 0;

    if (!scales && n > 0)
        return hth_fail(err, HEARTH_MISUSE, "hearth_adapters_scale: scales is NULL");
    status = hth_model_enter(model, "hearth_adapters_scale", err);
    if (status != HEARTH_OK)
        return status;
    pthread_mutex_lock(&model->adapters.lock);
    status = check_locked(&model->adapters, scales, n, err);
    for (size_t i = 0; i < n; i++)
        n_applied += scales[i].scale != 0;
    if (status == HEARTH_OK && model->is_deterministic)
        status = hth_adapters_check_deterministic(n_applied, err);
    for (size_t i = 0; i < model->adapters.n && status == HEARTH_OK; i++)
        model->adapters.loaded[i].scale = 0;
    for (size_t i = 0; i < n && status == HEARTH_OK; i++)
        find_locked(&model->adapters, scales[i].id)->scale = scales[i].scale;
    pthread_mutex_unlock(&model->adapters.lock);
    hth_model_leave(model);
    return status;
}

bool hth_model_adapters(hearth_model *model, const char *name, hearth_adapter_scale out[HTH_ADAPTERS_MAX],
                        size_t *n_out)
{
    size_t n = 0;

    if (hth_model_enter(model, "hth_model_adapters", NULL) != HEARTH_OK)
        return false;
    pthread_mutex_lock(&model->adapters.lock);
    for (size_t i = 0; i < model->adapters.n; i++) {
        const hth_loaded_adapter *one = &model->adapters.loaded[i];

        if (!name || strcmp(one->name, name) == 0)
            out[n++] = (hearth_adapter_scale){ one->id, name ? one->named_scale : one->scale };
    }
    pthread_mutex_unlock(&model->adapters.lock);
    hth_model_leave(model);
    *n_out = n;
    return !name || n > 0;
}

hearth_status hth_model_adapters_digest(hearth_model *model, const hearth_adapter_scale *adapters, size_t n,
                                        uint8_t out[32], hearth_error *err)
{
    hth_adapter_set *set = NULL;
    hearth_status status = hth_model_enter(model, "hth_model_adapters_digest", err);

    if (status != HEARTH_OK)
        return status;
    status = hth_adapters_choose(&model->adapters, adapters, n, &set, err);
    if (status == HEARTH_OK)
        memcpy(out, hth_adapter_set_digest(set), 32);
    hth_adapter_set_unref(set);
    hth_model_leave(model);
    return status;
}

hearth_status hearth_adapters_list(hearth_model *model, hearth_adapter *adapters, size_t capacity, size_t *n_out,
                                   hearth_error *err)
{
    size_t each = capacity > 0 && adapters ? adapters->struct_size : 0;
    hearth_status status;

    if (!n_out || (capacity > 0 && each < sizeof(size_t)))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_adapters_list: n_out is NULL, or adapters has no struct_size; set that of the first");
    status = hth_model_enter(model, "hearth_adapters_list", err);
    if (status != HEARTH_OK)
        return status;
    pthread_mutex_lock(&model->adapters.lock);
    for (size_t i = 0; i < model->adapters.n && i < capacity; i++) {
        const hth_loaded_adapter *one = &model->adapters.loaded[i];
        hearth_adapter *to = (hearth_adapter *)(void *)((char *)adapters + i * each);
        hearth_adapter filled = { .struct_size = sizeof(filled), .id = one->id, .scale = one->scale };

        hth_copy_text(filled.name, sizeof(filled.name), one->name);
        hth_copy_text(filled.path, sizeof(filled.path), one->path);
        memcpy(filled.sha256, hth_adapter_sha256(one->adapter), sizeof(filled.sha256));
        to->struct_size = each;
        hth_struct_write(to, &filled, sizeof(filled));
    }
    *n_out = model->adapters.n;
    pthread_mutex_unlock(&model->adapters.lock);
    hth_model_leave(model);
    return HEARTH_OK;
}
