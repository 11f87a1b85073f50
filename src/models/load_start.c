/*
 * load_start.c - load a model on a thread of the library, with progress events
 *
 * A load is in the list of its runtime from hearth_model_load_start to its last event. During that time it can be
 * cancelled by its id, with its queue, or with the runtime. Between two pieces of a file, the engine asks whether to
 * continue. Fingerprinting, which may take as long, is cancelled through its model.
 *
 * The next start, or the closing of the runtime, joins the threads of ended loads. So no thread outlives its runtime.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/os.h"
#include "base/structs.h"
#include "engine/engine_options.h"
#include "models/model_inside.h"

enum {
    SINGLE_TEXTS = 11, /* in the options, excluding those in lists */
    TEXTS_MAX = SINGLE_TEXTS + HEARTH_CONTROL_VECTORS_MAX + HEARTH_TENSOR_OVERRIDES_MAX + HEARTH_METADATA_OVERRIDES_MAX
};

typedef struct hth_load load;
struct hth_load {
    hearth_runtime *runtime; /* borrowed: its end waits for the thread */
    pthread_t thread;
    hth_event_source *source;
    uint64_t id;
    char *path;
    hearth_model_options options;
    hearth_cache_policy policy;
    hearth_engine_options engine;
    char *texts[TEXTS_MAX]; /* owned copies, to which options point */
    size_t n_texts;
    const char *control_vectors[HEARTH_CONTROL_VECTORS_MAX];
    const char *tensor_overrides[HEARTH_TENSOR_OVERRIDES_MAX];
    const char *metadata_overrides[HEARTH_METADATA_OVERRIDES_MAX];
    int percent; /* in the last event; the loading thread's */
    atomic_bool is_cancelled;

    /* Guarded by the loads' lock. */
    hearth_model *identifying; /* the thread waits for its fingerprint; NULL: it does not */
    load *prev, *next;
};

/* ---- one load ---- */

static void load_free(load *one)
{
    for (size_t i = 0; i < one->n_texts; i++)
        free(one->texts[i]);
    free(one->path);
    free(one);
}

/* Replace a text by an owned copy. False if out of memory. */
static bool own(load *one, const char **text)
{
    char *copy = *text ? strdup(*text) : NULL;

    if (!*text)
        return true;
    if (!copy)
        return false;
    one->texts[one->n_texts++] = copy;
    *text = copy;
    return true;
}

/* Put copies of a list's texts into to, and replace the list by to. */
static bool own_list(load *one, const char *const **list, size_t n, const char **to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (*list)[i];
        if (!own(one, &to[i]))
            return false;
    }
    *list = to;
    return true;
}

/* The options must have been checked. */
static bool copy_engine_options(load *one)
{
    hearth_engine_options *engine = &one->engine;

    if (!one->options.engine)
        return true;
    (void)hth_engine_options_read(one->options.engine, engine, NULL);
    one->options.engine = engine;
    return own(one, &engine->devices) && own(one, &engine->tensor_split) &&
           own_list(one, &engine->tensor_overrides, engine->n_tensor_overrides, one->tensor_overrides) &&
           own_list(one, &engine->metadata_overrides, engine->n_metadata_overrides, one->metadata_overrides);
}

/* Copy all strings and structs that the options, which were checked, point to. False if out of memory. */
static bool copy_options(load *one, const hearth_model_options *given)
{
    hearth_model_options *options = &one->options;
    const char **fields[SINGLE_TEXTS - 2] = {
        &options->name,        &options->type_k,        &options->type_v,
        &options->cache_salt,  &options->chat_template, &options->strategy,
        &options->rpc_servers, &options->draft_model,   &options->host_weights,
    };

    *options = *given;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (!own(one, fields[i]))
            return false;
    if (!own_list(one, &options->control_vectors, options->n_control_vectors, one->control_vectors) ||
        !copy_engine_options(one))
        return false;
    if (options->cache_policy) {
        one->policy = hearth_cache_policy_default();
        (void)hth_struct_read(&one->policy, sizeof(one->policy), options->cache_policy, "hearth_cache_policy", NULL);
        options->cache_policy = &one->policy;
    }
    return true;
}

static bool on_progress(float fraction, void *user_data)
{
    load *one = user_data;
    int percent = (int)(100 * fraction);

    if (percent != one->percent)
        hth_events_load_progress(one->source, fraction);
    one->percent = percent;
    return !atomic_load(&one->is_cancelled);
}

/* Note the model whose fingerprint the load waits for (NULL: none). False: the load was cancelled. */
static bool note_identifying(load *one, hearth_model *model)
{
    hth_loads *loads = &one->runtime->loads;

    pthread_mutex_lock(&loads->lock);
    one->identifying = model;
    pthread_mutex_unlock(&loads->lock);
    return !atomic_load(&one->is_cancelled); /* cancel_locked sets this, then looks at identifying */
}

