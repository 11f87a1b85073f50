/*
 * conversion.c - from the metadata and the tensors of a checkpoint to those of a GGUF file
 */
#include "convert/conversion.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/architecture.h"
#include "convert/mapped_file.h"
#include "convert/safetensors.h"
#include "convert/tensor_names.h"
#include "convert/tokenizer.h"
#include "engine/backend.h"

enum { METADATA_MAX = 64 };

struct hth_conversion {
    const hth_model_writer *writer;
    hth_checkpoint checkpoint;
    hth_architecture architecture;
    hth_tokenizer tokenizer;
    hth_mapped_tensor *mapped; /* [n] */
    hth_new_tensor *named;     /* [n] */
    size_t n;
    char *name;
    hth_meta metas[METADATA_MAX];
    size_t n_metas;
    hth_conversion_plan plan;
};

/* ---- metadata ---- */

typedef struct list {
    hth_meta *items;
    size_t n;
    const char *architecture;
} list;

static hth_meta *add(list *l, const char *name, hth_meta_kind kind)
{
    hth_meta *item = &l->items[l->n++];

    assert(l->n <= METADATA_MAX);
    *item = (hth_meta){ .kind = kind };
    (void)snprintf(item->name, sizeof(item->name), "%s", name); /* all names are short */
    return item;
}

/* A key of the architecture. */
static hth_meta *add_own(list *l, const char *suffix, hth_meta_kind kind)
{
    char name[HTH_META_NAME_BYTES];

    (void)snprintf(name, sizeof(name), "%s.%s", l->architecture, suffix); /* all names are short */
    return add(l, name, kind);
}

static void own_u32(list *l, const char *suffix, uint32_t value)
{
    add_own(l, suffix, HTH_META_U32)->value.u32 = value;
}

static void own_f32(list *l, const char *suffix, float value)
{
    add_own(l, suffix, HTH_META_F32)->value.f32 = value;
}

static void add_text(list *l, const char *name, const char *text)
{
    add(l, name, HTH_META_TEXT)->value.text = text;
}

static void add_flag(list *l, const char *name, bool flag)
{
    add(l, name, HTH_META_BOOL)->value.flag = flag;
}

static void add_rope(list *l, const hth_architecture *a)
{
    own_f32(l, "rope.freq_base", a->rope_base);
    if (a->family == HTH_FAMILY_LLAMA)
        own_u32(l, "rope.dimension_count", a->head_length);
    if (a->rope_scaling == HTH_ROPE_LINEAR || a->rope_scaling == HTH_ROPE_YARN) {
        add_own(l, "rope.scaling.type", HTH_META_TEXT)->value.text =
            a->rope_scaling == HTH_ROPE_YARN ? "yarn" : "linear";
        own_f32(l, "rope.scaling.factor", a->rope_factor);
    }
    if (a->rope_scaling != HTH_ROPE_YARN)
        return;
    own_u32(l, "rope.scaling.original_context_length", a->rope_n_ctx);
    if (a->rope_low > 0)
        own_f32(l, "rope.scaling.yarn_beta_slow", a->rope_low);
    if (a->rope_high > 0)
        own_f32(l, "rope.scaling.yarn_beta_fast", a->rope_high);
}

static void add_architecture(list *l, const hth_architecture *a)
{
    own_u32(l, "vocab_size", a->n_vocab);
    own_u32(l, "context_length", a->n_ctx);
    own_u32(l, "embedding_length", a->n_embd);
    own_u32(l, "block_count", a->n_layers);
    own_u32(l, "feed_forward_length", a->n_ff);
    own_u32(l, "attention.head_count", a->n_heads);
    own_u32(l, "attention.head_count_kv", a->n_heads_kv);
    own_u32(l, "attention.key_length", a->head_length);
    own_u32(l, "attention.value_length", a->head_length);
    own_f32(l, "attention.layer_norm_rms_epsilon", a->norm_epsilon);
    add_rope(l, a);
    if (a->n_window > 0)
        own_u32(l, "attention.sliding_window", a->n_window);
    if (a->window_rope_base > 0)
        own_f32(l, "rope.freq_base_swa", a->window_rope_base);
    if (a->attention_cap > 0)
        own_f32(l, "attn_logit_softcapping", a->attention_cap);
    if (a->logit_cap > 0)
        own_f32(l, "final_logit_softcapping", a->logit_cap);
}

