/*
 * compare_models.c - do two GGUF files hold the same model? For tests of `hearth convert`
 *
 *   compare_models A.gguf B.gguf
 *
 * By llama.cpp itself, without Hearth: the same tensors, byte for byte where their types agree; the same tokens of some
 * texts; the same logits, bit for bit, of each of 64 positions. Prints the differences.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gguf.h>
#include <llama.h>

enum { N_POSITIONS = 64, TOKENS_MAX = 1024 };

static const char *const texts[] = {
    "Hello, world! The fox saw 123 birds and 4567 hills.",
    "the fox\n\n  the  bird's  fox ing\tand HELLO'S",
    "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \xd0\xbc\xd0\xb8\xd1\x80",
    " once upon a time <|im_start|>user <tool> there<|im_end|> was </s> a king",
    "",
};

static int n_differences;

static void be_quiet(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level, (void)text, (void)user_data;
}

static void differ(const char *what, const char *name)
{
    (void)printf("%s differs: %s\n", what, name);
    n_differences++;
}

static void compare_tensors(const char *path_a, const char *path_b)
{
    struct ggml_context *a, *b;
    struct gguf_context *file_a = gguf_init_from_file(path_a, (struct gguf_init_params){ .ctx = &a });
    struct gguf_context *file_b = gguf_init_from_file(path_b, (struct gguf_init_params){ .ctx = &b });

    if (!file_a || !file_b) {
        differ("the format", "a file cannot be read");
        return;
    }
    if (gguf_get_n_tensors(file_a) != gguf_get_n_tensors(file_b))
        differ("the number of tensors", path_b);
    for (struct ggml_tensor *t = ggml_get_first_tensor(a); t; t = ggml_get_next_tensor(a, t)) {
        struct ggml_tensor *other = ggml_get_tensor(b, t->name);

        if (gguf_find_tensor(file_a, t->name) < 0) /* the blob of all data */
            continue;
        if (!other || !ggml_are_same_shape(t, other))
            differ("the shape", t->name);
        else if (t->type == other->type && memcmp(t->data, other->data, ggml_nbytes(t)) != 0)
            differ("a tensor", t->name);
    }
    gguf_free(file_a);
    gguf_free(file_b);
    ggml_free(a);
    ggml_free(b);
}

static void compare_tokens(const struct llama_vocab *a, const struct llama_vocab *b)
{
    static llama_token tokens_a[TOKENS_MAX], tokens_b[TOKENS_MAX];

    if (llama_vocab_n_tokens(a) != llama_vocab_n_tokens(b)) {
        differ("the vocabulary", "its size");
        return;
    }
    for (llama_token i = 0; i < llama_vocab_n_tokens(a); i++)
        if (strcmp(llama_vocab_get_text(a, i), llama_vocab_get_text(b, i)) != 0 ||
            llama_vocab_get_attr(a, i) != llama_vocab_get_attr(b, i) ||
            llama_vocab_is_eog(a, i) != llama_vocab_is_eog(b, i))
            differ("a token", llama_vocab_get_text(a, i));
    if (llama_vocab_bos(a) != llama_vocab_bos(b) || llama_vocab_eos(a) != llama_vocab_eos(b) ||
        llama_vocab_eot(a) != llama_vocab_eot(b) || llama_vocab_pad(a) != llama_vocab_pad(b))
        differ("the vocabulary", "its special tokens");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (int parse = 0; parse < 2; parse++) {
            int32_t n = (int32_t)strlen(texts[i]);
            int32_t n_a = llama_tokenize(a, texts[i], n, tokens_a, TOKENS_MAX, true, parse == 1);
            int32_t n_b = llama_tokenize(b, texts[i], n, tokens_b, TOKENS_MAX, true, parse == 1);

            if (n_a != n_b || n_a < 0 || memcmp(tokens_a, tokens_b, (size_t)n_a * sizeof(llama_token)) != 0)
                differ("the tokens of a text", texts[i]);
        }
}

/* The logits of all positions; the caller frees them. */
static float *logits_of(struct llama_model *model)
{
    struct llama_context_params params = llama_context_default_params();
    int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_batch batch = llama_batch_init(N_POSITIONS, 0, 1);
    float *all = malloc(sizeof(float) * (size_t)n_vocab * N_POSITIONS);
    struct llama_context *context;

    params.n_ctx = params.n_batch = params.n_ubatch = 256;
    params.n_threads = params.n_threads_batch = 1;
    context = llama_init_from_model(model, params);
    batch.n_tokens = N_POSITIONS;
    for (int i = 0; i < N_POSITIONS; i++) {
        batch.token[i] = (i * 37 + 11) % n_vocab;
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (!all || !context || llama_decode(context, batch) != 0)
        differ("the work", "a model cannot be evaluated");
    else
        for (int i = 0; i < N_POSITIONS; i++)
            memcpy(all + (size_t)i * (size_t)n_vocab, llama_get_logits_ith(context, i),
                   sizeof(float) * (size_t)n_vocab);
    llama_batch_free(batch);
    llama_free(context);
    return all;
}

static void compare_logits(struct llama_model *a, struct llama_model *b)
{
    size_t n = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(a)) * N_POSITIONS, n_other = 0, n_nonzero = 0;
    float *logits_a = logits_of(a), *logits_b = logits_of(b);
    char text[64];

    for (size_t i = 0; logits_a && logits_b && i < n; i++) {
        n_other += memcmp(&logits_a[i], &logits_b[i], sizeof(float)) != 0;
        n_nonzero += logits_a[i] != 0.0f && logits_a[i] == logits_a[i];
    }
    (void)snprintf(text, sizeof(text), "%zu of %zu", n_other, n);
    if (n_other > 0 || n_nonzero < n / 2)
        differ("logits:", text);
    free(logits_a);
    free(logits_b);
}

int main(int argc, char **argv)
{
    struct llama_model *a, *b;

    if (argc != 3)
        return 2;
    llama_log_set(be_quiet, NULL);
    llama_backend_init();
    compare_tensors(argv[1], argv[2]);
    a = llama_model_load_from_file(argv[1], llama_model_default_params());
    b = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!a || !b) {
        (void)printf("a model cannot be loaded\n");
        return 1;
    }
    compare_tokens(llama_model_get_vocab(a), llama_model_get_vocab(b));
    if (llama_vocab_n_tokens(llama_model_get_vocab(a)) == llama_vocab_n_tokens(llama_model_get_vocab(b)))
        compare_logits(a, b);
    llama_model_free(a);
    llama_model_free(b);
    return n_differences > 0;
}
