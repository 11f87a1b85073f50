/*
 * make_model.c - write a GGUF model of random weights in a named shape
 *
 * Tests and benchmarks need models of every kind that the cache treats differently, on machines that cannot download
 * any. What they measure (prefill, restore, bit-exact continuation) depends on the shape of a model and not on what it
 * knows, so this program makes one out of a seed:
 *
 *   1. declare the keys, the vocabulary and the tensors that the architecture needs
 *   2. write them to a temporary file, tensor by tensor, so that memory does not grow with the model
 *   3. quantise that file into a second one with libllama, where the type asks for it
 *   4. sync the result and rename it to its final name
 *
 * Every weight is a function of seed, tensor name and position, and the vocabulary is a function of its size. The same
 * seed, shape and type give the same bytes; for quantised types that holds within one build of the engine, because the
 * quantiser's rounding follows its compiler flags. Whatever changes the bytes must raise GENERATOR_VERSION, which is
 * part of the file's name.
 *
 * A kill half-way leaves temporary files only. Each is locked by the process that writes it; the next run in the same
 * directory removes those that nobody holds. Two at once write the same bytes to files of their own, and either rename
 * may win.
 *
 * Invariant: a final name never refers to a file that is not whole and synced.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* mkstemp and flock, where the C library hides them from C11 */
#endif

#include "ggml.h"
#include "gguf.h"
#include "llama.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

static const char temporary_prefix[] = ".make_model-";

static bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say on standard error why the work cannot be done. Returns false, for the caller to pass on. */
static bool fail(const char *format, ...)
{
    va_list arguments;

    fputs("make_model: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

/* Zeroed memory, or the end of the program: every allocation here is small beside the model that is to be used. */
static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    if (!memory) {
        fail("no memory for %zu elements of %zu bytes; end other programs and try again", n, size);
        exit(1);
    }
    return memory;
}

/*
 * Shapes and types
 */

enum kind { KIND_LLAMA, KIND_COHERE2, KIND_MAMBA, KIND_LFM2, KIND_QWEN35 };

struct shape {
    const char *name;
    const char *summary;
    const char *default_type;
    enum kind kind;
    uint32_t n_vocab, n_ctx, n_layers, n_embd, n_heads, n_heads_kv, n_ff;
    uint32_t n_window; /* 0: no sliding window */
};

static const struct shape shapes[] = {
    { "llama-1.1b", "plain attention, the benchmark's size", "q4_k_m", KIND_LLAMA, .n_vocab = 32000, .n_ctx = 32768,
      .n_layers = 22, .n_embd = 2048, .n_heads = 32, .n_heads_kv = 4, .n_ff = 5632 },
    { "llama-15m", "plain attention, quick to run", "q8_0", KIND_LLAMA, .n_vocab = 32000, .n_ctx = 32768, .n_layers = 6,
      .n_embd = 288, .n_heads = 6, .n_heads_kv = 6, .n_ff = 768 },
    { "tiny-llama", "plain attention", "f16", KIND_LLAMA, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4, .n_embd = 128,
      .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
    { "tiny-llama-wide", "plain attention, wide enough for k-quants", "q4_k_m", KIND_LLAMA, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 256, .n_heads = 4, .n_heads_kv = 2, .n_ff = 512 },
    { "tiny-window", "cohere2, window 64, every 4th layer full", "f16", KIND_COHERE2, .n_vocab = 4096, .n_ctx = 8192,
      .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 64 },
    { "tiny-window600", "cohere2, window 600, every 4th layer full", "f16", KIND_COHERE2, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 600 },
    { "tiny-recurrent", "mamba, no attention", "f16", KIND_MAMBA, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4,
      .n_embd = 128 },
    { "tiny-hybrid", "lfm2, every 2nd layer attention", "f16", KIND_LFM2, .n_vocab = 4096, .n_ctx = 8192, .n_layers = 4,
      .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
    { "tiny-hybrid-window", "lfm2, every 2nd layer attention, window 64", "f16", KIND_LFM2, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256, .n_window = 64 },
    { "tiny-qwen35", "gated delta net and M-RoPE, every 4th layer attention", "f16", KIND_QWEN35, .n_vocab = 4096,
      .n_ctx = 8192, .n_layers = 4, .n_embd = 128, .n_heads = 4, .n_heads_kv = 2, .n_ff = 256 },
};

static const size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);

struct type {
    const char *name;
    enum llama_ftype ftype;
    uint32_t block;         /* weights per quantised block; row widths must be multiples of it */
    double bits_per_weight; /* of a whole model, about */
};

static const struct type types[] = {
    { "f32", LLAMA_FTYPE_ALL_F32, 1, 32.0 },           { "f16", LLAMA_FTYPE_MOSTLY_F16, 1, 16.0 },
    { "q8_0", LLAMA_FTYPE_MOSTLY_Q8_0, 32, 8.5 },      { "q5_0", LLAMA_FTYPE_MOSTLY_Q5_0, 32, 5.6 },
    { "q4_0", LLAMA_FTYPE_MOSTLY_Q4_0, 32, 4.7 },      { "q6_k", LLAMA_FTYPE_MOSTLY_Q6_K, 256, 6.6 },
    { "q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M, 256, 5.7 }, { "q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M, 256, 4.9 },
    { "q4_k_s", LLAMA_FTYPE_MOSTLY_Q4_K_S, 256, 4.7 },
};

static const size_t n_types = sizeof(types) / sizeof(types[0]);

static const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < n_shapes; i++) {
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    }
    return NULL;
}

