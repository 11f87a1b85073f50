/*
 * answers.c - see answers.h
 */
#include "api/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/native_settings.h"
#include "api/ollama_answers.h"
#include "api/prepare.h"
#include "base/os.h"
#include "models/model.h"
#include "sched/text_stream.h"

/* ---- texts and tokens ---- */

enum {
    TOKENS_MAX = 1000000, /* of one answer; as many values as a body may have, so that /detokenize takes them all */
    TOKENS_UNSEEN = 1024, /* so many are written between two looks for the client */
};

static void add_bytes(const char *bytes, size_t n, hth_buffer *out)
{
    char number[8];

    hth_buffer_add_text(out, "[");
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(number, sizeof(number), "%s%d", i > 0 ? "," : "", (unsigned char)bytes[i]); /* fits */
        hth_buffer_add_text(out, number);
    }
    hth_buffer_add_text(out, "]");
}

/* A token with its text or, where that is no whole characters, its bytes as an array of numbers. */
static void add_piece(hearth_model *model, hearth_token token, hth_buffer *out)
{
    char piece[HTH_PIECE_BYTES_MAX];
    size_t n = 0;

    hth_buffer_add_text(out, ",\"piece\":");
    if (hearth_token_bytes(model, token, piece, sizeof(piece), &n, NULL) == HEARTH_OK && hth_utf8_is_valid(piece, n))
        hth_buffer_add_json_take(out, json_stringn(piece, n));
    else
        add_bytes(piece, n, out);
    hth_buffer_add_text(out, "}");
}

/*
 * {"tokens":[...]}, written straight into out: as JSON values, a token would take hundreds of bytes. False when the client
 * is gone.
 */
static bool add_tokens(hearth_model *model, const hth_api_request *request, const hearth_token *tokens, size_t n,
                       const atomic_bool *is_gone, hth_buffer *out)
{
    hth_buffer_add_text(out, "{\"tokens\":[");
    for (size_t i = 0; i < n && !out->failed; i++) {
        char id[32];

        if (i % TOKENS_UNSEEN == 0 && is_gone && atomic_load_explicit(is_gone, memory_order_relaxed))
            return false;
        (void)snprintf(id, sizeof(id), "%s%s%d", i > 0 ? "," : "", request->with_pieces ? "{\"id\":" : "",
                       (int)tokens[i]); /* fits */
        hth_buffer_add_text(out, id);
        if (request->with_pieces)
            add_piece(model, tokens[i], out);
    }
    hth_buffer_add_text(out, "]}");
    return true;
}

static bool tokenize(hearth_model *model, const hth_api_request *request, const atomic_bool *is_gone, hth_buffer *out,
                     hth_api_error *error)
{
    unsigned flags =
        (request->add_special ? HEARTH_TOKENIZE_BOS : 0u) | (request->parse_special ? HEARTH_TOKENIZE_SPECIAL : 0u);
    size_t n_bytes = strlen(request->text), n = 0;
    size_t capacity = n_bytes + 16 < TOKENS_MAX ? n_bytes + 16 : TOKENS_MAX;
    hearth_token *tokens = malloc(capacity * sizeof(*tokens));
    hearth_error err = { .status = HEARTH_NO_MEMORY, .message = "no memory for tokens" };
    bool ok = tokens && hearth_tokenize(model, request->text, n_bytes, flags, tokens, capacity, &n, &err) == HEARTH_OK;

    if (n > TOKENS_MAX) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "content",
                     "'content' has %zu tokens; at most %d are answered at once: send it in parts", n, TOKENS_MAX);
    } else if (!ok) {
        hth_api_fail_status(error, &err);
    } else if (!add_tokens(model, request, tokens, n, is_gone, out)) {
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
    hearth_free(text); /* before it is there once more */
    hth_buffer_add_json_take(out, json_pack("{s:o}", "content", content));
    return true;
}

