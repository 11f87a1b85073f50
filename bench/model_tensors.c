/*
 * model_tensors.c - the keys and tensors of a model, declared for each kind of architecture
 */
#include <inttypes.h>
#include <stdlib.h>

#include "random_model.h"

static const char *architecture_of(enum kind kind)
{
    switch (kind) {
    case KIND_LLAMA: return "llama";
    case KIND_GROK: return "grok";
    case KIND_COHERE2: return "cohere2";
    case KIND_MAMBA: return "mamba";
    case KIND_LFM2: return "lfm2";
    case KIND_QWEN35: return "qwen35";
    case KIND_BERT: return "bert";
    }
    return "unknown";
}

static void key_name(const struct model *model, const char *suffix, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "%s.%s", model->architecture, suffix); /* all suffixes are short literals */
}

static void set_u32(struct model *model, const char *suffix, uint32_t value)
{
    char name[NAME_BYTES];

    key_name(model, suffix, name);
    gguf_set_val_u32(model->gguf, name, value);
}

static void set_f32(struct model *model, const char *suffix, float value)
{
    char name[NAME_BYTES];

    key_name(model, suffix, name);
    gguf_set_val_f32(model->gguf, name, value);
}

static void set_i32_array(struct model *model, const char *suffix, const int32_t *values, size_t n)
{
    char name[NAME_BYTES];

    key_name(model, suffix, name);
    gguf_set_arr_data(model->gguf, name, GGUF_TYPE_INT32, values, n);
}

static void add_weight(struct model *model, struct ggml_tensor *tensor, enum fill fill, const char *name)
{
    if (model->n_weights == N_WEIGHTS_MAX) {
        fail("shape %s has more than %d tensors; raise N_WEIGHTS_MAX", model->shape->name, N_WEIGHTS_MAX);
        exit(1);
    }
    ggml_set_name(tensor, name);
    gguf_add_tensor(model->gguf, tensor);
    model->weights[model->n_weights++] = (struct weight){ .tensor = tensor, .fill = fill };
}

/* A matrix that the quantiser may shrink. */
static void add_matrix(struct model *model, const char *name, enum fill fill, uint32_t n_in, uint32_t n_out)
{
    add_weight(model, ggml_new_tensor_2d(model->tensors, model->matrix_type, n_in, n_out), fill, name);
}

/* A small tensor that stays in F32; a vector where n_out is 0. */
static void add_small(struct model *model, const char *name, enum fill fill, uint32_t n_in, uint32_t n_out)
{
    struct ggml_tensor *tensor = n_out ? ggml_new_tensor_2d(model->tensors, GGML_TYPE_F32, n_in, n_out)
                                       : ggml_new_tensor_1d(model->tensors, GGML_TYPE_F32, n_in);

    add_weight(model, tensor, fill, name);
}

static void block_name(uint32_t layer, const char *suffix, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "blk.%" PRIu32 ".%s", layer, suffix); /* all suffixes are short literals */
}

static void add_block_matrix(struct model *model, uint32_t layer, const char *suffix, uint32_t n_in, uint32_t n_out)
{
    char name[NAME_BYTES];

    block_name(layer, suffix, name);
    add_matrix(model, name, FILL_RANDOM, n_in, n_out);
}

static void add_block_small(struct model *model, uint32_t layer, const char *suffix, enum fill fill, uint32_t n_in,
                            uint32_t n_out)
{
    char name[NAME_BYTES];

    block_name(layer, suffix, name);
    add_small(model, name, fill, n_in, n_out);
}

static void add_block_norm(struct model *model, uint32_t layer, const char *suffix, uint32_t n)
{
    add_block_small(model, layer, suffix, FILL_ONES, n, 0);
}

/* Attention without its query projection, which differs. */
static void add_attention(struct model *model, uint32_t layer)
{
    const struct shape *s = model->shape;
    uint32_t n_kv = s->n_embd / s->n_heads * s->n_heads_kv;

    add_block_matrix(model, layer, "attn_k.weight", s->n_embd, n_kv);
    add_block_matrix(model, layer, "attn_v.weight", s->n_embd, n_kv);
    add_block_matrix(model, layer, "attn_output.weight", s->n_embd, s->n_embd);
}

