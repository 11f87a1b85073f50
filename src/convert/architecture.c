/*
 * architecture.c - read config.json, and refuse anything that the engine would compute differently
 *
 * A model whose layers all have a window has full attention as long as the context is not longer than the window. The
 * engine has no windows for these architectures, so the window becomes the length of the context.
 */
#include "convert/architecture.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* The config, and the first fault. */
typedef struct reader {
    const json_t *config;
    hearth_error *err;
    hearth_status status;
} reader;

static const struct known {
    const char *class_name;
    const char *name;
    hth_family family;
} known[] = {
    { "LlamaForCausalLM", "llama", HTH_FAMILY_LLAMA },    { "MistralForCausalLM", "llama", HTH_FAMILY_LLAMA },
    { "Qwen2ForCausalLM", "qwen2", HTH_FAMILY_QWEN2 },    { "Qwen3ForCausalLM", "qwen3", HTH_FAMILY_QWEN3 },
    { "GemmaForCausalLM", "gemma", HTH_FAMILY_GEMMA },    { "Gemma2ForCausalLM", "gemma2", HTH_FAMILY_GEMMA2 },
    { "Gemma3ForCausalLM", "gemma3", HTH_FAMILY_GEMMA3 },
};

static void refuse(reader *r, hearth_status status, const char *key, const char *problem)
{
    if (r->status == HEARTH_OK)
        r->status = hth_fail(r->err, status, "config.json: %s %s", key, problem);
}

/* NULL if the key is missing or null. */
static const json_t *find(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static uint32_t whole(reader *r, const json_t *object, const char *key, uint32_t fallback)
{
    const json_t *value = find(object, key);

    if (!value && fallback > 0)
        return fallback;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) {
        refuse(r, HEARTH_CORRUPT, key, value ? "is no whole number from 1 on" : "is missing");
        return 1;
    }
    return (uint32_t)json_integer_value(value);
}

/* A positive number, or the fallback; if fallback is NAN, the key is required. */
static float number(reader *r, const json_t *object, const char *key, double fallback)
{
    const json_t *value = find(object, key);
    double found = value ? json_number_value(value) : fallback;

    if ((value && !json_is_number(value)) || !isfinite(found) || !isfinite((float)found) || found < 0 ||
        (value && !((float)found > 0))) {
        refuse(r, HEARTH_CORRUPT, key, value ? "is no positive number" : "is missing");
        return 1;
    }
    return (float)found;
}

static bool flag(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = find(object, key);

    return value ? json_is_true(value) : fallback;
}

static const struct known *find_class(reader *r)
{
    const char *name = json_string_value(json_array_get(json_object_get(r->config, "architectures"), 0));

    for (size_t i = 0; name && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].class_name, name) == 0)
            return &known[i];
    r->status =
        hth_fail(r->err, HEARTH_UNSUPPORTED,
                 "config.json: the architecture '%.100s' is not converted; those of llama, mistral, qwen2, qwen3, "
                 "gemma, gemma2 and gemma3 (text) are",
                 name ? name : "");
    return NULL;
}

/* "rope_parameters" (newer) or "rope_scaling"; gemma3 may have them per kind of layer. */
static const json_t *rope_parameters(const json_t *config)
{
    const json_t *rope = find(config, "rope_parameters");
    const json_t *full = find(rope, "full_attention");

    if (full)
        return full;
    return rope ? rope : find(config, "rope_scaling");
}

/* NULL if it is not a string. */
static const char *rope_type(const json_t *rope)
{
    const json_t *type = find(rope, "rope_type") ? find(rope, "rope_type") : find(rope, "type");

    return type ? json_string_value(type) : "default";
}

static void read_rope_scaling(reader *r, const json_t *rope, hth_architecture *a)
{
    const char *name = rope_type(rope);

    if (!name || strcmp(name, "default") == 0) {
        if (!name)
            refuse(r, HEARTH_CORRUPT, "rope_scaling", "has a type that is no text");
        return;
    }
    a->rope_factor = number(r, rope, "factor", NAN);
    if (a->rope_factor < 1)
        refuse(r, HEARTH_CORRUPT, "factor of rope_scaling", "is below 1");
    if (strcmp(name, "linear") == 0) {
        a->rope_scaling = HTH_ROPE_LINEAR;
    } else if (strcmp(name, "yarn") == 0) {
        a->rope_scaling = HTH_ROPE_YARN;
        a->rope_n_ctx = whole(r, rope, "original_max_position_embeddings", a->n_ctx);
        a->rope_low = number(r, rope, "beta_slow", 0);
        a->rope_high = number(r, rope, "beta_fast", 0);
        if (find(rope, "attention_factor") || find(rope, "mscale") || find(rope, "mscale_all_dim"))
            refuse(r, HEARTH_UNSUPPORTED, "rope_scaling",
                   "has attention_factor or mscale, which the engine computes differently");
        if (json_is_false(json_object_get(rope, "truncate")))
            refuse(r, HEARTH_UNSUPPORTED, "rope_scaling", "has truncate false, which the engine does not know");
    } else if (strcmp(name, "llama3") == 0 && a->family == HTH_FAMILY_LLAMA) {
        a->rope_scaling = HTH_ROPE_LLAMA3;
        a->rope_n_ctx = whole(r, rope, "original_max_position_embeddings", 0);
        a->rope_low = number(r, rope, "low_freq_factor", NAN);
        a->rope_high = number(r, rope, "high_freq_factor", NAN);
        if (!(a->rope_low > 0) || !(a->rope_high > a->rope_low))
            refuse(r, HEARTH_CORRUPT, "rope_scaling", "has no high_freq_factor above low_freq_factor");
    } else {
        refuse(r, HEARTH_UNSUPPORTED, "rope_scaling", "is of a type that is not converted");
    }
}

