/*
 * tensor_names.c - one row for each kind of tensor: both names, the shape, and the families that have it
 */
#include "convert/tensor_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "model.layers."
#define ROPE_FACTORS "rope_freqs.weight"

/* A size from config.json. */
typedef enum extent { ONE, EMBD, FF, QUERIES, KEYS, HEAD, VOCAB } extent;

enum {
    ALL = 63,
    LLAMA = HTH_FAMILY_LLAMA,
    QWEN2 = HTH_FAMILY_QWEN2,
    QWEN3 = HTH_FAMILY_QWEN3,
    GEMMA23 = HTH_FAMILY_GEMMA2 | HTH_FAMILY_GEMMA3,
    NORMED = HTH_FAMILY_QWEN3 | HTH_FAMILY_GEMMA3,
};

static const struct kind {
    const char *from;
    const char *to;
    extent rows, columns; /* ONE columns: a vector */
    int needed, allowed;  /* families */
    bool is_norm, is_paired;
} outer[] = {
    { "model.embed_tokens.weight", "token_embd.weight", VOCAB, EMBD, ALL, ALL, false, false },
    { "model.norm.weight", "output_norm.weight", EMBD, ONE, ALL, ALL, true, false },
    { "lm_head.weight", "output.weight", VOCAB, EMBD, 0, ALL, false, false },
};

