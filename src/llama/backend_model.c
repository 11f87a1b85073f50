/*
 * backend_model.c - loads a model, and answers queries about it: facts, tokens, texts, chats
 *
 * A model is freed in the same way after a successful load and after one that failed half-way.
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
#include "llama/backend_weights.h"
#include "llama/model_files.h"

/* Architectures of v0.5.0 whose cache has special parts: indexers, shared cells, chunked windows. */
static const char *const uncached_architectures[] = {
    "deepseek32",       "deepseek4", "dflash", "dots3note",  "eagle3",
    "gemma4-assistant", "glm-dsa",   "hy_v4",  "minimax-m3", "qwen4exp",
};

static hth_model_kind kind_of(const hth_shim_model_facts *facts)
{
    if (facts->has_encoder || !facts->has_decoder || facts->is_diffusion)
        return HTH_MODEL_UNCACHED;
    for (size_t i = 0; i < sizeof(uncached_architectures) / sizeof(uncached_architectures[0]); i++)
        if (strcmp(facts->architecture, uncached_architectures[i]) == 0)
            return HTH_MODEL_UNCACHED;
    if (facts->n_swa > 0 && strcmp(facts->architecture, "llama4") == 0) /* its windows are chunks */
        return HTH_MODEL_UNCACHED;
    if (facts->is_recurrent)
        return HTH_MODEL_RECURRENT;
    if (facts->is_hybrid)
        return HTH_MODEL_HYBRID;
    return facts->n_swa > 0 ? HTH_MODEL_WINDOW : HTH_MODEL_PLAIN;
}

/* Names as in the cache key's table of types. */
static const char *quant_type_name(enum llama_ftype ftype)
{
    switch ((int)ftype & ~(int)LLAMA_FTYPE_GUESSED) {
    case LLAMA_FTYPE_ALL_F32: return "f32";
    case LLAMA_FTYPE_MOSTLY_F16: return "f16";
    case LLAMA_FTYPE_MOSTLY_BF16: return "bf16";
    case LLAMA_FTYPE_MOSTLY_Q4_0: return "q4_0";
    case LLAMA_FTYPE_MOSTLY_Q4_1: return "q4_1";
    case LLAMA_FTYPE_MOSTLY_Q5_0: return "q5_0";
    case LLAMA_FTYPE_MOSTLY_Q5_1: return "q5_1";
    case LLAMA_FTYPE_MOSTLY_Q8_0: return "q8_0";
    case LLAMA_FTYPE_MOSTLY_Q2_K: return "q2_k";
    case LLAMA_FTYPE_MOSTLY_Q3_K_S: return "q3_k_s";
    case LLAMA_FTYPE_MOSTLY_Q3_K_M: return "q3_k_m";
    case LLAMA_FTYPE_MOSTLY_Q3_K_L: return "q3_k_l";
    case LLAMA_FTYPE_MOSTLY_Q4_K_S: return "q4_k_s";
    case LLAMA_FTYPE_MOSTLY_Q4_K_M: return "q4_k_m";
    case LLAMA_FTYPE_MOSTLY_Q5_K_S: return "q5_k_s";
    case LLAMA_FTYPE_MOSTLY_Q5_K_M: return "q5_k_m";
    case LLAMA_FTYPE_MOSTLY_Q6_K: return "q6_k";
    case LLAMA_FTYPE_MOSTLY_IQ1_S: return "iq1_s";
    case LLAMA_FTYPE_MOSTLY_IQ1_M: return "iq1_m";
    case LLAMA_FTYPE_MOSTLY_IQ2_XXS: return "iq2_xxs";
    case LLAMA_FTYPE_MOSTLY_IQ2_XS: return "iq2_xs";
    case LLAMA_FTYPE_MOSTLY_IQ2_S: return "iq2_s";
    case LLAMA_FTYPE_MOSTLY_IQ2_M: return "iq2_m";
    case LLAMA_FTYPE_MOSTLY_IQ3_XXS: return "iq3_xxs";
    case LLAMA_FTYPE_MOSTLY_IQ3_XS: return "iq3_xs";
    case LLAMA_FTYPE_MOSTLY_IQ3_S: return "iq3_s";
    case LLAMA_FTYPE_MOSTLY_IQ3_M: return "iq3_m";
    case LLAMA_FTYPE_MOSTLY_IQ4_NL: return "iq4_nl";
    case LLAMA_FTYPE_MOSTLY_IQ4_XS: return "iq4_xs";
    default: return "unknown";
    }
}

void hth_backend_llama_model_free(hth_engine_model *model)
{
    if (!model)
        return;
    hth_backend_llama_enter(model->log);
    hth_texts_free(model->texts);
    hth_llama_slices_free(model->slices);
    hth_grammar_memo_free(model->grammars);
    hth_llama_chat_free(model->chat);
    hth_backend_llama_adapters_deinit(model);
    if (model->llama)
        hth_shim_model_free(model->llama);
    hth_llama_placement_free(model->placement);
    hth_llama_devices_release(&model->devices);
    hth_backend_llama_leave();
    hth_backend_llama_log_forget(model->log);
    free(model->control.sum.values);
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
        hth_warn(model->log, "the CPU computes the model: the engine has no GPU, and told when it started: %s",
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
        limit.rlim_cur >= model->facts.weight_bytes)
        return;
    hth_warn(model->log,
             "mlock: this process may lock %llu MiB, and the weights have %llu: the rest may be swapped out; raise the "
             "limit (`ulimit -l`, LimitMEMLOCK= of systemd)",
             (unsigned long long)limit.rlim_cur >> 20, (unsigned long long)model->facts.weight_bytes >> 20);
}