static void add_tokenizer(list *l, const hth_tokenizer *tokenizer)
{
    static const char *const names[HTH_N_SPECIALS] = {
        [HTH_SPECIAL_BOS] = "tokenizer.ggml.bos_token_id",
        [HTH_SPECIAL_EOS] = "tokenizer.ggml.eos_token_id",
        [HTH_SPECIAL_EOT] = "tokenizer.ggml.eot_token_id",
        [HTH_SPECIAL_UNKNOWN] = "tokenizer.ggml.unknown_token_id",
        [HTH_SPECIAL_PAD] = "tokenizer.ggml.padding_token_id",
    };
    const hth_token_list *v = &tokenizer->vocabulary;
    hth_meta *item;

    add_text(l, "tokenizer.ggml.model", v->model);
    add_text(l, "tokenizer.ggml.pre", v->pre);
    item = add(l, "tokenizer.ggml.tokens", HTH_META_TEXTS);
    item->value.texts = (const char *const *)v->pieces;
    item->n = v->n;
    item = add(l, "tokenizer.ggml.token_type", HTH_META_I32S);
    item->value.i32s = v->types;
    item->n = v->n;
    if (v->n_merges > 0) {
        item = add(l, "tokenizer.ggml.merges", HTH_META_TEXTS);
        item->value.texts = (const char *const *)v->merges;
        item->n = v->n_merges;
    } else {
        item = add(l, "tokenizer.ggml.scores", HTH_META_F32S);
        item->value.f32s = v->scores;
        item->n = v->n;
        add_flag(l, "tokenizer.ggml.add_space_prefix", v->adds_space);
    }
    for (hth_special which = 0; which < HTH_N_SPECIALS; which++)
        if (tokenizer->has_special[which])
            add(l, names[which], HTH_META_U32)->value.u32 = tokenizer->special[which];
    add_flag(l, "tokenizer.ggml.add_bos_token", v->adds_bos);
    add_flag(l, "tokenizer.ggml.add_eos_token", v->adds_eos);
    if (tokenizer->chat_template)
        add_text(l, "tokenizer.chat_template", tokenizer->chat_template);
}

/* Fill out and return their number. Texts and lists are borrowed from the arguments. */
static size_t list_metadata(const hth_architecture *architecture, const hth_tokenizer *tokenizer, const char *name,
                            hth_meta out[METADATA_MAX])
{
    list l = { .items = out, .architecture = architecture->name };

    add_text(&l, "general.architecture", architecture->name);
    add_text(&l, "general.name", name);
    add_architecture(&l, architecture);
    add_tokenizer(&l, tokenizer);
    return l.n;
}

/* ---- values ---- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;

    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent > 0)
        return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    return (sign ? -1.0f : 1.0f) * (float)mantissa * 0x1p-24f; /* exact */
}

/* Files are little-endian, like all machines that Hearth runs on. */
static void read_values(hth_safetensors_type type, const uint8_t *from, uint64_t n, float *to)
{
    uint16_t half;

    if (type == HTH_SAFETENSORS_F32) {
        memcpy(to, from, (size_t)n * sizeof(*to));
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&half, from + i * sizeof(half), sizeof(half));
        to[i] = type == HTH_SAFETENSORS_BF16 ? from_bits((uint32_t)half << 16) : from_f16(half);
    }
}

/* ---- rows ---- */

/* The row of the checkpoint that becomes this one (hth_tensor_change). */
static uint64_t source_row(const hth_mapped_tensor *tensor, uint64_t row)
{
    uint64_t in_head = row % tensor->head_length;

    if (tensor->change != HTH_TENSOR_PAIRED)
        return row;
    return row - in_head + in_head % 2 * (tensor->head_length / 2) + in_head / 2;
}

