#include "console/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

bool hth_read_to_end(int fd, size_t n_max, hth_buffer *out)
{
    char bytes[1 << 16];

    for (;;) {
        const ssize_t got = read(fd, bytes, sizeof(bytes));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        if ((size_t)got > n_max - out->n) {
            errno = EFBIG;
            return false;
        }
        hth_buffer_add(out, bytes, (size_t)got);
        if (out->failed) {
            errno = ENOMEM;
            return false;
        }
    }
}

char *hth_text_file_read(const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    hth_buffer text = { .text = NULL };
    bool is_read = false;

    if (fd < 0)
        (void)fprintf(stderr, "hearth: cannot open '%s': %s\n", name, strerror(errno));
    else if (hth_read_to_end(fd, HTH_TEXT_FILE_BYTES_MAX, &text))
        is_read = true;
    else if (errno == EFBIG)
        (void)fprintf(stderr, "hearth: '%s' is too large to read; a text may have %d MiB\n", name,
                      HTH_TEXT_FILE_BYTES_MAX >> 20);
    else
        (void)fprintf(stderr, "hearth: cannot read '%s': %s\n", name, strerror(errno));
    if (fd >= 0 && !is_stdin)
        (void)close(fd); /* only read */
    /* Editors and echo append a line end; it is not part of the text. */
    if (text.n > 0 && text.text[text.n - 1] == '\n')
        text.text[--text.n] = '\0';
    if (is_read && strlen(hth_buffer_text(&text)) != text.n) {
        (void)fprintf(stderr, "hearth: '%s' contains a zero byte, so it is no text; convert it first\n", name);
        is_read = false;
    }
    if (is_read)
        return text.text ? text.text : strdup("");
    hth_buffer_deinit(&text);
    return NULL;
}

/* ---- lines ---- */

enum { BYTES_FIRST = 64 << 10 };

struct hth_line_reader {
    const char *name;
    int fd;
    char *bytes; /* [capacity]; [begin, end) was read but not returned yet */
    size_t begin;
    size_t searched; /* there is no line end between begin and here */
    size_t end;
    size_t capacity;
    uint64_t number; /* of the last returned line */
    bool has_ended;
};

hearth_status hth_line_reader_open(const char *path, hth_line_reader **out, hearth_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    hth_line_reader *reader = calloc(1, sizeof(*reader));
    hearth_status status;

    if (!reader)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read '%s'", path);
    reader->name = is_stdin ? "standard input" : path;
    reader->capacity = BYTES_FIRST;
    reader->bytes = malloc(reader->capacity);
    reader->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd >= 0 && reader->bytes) {
        *out = reader;
        return HEARTH_OK;
    }
    status = reader->fd < 0 ? hth_fail_errno(err, errno, "cannot open '%s'", path)
                            : hth_fail(err, HEARTH_NO_MEMORY, "no memory to read '%s'", path);
    hth_line_reader_close(reader);
    return status;
}

void hth_line_reader_close(hth_line_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd > STDIN_FILENO)
        (void)close(reader->fd); /* only read */
    free(reader->bytes);
    free(reader);
}

const char *hth_line_reader_name(const hth_line_reader *reader)
{
    return reader->name;
}

int hth_line_reader_fd(const hth_line_reader *reader)
{
    return reader->fd;
}

/* Make room for two more bytes: one to read, and one to terminate a last line without a line end. */
static hearth_status reserve(hth_line_reader *reader, hearth_error *err)
{
    size_t n = reader->end - reader->begin;
    char *grown;

    if (reader->begin > 0) {
        memmove(reader->bytes, reader->bytes + reader->begin, n);
        reader->searched -= reader->begin;
        reader->begin = 0;
        reader->end = n;
    }
    if (reader->capacity - n >= 2)
        return HEARTH_OK;
    if (n > HTH_TEXT_FILE_BYTES_MAX)
        return hth_fail(err, HEARTH_TOO_LONG, "%s, line %llu: longer than %d MiB, the limit of a prompt", reader->name,
                        (unsigned long long)reader->number + 1, HTH_TEXT_FILE_BYTES_MAX >> 20);
    grown = realloc(reader->bytes, 2 * reader->capacity);
    if (!grown)
        return hth_fail(err, HEARTH_NO_MEMORY, "%s, line %llu: no memory for it", reader->name,
                        (unsigned long long)reader->number + 1);
    reader->bytes = grown;
    reader->capacity *= 2;
    return HEARTH_OK;
}

hearth_status hth_line_reader_fill(hth_line_reader *reader, hearth_error *err)
{
    hearth_status status = reserve(reader, err);
    ssize_t got;

    if (status != HEARTH_OK)
        return status;
    got = read(reader->fd, reader->bytes + reader->end, reader->capacity - reader->end - 1);
    if (got < 0 && errno == EINTR)
        return HEARTH_OK;
    if (got < 0)
        return hth_fail_errno(err, errno, "cannot read '%s'", reader->name);
    reader->end += (size_t)got;
    reader->has_ended = got == 0;
    return HEARTH_OK;
}

char *hth_line_reader_next(hth_line_reader *reader, size_t *n, uint64_t *number)
{
    char *line = reader->bytes + reader->begin;
    char *end = memchr(reader->bytes + reader->searched, '\n', reader->end - reader->searched);

    if (!end && (!reader->has_ended || reader->begin == reader->end)) {
        reader->searched = reader->end;
        return NULL;
    }
    reader->begin = end ? (size_t)(end + 1 - reader->bytes) : reader->end;
    reader->searched = reader->begin;
    if (!end)
        end = reader->bytes + reader->end; /* hth_line_reader_fill leaves room for this byte */
    if (end > line && end[-1] == '\r')
        end--; /* some systems end lines with CR LF */
    *end = '\0';
    *n = (size_t)(end - line);
    *number = ++reader->number;
    return line;
}

bool hth_line_reader_is_done(const hth_line_reader *reader)
{
    return reader->has_ended && reader->begin == reader->end;
}