static void read_rope(reader *r, hth_architecture *a)
{
    const json_t *rope = rope_parameters(r->config);
    const json_t *window = find(find(r->config, "rope_parameters"), "sliding_attention");
    const char *window_type = rope_type(window);
    double usual = a->family == HTH_FAMILY_GEMMA3 ? 1000000.0 : 10000.0;

    a->rope_base = number(r, find(rope, "rope_theta") ? rope : r->config, "rope_theta", usual);
    if (a->family == HTH_FAMILY_GEMMA3)
        a->window_rope_base =
            window ? number(r, window, "rope_theta", 10000.0) : number(r, r->config, "rope_local_base_freq", 10000.0);
    if (number(r, r->config, "partial_rotary_factor", 1) != 1 || number(r, rope, "partial_rotary_factor", 1) != 1 ||
        number(r, window, "partial_rotary_factor", 1) != 1)
        refuse(r, HEARTH_UNSUPPORTED, "partial_rotary_factor", "is not converted");
    if (!window_type || strcmp(window_type, "default") != 0)
        refuse(r, HEARTH_UNSUPPORTED, "rope_parameters", "scale sliding_attention, which the engine does not");
    if (rope && !json_is_object(rope))
        refuse(r, HEARTH_CORRUPT, "rope_scaling", "is no object");
    else if (rope)
        read_rope_scaling(r, rope, a);
}

/* gemma: full attention in each 2nd (gemma2) or 6th (gemma3) layer, as in the engine. */
static void check_layer_types(reader *r, const hth_architecture *a)
{
    const json_t *types = find(r->config, "layer_types");
    uint32_t period = a->family == HTH_FAMILY_GEMMA2 ? 2 : 6;

    if (whole(r, r->config, "sliding_window_pattern", period) != period)
        refuse(r, HEARTH_UNSUPPORTED, "sliding_window_pattern", "is another than the engine's");
    for (uint32_t i = 0; types && i < a->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        const char *expected = (i + 1) % period == 0 ? "full_attention" : "sliding_attention";

        if (!type || strcmp(type, expected) != 0) {
            refuse(r, HEARTH_UNSUPPORTED, "layer_types", "has another order than the engine's");
            return;
        }
    }
}

static void read_windows(reader *r, const struct known *class, hth_architecture *a)
{
    bool is_mistral = strcmp(class->class_name, "MistralForCausalLM") == 0;

    if (a->family == HTH_FAMILY_GEMMA2 || a->family == HTH_FAMILY_GEMMA3) {
        a->n_window = whole(r, r->config, "sliding_window", 0);
        check_layer_types(r, a);
    } else if (find(r->config, "sliding_window") && (is_mistral || flag(r->config, "use_sliding_window", false))) {
        uint32_t n_window = whole(r, r->config, "sliding_window", 0);

        a->n_ctx = n_window < a->n_ctx ? n_window : a->n_ctx;
    }
}

/* The engine scales queries by the head length, and by another number for models with this many layers. */
static void check_query_scale(reader *r, const hth_architecture *a)
{
    uint32_t n_layers_large = a->family == HTH_FAMILY_GEMMA2 ? 46 : 62;
    uint32_t expected = a->n_layers == n_layers_large ? a->n_embd / a->n_heads : a->head_length;

    if (number(r, r->config, "query_pre_attn_scalar", NAN) != (float)expected)
        refuse(r, HEARTH_UNSUPPORTED, "query_pre_attn_scalar", "is another than the engine's for such a model");
}