/* Attention whose queries and keys are used as they are projected. */
static void add_plain_attention(struct model *model, uint32_t layer)
{
    uint32_t n_embd = model->shape->n_embd;
    char name[NAME_BYTES];

    block_name(layer, "attn_q.weight", name);
    add_matrix(model, name, FILL_QUERY, n_embd, n_embd);
    add_attention(model, layer);
}

/* Attention whose queries and keys are normalised. The query projection's n_q outputs may hold more than queries. */
static void add_normed_attention(struct model *model, uint32_t layer, uint32_t n_q)
{
    uint32_t n_head_embd = model->shape->n_embd / model->shape->n_heads;

    add_block_small(model, layer, "attn_q_norm.weight", FILL_QUERY_NORM, n_head_embd, 0);
    add_block_norm(model, layer, "attn_k_norm.weight", n_head_embd);
    add_block_matrix(model, layer, "attn_q.weight", model->shape->n_embd, n_q);
    add_attention(model, layer);
}

static void add_block_experts(struct model *model, uint32_t layer, const char *suffix, uint32_t n_in, uint32_t n_out)
{
    char name[NAME_BYTES];

    block_name(layer, suffix, name);
    add_weight(model, ggml_new_tensor_3d(model->tensors, model->matrix_type, n_in, n_out, model->shape->n_experts),
               FILL_RANDOM, name);
}

static void add_experts(struct model *model, uint32_t layer)
{
    const struct shape *s = model->shape;

    add_block_small(model, layer, "ffn_gate_inp.weight", FILL_RANDOM, s->n_embd, s->n_experts);
    add_block_experts(model, layer, "ffn_gate_exps.weight", s->n_embd, s->n_ff);
    add_block_experts(model, layer, "ffn_up_exps.weight", s->n_embd, s->n_ff);
    add_block_experts(model, layer, "ffn_down_exps.weight", s->n_ff, s->n_embd);
}

static void add_feed_forward(struct model *model, uint32_t layer)
{
    const struct shape *s = model->shape;

    if (s->n_experts > 0) {
        add_experts(model, layer);
        return;
    }
    add_block_matrix(model, layer, "ffn_gate.weight", s->n_embd, s->n_ff);
    add_block_matrix(model, layer, "ffn_up.weight", s->n_embd, s->n_ff);
    add_block_matrix(model, layer, "ffn_down.weight", s->n_ff, s->n_embd);
}

static bool has_llama_tensors(const struct shape *shape)
{
    return shape->kind == KIND_LLAMA || shape->kind == KIND_GROK;
}

static void add_llama(struct model *model)
{
    const struct shape *s = model->shape;

    set_u32(model, "rope.dimension_count", s->n_embd / s->n_heads);
    add_small(model, "output_norm.weight", FILL_ONES, s->n_embd, 0);
    add_matrix(model, "output.weight", FILL_HEAD, s->n_embd, s->n_vocab);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_block_norm(model, i, "attn_norm.weight", s->n_embd);
        add_plain_attention(model, i);
        add_block_norm(model, i, "ffn_norm.weight", s->n_embd);
        add_feed_forward(model, i);
        if (s->kind == KIND_GROK) {
            add_block_norm(model, i, "attn_output_norm.weight", s->n_embd);
            add_block_norm(model, i, "layer_output_norm.weight", s->n_embd);
        }
    }
}

static void add_cohere2(struct model *model)
{
    const struct shape *s = model->shape;

    set_f32(model, "logit_scale", 1.0f);
    add_small(model, "output_norm.weight", FILL_ONES, s->n_embd, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_block_norm(model, i, "attn_norm.weight", s->n_embd);
        add_plain_attention(model, i);
        add_feed_forward(model, i);
    }
}

