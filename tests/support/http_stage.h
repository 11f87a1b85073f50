/*
 * http_stage.h - an HTTP server and its clients in one thread
 *
 * The event base turns only inside the functions below, so that a test sees and changes everything without a lock, and
 * nothing happens between two of its lines. What is waited for comes within HTH_TEST_PATIENCE_MS or fails the test.
 *
 * What the handler does is chosen by the path:
 *
 *   /hello   "hello\n"
 *   /echo    the body, with headers X-Method, X-Path, X-Tag, X-Peer, X-Length
 *   /empty   204
 *   /big     8 MiB of 'b'
 *   /headers what the test asked for with stage->add_name and add_value, and content_type
 *   /hold    nothing: the exchange is stage->held, and a watch is set
 *   /stream  the same, with its reply begun
 *   others   404
 */
#ifndef HTH_TESTS_HTTP_STAGE_H
#define HTH_TESTS_HTTP_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http.h"

/* Patience is for what never comes: instrumented, on a busy machine, all that comes may take long. */
enum { HTH_TEST_PATIENCE_MS = 120000, HTH_TEST_BIG_BYTES = 8 << 20 };

typedef struct hth_test_http {
    struct event_base *base;
    struct event *tick;
    hth_http_server *server;
    hth_http_listener *listener; /* TCP on 127.0.0.1; NULL when it is closed */
    uint16_t port;
    hth_http_exchange *held; /* the last one */
    int n_handled, n_closed, n_rooms;
    const char *add_name, *add_value, *content_type;
} hth_test_http;

void hth_test_http_open(hth_test_http *stage, const hth_http_options *options);
/* Fails the test unless all connections and exchanges are gone, which they have to be once the clients are closed. */
void hth_test_http_close(hth_test_http *stage);
/* Where the server is freed already. */
void hth_test_http_close_base(hth_test_http *stage);
/* Let what can happen now happen, for a millisecond at most. */
void hth_test_http_turn(hth_test_http *stage);
/* How often the loop wakes up in that time. */
int hth_test_http_wakes(hth_test_http *stage, uint32_t ms);

uint64_t hth_test_now_ms(void);
#define hth_test_http_until(stage, condition)                             \
    do {                                                                  \
        uint64_t hth_deadline = hth_test_now_ms() + HTH_TEST_PATIENCE_MS; \
        while (!(condition)) {                                            \
            assert_true(hth_test_now_ms() < hth_deadline);                \
            hth_test_http_turn(stage);                                    \
        }                                                                 \
    } while (0)

typedef struct hth_test_client {
    hth_test_http *stage;
    int fd;
    struct ssl_st *ssl; /* NULL: plain */
    char *heard;        /* all that came, NUL-terminated */
    size_t n_heard;
    size_t heard_capacity;
    bool is_at_end;
    bool was_reset;
} hth_test_client;

void hth_test_client_open(hth_test_client *client, hth_test_http *stage);
/* Connected already, and taken. */
void hth_test_client_open_fd(hth_test_client *client, hth_test_http *stage, int fd);
void hth_test_client_close(hth_test_client *client);
/* All of it, while the server works. */
void hth_test_client_say(hth_test_client *client, const char *text);
void hth_test_client_say_bytes(hth_test_client *client, const void *bytes, size_t n);
/* Whatever is there now. */
void hth_test_client_listen(hth_test_client *client);
/*
 * Until the text has come, behind what was heard before; from where on. Fails the test when the connection ends first.
 */
const char *hth_test_client_hear(hth_test_client *client, const char *text);
/* Until the server has closed. */
void hth_test_client_hear_end(hth_test_client *client);
/* Until a whole reply (with a length, or chunked) has come; returns its status. The reply is what is heard then. */
int hth_test_client_hear_reply(hth_test_client *client);
/* Forget what was heard. */
void hth_test_client_forget(hth_test_client *client);
/* The body of the reply that was heard. */
const char *hth_test_client_body(const hth_test_client *client);

#endif
