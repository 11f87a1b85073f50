/*
 * model_files_size.c - see model_files_size.h
 */
#include "server/model_files_size.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PARTS_MAX = 999, DIGITS = 5 };

static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* The number in [DIGITS] digits; 0: they are no digits. */
static unsigned read_digits(const char *text)
{
    unsigned number = 0;

    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    return number;
}

uint64_t hth_model_files_bytes(const char *path)
{
    static const char form[] = "-00001-of-00003.gguf";
    const size_t n_form = sizeof(form) - 1, n = path ? strlen(path) : 0;
    const char *end;
    char part[PATH_MAX];
    uint64_t sum = 0;
    unsigned n_parts;

    if (n == 0)
        return 0;
    if (n <= n_form || n >= sizeof(part))
        return file_bytes(path);
    end = path + n - n_form;
    if (*end != '-' || strncmp(end + 1 + DIGITS, "-of-", 4) != 0 || strcmp(path + n - 5, ".gguf") != 0 ||
        read_digits(end + 1) == 0)
        return file_bytes(path);
    n_parts = read_digits(end + 1 + DIGITS + 4);
    if (n_parts == 0 || n_parts > PARTS_MAX)
        return file_bytes(path);
    for (unsigned i = 1; i <= n_parts; i++) {
        (void)snprintf(part, sizeof(part), "%.*s-%05u-of-%05u.gguf", (int)(n - n_form), path, i, n_parts); /* fits */
        sum += file_bytes(part);
    }
    return sum;
}
