/*
 * status.c - statuses and their messages
 */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/controls.h"
#include "base/utf8.h"

const char *hearth_status_name(hearth_status status)
{
    switch (status) {
    case HEARTH_OK: return "ok";
    case HEARTH_FAILED: return "failed";
    case HEARTH_MISUSE: return "misuse";
    case HEARTH_NO_MEMORY: return "no_memory";
    case HEARTH_NOT_FOUND: return "not_found";
    case HEARTH_PERMISSION: return "permission";
    case HEARTH_IO: return "io";
    case HEARTH_FULL: return "full";
    case HEARTH_CORRUPT: return "corrupt";
    case HEARTH_UNSUPPORTED: return "unsupported";
    case HEARTH_TOO_LONG: return "too_long";
    case HEARTH_CANCELLED: return "cancelled";
    case HEARTH_BUSY: return "busy";
    case HEARTH_TIMED_OUT: return "timed_out";
    case HEARTH_ENGINE: return "engine";
    case HEARTH_INVALID_TEXT: return "invalid_text";
    }
    return "unknown";
}

size_t hearth_error_size(void)
{
    return sizeof(hearth_error);
}

hearth_status hearth_error_status(const hearth_error *err)
{
    return err->status;
}

const char *hearth_error_message(const hearth_error *err)
{
    return err->message;
}

void hth_end_at_character(char *text, size_t capacity)
{
    size_t n = strnlen(text, capacity);

    if (n + 1 < capacity)
        return;
    if (n == capacity)
        n--;
    while (n > 0 && hth_utf8_goes_on(text[n - 1]))
        n--;
    if (n > 0 && (unsigned char)text[n - 1] >= 0xC0)
        n--;
    text[n] = '\0';
}

static void write_message(hearth_error *err, hearth_status status, int errnum, const char *format, va_list arguments)
{
    int n;

    if (!err)
        return;
    err->status = status;
    err->system_errno = errnum;
    err->retry_after_s = 0;
    err->n_tokens = 0;
    err->n_tokens_max = 0;
    memset(err->reserved, 0, sizeof(err->reserved));
    n = vsnprintf(err->message, sizeof(err->message), format, arguments);
    if (n < 0)
        err->message[0] = '\0';
    hth_end_at_character(err->message, sizeof(err->message));
    hth_controls_blank(err->message); /* one line that is safe on a terminal, whatever the arguments contain */
}

hearth_status hth_fail(hearth_error *err, hearth_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_message(err, status, 0, format, arguments);
    va_end(arguments);
    return status;
}

static hearth_status status_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR: return HEARTH_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS: return HEARTH_PERMISSION;
    case ENOSPC:
    case EDQUOT: return HEARTH_FULL;
    case ENOMEM: return HEARTH_NO_MEMORY;
    default: return HEARTH_IO;
    }
}

hearth_status hth_fail_errno(hearth_error *err, int errnum, const char *format, ...)
{
    hearth_status status = status_of_errno(errnum);
    char reason[128] = "";
    va_list arguments;

    va_start(arguments, format);
    write_message(err, status, errnum, format, arguments);
    va_end(arguments);
    if (!err)
        return status;

        /* The GNU and the POSIX strerror_r both provide a usable text; only the GNU one returns it. */
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *text = strerror_r(errnum, reason, sizeof(reason));
#else
    const char *text = strerror_r(errnum, reason, sizeof(reason)) == 0 ? reason : "unknown error";
#endif
    size_t n = strlen(err->message);
    if (errnum == EFBIG)
        text = "it would be larger than the limit on file sizes (ulimit -f)";
    (void)snprintf(err->message + n, sizeof(err->message) - n, ": %s", text); /* cut off below if it does not fit */
    hth_end_at_character(err->message, sizeof(err->message));
    return status;
}

hearth_status hth_status_merge(hearth_status so_far, hearth_status result, const hearth_error *why, hearth_error *err)
{
    if (so_far != HEARTH_NOT_FOUND && (so_far != HEARTH_OK || result == HEARTH_OK || result == HEARTH_NOT_FOUND))
        return so_far;
    if (err && result != HEARTH_OK)
        *err = *why;
    return result;
}

void hth_fail_prefix(hearth_error *err, const char *format, ...)
{
    char tail[sizeof(err->message)];
    size_t n_tail, n_head;
    va_list arguments;
    int n;

    if (!err)
        return;
    memcpy(tail, err->message, sizeof(tail));
    va_start(arguments, format);
    n = vsnprintf(err->message, sizeof(err->message), format, arguments);
    va_end(arguments);
    hth_end_at_character(err->message, sizeof(err->message));
    hth_controls_blank(err->message);
    if (n < 0 || (size_t)n + 2 >= sizeof(err->message))
        return;
    n_head = (size_t)n + 2;
    memcpy(err->message + n, ": ", 2);
    n_tail = strlen(tail);
    if (n_tail > sizeof(err->message) - n_head - 1)
        n_tail = sizeof(err->message) - n_head - 1;
    memcpy(err->message + n_head, tail, n_tail);
    err->message[n_head + n_tail] = '\0';
    hth_end_at_character(err->message, sizeof(err->message));
}
