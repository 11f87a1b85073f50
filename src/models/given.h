/*
 * given.h - the caller's structs as structs of this version
 *
 * A caller may have been compiled against another hearth.h. Requests and conversations are copied, with the arrays of
 * structs in them, into structs of this library's size; everything behind works with those. Texts are not copied.
 */
#ifndef HTH_MODELS_GIVEN_H
#define HTH_MODELS_GIVEN_H

#include "engine/sampling.h"

typedef struct hth_given_request {
    hearth_request request; /* its sampling is never NULL, and points to the next field */
    hearth_sampling sampling;
    hearth_trigger triggers[HTH_TRIGGERS_MAX];
} hth_given_request;

/* HEARTH_MISUSE or HEARTH_UNSUPPORTED for its size, or without exactly one prompt. *out must stay where it is. */
hearth_status hth_given_request_read(const hearth_request *request, hth_given_request *out, hearth_error *err);

typedef struct hth_given_conversation {
    hearth_conversation conversation; /* its arrays are the next fields */
    hearth_chat_turn *turns;
    hearth_chat_call *calls; /* of all turns */
    hearth_chat_tool *tools;
} hth_given_conversation;

/*
 * HEARTH_MISUSE or HEARTH_UNSUPPORTED for a size or a number of elements; HEARTH_NO_MEMORY. To be freed after success.
 */
hearth_status hth_given_conversation_read(const hearth_conversation *conversation, hth_given_conversation *out,
                                          hearth_error *err);
void hth_given_conversation_free(hth_given_conversation *given);

#endif
