/*
 * engine_memory.c - the memory of the engine alone: a model, a context and an evaluation, and nothing of ours
 *
 *   engine_memory MODEL N_CTX N_BATCH N_SEQ_MAX N_THREADS
 *
 * Loads the model as a worker does (mapped weights, one buffer of K and V in f16 for all sequences, flash attention),
 * prefills a batch of prompt tokens, decodes one, and prints the process' resident bytes: "anonymous file shared". The
 * rest of a worker's memory belongs to the server, the scheduler and the cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void be_quiet(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level, (void)text, (void)user_data;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "engine_memory: %s\n", what);
    exit(1);
}

static uint32_t number(const char *text)
{
    unsigned long value = strtoul(text, NULL, 10);

    if (value < 1 || value > 1u << 24)
        die("a number is out of its range");
    return (uint32_t)value;
}

/* Tokens at positions from pos on; the ids do not matter. */
static void evaluate(struct llama_context *context, llama_token *tokens, uint32_t n)
{
    if (llama_decode(context, llama_batch_get_one(tokens, (int32_t)n)) != 0)
        die("the engine refused a batch");
}

static void print_memory(void)
{
    unsigned long anonymous = 0, file = 0, shared = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");

    if (!status)
        die("/proc/self/status cannot be read; this runs on Linux only");
    while (fgets(line, sizeof(line), status)) {
        (void)sscanf(line, "RssAnon: %lu", &anonymous); /* a line of another name is passed over */
        (void)sscanf(line, "RssFile: %lu", &file);
        (void)sscanf(line, "RssShmem: %lu", &shared);
    }
    (void)fclose(status); /* it was only read */
    (void)printf("%lu %lu %lu\n", anonymous << 10, file << 10, shared << 10);
}

int main(int n_arguments, char **arguments)
{
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *model;
    struct llama_context *context;
    llama_token *tokens;

    if (n_arguments != 6)
        die("usage: engine_memory MODEL N_CTX N_BATCH N_SEQ_MAX N_THREADS");
    llama_log_set(be_quiet, NULL);
    llama_backend_init();
    model = llama_model_load_from_file(arguments[1], model_params);
    if (!model)
        die("the model cannot be loaded");
    params.n_ctx = number(arguments[2]);
    params.n_batch = number(arguments[3]);
    params.n_ubatch = params.n_batch < 512 ? params.n_batch : 512;
    params.n_seq_max = number(arguments[4]);
    params.n_threads = (int32_t)number(arguments[5]);
    params.n_threads_batch = params.n_threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.kv_unified = true;
    params.no_perf = true;
    context = llama_init_from_model(model, params);
    tokens = calloc(params.n_batch, sizeof(*tokens));
    if (!context || !tokens)
        die("there is no memory for a context");
    for (uint32_t i = 0; i < params.n_batch; i++)
        tokens[i] = 300 + (llama_token)(i % 100);
    evaluate(context, tokens, params.n_batch / 2);
    evaluate(context, tokens, 1);
    print_memory();
    free(tokens);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
