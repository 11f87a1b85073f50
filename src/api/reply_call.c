/*
 * reply_call.c - tool calls in a reply
 */
#include <stdio.h>
#include <string.h>

#include "api/writer.h"
#include "base/grow.h"
#include "base/json_bounds.h"

/* Limits of the arguments of a call, which the model writes. */
enum { ARGUMENTS_DEPTH_MAX = 256, ARGUMENTS_VALUES_MAX = 1000000 };

/*
 * Make an id for a call that has none from the model: nine letters and digits, because the templates of some models
 * require this form when the call comes back. It depends only on the id of the reply, so that a worker that continues
 * the reply makes the same id (FNV-1a, by G. Fowler, L. C. Noll and K.-P. Vo).
 */
static void make_call_id(const hth_api_reply *reply, const hth_api_choice *choice, char id[10])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char text[128];
    int n = snprintf(text, sizeof(text), "%s/%zu/%zu", reply->id, choice->index, choice->n_calls); /* fits */

    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    for (int i = 0; i < 9; i++, hash /= 36)
        id[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
    id[9] = '\0';
}

bool hth_api_call_add(const hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta)
{
    hth_api_call *calls = hth_grown(choice->calls, choice->n_calls, &choice->calls_capacity, sizeof(*calls)), *call;

    if (!calls)
        return false;
    choice->calls = calls;
    call = &calls[choice->n_calls];
    *call = (hth_api_call){ .arguments = { .text = NULL } };
    (void)snprintf(call->name, sizeof(call->name), "%.256s",
                   reply->request->responses ? delta->text /* the Responses API has its own table */
                                             : hth_api_given_name(reply->request, delta->text)); /* fits */
    if (delta->id[0] && strlen(delta->id) < sizeof(call->id))
        (void)snprintf(call->id, sizeof(call->id), "%s", delta->id); /* fits */
    else
        make_call_id(reply, choice, call->id);
    choice->n_calls++;
    return true;
}

json_t *hth_api_call_arguments(const hth_api_call *call)
{
    const char *text = hth_buffer_text(&call->arguments);
    json_t *arguments = NULL;

    if (hth_json_is_within(text, call->arguments.n, ARGUMENTS_DEPTH_MAX, ARGUMENTS_VALUES_MAX))
        arguments = json_loadb(text, call->arguments.n, JSON_ALLOW_NUL, NULL);
    if (json_is_object(arguments))
        return arguments;
    json_decref(arguments);
    return NULL;
}
