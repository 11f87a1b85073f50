/*
 * response_store.h - stored responses that clients may read again or continue
 *
 * The key of a record is a hash of its owner and its id, so other owners cannot find it, and the name of its file
 * reveals nothing. A record is dropped when it is removed, when it is too old, or when newer ones need its room: then
 * the owner that holds the most loses its oldest record. Without a directory, records are kept in memory until the
 * server ends.
 *
 * In a fleet with a store, a copy of each record is there for a day (fleet/shared_records.h), where a lookup finds
 * those of other nodes.
 *
 * With a directory, each record is a file that exists completely or not at all (base/whole_file.h). One thread writes
 * and reads all files in order, so a lookup finds a record that was put just before.
 *
 *    0  u8[4]  "HRF2"
 *    4  u32    CRC32C of the record
 *    8  u64    when it was stored, Unix seconds
 *   16  u8[8]  the owner's tag; "HRF1" has none
 *   24         the record
 *
 * Event loop only.
 */
#ifndef HTH_FRONT_RESPONSE_STORE_H
#define HTH_FRONT_RESPONSE_STORE_H

#include "base/hash.h"
#include "base/log.h"
#include "fleet/shared_records.h"
#include "supervisor/server_options.h"

struct event_base;

typedef struct hth_response_store hth_response_store;

typedef struct hth_response_store_options {
    struct event_base *base;
    hth_response_limits limits;
    hth_shared_records *shared; /* NULL: none; outlives the store */
    const hth_log *log;
} hth_response_store_options;

/* Copies the options and their strings. HEARTH_NO_MEMORY; HEARTH_PERMISSION, HEARTH_IO of the directory. */
hearth_status hth_response_store_new(const hth_response_store_options *options, hth_response_store **out,
                                     hearth_error *err);
/* Writes all pending records first. Every lookup must have ended. Accepts NULL. */
void hth_response_store_free(hth_response_store *store);

/* A key ends with the tag of its owner, a tenant of the store. */
enum { HTH_RESPONSE_OWNER_BYTES = 32, HTH_RESPONSE_KEY_BYTES = HTH_SHA256_BYTES + 8 };

/* The key of a response of an owner. */
void hth_response_key(const uint8_t owner[HTH_RESPONSE_OWNER_BYTES], const char *id, size_t n_id,
                      uint8_t key[HTH_RESPONSE_KEY_BYTES]);

/* Store a copy of a record; it replaces one with the same key. A failure is logged. */
void hth_response_store_put(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *bytes,
                            size_t n);
/* Likewise, but other nodes do not find it. */
void hth_response_store_put_here(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES],
                                 const void *bytes, size_t n);
void hth_response_store_remove(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES]);

typedef struct hth_response_job hth_response_job;

/* A lookup; lives until on_found or hth_response_lookup_cancel. */
typedef struct hth_response_lookup {
    /* bytes: valid during the call; NULL: not found. May be called within hth_response_store_find. */
    void (*on_found)(const void *bytes, size_t n, void *user_data);
    void *user_data;
    hth_response_job *job; /* these are the store's */
    hth_shared_lookup shared;
} hth_response_lookup;

void hth_response_store_find(hth_response_store *store, const uint8_t key[HTH_RESPONSE_KEY_BYTES],
                             hth_response_lookup *lookup);
void hth_response_lookup_cancel(hth_response_lookup *lookup); /* on_found will not be called */

/* The number of records, and their total bytes. */
size_t hth_response_store_n(const hth_response_store *store, uint64_t *bytes_out);

#endif
