/* strategy.c - several prompts under a strategy of our own: strategy MODEL PROMPT... */
#include <hearth.h>
#include <stdio.h>

enum { PROMPTS_MAX = 8 };

/* One prompt at a time, and no reply waits for it. */
static void one_prompt(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk, uint32_t *n_tokens,
                       void *user_data)
{
    uint32_t room = n_batch;

    (void)user_data;
    for (size_t i = 0; i < n && room > 0; i++)
        if (hearth_plan_item_at(items, i)->is_decode)
            n_tokens[i] = 1, room--;
    for (size_t i = 0; i < n && room > 0; i++)
        if (!hearth_plan_item_at(items, i)->is_decode) {
            n_tokens[i] = chunk < room ? chunk : room; /* what goes beyond n_ready is cut */
            return;
        }
}

static void keep_result(uint64_t id, const hearth_result *result, void *user_data)
{
    (void)id;
    *(const hearth_result **)user_data = hearth_result_ref(result);
}

int main(int argc, char **argv)
{
    const hearth_result *results[PROMPTS_MAX] = { NULL };
    uint64_t ids[PROMPTS_MAX] = { 0 };
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_model_options options = hearth_model_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_error err = { .status = HEARTH_OK };
    int n = argc - 2;

    if (n < 1 || n > PROMPTS_MAX)
        return fprintf(stderr, "usage: strategy MODEL PROMPT... (at most %d)\n", PROMPTS_MAX), 2;
    options.strategy = "one_prompt";
    if (hearth_runtime_open(NULL, &runtime, &err) == HEARTH_OK &&
        hearth_runtime_add_strategy(runtime, options.strategy, one_prompt, NULL, &err) == HEARTH_OK)
        hearth_model_load(runtime, argv[1], &options, &model, &err);
    request.n_predict = 40;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.on_done = keep_result;
    for (int i = 0; i < n && err.status == HEARTH_OK; i++) {
        request.prompt = argv[2 + i];
        request.user_data = &results[i];
        hearth_submit(model, &request, &ids[i], &err);
    }
    for (int i = 0; i < n && err.status == HEARTH_OK; i++)
        if (hearth_wait(model, ids[i], UINT32_MAX, &err) == HEARTH_OK && results[i]->status != HEARTH_OK)
            err = results[i]->error;
        else if (err.status == HEARTH_OK)
            printf("%s%s\n", argv[2 + i], results[i]->text);
    if (err.status != HEARTH_OK)
        fprintf(stderr, "strategy: %s\n", err.message);
    hearth_model_unref(model);
    hearth_runtime_close(runtime); /* ends what still runs */
    for (int i = 0; i < n; i++)
        hearth_result_unref(results[i]);
    return err.status != HEARTH_OK;
}
