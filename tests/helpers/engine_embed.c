/*
 * engine_embed.c - the embedding of one input by llama.cpp itself, as its program llama-embedding makes it
 *
 *   engine_embed MODEL none|mean|cls|last|rank TEXT
 *
 * A context of its own, one sequence, nothing of Hearth. Prints each vector as a line of numbers that %.9g makes.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

enum { TOKENS_MAX = 2048 };

static int fail(const char *message)
{
    (void)fprintf(stderr, "engine_embed: %s\n", message);
    return 1;
}

static void be_quiet(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level, (void)text, (void)user_data;
}

static int pooling_of(const char *name)
{
    static const char *const names[] = { "none", "mean", "cls", "last", "rank" }; /* llama_pooling_type */

    for (int i = 0; i < 5; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return LLAMA_POOLING_TYPE_UNSPECIFIED;
}

static void print(const float *values, int n)
{
    for (int i = 0; i < n; i++)
        (void)printf("%s%.9g", i > 0 ? " " : "", (double)values[i]);
    (void)printf("\n");
}

static int embed(struct llama_model *model, enum llama_pooling_type pooling, const char *text)
{
    struct llama_context_params params = llama_context_default_params();
    static llama_token tokens[TOKENS_MAX];
    int n_tokens =
        llama_tokenize(llama_model_get_vocab(model), text, (int32_t)strlen(text), tokens, TOKENS_MAX, true, true);
    int n_values =
        pooling == LLAMA_POOLING_TYPE_RANK ? (int)llama_model_n_cls_out(model) : llama_model_n_embd_out(model);
    struct llama_context *context;
    struct llama_batch batch;

    if (n_tokens < 1)
        return fail("the text has too many tokens");
    params.n_ctx = params.n_batch = params.n_ubatch = TOKENS_MAX;
    params.n_threads = params.n_threads_batch = 1;
    params.pooling_type = pooling;
    params.embeddings = true;
    context = llama_init_from_model(model, params);
    if (!context)
        return fail("there is no context");
    batch = llama_batch_init(n_tokens, 0, 1);
    batch.n_tokens = n_tokens;
    for (int i = 0; i < n_tokens; i++) {
        batch.token[i] = tokens[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = true;
    }
    if (llama_decode(context, batch) != 0)
        return fail("the batch was not evaluated");
    if (pooling != LLAMA_POOLING_TYPE_NONE)
        print(llama_get_embeddings_seq(context, 0), n_values);
    for (int i = 0; pooling == LLAMA_POOLING_TYPE_NONE && i < n_tokens; i++)
        print(llama_get_embeddings_ith(context, i), n_values);
    llama_batch_free(batch);
    llama_free(context);
    return 0;
}

int main(int argc, char **argv)
{
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model;
    int exit_code;

    if (argc != 4 || pooling_of(argv[2]) == LLAMA_POOLING_TYPE_UNSPECIFIED)
        return fail("give MODEL, POOLING and TEXT");
    llama_log_set(be_quiet, NULL);
    llama_backend_init();
    params.n_gpu_layers = 0;
    model = llama_model_load_from_file(argv[1], params);
    if (!model)
        return fail("the model cannot be loaded");
    exit_code = embed(model, (enum llama_pooling_type)pooling_of(argv[2]), argv[3]);
    llama_model_free(model);
    llama_backend_free();
    return exit_code;
}
