/*
 * draft_load.c - load, compare vocabularies, make a context, identify
 */
#include "models/draft_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/os.h"
#include "engine/engine_options.h"

/* Files of one family pad their vocabularies to different sizes. llama.cpp allows the same difference (speculative). */
enum { VOCABULARY_PADDING = 128 };

struct hth_model_draft {
    char *path;
    char *name;
    const hth_backend *backend;
    hth_engine_model *engine_model;
    hth_engine_context *context;
    hth_fingerprinting *fingerprinting; /* NULL: the model has no file */
    hth_draft_model *model;             /* NULL before the second step */
    hth_workplace place;
};

void hth_model_draft_unload(hth_model_draft *draft)
{
    if (!draft)
        return;
    hth_draft_model_close(draft->model);
    if (draft->backend) {
        draft->backend->context_free(draft->context);
        draft->backend->model_free(draft->engine_model);
    }
    draft->model = NULL;
    draft->context = NULL;
    draft->engine_model = NULL;
}

void hth_model_draft_free(hth_model_draft *draft)
{
    if (!draft)
        return;
    hth_model_draft_unload(draft);
    hth_fingerprinting_free(draft->fingerprinting);
    free(draft->name);
    free(draft->path);
    free(draft);
}

/* ---- vocabularies ---- */

static size_t piece_of(const hth_backend *backend, const hth_engine_model *model, uint32_t token,
                       char out[HTH_PIECE_BYTES_MAX])
{
    size_t n = 0;

    return backend->piece(model, (hearth_token)token, true, out, HTH_PIECE_BYTES_MAX, &n, NULL) == HEARTH_OK ? n : 0;
}

/* A token must have the same text in both models. */
static hearth_status check_vocabulary(const hth_model_draft *draft, uint32_t n_vocab, const hth_draft_target *target,
                                      hearth_error *err)
{
    uint32_t n_target = target->info->n_vocab, n = n_vocab < n_target ? n_vocab : n_target;
    char ours[HTH_PIECE_BYTES_MAX], theirs[HTH_PIECE_BYTES_MAX];

    if (n_vocab - n > VOCABULARY_PADDING || n_target - n > VOCABULARY_PADDING)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "'%s' cannot draft for '%s': it has another vocabulary, of %u tokens instead of %u; use a draft "
            "model of the same family",
            draft->path, target->name, n_vocab, n_target);
    for (uint32_t i = 0; i < n; i++) {
        size_t n_ours = piece_of(draft->backend, draft->engine_model, i, ours);
        size_t n_theirs = piece_of(target->backend, target->engine_model, i, theirs);

        if (n_ours != n_theirs || memcmp(ours, theirs, n_ours) != 0)
            return hth_fail(
                err, HEARTH_UNSUPPORTED,
                "'%s' cannot draft for '%s': it has another vocabulary, whose token %u is '%.*s' instead of "
                "'%.*s'; use a draft model of the same family",
                draft->path, target->name, i, (int)n_ours, ours, (int)n_theirs, theirs);
    }
    return HEARTH_OK;
}

static hearth_status check(const hth_model_draft *draft, const hth_engine_model_info *info,
                           const hth_draft_target *target, hearth_error *err)
{
    const hth_model_kind kinds[2] = { info->kind, target->info->kind };
    const char *names[2] = { draft->path, target->name };

    for (size_t i = 0; i < 2; i++)
        if (kinds[i] == HTH_MODEL_UNCACHED)
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "'%s' cannot draft for '%s': the engine's sequences of '%s' are not known to be the same "
                            "after a wrong token is cut off, because it does not generate, or its architecture is not "
                            "known",
                            draft->path, target->name, names[i]);
    for (size_t i = 2; i-- > 0;)
        if (kinds[i] != HTH_MODEL_PLAIN)
            return hth_fail(
                err, HEARTH_UNSUPPORTED,
                "'%s' cannot draft for '%s': the sequences of '%s', which has a window or recurrent state, cannot "
                "be cut behind a wrong token",
                draft->path, target->name, names[i]);
    return check_vocabulary(draft, info->n_vocab, target, err);
}

/* ---- the first step ---- */

/*
 * A cancelled load ends here, too. The target was already reported as loaded, as far as it is hashed (load.c), and its
 * progress must not go back.
 */
static bool may_continue(float fraction, void *user_data)
{
    const hearth_model_options *options = user_data;

    (void)fraction;
    return !options->progress || options->progress(1, options->progress_user_data);
}

