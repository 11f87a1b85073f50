/*
 * answers.c - see answers.h
 */
#include "api/answers.h"

#include <stdlib.h>
#include <string.h>

#include "api/native_settings.h"
#include "api/prepare.h"

/* ---- texts and tokens ---- */

/* A token's text, or, where it is no whole characters, null: its bytes cannot be had one token at a time. */
static json_t *piece_json(hearth_model *model, hearth_token token)
{
    char *text = NULL;
    size_t n = 0;
    json_t *piece = NULL;

    if (hearth_detokenize(model, &token, 1, true, &text, &n, NULL) == HEARTH_OK && !strstr(text, "\xef\xbf\xbd"))
        piece = json_stringn(text, n);
    hearth_free(text);
    return piece ? piece : json_null();
}

static bool tokenize(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    unsigned flags =
        (request->add_special ? HEARTH_TOKENIZE_BOS : 0u) | (request->parse_special ? HEARTH_TOKENIZE_SPECIAL : 0u);
    size_t n_bytes = strlen(request->text), capacity = n_bytes + 16, n = 0;
    hearth_token *tokens = malloc(capacity * sizeof(*tokens));
    json_t *array = json_array();
    hearth_error err = { .status = HEARTH_NO_MEMORY, .message = "no memory for tokens" };
    bool ok = tokens && hearth_tokenize(model, request->text, n_bytes, flags, tokens, capacity, &n, &err) == HEARTH_OK;

    for (size_t i = 0; ok && i < n; i++)
        json_array_append_new(array, request->with_pieces ? json_pack("{s:i, s:o}", "id", (int)tokens[i], "piece",
                                                                      piece_json(model, tokens[i]))
                                                          : json_integer(tokens[i]));
    free(tokens);
    if (!ok) {
        json_decref(array);
        hth_api_fail_status(error, &err);
        return false;
    }
    hth_buffer_add_json_take(out, json_pack("{s:o}", "tokens", array));
    return true;
}

static bool detokenize(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    char *text = NULL;
    size_t n = 0;
    hearth_error err;

    if (hearth_detokenize(model, request->tokens, request->n_tokens, true, &text, &n, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    hth_buffer_add_json_take(out, json_pack("{s:s%}", "content", text, n));
    hearth_free(text);
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
    size_t n;

    if (!hth_api_count_prompt(model, request, &n, error))
        return false;
    hth_buffer_add_json_take(out, json_pack("{s:I}", "input_tokens", (json_int_t)n));
    return true;
}

bool hth_api_answer(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    switch (request->kind) {
    case HTH_API_TOKENIZE: return tokenize(model, request, out, error);
    case HTH_API_DETOKENIZE: return detokenize(model, request, out, error);
    case HTH_API_APPLY_TEMPLATE: return apply_template(model, request, out, error);
    case HTH_API_COUNT_TOKENS: return count_tokens(model, request, out, error);
    default: break;
    }
    hth_api_fail(error, HTH_API_INTERNAL, NULL, "this endpoint is not answered at once");
    return false;
}

/* ---- models ---- */

static json_t *model_json(const hth_api_listed_model *model)
{
    json_t *object = json_pack("{s:s, s:s, s:I, s:s}", "id", model->name, "object", "model", "created",
                               model->created_s, "owned_by", "hearth");

    if (model->info)
        json_object_set_new(object, "meta",
                            json_pack("{s:I, s:I, s:I, s:I, s:I}", "n_ctx", (json_int_t)model->info->n_ctx,
                                      "n_ctx_train", (json_int_t)model->info->n_ctx_train, "n_vocab",
                                      (json_int_t)model->info->n_vocab, "n_params", (json_int_t)model->info->n_params,
                                      "size", (json_int_t)model->info->file_bytes));
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

void hth_api_props_write(const hearth_model_info *info, hth_buffer *out)
{
    hearth_request defaults = hearth_request_default();

    hth_buffer_add_json_take(
        out, json_pack("{s:{s:I, s:o}, s:I, s:s, s:s, s:s, s:s}", "default_generation_settings", "n_ctx",
                       (json_int_t)info->n_ctx, "params", hth_api_native_settings(&defaults), "total_slots",
                       (json_int_t)info->n_parallel, "model_alias", info->name, "model_path", info->name,
                       "chat_template_kind", info->chat_template_kind, "build_info", "hearth-" HEARTH_VERSION));
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
