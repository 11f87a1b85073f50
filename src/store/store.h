/*
 * store.h - a connection to Redis or Valkey, and commands with their replies
 *
 * The connection opens itself again after each failure, with growing pauses, and asks the sentinels anew where the
 * primary is. Nothing waits for it: a command of a store that is down fails at once. A store that does not answer
 * within HTH_STORE_ANSWER_MS, is a replica, or loads its data counts as down. Commands go out in order, many at once,
 * and their replies come in order. Event loop only.
 */
#ifndef HTH_STORE_STORE_H
#define HTH_STORE_STORE_H

#include "base/log.h"
#include "store/store_reply.h"

struct event_base;

typedef struct hth_store hth_store;
typedef struct hth_store_call hth_store_call;

enum {
    HTH_STORE_ANSWER_MS = 2000,
    HTH_STORE_HOST_BYTES = 64,
};

typedef struct hth_store_options {
    struct event_base *base;
    const char *url;                    /* store_url.h; copied, like all texts here */
    const char *password_file;          /* its first line is the password; NULL: that of the url */
    const char *authorities;            /* for TLS: a PEM file; NULL: the system's */
    const hth_log *log;                 /* outlives the store */
    void (*on_change)(void *user_data); /* it is up, or down, now. Commands may be asked within it */
    void *user_data;
} hth_store_options;

/*
 * The first one only reads all that the options name. HEARTH_MISUSE: no url of a store. HEARTH_NOT_FOUND,
 * HEARTH_PERMISSION, HEARTH_CORRUPT: a file cannot be read, or is something else. HEARTH_NO_MEMORY.
 */
hearth_status hth_store_check(const char *url, const char *password_file, const char *authorities, hearth_error *err);
hearth_status hth_store_new(const hth_store_options *options, hth_store **out, hearth_error *err);
void hth_store_free(hth_store *store);  /* its calls are cancelled; accepts NULL */
void hth_store_begin(hth_store *store); /* connects, in the background */

bool hth_store_is_up(const hth_store *store);
const char *hth_store_why(const hth_store *store);     /* of a store that is down; "" at the beginning, and while up */
const char *hth_store_address(const hth_store *store); /* "HOST:PORT" of the server in use, or of the last try */
/* The address by which this machine reaches the store. False, with "", while it is down. */
bool hth_store_own_host(const hth_store *store, char out[HTH_STORE_HOST_BYTES]);

/* reply is valid during the call; NULL: there is none, and whether the store executed the command is not known. */
typedef void (*hth_store_reply_fn)(const hth_store_reply *reply, void *user_data);
/*
 * Send a command: words, [n], of lengths, [n]; NULL: texts. on_reply is called once, later, unless the call is
 * cancelled; it must not free the store. NULL, and no callback: the store is down or too far behind, or there is no
 * memory.
 */
hth_store_call *hth_store_ask(hth_store *store, const char *const *words, const size_t *lengths, size_t n,
                              hth_store_reply_fn on_reply, void *user_data);
/* The command may be executed all the same. Accepts NULL. Not after on_reply. */
void hth_store_call_cancel(hth_store_call *call);

#endif
