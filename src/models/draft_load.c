/*
 * draft_load.c - load a draft model together with its target: compare vocabularies, make a context, identify
 *
 * The steps are those of load.c. The weights are loaded before the target's context is made, because the context's size
 * depends on the remaining memory.
 */
#include <string.h>

#include "base/os.h"
#include "engine/engine_options.h"
#include "models/model_inside.h"

/* Files of one family pad their vocabularies to different sizes. llama.cpp allows the same difference (speculative). */
enum { VOCABULARY_PADDING = 128 };

/* ---- vocabularies ---- */

static size_t piece_of(const hearth_model *model, uint32_t token, char out[HTH_PIECE_BYTES_MAX])
{
    size_t n = 0;

    return model->backend->piece(model->engine_model, (hearth_token)token, true, out, HTH_PIECE_BYTES_MAX, &n, NULL) ==
                   HEARTH_OK
             ? n
             : 0;
}

/* A token must have the same text in both models. */
static hearth_status check_vocabulary(const hearth_model *draft, const hearth_model *target, hearth_error *err)
{
    uint32_t n_vocab = draft->info.n_vocab, n_target = target->info.n_vocab,
             n = n_vocab < n_target ? n_vocab : n_target;
    char ours[HTH_PIECE_BYTES_MAX], theirs[HTH_PIECE_BYTES_MAX];

    if (n_vocab - n > VOCABULARY_PADDING || n_target - n > VOCABULARY_PADDING)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "'%s' cannot draft for '%s': it has another vocabulary, of %u tokens instead of %u; use a draft "
            "model of the same family",
            draft->path, target->name, n_vocab, n_target);
    for (uint32_t i = 0; i < n; i++) {
        size_t n_ours = piece_of(draft, i, ours);
        size_t n_theirs = piece_of(target, i, theirs);

        if (n_ours != n_theirs || memcmp(ours, theirs, n_ours) != 0)
            return hth_fail(
                err, HEARTH_UNSUPPORTED,
                "'%s' cannot draft for '%s': it has another vocabulary, whose token %u is '%.*s' instead of "
                "'%.*s'; use a draft model of the same family",
                draft->path, target->name, i, (int)n_ours, ours, (int)n_theirs, theirs);
    }
    return HEARTH_OK;
}

static hearth_status check(const hearth_model *draft, const hearth_model *target, hearth_error *err)
{
    const hth_model_kind kinds[2] = { draft->info.kind, target->info.kind };
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
    return check_vocabulary(draft, target, err);
}

/* ---- the first step ---- */

hearth_model_options hth_model_draft_options(const hearth_model_options *target, hearth_engine_options *engine)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_engine_options given;

    (void)hth_engine_options_read(target->engine, &given, NULL); /* they were checked */
    *engine = hth_engine_options_of_draft(&given, target->rpc_servers);
    options.engine = engine;
    options.n_gpu_layers = target->draft_n_gpu_layers;
    options.no_mmap = target->no_mmap;
    options.host_weights = target->host_weights;
    options.keep_host_weights = target->keep_host_weights;
    options.fingerprint_mode = target->fingerprint_mode;
    return options;
}

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

hearth_status hth_model_draft_load(hearth_model *model, const hearth_model_options *options,
                                   const hth_fingerprint_options *fingerprint, hearth_error *err)
{
    hearth_engine_options engine;
    hearth_model_options own = hth_model_draft_options(options, &engine);
    hearth_status status = hth_model_new(model->runtime, options->draft_model, &own, &model->draft, err);

    if (status != HEARTH_OK)
        return status;
    model->draft->is_draft = true;
    own.progress = may_continue;
    own.progress_user_data = (void *)options;
    if (hth_model_path_is_file(model->runtime->engine_directory, options->draft_model))
        status = hth_fingerprinting_new(options->draft_model, fingerprint, options->on_work, options->work_user_data,
                                        &model->draft->fingerprinting, err);
    if (status == HEARTH_OK)
        status = hth_model_load_weights(model->draft, &own, false, err);
    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "the draft model");
        return status;
    }
    return check(model->draft, model, err);
}

hearth_status hth_model_draft_make_context(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    hearth_model *draft = model->draft;
    hth_engine_context_params params = {
        .n_ctx = options->draft_n_ctx ? options->draft_n_ctx : model->place.n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = model->schedule.n_sequences + 1, /* one more, the scratch sequence */
        .n_threads = options->n_threads ? options->n_threads : hth_os_n_cpus(),
        .portable = options->portable,
    };
    hth_engine_context_info info;
    hearth_status status = draft->backend->context_new(draft->engine_model, &params, &draft->context, err);

    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "the draft model");
        return status;
    }
    draft->backend->context_info(draft->context, &info);
    draft->place = (hth_workplace){
        .backend = draft->backend,
        .engine_model = draft->engine_model,
        .context = draft->context,
        .kind = draft->info.kind,
        .n_ctx = info.n_ctx,
        .n_batch = info.n_batch,
        .n_vocab = draft->info.n_vocab,
        .idle_cost = info.idle_cost,
        .keyspace = { .fingerprint_mode = (uint8_t)options->fingerprint_mode,
                      .quant_byte = hth_quant_byte_of_rows(draft->info.quant_type) },
        .engine_build = draft->backend->build(),
        .model = draft->name,
        .cache = hth_runtime_cache(draft->runtime),
        .log = hth_runtime_log(draft->runtime),
    };
    hth_sha256_of(info.params_text, strlen(info.params_text), draft->place.keyspace.ctx_params_hash);
    return HEARTH_OK;
}

/* ---- the second step ---- */

hearth_status hth_model_draft_identify(hearth_model *model, hearth_error *err)
{
    hearth_model *draft = model->draft;
    hth_draft_model_options options = {
        .place = &draft->place,
        .n_sequences = model->schedule.n_sequences,
        .n_vocab = model->place.n_vocab,
        .max_tick_ms = model->schedule.max_tick_ms,
    };
    hearth_status status = HEARTH_OK;

    if (draft->fingerprinting)
        status = hth_fingerprinting_wait(draft->fingerprinting, NULL, NULL, draft->model_fingerprint, err);
    else
        hth_module_fingerprint(draft->path, draft->model_fingerprint);
    if (status != HEARTH_OK)
        return status;
    hth_keyspace_set_fingerprint(&draft->place.keyspace, draft->model_fingerprint);
    draft->place.policy = model->place.policy;
    draft->place.on_work = model->place.on_work; /* a row of the draft model may also end the process */
    draft->place.work_user_data = model->place.work_user_data;
    return hth_draft_model_open(&options, &model->place.draft_model, err);
}
