/*
 * upstream_call.c - one call: a request as libcurl's options, a reply as our callbacks
 *
 * A call is used for many requests. Options that are the same for all are set once. The others are set without
 * allocation where possible: headers and short bodies lie in memory of the call. libcurl never sees the memory of a
 * longer body: it gets copies through on_read, which refuses once the call is cancelled or released. The path goes into
 * the request as it came; libcurl sees the same URL each time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/notes.h"
#include "http/upstream_inside.h"

enum {
    READ_BYTES = 16 << 10,         /* at once; each running call has a buffer of this size */
    RELEASED_BYTES_MAX = 64 << 10, /* of bytes still to come */
    SHORT_BODY_BYTES = 16 << 10,   /* a body up to here is copied, and leaves in one write with the head */
    HEAD_BYTES_MAX = 64 << 10,     /* of a reply, with the trailer of a chunked body: libcurl 7.88 keeps all of it */
};

/* ---- libcurl calls back ---- */

static curl_socket_t on_open(void *user_data, curlsocktype purpose, struct curl_sockaddr *address)
{
    hth_upstream_call *call = user_data;
    int fd = hth_watched_sockets_open(&call->upstream->sockets);

    (void)purpose;
    (void)address; /* libcurl connects */
    call->open_errno = fd < 0 ? errno : 0;
    call->upstream->numbers.n_connections_opened += fd >= 0;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *user_data, curl_socket_t fd)
{
    hth_upstream *upstream = user_data;

    hth_watched_sockets_close(&upstream->sockets, fd);
    return 0;
}

static void tell_head(hth_upstream_call *call)
{
    hth_upstream_head head = { .content_type = "", .notes = "" };
    struct curl_header *notes;
    long status = 0;
    curl_off_t retry_after_s = 0;
    char *content_type = NULL;

    if (curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status < 200)
        return;                                                                /* 1xx: the reply's own head follows */
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &content_type); /* NULL and 0 if there is none */
    (void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    head.status = (int)status;
    if (content_type)
        head.content_type = content_type;
    if (retry_after_s > 0 && retry_after_s <= UINT32_MAX)
        head.retry_after_s = (uint32_t)retry_after_s;
    if (curl_easy_header(call->easy, HTH_API_NOTES_HEADER, 0, CURLH_HEADER, -1, &notes) == CURLHE_OK)
        head.notes = notes->value;
    call->has_head = true;
    if (!call->is_quiet)
        call->watch.on_head(&head, call->watch.user_data);
}

/* A line of the head, or of a chunked body's trailer. */
static size_t on_header(char *line, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;

    (void)size; /* always 1 */
    call->n_head_bytes += n;
    if (call->n_head_bytes > HEAD_BYTES_MAX)
        return 0;
    if (!call->has_head && (line[0] == '\r' || line[0] == '\n'))
        tell_head(call);
    return call->is_cut ? 0 : n;
}

static size_t on_piece(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;

    (void)size; /* always 1 */
    if (!call->is_quiet && !call->watch.on_bytes(bytes, n, call->watch.user_data) && !call->is_quiet) {
        call->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (call->is_quiet)
        call->n_released_bytes += n;
    return call->is_cut || call->n_released_bytes > RELEASED_BYTES_MAX ? 0 : n;
}

uint64_t hth_upstream_call_body_bytes(const hth_upstream_call *call)
{
    uint64_t n = 0;

    for (size_t i = 0; i < HTH_UPSTREAM_PIECES; i++)
        n += call->body_bytes[i];
    return n;
}

/* Of a long body. */
static size_t on_read(char *bytes, size_t size, size_t n, void *user_data)
{
    hth_upstream_call *call = user_data;
    size_t at = call->n_body_read, n_room = size * n, n_done = 0;

    if (call->is_quiet)
        return CURL_READFUNC_ABORT; /* the pieces may be gone */
    for (size_t i = 0; i < HTH_UPSTREAM_PIECES; i++) {
        size_t n_piece;

        if (at >= call->body_bytes[i]) {
            at -= call->body_bytes[i];
            continue;
        }
        n_piece = call->body_bytes[i] - at;
        if (n_piece > n_room - n_done)
            n_piece = n_room - n_done;
        memcpy(bytes + n_done, (const char *)call->body[i] + at, n_piece);
        n_done += n_piece;
        at = 0;
    }
    call->n_body_read += n_done;
    return n_done;
}

/* libcurl sends a body anew if a kept connection turned out to be closed. */
static int on_seek(void *user_data, curl_off_t offset, int origin)
{
    hth_upstream_call *call = user_data;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > hth_upstream_call_body_bytes(call))
        return CURL_SEEKFUNC_FAIL;
    call->n_body_read = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- making and setting ---- */

void hth_upstream_call_free(hth_upstream_call *call)
{
    if (!call)
        return;
    curl_easy_cleanup(call->easy);
    hth_buffer_deinit(&call->header_text);
    hth_buffer_deinit(&call->short_body);
    free(call->headers);
    free(call->socket_path);
    free(call);
}

static CURLcode set_constants(hth_upstream_call *call)
{
    static const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        { CURLOPT_NOSIGNAL, 1 }, /* otherwise libcurl sets a signal handler and resets it for each piece */
        { CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1 },
        { CURLOPT_BUFFERSIZE, READ_BYTES },
    };
    static const struct {
        CURLoption option;
        const char *text;
    } texts[] = {
        { CURLOPT_URL, "http://worker/" }, /* the path is in the request's target, as it came */
        { CURLOPT_PROXY, "" },             /* and no proxy from the environment */
    };
    CURL *easy = call->easy;
    CURLcode code = CURLE_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !code; i++)
        code = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !code; i++)
        code = curl_easy_setopt(easy, texts[i].option, texts[i].text);
    if (code)
        return code;
    /* libcurl stores these pointers as they are, so nothing here can fail. */
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error_text);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_piece);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, call->upstream); /* connections outlive calls */
    return CURLE_OK;
}

