/*
 * backend_context.c - makes a context, and the text of all settings that determine the meaning of its cells' bytes
 */
#include "llama/backend_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"
#include "engine/engine_options.h"
#include "kernels/attention.h"
#include "rows/row.h"

#define N_UBATCH_MAX 512
#define ROW_FORMAT_PLAIN 1 /* blocks and tails of plain attention */
#define ROW_FORMAT 2       /* for the other kinds; 1 was snapshots */
#define IDLE_ROW_PS 400    /* docs/performance.md, "Idle sequences" */
#define IDLE_SEQUENCE_PS 3000
#define IDLE_CELLS_MAX 1024

static bool type_by_name(const char *name, enum ggml_type *out)
{
    static const struct {
        const char *name;
        enum ggml_type type;
    } types[] = {
        { "f16", GGML_TYPE_F16 },   { "f32", GGML_TYPE_F32 },   { "bf16", GGML_TYPE_BF16 },
        { "q8_0", GGML_TYPE_Q8_0 }, { "q4_0", GGML_TYPE_Q4_0 }, { "q4_1", GGML_TYPE_Q4_1 },
        { "q5_0", GGML_TYPE_Q5_0 }, { "q5_1", GGML_TYPE_Q5_1 }, { "iq4_nl", GGML_TYPE_IQ4_NL },
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = types[i].type;
            return true;
        }
    }
    return false;
}

/* The bytes of one cell in all layers, if each layer keeps keys and values of every cell. */
static double cell_bytes(const hth_engine_model *model, enum ggml_type type_k, enum ggml_type type_v)
{
    const hth_shim_model_facts *facts = &model->facts;
    uint32_t head_bytes_default = facts->n_head > 0 ? (uint32_t)(facts->n_embd / facts->n_head) : 0;
    double values_k = hth_backend_llama_number(model, "attention.key_length", head_bytes_default);
    double values_v = hth_backend_llama_number(model, "attention.value_length", head_bytes_default);

    return (values_k * (double)ggml_type_size(type_k) / (double)ggml_blck_size(type_k) +
            values_v * (double)ggml_type_size(type_v) / (double)ggml_blck_size(type_v)) *
           facts->n_head_kv * facts->n_layers;
}

static bool cells_on_devices(const hth_engine_model *model)
{
    return model->on_gpu && !model->options.no_kv_offload;
}

/*
 * Approximate size of the KV buffer. 0: unknown, because some layers keep less, or the buffer is not in this machine's
 * main memory.
 */
static uint64_t kv_bytes(const hth_engine_model *model, const struct llama_context_params *params)
{
    if (atomic_load(&model->kind) != HTH_MODEL_PLAIN || cells_on_devices(model) ||
        hth_backend_llama_number(model, "attention.kv_lora_rank", 0) > 0)
        return 0;
    return (uint64_t)(cell_bytes(model, params->type_k, params->type_v) * params->n_ctx);
}

static uint64_t less(uint64_t bytes, uint64_t others)
{
    return bytes > others ? bytes - others : 0;
}

/* Every layer counts as if it kept every cell. An unknown type counts as f16. */
void hth_backend_llama_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v,
                                 hth_cell_room *out)
{
    enum ggml_type k = GGML_TYPE_F16, v = GGML_TYPE_F16;
    uint64_t weight_bytes = model->facts.weight_bytes;

    if (type_k)
        (void)type_by_name(type_k, &k);
    if (type_v)
        (void)type_by_name(type_v, &v);
    *out = (hth_cell_room){
        .cell_bytes = (uint64_t)cell_bytes(model, k, v),
        .is_device = cells_on_devices(model),
    };
    if (out->is_device) {
        hth_llama_devices_memory(&model->devices, &out->free_bytes, &out->total_bytes);
    } else {
        out->free_bytes = hth_os_memory_available_bytes();
        out->total_bytes = hth_os_memory_bytes();
    }
    if (out->is_device != model->on_gpu) /* the weights are not there */
        return;
    /* Mapped weights are in the page cache, which counts as free although the weights are needed. */
    if (model->no_weights || (model->is_mapped && !model->on_gpu))
        out->free_bytes = less(out->free_bytes, weight_bytes);
    out->total_bytes = less(out->total_bytes, weight_bytes);
}

/*
 * Write all settings that determine the meaning of a cell's bytes. A model's own RoPE values are written as they are,
 * and so are values that were given instead.
 */
