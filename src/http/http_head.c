/*
 * http_head.c - split a request's head into texts, refuse an ambiguous one, and read a chunked body
 */
#include "http/http_head.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

bool hth_http_is_token(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++) {
        if (!is_token_char(*text))
            return false;
    }
    return true;
}

static bool is_value_char(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

bool hth_http_is_value(const char *text)
{
    for (; *text; text++) {
        if (!is_value_char(*text))
            return false;
    }
    return true;
}

size_t hth_http_head_find(const char *bytes, size_t n, size_t *n_scanned)
{
    size_t at = *n_scanned;

    while (at < n) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t i;

        if (!end)
            break;
        i = (size_t)(end - bytes);
        if (i == 0 || bytes[i - 1] != '\r')
            return SIZE_MAX;
        if (i >= 3 && bytes[i - 2] == '\n')
            return i + 1;
        at = i + 1;
    }
    *n_scanned = n;
    return 0;
}

const char *hth_http_head_field(const hth_http_head *head, const char *text, const char *name)
{
    for (uint32_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(text + head->fields[i].name, name) == 0)
            return text + head->fields[i].value;
    }
    return NULL;
}

/* ---- the request line ---- */

static int refuse(int status, const char *why, const char **why_out)
{
    *why_out = why;
    return status;
}

/*
 * Clients join a base URL and a path wrongly: "//v1/models", "/v1/models/", "/v1/v1/models". Remove the superfluous
 * parts of a path. Encoded slashes belong to a name and stay.
 */
static void tidy(char *path)
{
    static const char version[] = "/v1";
    const size_t n_version = strlen(version);
    char *to = path;

    for (const char *from = path; *from; from++)
        if (*from != '/' || to == path || to[-1] != '/')
            *to++ = *from;
    if (to > path + 1 && to[-1] == '/')
        to--;
    *to = '\0';
    while (strncmp(path, version, n_version) == 0 && strncmp(path + n_version, "/v1/", 4) == 0)
        memmove(path, path + n_version, strlen(path + n_version) + 1);
}

/* Parse path and query, and the host if the target names it. */
static int parse_target(char *target, hth_http_head *out, const char **why_out)
{
    char *query;

    for (const char *c = target; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return refuse(400, "the request's target has a control character", why_out);
        if (*c == '#')
            return refuse(400, "the request's target has a fragment, which is for the client alone", why_out);
    }
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        out->authority = strchr(target, ':') + 3;
        out->n_authority = strcspn(out->authority, "/?");
        target = strchr(target, ':') + 3 + out->n_authority;
    } else if (*target != '/' && (strcmp(target, "*") != 0 || strcmp(out->method, "OPTIONS") != 0)) {
        return refuse(400, "the request's target is no path: it has to begin with '/'", why_out);
    }
    query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    if (query && strstr(query, "%00"))
        return refuse(400, "the request's query has a NUL byte", why_out);
    tidy(target);
    out->path = *target ? target : "/";
    out->query = query;
    return 0;
}

/* Parse "GET", " ", target, " ", "HTTP/1.1"; the line is NUL-terminated. */
static int parse_line(char *line, size_t n, hth_http_head *out, const char **why_out)
{
    char *target = memchr(line, ' ', n), *version;

    if (strlen(line) != n)
        return refuse(400, "the request's line has a NUL byte", why_out);
    version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return refuse(400, "a request begins with a line like 'POST /v1/completions HTTP/1.1'", why_out);
    *target++ = '\0';
    *version++ = '\0';
    if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.' || version[5] < '0' ||
        version[5] > '9' || version[7] < '0' || version[7] > '9')
        return refuse(400, "a request begins with a line like 'POST /v1/completions HTTP/1.1'", why_out);
    if (version[5] != '1')
        return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here", why_out);
    out->minor = version[7] > '0';
    if (!hth_http_is_token(line))
        return refuse(400, "the request's method is no word", why_out);
    if (strlen(line) > HTH_HTTP_METHOD_MAX)
        return refuse(501, "the request's method is longer than any that is known here", why_out);
    out->method = line;
    return parse_target(target, out, why_out);
}

/* ---- its fields ---- */

/* Parse one field; the line is NUL-terminated. */
static int parse_field(char *text, char *line, size_t n, hth_http_head *out, const char **why_out)
{
    char *colon = memchr(line, ':', n), *value, *end = line + n;

    if (*line == ' ' || *line == '\t')
        return refuse(400, "a header is continued on a second line, which HTTP no longer allows", why_out);
    if (!colon)
        return refuse(400, "a header has no colon", why_out);
    *colon = '\0';
    if (!hth_http_is_token(line) || strlen(line) != (size_t)(colon - line))
        return refuse(400, "a header's name is no word", why_out);
    value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    if (strlen(value) != (size_t)(end - value) || !hth_http_is_value(value))
        return refuse(400, "a header's value has a control character", why_out);
    if (out->n_fields == HTH_HTTP_FIELDS_MAX)
        return refuse(431, "the request has too many headers", why_out);
    out->fields[out->n_fields++] = (hth_http_field){
        .name = (uint32_t)(line - text),
        .value = (uint32_t)(value - text),
    };
    return 0;
}

