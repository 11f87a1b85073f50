/*
 * prepare.c - see prepare.h
 */
#include "api/prepare.h"

#include <stdlib.h>
#include <string.h>

void hth_api_prepared_deinit(hth_api_prepared *prepared)
{
    for (size_t i = 0; prepared->prompts && i < prepared->n_requests; i++)
        hth_api_prompt_unref(prepared->prompts[i]);
    free(prepared->prompts);
    free(prepared->stop);
    free(prepared->requests);
    *prepared = (hth_api_prepared){ .n_requests = 0 };
}

static bool no_memory(hth_api_error *error)
{
    hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the request");
    return false;
}

/* ---- conversations ---- */

static bool render_once(hearth_model *model, const hearth_conversation *conversation, hearth_chat_prompt *out,
                        hth_api_error *error)
{
    hearth_error err;

    if (hearth_conversation_render(model, conversation, out, &err) == HEARTH_OK)
        return true;
    /* A template that refuses a conversation says why, and it is the client who can change that. */
    if (err.status == HEARTH_ENGINE)
        hth_api_fail(error, HTH_API_INVALID_VALUE, "messages", "%s", err.message);
    if (err.status == HEARTH_UNSUPPORTED && conversation->tool_choice == HEARTH_TOOL_REQUIRED)
        hth_api_fail(error, HTH_API_UNSUPPORTED, "tool_choice", "%s", err.message);
    hth_api_fail_status(error, &err);
    return false;
}

/*
 * The prompt of a conversation. A schema is the sampler's alone where the reply is nothing but content: it is honoured
 * there keyword by keyword. Where the reply may begin with reasoning, the template's own grammar knows how that ends.
 */
static bool render(hearth_model *model, const hth_api_request *request, hearth_chat_prompt *out, hth_api_error *error)
{
    hearth_conversation conversation = request->conversation;
    hearth_chat_prompt with_schema = { .text = NULL };
    bool has_tools = conversation.n_tools > 0 && conversation.tool_choice != HEARTH_TOOL_NONE;

    conversation.json_schema = NULL;
    if (!render_once(model, &conversation, out, error))
        return false;
    if (!request->conversation.json_schema || (!has_tools && (!out->can_think || conversation.no_thinking)))
        return true;
    if (!render_once(model, &request->conversation, &with_schema, error)) {
        hearth_chat_prompt_free(out);
        return false;
    }
    hearth_chat_prompt_free(out);
    *out = with_schema;
    return true;
}

static void put_chat(const hth_api_request *from, const hearth_chat_prompt *chat, hearth_request *to)
{
    hearth_sampling *sampling = &to->sampling;

    sampling->shown_tokens = chat->shown_tokens;
    sampling->n_shown_tokens = chat->n_shown_tokens;
    if (chat->grammar) {
        sampling->grammar = chat->grammar;
        sampling->grammar_prefix = chat->grammar_prefix;
        sampling->grammar_is_lazy = chat->grammar_is_lazy;
        sampling->triggers = chat->triggers;
        sampling->n_triggers = chat->n_triggers;
    } else {
        sampling->json_schema = from->conversation.json_schema;
    }
}

/* ---- prompts of text and tokens ---- */