static hearth_status read_rows(void *user_data, size_t i, uint64_t first, uint64_t n, float *out, hearth_error *err)
{
    const hth_conversion *conversion = user_data;
    const hth_mapped_tensor *mapped = &conversion->mapped[i];
    const hth_safetensors_tensor *tensor = mapped->tensor;
    const hth_new_tensor *named = &conversion->named[i];
    /* A vector is read value by value, because it may be reordered. */
    const uint64_t length = named->is_vector ? 1 : named->row_length, n_rows = named->is_vector ? named->row_length : n;

    (void)err;
    if (!tensor) {
        hth_architecture_rope_factors(&conversion->architecture, out);
        return HEARTH_OK;
    }
    for (uint64_t row = 0; row < n_rows; row++)
        read_values(tensor->type,
                    mapped->file + tensor->begin +
                        source_row(mapped, first + row) * length * (tensor->type == HTH_SAFETENSORS_F32 ? 4 : 2),
                    length, out + row * length);
    for (uint64_t k = 0; mapped->change == HTH_TENSOR_PLUS_ONE && k < named->row_length; k++) /* a vector */
        out[k] += 1.0f;
    if (first + n == named->n_rows)
        hth_mapped_file_release(mapped->file + tensor->begin, tensor->end - tensor->begin);
    return HEARTH_OK;
}

/* ---- the plan ---- */

static hth_new_model model_of(hth_conversion *conversion)
{
    return (hth_new_model){ .metas = conversion->metas,
                            .n_metas = conversion->n_metas,
                            .tensors = conversion->named,
                            .n_tensors = conversion->n,
                            .rows = read_rows,
                            .user_data = conversion };
}

/* The smallest type that represents every matrix without loss. Vectors are always F32. */
static const char *own_type(const hth_conversion *conversion)
{
    const hth_safetensors_tensor *first = NULL;

    for (size_t i = 0; i < conversion->n; i++) {
        const hth_safetensors_tensor *tensor = conversion->mapped[i].tensor;

        if (!tensor || conversion->named[i].is_vector)
            continue;
        if (first && tensor->type != first->type)
            return "f32"; /* neither F16 nor BF16 can represent the other */
        first = tensor;
    }
    return !first || first->type == HTH_SAFETENSORS_F32 ? "f32" : first->type == HTH_SAFETENSORS_BF16 ? "bf16" : "f16";
}

static hearth_status make_plan(hth_conversion *conversion, const char *type, hearth_error *err)
{
    hth_conversion_plan *plan = &conversion->plan;
    hth_new_model model = model_of(conversion);
    bool mixed = false;

    if (type && !conversion->writer->type_find(type, &mixed))
        return hth_fail(err, HEARTH_MISUSE, "there is no type '%s'", type);
    *plan = (hth_conversion_plan){ .architecture = conversion->architecture.name,
                                   .type = type && !mixed ? type : own_type(conversion),
                                   .tokenizer = conversion->tokenizer.vocabulary.model,
                                   .tokenizer_pre = conversion->tokenizer.vocabulary.pre,
                                   .n_ctx = conversion->architecture.n_ctx,
                                   .n_files = conversion->checkpoint.n_files,
                                   .n_tensors = conversion->n,
                                   .n_tokens = conversion->tokenizer.vocabulary.n };
    for (size_t i = 0; i < conversion->checkpoint.n_files; i++)
        plan->bytes_in += conversion->checkpoint.files[i].n_bytes;
    for (size_t i = 0; i < conversion->n; i++)
        plan->n_parameters += conversion->named[i].row_length * conversion->named[i].n_rows;
    return conversion->writer->write(&model, plan->type, NULL, NULL, &plan->bytes_out, err);
}

hearth_status hth_conversion_open(const hth_model_writer *writer, const char *folder, const char *type,
                                  const char *name, bool require_argument_order, hth_conversion **out,
                                  hearth_error *err)
{
    hth_conversion *c = calloc(1, sizeof(*c));
    hearth_status status;

    if (!c || !(c->name = strdup(name))) {
        free(c);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to convert '%s'", folder);
    }
    c->writer = writer;
    status = hth_checkpoint_open(folder, require_argument_order, &c->checkpoint, err);
    if (status == HEARTH_OK)
        status = hth_architecture_read(c->checkpoint.config, &c->architecture, err);
    if (status == HEARTH_OK)
        status = hth_tensors_map(&c->checkpoint, &c->architecture, &c->mapped, &c->named, &c->n, err);
    if (status == HEARTH_OK)
        status = hth_tokenizer_read(folder, c->checkpoint.config, c->architecture.n_vocab, &c->tokenizer, err);
    if (status == HEARTH_OK) {
        c->n_metas = list_metadata(&c->architecture, &c->tokenizer, c->name, c->metas);
        status = make_plan(c, type, err);
    }
    if (status != HEARTH_OK) {
        hth_conversion_close(c);
        return status;
    }
    *out = c;
    return HEARTH_OK;
}

