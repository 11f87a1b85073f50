/* streams.c - several prompts at once, told by one queue of events as they are generated: streams MODEL PROMPT... */
#include <hearth.h>
#include <stdio.h>

enum { PROMPTS_MAX = 8, EVENTS_MAX = 64 };

typedef struct reply {
    char text[1 << 14]; /* what has come so far */
    size_t n;
} reply;

int main(int argc, char **argv)
{
    static reply replies[PROMPTS_MAX];
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_events *queue = NULL;
    hearth_error err = { .status = HEARTH_OK };
    int n = argc - 2, n_running = 0;

    if (n < 1 || n > PROMPTS_MAX)
        return fprintf(stderr, "usage: streams MODEL PROMPT... (at most %d)\n", PROMPTS_MAX), 2;
    if (hearth_runtime_open(NULL, &runtime, &err) == HEARTH_OK &&
        hearth_model_load(runtime, argv[1], NULL, &model, &err) == HEARTH_OK)
        hearth_events_open(NULL, &queue, &err);
    request.n_predict = 40;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.events = queue;
    for (int i = 0; i < n && err.status == HEARTH_OK; i++) { /* from here on all of them are generated */
        request.prompt = argv[2 + i];
        request.user_data = &replies[i];
        n_running += hearth_submit(model, &request, NULL, &err) == HEARTH_OK;
    }
    while (n_running > 0 && err.status == HEARTH_OK) {
        const hearth_event *events[EVENTS_MAX];
        size_t n_events = 0;

        hearth_events_take(queue, events, EVENTS_MAX, UINT32_MAX, &n_events, &err);
        for (size_t i = 0; i < n_events; i++) {
            reply *told = events[i]->user_data; /* text is that of tokens, and of what was held back */
            for (size_t k = 0; k < events[i]->n_bytes && told->n + 1 < sizeof(told->text); k++)
                told->text[told->n++] = events[i]->text[k];
            n_running -= events[i]->kind == HEARTH_EVENT_DONE;
            if (events[i]->status != HEARTH_OK)
                err = *events[i]->error;
        }
    }
    for (int i = 0; i < n && err.status == HEARTH_OK; i++)
        printf("%s%s\n", argv[2 + i], replies[i].text);
    if (err.status != HEARTH_OK)
        fprintf(stderr, "streams: %s\n", err.message);
    hearth_events_close(queue); /* cancels what still runs */
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return err.status != HEARTH_OK;
}
