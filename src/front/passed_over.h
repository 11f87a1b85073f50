/*
 * passed_over.h - logs ignored fields of requests, each once
 *
 * A client sends the same fields with each request. The log has a line for the first time that a key sends a field. A
 * bounded number of pairs (key, field) is remembered; when the list is full, no more lines are logged.
 */
#ifndef HTH_FRONT_PASSED_OVER_H
#define HTH_FRONT_PASSED_OVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

enum { HTH_PASSED_OVER_MAX = 1024 };

/* All zeros at the beginning. One thread. */
typedef struct hth_passed_over {
    uint32_t told[HTH_PASSED_OVER_MAX]; /* [n] checksums of key and field */
    size_t n;
} hth_passed_over;

/* Log the notes (api/notes.h) that are new for the key, at debug level. key "": no known key. */
void hth_passed_over_log(hth_passed_over *seen, const hth_log *log, const char *key, const char *endpoint,
                         const char *notes);

#endif
