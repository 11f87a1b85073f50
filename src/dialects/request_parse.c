/*
 *   body -> JSON object -> defaults -> fields of the API -> defaults for missing fields -> normalized prompt
 */
#include "dialects/request_parse.h"

#include <stdlib.h>

#include "api/parse.h"
#include "dialects/kinds.h"

/* How each kind of request is read, and how its reply is written. */
static const struct {
    void (*parse)(hth_api_parse *parse);
    const hth_api_writer *writer; /* NULL: the reply is not written by a model */
} kinds[HTH_API_KINDS] = {
    [HTH_API_CHAT] = { hth_api_parse_chat, &hth_api_write_chat },
    [HTH_API_CHAT_TOKENS] = { hth_api_parse_chat, NULL },
    [HTH_API_APPLY_TEMPLATE] = { hth_api_parse_chat, NULL },
    [HTH_API_COMPLETION] = { hth_api_parse_completion, &hth_api_write_completion },
    [HTH_API_MESSAGES] = { hth_api_parse_messages, &hth_api_write_messages },
    [HTH_API_COUNT_TOKENS] = { hth_api_parse_messages, NULL },
    [HTH_API_NATIVE_COMPLETION] = { hth_api_parse_native, &hth_api_write_native },
    [HTH_API_INFILL] = { hth_api_parse_native, &hth_api_write_native },
    [HTH_API_TOKENIZE] = { hth_api_parse_tokenize, NULL },
    [HTH_API_DETOKENIZE] = { hth_api_parse_detokenize, NULL },
    [HTH_API_SLOT] = { hth_api_parse_slot, NULL },
    [HTH_API_OLLAMA_CHAT] = { hth_api_parse_ollama_chat, &hth_api_write_ollama },
    [HTH_API_OLLAMA_GENERATE] = { hth_api_parse_ollama_generate, &hth_api_write_ollama },
    [HTH_API_OLLAMA_SHOW] = { hth_api_parse_ollama_show, NULL },
    [HTH_API_EMBEDDINGS] = { hth_api_parse_embeddings, NULL },
    [HTH_API_NATIVE_EMBEDDING] = { hth_api_parse_native_embedding, NULL },
    [HTH_API_RERANK] = { hth_api_parse_rerank, NULL },
    [HTH_API_OLLAMA_EMBED] = { hth_api_parse_ollama_embed, NULL },
    [HTH_API_OLLAMA_EMBEDDINGS] = { hth_api_parse_ollama_embeddings, NULL },
    [HTH_API_RESPONSES] = { hth_api_parse_responses, &hth_api_write_responses },
    [HTH_API_RESPONSES_TOKENS] = { hth_api_parse_responses, NULL },
};

static void parse_fields(hth_api_parse *parse)
{
    hth_api_defaults_begin(parse);
    hth_fields_string(&parse->body, "model", HTH_API_NAME_BYTES_MAX, &parse->request->model);
    kinds[parse->request->kind].parse(parse);
    if (parse->error->kind == HTH_API_NO_ERROR && parse->request->options.session_id && parse->request->n_prompts > 1)
        hth_api_fail(
            parse->error, HTH_API_INVALID_VALUE, "session_id",
            "'session_id' is given with %zu prompts, and a session has one request at a time; send each prompt "
            "in a request of its own",
            parse->request->n_prompts);
    if (parse->error->kind == HTH_API_NO_ERROR)
        hth_api_defaults_end(parse);
    if (parse->request->is_chat && parse->limits->normalize == HTH_NORMALIZE_ON)
        hth_api_normalize(parse);
}

hth_api_request *hth_api_request_parse_with(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            const hth_api_defaults *defaults, hth_api_error *error)
{
    hth_api_limits usual = hth_api_limits_default();
    hth_api_parse parse = {
        .limits = limits ? limits : &usual, .defaults = defaults, .error = error, .past = past, .n_bytes = n_bytes
    };
    hth_api_request *request = calloc(1, sizeof(*request));

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (!request) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return NULL;
    }
    request->kind = kind;
    request->writer = kinds[kind].writer;
    request->options = hearth_request_default();
    request->sampling = hearth_sampling_default();
    request->conversation = hearth_conversation_default();
    request->slot = -1;
    /* GET and erasing a slot have no body */
    if ((kind == HTH_API_OLLAMA_SHOW || kind == HTH_API_SLOT) && n_bytes == 0) {
        body = "{}";
        n_bytes = 2;
    }
    parse.notes = parse.limits->unknown_fields == HTH_UNKNOWN_REFUSE ? NULL : &request->notes;
    request->body = hth_api_body_parse(body, n_bytes, parse.limits, parse.notes, error);
    if (request->body) {
        parse.request = request;
        parse.body = (hth_fields){ .object = request->body, .error = error, .notes = parse.notes };
        parse_fields(&parse);
    }
    if (error->kind != HTH_API_NO_ERROR) {
        hth_api_request_free(request);
        return NULL;
    }
    return request;
}

hth_api_request *hth_api_request_parse(hth_api_kind kind, const char *body, size_t n_bytes,
                                       const hth_api_limits *limits, hth_api_error *error)
{
    return hth_api_request_parse_with(kind, body, n_bytes, NULL, limits, NULL, error);
}