static const struct type *type_find(const char *name)
{
    for (size_t i = 0; i < n_types; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}

static bool type_needs_quantiser(const struct type *type)
{
    return type->ftype != LLAMA_FTYPE_ALL_F32 && type->ftype != LLAMA_FTYPE_MOSTLY_F16;
}

/* Without this, libllama would put another type in place of the one that the file's name promises. */
static bool type_fits(const struct type *type, const struct shape *shape)
{
    return shape->n_embd % type->block == 0 && shape->n_ff % type->block == 0;
}

/*
 * Randomness
 */

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The n-th number of the stream that a key names: SplitMix64 started at the key, without stepping to n. */
static uint64_t random_at(uint64_t key, uint64_t n)
{
    return mix(key + (n + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/*
 * The vocabulary: SentencePiece-like, made of invented words
 *
 * Any text can be tokenised and comes back the same: printable ASCII characters and the space have tokens of their own
 * and all else is spelt in byte tokens. Every longer piece is a shorter one with a syllable or an ending added, so that
 * merging can reach it.
 */

#define SPACE "\xe2\x96\x81" /* U+2581 stands for a space in SentencePiece vocabularies */

struct vocab {
    size_t n, n_max;
    char (*pieces)[PIECE_BYTES];
    float *scores;
    int32_t *types;
    size_t n_slots;  /* a power of two */
    uint32_t *slots; /* hash table of ids + 1 by piece, open addressing; 0 is free */
};

static void vocab_init(struct vocab *vocab, size_t n_max)
{
    *vocab = (struct vocab){ .n_max = n_max, .n_slots = 2 };
    while (vocab->n_slots < 2 * n_max)
        vocab->n_slots *= 2;
    vocab->pieces = allocate(n_max, sizeof(*vocab->pieces));
    vocab->scores = allocate(n_max, sizeof(*vocab->scores));
    vocab->types = allocate(n_max, sizeof(*vocab->types));
    vocab->slots = allocate(vocab->n_slots, sizeof(*vocab->slots));
}

static void vocab_deinit(struct vocab *vocab)
{
    free(vocab->pieces);
    free(vocab->scores);
    free(vocab->types);
    free(vocab->slots);
}

/* Add a piece unless it is there already, is too long or the vocabulary is full. */
static void vocab_add(struct vocab *vocab, const char *piece, enum llama_token_type type)
{
    size_t slot = hash_text(piece) & (vocab->n_slots - 1);

    if (vocab->n == vocab->n_max || strlen(piece) >= PIECE_BYTES)
        return;
    for (; vocab->slots[slot]; slot = (slot + 1) & (vocab->n_slots - 1)) {
        if (strcmp(vocab->pieces[vocab->slots[slot] - 1], piece) == 0)
            return;
    }
    memcpy(vocab->pieces[vocab->n], piece, strlen(piece) + 1);
    vocab->types[vocab->n] = type;
    vocab->scores[vocab->n] = type == LLAMA_TOKEN_TYPE_NORMAL ? -(float)(vocab->n - N_SPECIAL_TOKENS) : 0.0f;
    vocab->n++;
    vocab->slots[slot] = (uint32_t)vocab->n;
}

static void vocab_add_joined(struct vocab *vocab, const char *first, const char *second, const char *third)
{
    char piece[2 * PIECE_BYTES];

    (void)snprintf(piece, sizeof(piece), "%s%s%s", first, second, third); /* what is cut is too long to be added */
    vocab_add(vocab, piece, LLAMA_TOKEN_TYPE_NORMAL);
}

static void vocab_add_special(struct vocab *vocab)
{
    char piece[PIECE_BYTES];

    vocab_add(vocab, "<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
    vocab_add(vocab, "<s>", LLAMA_TOKEN_TYPE_CONTROL);
    vocab_add(vocab, "</s>", LLAMA_TOKEN_TYPE_CONTROL);
    for (unsigned byte = 0; byte < 256; byte++) {
        (void)snprintf(piece, sizeof(piece), "<0x%02X>", byte); /* always fits */
        vocab_add(vocab, piece, LLAMA_TOKEN_TYPE_BYTE);
    }
    vocab_add(vocab, "<|im_start|>", LLAMA_TOKEN_TYPE_CONTROL);
    vocab_add(vocab, "<|im_end|>", LLAMA_TOKEN_TYPE_CONTROL);
}

static const char *const onsets[] = { "b", "c", "d", "f", "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",  "r",  "s",
                                      "t", "v", "w", "z", "th", "sh", "ch", "st", "tr", "pr", "pl", "br", "gr", "wh" };
static const char *const vowels[] = { "a", "e", "i", "o", "u", "y" };
static const char *const endings[] = { "n", "r", "s", "l", "t", "d", "m", "nd", "nt", "ng", "st", "ck" };

static const size_t n_onsets = sizeof(onsets) / sizeof(onsets[0]);
static const size_t n_vowels = sizeof(vowels) / sizeof(vowels[0]);
static const size_t n_endings = sizeof(endings) / sizeof(endings[0]);

static void vocab_add_short_pieces(struct vocab *vocab)
{
    vocab_add(vocab, SPACE, LLAMA_TOKEN_TYPE_NORMAL);
    for (char c = '!'; c <= '~'; c++)
        vocab_add(vocab, (const char[]){ c, '\0' }, LLAMA_TOKEN_TYPE_NORMAL);
    for (size_t i = 0; i < n_onsets; i++) {
        for (size_t j = 0; j < n_vowels; j++)
            vocab_add_joined(vocab, onsets[i], vowels[j], "");
    }
    for (size_t i = 0; i < n_vowels; i++) {
        for (size_t j = 0; j < n_endings; j++)
            vocab_add_joined(vocab, vowels[i], endings[j], "");
    }
    for (size_t i = 0; i < n_onsets; i++) {
        vocab_add_joined(vocab, SPACE, onsets[i], "");
        for (size_t j = 0; j < n_vowels; j++)
            vocab_add_joined(vocab, SPACE, onsets[i], vowels[j]);
    }
    for (size_t i = 0; i < n_vowels; i++)
        vocab_add_joined(vocab, SPACE, vowels[i], "");
}

static bool ends_in_vowel(const char *piece)
{
    return strchr("aeiouy", piece[strlen(piece) - 1]) != NULL;
}

/* Fill a vocabulary; the same size gives the same pieces. */
static void vocab_fill(struct vocab *vocab)
{
    vocab_add_special(vocab);
    vocab_add_short_pieces(vocab);

    /* Lengthen pieces picked at random, those just made included, until the vocabulary is full. */
    size_t stem_begin = N_SPECIAL_TOKENS + 1 + ('~' - '!' + 1);
    for (uint64_t n = 0; vocab->n < vocab->n_max; n++) {
        uint64_t draw = random_at(/* key= */ 0, n);
        const char *stem = vocab->pieces[stem_begin + draw % (vocab->n - stem_begin)];

        draw >>= 32;
        if (ends_in_vowel(stem) && draw % 3 == 0)
            vocab_add_joined(vocab, stem, endings[(draw >> 8) % n_endings], "");
        else
            vocab_add_joined(vocab, stem, onsets[(draw >> 8) % n_onsets], vowels[(draw >> 16) % n_vowels]);
    }
}

/*
 * The model: keys and tensors
 */

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

static const char *architecture_of(enum kind kind)
{
    switch (kind) {
    case KIND_LLAMA: return "llama";
    case KIND_COHERE2: return "cohere2";
    case KIND_MAMBA: return "mamba";
    case KIND_LFM2: return "lfm2";
    case KIND_QWEN35: return "qwen35";
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

static void add_feed_forward(struct model *model, uint32_t layer)
{
    const struct shape *s = model->shape;

    add_block_matrix(model, layer, "ffn_gate.weight", s->n_embd, s->n_ff);
    add_block_matrix(model, layer, "ffn_up.weight", s->n_embd, s->n_ff);
    add_block_matrix(model, layer, "ffn_down.weight", s->n_ff, s->n_embd);
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

static void add_vocab(struct model *model)
{
    static const char template[] =
        "{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    struct gguf_context *gguf = model->gguf;
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
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", false);
    gguf_set_val_str(gguf, "tokenizer.chat_template", template);

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
    if (s->kind == KIND_COHERE2)
        set_f32(model, "attention.layer_norm_epsilon", 1e-5f);
    else
        set_f32(model, "attention.layer_norm_rms_epsilon", 1e-5f);
    if (s->kind == KIND_LLAMA || s->kind == KIND_COHERE2 || s->kind == KIND_QWEN35)
        set_u32(model, "attention.head_count_kv", s->n_heads_kv);
    if (s->kind != KIND_MAMBA)
        set_f32(model, "rope.freq_base", 10000.0f);
    if (s->n_window > 0)
        set_u32(model, "attention.sliding_window", s->n_window);
}

static void model_deinit(struct model *model)
{
    gguf_free(model->gguf);
    ggml_free(model->tensors);
}

/* Declare a model. The name goes into the file, where model_is_whole() looks for it. */
static void model_init(struct model *model, const struct shape *shape, enum ggml_type matrix_type, const char *name)
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
    add_matrix(model, "token_embd.weight", shape->kind == KIND_LLAMA ? FILL_RANDOM : FILL_HEAD, shape->n_embd,
               shape->n_vocab);
    switch (shape->kind) {
    case KIND_LLAMA: add_llama(model); break;
    case KIND_COHERE2: add_cohere2(model); break;
    case KIND_MAMBA: add_mamba(model); break;
    case KIND_LFM2: add_lfm2(model); break;
    case KIND_QWEN35: add_qwen35(model); break;
    }
}

static uint64_t model_n_parameters(const struct model *model)
{
    uint64_t n = 0;

    for (size_t i = 0; i < model->n_weights; i++)
        n += (uint64_t)ggml_nelements(model->weights[i].tensor);
    return n;
}

static uint64_t model_bytes(const struct model *model)
{
    uint64_t bytes = gguf_get_meta_size(model->gguf);

    for (size_t i = 0; i < model->n_weights; i++)
        bytes += GGML_PAD(ggml_nbytes(model->weights[i].tensor), gguf_get_alignment(model->gguf));
    return bytes;
}

/*
 * Progress
 */

struct progress {
    const char *label;
    bool is_terminal;
    int percent_shown; /* -1 before the first line */
};

static void progress_show(struct progress *progress, double part)
{
    int percent = (int)(100.0 * part);
    int step = progress->is_terminal ? 1 : 10;

    if (percent > 100)
        percent = 100;
    percent -= percent % step;
    if (percent <= progress->percent_shown)
        return;
    progress->percent_shown = percent;
    if (progress->is_terminal)
        fprintf(stderr, "\rmake_model: %s %3d%%", progress->label, percent);
    else
        fprintf(stderr, "make_model: %s %d%%\n", progress->label, percent);
}

/* Leave the moving line, so that what follows starts on a line of its own. */
static void progress_end(struct progress *progress)
{
    if (progress->is_terminal && progress->percent_shown >= 0)
        fputc('\n', stderr);
    progress->percent_shown = -1;
}

/*
 * Weights
 */

struct writer {
    FILE *file;
    struct progress *progress;
    double part_max; /* the part of the whole work that writing the weights is */
    uint64_t bytes, bytes_max;
    uint64_t seed;
    float *values; /* [N_WEIGHT_VALUES] of the tensor being written */
    ggml_fp16_t *values_f16;
    unsigned char *chunk; /* [CHUNK_BYTES] */
};

static bool writer_put(struct writer *writer, const void *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, writer->file) != n)
        return false;
    writer->bytes += n;
    progress_show(writer->progress, writer->part_max * (double)writer->bytes / (double)writer->bytes_max);
    return true;
}

/*
 * Write elements [begin, end) of a tensor, uniform in (-amplitude, amplitude).
 *
 * There are 65536 equally spaced values, so that a 64-bit draw gives four elements and each is one look in a table.
 */
static bool write_random(struct writer *writer, const struct ggml_tensor *tensor, uint64_t begin, uint64_t end,
                         float amplitude)
{
    uint64_t key = mix(writer->seed ^ hash_text(tensor->name));
    float spacing = amplitude / 32768.0f;
    size_t element_bytes = ggml_type_size(tensor->type);
    uint16_t draw[4];

    for (int i = 0; i < N_WEIGHT_VALUES; i++) {
        writer->values[i] = ((float)i - 32767.5f) * spacing;
        writer->values_f16[i] = ggml_fp32_to_fp16(writer->values[i]);
    }
    while (begin < end) {
        uint64_t n = end - begin < CHUNK_BYTES / element_bytes ? end - begin : CHUNK_BYTES / element_bytes;
        float *chunk_f32 = (float *)writer->chunk;
        ggml_fp16_t *chunk_f16 = (ggml_fp16_t *)writer->chunk;

        for (uint64_t i = 0; i < n; i++) {
            if (i == 0 || (begin + i) % 4 == 0) {
                uint64_t bits = random_at(key, (begin + i) / 4);

                for (int j = 0; j < 4; j++)
                    draw[j] = (uint16_t)(bits >> (16 * j));
            }
            if (tensor->type == GGML_TYPE_F16)
                chunk_f16[i] = writer->values_f16[draw[(begin + i) % 4]];
            else
                chunk_f32[i] = writer->values[draw[(begin + i) % 4]];
        }
        if (!writer_put(writer, writer->chunk, n * element_bytes))
            return false;
        begin += n;
    }
    return true;
}

/* Write a small F32 tensor whose values follow a rule. They are exact, so that no rounding mode can change them. */
static bool write_pattern(struct writer *writer, const struct ggml_tensor *tensor, enum fill fill)
{
    for (int64_t i = 0; i < ggml_nelements(tensor); i++) {
        float value = 1.0f;

        if (fill == FILL_MINUS_RAMP)
            value = -(float)(1 + i % tensor->ne[0]);
        else if (fill == FILL_TIME_STEP)
            value = -3.0f - 0.5f * (float)(i % 6);
        else if (fill == FILL_QUERY_NORM)
            value = QUERY_GAIN;
        if (!writer_put(writer, &value, sizeof(value)))
            return false;
    }
    return true;
}

static bool write_weight(struct writer *writer, const struct weight *weight)
{
    const struct ggml_tensor *tensor = weight->tensor;
    uint64_t n = (uint64_t)ggml_nelements(tensor);
    uint64_t n_quiet = 0;
    float amplitude = 1.73f / sqrtf((float)tensor->ne[0]);

    if (weight->fill != FILL_RANDOM && weight->fill != FILL_HEAD && weight->fill != FILL_QUERY)
        return write_pattern(writer, tensor, weight->fill);

    /* Special tokens get small logits, so that greedy text is words and neither ends nor breaks inside a character. */
    if (weight->fill == FILL_HEAD)
        n_quiet = (uint64_t)tensor->ne[0] * N_SPECIAL_TOKENS;
    if (weight->fill == FILL_QUERY)
        amplitude *= QUERY_GAIN;
    return write_random(writer, tensor, 0, n_quiet, amplitude / 16.0f) &&
           write_random(writer, tensor, n_quiet, n, amplitude);
}

static bool write_padding(struct writer *writer, size_t n_written, size_t alignment)
{
    static const unsigned char zeros[64];
    size_t n = GGML_PAD(n_written, alignment) - n_written;

    return n == 0 || writer_put(writer, zeros, n);
}

/*
 * Write a declared model. part_max is the part of the whole work that this is.
 *
 * Returns false with errno set and no message when the file does not take it all.
 */
static bool model_write(const struct model *model, uint64_t seed, FILE *file, struct progress *progress,
                        double part_max)
{
    struct writer writer = {
        .file = file, .progress = progress, .part_max = part_max, .seed = seed, .bytes_max = model_bytes(model)
    };
    size_t alignment = gguf_get_alignment(model->gguf);
    bool is_written = gguf_write_to_file_ptr(model->gguf, file, /* only_meta= */ true);
    int errnum;

    writer.bytes = gguf_get_meta_size(model->gguf);
    writer.values = allocate(N_WEIGHT_VALUES, sizeof(*writer.values));
    writer.values_f16 = allocate(N_WEIGHT_VALUES, sizeof(*writer.values_f16));
    writer.chunk = allocate(CHUNK_BYTES, 1);
    for (size_t i = 0; is_written && i < model->n_weights; i++) {
        is_written = write_weight(&writer, &model->weights[i]) &&
                     write_padding(&writer, ggml_nbytes(model->weights[i].tensor), alignment);
    }
    is_written = is_written && fflush(file) == 0;
    errnum = errno;
    free(writer.values);
    free(writer.values_f16);
    free(writer.chunk);
    errno = errnum;
    return is_written;
}

/*
 * Quantising
 */

struct watch {
    struct progress *progress; /* NULL while nothing is being quantised */
    double part_min;           /* the part of the whole work done before */
    char error[256];           /* the engine's last error line */
};

/* A ggml_log_callback that keeps the engine's last error and reads its progress, which v0.5.0 gives in no other way. */
static void watch_log(enum ggml_log_level level, const char *text, void *user_data)
{
    struct watch *watch = user_data;
    int n, n_max;

    if (level == GGML_LOG_LEVEL_ERROR) {
        (void)snprintf(watch->error, sizeof(watch->error), "%s", text); /* the beginning is enough */
        watch->error[strcspn(watch->error, "\n")] = '\0';
    }
    if (watch->progress && sscanf(text, "[%d/%d]", &n, &n_max) == 2 && n_max > 0)
        progress_show(watch->progress, watch->part_min + (1.0 - watch->part_min) * (n - 1) / n_max);
}

static bool quantise(const char *from, const char *to, const struct type *type, struct watch *watch)
{
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    uint32_t status;

    params.ftype = type->ftype;
    watch->error[0] = '\0';
    status = llama_model_quantize(from, to, &params);
    if (status != 0) {
        progress_end(watch->progress);
        return fail("cannot quantise '%s' to %s: %s; try another --type, or see that its directory has room", from,
                    type->name, watch->error[0] ? watch->error : "the engine gave no reason");
    }
    return true;
}

/*
 * Files
 */

/* A file that is being written. Its lock tells other runs that it is in use. */
struct temporary {
    int fd; /* -1 when there is none */
    char path[PATH_BYTES];
};

static bool temporary_open(struct temporary *temporary, const char *directory)
{
    struct stat status;

    for (;;) {
        int n = snprintf(temporary->path, PATH_BYTES, "%s/%sXXXXXX", directory, temporary_prefix);

        temporary->fd = -1;
        if (n < 0 || n >= PATH_BYTES)
            return fail("the path of '%s' is too long; name a shorter one with --dir", directory);
        temporary->fd = mkstemp(temporary->path);
        if (temporary->fd < 0)
            return fail("cannot write in '%s': %s; name another directory with --dir or --out", directory,
                        strerror(errno));

        /* A sweep may have come between; then the file has no name any more. A file system without locks has no
         * sweeps either, so failing to lock does no harm. */
        (void)flock(temporary->fd, LOCK_EX);
        if (fstat(temporary->fd, &status) == 0 && status.st_nlink > 0)
            return true;
        close(temporary->fd);
    }
}

static void temporary_remove(struct temporary *temporary)
{
    if (temporary->fd < 0)
        return;
    (void)unlink(temporary->path); /* what stays behind is swept by the next run */
    close(temporary->fd);
    temporary->fd = -1;
}

/* Remove the temporary files of runs that were killed. Failing to is no reason to stop. */
static void sweep(const char *directory)
{
    DIR *entries = opendir(directory);
    struct dirent *entry;
    char path[PATH_BYTES];

    if (!entries)
        return;
    while ((entry = readdir(entries))) {
        int n = snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        int fd;

        if (strncmp(entry->d_name, temporary_prefix, sizeof(temporary_prefix) - 1) != 0 || n < 0 || n >= PATH_BYTES)
            continue;
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlink(path); /* the next run tries again */
        close(fd);
    }
    closedir(entries);
}

/* Sync a temporary file and give it its final name. On success it is closed. */
static bool temporary_publish(struct temporary *temporary, const char *path, const char *directory)
{
    int directory_fd;

    if (fchmod(temporary->fd, 0644) != 0 || fsync(temporary->fd) != 0)
        return fail("cannot finish '%s': %s; see that its disk has room and works", temporary->path, strerror(errno));
    if (rename(temporary->path, path) != 0)
        return fail("cannot rename '%s' to '%s': %s; name another place with --dir or --out", temporary->path, path,
                    strerror(errno));
    close(temporary->fd);
    temporary->fd = -1;

    /* Without this the name may be lost in a power cut. The model is made again then, so failing is no error. */
    directory_fd = open(directory, O_RDONLY | O_CLOEXEC);
    if (directory_fd >= 0) {
        (void)fsync(directory_fd);
        close(directory_fd);
    }
    return true;
}

/* Create a directory and those above it. */
static bool make_directories(const char *path)
{
    char part[PATH_BYTES];
    size_t n = strlen(path);

    for (size_t i = 1; i <= n && n < PATH_BYTES; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return fail("cannot create '%s': %s; name another directory with --dir or HEARTH_MODEL_CACHE", part,
                        strerror(errno));
    }
    return true;
}

/* Whether the file at a path is the model of this name, to its last byte. */
static bool model_is_whole(const char *path, const char *name)
{
    struct gguf_context *gguf = gguf_init_from_file(path, (struct gguf_init_params){ .no_alloc = true });
    struct stat status;
    bool is_whole = false;

    if (!gguf)
        return false;
    int64_t key = gguf_find_key(gguf, "general.name");
    int64_t last = gguf_get_n_tensors(gguf) - 1;
    if (last >= 0 && key >= 0 && gguf_get_kv_type(gguf, key) == GGUF_TYPE_STRING && stat(path, &status) == 0) {
        uint64_t end =
            gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, last) + gguf_get_tensor_size(gguf, last);

        is_whole = strcmp(gguf_get_val_str(gguf, key), name) == 0 && (uint64_t)status.st_size >= end;
    }
    gguf_free(gguf);
    return is_whole;
}

static bool has_room(const char *directory, uint64_t bytes)
{
    struct statvfs status;

    if (statvfs(directory, &status) != 0)
        return fail("cannot use '%s': %s; name a directory that exists with --dir or --out", directory,
                    strerror(errno));
    uint64_t bytes_free = (uint64_t)status.f_bavail * status.f_frsize;
    if (bytes_free < bytes)
        return fail("'%s' has %" PRIu64 " MB free and %" PRIu64 " MB are needed; free some, or name another place with"
                    " --dir or --out",
                    directory, bytes_free / 1000000, bytes / 1000000 + 1);
    return true;
}

/*
 * The program
 */

struct request {
    const struct shape *shape;
    const struct type *type;
    uint64_t seed;
    bool is_print_only;
    const char *out; /* NULL: a file of the usual name in the directory */
    const char *dir; /* NULL: the cache directory */

    /* Derived by resolve_paths(). */
    char name[NAME_BYTES];
    char directory[PATH_BYTES];
    char path[PATH_BYTES];
};

static double about_bytes(const struct type *type, uint64_t n_parameters)
{
    return type->bits_per_weight / 8.0 * (double)n_parameters;
}

static bool build_in(const struct request *request, struct model *model, struct watch *watch, struct temporary *plain,
                     struct temporary *quantised)
{
    bool needs_quantiser = type_needs_quantiser(request->type);
    uint64_t bytes = model_bytes(model);
    double part_max = needs_quantiser ? 0.125 : 1.0; /* measured: writing takes an eighth of the time */
    FILE *file;
    int errnum;

    if (needs_quantiser)
        bytes += (uint64_t)about_bytes(request->type, model_n_parameters(model));
    if (!has_room(request->directory, bytes) || !temporary_open(plain, request->directory))
        return false;

    /* A descriptor of its own, because closing the stream must not drop the lock. */
    file = fopen(plain->path, "wb");
    if (!file)
        return fail("cannot open '%s': %s; name another place with --dir or --out", plain->path, strerror(errno));
    errnum = model_write(model, request->seed, file, watch->progress, part_max) ? 0 : errno;
    if (fclose(file) != 0 && errnum == 0)
        errnum = errno;
    if (errnum != 0) {
        progress_end(watch->progress);
        return fail("cannot write '%s': %s; free %" PRIu64 " MB or name another place with --dir or --out", plain->path,
                    strerror(errnum), bytes / 1000000 + 1);
    }
    if (!needs_quantiser)
        return temporary_publish(plain, request->path, request->directory);

    watch->part_min = part_max;
    if (!temporary_open(quantised, request->directory) || !quantise(plain->path, quantised->path, request->type, watch))
        return false;
    progress_show(watch->progress, 1.0);
    return temporary_publish(quantised, request->path, request->directory);
}

static bool build(const struct request *request, struct watch *watch)
{
    struct temporary plain = { .fd = -1 };
    struct temporary quantised = { .fd = -1 };
    struct progress progress = { .label = request->name, .is_terminal = isatty(STDERR_FILENO), .percent_shown = -1 };
    bool is_f32 = request->type->ftype == LLAMA_FTYPE_ALL_F32;
    struct model *model = allocate(1, sizeof(*model));
    bool is_built;

    sweep(request->directory);
    model_init(model, request->shape, is_f32 ? GGML_TYPE_F32 : GGML_TYPE_F16, request->name);
    watch->progress = &progress;
    is_built = build_in(request, model, watch, &plain, &quantised);
    watch->progress = NULL;
    progress_end(&progress);

    temporary_remove(&plain);
    temporary_remove(&quantised);
    model_deinit(model);
    free(model);
    return is_built;
}

static bool join(char path[PATH_BYTES], const char *first, const char *second)
{
    int n = snprintf(path, PATH_BYTES, "%s%s", first, second);

    if (n < 0 || n >= PATH_BYTES)
        return fail("the path '%.64s...' is too long; name a shorter one with --dir or --out", first);
    return true;
}

static bool cache_directory(char directory[PATH_BYTES])
{
    const char *chosen = getenv("HEARTH_MODEL_CACHE");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (chosen && *chosen)
        return join(directory, chosen, "");
    if (cache && *cache)
        return join(directory, cache, "/hearth/models");
    if (home && *home)
        return join(directory, home, "/.cache/hearth/models");
    return fail("no place to keep models, as HOME is not set; set HEARTH_MODEL_CACHE or give --dir");
}

static bool resolve_paths(struct request *request)
{
    char file_name[NAME_BYTES + 8];
    const char *slash;

    /* Names of shapes and types are short, so the name always fits. */
    (void)snprintf(request->name, NAME_BYTES, "%s-%s-seed%" PRIu64 "-v%d", request->shape->name, request->type->name,
                   request->seed, GENERATOR_VERSION);
    (void)snprintf(file_name, sizeof(file_name), "/%s.gguf", request->name);

    if (!request->out) {
        bool is_known = request->dir ? join(request->directory, request->dir, "") : cache_directory(request->directory);

        return is_known && join(request->path, request->directory, file_name);
    }
    slash = strrchr(request->out, '/');
    if (!join(request->path, request->out, "") || !join(request->directory, slash ? request->out : ".", ""))
        return false;
    if (slash)
        request->directory[slash == request->out ? 1 : slash - request->out] = '\0';
    return true;
}

static bool answer(struct request *request, struct watch *watch)
{
    struct stat status;

    if (!resolve_paths(request))
        return false;
    if (!request->is_print_only && !model_is_whole(request->path, request->name)) {
        /* In the cache the name is ours, and a damaged file is made again. Elsewhere it may be somebody's. */
        if (request->out && stat(request->path, &status) == 0)
            return fail("'%s' exists and is not %s; remove it or name another file with --out", request->path,
                        request->name);
        if (!request->out && !make_directories(request->directory))
            return false;
        if (!build(request, watch))
            return false;
    }
    printf("%s\n", request->path); /* main() finds out whether it could be written */
    return true;
}

static void list_shapes(void)
{
    struct model *model = allocate(1, sizeof(*model));

    printf("%-20s %-8s %10s %10s  %s\n", "SHAPE", "TYPE", "WEIGHTS", "FILE", "");
    for (size_t i = 0; i < n_shapes; i++) {
        uint64_t n;

        model_init(model, &shapes[i], GGML_TYPE_F16, shapes[i].name);
        n = model_n_parameters(model);
        printf("%-20s %-8s %8.1f M %7.1f MB  %s\n", shapes[i].name, shapes[i].default_type, (double)n / 1e6,
               about_bytes(type_find(shapes[i].default_type), n) / 1e6, shapes[i].summary);
        model_deinit(model);
    }
    free(model);
}

static void print_help(void)
{
    printf("Usage: make_model [OPTION]... SHAPE\n"
           "Write a GGUF model of random weights and print its path. A model that is there already is not made again.\n"
           "\n"
           "  --seed N      another N gives other weights (default 1)\n"
           "  --type TYPE   weight type instead of the shape's own: f32, f16, q8_0, q5_0, q4_0,\n"
           "                q6_k, q5_k_m, q4_k_m, q4_k_s\n"
           "  --out FILE    write FILE instead of a file in the cache directory\n"
           "  --dir DIR     use DIR as the cache directory\n"
           "  --print       print the path and make nothing\n"
           "  --list        list the shapes with their usual types and sizes\n"
           "  --help        print this text\n"
           "\n"
           "The cache directory is $HEARTH_MODEL_CACHE, else $XDG_CACHE_HOME/hearth/models, else\n"
           "~/.cache/hearth/models. Exits with 0, with 1 when it failed, with 2 when it was called wrongly.\n");
}

enum parsed { PARSED_REQUEST, PARSED_LIST, PARSED_HELP, PARSED_WRONG };

static bool parse_seed(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    uintmax_t value = strtoumax(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > UINT64_MAX)
        return fail("seed '%s' is not a whole number from 0 to %" PRIu64 "; see make_model --help", text, UINT64_MAX);
    *out = value;
    return true;
}

/* Find out what the shape and type names mean and whether they go together. */
static enum parsed parse_model(struct request *request, const char *shape_name, const char *type_name)
{
    request->shape = shape_find(shape_name);
    if (!request->shape) {
        fail("there is no shape '%s'; make_model --list names them", shape_name);
        return PARSED_WRONG;
    }
    request->type = type_find(type_name ? type_name : request->shape->default_type);
    if (!request->type) {
        fail("there is no type '%s'; make_model --help names them", type_name);
        return PARSED_WRONG;
    }
    if (!type_fits(request->type, request->shape)) {
        fail("type %s needs widths that %" PRIu32 " divides, and %s has %" PRIu32 " and %" PRIu32 "; give another"
             " --type",
             request->type->name, request->type->block, request->shape->name, request->shape->n_embd,
             request->shape->n_ff);
        return PARSED_WRONG;
    }
    return PARSED_REQUEST;
}

static enum parsed parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' }, { "type", required_argument, NULL, 't' },
        { "out", required_argument, NULL, 'o' },  { "dir", required_argument, NULL, 'd' },
        { "print", no_argument, NULL, 'p' },      { "list", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
    };
    const char *type_name = NULL;
    int option;

    opterr = 0; /* the messages here end in a remedy */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case 's':
            if (!parse_seed(optarg, &request->seed))
                return PARSED_WRONG;
            break;
        case 't': type_name = optarg; break;
        case 'o': request->out = optarg; break;
        case 'd': request->dir = optarg; break;
        case 'p': request->is_print_only = true; break;
        case 'l': return PARSED_LIST;
        case 'h': return PARSED_HELP;
        case ':': fail("option '%s' needs a value; see make_model --help", argv[optind - 1]); return PARSED_WRONG;
        default: fail("there is no option '%s'; see make_model --help", argv[optind - 1]); return PARSED_WRONG;
        }
    }
    if (argc - optind != 1) {
        fail("one shape must be named and there are %d; make_model --list names them", argc - optind);
        return PARSED_WRONG;
    }
    if ((request->out && !*request->out) || (request->dir && !*request->dir) || (request->out && request->dir)) {
        fail("--out and --dir need a path and exclude each other; see make_model --help");
        return PARSED_WRONG;
    }
    return parse_model(request, argv[optind], type_name);
}

int main(int argc, char **argv)
{
    struct request request = { .seed = 1 };
    struct watch watch = { .progress = NULL };
    int exit_code = 0;

    llama_log_set(watch_log, &watch);
    switch (parse(argc, argv, &request)) {
    case PARSED_WRONG: return 2;
    case PARSED_HELP: print_help(); break;
    case PARSED_LIST: list_shapes(); break;
    case PARSED_REQUEST:
        llama_backend_init();
        if (!answer(&request, &watch))
            exit_code = 1;
        llama_backend_free();
        break;
    }
    if (exit_code == 0 && (fflush(stdout) != 0 || ferror(stdout))) {
        fail("cannot write to standard output: %s; see where it leads", strerror(errno));
        exit_code = 1;
    }
    return exit_code;
}
