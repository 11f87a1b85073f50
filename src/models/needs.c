/*
 * The steps are those of load.c, without weights: the metadata, the parameters of the context, the engine's plan for
 * both. The rest is measured in the querying process: libraries, vocabulary, and heap.
 */
#include "models/needs.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "models/model_inside.h"

/* ---- when the engine may be asked ---- */

/* Global, like the engine and its log. */
static struct {
    pthread_mutex_t lock; /* held during a query */
    size_t n_models;
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* False if the process has models. Waits for another query to end. */
static bool begin_question(void)
{
    pthread_mutex_lock(&process.lock);
    if (process.n_models == 0)
        return true;
    pthread_mutex_unlock(&process.lock);
    return false;
}

static void end_question(void)
{
    pthread_mutex_unlock(&process.lock);
}

void hth_engine_questions_refuse(void)
{
    pthread_mutex_lock(&process.lock);
    process.n_models++;
    pthread_mutex_unlock(&process.lock);
}

void hth_engine_questions_allow(void)
{
    pthread_mutex_lock(&process.lock);
    assert(process.n_models > 0);
    process.n_models--;
    pthread_mutex_unlock(&process.lock);
}

/* ---- asking ---- */

static void add_share(hth_engine_share *to, const hth_engine_share *more)
{
    to->weight_bytes += more->weight_bytes;
    to->cell_bytes += more->cell_bytes;
    to->compute_bytes += more->compute_bytes;
}

static void add_device(hth_engine_needs *to, const hth_engine_device_share *more)
{
    size_t i = 0;

    while (i < to->n_devices && strcmp(to->devices[i].name, more->name) != 0)
        i++;
    if (i < to->n_devices)
        add_share(&to->devices[i].share, &more->share);
    else if (i < HTH_DEVICES_MAX)
        to->devices[to->n_devices++] = *more;
}

static hearth_status needs_of(const hearth_model *model, const hth_engine_context_params *params, hth_engine_needs *out,
                              hearth_error *err)
{
    if (!model->backend->needs)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the engine '%s' does not tell the memory that a model would take",
                        model->backend->name);
    return model->backend->needs(model->engine_model, params, out, err);
}

/* Add the needs of the draft model, whose context is like that of its target. */
static hearth_status add_draft(hearth_runtime *runtime, const hearth_model_options *options,
                               const hth_engine_context_params *target, hth_engine_needs *to, hearth_error *err)
{
    hearth_engine_options engine;
    hearth_model_options draft_options = hth_model_draft_options(options, &engine);
    hth_engine_context_params params = {
        .n_ctx = options->draft_n_ctx > 0 ? options->draft_n_ctx : target->n_ctx,
        .n_batch = target->n_batch,
        .n_seq_max = target->n_seq_max,
        .n_threads = target->n_threads,
    };
    hth_engine_needs needs = { .n_devices = 0 };
    hearth_model *draft = NULL;
    hearth_status status = hth_model_new(runtime, options->draft_model, &draft_options, &draft, err);

    if (status != HEARTH_OK)
        return status;
    draft->is_draft = true;
    status = hth_model_load_weights(draft, &draft_options, true, err);
    if (status == HEARTH_OK)
        status = needs_of(draft, &params, &needs, err);
    hth_model_end(draft);
    if (status != HEARTH_OK)
        return status;
    add_share(&to->host, &needs.host);
    to->repacked_bytes += needs.repacked_bytes;
    for (size_t i = 0; i < needs.n_devices; i++)
        add_device(to, &needs.devices[i]);
    return HEARTH_OK;
}

static hearth_status ask(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                         hth_model_needs *out, hearth_error *err)
{
    hth_model_needs needs = { .n_ctx = 0 };
    hth_engine_context_params params = { .n_ctx = 0 };
    hearth_model *model = NULL;
    hearth_status status = hth_model_new(runtime, path, options, &model, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_model_load_weights(model, options, true, err);
    if (status == HEARTH_OK) {
        params = hth_model_context_params(model, options);
        status = needs_of(model, &params, &needs.memory, err);
    }
    needs.n_ctx_train = model->info.n_ctx_train;
    needs.n_layers = model->info.n_layers;
    if (status == HEARTH_OK && options->draft_model)
        status = add_draft(runtime, options, &params, &needs.memory, err);
    hth_model_end(model);
    if (status != HEARTH_OK)
        return status;
    if (options->no_mmap)
        needs.memory.repacked_bytes = 0; /* there is no second copy */
    needs.n_ctx = params.n_ctx;
    needs.process_bytes = hth_os_process_resident_bytes(getpid());
    *out = needs;
    return HEARTH_OK;
}

hearth_status hth_model_needs_ask(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                  hth_model_needs *out, hearth_error *err)
{
    hearth_model_options given;
    hearth_status status = hth_model_read_options(options, &given, err);

    if (status == HEARTH_OK && given.rpc_servers)
        return hth_fail(err, HEARTH_UNSUPPORTED, "a server of devices has one client at a time, and is not asked");
    if (status != HEARTH_OK)
        return status;
    if (!begin_question())
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "other models are loaded, or are being loaded, and may be at work in the engine");
    status = ask(runtime, path, &given, out, err);
    end_question();
    return status;
}
