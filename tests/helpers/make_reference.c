/*
 * make_reference.c - a small GGUF model of seeded weights, in the words of the engine, for tests of `hearth convert`
 *
 *   make_reference SHAPE OUT.gguf VOCABULARY.gguf
 *
 * All weights have eight bits at most, so F32, F16 and BF16 hold them exactly. Models with pairs of bytes
 * bring their vocabulary; the others take that of VOCABULARY.gguf. export_checkpoint writes such a model as a
 * checkpoint.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

enum { N_LAYERS = 6, N_EMBD = 64, N_FF = 96, N_HEADS = 4, N_HEADS_KV = 2, N_CTX = 256, N_TENSORS = 128, TEXT = 96 };

/*
 * Letters: b biases of q, k and v; n norms of q and k; 2 norms behind attention and feed-forward; o an output matrix.
 */
static const struct shape {
    const char *name;
    const char *architecture;
    uint32_t head_length;
    const char *parts;
    const char *pre;     /* of pairs of bytes; NULL: the vocabulary is taken over */
    const char *scaling; /* of RoPE: "linear", "yarn", "llama3" */
    uint32_t n_window;
} shapes[] = {
    { "llama", "llama", 16, "o", NULL, NULL, 0 },
    { "llama3", "llama", 32, "", "llama-bpe", "llama3", 0 },
    { "llama-bias", "llama", 16, "bo", "gpt-2", "linear", 0 },
    { "qwen2", "qwen2", 16, "b", "qwen2", NULL, 0 },
    { "qwen2-yarn", "qwen2", 16, "bo", "qwen2", "yarn", 0 },
    { "qwen3", "qwen3", 32, "n", "qwen2", NULL, 0 },
    { "gemma", "gemma", 32, "", NULL, NULL, 0 },
    { "gemma2", "gemma2", 32, "2", NULL, NULL, 8 },
    { "gemma3", "gemma3", 32, "2n", NULL, "linear", 8 },
};

static struct gguf_context *file;
static struct ggml_context *tensors;
static const struct shape *shape;
static uint32_t n_vocab;

static int fail(const char *message)
{
    (void)fprintf(stderr, "make_reference: %s\n", message);
    return 1;
}

/* ---- tensors ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void fill(struct ggml_tensor *tensor, float base)
{
    uint64_t key = 7;
    float *values = tensor->data;

    for (const char *c = tensor->name; *c; c++)
        key = mix(key * 31 + (unsigned char)*c);
    for (int64_t i = 0; i < ggml_nelements(tensor); i++)
        values[i] = base + (float)((int)(mix(key + (uint64_t)i) % 127) - 63) / (base > 0 ? 128.0f : 256.0f);
}

static void add(const char *name, uint32_t n_columns, uint32_t n_rows)
{
    bool is_norm = strstr(name, "norm") != NULL;
    struct ggml_tensor *tensor = n_rows ? ggml_new_tensor_2d(tensors, GGML_TYPE_F32, n_columns, n_rows)
                                        : ggml_new_tensor_1d(tensors, GGML_TYPE_F32, n_columns);

    ggml_set_name(tensor, name);
    fill(tensor, is_norm ? 1.0f : 0.0f);
    gguf_add_tensor(file, tensor);
}

static void add_to_layer(int layer, const char *suffix, uint32_t n_columns, uint32_t n_rows)
{
    char name[TEXT];

    (void)snprintf(name, sizeof(name), "blk.%d.%s", layer, suffix);
    add(name, n_columns, n_rows);
}

static void add_layer(int i)
{
    uint32_t n_q = N_HEADS * shape->head_length, n_kv = N_HEADS_KV * shape->head_length;

    add_to_layer(i, "attn_norm.weight", N_EMBD, 0);
    add_to_layer(i, "attn_q.weight", N_EMBD, n_q);
    add_to_layer(i, "attn_k.weight", N_EMBD, n_kv);
    add_to_layer(i, "attn_v.weight", N_EMBD, n_kv);
    add_to_layer(i, "attn_output.weight", n_q, N_EMBD);
    add_to_layer(i, "ffn_norm.weight", N_EMBD, 0);
    add_to_layer(i, "ffn_gate.weight", N_EMBD, N_FF);
    add_to_layer(i, "ffn_up.weight", N_EMBD, N_FF);
    add_to_layer(i, "ffn_down.weight", N_FF, N_EMBD);
    if (strchr(shape->parts, 'b')) {
        add_to_layer(i, "attn_q.bias", n_q, 0);
        add_to_layer(i, "attn_k.bias", n_kv, 0);
        add_to_layer(i, "attn_v.bias", n_kv, 0);
    }
    if (strchr(shape->parts, 'n')) {
        add_to_layer(i, "attn_q_norm.weight", shape->head_length, 0);
        add_to_layer(i, "attn_k_norm.weight", shape->head_length, 0);
    }
    if (strchr(shape->parts, '2')) {
        add_to_layer(i, "post_attention_norm.weight", N_EMBD, 0);
        add_to_layer(i, "post_ffw_norm.weight", N_EMBD, 0);
    }
}

/* Llama 3.2's factors for a head of 32, base 10000, factor 4, 1 and 4, 64 positions: worked out by hand. */
static void add_rope_factors(void)
{
    struct ggml_tensor *tensor = ggml_new_tensor_1d(tensors, GGML_TYPE_F32, 16);
    float *values = tensor->data;

    /* Wave i is 2 pi 10000^(i/16): 6.28, 11.17, 19.87, 35.33, 62.83, 111.7, ... Below 64/4 it stays, above 64 it is
     * stretched. Between, the part that stays is (64 / wave - 1) / 3. */
    for (int i = 0; i < 16; i++)
        values[i] = i < 2 ? 1.0f : 4.0f;
    for (int i = 2; i < 5; i++) {
        static const double waves[] = { 19.869176531592203, 35.33294701599846, 62.83185307179586 };
        double stays = (64.0 / waves[i - 2] - 1.0) / 3.0;

        values[i] = (float)(1.0 / (stays + (1.0 - stays) / 4.0));
    }
    ggml_set_name(tensor, "rope_freqs.weight");
    gguf_add_tensor(file, tensor);
}

