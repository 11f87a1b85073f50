/*
 * journals.h - what another node needs to go on with a reply, in the store
 *
 * A front that answers a client writes what it needs itself after the death of a worker: the request, then the tokens
 * and the bytes that the client got. When the front is gone, another one takes the journal and goes on. It need not
 * know whether the front is gone: a node that takes a journal owns it, and the old owner hears so with its next piece.
 *
 *   hearth:1:{FLEET}:stream:NAME   a list: "EPOCH NODE" of the owner, then sealed pieces (sealed.h), for keep_ms
 *   hearth:1:{FLEET}:orphans       the names of those that are taken even if nobody asks
 *
 * NAME is a digest with the secret of the fleet, of an id and of the key of the client: other clients find nothing, and
 * whoever reads the store learns no id. Nothing waits for the store. A journal sends its bytes as soon as its last
 * piece has arrived. While the store is down they wait, and a journal that waits with too many bytes, or is too long,
 * is given up: the reply goes on, but is lost with its front. Event loop only.
 */
#ifndef HTH_FLEET_JOURNALS_H
#define HTH_FLEET_JOURNALS_H

#include "api/buffer.h"
#include "base/log.h"
#include "store/store.h"

enum {
    HTH_JOURNAL_NAME_BYTES = 33,
    HTH_JOURNAL_WAITING_BYTES_MAX = 4 << 20, /* of one that waits for the store */
    HTH_JOURNAL_BYTES_MAX = 12 << 20,        /* below the bounds of a reply of the store (store_reply.h), like: */
    HTH_JOURNAL_PIECES_MAX = 100000,
};

typedef struct hth_journals hth_journals;
typedef struct hth_journal hth_journal; /* one that this node owns and writes */

typedef struct hth_journals_options {
    struct event_base *base;
    hth_store *store;  /* outlives the journals, like the rest */
    const char *fleet; /* digits, as in roster.h */
    const char *name;  /* of this node */
    const char *epoch;
    const uint8_t *secret; /* [HTH_SEAL_SECRET_BYTES], of the fleet */
    uint32_t keep_ms;      /* after the last piece */
    const hth_log *log;
    /* A journal of this name was to be taken if its owner is gone, and it is. */
    void (*on_orphan)(const char *name, void *user_data);
    void *user_data;
} hth_journals_options;

/* HEARTH_NO_MEMORY. */
hearth_status hth_journals_new(const hth_journals_options *options, hth_journals **out, hearth_error *err);
/* What could not be sent is lost. Nobody may wait for a journal. Accepts NULL. */
void hth_journals_free(hth_journals *journals);
void hth_journals_set_keep_ms(hth_journals *journals, uint32_t keep_ms);
/* Append the metrics of journals to a page of Prometheus' format. */
void hth_journals_write_metrics(const hth_journals *journals, hth_buffer *out);

/* The name of the journal about what has this id, for who has this key, [n_key]. False without memory. */
bool hth_journal_name(const hth_journals *journals, const char *id, const void *key, size_t n_key,
                      char out[HTH_JOURNAL_NAME_BYTES]);

/* ---- the writer ---- */

typedef struct hth_journal_owner {
    void (*on_lost)(void *user_data); /* another node took the journal, which is gone here; may call nothing of it */
    void *user_data;
} hth_journal_owner;

/*
 * Begin a journal with its first piece, [n]. is_for_all: any node takes it when this one is gone. NULL: the store is
 * down, or there is no memory.
 */
hth_journal *hth_journal_begin(hth_journals *journals, const char *name, bool is_for_all, const void *piece, size_t n,
                               const hth_journal_owner *owner);
/* Add bytes to the next piece. Others see pieces as a whole, or not. */
void hth_journal_add(hth_journal *journal, const void *bytes, size_t n);
/* The next piece is complete: send it now, or after the one that is on its way. Accepts NULL. */
void hth_journal_send(hth_journal *journal);
/* Stop writing, once all is sent: others may go on. on_lost is not called any more. Accepts NULL. */
void hth_journal_leave(hth_journal *journal);
/* Would another node go on if this one ended now? Of NULL: no. */
bool hth_journal_is_stored(const hth_journal *journal);
/* Nobody shall go on: remove it from the store, now or when that is up again. Accepts NULL. */
void hth_journal_drop(hth_journal *journal);
/* Remove one that this node does not write; its owner loses it. */
void hth_journals_remove(hth_journals *journals, const char *name);

/* ---- taking a journal ---- */

typedef enum hth_journal_taken {
    HTH_JOURNAL_TAKEN,
    HTH_JOURNAL_OWNED,   /* its owner is there, or is this node already */
    HTH_JOURNAL_UNKNOWN, /* there is none, or it is not whole */
    HTH_JOURNAL_NO_STORE,
} hth_journal_taken;

typedef enum hth_journal_way {
    HTH_JOURNAL_ALWAYS,
    HTH_JOURNAL_IF_ORPHAN, /* only if its owner is gone */
    HTH_JOURNAL_LOOK,      /* do not take it: only read its first piece */
} hth_journal_way;

typedef struct hth_journal_wait hth_journal_wait;

/* Lives until on_taken or hth_journal_take_cancel. */
typedef struct hth_journal_take {
    /*
     * With TAKEN: the first piece and all others, [n], together, valid during the call, and the journal, to go on with;
     * its owner is to be set (LOOK: the first piece only). Called once, later.
     */
    void (*on_taken)(hth_journal_taken taken, const void *first, size_t n_first, const void *rest, size_t n_rest,
                     hth_journal *journal, void *user_data);
    void *user_data;
    hth_journal_wait *wait; /* the journals' */
} hth_journal_take;

/* Take the journal of this name. False: the store is down, or there is no memory; nothing is called. */
bool hth_journal_take_begin(hth_journals *journals, const char *name, hth_journal_way way, hth_journal_take *take);
void hth_journal_take_cancel(hth_journal_take *take); /* accepts one that never began */
void hth_journal_set_owner(hth_journal *journal, const hth_journal_owner *owner);

#endif