static void add_mamba(struct model *model)
{
    const struct shape *s = model->shape;
    uint32_t n_inner = 2 * s->n_embd;
    uint32_t n_step = s->n_embd / 16;

    set_u32(model, "ssm.conv_kernel", SSM_CONV_KERNEL);
    set_u32(model, "ssm.inner_size", n_inner);
    set_u32(model, "ssm.state_size", MAMBA_STATE_SIZE);
    set_u32(model, "ssm.time_step_rank", n_step);
    add_small(model, "output_norm.weight", FILL_ONES, s->n_embd, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_block_norm(model, i, "attn_norm.weight", s->n_embd);
        add_block_matrix(model, i, "ssm_in.weight", s->n_embd, 2 * n_inner);
        add_block_small(model, i, "ssm_conv1d.weight", FILL_RANDOM, SSM_CONV_KERNEL, n_inner);
        add_block_small(model, i, "ssm_conv1d.bias", FILL_RANDOM, n_inner, 0);
        add_block_matrix(model, i, "ssm_x.weight", n_inner, n_step + 2 * MAMBA_STATE_SIZE);
        add_block_matrix(model, i, "ssm_dt.weight", n_step, n_inner);
        add_block_small(model, i, "ssm_dt.bias", FILL_TIME_STEP, n_inner, 0);
        add_block_small(model, i, "ssm_a", FILL_MINUS_RAMP, MAMBA_STATE_SIZE, n_inner);
        add_block_small(model, i, "ssm_d", FILL_ONES, n_inner, 0);
        add_block_matrix(model, i, "ssm_out.weight", n_inner, s->n_embd);
    }
}

static bool lfm2_layer_is_attention(uint32_t layer)
{
    return layer % 2 == 1;
}

static void add_lfm2(struct model *model)
{
    const struct shape *s = model->shape;
    int32_t n_heads_kv[N_LAYERS_MAX] = { 0 }; /* 0 marks a recurrent layer */

    for (uint32_t i = 0; i < s->n_layers; i++) {
        if (lfm2_layer_is_attention(i))
            n_heads_kv[i] = (int32_t)s->n_heads_kv;
    }
    set_i32_array(model, "attention.head_count_kv", n_heads_kv, s->n_layers);
    set_u32(model, "shortconv.l_cache", LFM2_CONV_KERNEL);
    add_small(model, "token_embd_norm.weight", FILL_ONES, s->n_embd, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_block_norm(model, i, "attn_norm.weight", s->n_embd);
        if (lfm2_layer_is_attention(i)) {
            add_normed_attention(model, i, s->n_embd);
        } else {
            add_block_small(model, i, "shortconv.conv.weight", FILL_RANDOM, LFM2_CONV_KERNEL, s->n_embd);
            add_block_matrix(model, i, "shortconv.in_proj.weight", s->n_embd, 3 * s->n_embd);
            add_block_matrix(model, i, "shortconv.out_proj.weight", s->n_embd, s->n_embd);
        }
        add_block_norm(model, i, "ffn_norm.weight", s->n_embd);
        add_feed_forward(model, i);
    }
}

static void add_delta_net(struct model *model, uint32_t layer)
{
    uint32_t n_embd = model->shape->n_embd;
    uint32_t n_value = DELTA_N_VALUE_HEADS * DELTA_STATE_SIZE;
    uint32_t n_conv = 2 * DELTA_N_GROUPS * DELTA_STATE_SIZE + n_value;

    add_block_matrix(model, layer, "attn_qkv.weight", n_embd, n_conv);
    add_block_matrix(model, layer, "attn_gate.weight", n_embd, n_value);
    add_block_small(model, layer, "ssm_conv1d.weight", FILL_RANDOM, SSM_CONV_KERNEL, n_conv);
    add_block_small(model, layer, "ssm_dt.bias", FILL_TIME_STEP, DELTA_N_VALUE_HEADS, 0);
    add_block_small(model, layer, "ssm_a", FILL_MINUS_RAMP, DELTA_N_VALUE_HEADS, 0);
    add_block_matrix(model, layer, "ssm_beta.weight", n_embd, DELTA_N_VALUE_HEADS);
    add_block_matrix(model, layer, "ssm_alpha.weight", n_embd, DELTA_N_VALUE_HEADS);
    add_block_norm(model, layer, "ssm_norm.weight", DELTA_STATE_SIZE);
    add_block_matrix(model, layer, "ssm_out.weight", n_value, n_embd);
}

