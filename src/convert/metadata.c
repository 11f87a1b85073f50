/*
 * metadata.c - list the metadata keys
 */
#include "convert/metadata.h"

#include <assert.h>
#include <stdio.h>

typedef struct list {
    hth_meta *items;
    size_t n;
    const char *architecture;
} list;

static hth_meta *add(list *l, const char *name, hth_meta_kind kind)
{
    hth_meta *item = &l->items[l->n++];

    assert(l->n <= HTH_METADATA_MAX);
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
    const hth_vocabulary *v = &tokenizer->vocabulary;
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

size_t hth_metadata_list(const hth_architecture *architecture, const hth_tokenizer *tokenizer, const char *name,
                         hth_meta out[HTH_METADATA_MAX])
{
    list l = { .items = out, .architecture = architecture->name };

    add_text(&l, "general.architecture", architecture->name);
    add_text(&l, "general.name", name);
    add_architecture(&l, architecture);
    add_tokenizer(&l, tokenizer);
    return l.n;
}
