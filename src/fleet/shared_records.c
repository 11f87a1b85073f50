#include "fleet/shared_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/roster.h"
#include "fleet/sealed.h"

enum { NAME_BYTES = 160 };

struct hth_shared_records {
    hth_store *store;
    const char *fleet;
    const uint8_t *secret;
};

/* The name in the store. False without memory for its key. */
static bool name_of(const hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES], char name[NAME_BYTES],
                    hth_seal *seal)
{
    char digits[2 * HTH_SHA256_BYTES + 1];

    hth_hex_encode(key, HTH_SHA256_BYTES, digits);
    (void)snprintf(name, NAME_BYTES, HTH_ROSTER_KEY "response:%s", records->fleet, digits); /* fits */
    return hth_seal_init(seal, records->secret, name);
}

hth_shared_records *hth_shared_records_new(hth_store *store, const char *fleet, const uint8_t *secret)
{
    hth_shared_records *records = calloc(1, sizeof(*records));

    if (records)
        *records = (hth_shared_records){ .store = store, .fleet = fleet, .secret = secret };
    return records;
}

void hth_shared_records_free(hth_shared_records *records)
{
    free(records);
}

void hth_shared_records_put(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES], const void *bytes,
                            size_t n)
{
    hth_buffer sealed = { .text = NULL };
    char name[NAME_BYTES], seconds[16];
    hth_seal seal;

    if (n > HTH_SHARED_RECORD_BYTES_MAX || !hth_store_is_up(records->store) || !name_of(records, key, name, &seal))
        return;
    hth_seal_add(&seal, 0, bytes, n, &sealed);
    hth_seal_deinit(&seal);
    (void)snprintf(seconds, sizeof(seconds), "%d", HTH_SHARED_RECORD_S); /* fits */
    if (!sealed.failed) {
        const char *const words[] = { "SET", name, sealed.text, "EX", seconds };
        const size_t lengths[] = { 3, strlen(name), sealed.n, 2, strlen(seconds) };

        (void)hth_store_ask(records->store, words, lengths, 5, NULL, NULL);
    }
    hth_buffer_deinit(&sealed);
}

void hth_shared_records_remove(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES])
{
    char name[NAME_BYTES];
    const char *const words[] = { "DEL", name };
    hth_seal seal;

    if (name_of(records, key, name, &seal))
        (void)hth_store_ask(records->store, words, NULL, 2, NULL, NULL);
    hth_seal_deinit(&seal);
}

static void on_reply(const hth_store_reply *reply, void *user_data)
{
    hth_shared_lookup *lookup = user_data;
    hth_buffer record = { .text = NULL };
    char name[NAME_BYTES];
    hth_seal seal;
    bool ok;

    lookup->call = NULL;
    ok = reply && reply->type == HTH_STORE_TEXT && name_of(lookup->records, lookup->key, name, &seal);
    if (ok) {
        ok = hth_seal_open(&seal, 0, reply->text, reply->n, &record);
        hth_seal_deinit(&seal);
    }
    lookup->on_found(ok ? hth_buffer_text(&record) : NULL, ok ? record.n : 0, lookup->user_data);
    hth_buffer_deinit(&record);
}

bool hth_shared_records_find(hth_shared_records *records, const uint8_t key[HTH_SHA256_BYTES],
                             hth_shared_lookup *lookup)
{
    char name[NAME_BYTES];
    const char *const words[] = { "GET", name };
    hth_seal seal;

    lookup->records = records;
    memcpy(lookup->key, key, sizeof(lookup->key));
    lookup->call = NULL;
    if (name_of(records, key, name, &seal))
        lookup->call = hth_store_ask(records->store, words, NULL, 2, on_reply, lookup);
    hth_seal_deinit(&seal);
    return lookup->call != NULL;
}

void hth_shared_lookup_cancel(hth_shared_lookup *lookup)
{
    hth_store_call_cancel(lookup->call);
    lookup->call = NULL;
}
