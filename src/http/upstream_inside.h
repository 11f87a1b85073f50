/*
 * upstream_inside.h - the types that the files of requests to workers share
 *
 *   upstream.c        all calls: the state of each, and whose turn it is
 *   upstream_call.c   one call: a request as libcurl's options, a reply as our callbacks
 */
#ifndef HTH_HTTP_UPSTREAM_INSIDE_H
#define HTH_HTTP_UPSTREAM_INSIDE_H

#include <curl/curl.h>

#include "api/buffer.h"
#include "http/upstream.h"
#include "http/watched_sockets.h"

typedef struct hth_call_list {
    hth_upstream_call *first; /* it joined first */
    hth_upstream_call *last;
} hth_call_list;

struct hth_upstream {
    struct event_base *base;
    CURLM *multi;
    struct event *soon;
    struct event *timer;        /* libcurl's */
    struct event *busy_timer;   /* pending while there are busy calls */
    struct event *linger_timer; /* pending while there are released calls, and a little longer */
    bool is_timer_due;          /* libcurl's timer of 0 ms */
    bool is_inside;             /* libcurl is on the stack */
    hth_call_list idle;
    size_t n_idle;
    hth_call_list queued;   /* for soon to hand over */
    hth_call_list busy;     /* for busy_timer to queue again */
    hth_call_list running;  /* libcurl has these, and the calls of the lists below */
    hth_call_list noted;    /* for soon to end or resume */
    hth_call_list released; /* their end is awaited so that the connection can be reused */
    hth_watched_sockets sockets;
    hth_upstream_numbers numbers;
};

/* The method that libcurl was set to. An option that stays is not set again. */
typedef enum hth_call_mode { HTH_CALL_NONE, HTH_CALL_GET, HTH_CALL_HEAD, HTH_CALL_POST, HTH_CALL_OTHER } hth_call_mode;

struct hth_upstream_call {
    hth_upstream *upstream;
    CURL *easy;
    hth_upstream_watch watch;
    hth_call_list *list;
    hth_upstream_call *next, *previous;

    hth_call_mode mode;
    char *socket_path; /* as libcurl was told */
    struct curl_slist *headers;
    size_t n_headers_max;
    hth_buffer header_text;
    const void *body[HTH_UPSTREAM_PIECES];
    size_t body_bytes[HTH_UPSTREAM_PIECES];
    size_t n_body_read;    /* of a long body, by libcurl */
    hth_buffer short_body; /* a copy of the pieces, which libcurl sends from here */
    bool is_short;         /* the body is in short_body, or there is none */

    bool is_handed_over; /* to libcurl */
    bool has_head;
    bool is_quiet;   /* cancelled or released: no callbacks */
    bool is_cut;     /* soon is to end it */
    bool is_paused;  /* on_bytes said "not now" */
    bool is_watched; /* libcurl waits for its socket */
    bool was_seen;   /* a released call: one look has passed it */
    uint32_t n_busy_tries;
    int open_errno; /* of its connection; 0: it did not fail there */
    size_t n_head_bytes;
    size_t n_released_bytes;
    char error_text[CURL_ERROR_SIZE];
};

/* Its constant options are set; NULL without memory. */
hth_upstream_call *hth_upstream_call_new(hth_upstream *upstream);
void hth_upstream_call_free(hth_upstream_call *call); /* out of libcurl's hands, in no list; accepts NULL */
uint64_t hth_upstream_call_body_bytes(const hth_upstream_call *call);
/* Make it this request, whatever it was before. False without memory. */
bool hth_upstream_call_set(hth_upstream_call *call, const hth_upstream_request *request,
                           const hth_upstream_watch *watch);

#endif