hth_upstream_call *hth_upstream_call_new(hth_upstream *upstream)
{
    hth_upstream_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->upstream = upstream;
    call->easy = curl_easy_init();
    if (!call->easy || set_constants(call) != CURLE_OK) {
        hth_upstream_call_free(call);
        return NULL;
    }
    return call;
}

static void add_line(hth_buffer *out, const char *name, const char *separator, const char *value)
{
    hth_buffer_add_text(out, name);
    hth_buffer_add_text(out, separator);
    hth_buffer_add(out, value, strlen(value) + 1); /* with its NUL */
}

/*
 * The headers as libcurl's list, in memory that the next request reuses. A name without a value keeps libcurl from
 * adding that header.
 */
static bool set_headers(hth_upstream_call *call, const hth_upstream_request *request)
{
    static const char *const unwanted[] = { "Accept", "Expect", "Content-Type" };
    enum { N_UNWANTED = sizeof(unwanted) / sizeof(unwanted[0]) };
    size_t n = 0;
    bool has_type = false;
    char *at;

    if (call->n_headers_max < request->n_headers + N_UNWANTED) {
        size_t n_max = request->n_headers + N_UNWANTED;
        struct curl_slist *grown = realloc(call->headers, n_max * sizeof(*grown));

        if (!grown)
            return false;
        call->headers = grown;
        call->n_headers_max = n_max;
    }
    hth_buffer_clear(&call->header_text);
    for (; n < request->n_headers; n++) {
        const hth_upstream_header *header = &request->headers[n];

        /* "Name;" is an empty header. */
        add_line(&call->header_text, header->name, header->value[0] ? ": " : ";", header->value);
        has_type = has_type || strcasecmp(header->name, "Content-Type") == 0;
    }
    for (size_t i = 0; i < N_UNWANTED - (has_type ? 1 : 0); i++, n++)
        add_line(&call->header_text, unwanted[i], ":", "");
    if (call->header_text.failed)
        return false;
    at = call->header_text.text;
    for (size_t i = 0; i < n; i++) {
        call->headers[i] = (struct curl_slist){ .data = at, .next = i + 1 < n ? &call->headers[i + 1] : NULL };
        at += strlen(at) + 1;
    }
    return curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK;
}

static bool set_mode(hth_upstream_call *call, const char *method, bool has_body)
{
    hth_call_mode mode = HTH_CALL_OTHER;
    CURLoption option = has_body ? CURLOPT_POST : CURLOPT_HTTPGET;

    if (strcmp(method, "POST") == 0) {
        mode = HTH_CALL_POST;
        option = CURLOPT_POST;
    } else if (strcmp(method, "GET") == 0 && !has_body) {
        mode = HTH_CALL_GET;
    } else if (strcmp(method, "HEAD") == 0 && !has_body) {
        mode = HTH_CALL_HEAD;
        option = CURLOPT_NOBODY;
    }
    if (mode == call->mode && mode != HTH_CALL_OTHER)
        return true;
    call->mode = HTH_CALL_NONE;
    if (curl_easy_setopt(call->easy, option, 1L) != CURLE_OK ||
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, mode == HTH_CALL_OTHER ? method : NULL) != CURLE_OK)
        return false;
    call->mode = mode;
    return true;
}

static bool set_socket(hth_upstream_call *call, const char *path)
{
    char *copy;

    if (call->socket_path && strcmp(call->socket_path, path) == 0)
        return true;
    copy = strdup(path);
    if (!copy || curl_easy_setopt(call->easy, CURLOPT_UNIX_SOCKET_PATH, path) != CURLE_OK) {
        free(copy);
        return false;
    }
    free(call->socket_path);
    call->socket_path = copy;
    return true;
}

/* Tell libcurl of a body of n bytes, which may be 0. False without memory. */
static bool set_body(hth_upstream_call *call, uint64_t n)
{
    hth_buffer_clear(&call->short_body);
    for (size_t i = 0; call->is_short && i < HTH_UPSTREAM_PIECES; i++)
        if (call->body_bytes[i] > 0)
            hth_buffer_add(&call->short_body, call->body[i], call->body_bytes[i]);
    /* None of these fails: libcurl stores the pointer and the number as they are. */
    (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->is_short ? hth_buffer_text(&call->short_body) : NULL);
    (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    return !call->short_body.failed;
}

bool hth_upstream_call_set(hth_upstream_call *call, const hth_upstream_request *request,
                           const hth_upstream_watch *watch)
{
    uint64_t n_body;

    call->watch = *watch;
    memcpy(call->body, request->body, sizeof(call->body));
    memcpy(call->body_bytes, request->body_bytes, sizeof(call->body_bytes));
    n_body = hth_upstream_call_body_bytes(call);
    call->is_short = n_body <= SHORT_BODY_BYTES;
    call->n_body_read = 0;
    call->has_head = false;
    call->is_quiet = false;
    call->is_cut = false;
    call->is_paused = false;
    call->is_watched = false;
    call->was_seen = false;
    call->n_busy_tries = 0;
    call->n_head_bytes = 0;
    call->n_released_bytes = 0;
    call->open_errno = 0;
    call->error_text[0] = '\0';
    if ((n_body > 0 || strcmp(request->method, "POST") == 0) && !set_body(call, n_body))
        return false;
    return set_mode(call, request->method, n_body > 0) && set_socket(call, request->socket_path) &&
           set_headers(call, request) &&
           curl_easy_setopt(call->easy, CURLOPT_REQUEST_TARGET, request->target) == CURLE_OK;
}