static void warn_of_options(const hth_engine_model *model, const hth_engine_model_params *params,
                            const hearth_engine_options *options)
{
    const char *added = hth_llama_placement_added(model->placement);

    if (!model->on_gpu)
        warn_without_devices(model, params, options);
    if (added[0])
        hth_warn(model->log, "override_kv: the model's file does not have %s; the engine may not know it", added);
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
static hearth_status place(hth_engine_model *model, const char *path, const hth_engine_model_params *params,
                           hearth_error *err)
{
    hearth_engine_options options;
    hearth_status status = hth_engine_options_read(params->options, &options, err);

    if (status == HEARTH_OK)
        status = pick_devices(model, params, &options, err);
    if (status != HEARTH_OK)
        return status;
    choose_split(model, &options);
    status = hth_llama_placement_new(path, &options, &model->devices, model->n_gpu_layers, &model->placement, err);
    if (status != HEARTH_OK)
        return status;
    if (!params->no_weights) { /* the memory needs of a model are queried many times */
        warn_of_options(model, params, &options);
        hth_backend_llama_use_numa(options.numa, model->log);
    }
    model->options = options;
    model->options.devices = model->options.tensor_split = NULL;
    model->options.tensor_overrides = model->options.metadata_overrides = NULL;
    return HEARTH_OK;
}

static hearth_status load_weights(hth_engine_model *model, const char *path, const hth_engine_model_params *params,
                                  hearth_error *err)
{
    load_progress progress = { .params = params };
    hth_llama_weights *weights = NULL;
    struct llama_model_params llama = *hth_llama_placement_params(model->placement);
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
            weights = hth_llama_weights_begin(model, path, params);
        status = hth_shim_model_load(path, &llama, &model->llama, err);
        is_right = hth_llama_weights_end(weights, status == HEARTH_OK);
        weights = NULL;
        if (status != HEARTH_OK || is_right)
            break;
        hth_shim_model_free(model->llama);
        model->llama = NULL;
    }
    if (status == HEARTH_OK)
        return HEARTH_OK;
    if (progress.cancelled)
        return hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", path);
    if (status == HEARTH_ENGINE) {
        const char *reason = hth_backend_llama_reason("it does not say why");

        status = strstr(reason, "alloc")                      ? HEARTH_NO_MEMORY
               : strstr(reason, "unknown model architecture") ? HEARTH_UNSUPPORTED
                                                              : HEARTH_ENGINE;
        return hth_fail(err, status, "the engine cannot load '%s': %s", path, reason);
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

    return model->facts.has_vocabulary && hth_shim_is_end(model->llama, token);
}

static hearth_status prepare_texts(hth_engine_model *model, hearth_error *err)
{
    model->texts = hth_texts_new(&(hth_vocabulary_source){
        .n_tokens = (uint32_t)model->facts.n_vocab, .piece = text_of_token, .is_end = ends_reply, .model = model });
    model->grammars = hth_grammar_memo_new();
    if (model->facts.has_vocabulary)
        model->slices = hth_llama_slices_new(model->llama);
    return model->texts && model->grammars && (model->slices || !model->facts.has_vocabulary)
             ? HEARTH_OK
             : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
}

hearth_status hth_backend_llama_model_load(const char *path, const hth_engine_model_params *params,
                                           hth_engine_model **out, hearth_error *err)
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
    status = place(model, path, params, err);
    if (status == HEARTH_OK && params->no_mmap && !params->no_weights && !model->on_gpu)
        status = hth_backend_llama_check_memory(file.weight_bytes, "the model", err);
    if (status == HEARTH_OK)
        status = load_weights(model, path, params, err);
    if (status == HEARTH_OK)
        status = hth_shim_model_facts_read(model->llama, &model->facts, err);
    if (status == HEARTH_OK && model->options.flash_attention == HEARTH_FLASH_ATTENTION_ON &&
        !hth_backend_llama_has_flash(model))
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "models of architecture '%s' have no flash attention; switch it off, or leave the choice",
                          model->facts.architecture);
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
    /* Only these files are fingerprinted, so two models that differ in any other file would share rows. */
    atomic_init(&model->kind,
                (int)(file.split_count > HTH_GGUF_PARTS_MAX ? HTH_MODEL_UNCACHED : kind_of(&model->facts)));

    hth_backend_llama_log_latest(model->log);
    *out = model;
    model = NULL;
out:
    hth_backend_llama_leave();
    hth_backend_llama_model_free(model);
    return status;
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

