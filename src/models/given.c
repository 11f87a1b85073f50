#include "models/given.h"

#include <stdlib.h>
#include <string.h>

#include "base/structs.h"
#include "models/model.h"

enum {
    TURNS_MAX = 16384,
    PARTS_MAX = 16384,
};

/* ---- requests ---- */

static hearth_status read_sampling(const hearth_sampling *sampling, hth_given_request *out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    out->sampling = hearth_sampling_default();
    if (sampling)
        status = hth_struct_read(&out->sampling, sizeof(out->sampling), sampling, "hearth_sampling", err);
    out->request.sampling = &out->sampling;
    sampling = &out->sampling;
    if (status != HEARTH_OK || !sampling->triggers || sampling->n_triggers > HTH_TRIGGERS_MAX)
        return status; /* hth_sampling_check refuses too many triggers */
    memset(out->triggers, 0, sampling->n_triggers * sizeof(out->triggers[0])); /* fields that an older caller lacks */
    status = hth_structs_read(out->triggers, sizeof(out->triggers[0]), sampling->triggers, sampling->n_triggers,
                              "hearth_trigger", err);
    out->sampling.triggers = out->triggers;
    return status;
}

/* Copy the parts of a rendered conversation to the fields of the request. */
static hearth_status read_chat(hth_given_request *out, hearth_error *err)
{
    hearth_request *request = &out->request;
    hearth_sampling *sampling = &out->sampling;
    const hearth_chat_prompt *chat = request->chat;

    if (request->prompt)
        return hth_fail(err, HEARTH_MISUSE, "a request with chat has its text as the prompt; set prompt to NULL");
    if (sampling->n_shown_tokens > 0 || (chat->grammar && (sampling->grammar || sampling->json_schema)))
        return hth_fail(err, HEARTH_MISUSE,
                        "the rendered conversation has a grammar or shown tokens, and sampling has "
                        "others; leave those of sampling out");
    if (request->n_stop > HTH_STOPS_MAX || chat->n_stop > HTH_STOPS_MAX - request->n_stop)
        return hth_fail(err, HEARTH_MISUSE,
                        "stop has %zu texts, and the chat template has %zu; at most %d are allowed together",
                        request->n_stop, chat->n_stop, HTH_STOPS_MAX);
    for (size_t i = 0; i < request->n_stop; i++)
        out->stop[i] = request->stop ? request->stop[i] : NULL; /* hth_request_new refuses NULL */
    for (size_t i = 0; i < chat->n_stop; i++)
        out->stop[request->n_stop + i] = chat->stop[i];
    request->n_stop += chat->n_stop;
    request->stop = out->stop;
    sampling->shown_tokens = chat->shown_tokens;
    sampling->n_shown_tokens = chat->n_shown_tokens;
    if (chat->grammar) {
        sampling->grammar = chat->grammar;
        sampling->grammar_prefix = chat->grammar_prefix;
        sampling->grammar_is_lazy = chat->grammar_is_lazy;
        sampling->triggers = chat->triggers;
        sampling->n_triggers = chat->n_triggers;
    }
    if (!sampling->thinking_end) {
        sampling->thinking_begin = chat->thinking_begin;
        sampling->thinking_end = chat->thinking_end;
        sampling->starts_thinking = chat->starts_thinking;
    }
    if (!request->tokens) {
        request->prompt = chat->text;
        request->tokenize_flags = HTH_TOKENIZE_CHAT;
    }
    return HEARTH_OK;
}

