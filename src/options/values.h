/*
 * values.h - reads the values of options, and addresses to listen on
 *
 * Each function reads the text of an option's value into *out and returns true. Otherwise it writes the expected value
 * into err, returns false and leaves *out unchanged. name is the option in messages: "--top-k".
 */
#ifndef HTH_OPTIONS_VALUES_H
#define HTH_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

/* Write "NAME is 'VALUE'; it must be EXPECTED" into err. Returns false. */
bool hth_value_wrong(const char *name, const char *value, const char *expected, hearth_error *err);

bool hth_value_integer(const char *name, const char *value, long long low, long long high, long long *out,
                       hearth_error *err);
bool hth_value_u32(const char *name, const char *value, long long low, long long high, uint32_t *out,
                   hearth_error *err);
bool hth_value_i32(const char *name, const char *value, long long low, long long high, int32_t *out, hearth_error *err);
bool hth_value_number(const char *name, const char *value, double low, double high, double *out, hearth_error *err);
/* Milliseconds, with an optional ms, s, min, h or d. */
bool hth_value_ms(const char *name, const char *value, uint32_t low, uint32_t high, uint32_t *out, hearth_error *err);
/* Bytes, at least low, with an optional unit K, M, G or T (also KB or KiB), each 1024 times the previous one. */
bool hth_value_size(const char *name, const char *value, uint64_t low, uint64_t *out, hearth_error *err);

/* Read one of words, a list ending with NULL, as its index. */
bool hth_value_word(const char *name, const char *value, const char *const *words, int *out, hearth_error *err);

/* Write "NAME 'VALUE' is one too many" into err. Returns false. */
bool hth_value_too_many(const char *name, const char *value, size_t n_max, hearth_error *err);
/* Append a non-empty text to a list of *n texts with room for n_max; value NULL empties the list. */
bool hth_value_add_text(const char **list, size_t *n, size_t n_max, const char *name, const char *value,
                        hearth_error *err);

enum { HTH_ADDRESS_HOST_BYTES = 256, HTH_ADDRESS_PORT = 8080 /* if the text has none */ };

/*
 * Read "HOST:PORT", "[IPV6]:PORT", "HOST", "PORT" or "unix:PATH". host_out, of n bytes, receives the host, or "" for a
 * unix socket; *path_out receives the path of the socket, within text, or NULL. shown is the option in messages. False
 * with a message.
 */
bool hth_address_read(const char *shown, const char *text, char *host_out, size_t n, uint16_t *port_out,
                      const char **path_out, hearth_error *err);
/* Is text a valid address? An hth_option_check_fn. */
bool hth_address_check(const char *shown, const char *text, hearth_error *err);

#endif
