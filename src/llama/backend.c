/*
 * backend.c - the llama.cpp engine as an implementation of backend.h
 *
 * On many wrong arguments llama.cpp v0.5.0 aborts the process, returns wrong results or throws. All known cases are
 * checked here first; exceptions are caught in llama_shim.cpp. Three rules keep the rest simple:
 *
 *   - The contents of every sequence are tracked here, and a batch must continue them exactly. The engine reports the
 *     highest position that all of its caches have, which says nothing about a sequence that is being restored.
 *   - Only plain attention is ever rewound. Sequences of other kinds are emptied completely or not at all.
 *   - An image is parsed before the engine sees it. Afterwards the sequence must end where the image says; otherwise it
 *     is emptied, because the engine may leave behind cells of a rejected image.
 *
 * The engine copies recurrent state along with a range of cells. Setting an image without cells as the partial state
 * removes the recurrent state again and keeps the cells. So a block of a hybrid model is written without recurrent
 * state, straight into its row.
 *
 * The first image of a part that the engine writes or accepts in a context defines the layout of all others. If the
 * engine writes a form that does not match the model's kind, the model becomes HTH_MODEL_UNCACHED.
 *
 * This file has the table, the loading of a model, and queries about it: facts, tokens, texts, chats, samplers.
 */
#include "llama/backend_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "engine/engine_options.h"
#include "grammar/gbnf_reader.h"
#include "sampling/sampler.h"
#include "sampling/sampling.h"
#include "schema/schema.h"

/* ---- models: freed in the same way after a successful load and after one that failed half-way ---- */

/* Architectures of v0.5.0 whose cache has special parts: indexers, shared cells, chunked windows. */
static const char *const uncached_architectures[] = {
    "deepseek32",       "deepseek4", "dflash", "dots3note",  "eagle3",
    "gemma4-assistant", "glm-dsa",   "hy_v4",  "minimax-m3", "qwen4exp",
};

static hth_model_kind kind_of(const hth_engine_model *model)
{
    const hth_shim_model_facts *facts = &model->facts;

    if (facts->has_encoder || !facts->has_decoder || facts->is_diffusion)
        return HTH_MODEL_UNCACHED;
    for (size_t i = 0; i < sizeof(uncached_architectures) / sizeof(uncached_architectures[0]); i++)
        if (strcmp(model->info.architecture, uncached_architectures[i]) == 0)
            return HTH_MODEL_UNCACHED;
    if (facts->n_swa > 0 && strcmp(model->info.architecture, "llama4") == 0) /* its windows are chunks */
        return HTH_MODEL_UNCACHED;
    if (facts->is_recurrent)
        return HTH_MODEL_RECURRENT;
    if (facts->is_hybrid)
        return HTH_MODEL_HYBRID;
    return facts->n_swa > 0 ? HTH_MODEL_WINDOW : HTH_MODEL_PLAIN;
}

static void model_free(hth_engine_model *model)
{
    if (!model)
        return;
    hth_backend_llama_enter(model->log);
    hth_texts_free(model->texts);
    hth_llama_slices_free(model->slices);
    hth_grammar_memo_free(model->grammars);
    hth_llama_chat_free(model->chat);
    hth_backend_llama_adapters_deinit(model);
    llama_model_free(model->llama); /* accepts NULL */
    hth_llama_placement_free(model->placement);
    hth_llama_devices_release(&model->devices);
    hth_backend_llama_leave();
    hth_backend_llama_log_forget(model->log);
    free(model->control.values);
    free(model->path);
    free(model);
}

typedef struct load_progress {
    const hth_engine_model_params *params;
    bool cancelled;
} load_progress;

static bool report_progress(float fraction, void *user_data)
{
    load_progress *progress = user_data;

    if (progress->params->progress && !progress->params->progress(fraction, progress->params->progress_user_data))
        progress->cancelled = true;
    return !progress->cancelled;
}

