/*
 * carrier_messages_fuzz.c - any bytes as a message of a worker, the front or the carrier
 *
 * What is held: nothing outside the bytes is read (a sanitizer sees it); a message that was read has a kind, an end and
 * texts within their bounds, its keys lie in the bytes, and it is written again as the same bytes.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire/carrier_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static uint8_t again[HTH_CARRIER_MESSAGE_BYTES_MAX];
    uint8_t *copy = malloc(n_bytes ? n_bytes : 1); /* ends with the bytes */
    hth_carrier_message message;
    size_t n_keys;

    if (copy && n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    if (copy && hth_carrier_read(copy, n_bytes, &message)) {
        assert(message.kind > 0 && message.kind < HTH_CARRIER_KINDS && message.end < HTH_CARRIER_ENDS);
        assert(memchr(message.name, '\0', sizeof(message.name)));
        assert(memchr(message.address, '\0', sizeof(message.address)));
        assert(message.n_keys <= HTH_CARRIER_KEYS_MAX);
        n_keys = (size_t)message.n_keys * HTH_CARRIER_KEY_BYTES;
        assert(message.keys >= copy && message.keys + n_keys == copy + n_bytes);
        assert(hth_carrier_write(&message, again) == n_bytes && memcmp(again, copy, n_bytes) == 0);
    }
    free(copy);
    return 0;
}