void hth_conversion_close(hth_conversion *conversion)
{
    if (!conversion)
        return;
    hth_tokenizer_deinit(&conversion->tokenizer);
    free(conversion->mapped);
    free(conversion->named);
    hth_checkpoint_close(&conversion->checkpoint);
    free(conversion->name);
    free(conversion);
}

const hth_conversion_plan *hth_conversion_planned(const hth_conversion *conversion)
{
    return &conversion->plan;
}

hearth_status hth_conversion_write(hth_conversion *conversion, hth_put_fn put, void *user_data, hearth_error *err)
{
    hth_new_model model = model_of(conversion);
    uint64_t n_bytes;

    return conversion->writer->write(&model, conversion->plan.type, put, user_data, &n_bytes, err);
}

/* ---- the file as a model ---- */

enum { N_TOKENS_MAX = 256, N_CTX = 256 };

static const char sample[] = "Hello, world! The fox saw 12 birds\nand 3 hills.";

/* SentencePiece may put a space before the text. */
static bool is_sample(const char *back)
{
    return strcmp(back, sample) == 0 || (back[0] == ' ' && strcmp(back + 1, sample) == 0);
}

static hearth_status check_model(hearth_model *model, size_t n_tokens, hearth_error *err)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_token tokens[N_TOKENS_MAX];
    char *back = NULL;
    size_t n = 0, n_bytes = 0;
    hearth_status status = hearth_model_info_get(model, &info, err);

    if (status == HEARTH_OK && info.n_vocab != n_tokens)
        status =
            hth_fail(err, HEARTH_CORRUPT, "the model was loaded with %u tokens instead of %zu", info.n_vocab, n_tokens);
    if (status == HEARTH_OK)
        status = hearth_tokenize(model, sample, strlen(sample), 0, tokens, N_TOKENS_MAX, &n, err);
    if (status == HEARTH_OK)
        status = hearth_detokenize(model, tokens, n, /* special= */ false, &back, &n_bytes, err);
    if (status == HEARTH_OK && !is_sample(back))
        status = hth_fail(err, HEARTH_CORRUPT, "the tokenizer does not give back a text, but '%.100s'", back);
    hearth_free(back);
    return status;
}

hearth_status hth_converted_check(const char *path, size_t n_tokens, hearth_load_progress_fn progress,
                                  void *progress_user_data, hearth_error *err)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_model_options options = hearth_model_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_status status;

    runtime_options.cache_disabled = true;
    options.n_ctx = N_CTX;
    options.n_parallel = 1;
    options.n_gpu_layers = 0;
    options.fingerprint_mode = HEARTH_FINGERPRINT_FAST_UNSAFE; /* no row is kept */
    options.progress = progress;
    options.progress_user_data = progress_user_data;
    status = hearth_runtime_open(&runtime_options, &runtime, err);
    if (status == HEARTH_OK)
        status = hearth_model_load(runtime, path, &options, &model, err);
    if (status == HEARTH_OK)
        status = check_model(model, n_tokens, err);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return status;
}

/* ---- the writer ---- */

/* The second entry point of the module, which is already loaded for its first. */
hearth_status hth_model_writer_find(const char *engine_directory, const hth_model_writer **out, hearth_error *err)
{
    const hth_backend *backend = NULL;
    const hth_model_writer *writer = NULL;
    hth_model_writer_entry entry;
    hearth_status status = hth_backend_llama(engine_directory, &backend, err);
    void *handle = NULL, *symbol = NULL;
    Dl_info info = { 0 };

    if (status != HEARTH_OK)
        return status;
    if (dladdr((const void *)backend, &info) && info.dli_fname)
        handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL); /* it is already loaded, and stays loaded */
    if (handle)
        symbol = dlsym(handle, HTH_MODEL_WRITER_SYMBOL);
    if (symbol) {
        memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointers */
        writer = entry();
    }
    if (!writer || writer->abi != HTH_MODEL_WRITER_ABI)
        return hth_fail(err, HEARTH_ENGINE, "the engine '%s' cannot write models for this program; reinstall both",
                        info.dli_fname ? info.dli_fname : "");
    *out = writer;
    return HEARTH_OK;
}
