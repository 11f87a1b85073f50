/*
 * fake_worker.h - a server on a unix socket that answers with the bytes it is told to, and breaks off where it is told
 * to
 *
 * On the test's event loop. A request is read whole (a head, and a body of Content-Length) and handed to the test,
 * which writes what it wants to: correct HTTP or not.
 */
#ifndef HTH_TESTS_FAKE_WORKER_H
#define HTH_TESTS_FAKE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;

typedef struct fake_worker fake_worker;
typedef struct fake_connection fake_connection;

typedef struct fake_request {
    const char *head; /* terminated */
    const char *body;
    size_t n_body;
} fake_request;

typedef void (*fake_handler)(fake_connection *connection, const fake_request *request, void *user_data);

fake_worker *fake_worker_new(struct event_base *base, const char *path, fake_handler handler, void *user_data);
/*
 * From now on a request is handed over when its head has come: the body is NULL, and lies unread until
 * fake_read_body, which drops it.
 */
void fake_worker_answer_early(fake_worker *worker);
void fake_read_body(fake_connection *connection);
/* Its connections, too. Accepts NULL. */
void fake_worker_free(fake_worker *worker);
size_t fake_worker_n_connections(const fake_worker *worker); /* open now */
size_t fake_worker_n_accepted(const fake_worker *worker);

/* The value of a header into value; false, and "", where there is none. */
bool fake_request_header(const fake_request *request, const char *name, char *value, size_t capacity);

/* A connection belongs to its worker, and is gone once the client or the test closed it. */
void fake_write(fake_connection *connection, const void *bytes, size_t n);
void fake_write_text(fake_connection *connection, const char *text);
/* A chunk of a chunked body; n 0: the last one. */
void fake_write_chunk(fake_connection *connection, const void *bytes, size_t n);
/* Close it once everything is written. */
void fake_end(fake_connection *connection);
/* Called when the client closes it; may be NULL. */
void fake_on_gone(fake_connection *connection, void (*on_gone)(void *user_data), void *user_data);

/* Above 0 while code of this file runs, the test's handler included: what fails on purpose does not fail there. */
extern volatile int fake_worker_depth;

/* Turn the loop until *flag, or fail the test after 20 s. */
void fake_loop_until(struct event_base *base, const bool *flag);
/* Turn the loop as long as there is something to do at once. */
void fake_loop_turn(struct event_base *base);

#endif