/* Append a text's tokens to *tokens, [*n]. */
static bool append_text(hearth_model *model, const char *text, unsigned flags, hearth_token **tokens, size_t *n,
                        hth_api_error *error)
{
    size_t n_bytes = strlen(text), capacity = n_bytes + 16, n_more = 0;
    hearth_token *grown = realloc(*tokens, (*n + capacity) * sizeof(*grown));
    hearth_error err;

    if (!grown)
        return no_memory(error);
    *tokens = grown;
    if (hearth_tokenize(model, text, n_bytes, flags, grown + *n, capacity, &n_more, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    *n += n_more;
    return true;
}

static bool join_pieces(hearth_model *model, const hth_api_text_prompt *prompt, hearth_token **out, size_t *n_out,
                        hth_api_error *error)
{
    size_t n = 0;

    for (size_t i = 0; i < prompt->n_pieces; i++) {
        const hth_api_piece *piece = &prompt->pieces[i];
        hearth_token *grown;

        if (piece->text) {
            unsigned flags = HEARTH_TOKENIZE_SPECIAL | (i == 0 ? HEARTH_TOKENIZE_BOS : 0u);

            if (!append_text(model, piece->text, flags, out, &n, error))
                return false;
            continue;
        }
        grown = realloc(*out, (n + piece->n_tokens + 1) * sizeof(*grown));
        if (!grown)
            return no_memory(error);
        *out = grown;
        if (piece->n_tokens > 0)
            memcpy(grown + n, piece->tokens, piece->n_tokens * sizeof(*grown));
        n += piece->n_tokens;
    }
    *n_out = n;
    return true;
}

/* Make prompt i, from its text or its conversation. */
static hth_api_prompt *make_prompt(hearth_model *model, const hth_api_request *request, size_t i, hth_api_error *error)
{
    hth_api_prompt *prompt = hth_api_prompt_new();
    hth_api_piece piece = { .text = NULL };
    hth_api_text_prompt of_chat = { .pieces = &piece, .n_pieces = 1 };

    if (!prompt) {
        (void)no_memory(error); /* which says it */
        return NULL;
    }
    if (!request->is_chat || render(model, request, &prompt->chat, error)) {
        piece.text = prompt->chat.text;
        if (join_pieces(model, request->is_chat ? &of_chat : &request->prompts[i], &prompt->tokens, &prompt->n_tokens,
                        error))
            return prompt;
    }
    hth_api_prompt_unref(prompt);
    return NULL;
}

/* An empty text, which has no tokens; the library refuses it. */
static bool is_empty(const hth_api_text_prompt *prompt)
{
    return prompt->n_pieces == 1 && prompt->pieces[0].text && !*prompt->pieces[0].text;
}

static hth_api_prompt *find_or_make_prompt(hearth_model *model, const hth_api_request *request, size_t i,
                                           hth_memo *memory, hth_api_error *error)
{
    uint8_t key[HTH_MEMO_KEY_BYTES];
    bool has_key = memory && hth_api_prompt_key(request, i, key);
    hth_api_prompt *prompt = has_key ? hth_memo_find(memory, key) : NULL;

    if (prompt)
        return prompt;
    prompt = make_prompt(model, request, i, error);
    if (!prompt || !has_key)
        return prompt;
    if (request->is_chat)
        (void)hearth_chat_parser_new(model, &prompt->chat, &prompt->parser, NULL); /* each reply makes its own then */
    hth_api_prompts_keep(memory, key, prompt);
    return prompt;
}

static bool make_prompts(hearth_model *model, const hth_api_request *request, hth_memo *memory,
                         hth_api_prepared *prepared, hth_api_error *error)
{
    size_t n = request->is_chat ? 1 : request->n_prompts;

    prepared->requests = calloc(n, sizeof(*prepared->requests));
    prepared->prompts = calloc(n, sizeof(*prepared->prompts));
    if (!prepared->requests || !prepared->prompts)
        return no_memory(error);
    prepared->n_requests = n;
    for (size_t i = 0; i < n; i++) {
        if (!request->is_chat && is_empty(&request->prompts[i]))
            continue;
        prepared->prompts[i] = find_or_make_prompt(model, request, i, memory, error);
        if (!prepared->prompts[i])
            return false;
    }
    if (request->is_chat)
        prepared->chat = prepared->prompts[0]->chat;
    return true;
}

/* ---- requests ---- */

/* The client's stop texts, then the template's. */
static bool join_stops(const hth_api_request *request, hth_api_prepared *prepared, hth_api_error *error)
{
    size_t n = request->options.n_stop + prepared->chat.n_stop;

    prepared->stop = calloc(n ? n : 1, sizeof(*prepared->stop));
    if (!prepared->stop)
        return no_memory(error);
    for (size_t i = 0; i < n; i++)
        prepared->stop[i] =
            i < request->options.n_stop ? request->options.stop[i] : prepared->chat.stop[i - request->options.n_stop];
    return true;
}

/*
 * Clients ask for as many tokens as the model that they were written for can give. Here the reply ends where the context
 * is full, as it would for one that asked for no number.
 */
static void cut_length(uint32_t n_ctx, hearth_request *request)
{
    size_t room = request->n_tokens <= n_ctx ? n_ctx - request->n_tokens + 1 : 0;

    if (request->tokens && request->n_predict > 0 && (size_t)request->n_predict > room)
        request->n_predict = -1;
}

static void make_requests(hearth_model *model, const hth_api_request *request, uint64_t seed,
                          hth_api_prepared *prepared)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    (void)hearth_model_info_get(model, &info, NULL); /* an unloaded model refuses the request anyway */
    for (size_t i = 0; i < prepared->n_requests; i++) {
        const hth_api_prompt *prompt = prepared->prompts[i];
        hearth_request *one = &prepared->requests[i];

        *one = request->options;
        one->stop = prepared->stop;
        one->n_stop = request->options.n_stop + prepared->chat.n_stop;
        if (!request->has_seed)
            one->sampling.seed = seed;
        one->sampling.seed += i * one->n; /* each reply its own */
        if (request->is_chat)
            put_chat(request, &prepared->chat, one);
        if (prompt) {
            one->tokens = prompt->tokens;
            one->n_tokens = prompt->n_tokens;
        } else {
            one->prompt = "";
        }
        cut_length(info.n_ctx, one);
    }
}

bool hth_api_prepare(hearth_model *model, const hth_api_request *request, uint64_t seed, hth_memo *memory,
                     hth_api_prepared *out, hth_api_error *error)
{
    hth_api_prepared prepared = { .n_requests = 0 };

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (!make_prompts(model, request, memory, &prepared, error) || !join_stops(request, &prepared, error)) {
        hth_api_prepared_deinit(&prepared);
        return false;
    }
    make_requests(model, request, seed, &prepared);
    *out = prepared;
    return true;
}

bool hth_api_count_prompt(hearth_model *model, const hth_api_request *request, size_t *n_out, hth_api_error *error)
{
    hearth_chat_prompt chat = { .text = NULL };
    hearth_token *tokens = NULL;
    size_t n = 0;
    bool ok;

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (!render(model, request, &chat, error))
        return false;
    ok = append_text(model, chat.text, HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS, &tokens, &n, error);
    free(tokens);
    hearth_chat_prompt_free(&chat);
    *n_out = n;
    return ok;
}
