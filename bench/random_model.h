/*
 * random_model.h - a model of random weights: its shape, its vocabulary, its tensors and their values (see
 * make_model.c)
 */
#ifndef HTH_BENCH_RANDOM_MODEL_H
#define HTH_BENCH_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ggml.h"
#include "gguf.h"
#include "llama.h"

enum {
    GENERATOR_VERSION = 1,

    N_WEIGHTS_MAX = 512,
    N_LAYERS_MAX = 64,
    N_WEIGHT_VALUES = 1 << 16, /* distinct values of a random tensor */
    CHUNK_BYTES = 1 << 20,
    PATH_BYTES = 4096,
    NAME_BYTES = 128,

    /* Fixed by the mamba, lfm2 and gated delta net tensors below. */
    SSM_CONV_KERNEL = 4,
    MAMBA_STATE_SIZE = 16,
    LFM2_CONV_KERNEL = 3,
    DELTA_STATE_SIZE = 32,
    DELTA_N_GROUPS = 2,
    DELTA_N_VALUE_HEADS = 4,

    /* Token ids. The special ones come first, see write_weight(). */
    TOKEN_UNKNOWN = 0,
    TOKEN_BOS = 1,
    TOKEN_EOS = 2,
    TOKEN_BYTES = 3,
    TOKEN_TURN_BEGIN = TOKEN_BYTES + 256,
    TOKEN_TURN_END,
    N_SPECIAL_TOKENS,
    PIECE_BYTES = 32,
};

/* Report on standard error why the work cannot be done. Returns false, for the caller to pass on. */
bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory, or the end of the program: every allocation here is small beside the model. */
void *allocate(size_t n, size_t size);

/* ---- randomness ---- */

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The n-th number of a key's stream: SplitMix64 started at the key, without stepping to n. */
static inline uint64_t random_at(uint64_t key, uint64_t n)
{
    return mix(key + (n + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* FNV-1a, 64 bits. */
static inline uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Mark a file as the last of the parts of a split; 0: as a whole file. */
static inline void mark_part(struct gguf_context *file, uint16_t n_parts)
{
    if (n_parts == 0)
        return;
    gguf_set_val_u16(file, "split.no", (uint16_t)(n_parts - 1));
    gguf_set_val_u16(file, "split.count", n_parts);
}

/* ---- the shape ---- */

enum kind { KIND_LLAMA, KIND_GROK, KIND_COHERE2, KIND_MAMBA, KIND_LFM2, KIND_QWEN35, KIND_BERT };

struct shape {
    const char *name;
    const char *summary;
    const char *default_type;
    enum kind kind;
    uint32_t n_vocab, n_ctx, n_layers, n_embd, n_heads, n_heads_kv, n_ff;
    uint32_t n_window;  /* 0: no sliding window */
    uint32_t n_labels;  /* of its classifier; 0: it has none */
    uint32_t n_experts; /* of each layer, two of which a token uses; 0: plain feed-forward layers */
};

/* ---- the vocabulary ---- */

struct vocab {
    size_t n, n_max;
    char (*pieces)[PIECE_BYTES];
    float *scores;
    int32_t *types;
    size_t n_slots;  /* a power of two */
    uint32_t *slots; /* hash table of ids + 1 by piece, open addressing; 0 is free */
};

void vocab_init(struct vocab *vocab, size_t n_max);
void vocab_deinit(struct vocab *vocab);
void vocab_fill(struct vocab *vocab);

/* ---- keys and tensors ---- */

enum fill {
    FILL_RANDOM, /* uniform, with a variance of 1/n_in */
    FILL_HEAD,   /* the same, rows of special tokens quieter */
    FILL_QUERY,  /* the same, QUERY_GAIN as large */
    FILL_ONES,
    FILL_QUERY_NORM, /* QUERY_GAIN throughout */
    FILL_MINUS_RAMP, /* -1, -2, ... along a row */
    FILL_TIME_STEP,  /* softplus of these is between 0.004 and 0.05: states forget over tens to hundreds of tokens */
};

/*
 * Plain random queries attend to all tokens alike; then a wrong cell hardly shows and greedy text runs in circles.
 * Measured on llama-15m over 600 tokens, gains 1, 2, 3, 4: one changed token moves logits by 0.4, 0.8, 1.8, 2.5;
 * another attention kernel by 0.1, 0.2, 0.4, 1.0; of 300 greedy tokens 207, 272, 293, 294 differ.
 */
static const float QUERY_GAIN = 3.0f;

struct weight {
    struct ggml_tensor *tensor;
    enum fill fill;
};

struct model {
    const struct shape *shape;
    const char *architecture;
    enum ggml_type matrix_type;
    struct gguf_context *gguf;
    struct ggml_context *tensors; /* names and shapes only */
    size_t n_weights;
    struct weight weights[N_WEIGHTS_MAX];
};

/* Declare a model. The name goes into the file, where model_is_whole() looks for it. */
void model_init(struct model *model, const struct shape *shape, enum ggml_type matrix_type, const char *name);
void model_deinit(struct model *model);
uint64_t model_n_parameters(const struct model *model);
uint64_t model_bytes(const struct model *model);

/* ---- writing ---- */

struct progress {
    const char *label;
    bool is_terminal;
    int percent_shown; /* -1 before the first line */
};

void progress_show(struct progress *progress, double part);
/* End the moving line, so that later output starts on a line of its own. */
void progress_end(struct progress *progress);

/*
 * Write a declared model. part_max is its part of the whole work.
 *
 * Returns false with errno set and no message if the file does not take it all.
 */
bool model_write(const struct model *model, uint64_t seed, FILE *file, struct progress *progress, double part_max);

#endif
