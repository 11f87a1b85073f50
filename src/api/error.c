/*
 * error.c - each kind of error in each API, in one table
 */
#include "api/error.h"

#include <stdio.h>
#include <string.h>

#include "api/sse.h"
#include "base/utf8.h"

typedef struct error_shape {
    int status;
    int anthropic_status;
    const char *openai_type, *openai_code, *anthropic_type, *native_type;
    int native_status;
} error_shape;

static const char invalid[] = "invalid_request_error", server[] = "server_error";

static const error_shape shapes[HTH_API_ERROR_KINDS] = {
    [HTH_API_NO_ERROR] = { 500, 500, server, "internal_error", "api_error", server, 500 },
    [HTH_API_INVALID_JSON] = { 400, 400, invalid, "invalid_json", invalid, invalid, 400 },
    [HTH_API_INVALID_TYPE] = { 400, 400, invalid, "invalid_type", invalid, invalid, 400 },
    [HTH_API_INVALID_VALUE] = { 400, 400, invalid, "invalid_value", invalid, invalid, 400 },
    [HTH_API_MISSING] = { 400, 400, invalid, "missing_required_parameter", invalid, invalid, 400 },
    [HTH_API_UNKNOWN_FIELD] = { 400, 400, invalid, "unknown_parameter", invalid, invalid, 400 },
    [HTH_API_UNSUPPORTED] = { 400, 400, invalid, "unsupported_parameter", invalid, "not_supported_error", 501 },
    [HTH_API_CONTEXT_LENGTH] = { 400, 400, invalid, "context_length_exceeded", invalid, "exceed_context_size_error",
                                 400 },
    [HTH_API_TOO_LARGE] = { 413, 413, invalid, "request_too_large", "request_too_large", invalid, 413 },
    [HTH_API_UNAUTHORIZED] = { 401, 401, invalid, "invalid_api_key", "authentication_error", "authentication_error",
                               401 },
    [HTH_API_FORBIDDEN] = { 403, 403, invalid, "forbidden", "permission_error", "permission_error", 403 },
    [HTH_API_NOT_FOUND] = { 404, 404, invalid, "not_found", "not_found_error", "not_found_error", 404 },
    [HTH_API_RATE_LIMITED] = { 429, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                               "unavailable_error", 429 },
    [HTH_API_OVERLOADED] = { 503, 529, server, "overloaded", "overloaded_error", "unavailable_error", 503 },
    [HTH_API_NOT_RESIDENT] = { 503, 503, server, "model_not_resident", "api_error", "unavailable_error", 503 },
    [HTH_API_CONFLICT] = { 409, 409, invalid, "conflict", invalid, invalid, 409 },
    [HTH_API_TIMED_OUT] = { 504, 504, server, "timeout", "timeout_error", server, 504 },
    [HTH_API_INTERNAL] = { 500, 500, server, "internal_error", "api_error", server, 500 },
};

void hth_api_fail_list(hth_api_error *error, hth_api_error_kind kind, const char *param, const char *format,
                       va_list arguments)
{
    if (!error || error->kind != HTH_API_NO_ERROR)
        return;
    *error = (hth_api_error){ .kind = kind };
    (void)snprintf(error->param, sizeof(error->param), "%s", param ? param : ""); /* truncated if too long */
    hth_utf8_mend(error->param);
    (void)vsnprintf(error->message, sizeof(error->message), format, arguments); /* likewise */
    hth_utf8_mend(error->message);
}

void hth_api_fail(hth_api_error *error, hth_api_error_kind kind, const char *param, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    hth_api_fail_list(error, kind, param, format, arguments);
    va_end(arguments);
}

void hth_api_fail_status(hth_api_error *error, const hearth_error *from)
{
    static const struct {
        hearth_status status;
        hth_api_error_kind kind;
    } kinds[] = {
        { HEARTH_MISUSE, HTH_API_INVALID_VALUE },    { HEARTH_INVALID_TEXT, HTH_API_INVALID_VALUE },
        { HEARTH_TOO_LONG, HTH_API_CONTEXT_LENGTH }, { HEARTH_NOT_FOUND, HTH_API_NOT_FOUND },
        { HEARTH_UNSUPPORTED, HTH_API_UNSUPPORTED }, { HEARTH_BUSY, HTH_API_OVERLOADED },
        { HEARTH_FULL, HTH_API_OVERLOADED },         { HEARTH_CANCELLED, HTH_API_OVERLOADED },
        { HEARTH_NO_MEMORY, HTH_API_OVERLOADED },    { HEARTH_TIMED_OUT, HTH_API_TIMED_OUT },
    };
    hth_api_error_kind kind = HTH_API_INTERNAL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].status == from->status)
            kind = kinds[i].kind;
    if (!error || error->kind != HTH_API_NO_ERROR)
        return;
    hth_api_fail(error, kind, NULL, "%s", from->message);
    error->retry_after_s = from->retry_after_s;
    error->n_prompt_tokens = from->n_tokens;
    error->n_ctx = from->n_tokens_max;
}

