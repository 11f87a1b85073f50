/*
 * store_reply.h - the replies of a store, from its bytes, within bounds
 *
 * hiredis reads the protocol (RESP2). The bounds are ours, because a store may be broken or someone else's: bytes and
 * parts of a reply, and its depth.
 */
#ifndef HTH_STORE_STORE_REPLY_H
#define HTH_STORE_STORE_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum {
    HTH_STORE_REPLY_BYTES_MAX = 16 << 20,
    HTH_STORE_REPLY_PARTS_MAX = 1 << 17, /* of a reply, all levels together */
};

typedef enum hth_store_type {
    HTH_STORE_NIL,
    HTH_STORE_INTEGER,
    HTH_STORE_TEXT,
    HTH_STORE_ERROR, /* text: "WORD and what is wrong" */
    HTH_STORE_LIST,
} hth_store_type;

typedef struct hth_store_reply hth_store_reply;
struct hth_store_reply {
    hth_store_type type;
    int64_t integer;
    const char *text; /* [n] and a 0 behind, of TEXT and ERROR; otherwise "" */
    size_t n;         /* bytes of the text, or parts of the list */
    hth_store_reply **parts;
};

/* Part i of a list; NULL: it is no list, or too short. Accepts NULL. */
const hth_store_reply *hth_store_reply_at(const hth_store_reply *reply, size_t i);
/* The text; "" of everything else. Accepts NULL. */
const char *hth_store_reply_text(const hth_store_reply *reply);
/* The integer; 0 of everything else. Accepts NULL. */
int64_t hth_store_reply_integer(const hth_store_reply *reply);

typedef struct hth_store_reader hth_store_reader;

hth_store_reader *hth_store_reader_new(void);            /* NULL without memory */
void hth_store_reader_free(hth_store_reader *reader);    /* accepts NULL */
void hth_store_reply_free(const hth_store_reply *reply); /* accepts NULL */

/* HEARTH_CORRUPT: it is not the protocol, or beyond the bounds. HEARTH_NO_MEMORY. The reader is of no use then. */
hearth_status hth_store_reader_feed(hth_store_reader *reader, const void *bytes, size_t n, hearth_error *err);
/* The next whole reply, which the caller frees; NULL: more bytes are needed. Failures as above. */
hearth_status hth_store_reader_next(hth_store_reader *reader, hth_store_reply **out, hearth_error *err);

#endif
