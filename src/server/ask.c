/*
 * ask.c - see ask.h
 */
#include "server/ask.h"

#include "base/status.h"
#include "server/fetch.h"

enum { TIMEOUT_MS = 10000, BYTES_MAX = 16 << 20 };

static bool on_bytes(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    hth_buffer *out = user_data;

    (void)fetch;
    (void)status;
    if (out->n + n_bytes > BYTES_MAX)
        return false;
    hth_buffer_add(out, bytes, n_bytes);
    return !out->failed;
}

hearth_status hth_ask(const char *url, const char *key, const char *json, long *status_out, hth_buffer *out,
                      hearth_error *err)
{
    const hth_fetch_order order = {
        .url = url, .key = key, .json = json, .timeout_ms = TIMEOUT_MS, .on_bytes = on_bytes, .user_data = out
    };
    hth_fetch *fetch = hth_fetch_new();
    hearth_status status;

    *status_out = 0;
    if (!fetch)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to '%s'", url);
    status = hth_fetch_transfer(fetch, &order, status_out, err);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "cannot ask the server at '%s'", url);
    hth_fetch_free(fetch);
    return status;
}
