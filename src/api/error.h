/*
 * error.h - request errors, in the format of each API
 */
#ifndef HTH_API_ERROR_H
#define HTH_API_ERROR_H

#include <stdarg.h>

#include "api/buffer.h"
#include "hearth.h"

/* The API whose formats a request and its reply use. */
typedef enum hth_api_dialect {
    HTH_API_OPENAI,
    HTH_API_ANTHROPIC,
    HTH_API_NATIVE,           /* llama.cpp's own */
    HTH_API_OPENAI_RESPONSES, /* OpenAI's, with its own events */
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
    HTH_API_NOT_RESIDENT, /* the model is not in memory, and requests do not load it */
    HTH_API_CONFLICT,     /* an operator's order that the current state does not allow */
    HTH_API_TIMED_OUT,
    HTH_API_INTERNAL,
} hth_api_error_kind;
enum { HTH_API_ERROR_KINDS = HTH_API_INTERNAL + 1 };

typedef struct hth_api_error {
    hth_api_error_kind kind;
    char param[128]; /* the field, "messages[2].content"; "" if the error is not about a field */
    char message[640];
    uint32_t retry_after_s;   /* for the header of that name; 0: none */
    int status;               /* an HTTP status that has no kind, such as 405 and 415; 0: that of the kind */
    uint32_t n_prompt_tokens; /* HTH_API_CONTEXT_LENGTH: the length of the prompt; 0: unknown */
    uint32_t n_ctx;           /* the size of the context that the prompt exceeds */
    const char *details;      /* Anthropic: a JSON object for programs, a constant; NULL: none */
} hth_api_error;

/* Fill error (may be NULL), unless it already holds an error: the first one counts. */
void hth_api_fail(hth_api_error *error, hth_api_error_kind kind, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hth_api_fail_list(hth_api_error *error, hth_api_error_kind kind, const char *param, const char *format,
                       va_list arguments) __attribute__((format(printf, 4, 0)));

/* Fill error, as above, with a failure of the library. */
void hth_api_fail_status(hth_api_error *error, const hearth_error *from);
/* The same for an order to move a model. An order that the current state does not allow is a conflict. */
void hth_api_fail_order(hth_api_error *error, const hearth_error *from);

/* The HTTP status of an error in this API. */
int hth_api_error_http_status(hth_api_dialect dialect, const hth_api_error *error);

/* The error as a new JSON value; NULL if out of memory. */
json_t *hth_api_error_json(hth_api_dialect dialect, const hth_api_error *error);
/* The content type of a stream in this API. */
const char *hth_api_stream_type(hth_api_dialect dialect);
/* Append the error as the body of a reply, or as the last event of a stream that has begun. */
void hth_api_error_write(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out);
void hth_api_error_write_event(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out);

#endif