static hearth_status write_params_text(hth_engine_context *context, const struct llama_context_params *params,
                                       hearth_error *err)
{
    static const char *const rope_keys[] = {
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scale_linear",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_log_multiplier",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    };
    const hth_engine_model *model = context->model;
    const char *rotation_off = getenv("LLAMA_ATTN_ROT_DISABLE");
    bool has_flash_attention = params->flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
    const char *long_rope = !model->has_long_rope_factors                              ? "none"
                          : context->info.n_ctx > hth_backend_llama_n_ctx_short(model) ? "long"
                                                                                       : "short";
    char text[4096];
    size_t n;

    n = (size_t)snprintf(
        text, sizeof(text),
        "backend=llama.cpp build=%s features=%s gpu=%d%s%s%s rows=%d block=%u k=%s v=%s fa=%d%s%s unified=1 "
        "repack=%d panel=%d rotate=%d longrope=%s rope_type=%d freq_scale=%a",
        hth_shim_version(), hth_backend_llama_features(), model->n_gpu_layers, model->on_gpu ? " devices=" : "",
        model->devices.word, hth_llama_placement_words(model->placement),
        atomic_load(&model->kind) == HTH_MODEL_PLAIN ? ROW_FORMAT_PLAIN : ROW_FORMAT, HTH_BLOCK_TOKENS,
        ggml_type_name(params->type_k), ggml_type_name(params->type_v), has_flash_attention,
        has_flash_attention && hth_attention_is_on() ? " attn=own2" : "", context->order ? " exact=2" : "",
        !model->on_gpu, getenv("GGML_NO_IQ_PANEL") == NULL, !(rotation_off && strtol(rotation_off, NULL, 10) != 0),
        long_rope, model->facts.rope_type, (double)model->facts.rope_freq_scale);
    for (size_t i = 0; i < sizeof(rope_keys) / sizeof(rope_keys[0]) && n < sizeof(text); i++) {
        char key[128];
        char value[128];

        (void)snprintf(key, sizeof(key), "%s.%s", model->facts.architecture, rope_keys[i]); /* fits */
        if (hth_backend_llama_meta(model, key, value, sizeof(value)))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %s=%s", rope_keys[i], value);
    }
    if (n < sizeof(text) && hth_engine_options_turn(&model->options))
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              " given.scaling=%d given.freq_base=%a given.freq_scale=%a given.orig_ctx=%u "
                              "given.ext_factor=%a given.attn_factor=%a given.beta_slow=%a given.beta_fast=%a",
                              (int)params->rope_scaling_type, (double)params->rope_freq_base,
                              (double)params->rope_freq_scale, params->yarn_orig_ctx, (double)params->yarn_ext_factor,
                              (double)params->yarn_attn_factor, (double)params->yarn_beta_slow,
                              (double)params->yarn_beta_fast);
    if (n >= sizeof(text))
        return hth_fail(err, HEARTH_ENGINE, "the names of features and devices are too long to describe the cache");
    if (n < sizeof(context->info.params_text)) {
        memcpy(context->info.params_text, text, n + 1);
    } else {
        uint8_t digest[HTH_SHA256_BYTES];
        char hex[2 * HTH_SHA256_BYTES + 1];

        hth_sha256_of(text, n, digest);
        hth_hex_encode(digest, sizeof(digest), hex);
        (void)snprintf(context->info.params_text, sizeof(context->info.params_text),
                       "backend=llama.cpp build=%s sha256=%s", hth_shim_version(), hex); /* fits */
    }
    return HEARTH_OK;
}

static hth_image_format format_of(const hth_engine_model *model)
{
    hth_model_kind kind = (hth_model_kind)atomic_load(&model->kind);
    int32_t rope_type = model->facts.rope_type;

    return (hth_image_format){
        .has_attention = kind != HTH_MODEL_RECURRENT,
        .has_window = kind != HTH_MODEL_RECURRENT && model->facts.n_swa > 0,
        .has_recurrent = kind == HTH_MODEL_RECURRENT || kind == HTH_MODEL_HYBRID,
        .has_cell_ext = rope_type == LLAMA_ROPE_TYPE_MROPE || rope_type == LLAMA_ROPE_TYPE_IMROPE,
        .may_lack_v = hth_backend_llama_number(model, "attention.key_length_mla", 0) > 0,
        .n_window = model->facts.n_swa > 0 ? (uint32_t)model->facts.n_swa : 0,
    };
}

void hth_backend_llama_context_free(hth_engine_context *context)
{
    if (!context)
        return;
    hth_backend_llama_adapters_part(&context->applied);
    hth_backend_llama_exact_end(context);
    if (context->llama) {
        hth_backend_llama_enter(context->model->log);
        hth_shim_context_free(context->llama);
        hth_backend_llama_leave();
    }
    free(context->held);
    free(context->empty_rest);
    free(context->bounce);
    free(context->next);
    free(context->sequences);
    free(context->batch.token);
    free(context->batch.pos);
    free(context->batch.n_seq_id);
    free(context->batch.seq_id);
    free(context->batch.logits);
    free(context);
}