static hearth_vocabulary_type vocabulary_type_of(enum llama_vocab_type type)
{
    switch (type) {
    case LLAMA_VOCAB_TYPE_NONE: return HEARTH_VOCABULARY_NONE;
    case LLAMA_VOCAB_TYPE_SPM: return HEARTH_VOCABULARY_SPM;
    case LLAMA_VOCAB_TYPE_BPE: return HEARTH_VOCABULARY_BPE;
    case LLAMA_VOCAB_TYPE_WPM: return HEARTH_VOCABULARY_WPM;
    case LLAMA_VOCAB_TYPE_UGM: return HEARTH_VOCABULARY_UGM;
    case LLAMA_VOCAB_TYPE_RWKV: return HEARTH_VOCABULARY_RWKV;
    default: return HEARTH_VOCABULARY_OTHER;
    }
}

void hth_backend_llama_model_info(const hth_engine_model *model, hth_engine_model_info *out)
{
    const hth_shim_model_facts *facts = &model->facts;
    const char *template_kind = model->chat_given                     ? "given"
                              : model->chat_is_fallback               ? "fallback"
                              : model->chat || model->chat_problem[0] ? "model"
                                                                      : "none";

    *out = (hth_engine_model_info){
        .kind = (hth_model_kind)atomic_load(&model->kind),
        .n_params = facts->n_params,
        .weight_bytes = facts->weight_bytes,
        .n_ctx_train = facts->n_ctx_train > 0 ? (uint32_t)facts->n_ctx_train : 0,
        .n_ctx_short = hth_backend_llama_n_ctx_short(model),
        .n_vocab = (uint32_t)facts->n_vocab,
        .n_layers = (uint32_t)facts->n_layers,
        .n_window = facts->n_swa > 0 && !facts->is_recurrent ? (uint32_t)facts->n_swa : 0,
        .chat_template = model->chat ? hth_llama_chat_source(model->chat) : NULL,
        .chat_abilities = model->chat ? hth_llama_chat_abilities(model->chat) : NULL,
        .vocabulary_type = vocabulary_type_of(facts->vocabulary_type),
        .adds_bos = facts->adds_bos,
        .adds_eos = facts->adds_eos,
        .token_bytes_max = model->slices ? hth_llama_slices_token_bytes_max(model->slices) : 0,
        .advice = advice_of(model),
        .embeds = hth_backend_llama_embeds(model),
        .pooling = hth_backend_llama_pooling(model),
        .n_embedding = facts->n_embd_out,
        .n_labels = model->has_classifier ? facts->n_labels : 0,
        .rank_template = hth_shim_rank_template(model->llama),
        .adds_sep = facts->adds_sep,
        .has_control = model->control.first > 0,
    };
    memcpy(out->control_digest, model->control.digest, sizeof(out->control_digest));
    memcpy(out->special, facts->special, sizeof(out->special));
    memcpy(out->architecture, facts->architecture, sizeof(out->architecture));
    memcpy(out->description, facts->description, sizeof(out->description));
    (void)snprintf(out->chat_template_kind, sizeof(out->chat_template_kind), "%s", template_kind); /* fits */
    (void)snprintf(out->quant_type, sizeof(out->quant_type), "%s", quant_type_name(facts->ftype)); /* fits */
}

hearth_status hth_backend_llama_tokenize(const hth_engine_model *model, const char *text, size_t n_bytes,
                                         unsigned flags, hearth_token *tokens, size_t capacity, size_t *n_out,
                                         hth_tokenize_result *result, const hth_tokenize_stop *stop, hearth_error *err)
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
    if (n == INT32_MIN)
        return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes has too many tokens", n_bytes);
    *n_out = n < 0 ? (size_t)-n : (size_t)n;
    *result = n < 0 ? HTH_TOKENIZE_MORE_ROOM : HTH_TOKENIZE_OK;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
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

bool hth_backend_llama_is_end(const hth_engine_model *model, hearth_token token)
{
    return model && hth_backend_llama_is_token(model, token) && hth_shim_is_end(model->llama, token);
}

hearth_status hth_backend_llama_token_flags(const hth_engine_model *model, hearth_token token, unsigned *out,
                                            hearth_error *err)
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
    attr = (unsigned)hth_shim_token_attr(model->llama, token);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (attr & (unsigned)names[i].attr)
            flags |= names[i].flag;
    *out = flags | (hth_shim_is_end(model->llama, token) ? HEARTH_TOKEN_END : 0);
    return HEARTH_OK;
}

size_t hth_backend_llama_metadata_count(const hth_engine_model *model)
{
    return model ? hth_shim_metadata_count(model->llama) : 0;
}

hearth_status hth_backend_llama_metadata_key(const hth_engine_model *model, size_t index, char **out, hearth_error *err)
{
    if (!model || !out)
        return hth_fail(err, HEARTH_MISUSE, "metadata needs a model and a place for the key");
    return hth_shim_metadata_key(model->llama, index, out, err);
}

hearth_status hth_backend_llama_metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err)
{
    if (!model || !key || !out)
        return hth_fail(err, HEARTH_MISUSE, "metadata needs a model, a key and a place for the value");
    return hth_shim_metadata(model->llama, key, out, err);
}

hearth_status hth_backend_llama_chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
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
