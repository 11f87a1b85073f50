/*
 * history_ask.h - the question to another node, or to this node's worker, what it knows of a prompt
 *
 * It delays its request, so it has half a second. An answer that is late, wrong or too long is none. The question loads
 * no model. Event loop only.
 */
#ifndef HTH_FRONT_HISTORY_ASK_H
#define HTH_FRONT_HISTORY_ASK_H

#include "api/buffer.h"
#include "front/ask_counts.h"
#include "front/places.h"
#include "http/upstream.h"

typedef struct hth_history_ask hth_history_ask;

enum { HTH_ASK_TIMEOUT_MS = 500, HTH_ASK_HEADERS_MAX = 24 };

typedef struct hth_history_ask_options {
    hth_upstream *upstream;
    hth_places *places;
    const char *model;    /* its name at the node; lives as long as the question */
    const hth_node *node; /* NULL: this node's worker is asked */
    /*
     * The request whose prompt it is, as the node or the worker would get it, but for the socket; at most
     * HTH_ASK_HEADERS_MAX - 1 headers. It is copied, except the pieces of its body.
     */
    const hth_upstream_request *request;
    size_t bytes_max; /* of the answer */
    /* The question is over. history has the form of history_part.h, and is taken; empty unless it ended WELL. */
    void (*on_end)(hth_ask_end end, hth_buffer *history_take, void *user_data);
    void *user_data;
} hth_history_ask_options;

/* Ask. on_end is not called before this returns. NULL: it cannot be asked. */
hth_history_ask *hth_history_ask_begin(const hth_history_ask_options *options);
/* A piece of the body has moved: hth_upstream_move_body. */
void hth_history_ask_move_body(hth_history_ask *ask, size_t piece, const void *bytes);
/* End it without a callback. Accepts NULL. */
void hth_history_ask_cancel(hth_history_ask *ask);

#endif