/*
 * Pick the devices for the model's layers. A model without layers on devices gets no devices at all. Otherwise the
 * engine would still give them large batches, and ctx_params_hash would not show it. Without devices the hash has 0
 * layers.
 */
static hearth_status pick_devices(hth_engine_model *model, const hth_engine_model_params *params,
                                  const hearth_engine_options *options, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (params->n_gpu_layers != 0)
        status = hth_llama_devices_pick(params->rpc_servers, options->devices, &model->devices, err);
    if (status == HEARTH_OK && model->devices.n > 0 && options->split_mode == HEARTH_SPLIT_MODE_NONE)
        status = hth_llama_devices_keep(&model->devices, options->main_gpu, err);
    if (status != HEARTH_OK)
        return status;
    model->on_gpu = model->devices.n > 0;
    model->n_gpu_layers = model->on_gpu ? params->n_gpu_layers : 0;
    model->is_mapped = !params->no_mmap;
    model->no_weights = params->no_weights;
    return HEARTH_OK;
}

/* Name the options that have no effect without a device. */
static void warn_without_devices(const hth_engine_model *model, const hth_engine_model_params *params,
                                 const hearth_engine_options *o)
{
    const struct {
        const char *name;
        bool is_given;
    } options[] = {
        { "split_mode", o->split_mode != HEARTH_SPLIT_MODE_LAYER },
        { "tensor_split", o->tensor_split },
        { "main_gpu", o->main_gpu > 0 },
        { "no_kv_offload", o->no_kv_offload },
        { "cpu_moe", o->cpu_moe },
        { "n_cpu_moe", o->n_cpu_moe > 0 },
    };
    char names[128] = "";
    size_t n = 0;

    if (params->n_gpu_layers != 0 && !o->devices && hth_backend_llama_start_error()[0])
        hth_warn(model->log, "the CPU computes the model: the engine has no GPU; it said at its start: %s",
                 hth_backend_llama_start_error());
    else if (params->n_gpu_layers > 0)
        hth_warn(
            model->log,
            "there is no GPU for %d layers: the CPU computes them; an engine for GPUs is built with HEARTH_CUDA=1, "
            "HEARTH_VULKAN=1 or HEARTH_METAL=1 (`hearth version` shows what this one finds)",
            params->n_gpu_layers);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].is_given)
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", options[i].name); /* fits */
    if (n > 0)
        hth_warn(model->log, "the model has no layers on GPUs, so these options have no effect: %s", names);
}

/*
 * The engine continues with what it could lock, and says so only in its own log. How much of the weights is on the host
 * when there are GPUs is not known.
 */
static void warn_of_lock_limit(const hth_engine_model *model)
{
    struct rlimit limit;

    if (geteuid() == 0 || model->on_gpu || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= model->info.weight_bytes)
        return;
    hth_warn(model->log,
             "mlock: this process may lock %llu MiB, and the weights have %llu: the rest may be swapped out; raise the "
             "limit (`ulimit -l`, LimitMEMLOCK= of systemd)",
             (unsigned long long)limit.rlim_cur >> 20, (unsigned long long)model->info.weight_bytes >> 20);
}

/* If devices cannot take rows of matrices, split by layers instead; without devices there is a separate warning. */
static void choose_split(const hth_engine_model *model, hearth_engine_options *options)
{
    if (!model->on_gpu || options->split_mode != HEARTH_SPLIT_MODE_ROW || hth_llama_devices_split_rows(&model->devices))
        return;
    options->split_mode = HEARTH_SPLIT_MODE_LAYER;
    if (!model->no_weights)
        hth_warn(model->log, "split_mode row: these devices cannot take rows of matrices, and take layers");
}

