/*
 * architecture.h - the supported architectures, and the parameters in a model's config.json
 */
#ifndef HTH_CONVERT_ARCHITECTURE_H
#define HTH_CONVERT_ARCHITECTURE_H

#include <jansson.h>

#include "base/status.h"

/* Bits, because a tensor may belong to several. */
typedef enum hth_family {
    HTH_FAMILY_LLAMA = 1, /* includes mistral */
    HTH_FAMILY_QWEN2 = 2,
    HTH_FAMILY_QWEN3 = 4,
    HTH_FAMILY_GEMMA = 8,
    HTH_FAMILY_GEMMA2 = 16,
    HTH_FAMILY_GEMMA3 = 32,
} hth_family;

enum { HTH_FAMILIES_GEMMA = HTH_FAMILY_GEMMA | HTH_FAMILY_GEMMA2 | HTH_FAMILY_GEMMA3 };

typedef enum hth_rope_scaling {
    HTH_ROPE_PLAIN,
    HTH_ROPE_LINEAR,
    HTH_ROPE_YARN,
    HTH_ROPE_LLAMA3, /* a factor for each frequency, stored as a tensor */
} hth_rope_scaling;

enum { HTH_HEAD_LENGTH_MAX = 1024, HTH_LAYERS_MAX = 512 };

typedef struct hth_architecture {
    hth_family family;
    const char *name; /* the engine's */
    uint32_t n_ctx;   /* the context up to which the engine computes the same as the checkpoint */
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_ff;
    uint32_t n_heads;
    uint32_t n_heads_kv;
    uint32_t head_length; /* even */
    uint32_t n_vocab;     /* rows of the embedding */
    float norm_epsilon;
    float rope_base;
    hth_rope_scaling rope_scaling;
    float rope_factor;
    uint32_t rope_n_ctx;            /* before scaling */
    float rope_low, rope_high;      /* LLAMA3: its frequency factors; YARN: beta_slow and beta_fast, 0: the engine's */
    bool is_tied;                   /* the embedding is also the output */
    uint32_t n_window;              /* GEMMA2, GEMMA3 */
    float window_rope_base;         /* GEMMA3 */
    float attention_cap, logit_cap; /* 0: none */
} hth_architecture;

/*
 * Read a config.json. HEARTH_UNSUPPORTED with a message that names the feature that the engine or this program lacks;
 * HEARTH_CORRUPT.
 */
hearth_status hth_architecture_read(const json_t *config, hth_architecture *out, hearth_error *err);

/*
 * The factor of each frequency with HTH_ROPE_LLAMA3, [head_length / 2]. From Meta's Llama 3.1 (models/llama3,
 * apply_scaling): long wavelengths are stretched by rope_factor, short ones stay, and those between are blended.
 */
void hth_architecture_rope_factors(const hth_architecture *architecture, float *out);

#endif
