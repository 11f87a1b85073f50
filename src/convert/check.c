/*
 * check.c - load a model and use its tokenizer
 */
#include "convert/check.h"

#include <string.h>

enum { N_TOKENS_MAX = 256, N_CTX = 256 };

static const char text[] = "Hello, world! The fox saw 12 birds\nand 3 hills.";

/* SentencePiece may put a space before the text. */
static bool is_text(const char *back)
{
    return strcmp(back, text) == 0 || (back[0] == ' ' && strcmp(back + 1, text) == 0);
}

static hearth_status check_model(hearth_model *model, size_t n_tokens, hearth_error *err)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_token tokens[N_TOKENS_MAX];
    char *back = NULL;
    size_t n = 0, n_bytes = 0;
    hearth_status status = hearth_model_info_get(model, &info, err);

    if (status == HEARTH_OK && info.n_vocab != n_tokens)
        status =
            hth_fail(err, HEARTH_CORRUPT, "the model was loaded with %u tokens instead of %zu", info.n_vocab, n_tokens);
    if (status == HEARTH_OK)
        status = hearth_tokenize(model, text, strlen(text), 0, tokens, N_TOKENS_MAX, &n, err);
    if (status == HEARTH_OK)
        status = hearth_detokenize(model, tokens, n, /* special= */ false, &back, &n_bytes, err);
    if (status == HEARTH_OK && !is_text(back))
        status = hth_fail(err, HEARTH_CORRUPT, "the tokenizer does not give back a text, but '%.100s'", back);
    hearth_free(back);
    return status;
}

hearth_status hth_converted_check(const char *path, size_t n_tokens, hearth_load_progress_fn progress,
                                  void *progress_user_data, hearth_error *err)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_model_options options = hearth_model_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_status status;

    runtime_options.cache_disabled = true;
    options.n_ctx = N_CTX;
    options.n_parallel = 1;
    options.n_gpu_layers = 0;
    options.fingerprint_mode = HEARTH_FINGERPRINT_FAST_UNSAFE; /* no row is kept */
    options.progress = progress;
    options.progress_user_data = progress_user_data;
    status = hearth_runtime_open(&runtime_options, &runtime, err);
    if (status == HEARTH_OK)
        status = hearth_model_load(runtime, path, &options, &model, err);
    if (status == HEARTH_OK)
        status = check_model(model, n_tokens, err);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return status;
}