/* Read the options, pick the devices, and make the engine's parameters. */
static hearth_status place(hth_engine_model *model, const hth_engine_model_params *params, hearth_error *err)
{
    hearth_engine_options options;
    hearth_status status = hth_engine_options_read(params->options, &options, err);

    if (status == HEARTH_OK)
        status = pick_devices(model, params, &options, err);
    if (status != HEARTH_OK)
        return status;
    choose_split(model, &options);
    status =
        hth_llama_placement_new(model->path, &options, &model->devices, model->n_gpu_layers, &model->placement, err);
    if (status != HEARTH_OK)
        return status;
    if (!params->no_weights) { /* the memory needs of a model are queried many times */
        if (!model->on_gpu)
            warn_without_devices(model, params, &options);
        if (model->placement->added[0])
            hth_warn(model->log, "override_kv: the model's file does not have %s; the engine may not know it",
                     model->placement->added);
        hth_backend_llama_use_numa(options.numa, model->log);
    }
    model->options = options;
    model->options.devices = model->options.tensor_split = NULL;
    model->options.tensor_overrides = model->options.metadata_overrides = NULL;
    return HEARTH_OK;
}

static hearth_status load_weights(hth_engine_model *model, const hth_engine_model_params *params, hearth_error *err)
{
    load_progress progress = { .params = params };
    hth_llama_weights *weights = NULL;
    struct llama_model_params llama = model->placement->params;
    hearth_status status;
    bool is_right;

    llama.no_alloc = params->no_weights;
    if (params->no_weights)
        llama.load_mode = LLAMA_LOAD_MODE_NONE;
    else if (params->no_mmap)
        llama.load_mode = model->options.mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE;
    else
        llama.load_mode = model->options.mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP;
    llama.progress_callback = report_progress; /* false ends the loading, which then fails */
    llama.progress_callback_user_data = &progress;
    for (int attempt = 0;; attempt++) {
        if (attempt < 2 && !params->no_weights) /* a region that is wrong is made again, once */
            weights = hth_llama_weights_begin(model, params);
        status = hth_shim_model_load(model->path, &llama, &model->llama, err);
        is_right = hth_llama_weights_end(weights, status == HEARTH_OK);
        weights = NULL;
        if (status != HEARTH_OK || is_right)
            break;
        llama_model_free(model->llama);
        model->llama = NULL;
    }
    if (status == HEARTH_OK)
        return HEARTH_OK;
    if (progress.cancelled)
        return hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", model->path);
    if (status == HEARTH_ENGINE) {
        const char *reason = hth_backend_llama_reason("it does not say why");

        status = strstr(reason, "alloc")                      ? HEARTH_NO_MEMORY
               : strstr(reason, "unknown model architecture") ? HEARTH_UNSUPPORTED
                                                              : HEARTH_ENGINE;
        return hth_fail(err, status, "the engine cannot load '%s': %s", model->path, reason);
    }
    return status;
}

/* A template given by the user must work; a broken one in the model only disables chat. */
static hearth_status read_chat_template(hth_engine_model *model, const hth_engine_model_params *params,
                                        hearth_error *err)
{
    hearth_error problem = { .message = "" };
    hearth_status status =
        hth_llama_chat_new(model->llama, params->chat_template, params->special_in_messages, &model->chat, &problem);

    model->chat_given = params->chat_template != NULL;
    if (status == HEARTH_OK && !model->chat && params->fallback_template && model->facts.has_vocabulary)
        model->chat_is_fallback = hth_llama_chat_new(model->llama, params->fallback_template,
                                                     params->special_in_messages, &model->chat, NULL) == HEARTH_OK;
    if (status == HEARTH_OK)
        return HEARTH_OK;
    if (model->chat_given)
        return hth_fail(err, HEARTH_MISUSE, "the given chat template cannot be used: %s", problem.message);
    (void)snprintf(model->chat_problem, sizeof(model->chat_problem), "%.255s", problem.message);
    hth_warn(model->log, "the model's chat template cannot be used: %s", problem.message);
    return HEARTH_OK;
}

