/*
 * shared_records.h - records that all nodes find, in the store, for a day
 *
 *   hearth:1:{FLEET}:response:KEY   a sealed record (sealed.h), for HTH_SHARED_RECORD_S seconds
 *
 * They are copies: the node that made a record keeps it, too, for as long as its own settings say. Event loop only.
 */
#ifndef HTH_FLEET_SHARED_RECORDS_H
#define HTH_FLEET_SHARED_RECORDS_H

#include "base/hash.h"
#include "store/store.h"

enum {
    HTH_SHARED_RECORD_S = 24 * 60 * 60,
    HTH_SHARED_RECORD_BYTES_MAX = 8 << 20, /* a longer one is not shared */
};

typedef struct hth_shared_records hth_shared_records;

/*
 * fleet: digits, as in roster.h; secret: [HTH_SEAL_SECRET_BYTES], of the fleet. All outlive the records. NULL without
 * memory.
 */
hth_shared_records *hth_shared_records_new(hth_store *store, const char *fleet, const uint8_t *secret);
void hth_shared_records_free(hth_shared_records *records); /* nobody may look one up; accepts NULL */

/* Store a record, [n], under a key; it replaces the one before. Lost if the store is down. */
void hth_shared_records_put(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES], const void *bytes,
                            size_t n);
void hth_shared_records_remove(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES]);

/* Lives until on_found or hth_shared_lookup_cancel. All zeros: not begun. */
typedef struct hth_shared_lookup {
    /* bytes: valid during the call; NULL: there is none, or the store does not answer. Called once, later. */
    void (*on_found)(const void *bytes, size_t n, void *user_data);
    void *user_data;
    hth_shared_records *records; /* these are the records' */
    uint8_t key[HTH_SHA256_BYTES];
    hth_store_call *call;
} hth_shared_lookup;

/* False: the store is down, or there is no memory; on_found is not called. */
bool hth_shared_records_find(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES],
                             hth_shared_lookup *lookup);
void hth_shared_lookup_cancel(hth_shared_lookup *lookup);

#endif