static const struct kind inner[] = {
    { "input_layernorm.weight", "attn_norm.weight", EMBD, ONE, ALL, ALL, true, false },
    { "self_attn.q_proj.weight", "attn_q.weight", QUERIES, EMBD, ALL, ALL, false, true },
    { "self_attn.q_proj.bias", "attn_q.bias", QUERIES, ONE, QWEN2, QWEN2 | LLAMA | QWEN3, false, true },
    { "self_attn.k_proj.weight", "attn_k.weight", KEYS, EMBD, ALL, ALL, false, true },
    { "self_attn.k_proj.bias", "attn_k.bias", KEYS, ONE, QWEN2, QWEN2 | LLAMA | QWEN3, false, true },
    { "self_attn.v_proj.weight", "attn_v.weight", KEYS, EMBD, ALL, ALL, false, false },
    { "self_attn.v_proj.bias", "attn_v.bias", KEYS, ONE, QWEN2, QWEN2 | LLAMA | QWEN3, false, false },
    { "self_attn.o_proj.weight", "attn_output.weight", EMBD, QUERIES, ALL, ALL, false, false },
    { "self_attn.o_proj.bias", "attn_output.bias", EMBD, ONE, 0, LLAMA, false, false },
    { "self_attn.q_norm.weight", "attn_q_norm.weight", HEAD, ONE, NORMED, NORMED, true, false },
    { "self_attn.k_norm.weight", "attn_k_norm.weight", HEAD, ONE, NORMED, NORMED, true, false },
    { "post_attention_layernorm.weight", "ffn_norm.weight", EMBD, ONE, ALL & ~GEMMA23, ALL & ~GEMMA23, true, false },
    { "post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, GEMMA23, GEMMA23, true, false },
    { "pre_feedforward_layernorm.weight", "ffn_norm.weight", EMBD, ONE, GEMMA23, GEMMA23, true, false },
    { "post_feedforward_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, GEMMA23, GEMMA23, true, false },
    { "mlp.gate_proj.weight", "ffn_gate.weight", FF, EMBD, ALL, ALL, false, false },
    { "mlp.gate_proj.bias", "ffn_gate.bias", FF, ONE, 0, LLAMA, false, false },
    { "mlp.up_proj.weight", "ffn_up.weight", FF, EMBD, ALL, ALL, false, false },
    { "mlp.up_proj.bias", "ffn_up.bias", FF, ONE, 0, LLAMA, false, false },
    { "mlp.down_proj.weight", "ffn_down.weight", EMBD, FF, ALL, ALL, false, false },
    { "mlp.down_proj.bias", "ffn_down.bias", EMBD, ONE, 0, LLAMA, false, false },
};

enum { N_OUTER = sizeof(outer) / sizeof(outer[0]), N_INNER = sizeof(inner) / sizeof(inner[0]) };

typedef struct mapping {
    const hth_architecture *a;
    bool *seen; /* [N_OUTER + n_layers * N_INNER] */
    hth_mapped_tensor *mapped;
    hth_new_tensor *named;
    size_t n;
} mapping;

static uint64_t extent_of(const hth_architecture *a, extent which)
{
    switch (which) {
    case ONE: return 1;
    case EMBD: return a->n_embd;
    case FF: return a->n_ff;
    case QUERIES: return (uint64_t)a->n_heads * a->head_length;
    case KEYS: return (uint64_t)a->n_heads_kv * a->head_length;
    case HEAD: return a->head_length;
    case VOCAB: return a->n_vocab;
    }
    return 0;
}

/* The number of the layer and the rest of the name; NULL if it is not a layer's tensor. */
static const char *layer_part(const char *name, uint32_t n_layers, uint32_t *layer)
{
    unsigned long found;
    char *end;

    if (strncmp(name, LAYER, sizeof(LAYER) - 1) != 0 || !isdigit((unsigned char)name[sizeof(LAYER) - 1]))
        return NULL;
    found = strtoul(name + sizeof(LAYER) - 1, &end, 10);
    if (*end != '.' || found >= n_layers)
        return NULL;
    *layer = (uint32_t)found;
    return end + 1;
}

/* Redundant tensors: the frequencies of old llama checkpoints, and an output that is the embedding. */
static bool is_left_out(const hth_architecture *a, const char *name)
{
    const char *end = strrchr(name, '.');

    return (a->is_tied && strcmp(name, "lm_head.weight") == 0) || (end && strcmp(end, ".inv_freq") == 0);
}

static const struct kind *find_kind(const struct kind *kinds, size_t n, const char *name, hth_family family)
{
    for (size_t i = 0; i < n; i++)
        if ((kinds[i].allowed & (int)family) && strcmp(kinds[i].from, name) == 0)
            return &kinds[i];
    return NULL;
}

static hearth_status check_tensor(const hth_architecture *a, const struct kind *kind,
                                  const hth_safetensors_tensor *tensor, hearth_error *err)
{
    uint64_t n_rows = extent_of(a, kind->rows), n_columns = extent_of(a, kind->columns);
    uint32_t n_dims = kind->columns == ONE ? 1 : 2;

    if (tensor->type == HTH_SAFETENSORS_OTHER)
        return hth_fail(err, HEARTH_UNSUPPORTED, "tensor '%.200s' has the type %s; F32, F16 and BF16 are converted",
                        tensor->name, tensor->type_name);
    if (tensor->n_dims != n_dims || tensor->shape[0] != n_rows || (n_dims == 2 && tensor->shape[1] != n_columns))
        return hth_fail(err, HEARTH_CORRUPT,
                        "tensor '%.200s' has another shape than [%llu, %llu], which follows from config.json",
                        tensor->name, (unsigned long long)n_rows, (unsigned long long)n_columns);
    return HEARTH_OK;
}

static void name_tensor(const hth_architecture *a, const struct kind *kind, const char *name, hth_new_tensor *named)
{
    bool is_vector = kind->columns == ONE;

    *named = (hth_new_tensor){ .row_length = extent_of(a, is_vector ? kind->rows : kind->columns),
                               .n_rows = is_vector ? 1 : extent_of(a, kind->rows),
                               .is_vector = is_vector };
    (void)snprintf(named->name, sizeof(named->name), "%s", name); /* all names are short */
}

static hearth_status map_one(mapping *m, const uint8_t *file, const hth_safetensors_tensor *tensor, hearth_error *err)
{
    const hth_architecture *a = m->a;
    uint32_t layer = 0;
    const char *part = layer_part(tensor->name, a->n_layers, &layer);
    const struct kind *kind =
        part ? find_kind(inner, N_INNER, part, a->family) : find_kind(outer, N_OUTER, tensor->name, a->family);
    hth_mapped_tensor *to = &m->mapped[m->n];
    char name[HTH_TENSOR_NAME_BYTES];
    bool *seen;
    hearth_status status;

    if (is_left_out(a, tensor->name))
        return HEARTH_OK;
    if (!kind)
        return hth_fail(err, HEARTH_CORRUPT, "tensor '%.200s' does not belong to a %s model of %u layers", tensor->name,
                        a->name, a->n_layers);
    status = check_tensor(a, kind, tensor, err);
    if (status != HEARTH_OK)
        return status;
    seen = part ? &m->seen[N_OUTER + (size_t)layer * N_INNER + (size_t)(kind - inner)] : &m->seen[kind - outer];
    if (*seen)
        return hth_fail(err, HEARTH_CORRUPT, "tensor '%.200s' is there twice", tensor->name);
    *seen = true;
    if (part)
        (void)snprintf(name, sizeof(name), "blk.%u.%s", layer, kind->to);
    else
        (void)snprintf(name, sizeof(name), "%s", kind->to);
    name_tensor(a, kind, name, &m->named[m->n++]);
    *to = (hth_mapped_tensor){ .file = file, .tensor = tensor, .head_length = a->head_length };
    if (kind->is_paired && a->family == HTH_FAMILY_LLAMA)
        to->change = HTH_TENSOR_PAIRED;
    else if (kind->is_norm && (a->family & HTH_FAMILIES_GEMMA))
        to->change = HTH_TENSOR_PLUS_ONE;
    return HEARTH_OK;
}

static hearth_status check_all_seen(const mapping *m, hearth_error *err)
{
    for (size_t i = 0; i < N_OUTER + (size_t)m->a->n_layers * N_INNER; i++) {
        size_t layer = i < N_OUTER ? 0 : (i - N_OUTER) / N_INNER;
        const struct kind *kind = i < N_OUTER ? &outer[i] : &inner[(i - N_OUTER) % N_INNER];
        bool is_output = i < N_OUTER && strcmp(kind->from, "lm_head.weight") == 0;

        if (m->seen[i] || !((kind->needed & (int)m->a->family) || (is_output && !m->a->is_tied)))
            continue;
        if (i < N_OUTER)
            return hth_fail(err, HEARTH_CORRUPT, "the checkpoint has no tensor '%s'", kind->from);
        return hth_fail(err, HEARTH_CORRUPT, "the checkpoint has no tensor '" LAYER "%zu.%s'", layer, kind->from);
    }
    return HEARTH_OK;
}

static hearth_status map_all(mapping *m, const hth_checkpoint *checkpoint, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t f = 0; f < checkpoint->n_files; f++)
        for (size_t i = 0; i < checkpoint->files[f].n_tensors && status == HEARTH_OK; i++)
            status = map_one(m, checkpoint->files[f].bytes, &checkpoint->files[f].tensors[i], err);
    if (status == HEARTH_OK)
        status = check_all_seen(m, err);
    if (status == HEARTH_OK && m->a->rope_scaling == HTH_ROPE_LLAMA3) {
        m->mapped[m->n] = (hth_mapped_tensor){ 0 };
        m->named[m->n++] = (hth_new_tensor){
            .name = ROPE_FACTORS, .row_length = m->a->head_length / 2, .n_rows = 1, .is_vector = true
        };
    }
    return status;
}

hearth_status hth_tensors_map(const hth_checkpoint *checkpoint, const hth_architecture *architecture,
                              hth_mapped_tensor **mapped, hth_new_tensor **named, size_t *n_out, hearth_error *err)
{
    mapping m = { .a = architecture };
    hearth_status status;

    m.seen = calloc(N_OUTER + (size_t)architecture->n_layers * N_INNER, sizeof(*m.seen));
    m.mapped = calloc(checkpoint->n_tensors + 1, sizeof(*m.mapped));
    m.named = calloc(checkpoint->n_tensors + 1, sizeof(*m.named));
    if (!m.seen || !m.mapped || !m.named)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tensors", checkpoint->n_tensors);
    else
        status = map_all(&m, checkpoint, err);
    free(m.seen);
    if (status != HEARTH_OK) {
        free(m.mapped);
        free(m.named);
        return status;
    }
    *mapped = m.mapped;
    *named = m.named;
    *n_out = m.n;
    return HEARTH_OK;
}
