#include "dialects/answers.h"

#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "api/prepare.h"
#include "api/writer.h"
#include "base/os.h"
#include "base/utf8.h"
#include "dialects/ollama_answers.h"
#include "models/model.h"

/* ---- texts and tokens ---- */

enum {
    TOKENS_MAX = 1000000, /* per response; as many as a body may have values, so that /detokenize accepts them all */
    TOKENS_UNSEEN = 1024, /* tokens written between two checks whether the client has disconnected */
};

/* Append a token with its text or, if that is not whole characters, its bytes as an array of numbers. */
static void add_piece(hearth_model *model, hearth_token token, hth_buffer *out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    hth_buffer_add_text(out, ",\"piece\":");
    if (hearth_token_bytes(model, token, piece, sizeof(piece), &n, NULL) == HEARTH_OK && hth_utf8_is_valid(piece, n))
        hth_buffer_add_json_take(out, json_stringn(piece, n));
    else
        hth_buffer_add_json_take(out, hth_json_bytes(piece, n));
    hth_buffer_add_text(out, "}");
}

/*
 * Append {"tokens":[...]} as text: as JSON values, each token would take hundreds of bytes. False if the client has
 * disconnected.
 */
static bool add_tokens(hearth_model *model, const hth_api_request *request, const hearth_token *tokens, size_t n,
                       hth_buffer *out)
{
    const atomic_bool *is_gone = request->is_gone;

    hth_buffer_add_text(out, "{\"tokens\":[");
    for (size_t i = 0; i < n && !out->failed; i++) {
        if (i % TOKENS_UNSEEN == 0 && is_gone && atomic_load_explicit(is_gone, memory_order_relaxed))
            return false;
        hth_buffer_add_format(out, "%s%s%d", i > 0 ? "," : "", request->with_pieces ? "{\"id\":" : "", (int)tokens[i]);
        if (request->with_pieces)
            add_piece(model, tokens[i], out);
    }
    hth_buffer_add_text(out, "]}");
    return true;
}

static bool tokenize(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    unsigned flags =
        (request->add_special ? HEARTH_TOKENIZE_BOS : 0u) | (request->parse_special ? HEARTH_TOKENIZE_SPECIAL : 0u);
    size_t n_bytes = strlen(request->text), n = 0;
    size_t capacity = n_bytes + 16 < TOKENS_MAX ? n_bytes + 16 : TOKENS_MAX;
    hearth_token *tokens = malloc(capacity * sizeof(*tokens));
    hearth_error err = { .status = HEARTH_NO_MEMORY, .message = "no memory for tokens" };
    bool ok = tokens && hth_model_tokenize(model, request->text, n_bytes, flags, request->is_gone, tokens, capacity, &n,
                                           &err) == HEARTH_OK;

    if (n > TOKENS_MAX) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "content",
                     "'content' has %zu tokens; at most %d are answered at once: send it in parts", n, TOKENS_MAX);
    } else if (!ok) {
        hth_api_fail_status(error, &err);
    } else if (!add_tokens(model, request, tokens, n, out)) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "the client has left");
        ok = false;
    }
    free(tokens);
    return ok;
}

static bool detokenize(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    json_t *content;
    char *text = NULL;
    size_t n = 0;
    hearth_error err;

    if (hearth_detokenize(model, request->tokens, request->n_tokens, true, &text, &n, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    content = json_stringn(text, n);
    hearth_free(text); /* freed before the text is copied again */
    hth_buffer_add_json_take(out, json_pack("{s:o}", "content", content));
    return true;
}

static bool apply_template(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    const hearth_chat_prompt *chat = NULL;

    if (!hth_api_render_prompt(model, request, &chat, error))
        return false;
    hth_buffer_add_json_take(out, json_pack("{s:s}", "prompt", chat->text));
    hearth_chat_prompt_free(chat);
    return true;
}

static bool count_tokens(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    json_t *counted, *edits = NULL;
    size_t n;

    if (!hth_api_count_prompt(model, request, &n, error))
        return false;
    if (request->edits.is_asked)
        edits = json_pack("{s:I}", "original_input_tokens",
                          (json_int_t)n + request->edits.cleared_tool_tokens + request->edits.cleared_thinking_tokens);
    counted = json_pack("{s:I, s:o*}", "input_tokens", (json_int_t)n, "context_management", edits);
    if (request->kind == HTH_API_RESPONSES_TOKENS)
        json_object_set_new(counted, "object", json_string("response.input_tokens"));
    hth_buffer_add_json_take(out, counted);
    return true;
}

/* Respond to a request that only loads the model: it is loaded. */
static bool tell_loaded(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_error err;

    if (hearth_model_info_get(model, &info, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    hth_api_ollama_load_write(&info, request, (json_int_t)hth_os_unix_seconds(), out);
    return true;
}

bool hth_api_answer(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (request->is_load)
        return tell_loaded(model, request, out, error);
    switch (request->kind) {
    case HTH_API_TOKENIZE: return tokenize(model, request, out, error);
    case HTH_API_DETOKENIZE: return detokenize(model, request, out, error);
    case HTH_API_APPLY_TEMPLATE: return apply_template(model, request, out, error);
    case HTH_API_CHAT_TOKENS:
    case HTH_API_COUNT_TOKENS:
    case HTH_API_RESPONSES_TOKENS: return count_tokens(model, request, out, error);
    case HTH_API_OLLAMA_SHOW: return hth_api_ollama_show_write(model, request, out, error);
    default: break;
    }
    hth_api_fail(error, HTH_API_INTERNAL, NULL, "this endpoint is not answered at once");
    return false;
}
