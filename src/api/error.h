/*
 * error.h - what is wrong with a request, in the shape of the API that it came by
 */
#ifndef HTH_API_ERROR_H
#define HTH_API_ERROR_H

#include "api/buffer.h"
#include "hearth.h"

/* Whose formats a request and its reply have. */
typedef enum hth_api_dialect {
    HTH_API_OPENAI,
    HTH_API_ANTHROPIC,
    HTH_API_NATIVE,           /* llama.cpp's own */
    HTH_API_OPENAI_RESPONSES, /* OpenAI's, but for its events */
    HTH_API_OLLAMA,
} hth_api_dialect;

typedef enum hth_api_error_kind {
    HTH_API_NO_ERROR = 0,
    HTH_API_INVALID_JSON,
    HTH_API_INVALID_TYPE,
    HTH_API_INVALID_VALUE,
    HTH_API_MISSING,
    HTH_API_UNKNOWN_FIELD,
    HTH_API_UNSUPPORTED,
    HTH_API_CONTEXT_LENGTH,
    HTH_API_TOO_LARGE,
    HTH_API_UNAUTHORIZED,
    HTH_API_FORBIDDEN,
    HTH_API_NOT_FOUND,
    HTH_API_RATE_LIMITED,
    HTH_API_OVERLOADED,
    HTH_API_TIMED_OUT,
    HTH_API_INTERNAL,
} hth_api_error_kind;
enum { HTH_API_ERROR_KINDS = HTH_API_INTERNAL + 1 };

typedef struct hth_api_error {
    hth_api_error_kind kind;
    char param[128]; /* the field, "messages[2].content"; "" where it is none */
    char message[640];
    uint32_t retry_after_s; /* for the header of that name; 0: none */
    int status;             /* the HTTP status where no kind has it, as 405 and 415; 0: the kind's */
    size_t n_prompt_tokens; /* HTH_API_CONTEXT_LENGTH: of a prompt that does not fit; 0: not known */
    uint32_t n_ctx;         /* what it would have to fit into */
    const char *details;    /* Anthropic: a JSON object for programs, a constant; NULL: none */
} hth_api_error;

/* Fill error, which may be NULL, unless something is in it already: the first thing that is wrong counts. */
void hth_api_fail(hth_api_error *error, hth_api_error_kind kind, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A failure of the library as the error that a client sees. */
void hth_api_fail_status(hth_api_error *error, const hearth_error *from);

/* The HTTP status of an error in this dialect. */
int hth_api_error_http_status(hth_api_dialect dialect, const hth_api_error *error);

/* The error as JSON; NULL without memory. */
json_t *hth_api_error_json(hth_api_dialect dialect, const hth_api_error *error);
/* The content type of a stream in this dialect. */
const char *hth_api_stream_type(hth_api_dialect dialect);
/* The same as the body of a reply, and as the last event of a stream that has begun. */
void hth_api_error_write(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out);
void hth_api_error_write_event(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out);

#endif
