/*
 * limits.h - limits of requests, which the operator sets
 */
#ifndef HTH_API_LIMITS_H
#define HTH_API_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* How to treat unknown request fields: ignore them with a note, or return an error. */
typedef enum hth_unknown_fields { HTH_UNKNOWN_PASS, HTH_UNKNOWN_REFUSE } hth_unknown_fields;
/* Whether the server removes changing text that clients add to prompts (normalize.c). */
typedef enum hth_normalizing { HTH_NORMALIZE_ON, HTH_NORMALIZE_OFF } hth_normalizing;

typedef struct hth_api_limits {
    uint64_t body_bytes_max;
    size_t values_max;
    uint32_t depth_max;
    uint32_t messages_max;
    uint32_t schema_bytes_max; /* of a JSON schema or a grammar as text; the library refuses more than 256 KiB */
    hth_unknown_fields unknown_fields;
    hth_normalizing normalize;
} hth_api_limits;

static inline hth_api_limits hth_api_limits_default(void)
{
    return (hth_api_limits){
        .body_bytes_max = 32 << 20,
        .values_max = 1000000,
        .depth_max = 64,
        .messages_max = 16384,
        .schema_bytes_max = 256 << 10,
    };
}

#endif