static hearth_status allocate_arrays(hth_engine_context *context, hearth_error *err)
{
    size_t n = context->n_batch_rows;
    struct llama_batch *batch = &context->batch;

    context->held = calloc(context->info.n_seq_max, sizeof(context->held[0]));
    context->next = calloc(context->info.n_seq_max, sizeof(context->next[0]));
    context->sequences = calloc(n, sizeof(context->sequences[0]));
    batch->token = calloc(n, sizeof(batch->token[0]));
    batch->pos = calloc(n, sizeof(batch->pos[0]));
    batch->n_seq_id = calloc(n, sizeof(batch->n_seq_id[0]));
    batch->seq_id = calloc(n, sizeof(batch->seq_id[0]));
    batch->logits = calloc(n, sizeof(batch->logits[0]));
    if (!context->held || !context->next || !context->sequences || !batch->token || !batch->pos || !batch->n_seq_id ||
        !batch->seq_id || !batch->logits)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for batches of %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        batch->n_seq_id[i] = 1;
        batch->seq_id[i] = &context->sequences[i];
    }
    return HEARTH_OK;
}

/*
 * Does the CPU compute the attention of some layers? Attention is computed where the cells are. The output counts as a
 * layer.
 */
static bool attends_on_cpu(const hth_engine_model *model)
{
    const int32_t n_layers = model->facts.n_layers + llama_model_n_layer_nextn(model->llama);

    return !cells_on_devices(model) || (model->n_gpu_layers >= 0 && model->n_gpu_layers <= n_layers);
}

/*
 * Number of rows that the engine computes at once: at least one per sequence, and no more than our own attention
 * accepts.
 */
static uint32_t n_ubatch(const hth_engine_model *model, const struct llama_context_params *params, bool deterministic)
{
    const uint32_t step = deterministic ? HTH_EXACT_ROWS_STEP : 1;
    uint32_t n = model->options.n_ubatch > 0 ? model->options.n_ubatch : N_UBATCH_MAX;

    if (n > N_UBATCH_MAX && hth_attention_is_on() && attends_on_cpu(model)) {
        if (!model->no_weights)
            hth_warn(model->log, "n_ubatch is %u; the CPU computes attention, of at most %d tokens at once", n,
                     N_UBATCH_MAX);
        n = N_UBATCH_MAX;
    }
    n = n > params->n_seq_max ? n : params->n_seq_max;
    n = (n + step - 1) / step * step;
    return n < params->n_batch ? n : params->n_batch;
}

hearth_status hth_backend_llama_fill_params(const hth_engine_model *model, const hth_engine_context_params *params,
                                            struct llama_context_params *out, hearth_error *err)
{
    const char *type_k = params->type_k ? params->type_k : "f16";
    const char *type_v = params->type_v ? params->type_v : "f16";
    uint32_t n_ctx = params->n_ctx ? params->n_ctx : (uint32_t)model->facts.n_ctx_train;
    uint32_t n_threads = params->n_threads ? params->n_threads : hth_os_n_cpus();
    hearth_status status = hth_shim_context_defaults(out, err);

    if (status != HEARTH_OK)
        return status;
    if (n_ctx < 1 || n_ctx > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "n_ctx is %u; it must be 1 to %d", n_ctx, INT32_MAX / 2);
    if (params->n_batch < 1 || params->n_batch > 1u << 16)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be 1 to %u", params->n_batch, 1u << 16);
    if (params->n_seq_max < 1 || params->n_seq_max > 256)
        return hth_fail(err, HEARTH_MISUSE, "n_seq_max is %u; it must be 1 to 256", params->n_seq_max);
    if (n_threads > 1024)
        return hth_fail(err, HEARTH_MISUSE, "n_threads is %u; it must be at most 1024", n_threads);
    if (!type_by_name(type_k, &out->type_k) || !type_by_name(type_v, &out->type_v))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%s' is no type for the KV cache: f16, f32, bf16, q8_0, q5_0, q5_1, q4_0, q4_1 and iq4_nl are",
                        type_by_name(type_k, &out->type_k) ? type_v : type_k);
    if (model->options.flash_attention == HEARTH_FLASH_ATTENTION_OFF && ggml_is_quantized(out->type_v))
        return hth_fail(err, HEARTH_MISUSE, "V of type '%s' needs flash attention; do not switch it off, or take f16",
                        type_v);
    /* The engine rounds up anyway, but only after it bounds the batch by the requested size. */
    out->n_ctx = (n_ctx + HTH_CONTEXT_STEP - 1) / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP;
    /*
     * The engine aborts if a batch has no room for one row of every sequence. hth_backend_llama_decode() still enforces
     * the requested number.
     */
    out->n_batch = params->n_batch > params->n_seq_max ? params->n_batch : params->n_seq_max;
    out->n_seq_max = params->n_seq_max;
    out->n_threads = (int32_t)n_threads;
    out->n_threads_batch = (int32_t)n_threads;
    out->abort_callback = params->abort;
    out->abort_callback_data = params->abort_user_data;
    out->embeddings = false;
    out->pooling_type = LLAMA_POOLING_TYPE_NONE; /* a row that wants a vector gets its own vector */
    out->no_perf = true;
    out->swa_full = false;
    out->kv_unified = true;
    if (params->deterministic)
        status = hth_backend_llama_exact_prepare(model, out, err);
    out->n_ubatch = n_ubatch(model, out, params->deterministic);
    return status;
}