static hearth_status text_of_token(const void *of, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    const hth_engine_model *model = of;
    int32_t n = -1;

    if (!model->facts.has_vocabulary ||
        hth_shim_piece(model->llama, token, false, bytes, (int32_t)capacity, &n, NULL) != HEARTH_OK || n < 0)
        return HEARTH_UNSUPPORTED;
    *n_out = (size_t)n;
    return HEARTH_OK;
}

static bool ends_reply(const void *of, hearth_token token)
{
    const hth_engine_model *model = of;

    return model->facts.has_vocabulary && llama_vocab_is_eog(model->vocabulary, token);
}

static hearth_status prepare_texts(hth_engine_model *model, hearth_error *err)
{
    model->texts = hth_texts_new(&(hth_vocabulary_source){
        .n_tokens = model->info.n_vocab, .piece = text_of_token, .is_end = ends_reply, .model = model });
    model->grammars = hth_grammar_memo_new();
    if (model->facts.has_vocabulary)
        model->slices = hth_llama_slices_new(model->llama);
    return model->texts && model->grammars && (model->slices || !model->facts.has_vocabulary)
             ? HEARTH_OK
             : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
}

/* A number in the metadata, of any type; NAN: none. */
static float advised(const hth_engine_model *model, const char *key)
{
    char text[64], *end;
    double value;

    if (!hth_backend_llama_meta(model, key, text, sizeof(text)))
        return NAN;
    value = strtod(text, &end);
    return end == text || *end ? NAN : (float)value;
}

static hth_sampling_advice advice_of(const hth_engine_model *model)
{
#define ADVISED(field, key) .field = advised(model, "general.sampling." key),
    return (hth_sampling_advice){ HTH_SAMPLING_ADVICE_EACH(ADVISED) };
#undef ADVISED
}

static hearth_pooling pooling_of(const hth_engine_model *model)
{
    char text[16];

    if (!hth_backend_llama_own_meta(model, "pooling_type", text, sizeof(text)))
        return HEARTH_POOLING_MODEL;
    switch (strtol(text, NULL, 10)) { /* llama_pooling_type */
    case LLAMA_POOLING_TYPE_NONE: return HEARTH_POOLING_NONE;
    case LLAMA_POOLING_TYPE_MEAN: return HEARTH_POOLING_MEAN;
    case LLAMA_POOLING_TYPE_CLS: return HEARTH_POOLING_CLS;
    case LLAMA_POOLING_TYPE_LAST: return HEARTH_POOLING_LAST;
    case LLAMA_POOLING_TYPE_RANK: return HEARTH_POOLING_RANK;
    default: return HEARTH_POOLING_MODEL;
    }
}

/* Complete the facts of a model that is otherwise loaded. */
static void describe(hth_engine_model *model)
{
    hth_engine_model_info *info = &model->info;
    const hth_shim_model_facts *facts = &model->facts;
    const char *template_kind = model->chat_given                     ? "given"
                              : model->chat_is_fallback               ? "fallback"
                              : model->chat || model->chat_problem[0] ? "model"
                                                                      : "none";

    info->n_ctx_short = hth_backend_llama_n_ctx_short(model);
    info->n_window = facts->n_swa > 0 && !facts->is_recurrent ? (uint32_t)facts->n_swa : 0;
    info->chat_template = model->chat ? hth_llama_chat_source(model->chat) : NULL;
    info->chat_abilities = model->chat ? hth_llama_chat_abilities(model->chat) : NULL;
    info->token_bytes_max = model->slices ? hth_llama_slices_token_bytes_max(model->slices) : 0;
    info->advice = advice_of(model);
    info->embeds = hth_backend_llama_embeds(model);
    info->pooling = pooling_of(model);
    info->n_labels = model->has_classifier ? info->n_labels : 0;
    info->has_control = model->control.first > 0;
    (void)snprintf(info->chat_template_kind, sizeof(info->chat_template_kind), "%s", template_kind); /* these fit */
    (void)snprintf(info->quant_type, sizeof(info->quant_type), "%s", hth_backend_llama_type_name(facts->ftype));
}