static void read_gemma(reader *r, hth_architecture *a)
{
    if (a->family == HTH_FAMILY_GEMMA)
        return;
    check_query_scale(r, a);
    if (a->family == HTH_FAMILY_GEMMA2) {
        a->attention_cap = number(r, r->config, "attn_logit_softcapping", NAN);
        a->logit_cap = number(r, r->config, "final_logit_softcapping", NAN);
        return;
    }
    a->logit_cap = number(r, r->config, "final_logit_softcapping", 0);
    if (find(r->config, "attn_logit_softcapping"))
        refuse(r, HEARTH_UNSUPPORTED, "attn_logit_softcapping", "is not the engine's for gemma3");
    if (flag(r->config, "use_bidirectional_attention", false))
        refuse(r, HEARTH_UNSUPPORTED, "use_bidirectional_attention", "is not converted");
}

static void check_activation(reader *r, const hth_architecture *a)
{
    const json_t *value =
        find(r->config, "hidden_activation") ? find(r->config, "hidden_activation") : find(r->config, "hidden_act");
    bool is_gemma = (a->family & HTH_FAMILIES_GEMMA) != 0;
    const char *usual = is_gemma ? "gelu_pytorch_tanh" : "silu";
    const char *name = value ? json_string_value(value) : usual;

    /* The first gemma configs say gelu but mean its approximation. */
    if (!name || (strcmp(name, usual) != 0 && !(a->family == HTH_FAMILY_GEMMA && strcmp(name, "gelu") == 0)))
        refuse(r, HEARTH_UNSUPPORTED, "hidden_act", "is another than the engine's");
}

static void read_sizes(reader *r, hth_architecture *a)
{
    a->n_layers = whole(r, r->config, "num_hidden_layers", 0);
    a->n_embd = whole(r, r->config, "hidden_size", 0);
    a->n_ff = whole(r, r->config, "intermediate_size", 0);
    a->n_heads = whole(r, r->config, "num_attention_heads", 0);
    a->n_heads_kv = whole(r, r->config, "num_key_value_heads", a->n_heads);
    a->n_vocab = whole(r, r->config, "vocab_size", 0);
    a->n_ctx = whole(r, r->config, "max_position_embeddings", 0);
    a->norm_epsilon = number(r, r->config, "rms_norm_eps", NAN);
    a->head_length = whole(r, r->config, "head_dim", a->n_embd / a->n_heads);
    if (a->n_layers > HTH_LAYERS_MAX)
        refuse(r, HEARTH_UNSUPPORTED, "num_hidden_layers", "is more than the engine takes");
    if (a->head_length % 2 != 0 || a->head_length > HTH_HEAD_LENGTH_MAX)
        refuse(r, HEARTH_UNSUPPORTED, "head_dim", "is odd, or too large");
    if (a->n_heads % a->n_heads_kv != 0)
        refuse(r, HEARTH_CORRUPT, "num_attention_heads", "is no multiple of num_key_value_heads");
    if (a->family == HTH_FAMILY_QWEN2 && (uint64_t)a->head_length * a->n_heads != a->n_embd)
        refuse(r, HEARTH_UNSUPPORTED, "head_dim", "times the heads is not hidden_size, as the engine has it for qwen2");
}

hearth_status hth_architecture_read(const json_t *config, hth_architecture *out, hearth_error *err)
{
    reader r = { .config = config, .err = err };
    const struct known *class = find_class(&r);
    hth_architecture a = { 0 };

    if (!class)
        return r.status;
    a.family = class->family;
    a.name = class->name;
    if (find(config, "quantization_config"))
        refuse(&r, HEARTH_UNSUPPORTED, "quantization_config",
               "says that the weights are quantised; convert the checkpoint that they were made of");
    read_sizes(&r, &a);
    read_rope(&r, &a);
    read_windows(&r, class, &a);
    check_activation(&r, &a);
    if (a.family & HTH_FAMILIES_GEMMA)
        read_gemma(&r, &a);
    a.is_tied = flag(config, "tie_word_embeddings", (a.family & HTH_FAMILIES_GEMMA) != 0);
    if ((a.family == HTH_FAMILY_GEMMA || a.family == HTH_FAMILY_GEMMA2) && !a.is_tied)
        refuse(&r, HEARTH_UNSUPPORTED, "tie_word_embeddings", "is false, and the engine ties them for this model");
    if (r.status == HEARTH_OK)
        *out = a;
    return r.status;
}

void hth_architecture_rope_factors(const hth_architecture *a, float *out)
{
    const double short_wave = a->rope_n_ctx / (double)a->rope_high, long_wave = a->rope_n_ctx / (double)a->rope_low;

    for (uint32_t i = 0; i < a->head_length / 2; i++) {
        double wave = 2 * PI * pow((double)a->rope_base, 2.0 * i / a->head_length);

        if (wave < short_wave) {
            out[i] = 1.0f;
        } else if (wave > long_wave) {
            out[i] = a->rope_factor;
        } else {
            double part = (a->rope_n_ctx / wave - (double)a->rope_low) / ((double)a->rope_high - (double)a->rope_low);

            out[i] = (float)(1.0 / ((1.0 - part) / (double)a->rope_factor + part));
        }
    }
}
