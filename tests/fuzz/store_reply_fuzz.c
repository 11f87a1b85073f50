/*
 * store_reply_fuzz.c - any bytes as the replies of a store, and as leases in them
 *
 * What must hold: bytes in two pieces give the same replies as at once; a reply is within the bounds; a lease that was
 * read lies within its text.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/roster.h"
#include "store/store_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* The parts of a reply, itself included. Checks each. */
static size_t walk(const hth_store_reply *reply, int depth)
{
    size_t n = 1;
    hth_lease lease;

    require(depth < 10);
    if (reply->type == HTH_STORE_LIST) {
        for (size_t i = 0; i < reply->n; i++)
            n += walk(hth_store_reply_at(reply, i), depth + 1);
        return n;
    }
    require(strlen(reply->text) <= reply->n && reply->text[reply->n] == '\0');
    if (hth_lease_read(reply->text, reply->n, &lease))
        require(lease.page > reply->text && lease.page + lease.n_page == reply->text + reply->n &&
                strlen(lease.epoch) == 32 && lease.address[0] != '\0');
    return n;
}

/* Read all replies of the bytes, which come in two pieces. Returns the parts of all, and sets the end. */
static size_t read_all(const uint8_t *bytes, size_t n_bytes, size_t n_first, hearth_status *status)
{
    hth_store_reader *reader = hth_store_reader_new();
    hth_store_reply *reply;
    size_t n_parts = 0;

    require(reader != NULL);
    *status = HEARTH_OK;
    for (int piece = 0; piece < 2 && *status == HEARTH_OK; piece++) {
        *status = piece == 0 ? hth_store_reader_feed(reader, bytes, n_first, NULL)
                             : hth_store_reader_feed(reader, bytes + n_first, n_bytes - n_first, NULL);
        while (*status == HEARTH_OK && (*status = hth_store_reader_next(reader, &reply, NULL)) == HEARTH_OK && reply) {
            n_parts += walk(reply, 0);
            hth_store_reply_free(reply);
        }
    }
    hth_store_reader_free(reader);
    return n_parts;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hearth_status status, other;
    const size_t n = read_all(bytes, n_bytes, n_bytes, &status);

    require(n == read_all(bytes, n_bytes, n_bytes > 0 ? bytes[0] % n_bytes : 0, &other));
    require(status == other && (status == HEARTH_OK || status == HEARTH_CORRUPT));
    return 0;
}
