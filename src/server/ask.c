/*
 * ask.c - see ask.h
 */
#include "server/ask.h"

#include <curl/curl.h>
#include <stdio.h>

#include "base/status.h"

enum { TIMEOUT_MS = 10000, CONNECT_MS = 5000, BYTES_MAX = 16 << 20, KEY_BYTES_MAX = 512 };

static size_t on_bytes(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_buffer *out = user_data;

    if (out->n + size * n > BYTES_MAX)
        return 0; /* which ends the transfer */
    hth_buffer_add(out, bytes, size * n);
    return out->failed ? 0 : size * n;
}

static bool set_options(CURL *easy, const char *url, struct curl_slist *headers, hth_buffer *out)
{
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, out) == CURLE_OK;
}

hearth_status hth_ask(const char *url, const char *key, long *status_out, hth_buffer *out, hearth_error *err)
{
    char header[KEY_BYTES_MAX + 32];
    struct curl_slist *headers = NULL;
    hearth_status status = HEARTH_OK;
    CURL *easy = NULL;
    CURLcode code;

    *status_out = 0;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return hth_fail(err, HEARTH_NO_MEMORY, "libcurl cannot be used");
    easy = curl_easy_init();
    if (key) {
        (void)snprintf(header, sizeof(header), "Authorization: Bearer %.*s", (int)KEY_BYTES_MAX, key);
        headers = curl_slist_append(NULL, header);
    }
    if (!easy || (key && !headers) || !set_options(easy, url, headers, out)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to '%s'", url);
        goto out;
    }
    code = curl_easy_perform(easy);
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, status_out); /* known after a transfer */
    else
        status = hth_fail(err, HEARTH_IO, "cannot ask the server at '%s': %s", url, curl_easy_strerror(code));
out:
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    curl_global_cleanup();
    return status;
}
