/*
 * values.h - the values of options
 *
 * Each reads the text value of an option into *out and answers true; otherwise it writes into err what the value must
 * be, and answers false with *out unchanged. name is how the message calls the option: "--top-k".
 */
#ifndef HTH_CLI_VALUES_H
#define HTH_CLI_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

/* "NAME is 'VALUE'; it must be EXPECTED", and false. */
bool hth_value_wrong(const char *name, const char *value, const char *expected, hearth_error *err);

bool hth_value_integer(const char *name, const char *value, long long low, long long high, long long *out,
                       hearth_error *err);
bool hth_value_u32(const char *name, const char *value, long long low, long long high, uint32_t *out,
                   hearth_error *err);
bool hth_value_i32(const char *name, const char *value, long long low, long long high, int32_t *out, hearth_error *err);
bool hth_value_float(const char *name, const char *value, double low, double high, float *out, hearth_error *err);
bool hth_value_number(const char *name, const char *value, double low, double high, double *out, hearth_error *err);
/* Milliseconds, with an optional ms, s, min, h or d. */
bool hth_value_ms(const char *name, const char *value, uint32_t low, uint32_t high, uint32_t *out, hearth_error *err);
/* Bytes, with an optional K, M, G or T, which may be written KB or KiB and is 1024 each time, at least low. */
bool hth_value_size(const char *name, const char *value, uint64_t low, uint64_t *out, hearth_error *err);

/* "NAME 'VALUE' is one too many", and false. */
bool hth_value_too_many(const char *name, const char *value, size_t n_max, hearth_error *err);
/* One more text, not an empty one, for a list of *n, at most n_max; value NULL empties it. */
bool hth_value_add_text(const char **list, size_t *n, size_t n_max, const char *name, const char *value,
                        hearth_error *err);

#endif