static hearth_status load(hth_model_draft *draft, hearth_runtime *runtime, const hth_draft_target *target,
                          const hearth_model_options *options, hearth_error *err)
{
    const char *engines = hth_runtime_engine_directory(runtime);
    hearth_engine_options engine;
    hth_engine_model_params params = {
        .n_gpu_layers = options->draft_n_gpu_layers,
        .no_mmap = options->no_mmap,
        .host_weights = options->host_weights,
        .keep_host_weights = options->keep_host_weights,
        .progress = may_continue,
        .progress_user_data = (void *)options,
        .options = &engine,
        .log = hth_runtime_log(runtime),
    };
    hth_engine_model_info info;
    hearth_status status = hth_engine_options_read(options->engine, &engine, err);

    engine = hth_engine_options_of_draft(&engine, options->rpc_servers);
    if (status == HEARTH_OK && hth_model_path_is_file(engines, draft->path))
        status = hth_fingerprinting_new(draft->path, target->fingerprint, options->on_work, options->work_user_data,
                                        &draft->fingerprinting, err);
    if (status == HEARTH_OK)
        status = hth_backend_of_model(engines, draft->path, &draft->backend, err);
    if (status == HEARTH_OK)
        status = draft->backend->model_load(draft->path, &params, &draft->engine_model, err);
    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "the draft model");
        return status;
    }
    draft->backend->model_info(draft->engine_model, &info);
    draft->place = (hth_workplace){
        .backend = draft->backend,
        .engine_model = draft->engine_model,
        .kind = info.kind,
        .n_vocab = info.n_vocab,
        .keyspace = { .fingerprint_mode = (uint8_t)options->fingerprint_mode,
                      .quant_byte = hth_quant_byte_of_rows(info.quant_type) },
        .engine_build = draft->backend->build(),
        .model = draft->name,
        .cache = hth_runtime_cache(runtime),
        .log = hth_runtime_log(runtime),
    };
    return check(draft, &info, target, err);
}

hearth_status hth_model_draft_load(hearth_runtime *runtime, const hth_draft_target *target,
                                   const hearth_model_options *options, hth_model_draft **out, hearth_error *err)
{
    hth_model_draft *draft = calloc(1, sizeof(*draft));
    hearth_status status;

    if (draft) {
        draft->path = strdup(options->draft_model);
        draft->name = hth_gguf_name_of_path(options->draft_model);
    }
    if (!draft || !draft->path || !draft->name) {
        hth_model_draft_free(draft);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", options->draft_model);
    }
    status = load(draft, runtime, target, options, err);
    if (status != HEARTH_OK) {
        hth_model_draft_free(draft);
        return status;
    }
    *out = draft;
    return HEARTH_OK;
}

uint64_t hth_model_draft_cell_bytes(const hth_model_draft *draft)
{
    hth_cell_room room = { .cell_bytes = 0 };

    draft->backend->cell_room(draft->engine_model, NULL, NULL, &room);
    return room.cell_bytes;
}

hearth_status hth_model_draft_make_context(hth_model_draft *draft, const hearth_model_options *options, uint32_t n_ctx,
                                           const hth_schedule *schedule, hearth_error *err)
{
    hth_engine_context_params params = {
        .n_ctx = options->draft_n_ctx ? options->draft_n_ctx : n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = schedule->n_sequences + 1, /* one more, the scratch sequence */
        .n_threads = options->n_threads ? options->n_threads : hth_os_n_cpus(),
    };
    hth_engine_context_info info;
    hth_workplace *place = &draft->place;
    hearth_status status = draft->backend->context_new(draft->engine_model, &params, &draft->context, err);

    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "the draft model");
        return status;
    }
    draft->backend->context_info(draft->context, &info);
    place->context = draft->context;
    place->n_ctx = info.n_ctx;
    place->n_batch = info.n_batch;
    place->idle_cost = info.idle_cost;
    hth_sha256_of(info.params_text, strlen(info.params_text), place->keyspace.ctx_params_hash);
    return HEARTH_OK;
}

/* ---- the second step ---- */

hearth_status hth_model_draft_identify(hth_model_draft *draft, const hth_workplace *target,
                                       const hth_schedule *schedule, hth_draft_model **out, hearth_error *err)
{
    hth_draft_model_options options = {
        .place = &draft->place,
        .n_sequences = schedule->n_sequences,
        .n_vocab = target->n_vocab,
        .max_tick_ms = schedule->max_tick_ms,
    };
    uint8_t fingerprint[32];
    hearth_status status = HEARTH_OK;

    if (draft->fingerprinting)
        status = hth_fingerprinting_wait(draft->fingerprinting, NULL, NULL, fingerprint, err);
    else
        hth_module_fingerprint(draft->path, fingerprint);
    if (status != HEARTH_OK)
        return status;
    hth_keyspace_set_fingerprint(&draft->place.keyspace, fingerprint);
    draft->place.policy = target->policy;
    draft->place.on_work = target->on_work; /* a row of the draft model may also end the process */
    draft->place.work_user_data = target->work_user_data;
    status = hth_draft_model_open(&options, &draft->model, err);
    if (status == HEARTH_OK)
        *out = draft->model;
    return status;
}

void hth_model_draft_stop_identifying(hth_model_draft *draft)
{
    if (draft && draft->fingerprinting)
        hth_fingerprinting_cancel(draft->fingerprinting);
}

const hth_workplace *hth_model_draft_place(const hth_model_draft *draft)
{
    return &draft->place;
}
