/*
 * passed_over.h - fields that clients send in vain, each told of once
 *
 * A client sends the same fields with each request. The log has a line for the first time that a key sends one. What was told is
 * remembered for a bounded number of (key, field); beyond it nothing is told any more.
 */
#ifndef HTH_SERVER_PASSED_OVER_H
#define HTH_SERVER_PASSED_OVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

enum { HTH_PASSED_OVER_MAX = 1024 };

/* Zeroed: nothing was told. One thread. */
typedef struct hth_passed_over {
    uint32_t told[HTH_PASSED_OVER_MAX]; /* [n] checksums of key and field */
    size_t n;
} hth_passed_over;

/* Log, at debug level, those of a list of notes (api/notes.h) that are new for the key; key "": nobody known. */
void hth_passed_over_log(hth_passed_over *seen, const hth_log *log, const char *key, const char *endpoint,
                         const char *notes);

#endif
