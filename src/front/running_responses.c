/*
 * running_responses.c - see running_responses.h
 */
#include "front/running_responses.h"

#include <string.h>
#include <utlist.h>

/* Store the response with this final status, without its own end. */
static void put_ended(hth_running_response *one, const char *status, const char *why)
{
    hth_response_record record;
    hth_buffer out = { .text = NULL };

    if (hth_response_record_read(hth_buffer_text(&one->record), one->record.n, &record) &&
        hth_response_record_add_ended(&out, &record, status, why))
        hth_response_store_put(one->store, one->key, out.text, out.n);
    hth_buffer_deinit(&out);
}

void hth_running_begin(hth_running_response *one, hth_running_response **list, hth_response_store *store,
                       const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *record, size_t n)
{
    if (one->list)
        return; /* another worker sends it again */
    hth_buffer_add(&one->record, record, n);
    if (one->record.failed) {
        hth_buffer_deinit(&one->record);
        return;
    }
    one->list = list;
    one->store = store;
    memcpy(one->key, key, HTH_RESPONSE_KEY_BYTES);
    DL_APPEND(*list, one);
    put_ended(one, "failed", "the server ended before the response did");
}

void hth_running_end(hth_running_response *one)
{
    if (one->list)
        DL_DELETE(*one->list, one);
    one->list = NULL;
    hth_buffer_deinit(&one->record);
}

void hth_running_fail(hth_running_response *one, const char *why)
{
    if (one->list)
        put_ended(one, "failed", why);
    hth_running_end(one);
}

void hth_running_cancel(hth_running_response *one)
{
    hth_relay *relay = one->relay;

    put_ended(one, "cancelled", NULL);
    hth_running_end(one);
    if (relay)
        hth_proxy_cancel(relay);
}

hth_running_response *hth_running_find(hth_running_response *list, const uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    hth_running_response *one;

    DL_FOREACH(list, one)
    {
        if (memcmp(one->key, key, HTH_RESPONSE_KEY_BYTES) == 0)
            return one;
    }
    return NULL;
}
