/*
 * status.h - statuses and error messages
 *
 * A function that can fail returns a hearth_status and takes a hearth_error * as its last argument. The function that
 * detects the failure writes the message, once: what failed, the cause and the remedy in one line. Callers pass it on.
 */
#ifndef HTH_BASE_STATUS_H
#define HTH_BASE_STATUS_H

#include <stdarg.h>

#include "hearth.h"

/*
 * Write a message into err (which may be NULL) and return status, so that callers can `return hth_fail(...)`.
 * Thread-safe. The message is cut at the size of hearth_error.message, at a character boundary. Control characters
 * become spaces.
 */
hearth_status hth_fail(hearth_error *err, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Like hth_fail, with the status that fits errnum (ENOENT: NOT_FOUND; EACCES, EPERM, EROFS: PERMISSION; ENOSPC, EDQUOT:
 * FULL; ENOMEM: NO_MEMORY; others: IO) and ": <text of errnum>" appended.
 */
hearth_status hth_fail_errno(hearth_error *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Merge the result from one more of several places: the first error wins, otherwise HEARTH_OK, otherwise
 * HEARTH_NOT_FOUND, which is the initial so_far. err (may be NULL) gets the message of the winning status, from why.
 */
hearth_status hth_status_merge(hearth_status so_far, hearth_status result, const hearth_error *why, hearth_error *err);

/*
 * If a text fills its buffer, cut it before its last, perhaps incomplete, UTF-8 character. A shorter text is unchanged.
 */
void hth_end_at_character(char *text, size_t capacity);

/* Put "<prefix>: " before the message already in err. Does nothing when err is NULL. */
void hth_fail_prefix(hearth_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