static bool apply_template(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    hth_api_prepared prepared;

    if (!hth_api_prepare(model, request, 0, NULL, &prepared, error))
        return false;
    hth_buffer_add_json_take(out, json_pack("{s:s}", "prompt", prepared.chat.text));
    hth_api_prepared_deinit(&prepared);
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

/* The model is loaded: it is here. */
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

bool hth_api_answer(hearth_model *model, const hth_api_request *request, const atomic_bool *is_gone, hth_buffer *out,
                    hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (request->is_load)
        return tell_loaded(model, request, out, error);
    switch (request->kind) {
    case HTH_API_TOKENIZE: return tokenize(model, request, is_gone, out, error);
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

/* ---- models ---- */

static json_t *texts_json(const char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

/* What a model is for: without a template of its own it was not made for conversations. */
static const char *kind_of(const hearth_model_info *info)
{
    const char *kind = info->chat_template_kind;

    return strcmp(kind, "none") == 0 || strcmp(kind, "fallback") == 0 ? "completion" : "chat";
}

/* Both "context_length" and "max_model_len" are asked for by clients that cut conversations. */
static json_t *model_json(const hth_api_listed_model *model)
{
    const char *id = model->asked ? model->asked : model->name;
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", id, "object", "model", "created", model->created_s,
                  "owned_by", "hearth", "aliases", texts_json(model->aliases, model->n_aliases), "tags",
                  texts_json(model->tags, model->n_tags));

    if (strcmp(id, model->name) != 0)
        json_object_set_new(object, "root", json_string(model->name));
    if (!model->info)
        return object;
    json_object_set_new(object, "kind", json_string(kind_of(model->info)));
    json_object_set_new(object, "context_length", json_integer((json_int_t)model->info->n_ctx));
    json_object_set_new(object, "max_model_len", json_integer((json_int_t)model->info->n_ctx));
    json_object_set_new(object, "meta",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "n_ctx", (json_int_t)model->info->n_ctx, "n_ctx_train",
                                  (json_int_t)model->info->n_ctx_train, "n_vocab", (json_int_t)model->info->n_vocab,
                                  "n_params", (json_int_t)model->info->n_params, "size",
                                  (json_int_t)model->info->file_bytes));
    return object;
}

void hth_api_models_write(const hth_api_listed_model *models, size_t n, hth_buffer *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, model_json(&models[i]));
    hth_buffer_add_json_take(out, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

void hth_api_model_write(const hth_api_listed_model *model, hth_buffer *out)
{
    hth_buffer_add_json_take(out, model_json(model));
}

/* ---- llama.cpp's ---- */

void hth_api_props_write(const hearth_model_info *info, const char *file, const hth_api_defaults *defaults,
                         hth_buffer *out)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const char *slash = file ? strrchr(file, '/') : NULL;
    json_t *base = json_string(slash ? slash + 1 : file ? file : info->name); /* NULL: no UTF-8 */

    if (defaults)
        hth_api_defaults_fill(defaults, &request, &sampling);
    request.sampling = &sampling;
    hth_buffer_add_json_take(
        out, json_pack("{s:{s:I, s:o}, s:I, s:I, s:s, s:o, s:s, s:s}", "default_generation_settings", "n_ctx",
                       (json_int_t)info->n_ctx, "params", hth_api_native_settings(&request), "n_ctx_train",
                       (json_int_t)info->n_ctx_train, "total_slots", (json_int_t)info->n_parallel, "model_alias",
                       info->name, "model_path", base ? base : json_string(info->name), "chat_template_kind",
                       info->chat_template_kind, "build_info", "hearth-" HEARTH_VERSION));
}

void hth_api_slots_write(const hearth_model_info *info, hth_buffer *out)
{
    json_t *slots = json_array();

    for (uint32_t i = 0; i < info->n_parallel; i++)
        json_array_append_new(slots, json_pack("{s:I, s:I, s:b}", "id", (json_int_t)i, "n_ctx", (json_int_t)info->n_ctx,
                                               "is_processing", i < info->n_running));
    hth_buffer_add_json_take(out, slots);
}

int hth_api_health_write(const char *problem, hth_buffer *out)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!problem) {
        hth_buffer_add_json_take(out, json_pack("{s:s}", "status", "ok"));
        return 200;
    }
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", problem);
    hth_api_error_write(HTH_API_NATIVE, &error, out);
    return hth_api_error_http_status(HTH_API_NATIVE, &error);
}
