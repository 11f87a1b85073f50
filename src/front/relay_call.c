#include "front/relay_call.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void hth_relay_call_add(hth_relay_call *call, const char *name, const char *value)
{
    if (!value)
        return;
    assert(call->request.n_headers < HTH_RELAY_HEADERS_MAX);
    call->headers[call->request.n_headers++] = (hth_upstream_header){ .name = name, .value = value };
}

void hth_relay_call_add_number(hth_relay_call *call, const char *name, uint64_t number)
{
    char *text = call->numbers[call->n_numbers];

    assert(call->n_numbers < HTH_RELAY_NUMBERS_MAX);
    (void)snprintf(text, HTH_RELAY_NUMBER_BYTES, "%llu", (unsigned long long)number); /* fits */
    call->n_numbers++;
    hth_relay_call_add(call, name, text);
}

void hth_relay_call_add_piece(hth_relay_call *call, hth_relay_piece piece, const char *name, const void *bytes,
                              size_t n)
{
    call->request.body[piece] = bytes;
    call->request.body_bytes[piece] = n;
    hth_relay_call_add_number(call, name, n);
}

void hth_relay_call_init(hth_relay_call *call, const hth_relay_request *asked, const hth_relay_body *body,
                         const hth_node *node, const char *socket_path, const char *own_name)
{
    hth_upstream_request *request = &call->request;

    static_assert((int)HTH_PIECE_BODY + 1 == (int)HTH_UPSTREAM_PIECES, "each part is a piece");
    call->n_numbers = 0;
    *request = (hth_upstream_request){
        .socket_path = socket_path, .method = asked->method, .target = asked->target, .headers = call->headers
    };
    if (strcmp(asked->method, "POST") == 0) { /* other methods have no body; libcurl would not send HEAD with one */
        request->body[HTH_PIECE_BODY] = body->bytes;
        request->body_bytes[HTH_PIECE_BODY] = body->n;
    }
    if (node) {
        request->node = hth_node_address(node);
        request->method = "POST";
        request->target = HTH_FLEET_ASK_PATH;
        hth_relay_call_add(call, HTH_HEADER_FROM, own_name);
        hth_relay_call_add(call, HTH_HEADER_MODEL, asked->model);
        hth_relay_call_add(call, HTH_HEADER_METHOD, asked->method);
        hth_relay_call_add(call, HTH_HEADER_TARGET, asked->target);
    }
    hth_relay_call_add(call, "Content-Type", body->type ? body->type : "application/json");
    hth_relay_call_add(call, HTH_HEADER_REQUEST_ID, asked->request_id);
    hth_relay_call_add(call, "traceparent", asked->traceparent);
    hth_relay_call_add(call, HTH_HEADER_SALT, asked->salt);
    hth_relay_call_add(call, HTH_HEADER_ADAPTER, asked->names_adapter ? "1" : NULL);
    if (asked->past_bytes > 0)
        hth_relay_call_add_piece(call, HTH_PIECE_PAST, HTH_HEADER_PAST, asked->past, asked->past_bytes);
}