/* Save the partial state of sequence 0, which is empty. */
static hearth_status learn_empty_rest(hth_engine_context *context, hearth_error *err)
{
    size_t n_bytes = hth_shim_state_size(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);

    context->empty_rest = malloc(n_bytes ? n_bytes : 1);
    if (!context->empty_rest)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of state", n_bytes);
    if (n_bytes == 0 || hth_shim_state_get(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, context->empty_rest,
                                           n_bytes) != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine does not write the state of an empty sequence");
    context->empty_rest_bytes = n_bytes;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                            hth_engine_context **out, hearth_error *err)
{
    struct llama_context_params llama_params;
    hth_engine_context *context;
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a context needs a model and parameters");
    if (model->facts.has_encoder || !model->facts.has_decoder || model->facts.is_diffusion)
        return hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                        model->facts.architecture);
    context = calloc(1, sizeof(*context));
    if (!context)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a context");
    context->model = model;
    context->format = format_of(model);

    hth_backend_llama_enter(model->log);
    status = hth_backend_llama_fill_params(model, params, &llama_params, err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_check_memory(kv_bytes(model, &llama_params), "the context", err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_make_context(model, &llama_params, &context->llama, err);
    hth_backend_llama_leave();
    if (status == HEARTH_OK && !hth_shim_has_memory(context->llama))
        status = hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                          model->facts.architecture);
    if (status == HEARTH_OK && params->deterministic && llama_params.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_DISABLED)
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "deterministic: this needs flash attention, which is switched off, or which the engine does "
                          "not have for architecture '%s'",
                          model->facts.architecture);
    if (status == HEARTH_OK) {
        hth_shim_context_sizes(context->llama, &context->info.n_ctx, &context->info.n_batch, &context->info.n_seq_max);
        context->n_batch_rows = context->info.n_batch;
        context->n_ubatch = llama_params.n_ubatch;
        if (context->info.n_batch > params->n_batch)
            context->info.n_batch = params->n_batch;
        if (params->deterministic)
            status = hth_backend_llama_exact_begin(context, err);
    }
    if (status == HEARTH_OK)
        status = allocate_arrays(context, err);
    if (status == HEARTH_OK && atomic_load(&model->kind) == HTH_MODEL_HYBRID)
        status = learn_empty_rest(context, err);
    if (status == HEARTH_OK)
        status = hth_backend_llama_exact_check(context, err);
    if (status == HEARTH_OK)
        status = write_params_text(context, &llama_params, err);
    if (status != HEARTH_OK) {
        hth_backend_llama_context_free(context);
        return status;
    }
    hth_backend_llama_adapters_join(&context->applied, model, context->llama);
    *out = context;
    return HEARTH_OK;
}

/*
 * With our own attention, the only cost of idle cells to a row is its mask: the engine fills it, mostly by copying the
 * row before, and it is read once. The first row of a sequence costs more, because the engine visits its cells one by
 * one. Without our attention, the kernel itself may visit all cells. On a fast device, the cost per row is too small to
 * measure, but few idle cells are right there in any case.
 */
static hth_idle_cost idle_cost(const hth_engine_model *model)
{
    bool is_ours = hth_attention_is_on() && !model->on_gpu;

    if (atomic_load(&model->kind) == HTH_MODEL_RECURRENT)
        return (hth_idle_cost){ .cells_max = UINT32_MAX }; /* no row reads another sequence's state */
    return (hth_idle_cost){
        .row_ps = is_ours ? IDLE_ROW_PS : 0,
        .sequence_ps = is_ours ? IDLE_SEQUENCE_PS : 0,
        .cells_max = IDLE_CELLS_MAX,
    };
}

void hth_backend_llama_context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    *out = context->info;
    out->idle_cost = idle_cost(context->model);
}