static hearth_status model_load(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                hearth_error *err)
{
    hth_engine_model *model = NULL;
    hth_shim_file file = { 0 };
    hearth_status status;

    if (!path || !params || !params->log || !out)
        return hth_fail(err, HEARTH_MISUSE, "a model needs a path, parameters and a log");

    hth_backend_llama_enter(params->log);
    status = hth_backend_llama_start(err);
    if (status == HEARTH_OK)
        status = hth_model_files_check(path, &file, err);
    if (status != HEARTH_OK)
        goto out;

    model = calloc(1, sizeof(*model));
    if (!model) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
        goto out;
    }
    model->log = params->log;
    hth_backend_llama_adapters_init(model);
    model->path = strdup(path);
    if (!model->path) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
        goto out;
    }
    model->has_long_rope_factors = file.has_long_rope_factors;
    model->has_classifier = file.has_classifier;
    model->has_iq_experts = file.has_iq_experts;
    status = place(model, params, err);
    if (status == HEARTH_OK && params->no_mmap && !params->no_weights && !model->on_gpu)
        status = hth_backend_llama_check_memory(file.weight_bytes, "the model", err);
    if (status == HEARTH_OK)
        status = load_weights(model, params, err);
    if (status == HEARTH_OK)
        status = hth_shim_model_facts_read(model->llama, &model->info, &model->facts, err);
    if (status == HEARTH_OK)
        model->vocabulary = llama_model_get_vocab(model->llama);
    if (status == HEARTH_OK && model->options.flash_attention == HEARTH_FLASH_ATTENTION_ON &&
        !hth_backend_llama_has_flash(model))
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "models of architecture '%s' have no flash attention; switch it off, or leave the choice",
                          model->info.architecture);
    if (status == HEARTH_OK && model->options.mlock && !params->no_weights)
        warn_of_lock_limit(model);
    if (status == HEARTH_OK)
        status = prepare_texts(model, err);
    if (status == HEARTH_OK)
        status = read_chat_template(model, params, err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_control_load(model, params, err);
    if (status != HEARTH_OK)
        goto out;
    describe(model);
    /* Only these files are fingerprinted, so two models that differ in any other file would share rows. */
    atomic_init(&model->kind, (int)(file.split_count > HTH_GGUF_PARTS_MAX ? HTH_MODEL_UNCACHED : kind_of(model)));

    hth_backend_llama_log_latest(model->log);
    *out = model;
    model = NULL;
out:
    hth_backend_llama_leave();
    model_free(model);
    return status;
}

static void model_info(const hth_engine_model *model, hth_engine_model_info *out)
{
    *out = model->info;
    out->kind = (hth_model_kind)atomic_load(&model->kind);
}

