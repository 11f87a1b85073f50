/*
 * Nothing in the file is trusted: each length is checked against the bytes that are left.
 */
#include "base/gguf_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

enum {
    HEAD_BYTES = 24,
    TYPE_TEXT = 8,
    TYPE_ARRAY = 9,
};

static const char magic[4] = { 'G', 'G', 'U', 'F' };

/* The rest of the bytes that were read. */
typedef struct cursor {
    const uint8_t *at;
    size_t n;
} cursor;

static bool skip(cursor *c, uint64_t n)
{
    if (n > c->n)
        return false;
    c->at += n;
    c->n -= (size_t)n;
    return true;
}

static bool read_u32(cursor *c, uint32_t *out)
{
    if (c->n < 4)
        return false;
    *out = hth_get_u32(c->at);
    return skip(c, 4);
}

static bool read_u64(cursor *c, uint64_t *out)
{
    if (c->n < 8)
        return false;
    *out = hth_get_u64(c->at);
    return skip(c, 8);
}

/* Read a text if all of its bytes are there. */
static bool read_text(cursor *c, const uint8_t **text, size_t *n_out)
{
    uint64_t n;

    if (!read_u64(c, &n) || n > c->n)
        return false;
    *text = c->at;
    *n_out = (size_t)n;
    return skip(c, n);
}

static bool skip_value(cursor *c, uint32_t type)
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 }; /* by type; 0: not fixed */
    const uint8_t *text;
    uint64_t n = 1;
    size_t n_text;

    if (type == TYPE_ARRAY && (!read_u32(c, &type) || !read_u64(c, &n)))
        return false;
    if (type >= sizeof(sizes) || type == TYPE_ARRAY)
        return false;
    if (type != TYPE_TEXT)
        return n <= c->n && skip(c, n * sizes[type]); /* so the product is small */
    for (; n > 0; n--)
        if (!read_text(c, &text, &n_text))
            return false;
    return true;
}

static bool find(cursor *c, uint64_t n_members, const char *key, char *out, size_t capacity)
{
    const uint8_t *text;
    size_t n;

    for (; n_members > 0; n_members--) {
        uint32_t type;
        bool is_it;

        if (!read_text(c, &text, &n) || !read_u32(c, &type))
            return false;
        is_it = n == strlen(key) && memcmp(text, key, n) == 0;
        if (!is_it && !skip_value(c, type))
            return false;
        if (!is_it)
            continue;
        if (type != TYPE_TEXT || !read_text(c, &text, &n))
            return false;
        n = n < capacity ? n : capacity - 1;
        memcpy(out, text, n);
        out[n] = '\0';
        return true;
    }
    return false;
}

static size_t read_begin(int fd, uint8_t *bytes)
{
    size_t n = 0;
    ssize_t got = 1;

    while (n < HTH_GGUF_TEXT_BYTES && got != 0) {
        got = pread(fd, bytes + n, HTH_GGUF_TEXT_BYTES - n, (off_t)n);
        if (got < 0 && errno != EINTR)
            return 0;
        n += got > 0 ? (size_t)got : 0;
    }
    return n;
}

bool hth_gguf_is_file(int fd)
{
    char begin[sizeof(magic)];

    return pread(fd, begin, sizeof(begin), 0) == (ssize_t)sizeof(begin) && memcmp(begin, magic, sizeof(begin)) == 0;
}

bool hth_gguf_text_read(int fd, const char *key, char *out, size_t capacity)
{
    uint8_t *bytes = malloc(HTH_GGUF_TEXT_BYTES);
    const size_t n = bytes ? read_begin(fd, bytes) : 0;
    bool found = false;

    if (n >= HEAD_BYTES && memcmp(bytes, magic, sizeof(magic)) == 0 && (bytes[4] == 2 || bytes[4] == 3) &&
        hth_get_u32(bytes + 4) == bytes[4]) {
        cursor c = { bytes + HEAD_BYTES, n - HEAD_BYTES };

        found = find(&c, hth_get_u64(bytes + 16), key, out, capacity);
    }
    free(bytes);
    return found;
}
