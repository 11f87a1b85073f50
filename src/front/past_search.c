/*
 * past_search.c - see past_search.h
 */
#include "front/past_search.h"

#include <string.h>

#include "wire/frames.h"

static void look_on(hth_past_search *search);

static void on_found(const void *bytes, size_t n, void *user_data)
{
    hth_past_search *search = user_data;

    if (bytes && n <= HTH_PAST_BYTES_MAX - search->records.n) /* the worker reports a record that is missing here */
        hth_buffer_add(&search->records, bytes, n);
    search->n_found++;
    if (!search->is_looking)
        look_on(search);
}

/* Look up the next records. A lookup that is answered at once is handled in the loop. */
static void look_on(hth_past_search *search)
{
    search->is_looking = true;
    while (search->n_found < search->past.n) {
        size_t n_before = search->n_found;
        const char *id = search->past.ids[n_before];
        uint8_t key[HTH_RESPONSE_KEY_BYTES];

        hth_response_key(search->owner, id, strlen(id), key);
        hth_response_store_find(search->store, key, &search->lookup);
        if (search->n_found == n_before) {
            search->is_looking = false;
            return;
        }
    }
    search->is_looking = false;
    search->on_done(search->user_data);
}

void hth_past_search_begin(hth_past_search *search)
{
    search->lookup = (hth_response_lookup){ .on_found = on_found, .user_data = search };
    look_on(search);
}

void hth_past_search_deinit(hth_past_search *search)
{
    hth_response_lookup_cancel(&search->lookup);
    hth_buffer_deinit(&search->records);
}