void hth_api_fail_order(hth_api_error *error, const hearth_error *from)
{
    if (from->status == HEARTH_FULL || from->status == HEARTH_UNSUPPORTED)
        hth_api_fail(error, HTH_API_CONFLICT, NULL, "%s", from->message);
    else if (from->status == HEARTH_CANCELLED)
        hth_api_fail(error, HTH_API_NOT_RESIDENT, NULL, "%s", from->message);
    else
        hth_api_fail_status(error, from);
}

int hth_api_error_http_status(hth_api_dialect dialect, const hth_api_error *error)
{
    const error_shape *shape = &shapes[error->kind];

    return error->status                ? error->status
         : dialect == HTH_API_ANTHROPIC ? shape->anthropic_status
         : dialect == HTH_API_NATIVE    ? shape->native_status
                                        : shape->status;
}

/*
 * Clients of Anthropic's API compact a conversation when they read Anthropic's own wording for a prompt that is too
 * long. Our advice, which begins at a semicolon, follows it.
 */
static json_t *anthropic_message(const hth_api_error *error)
{
    const char *remedy = strchr(error->message, ';');

    if (error->kind != HTH_API_CONTEXT_LENGTH || error->n_prompt_tokens == 0)
        return json_string(error->message);
    return json_sprintf("prompt is too long: %u tokens > %u maximum%s", error->n_prompt_tokens, error->n_ctx,
                        remedy ? remedy : "");
}

json_t *hth_api_error_json(hth_api_dialect dialect, const hth_api_error *error)
{
    const error_shape *shape = &shapes[error->kind];
    json_t *json;

    if (dialect == HTH_API_ANTHROPIC)
        return json_pack("{s:s, s:{s:s, s:o, s:o*}}", "type", "error", "error", "type", shape->anthropic_type,
                         "message", anthropic_message(error), "details",
                         error->details ? json_loads(error->details, 0, NULL) : NULL);
    if (dialect == HTH_API_OLLAMA)
        return json_pack("{s:s}", "error", error->message);
    if (dialect == HTH_API_NATIVE)
        json = json_pack("{s:{s:i, s:s, s:s}}", "error", "code", hth_api_error_http_status(dialect, error), "message",
                         error->message, "type", shape->native_type);
    else
        json = json_pack("{s:{s:s, s:s, s:s?, s:s}}", "error", "message", error->message, "type", shape->openai_type,
                         "param", error->param[0] ? error->param : NULL, "code", shape->openai_code);
    /* As in llama-server, for clients that shorten a prompt themselves. */
    if (error->n_prompt_tokens > 0 &&
        (json_object_set_new(json_object_get(json, "error"), "n_prompt_tokens", json_integer(error->n_prompt_tokens)) ||
         json_object_set_new(json_object_get(json, "error"), "n_ctx", json_integer(error->n_ctx)))) {
        json_decref(json);
        return NULL;
    }
    return json;
}

const char *hth_api_stream_type(hth_api_dialect dialect)
{
    return dialect == HTH_API_OLLAMA ? HTH_NDJSON_CONTENT_TYPE : HTH_SSE_CONTENT_TYPE;
}

void hth_api_error_write(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out)
{
    hth_buffer_add_json_take(out, hth_api_error_json(dialect, error));
}

void hth_api_error_write_event(hth_api_dialect dialect, const hth_api_error *error, hth_buffer *out)
{
    if (dialect == HTH_API_OLLAMA)
        hth_ndjson_add_take(out, hth_api_error_json(dialect, error));
    else if (dialect == HTH_API_OPENAI_RESPONSES)
        hth_sse_add_take(out, "error",
                         json_pack("{s:s, s:i, s:s, s:s, s:s?}", "type", "error", "sequence_number", 0, "code",
                                   shapes[error->kind].openai_code, "message", error->message, "param",
                                   error->param[0] ? error->param : NULL));
    else
        hth_sse_add_take(out, dialect == HTH_API_ANTHROPIC ? "error" : NULL, hth_api_error_json(dialect, error));
}
