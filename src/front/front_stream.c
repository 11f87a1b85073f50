/*
 * front_stream.c - see front_stream.h
 *
 * A missing stream and a stream of another key get the same answer, 404.
 */
#include "front/front_stream.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"

enum { ID_RANDOM_BYTES = 16, DIGITS_MAX = 18 };

bool hth_front_wants_kept(const hth_http_exchange *exchange)
{
    const char *value = hth_http_header(exchange, HTH_HEADER_RESUME);

    return value && *value && strcmp(value, "0") != 0;
}

void hth_front_stream_id(char out[HTH_KEPT_ID_BYTES])
{
    uint8_t random[ID_RANDOM_BYTES];

    static_assert(2 * sizeof(random) < HTH_KEPT_ID_BYTES, "it fits");
    hth_os_random(random, sizeof(random));
    hth_hex_encode(random, sizeof(random), out);
}

/* The last event that the client has seen; 0: none. */
static bool read_after(hth_http_exchange *exchange, uint64_t *out, hth_api_error *error)
{
    const char *query = hth_http_query(exchange, "after");
    const char *text = query ? query : hth_http_header(exchange, "Last-Event-ID");
    size_t n = text ? strspn(text, "0123456789") : 0;

    *out = 0;
    if (!text || !*text)
        return true;
    if (text[n] || n > DIGITS_MAX) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "after",
                     "%s is '%.40s'; it must be the number of the last event that was seen, 0 for none",
                     query ? "'after'" : "Last-Event-ID", text);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        *out = 10 * *out + (uint64_t)(text[i] - '0');
    return true;
}

static bool fail_unknown(const char *id, hth_api_error *error)
{
    hth_api_fail(
        error, HTH_API_NOT_FOUND, NULL,
        "there is no stream '%.40s' for this key; streams are kept for requests with the header '" HTH_HEADER_RESUME
        ": 1', and for a while only",
        id);
    return false;
}

bool hth_front_stream_read(hth_kept_streams *kept, hth_http_exchange *exchange, const char *id, const uint8_t *key,
                           hth_api_error *error)
{
    uint64_t after, limit = 0;

    if (!read_after(exchange, &after, error))
        return false;
    switch (hth_kept_streams_read(kept, id, key, after, exchange, &limit)) {
    case HTH_KEPT_FOUND: return true;
    case HTH_KEPT_UNKNOWN: return fail_unknown(id, error);
    case HTH_KEPT_GONE:
        hth_api_fail(error, HTH_API_NOT_FOUND, "after",
                     "events up to number %" PRIu64 " of this stream are not kept any more; 'after' is %" PRIu64, limit,
                     after);
        error->status = 410;
        return false;
    case HTH_KEPT_TOO_FAR:
        hth_api_fail(error, HTH_API_INVALID_VALUE, "after",
                     "'after' is %" PRIu64 ", but this stream has come to event %" PRIu64 " only", after, limit);
        return false;
    }
    return false;
}

bool hth_front_stream_drop(hth_kept_streams *kept, const char *id, const uint8_t *key, hth_api_error *error)
{
    return hth_kept_streams_drop(kept, id, key) || fail_unknown(id, error);
}
