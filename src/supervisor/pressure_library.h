/*
 * pressure_library.h - the use of memory that a function of an operator's shared library reports
 *
 * The front asks in a process of its own, `hearth worker --pressure-library FILE:SYMBOL`, because the function may
 * crash, hang, or keep threads.
 */
#ifndef HTH_SUPERVISOR_PRESSURE_LIBRARY_H
#define HTH_SUPERVISOR_PRESSURE_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "hearth.h"

#define HTH_PRESSURE_LIBRARY_FLAG "--pressure-library"

/*
 * The function. It sets the used bytes and the total bytes. It returns 0 for success; other numbers appear in the
 * error.
 */
typedef int (*hth_pressure_library_fn)(uint64_t *used, uint64_t *total);

/* Split "FILE:SYMBOL" at its last colon. False: it has another form; outputs are unchanged. *symbol lies in text. */
bool hth_pressure_library_split(const char *text, char file[PATH_MAX], const char **symbol);

/*
 * Load the library, which stays loaded, and call its function. Blocks for as long as the function does.
 * HEARTH_MISUSE: the form of text; HEARTH_NOT_FOUND: the file or the function; HEARTH_FAILED: the function failed, or
 * used is above total, or total is 0.
 */
hearth_status hth_pressure_library_ask(const char *text, uint64_t *used, uint64_t *total, hearth_error *err);

#endif
