/*
 * text_file.c - see text_file.h
 */
#include "console/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
