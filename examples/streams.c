/* streams.c - several prompts at once, each reply read at its own pace: streams MODEL PROMPT... */
#include <hearth.h>
#include <stdio.h>

enum { PROMPTS_MAX = 8, PATIENCE_MS = 600000 };

int main(int argc, char **argv)
{
    hearth_stream *streams[PROMPTS_MAX] = { NULL };
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_error err = { .status = HEARTH_OK };
    int n = argc - 2;

    if (n < 1 || n > PROMPTS_MAX) {
        fprintf(stderr, "usage: streams MODEL PROMPT... (at most %d)\n", PROMPTS_MAX);
        return 2;
    }
    request.n_predict = 40;
    sampling.temperature = 0;
    request.sampling = &sampling;
    if (hearth_runtime_open(NULL, &runtime, &err) == HEARTH_OK)
        hearth_model_load(runtime, argv[1], NULL, &model, &err);
    for (int i = 0; i < n && err.status == HEARTH_OK; i++) { /* from here on all of them are generated */
        request.prompt = argv[2 + i];
        hearth_stream_open(model, &request, 0, &streams[i], &err);
    }
    for (int i = 0; i < n && err.status == HEARTH_OK; i++) {
        char text[256];
        size_t n_bytes = 1;

        printf("%s", argv[2 + i]);
        while (n_bytes > 0 &&
               hearth_stream_read(streams[i], text, sizeof(text), PATIENCE_MS, &n_bytes, &err) == HEARTH_OK)
            fwrite(text, 1, n_bytes, stdout);
        if (err.status == HEARTH_OK && hearth_stream_result(streams[i])->status != HEARTH_OK)
            err = hearth_stream_result(streams[i])->error;
        printf("\n");
    }
    if (err.status != HEARTH_OK)
        fprintf(stderr, "streams: %s\n", err.message);
    for (int i = 0; i < n; i++)
        hearth_stream_close(streams[i]);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return err.status != HEARTH_OK;
}