static void add_qwen35(struct model *model)
{
    const struct shape *s = model->shape;
    const uint32_t full_attention_interval = 4;
    int32_t n_head_embd = (int32_t)(s->n_embd / s->n_heads);
    int32_t sections[4] = { n_head_embd / 8, n_head_embd / 8, n_head_embd / 8, 0 };

    set_u32(model, "attention.key_length", (uint32_t)n_head_embd);
    set_u32(model, "attention.value_length", (uint32_t)n_head_embd);
    set_i32_array(model, "rope.dimension_sections", sections, 4);
    set_u32(model, "ssm.conv_kernel", SSM_CONV_KERNEL);
    set_u32(model, "ssm.state_size", DELTA_STATE_SIZE);
    set_u32(model, "ssm.group_count", DELTA_N_GROUPS);
    set_u32(model, "ssm.time_step_rank", DELTA_N_VALUE_HEADS);
    set_u32(model, "ssm.inner_size", DELTA_N_VALUE_HEADS * DELTA_STATE_SIZE);
    set_u32(model, "full_attention_interval", full_attention_interval);
    add_small(model, "output_norm.weight", FILL_ONES, s->n_embd, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_block_norm(model, i, "attn_norm.weight", s->n_embd);
        if ((i + 1) % full_attention_interval == 0) {
            add_normed_attention(model, i, 2 * s->n_embd); /* each query with its gate */
        } else {
            add_delta_net(model, i);
        }
        add_block_norm(model, i, "post_attention_norm.weight", s->n_embd);
        add_feed_forward(model, i);
    }
}

/* The classifier of a reranker: a dense layer and its output. */
static void add_classifier(struct model *model)
{
    const struct shape *s = model->shape;

    add_matrix(model, "cls.weight", FILL_RANDOM, s->n_embd, s->n_embd);
    add_small(model, "cls.bias", FILL_RANDOM, s->n_embd, 0);
    add_matrix(model, "cls.output.weight", FILL_RANDOM, s->n_embd, s->n_labels);
    add_small(model, "cls.output.bias", FILL_RANDOM, s->n_labels, 0);
}

static void add_bert(struct model *model)
{
    const struct shape *s = model->shape;

    gguf_set_val_bool(model->gguf, "bert.attention.causal", false);
    set_u32(model, "pooling_type", s->n_labels > 0 ? LLAMA_POOLING_TYPE_RANK : LLAMA_POOLING_TYPE_MEAN);
    gguf_set_val_u32(model->gguf, "tokenizer.ggml.token_type_count", 2);
    add_small(model, "token_types.weight", FILL_RANDOM, s->n_embd, 2);
    add_small(model, "position_embd.weight", FILL_RANDOM, s->n_embd, s->n_ctx);
    add_small(model, "token_embd_norm.weight", FILL_ONES, s->n_embd, 0);
    add_small(model, "token_embd_norm.bias", FILL_RANDOM, s->n_embd, 0);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_plain_attention(model, i);
        add_block_norm(model, i, "attn_output_norm.weight", s->n_embd);
        add_block_small(model, i, "attn_output_norm.bias", FILL_RANDOM, s->n_embd, 0);
        add_block_matrix(model, i, "ffn_up.weight", s->n_embd, s->n_ff);
        add_block_matrix(model, i, "ffn_down.weight", s->n_ff, s->n_embd);
        add_block_norm(model, i, "layer_output_norm.weight", s->n_embd);
        add_block_small(model, i, "layer_output_norm.bias", FILL_RANDOM, s->n_embd, 0);
    }
    if (s->n_labels > 0)
        add_classifier(model);
}

static void add_vocab(struct model *model)
{
    static const char template[] =
        "{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    struct gguf_context *gguf = model->gguf;
    bool is_encoder = model->shape->kind == KIND_BERT;
    struct vocab vocab;
    const char **pieces;

    vocab_init(&vocab, model->shape->n_vocab);
    vocab_fill(&vocab);
    pieces = allocate(vocab.n, sizeof(*pieces));
    for (size_t i = 0; i < vocab.n; i++)
        pieces[i] = vocab.pieces[i];

    gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", "default");
    gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pieces, vocab.n);
    gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocab.scores, vocab.n);
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab.types, vocab.n);
    gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", TOKEN_UNKNOWN);
    gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", TOKEN_BOS);
    gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", TOKEN_EOS);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", is_encoder);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", false);
    if (is_encoder) {
        gguf_set_val_u32(gguf, "tokenizer.ggml.seperator_token_id", TOKEN_EOS);
        gguf_set_val_bool(gguf, "tokenizer.ggml.add_sep_token", true);
    } else {
        gguf_set_val_str(gguf, "tokenizer.chat_template", template);
    }

    free(pieces);
    vocab_deinit(&vocab);
}