/* ---- keys ---- */

static const char *own(const char *suffix)
{
    static char name[TEXT];

    (void)snprintf(name, sizeof(name), "%s.%s", shape->architecture, suffix);
    return name;
}

static void set_keys(void)
{
    gguf_set_val_str(file, "general.architecture", shape->architecture);
    gguf_set_val_str(file, "general.name", "reference");
    gguf_set_val_u32(file, own("context_length"), N_CTX);
    gguf_set_val_u32(file, own("embedding_length"), N_EMBD);
    gguf_set_val_u32(file, own("block_count"), N_LAYERS);
    gguf_set_val_u32(file, own("feed_forward_length"), N_FF);
    gguf_set_val_u32(file, own("attention.head_count"), N_HEADS);
    gguf_set_val_u32(file, own("attention.head_count_kv"), N_HEADS_KV);
    gguf_set_val_u32(file, own("attention.key_length"), shape->head_length);
    gguf_set_val_u32(file, own("attention.value_length"), shape->head_length);
    gguf_set_val_u32(file, own("rope.dimension_count"), shape->head_length);
    gguf_set_val_f32(file, own("attention.layer_norm_rms_epsilon"), 1e-6f);
    gguf_set_val_f32(file, own("rope.freq_base"), strcmp(shape->name, "qwen3") == 0 ? 1000000.0f : 10000.0f);
    if (shape->scaling && strcmp(shape->scaling, "llama3") != 0) {
        gguf_set_val_str(file, own("rope.scaling.type"), shape->scaling);
        gguf_set_val_f32(file, own("rope.scaling.factor"), 4.0f);
    }
    if (shape->scaling && strcmp(shape->scaling, "yarn") == 0)
        gguf_set_val_u32(file, own("rope.scaling.original_context_length"), N_CTX / 4);
    if (shape->n_window > 0)
        gguf_set_val_u32(file, own("attention.sliding_window"), shape->n_window);
    if (strcmp(shape->architecture, "gemma2") == 0) {
        gguf_set_val_f32(file, own("attn_logit_softcapping"), 2.0f);
        gguf_set_val_f32(file, own("final_logit_softcapping"), 30.0f);
    }
    if (strcmp(shape->architecture, "gemma3") == 0)
        gguf_set_val_f32(file, own("rope.freq_base_swa"), 500.0f);
}

/* ---- the vocabulary of pairs of bytes ---- */

