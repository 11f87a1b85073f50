/*
 * ask.c - see ask.h
 */
#include "http/ask.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "http/fetch.h"

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

/* Run an order that has no address yet. */
static hearth_status give(const char *base, const char *path, hth_fetch_order order, long *status_out,
                          hearth_error *err)
{
    char url[HTH_FETCH_URL_BYTES], shown[HTH_FETCH_URL_BYTES];
    hearth_error cause = { .message = "" };
    hth_fetch *fetch;
    hearth_status status;

    *status_out = 0;
    order.url = url;
    order.timeout_ms = TIMEOUT_MS;
    order.on_bytes = on_bytes;
    if (!hth_fetch_address(base, path, url, &order.socket))
        return hth_fail(err, HEARTH_MISUSE, "--url, or the name of a model, is too long");
    fetch = hth_fetch_new();
    if (!fetch)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to '%s'", hth_fetch_shown(url, shown));
    status = hth_fetch_transfer(fetch, &order, status_out, &cause);
    if (status == HEARTH_IO && !hth_fetch_has_reached(fetch)) {
        const int n = (int)strlen(hth_fetch_shown(base, shown));

        status = hth_fail(err, status,
                          "no server answers at %.*s (%s); start one with 'hearth serve -m MODEL', or name another "
                          "with --url",
                          n - (n > 0 && shown[n - 1] == '/'), shown, cause.message);
    } else if (status != HEARTH_OK && err) {
        *err = cause;
    }
    hth_fetch_free(fetch);
    return status;
}

hearth_status hth_ask(const char *base, const char *path, const char *key, const char *json, long *status_out,
                      hth_buffer *out, hearth_error *err)
{
    return give(base, path, (hth_fetch_order){ .key = key, .json = json, .user_data = out }, status_out, err);
}

hearth_status hth_ask_delete(const char *base, const char *path, const char *key, long *status_out, hth_buffer *out,
                             hearth_error *err)
{
    return give(base, path, (hth_fetch_order){ .key = key, .method = "DELETE", .user_data = out }, status_out, err);
}
