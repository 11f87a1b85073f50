/*
 * request.c - copying and checking of requests
 */
#include "sched/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "engine/sampling.h"

enum { STOPS_MAX = 64, STOP_BYTES_MAX = 1024 };

static hearth_status copy_stops(hth_request *request, const hearth_request *from, hearth_error *err)
{
    if (from->n_stop > STOPS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "%zu stop texts; at most %d are allowed", from->n_stop, STOPS_MAX);
    request->stop = calloc(from->n_stop ? from->n_stop : 1, sizeof(*request->stop));
    if (!request->stop)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stop texts");
    for (; request->n_stop < from->n_stop; request->n_stop++) {
        const char *text = from->stop ? from->stop[request->n_stop] : NULL;

        if (!text || strnlen(text, STOP_BYTES_MAX + 1) > STOP_BYTES_MAX)
            return hth_fail(err, HEARTH_MISUSE, "stop text %zu is missing or longer than %d bytes", request->n_stop,
                            STOP_BYTES_MAX);
        request->stop[request->n_stop] = strdup(text);
        if (!request->stop[request->n_stop])
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the stop texts");
    }
    return HEARTH_OK;
}

hearth_status hth_request_new(const hearth_request *from, hearth_token *tokens_take, size_t n_tokens, uint64_t id,
                              hth_request **out, hearth_error *err)
{
    hth_request *request = calloc(1, sizeof(*request));
    hearth_status status;

    if (!request) {
        free(tokens_take);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
    }
    request->id = id;
    request->prompt = tokens_take;
    request->n_prompt = (uint32_t)n_tokens;
    request->n_predict = from->n_predict;
    request->ignore_eos = from->ignore_eos;
    request->no_cache_read = from->no_cache_read;
    request->sampling = from->sampling;
    request->on_text = from->on_text;
    request->on_progress = from->on_progress;
    request->on_done = from->on_done;
    request->user_data = from->user_data;
    request->submitted_ns = hth_os_monotonic_ns();
    if (from->parent_key) {
        request->has_parent_key = true;
        memcpy(request->parent_key, from->parent_key, sizeof(request->parent_key));
    }
    if (from->n_predict < -1)
        status = hth_fail(err, HEARTH_MISUSE, "n_predict is %d; it must be -1 (no limit) or more", from->n_predict);
    else
        status = hth_sampling_check(&from->sampling, err);
    if (status == HEARTH_OK)
        status = copy_stops(request, from, err);
    if (status != HEARTH_OK) {
        hth_request_free(request);
        return status;
    }
    *out = request;
    return HEARTH_OK;
}

void hth_request_free(hth_request *request)
{
    if (!request)
        return;
    for (size_t i = 0; i < request->n_stop; i++)
        free(request->stop[i]);
    free(request->stop);
    free(request->prompt);
    free(request);
}
