/*
 * pool.h - memory that is released at once: the texts and lists of a configuration
 */
#ifndef HTH_OPTIONS_POOL_H
#define HTH_OPTIONS_POOL_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hth_pool hth_pool; /* one thread at a time */

hth_pool *hth_pool_new(void);       /* NULL without memory */
void hth_pool_free(hth_pool *pool); /* also releases everything from it */

/* Zeros, aligned for anything; NULL without memory. */
void *hth_pool_alloc(hth_pool *pool, size_t n_bytes);
/* n bytes of text as a string. */
char *hth_pool_text(hth_pool *pool, const char *text, size_t n);
/* A formatted string of at most HTH_POOL_FORMAT_BYTES; NULL if it is longer or without memory. */
char *hth_pool_format(hth_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum { HTH_POOL_FORMAT_BYTES = 8192 };
/* Did an allocation from it ever fail? */
bool hth_pool_lacked_memory(const hth_pool *pool);

#endif