static hearth_status tokenize(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                              const hth_tokenize_stop *stop, hearth_error *err)
{
    int32_t n = 0;
    hearth_status status;

    if (!model || (!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out || !result)
        return hth_fail(err, HEARTH_MISUSE, "tokenize needs a model, a text and room");
    if (n_bytes > INT32_MAX / 2)
        return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes is too long to tokenize", n_bytes);
    if (!model->facts.has_vocabulary)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; give it token ids");
    hth_backend_llama_enter(model->log);
    if (capacity > INT32_MAX)
        capacity = INT32_MAX;
    if (model->chat && n_bytes > 0 && (flags & HEARTH_TOKENIZE_SPECIAL) && memchr(text, HTH_PLAIN_MARK, n_bytes))
        status = hth_llama_chat_tokenize(model->chat, model->slices, text, n_bytes, 0, flags & HEARTH_TOKENIZE_BOS,
                                         tokens, (int32_t)capacity, &n, stop, err);
    else
        status =
            hth_llama_slices_tokenize(model->slices, text ? text : "", (int32_t)n_bytes, 0, flags & HEARTH_TOKENIZE_BOS,
                                      flags & HEARTH_TOKENIZE_SPECIAL, tokens, (int32_t)capacity, &n, stop, err);
    hth_backend_llama_leave();
    if (status != HEARTH_OK)
        return status;
    *n_out = n < 0 ? (size_t)-n : (size_t)n;
    *result = n < 0 ? HTH_TOKENIZE_MORE_ROOM : HTH_TOKENIZE_OK;
    return HEARTH_OK;
}

static hearth_status piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                           size_t capacity, size_t *n_out, hearth_error *err)
{
    int32_t n = 0;
    hearth_status status;

    if (!model || (!bytes && capacity > 0) || !n_out || !hth_backend_llama_is_token(model, token))
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (!model->facts.has_vocabulary)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; its tokens have no text");
    status = hth_shim_piece(model->llama, token, special, bytes, capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity,
                            &n, err);
    if (status != HEARTH_OK)
        return status;
    if (n < 0)
        return hth_fail(err, HEARTH_MISUSE, "the text of token %d needs %d bytes, not %zu", token, -n, capacity);
    *n_out = (size_t)n;
    return HEARTH_OK;
}

static bool is_end(const hth_engine_model *model, hearth_token token)
{
    return model && hth_backend_llama_is_token(model, token) && llama_vocab_is_eog(model->vocabulary, token);
}

static hearth_status token_flags(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err)
{
    static const struct {
        enum llama_token_attr attr;
        unsigned flag;
    } names[] = {
        { LLAMA_TOKEN_ATTR_NORMAL, HEARTH_TOKEN_NORMAL },
        { LLAMA_TOKEN_ATTR_CONTROL, HEARTH_TOKEN_CONTROL },
        { LLAMA_TOKEN_ATTR_USER_DEFINED, HEARTH_TOKEN_USER_DEFINED },
        { LLAMA_TOKEN_ATTR_UNKNOWN, HEARTH_TOKEN_UNKNOWN },
        { LLAMA_TOKEN_ATTR_UNUSED, HEARTH_TOKEN_UNUSED },
        { LLAMA_TOKEN_ATTR_BYTE, HEARTH_TOKEN_BYTE },
    };
    unsigned attr, flags = 0;

    if (!model || !out || !hth_backend_llama_is_token(model, token))
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (!model->facts.has_vocabulary)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; nothing is known of its tokens");
    attr = (unsigned)llama_vocab_get_attr(model->vocabulary, token);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (attr & (unsigned)names[i].attr)
            flags |= names[i].flag;
    *out = flags | (llama_vocab_is_eog(model->vocabulary, token) ? HEARTH_TOKEN_END : 0);
    return HEARTH_OK;
}

static size_t metadata_count(const hth_engine_model *model)
{
    return model ? (size_t)llama_model_meta_count(model->llama) : 0;
}

static hearth_status metadata_key(const hth_engine_model *model, size_t index, char **out, hearth_error *err)
{
    if (!model || !out)
        return hth_fail(err, HEARTH_MISUSE, "metadata needs a model and a place for the key");
    return hth_shim_metadata_key(model->llama, index, out, err);
}

static hearth_status metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err)
{
    if (!model || !key || !out)
        return hth_fail(err, HEARTH_MISUSE, "metadata needs a model, a key and a place for the value");
    return hth_shim_metadata(model->llama, key, out, err);
}

static hearth_status chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
                                 hearth_chat_prompt *out, hearth_error *err)
{
    hearth_status status;

    if (!model || !conversation || !out)
        return hth_fail(err, HEARTH_MISUSE, "a prompt needs a conversation");
    if (!model->chat && model->chat_problem[0])
        return hth_fail(err, HEARTH_ENGINE, "the model's chat template cannot be used: %s; give another one",
                        model->chat_problem);
    if (!model->chat)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no chat template; give one or use plain completion");
    hth_backend_llama_enter(model->log);
    status = hth_llama_chat_prompt(model->chat, conversation, out, err);
    hth_backend_llama_leave();
    return status;
}

