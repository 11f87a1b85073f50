/*
 * given.h - copy the caller's structs into this version's structs
 *
 * A caller may have been compiled with another version of hearth.h. So requests and conversations, with their arrays of
 * structs, are copied into structs of this library's size. All other code uses the copies. The copies point to the
 * caller's texts and arrays of numbers. Any thread.
 */
#ifndef HTH_MODELS_GIVEN_H
#define HTH_MODELS_GIVEN_H

#include "sampling/sampling.h"
#include "sched/request.h"

enum {
    HTH_TOOLS_MAX = 4096, /* in one conversation; each name is compared with all others */
    HTH_CALLS_MAX = 128,  /* in one turn */
    HTH_TOOL_NAME_BYTES_MAX = 128,
};

typedef struct hth_given_request {
    hearth_request request; /* its sampling is never NULL, and points to the next field; its chat is NULL */
    hearth_sampling sampling;
    hearth_trigger triggers[HTH_TRIGGERS_MAX];
    const char *stop[HTH_STOPS_MAX]; /* including those of a rendered conversation */
} hth_given_request;

/*
 * HEARTH_MISUSE or HEARTH_UNSUPPORTED for a wrong struct_size, if there is not exactly one prompt, or if chat
 * contradicts sampling. *out must not be moved, because it points into itself.
 */
hearth_status hth_given_request_read(const hearth_request *request, hth_given_request *out, hearth_error *err);

typedef struct hth_given_conversation {
    hearth_conversation conversation; /* its arrays are the next fields */
    hearth_chat_turn *turns;
    hearth_chat_call *calls; /* of all turns */
    hearth_chat_tool *tools;
} hth_given_conversation;

/*
 * HEARTH_MISUSE or HEARTH_UNSUPPORTED for a wrong struct_size or number of elements; HEARTH_NO_MEMORY. After success
 * call hth_given_conversation_free.
 */
hearth_status hth_given_conversation_read(const hearth_conversation *conversation, hth_given_conversation *out,
                                          hearth_error *err);
void hth_given_conversation_free(hth_given_conversation *given);

#endif
