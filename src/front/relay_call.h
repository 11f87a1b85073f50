/*
 * relay_call.h - the request that a worker gets for a client's: the headers and the parts of its body
 *
 * A node gets the same request, and passes it on to its worker (peer_request.c). Of the parts, the client's body is the
 * last one; a header tells the length of each other one.
 */
#ifndef HTH_FRONT_RELAY_CALL_H
#define HTH_FRONT_RELAY_CALL_H

#include "fleet/nodes.h"
#include "front/proxy.h"
#include "http/upstream.h"
#include "wire/frames.h"

typedef enum hth_relay_piece {
    HTH_PIECE_KNOWN,   /* frames of another worker's reply */
    HTH_PIECE_PAST,    /* records of earlier responses */
    HTH_PIECE_HISTORY, /* the true tokens of the prompt */
    HTH_PIECE_BODY,
} hth_relay_piece;

enum { HTH_RELAY_HEADERS_MAX = 20, HTH_RELAY_NUMBERS_MAX = 8, HTH_RELAY_NUMBER_BYTES = 24 };

/* It must not move: the request points into it. */
typedef struct hth_relay_call {
    hth_upstream_request request;
    hth_upstream_header headers[HTH_RELAY_HEADERS_MAX];
    char numbers[HTH_RELAY_NUMBERS_MAX][HTH_RELAY_NUMBER_BYTES];
    size_t n_numbers;
} hth_relay_call;

/* A client's body, and who sends it. */
typedef struct hth_relay_body {
    const char *type;  /* Content-Type; NULL: JSON */
    const void *bytes; /* [n] */
    size_t n;
} hth_relay_body;

/*
 * Begin with what is needed for the prompt. node: it is asked, by the node own_name; NULL: a worker is asked, on its
 * socket. All pointers must live until the call is begun, and the bodies as long as those of upstream.h.
 */
void hth_relay_call_init(hth_relay_call *call, const hth_relay_request *asked, const hth_relay_body *body,
                         const hth_node *node, const char *socket_path, const char *own_name);
/* value NULL: nothing is added. */
void hth_relay_call_add(hth_relay_call *call, const char *name, const char *value);
void hth_relay_call_add_number(hth_relay_call *call, const char *name, uint64_t number);
/* A part of the body, and the header with its length. */
void hth_relay_call_add_piece(hth_relay_call *call, hth_relay_piece piece, const char *name, const void *bytes,
                              size_t n);

#endif