static const char *const merges[] = { "h e",
                                      "t he",
                                      "\xc4\xa0 the",
                                      "\xc4\xa0 a",
                                      "i n",
                                      "in g",
                                      "o x",
                                      "f ox",
                                      "\xc4\xa0 fox",
                                      "1 2",
                                      "12 3",
                                      "e r",
                                      "l l",
                                      "ll o",
                                      "H e",
                                      "He llo",
                                      "\xc3\x83 \xc2\xa9",
                                      "a n",
                                      "an d",
                                      "\xc4\xa0 and",
                                      "\xc4\x8a \xc4\x8a",
                                      "s \xc4\xa0",
                                      "' s",
                                      "b i",
                                      "r d",
                                      "bi rd" };
static const char *const added[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>" };

enum { N_MERGES = sizeof(merges) / sizeof(merges[0]), N_ADDED = sizeof(added) / sizeof(added[0]), N_BYTES = 256 };

/* GPT-2's letter for a byte: itself if it is printable in Latin-1, else the next free one from U+0100 on. */
static void byte_letter(int byte, char *out)
{
    int code = 256;

    for (int i = 0; i <= byte; i++) {
        bool is_own = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;

        if (i == byte && is_own)
            code = byte;
        else if (i < byte && !is_own)
            code++;
    }
    if (code < 128) {
        out[0] = (char)code;
        out[1] = '\0';
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        out[2] = '\0';
    }
}

static void set_own_vocabulary(void)
{
    static char pieces[N_BYTES + N_MERGES][TEXT];
    static const char *list[N_BYTES + N_MERGES + N_ADDED];
    static int32_t types[N_BYTES + N_MERGES + N_ADDED];
    int n = 0;

    for (; n < N_BYTES; n++)
        byte_letter(n, pieces[n]);
    for (int i = 0; i < N_MERGES; i++, n++) {
        const char *space = strchr(merges[i], ' ');

        (void)snprintf(pieces[n], TEXT, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
    }
    for (int i = 0; i < n; i++) {
        list[i] = pieces[i];
        types[i] = 1;
    }
    for (int i = 0; i < N_ADDED; i++, n++) {
        list[n] = added[i];
        types[n] = i < 3 ? 3 : 4;
    }
    gguf_set_val_str(file, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(file, "tokenizer.ggml.pre", shape->pre);
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", list, (size_t)n);
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, (size_t)n);
    gguf_set_arr_str(file, "tokenizer.ggml.merges", (const char **)(uintptr_t)merges, N_MERGES);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", N_BYTES + N_MERGES);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", N_BYTES + N_MERGES + 2);
    gguf_set_val_u32(file, "tokenizer.ggml.padding_token_id", N_BYTES + N_MERGES);
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", strcmp(shape->pre, "llama-bpe") == 0);
    gguf_set_val_str(file, "tokenizer.chat_template", "{{ messages[0]['content'] }}");
    n_vocab = (uint32_t)n;
}

/* Remove everything of another model but its tokenizer. */
static bool take_vocabulary(const char *path)
{
    struct gguf_context *other = gguf_init_from_file(path, (struct gguf_init_params){ .no_alloc = true });

    if (!other)
        return false;
    gguf_set_kv(file, other);
    for (int64_t i = gguf_get_n_kv(file); i-- > 0;)
        if (strncmp(gguf_get_key(file, i), "tokenizer.", 10) != 0)
            (void)gguf_remove_key(file, gguf_get_key(file, i));
    n_vocab = (uint32_t)gguf_get_arr_n(file, gguf_find_key(file, "tokenizer.ggml.tokens"));
    gguf_free(other);
    return true;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 4 && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, argv[1]) == 0)
            shape = &shapes[i];
    if (!shape)
        return fail("usage: make_reference SHAPE OUT.gguf VOCABULARY.gguf");
    file = gguf_init_empty();
    tensors = ggml_init((struct ggml_init_params){ .mem_size = 64 << 20 });
    if (!file || !tensors)
        return fail("no memory");
    if (shape->pre)
        set_own_vocabulary();
    else if (!take_vocabulary(argv[3]))
        return fail("the vocabulary cannot be read");
    set_keys();
    add("token_embd.weight", N_EMBD, n_vocab);
    add("output_norm.weight", N_EMBD, 0);
    if (strchr(shape->parts, 'o'))
        add("output.weight", N_EMBD, n_vocab);
    if (shape->scaling && strcmp(shape->scaling, "llama3") == 0)
        add_rope_factors();
    for (int i = 0; i < N_LAYERS; i++)
        add_layer(i);
    return gguf_write_to_file(file, argv[2], false) ? 0 : fail("the file cannot be written");
}
