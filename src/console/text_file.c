/*
 * text_file.c - see text_file.h
 */
#include "console/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *hth_text_file_read(const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    ssize_t got = 1;

    if (fd < 0)
        (void)fprintf(stderr, "hearth: cannot open '%s': %s\n", name, strerror(errno));
    while (fd >= 0 && text && got > 0) {
        if (n + 1 == capacity) {
            char *grown = capacity > HTH_TEXT_FILE_BYTES_MAX ? NULL : realloc(text, 2 * capacity);

            if (!grown) {
                (void)fprintf(stderr, "hearth: '%s' is too large to read; a text may have %d MiB\n", name,
                              HTH_TEXT_FILE_BYTES_MAX >> 20);
                break;
            }
            text = grown;
            capacity *= 2;
        }
        got = read(fd, text + n, capacity - n - 1);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            (void)fprintf(stderr, "hearth: cannot read '%s': %s\n", name, strerror(errno));
        else
            n += (size_t)got;
    }
    if (fd >= 0 && !is_stdin)
        (void)close(fd); /* only read */
    if (fd < 0 || !text || got != 0) {
        free(text);
        return NULL;
    }
    /* Editors and echo append a line end; it is not part of the text. */
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    if (strlen(text) != n) {
        (void)fprintf(stderr, "hearth: '%s' contains a zero byte, so it is no text; convert it first\n", name);
        free(text);
        return NULL;
    }
    return text;
}
