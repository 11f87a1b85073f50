#include "http/fetch.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

enum { CONNECT_MS = 10000, SILENCE_S = 60, KEY_BYTES_MAX = 4096, ACCEPT_BYTES_MAX = 512, HOST_BYTES = 256 };
enum { ASK_MS = 10000, ASK_BYTES_MAX = 16 << 20 };

struct hth_fetch {
    CURL *easy;
    const hth_fetch_order *order; /* the running order */
    bool has_reached;             /* the last transfer had a connection */
    char header[KEY_BYTES_MAX + 32];
    char accept[ACCEPT_BYTES_MAX];
};

static const char unix_scheme[] = "unix:";

/* ---- addresses ---- */

static bool is_socket(const char *base)
{
    return strncasecmp(base, unix_scheme, strlen(unix_scheme)) == 0;
}

typedef struct origin {
    char scheme[16], host[HOST_BYTES], port[8];
} origin;

/* Copy a part of an address. False: there is none, or it is too long. */
static bool part_read(CURLU *parts, CURLUPart what, unsigned flags, char *out, size_t capacity)
{
    char *text = NULL;
    const bool is_there = curl_url_get(parts, what, &text, flags) == CURLUE_OK && strlen(text) < capacity;

    if (is_there)
        memcpy(out, text, strlen(text) + 1);
    curl_free(text);
    return is_there;
}

static bool origin_read(const char *url, origin *out)
{
    CURLU *parts = curl_url();
    const bool is_read = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                         part_read(parts, CURLUPART_SCHEME, 0, out->scheme, sizeof(out->scheme)) &&
                         part_read(parts, CURLUPART_HOST, 0, out->host, sizeof(out->host)) &&
                         part_read(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT, out->port, sizeof(out->port));

    curl_url_cleanup(parts);
    return is_read;
}

bool hth_fetch_same_origin(const char *a, const char *b)
{
    origin first, second;

    return origin_read(a, &first) && origin_read(b, &second) && strcasecmp(first.scheme, second.scheme) == 0 &&
           strcasecmp(first.host, second.host) == 0 && strcmp(first.port, second.port) == 0;
}

/* Is it the address of a server on this machine? */
static bool is_loopback(const char *url, origin *out)
{
    return origin_read(url, out) && (strcasecmp(out->host, "localhost") == 0 || strcmp(out->host, "127.0.0.1") == 0 ||
                                     strcmp(out->host, "[::1]") == 0);
}

static bool is_own_http(const char *url)
{
    origin o;

    return is_loopback(url, &o) && strcasecmp(o.scheme, "http") == 0;
}

static bool is_https(const char *url)
{
    origin o;

    return origin_read(url, &o) && strcasecmp(o.scheme, "https") == 0;
}

bool hth_fetch_may_lead(const char *from, const char *to)
{
    return is_https(to) || hth_fetch_same_origin(from, to) || (is_own_http(from) && is_own_http(to));
}

const char *hth_fetch_shown(const char *url, char out[HTH_FETCH_URL_BYTES])
{
    size_t n_scheme = strcspn(url, ":/?#@"), n_login = 0, n_host;

    if (is_socket(url)) {
        (void)snprintf(out, HTH_FETCH_URL_BYTES, "%s", url); /* cut */
        return out;
    }

    n_scheme = url[n_scheme] == ':' && url[n_scheme + 1] == '/' ? n_scheme + 1 : 0; /* curl needs no scheme */
    n_scheme += n_scheme > 0 ? strspn(url + n_scheme, "/") : 0;
    n_host = strcspn(url + n_scheme, "/?#");
    for (size_t i = 0; i < n_host; i++)
        if (url[n_scheme + i] == '@')
            n_login = i + 1; /* like curl, the last '@' counts */
    (void)snprintf(out, HTH_FETCH_URL_BYTES, "%.*s%s", (int)n_scheme, url, url + n_scheme + n_login); /* cut */
    return out;
}

bool hth_fetch_address(const char *base, const char *path, char out[HTH_FETCH_URL_BYTES], const char **socket_out)
{
    const char *host = is_socket(base) ? "http://localhost" : base;
    const int n = (int)strlen(host), n_host = n - (n > 0 && host[n - 1] == '/');

    *socket_out = is_socket(base) ? base + strlen(unix_scheme) : NULL;
    if (*socket_out && strncmp(*socket_out, "///", 3) == 0) /* like an address with an empty host */
        *socket_out += 2;
    return snprintf(out, HTH_FETCH_URL_BYTES, "%.*s%s", n_host, host, path) < HTH_FETCH_URL_BYTES;
}

/* Requests to this machine must not go through a proxy that libcurl would take from the environment. */
static bool set_proxy(CURL *easy, const char *url)
{
    origin o;

    return !is_loopback(url, &o) || curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
}

/* ---- transfers ---- */

hth_fetch *hth_fetch_new(void)
{
    hth_fetch *fetch = calloc(1, sizeof(*fetch));

    if (!fetch)
        return NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
        fetch->easy = curl_easy_init();
        if (fetch->easy)
            return fetch;
        curl_global_cleanup();
    }
    free(fetch);
    return NULL;
}

void hth_fetch_free(hth_fetch *fetch)
{
    if (!fetch)
        return;
    curl_easy_cleanup(fetch->easy);
    curl_global_cleanup();
    free(fetch);
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_fetch *fetch = user_data;
    long status = 0;

    (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status); /* known before the body arrives */
    return fetch->order->on_bytes(fetch, status, bytes, size * n, fetch->order->user_data) ? size * n : 0;
}