static void add_common_keys(struct model *model, const char *name)
{
    const struct shape *s = model->shape;
    bool is_f32 = model->matrix_type == GGML_TYPE_F32;

    gguf_set_val_str(model->gguf, "general.architecture", model->architecture);
    gguf_set_val_str(model->gguf, "general.name", name);
    gguf_set_val_u32(model->gguf, "general.file_type", is_f32 ? LLAMA_FTYPE_ALL_F32 : LLAMA_FTYPE_MOSTLY_F16);
    set_u32(model, "vocab_size", s->n_vocab);
    set_u32(model, "context_length", s->n_ctx);
    set_u32(model, "embedding_length", s->n_embd);
    set_u32(model, "block_count", s->n_layers);
    set_u32(model, "feed_forward_length", s->n_ff);
    set_u32(model, "attention.head_count", s->n_heads);
    if (s->kind == KIND_COHERE2 || s->kind == KIND_BERT)
        set_f32(model, "attention.layer_norm_epsilon", 1e-5f);
    else
        set_f32(model, "attention.layer_norm_rms_epsilon", 1e-5f);
    if (has_llama_tensors(s) || s->kind == KIND_COHERE2 || s->kind == KIND_QWEN35)
        set_u32(model, "attention.head_count_kv", s->n_heads_kv);
    if (s->kind != KIND_MAMBA && s->kind != KIND_BERT)
        set_f32(model, "rope.freq_base", 10000.0f);
    if (s->n_window > 0)
        set_u32(model, "attention.sliding_window", s->n_window);
    if (s->n_experts > 0) {
        set_u32(model, "expert_count", s->n_experts);
        set_u32(model, "expert_used_count", 2);
    }
}

void model_deinit(struct model *model)
{
    gguf_free(model->gguf);
    ggml_free(model->tensors);
}

void model_init(struct model *model, const struct shape *shape, enum ggml_type matrix_type, const char *name)
{
    *model = (struct model){
        .shape = shape,
        .architecture = architecture_of(shape->kind),
        .matrix_type = matrix_type,
        .gguf = gguf_init_empty(),
        .tensors = ggml_init(
            (struct ggml_init_params){ .mem_size = N_WEIGHTS_MAX * ggml_tensor_overhead(), .no_alloc = true }),
    };
    if (!model->gguf || !model->tensors) {
        fail("no memory for the tensor list of %s; end other programs and try again", shape->name);
        exit(1);
    }
    add_common_keys(model, name);
    add_vocab(model);
    /* The other kinds use their embedding as their head. */
    add_matrix(model, "token_embd.weight",
               has_llama_tensors(shape) || shape->kind == KIND_BERT ? FILL_RANDOM : FILL_HEAD, shape->n_embd,
               shape->n_vocab);
    switch (shape->kind) {
    case KIND_LLAMA:
    case KIND_GROK: add_llama(model); break;
    case KIND_COHERE2: add_cohere2(model); break;
    case KIND_MAMBA: add_mamba(model); break;
    case KIND_LFM2: add_lfm2(model); break;
    case KIND_QWEN35: add_qwen35(model); break;
    case KIND_BERT: add_bert(model); break;
    }
}

uint64_t model_n_parameters(const struct model *model)
{
    uint64_t n = 0;

    for (size_t i = 0; i < model->n_weights; i++)
        n += (uint64_t)ggml_nelements(model->weights[i].tensor);
    return n;
}

uint64_t model_bytes(const struct model *model)
{
    uint64_t bytes = gguf_get_meta_size(model->gguf);

    for (size_t i = 0; i < model->n_weights; i++)
        bytes += GGML_PAD(ggml_nbytes(model->weights[i].tensor), gguf_get_alignment(model->gguf));
    return bytes;
}
