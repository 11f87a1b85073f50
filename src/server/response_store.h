/*
 * response_store.h - responses that clients may ask for again, or go on from
 *
 * A record is kept under a key that is made of who asked for it and its id, so that nobody else finds it, and its file's
 * name tells nothing. It goes when it is removed, when it is too old, or when newer ones need its room. Without a
 * directory records are kept in memory, and end with the server.
 *
 * With a directory, each is a file of its own that is there whole or not at all (base/whole_file.h), and is written and
 * read by one thread, one after the other: who asks for what was put just now gets it.
 *
 *    0  u8[4]  "HRF1"
 *    4  u32    CRC32C of the record
 *    8  u64    when it was put, Unix seconds
 *   16         the record
 *
 * All functions are the event loop's.
 */
#ifndef HTH_SERVER_RESPONSE_STORE_H
#define HTH_SERVER_RESPONSE_STORE_H

#include "base/hash.h"
#include "base/log.h"

struct event_base;

typedef struct hth_response_store hth_response_store;

typedef struct hth_response_store_options {
    struct event_base *base;
    const char *directory; /* NULL: memory. Made where there is none, mode 0700 */
    uint64_t bytes_max;    /* of all records; 0: nothing is kept */
    uint32_t days_max;
    const hth_log *log;
} hth_response_store_options;

/* Options but for strings are copied; strings too. HEARTH_NO_MEMORY, HEARTH_PERMISSION, HEARTH_IO: the directory's. */
hearth_status hth_response_store_new(const hth_response_store_options *options, hth_response_store **out,
                                     hearth_error *err);
/* What was put is written before. Lookups were cancelled. Accepts NULL. */
void hth_response_store_free(hth_response_store *store);

enum { HTH_RESPONSE_OWNER_BYTES = 32 };

/* The key of a response's id for who asked for it. */
void hth_response_key(const uint8_t owner[HTH_RESPONSE_OWNER_BYTES], const char *id, size_t n_id,
                      uint8_t key[HTH_SHA256_BYTES]);

/* Keep a record, in place of one with the same key. Copied. One that cannot be kept is not: that is logged. */
void hth_response_store_put(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES], const void *bytes,
                            size_t n);
void hth_response_store_remove(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES]);

typedef struct hth_response_job hth_response_job;

/* One who asks; lives until he is answered or gives up. */
typedef struct hth_response_lookup {
    /* bytes NULL: there is none. Valid during the call. May come before hth_response_store_find returns. */
    void (*on_found)(const void *bytes, size_t n, void *user_data);
    void *user_data;
    hth_response_job *job; /* the store's */
} hth_response_lookup;

void hth_response_store_find(hth_response_store *store, const uint8_t key[HTH_SHA256_BYTES],
                             hth_response_lookup *lookup);
void hth_response_lookup_cancel(hth_response_lookup *lookup); /* on_found is not called any more */

/* For pages: how many are kept, and their bytes. */
size_t hth_response_store_n(const hth_response_store *store, uint64_t *bytes_out);

#endif