static bool set_range(CURL *easy, const hth_fetch_order *order)
{
    char range[64];

    if (order->end == 0)
        return true;
    (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, order->begin, order->end - 1);
    return curl_easy_setopt(easy, CURLOPT_RANGE, range) == CURLE_OK; /* copies range */
}

/* A result other than 0 ends the transfer. curl calls this once a second and after each piece. */
static int is_stopped(void *user_data, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    const hth_fetch *fetch = user_data;

    (void)down_total, (void)down, (void)up_total, (void)up;            /* only on_bytes counts bytes */
    return __atomic_load_n(fetch->order->stop, __ATOMIC_RELAXED) != 0; /* another thread may set it */
}

static bool set_stop(CURL *easy, hth_fetch *fetch)
{
    return !fetch->order->stop || (curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
                                   curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_stopped) == CURLE_OK &&
                                   curl_easy_setopt(easy, CURLOPT_XFERINFODATA, fetch) == CURLE_OK);
}

/* curl_easy_reset keeps the connections. */
static bool set_options(hth_fetch *fetch, struct curl_slist *headers)
{
    const hth_fetch_order *order = fetch->order;
    CURL *easy = fetch->easy;

    curl_easy_reset(easy);
    return curl_easy_setopt(easy, CURLOPT_URL, order->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "hearth") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)order->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                            (long)(order->silence_s > 0 ? order->silence_s : SILENCE_S)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch) == CURLE_OK &&
           (!order->socket || curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, order->socket) == CURLE_OK) &&
           (!order->method || curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, order->method) == CURLE_OK) &&
           (!order->json || curl_easy_setopt(easy, CURLOPT_POSTFIELDS, order->json) == CURLE_OK) && /* not copied */
           set_proxy(easy, order->url) && set_stop(easy, fetch) && set_range(easy, order);
}

/* Append to the list. False: no memory. */
static bool add_header(struct curl_slist **headers, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*headers, header);

    if (longer)
        *headers = longer;
    return longer != NULL;
}

hearth_status hth_fetch_transfer(hth_fetch *fetch, const hth_fetch_order *order, long *status_out, hearth_error *err)
{
    struct curl_slist *headers = NULL;
    bool has_headers = true;
    hearth_status status = HEARTH_OK;
    char host[HOST_BYTES];
    origin o;
    CURLcode code;

    fetch->order = order;
    if (order->key) {
        (void)snprintf(fetch->header, sizeof(fetch->header), "Authorization: Bearer %.*s", (int)KEY_BYTES_MAX,
                       order->key);
        has_headers = add_header(&headers, fetch->header);
    }
    if (order->accept && has_headers) {
        (void)snprintf(fetch->accept, sizeof(fetch->accept), "Accept: %s", order->accept);
        has_headers = add_header(&headers, fetch->accept);
    }
    if (order->json && has_headers)
        has_headers = add_header(&headers, "Content-Type: application/json");
    if (!has_headers || !set_options(fetch, headers)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to a server");
        goto out;
    }
    code = curl_easy_perform(fetch->easy);
    fetch->has_reached =
        code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_HOST && code != CURLE_COULDNT_RESOLVE_PROXY;
    if (order->socket)
        (void)snprintf(host, sizeof(host), "unix:%s", order->socket); /* at most 107 bytes, or it was not reached */
    else
        (void)snprintf(host, sizeof(host), "%s",
                       origin_read(order->url, &o) ? o.host : "an address that cannot be read");
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, status_out); /* known after a transfer */
    else if (code == CURLE_WRITE_ERROR || code == CURLE_ABORTED_BY_CALLBACK)
        status = hth_fail(err, HEARTH_CANCELLED, "the answer of '%s' was not read to its end", host);
    else
        status = hth_fail(err, HEARTH_IO, "cannot read from '%s': %s", host, curl_easy_strerror(code));
out:
    (void)curl_easy_setopt(fetch->easy, CURLOPT_HTTPHEADER, NULL); /* the list is freed now */
    curl_slist_free_all(headers);
    fetch->order = NULL;
    return status;
}

const char *hth_fetch_header(hth_fetch *fetch, const char *name)
{
    struct curl_header *header;

    return curl_easy_header(fetch->easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

const char *hth_fetch_redirect(hth_fetch *fetch)
{
    char *url = NULL;

    (void)curl_easy_getinfo(fetch->easy, CURLINFO_REDIRECT_URL, &url); /* NULL if unknown */
    return url;
}

uint64_t hth_fetch_retry_after_s(hth_fetch *fetch)
{
    curl_off_t seconds = 0;

    (void)curl_easy_getinfo(fetch->easy, CURLINFO_RETRY_AFTER, &seconds); /* 0 if unknown */
    return seconds > 0 ? (uint64_t)seconds : 0;
}

/* ---- a single request ---- */

static bool take_reply(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    hth_buffer *out = user_data;

    (void)fetch;
    (void)status;
    if (out->n + n_bytes > ASK_BYTES_MAX)
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
    order.timeout_ms = ASK_MS;
    order.on_bytes = take_reply;
    if (!hth_fetch_address(base, path, url, &order.socket))
        return hth_fail(err, HEARTH_MISUSE, "--url, or the name of a model, is too long");
    fetch = hth_fetch_new();
    if (!fetch)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a question to '%s'", hth_fetch_shown(url, shown));
    status = hth_fetch_transfer(fetch, &order, status_out, &cause);
    if (status == HEARTH_IO && !fetch->has_reached) {
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