static void *run_load(void *user_data)
{
    load *one = user_data;
    hth_loads *loads = &one->runtime->loads;
    hearth_model *model = NULL;
    hearth_error error = { .status = HEARTH_OK };
    hearth_status status;

    hth_os_thread_name("hearth-load");
    pthread_mutex_lock(&loads->lock); /* until start_thread has written *id_out */
    pthread_mutex_unlock(&loads->lock);
    status = hth_model_load_engine(one->runtime, one->path, &one->options, &model, &error);
    if (status == HEARTH_OK) {
        status = note_identifying(one, model)
                   ? hth_model_identify(model, &error)
                   : hth_fail(&error, HEARTH_CANCELLED, "loading '%s' was cancelled", one->path);
        (void)note_identifying(one, NULL);
        if (status != HEARTH_OK) {
            hth_model_end(model); /* no one else has a reference */
            model = NULL;
        }
    }
    hth_events_load_end(one->source, model, status, &error);
    pthread_mutex_lock(&loads->lock);
    DL_DELETE(loads->list, one);
    LL_PREPEND(loads->ended, one);
    pthread_cond_broadcast(&loads->changed);
    pthread_mutex_unlock(&loads->lock);
    return NULL;
}

static void join_ended(hth_loads *loads)
{
    load *ended, *one, *next;

    pthread_mutex_lock(&loads->lock);
    ended = loads->ended;
    loads->ended = NULL;
    pthread_mutex_unlock(&loads->lock);
    LL_FOREACH_SAFE(ended, one, next)
    {
        pthread_join(one->thread, NULL);
        load_free(one);
    }
}

/* ---- starting ---- */

static hearth_status start_thread(load *one, uint64_t *id_out, hearth_error *err)
{
    hth_loads *loads = &one->runtime->loads;
    hearth_status status = HEARTH_OK;
    int failed = 0;

    join_ended(loads);
    pthread_mutex_lock(&loads->lock);
    if (loads->is_ending)
        status = hth_fail(err, HEARTH_CANCELLED, "the runtime is being closed");
    else if ((failed = pthread_create(&one->thread, NULL, run_load, one)) != 0)
        status = hth_fail_errno(err, failed, "cannot start a thread to load '%s'", one->path);
    if (status == HEARTH_OK) {
        DL_APPEND(loads->list, one);
        if (id_out)
            *id_out = one->id;
    }
    pthread_mutex_unlock(&loads->lock);
    return status;
}

hearth_status hearth_model_load_start(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                      hearth_events *queue, void *user_data, uint64_t *id_out, hearth_error *err)
{
    hearth_model_options given;
    hearth_status status;
    load *one;

    if (!runtime || !path || !queue)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_load_start: runtime, path or queue is NULL");
    status = hth_model_read_options(options, &given, err);
    if (status == HEARTH_OK && given.progress)
        status = hth_fail(err, HEARTH_MISUSE,
                          "the options of a load that is started have progress, which its queue tells; "
                          "set it to NULL");
    if (status != HEARTH_OK)
        return status;
    one = calloc(1, sizeof(*one));
    if (!one)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);
    one->id = hth_runtime_next_request_ids(runtime, 1);
    one->runtime = runtime;
    one->path = strdup(path);
    if (!one->path || !copy_options(one, &given))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);
    one->options.progress = on_progress;
    one->options.progress_user_data = one;
    if (status == HEARTH_OK)
        status = hth_events_load_new(queue, runtime, one->id, user_data, &one->source, err);
    if (status == HEARTH_OK)
        status = start_thread(one, id_out, err);
    if (status != HEARTH_OK) {
        hth_events_drop(one->source);
        load_free(one);
    }
    return status;
}

/* ---- cancelling ---- */

static void cancel_locked(load *one)
{
    atomic_store(&one->is_cancelled, true);
    if (one->identifying)
        hth_model_stop_identifying(one->identifying);
}

hearth_status hearth_model_load_cancel(hearth_runtime *runtime, uint64_t load_id, hearth_error *err)
{
    hth_loads *loads;
    load *one;

    if (!runtime)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_load_cancel: runtime is NULL");
    loads = &runtime->loads;
    pthread_mutex_lock(&loads->lock);
    DL_SEARCH_SCALAR(loads->list, one, id, load_id);
    if (one)
        cancel_locked(one);
    pthread_mutex_unlock(&loads->lock);
    if (!one)
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no load %llu, or it has ended", (unsigned long long)load_id);
    return HEARTH_OK;
}

void hth_loads_end(hth_loads *loads)
{
    load *one;

    pthread_mutex_lock(&loads->lock);
    loads->is_ending = true;
    DL_FOREACH(loads->list, one)
    cancel_locked(one);
    while (loads->list)
        pthread_cond_wait(&loads->changed, &loads->lock);
    pthread_mutex_unlock(&loads->lock);
    join_ended(loads);
}