/*
 * ---- samplers ----
 *
 * The engine's own samplers are not used. Its grammars end the process when a reply ends too early, throw when a token
 * is refused, print syntax errors to the terminal, and take unbounded time and memory for a very ambiguous grammar. Its
 * XTC draws from a stateful generator. Several filters allocate for each token. So the chain is ours (sampler.c), with
 * the engine's definitions. Only the vocabulary and the tokenizer are the engine's.
 */

/* A token of a grammar by its name, "<|im_start|>". */
static bool token_of_name(const void *user_data, const char *text, size_t n_bytes, hearth_token *out)
{
    hearth_token tokens[2];
    int32_t n = 0;

    if (n_bytes > 1024 || hth_shim_tokenize(user_data, text, (int32_t)n_bytes, tokens, 2, &n, NULL) != HEARTH_OK)
        return false;
    *out = tokens[0];
    return n == 1;
}

static hearth_status read_grammar(const struct llama_model *llama, hth_grammar_memo *grammars, uint32_t n_vocab,
                                  const hearth_sampling *sampling, hth_gbnf **out, hearth_error *err)
{
    bool is_schema = sampling->json_schema != NULL;
    const char *given = is_schema ? sampling->json_schema : sampling->grammar;
    hth_gbnf *known = hth_grammar_memo_find(grammars, is_schema, given);
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = { .n_tokens = n_vocab,
                                 .token = token_of_name,
                                 .token_data = llama,
                                 .json = hth_schema_embedded,
                                 .json_data = &steps };
    hearth_status status;

    if (known) {
        *out = known;
        return HEARTH_OK;
    }
    if (is_schema)
        status = hth_schema_compile(sampling->json_schema, strlen(sampling->json_schema), NULL, out, NULL, err);
    else
        status = hth_gbnf_new(sampling->grammar, strlen(sampling->grammar), &outside, out, err);
    if (status == HEARTH_OK)
        hth_grammar_memo_keep(grammars, is_schema, given, *out);
    else
        hth_fail_prefix(err, "sampling: %s", is_schema ? "json_schema" : "grammar");
    return status;
}

/* Read the names of the tokens to be shown. */
static void read_shown(const struct llama_model *llama, const hearth_sampling *sampling,
                       hth_shown_token shown[HTH_SHOWN_TOKENS_MAX], hth_sampler_parts *parts)
{
    for (size_t i = 0; i < sampling->n_shown_tokens && i < HTH_SHOWN_TOKENS_MAX; i++) {
        hth_shown_token *to = &shown[parts->n_shown];
        int32_t n = 0;

        to->token = sampling->shown_tokens[i];
        if (to->token < 0 || (uint32_t)to->token >= parts->n_vocab ||
            hth_shim_piece(llama, to->token, true, (char *)to->bytes, sizeof(to->bytes), &n, NULL) != HEARTH_OK ||
            n <= 0)
            continue; /* not a token, or its name is too long */
        to->n_bytes = (uint32_t)n;
        parts->n_shown++;
    }
    parts->shown = shown;
}

static hearth_status tokens_of_text(const void *llama, const char *text, hearth_token *tokens, size_t capacity,
                                    size_t *n_out, hearth_error *err)
{
    int32_t n = 0;
    hearth_status status = hth_shim_tokenize(llama, text, (int32_t)strlen(text), tokens, (int32_t)capacity, &n, err);

    *n_out = (size_t)llabs(n); /* negative: this many do not fit */
    return status;
}

