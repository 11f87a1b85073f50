/* complete.c - the smallest useful program on libhearth: complete MODEL PROMPT */
#include <hearth.h>
#include <stdio.h>

static bool print_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    (void)id, (void)user_data;
    return fwrite(text, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    const hearth_result *result = NULL;
    hearth_error err;

    if (argc != 3)
        return fprintf(stderr, "usage: complete MODEL PROMPT\n"), 2;
    request.prompt = argv[2];
    request.n_predict = 40;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.on_text = print_text;
    if (hearth_runtime_open(NULL, &runtime, &err) == HEARTH_OK &&
        hearth_model_load(runtime, argv[1], NULL, &model, &err) == HEARTH_OK &&
        hearth_complete(model, &request, &result, &err) == HEARTH_OK)
        printf("\n[%u of %u prompt tokens came from the cache]\n", result->stats->cached_tokens,
               result->stats->prompt_tokens);
    else
        fprintf(stderr, "complete: %s\n", err.message);
    int failed = !result || result->status != HEARTH_OK;
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return failed;
}