/* Does a list like "keep-alive, Upgrade" have the word? */
static bool list_has(const char *list, const char *word)
{
    size_t n_word = strlen(word);

    while (*list) {
        size_t n;

        list += strspn(list, ", \t");
        n = strcspn(list, ",");
        while (n > 0 && (list[n - 1] == ' ' || list[n - 1] == '\t'))
            n--;
        if (n == n_word && strncasecmp(list, word, n) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

static bool parse_length(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (!*text || strlen(text) > 18)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = 10 * value + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

/* Fields that may come only once, because two parsers could use different ones. */
typedef enum once {
    ONCE_LENGTH,
    ONCE_CODING,
    ONCE_HOST,
    ONCE_EXPECT,
    ONCE_AUTHORIZATION,
    ONCE_KEY,
    ONCE_ORIGIN,
    N_ONCE
} once;

/* Find the values of these fields. Returns 0, or the status of the refusal. */
static int find_once(const char *text, const hth_http_head *head, const char *values[N_ONCE], const char **why_out)
{
    static const struct {
        const char *name;
        const char *why;
    } fields[N_ONCE] = {
        [ONCE_LENGTH] = { "content-length", "the request has two headers Content-Length" },
        [ONCE_CODING] = { "transfer-encoding", "the request has two headers Transfer-Encoding" },
        [ONCE_HOST] = { "host", "the request has two headers Host" },
        [ONCE_EXPECT] = { "expect", "the request has two headers Expect" },
        [ONCE_AUTHORIZATION] = { "authorization", "the request has two headers Authorization" },
        [ONCE_KEY] = { "x-api-key", "the request has two headers X-Api-Key" },
        [ONCE_ORIGIN] = { "origin", "the request has two headers Origin" },
    };

    for (uint32_t i = 0; i < head->n_fields; i++)
        for (int k = 0; k < N_ONCE; k++) {
            if (strcasecmp(text + head->fields[i].name, fields[k].name) != 0)
                continue;
            if (values[k])
                return refuse(400, fields[k].why, why_out);
            values[k] = text + head->fields[i].value;
        }
    return 0;
}

/* Parse the fields about the connection. "close" overrides everything else. */
static void parse_connection(const char *text, hth_http_head *out)
{
    bool closes = false, stays = false;

    for (uint32_t i = 0; i < out->n_fields; i++) {
        if (strcasecmp(text + out->fields[i].name, "connection") != 0)
            continue;
        closes = closes || list_has(text + out->fields[i].value, "close");
        stays = stays || list_has(text + out->fields[i].value, "keep-alive");
    }
    out->keep_alive = !closes && (out->minor >= 1 || stays);
}

/* Interpret the fields about the connection and the body. */
static int parse_meaning(const char *text, hth_http_head *out, const char **why_out)
{
    const char *values[N_ONCE] = { NULL };
    int status = find_once(text, out, values, why_out);

    if (status != 0)
        return status;
    parse_connection(text, out);
    if (values[ONCE_EXPECT] && strcasecmp(values[ONCE_EXPECT], "100-continue") != 0)
        return refuse(417, "the header Expect may be 100-continue only", why_out);
    out->expects_continue = values[ONCE_EXPECT] && out->minor >= 1;
    if (!values[ONCE_HOST] && out->minor >= 1)
        return refuse(400, "the request has no header Host", why_out);
    if (values[ONCE_HOST] && out->authority &&
        (strlen(values[ONCE_HOST]) != out->n_authority ||
         strncasecmp(out->authority, values[ONCE_HOST], out->n_authority) != 0))
        return refuse(400, "the request's target and its header Host name different hosts", why_out);
    if (values[ONCE_CODING] && values[ONCE_LENGTH])
        return refuse(400, "the request has both Content-Length and Transfer-Encoding", why_out);
    if (values[ONCE_CODING] && out->minor == 0)
        return refuse(400, "a request of HTTP/1.0 cannot have Transfer-Encoding", why_out);
    if (values[ONCE_CODING] && strcasecmp(values[ONCE_CODING], "chunked") != 0)
        return refuse(501, "of transfer codings only 'chunked' is known here", why_out);
    if (values[ONCE_LENGTH] && !parse_length(values[ONCE_LENGTH], &out->body_bytes))
        return refuse(400, "the header Content-Length is no number of bytes", why_out);
    out->is_chunked = values[ONCE_CODING] != NULL;
    return 0;
}

int hth_http_head_parse(char *text, size_t n, hth_http_head *out, const char **why_out)
{
    char *line = text, *text_end = text + n;
    int status = 0;

    assert(n >= 4 && n <= UINT32_MAX);
    *out = (hth_http_head){ .method = "" };
    out->path = "";
    while (line < text_end) {
        char *end = memchr(line, '\n', (size_t)(text_end - line));
        size_t n_line;

        assert(end && end > line); /* hth_http_head_find saw CR LF at the end of every line */
        n_line = (size_t)(end - 1 - line);
        end[-1] = '\0';
        if (line == text)
            status = parse_line(line, n_line, out, why_out);
        else if (n_line > 0)
            status = parse_field(text, line, n_line, out, why_out);
        if (status != 0)
            return status;
        line = end + 1;
    }
    return parse_meaning(text, out, why_out);
}

/* ---- a chunked body: a state for every position in "5;x=y\r\nhello\r\n0\r\nTrailer: z\r\n\r\n" ---- */

enum { DIGITS_MAX = 12, LINE_BYTES_MAX = 1024, TRAILER_BYTES_MAX = 8192 };

enum {
    SIZE,
    SIZE_SPACE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_LINE, /* at its first byte */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
};

/* The byte after the last digit of a size selects the next state. */
static int after_size(const hth_http_chunks *chunks, char c)
{
    if (chunks->n_digits == 0)
        return -1;
    if (c == '\r')
        return SIZE_LF;
    if (c == ';')
        return EXTENSION;
    return c == ' ' || c == '\t' ? SIZE_SPACE : -1;
}

/* The next state after a byte of a line whose length is bounded. */
static int in_line(hth_http_chunks *chunks, uint32_t n_max, int state)
{
    return ++chunks->n_line > n_max ? -1 : state;
}

/* The next state after one byte outside of data; -1: the byte is not allowed. */
static int next_state(hth_http_chunks *chunks, char c)
{
    int digit;

    switch (chunks->state) {
    case SIZE:
        digit = hth_hex_digit(c);
        if (digit < 0)
            return after_size(chunks, c);
        if (++chunks->n_digits > DIGITS_MAX)
            return -1;
        chunks->n_left = chunks->n_left << 4 | (uint64_t)digit;
        return SIZE;
    case SIZE_SPACE: return in_line(chunks, LINE_BYTES_MAX, after_size(chunks, c));
    case EXTENSION:
        if (c == '\r')
            return SIZE_LF;
        return is_value_char(c) ? in_line(chunks, LINE_BYTES_MAX, EXTENSION) : -1;
    case SIZE_LF:
        chunks->n_digits = chunks->n_line = 0;
        if (c != '\n')
            return -1;
        return chunks->n_left > 0 ? DATA : TRAILER_LINE;
    case DATA_CR: return c == '\r' ? DATA_LF : -1;
    case DATA_LF: return c == '\n' ? SIZE : -1;
    case TRAILER_LINE:
        if (c == '\r')
            return END_LF;
        return is_token_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_NAME) : -1;
    case TRAILER_NAME:
        if (c == ':')
            return in_line(chunks, TRAILER_BYTES_MAX, TRAILER_VALUE);
        return is_token_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_NAME) : -1;
    case TRAILER_VALUE:
        if (c == '\r')
            return TRAILER_LF;
        return is_value_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_VALUE) : -1;
    case TRAILER_LF: return c == '\n' ? TRAILER_LINE : -1;
    default: return -1;
    }
}

hth_http_chunks_result hth_http_chunks_read(hth_http_chunks *chunks, const char *bytes, size_t n, size_t *n_used_out,
                                            const char **piece_out, size_t *n_piece_out)
{
    *n_used_out = n;
    for (size_t i = 0; i < n; i++) {
        if (chunks->state == DATA) {
            size_t n_piece = n - i < chunks->n_left ? n - i : (size_t)chunks->n_left;

            chunks->n_left -= n_piece;
            if (chunks->n_left == 0)
                chunks->state = DATA_CR;
            *piece_out = bytes + i;
            *n_piece_out = n_piece;
            *n_used_out = i + n_piece;
            return HTH_HTTP_CHUNKS_DATA;
        }
        if (chunks->state == END_LF) {
            *n_used_out = i + 1;
            return bytes[i] == '\n' ? HTH_HTTP_CHUNKS_END : HTH_HTTP_CHUNKS_BAD;
        }
        chunks->state = next_state(chunks, bytes[i]);
        if (chunks->state < 0)
            return HTH_HTTP_CHUNKS_BAD;
    }
    return HTH_HTTP_CHUNKS_MORE;
}