static hearth_status make_sampler(const hth_engine_model *model, const hearth_sampling *sampling,
                                  hth_engine_sampler **out, hearth_error *err)
{
    hth_texts *texts = model->texts;
    hth_sampler_parts parts = { .n_vocab = hth_texts_n_tokens(texts) };
    hth_shown_token shown[HTH_SHOWN_TOKENS_MAX];
    hth_thinking_parts thinking;
    hearth_status status = hth_sampling_check(sampling, err);

    if (status == HEARTH_OK)
        read_shown(model->llama, sampling, shown, &parts);
    if (status == HEARTH_OK)
        status = hth_texts_ends(texts, &parts.ends, &parts.n_ends, err);
    if (status == HEARTH_OK && hth_sampler_needs_text(sampling))
        status = hth_texts_vocabulary(texts, &parts.vocabulary, err);
    if (status == HEARTH_OK && hth_sampling_bounds_thinking(sampling)) {
        status = hth_thinking_read(sampling, tokens_of_text, model->llama, &thinking, err);
        parts.thinking = &thinking;
    }
    if (status == HEARTH_OK && (sampling->grammar || sampling->json_schema))
        status = read_grammar(model->llama, model->grammars, parts.n_vocab, sampling, &parts.gbnf_take, err);
    return status == HEARTH_OK ? hth_sampler_new(sampling, &parts, out, err) : status;
}

static hearth_status sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err)
{
    hearth_status status;

    if (!model || !sampling || !out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs a model and options");
    if (!model->facts.has_vocabulary && hth_sampler_needs_text(sampling))
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; it cannot follow a grammar or use DRY");
    hth_backend_llama_enter(model->log);
    status = make_sampler(model, sampling, out, err);
    hth_backend_llama_leave();
    return status;
}

/* ---- the table ---- */

HEARTH_API const hth_backend *hearth_backend(void);

const hth_backend *hearth_backend(void)
{
    static const hth_backend llama = {
        .abi = HTH_BACKEND_ABI,
        .name = "llama.cpp",
        .build = hth_shim_version,
        .devices = hth_backend_llama_devices,
        .model_load = model_load,
        .model_free = model_free,
        .model_info = model_info,
        .cell_room = hth_backend_llama_cell_room,
        .needs = hth_backend_llama_needs,
        .tokenize = tokenize,
        .piece = piece,
        .is_end = is_end,
        .token_flags = token_flags,
        .metadata_count = metadata_count,
        .metadata_key = metadata_key,
        .metadata = metadata,
        .chat_prompt = chat_prompt,
        .chat_reader_new = hth_llama_chat_reader_new,
        .chat_reader_free = hth_llama_chat_reader_free,
        .chat_read = hth_llama_chat_read,
        .adapter_load = hth_backend_llama_adapter_load,
        .adapter_free = hth_backend_llama_adapter_free,
        .adapters_apply = hth_backend_llama_adapters_apply,
        .context_new = hth_backend_llama_context_new,
        .context_free = hth_backend_llama_context_free,
        .context_info = hth_backend_llama_context_info,
        .decode = hth_backend_llama_decode,
        .logits = hth_backend_llama_logits,
        .vector = hth_backend_llama_vector,
        .seq_remove = hth_backend_llama_seq_remove,
        .seq_copy = hth_backend_llama_seq_copy,
        .seq_end = hth_backend_llama_seq_end,
        .state_size = hth_backend_llama_state_size,
        .state_get = hth_backend_llama_state_get,
        .state_set = hth_backend_llama_state_set,
        .sampler_new = sampler_new,
        .sampler_new_like = hth_sampler_new_like,
        .sampler_free = hth_sampler_free,
        .sampler_accept = hth_sampler_accept,
        .sampler_apply = hth_sampler_apply,
        .sampler_state = hth_sampler_state,
        .sampler_set_state = hth_sampler_set_state,
        .embedder_new = hth_backend_llama_embedder_new,
        .embedder_free = hth_backend_llama_embedder_free,
        .embedder_inputs = hth_backend_llama_embedder_inputs,
        .embedder_adapters = hth_backend_llama_embedder_adapters,
        .embed = hth_backend_llama_embed,
        .embedding = hth_backend_llama_embedding,
    };

    return &llama;
}