hearth_status hth_given_request_read(const hearth_request *request, hth_given_request *out, hearth_error *err)
{
    hearth_request *given = &out->request;
    hearth_status status;

    *given = hearth_request_default();
    if (!request)
        return hth_fail(err, HEARTH_MISUSE, "the request is NULL");
    status = hth_struct_read(given, sizeof(*given), request, "hearth_request", err);
    if (status == HEARTH_OK)
        status = read_sampling(given->sampling, out, err);
    if (status != HEARTH_OK)
        return status;
    if (given->chat)
        status = read_chat(out, err);
    if (status == HEARTH_OK && !given->prompt == !given->tokens)
        return hth_fail(err, HEARTH_MISUSE, "a request needs one of prompt, tokens and chat");
    if (given->n < 1 || given->n > HTH_REPLIES_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n is %u; it must be 1 to %d", given->n, HTH_REPLIES_MAX);
    return status;
}

/* ---- conversations ---- */

static hearth_status check_counts(const hearth_conversation *c, hearth_error *err)
{
    if (!c->turns || c->n_turns == 0 || c->n_turns > TURNS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a conversation has 1 to %d turns, not %zu", TURNS_MAX, c->n_turns);
    if ((!c->tools && c->n_tools > 0) || c->n_tools > HTH_TOOLS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a conversation has at most %d tools, not %zu", HTH_TOOLS_MAX, c->n_tools);
    return HEARTH_OK;
}

/* Copy the calls of all turns into one array, which the turns then point into. */
static hearth_status read_calls(hth_given_conversation *out, hearth_error *err)
{
    size_t n_turns = out->conversation.n_turns, n = 0;
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < n_turns; i++) {
        const hearth_chat_turn *turn = &out->turns[i];

        if ((!turn->parts && turn->n_parts > 0) || (!turn->calls && turn->n_calls > 0) ||
            turn->n_calls > HTH_CALLS_MAX || turn->n_parts > PARTS_MAX)
            return hth_fail(err, HEARTH_MISUSE, "turn %zu has more than %d calls or %d parts, or an array that is NULL",
                            i, HTH_CALLS_MAX, PARTS_MAX);
        n += turn->n_calls;
    }
    out->calls = calloc(n + 1, sizeof(*out->calls));
    if (!out->calls)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a conversation");
    n = 0;
    for (size_t i = 0; i < n_turns && status == HEARTH_OK; i++) {
        hearth_chat_turn *turn = &out->turns[i];

        status = hth_structs_read(&out->calls[n], sizeof(out->calls[0]), turn->calls, turn->n_calls, "hearth_chat_call",
                                  err);
        turn->calls = &out->calls[n];
        n += turn->n_calls;
    }
    return status;
}

static hearth_status read_arrays(hth_given_conversation *out, hearth_error *err)
{
    hearth_conversation *c = &out->conversation;
    hearth_status status;

    out->turns = calloc(c->n_turns, sizeof(*out->turns));
    out->tools = calloc(c->n_tools + 1, sizeof(*out->tools));
    if (!out->turns || !out->tools)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a conversation");
    status = hth_structs_read(out->turns, sizeof(out->turns[0]), c->turns, c->n_turns, "hearth_chat_turn", err);
    if (status == HEARTH_OK)
        status = hth_structs_read(out->tools, sizeof(out->tools[0]), c->tools, c->n_tools, "hearth_chat_tool", err);
    c->turns = out->turns;
    c->tools = out->tools;
    return status == HEARTH_OK ? read_calls(out, err) : status;
}

hearth_status hth_given_conversation_read(const hearth_conversation *conversation, hth_given_conversation *out,
                                          hearth_error *err)
{
    hth_given_conversation given = { .conversation = hearth_conversation_default() };
    hearth_status status =
        hth_struct_read(&given.conversation, sizeof(given.conversation), conversation, "hearth_conversation", err);

    if (status == HEARTH_OK)
        status = check_counts(&given.conversation, err);
    if (status == HEARTH_OK)
        status = read_arrays(&given, err);
    if (status == HEARTH_OK)
        *out = given;
    else
        hth_given_conversation_free(&given);
    return status;
}

void hth_given_conversation_free(hth_given_conversation *given)
{
    free(given->turns);
    free(given->calls);
    free(given->tools);
}
