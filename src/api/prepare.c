/*
 * prepare.c - see prepare.h
 */
#include "api/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/infill.h"
#include "api/render.h"
#include "models/model.h"
#include "sampling/sampling.h"

void hth_api_prepared_deinit(hth_api_prepared *prepared)
{
    for (size_t i = 0; prepared->prompts && i < prepared->n_requests; i++)
        hth_api_prompt_unref(prepared->prompts[i]);
    free(prepared->prompts);
    free(prepared->biases);
    free(prepared->draft);
    free(prepared->requests);
    free(prepared->samplings);
    *prepared = (hth_api_prepared){ .n_requests = 0 };
}

static bool no_memory(hth_api_error *error)
{
    hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the request");
    return false;
}

/* The client's field that contains the prompt, for errors. */
static const char *prompt_field(const hth_api_request *request)
{
    switch (request->kind) {
    case HTH_API_RESPONSES:
    case HTH_API_RESPONSES_TOKENS:
    case HTH_API_EMBEDDINGS:
    case HTH_API_OLLAMA_EMBED: return "input";
    case HTH_API_NATIVE_EMBEDDING: return "content";
    default: return request->is_chat ? "messages" : "prompt";
    }
}

/* Fill error from a prompt that has no tokens, or too many. */
static void fail_prompt(const hth_api_request *request, const hearth_error *err, hth_api_error *error)
{
    hth_api_fail_status(error, err);
    if (err->status == HEARTH_TOO_LONG)
        (void)snprintf(error->param, sizeof(error->param), "%s", prompt_field(request)); /* fits */
}

/* ---- conversations ---- */

/* Fill error with the first earlier call whose arguments are not a JSON object. */
static void name_bad_call(const hearth_conversation *conversation, hth_api_error *error)
{
    for (size_t i = 0; i < conversation->n_turns; i++)
        for (size_t j = 0; j < conversation->turns[i].n_calls; j++) {
            const char *arguments = conversation->turns[i].calls[j].arguments;
            json_error_t problem;
            json_t *value = json_loads(arguments, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &problem);
            bool is_good = json_is_object(value);
            char path[128];

            json_decref(value);
            if (is_good)
                continue;
            (void)snprintf(path, sizeof(path), "messages[%zu].tool_calls[%zu].function.arguments", i, j); /* fits */
            hth_api_fail(error, HTH_API_INVALID_VALUE, path, "'%s' is not a JSON object as text: '%.100s'", path,
                         arguments);
            return;
        }
}

/* field is the client's, for the error if the template refuses the conversation. */
static bool render_once(hearth_model *model, const hearth_conversation *conversation, const char *field,
                        const hearth_chat_prompt **out, hth_api_notes *notes, hth_api_error *error)
{
    hearth_error err;

    if (hth_api_render(model, conversation, out, notes, &err) == HEARTH_OK)
        return true;
    if (err.status == HEARTH_MISUSE)
        name_bad_call(conversation, error);
    /* The template's error says why it refuses the conversation, and the client can change the conversation. */
    if (err.status == HEARTH_ENGINE)
        hth_api_fail(error, HTH_API_INVALID_VALUE, field, "%s", err.message);
    hth_api_fail_status(error, &err);
    return false;
}

/*
 * Note the reasoning of earlier turns that the prompt does not show. Only the beginnings of texts are compared, in the
 * order of the turns, so one pass over the prompt is enough.
 */
static void note_dropped_reasoning(const hearth_conversation *conversation, const hearth_chat_prompt *chat,
                                   hth_api_notes *notes)
{
    enum { SAMPLE_BYTES = 64 };

    const char *rest = chat->text;

    for (size_t i = 0; i < conversation->n_turns; i++) {
        const char *reasoning = conversation->turns[i].reasoning;
        char sample[SAMPLE_BYTES + 1];
        size_t n;

        if (!reasoning)
            continue;
        reasoning += strspn(reasoning, " \t\r\n"); /* templates trim white space */
        n = strcspn(reasoning, "\r\n");
        (void)snprintf(sample, sizeof(sample), "%.*s", (int)(n < SAMPLE_BYTES ? n : SAMPLE_BYTES), reasoning); /* cut */
        rest = strstr(rest, sample);
        if (!rest) {
            hth_api_note(notes, "messages[].reasoning");
            return;
        }
        rest += strlen(sample);
    }
}

/* Note the tools if the prompt shows none of them: the template has no place for tools. */
static void note_dropped_tools(const hearth_conversation *conversation, const hearth_chat_prompt *chat,
                               hth_api_notes *notes)
{
    size_t i = 0;

    if (conversation->tool_choice == HEARTH_TOOL_NONE)
        return;
    while (i < conversation->n_tools && !strstr(chat->text, conversation->tools[i].name))
        i++;
    if (i > 0 && i == conversation->n_tools)
        hth_api_note(notes, "tools");
}

/*
 * Render the prompt of a conversation. When the reply is only content, the sampler alone applies the schema, keyword by
 * keyword. When the reply may begin with reasoning, the grammar of the template applies it, since it knows how
 * reasoning ends.
 */
static bool render(hearth_model *model, const hth_api_request *request, const hearth_chat_prompt **out,
                   hth_api_notes *notes, hth_api_error *error)
{
    hearth_conversation conversation = request->conversation;

    if (conversation.n_tools == 0 || conversation.tool_choice == HEARTH_TOOL_NONE)
        conversation.json_schema = NULL;
    if (!render_once(model, &conversation, prompt_field(request), out, notes, error))
        return false;
    if (conversation.json_schema == request->conversation.json_schema || !(*out)->can_think || conversation.no_thinking)
        return true;
    hearth_chat_prompt_free(*out); /* only the rendering shows that this model reasons here */
    *out = NULL;
    return render_once(model, &request->conversation, prompt_field(request), out, notes, error);
}

/* A grammar of the rendering, for tool calls, takes precedence over the client's. */
static void put_chat(const hth_api_request *from, const hearth_chat_prompt *chat, hearth_request *request,
                     hearth_sampling *sampling)
{
    request->chat = chat;
    if (chat->grammar)
        sampling->grammar = sampling->json_schema = NULL;
    else
        sampling->json_schema = from->conversation.json_schema;
}

/* ---- prompts of text and tokens ---- */

/* Append the tokens of a text to *tokens, [*n]. */
static bool append_text(hearth_model *model, const hth_api_request *request, const char *text, unsigned flags,
                        hearth_token **tokens, size_t *n, hth_api_error *error)
{
    size_t n_bytes = strlen(text), capacity = n_bytes + 16, n_more = 0;
    hearth_token *grown = realloc(*tokens, (*n + capacity) * sizeof(*grown));
    hearth_error err;

    if (!grown)
        return no_memory(error);
    *tokens = grown;
    if (hth_model_tokenize(model, text, n_bytes, flags, request->is_gone, grown + *n, capacity, &n_more, &err) !=
        HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    *n += n_more;
    return true;
}

/* Append the tokens of a rendered conversation. */
static bool append_chat(hearth_model *model, const hth_api_request *request, const hearth_chat_prompt *chat,
                        unsigned flags, hearth_token **tokens, size_t *n, hth_api_error *error)
{
    const hth_prompt_source source = { .text = chat->text,
                                       .n_bytes = chat->n_bytes,
                                       .flags = flags,
                                       .no_cache_read = true,
                                       .chat = chat,
                                       .is_gone = request->is_gone };
    hth_prompt_tokens made;
    hearth_token *grown;
    hearth_error err;

    if (hth_model_prompt_of_text(model, &source, &made, &err) != HEARTH_OK) {
        fail_prompt(request, &err, error);
        return false;
    }
    grown = realloc(*tokens, (*n + made.n_tokens + 1) * sizeof(*grown));
    if (grown) {
        memcpy(grown + *n, made.tokens, made.n_tokens * sizeof(*grown));
        *tokens = grown;
        *n += made.n_tokens;
    }
    free(made.tokens);
    hth_prompt_text_unref(made.text);
    return grown || no_memory(error);
}

/* False, with the error filled, if the texts certainly have more tokens than fit in the context. */
static bool check_pieces(const hearth_model *model, const hth_api_request *request, const hth_api_text_prompt *prompt,
                         hth_api_error *error)
{
    hearth_error err;
    size_t n_bytes = 0;

    for (size_t i = 0; i < prompt->n_pieces; i++)
        n_bytes += prompt->pieces[i].text ? strlen(prompt->pieces[i].text) : 0;
    if (hth_model_check_length(model, n_bytes, &err) == HEARTH_OK)
        return true;
    fail_prompt(request, &err, error);
    return false;
}

static bool join_pieces(hearth_model *model, const hth_api_request *request, const hth_api_text_prompt *prompt,
                        hearth_token **out, size_t *n_out, hth_api_error *error)
{
    size_t n = 0;

    if (!check_pieces(model, request, prompt, error))
        return false;
    for (size_t i = 0; i < prompt->n_pieces; i++) {
        const hth_api_piece *piece = &prompt->pieces[i];
        hearth_token *grown;

        if (piece->chat) {
            if (!append_chat(model, request, piece->chat, HEARTH_TOKENIZE_SPECIAL, out, &n, error))
                return false;
            continue;
        }
        if (piece->text) {
            unsigned flags = (piece->is_plain ? 0u : HEARTH_TOKENIZE_SPECIAL) | (i == 0 ? HEARTH_TOKENIZE_BOS : 0u);

            if (!append_text(model, request, piece->text, flags, out, &n, error))
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

/* The tokens of a prompt that is one text. */
static bool read_text(hearth_model *model, const hth_api_request *request, const char *text, hth_api_prompt *prompt,
                      hth_api_error *error)
{
    const hth_prompt_source source = {
        .text = text,
        .n_bytes = strlen(text),
        .flags = HTH_TOKENIZE_CHAT,
        .cache_salt = request->options.cache_salt,
        .no_cache_read = request->options.no_cache_read,
        .chat = prompt->chat,
        .is_gone = request->is_gone,
    };
    hth_prompt_tokens made;
    hearth_error err;

    if (hth_model_check_length(model, source.n_bytes, &err) != HEARTH_OK ||
        hth_model_prompt_of_text(model, &source, &made, &err) != HEARTH_OK) {
        fail_prompt(request, &err, error);
        return false;
    }
    prompt->tokens = made.tokens;
    prompt->n_tokens = made.n_tokens;
    prompt->text = made.text;
    return true;
}

/* The tokens of a prompt of texts and tokens. */
static bool read_pieces(hearth_model *model, const hth_api_request *request, const hth_api_text_prompt *from,
                        hth_api_prompt *prompt, hth_api_error *error)
{
    if (from->n_pieces == 1 && from->pieces[0].text)
        return read_text(model, request, from->pieces[0].text, prompt, error);
    return join_pieces(model, request, from, &prompt->tokens, &prompt->n_tokens, error);
}

bool hth_api_prepare_inputs(hearth_model *model, const hth_api_request *request, hth_api_inputs *out,
                            hth_api_error *error)
{
    const hearth_embed_request *options = &request->embed->options;
    hth_api_inputs inputs = {
        .list = calloc(options->n_inputs, sizeof(*inputs.list)),
        .joined = calloc(options->n_inputs, sizeof(*inputs.joined)),
    };
    bool ok = (inputs.list && inputs.joined) || no_memory(error);

    for (size_t i = 0; ok && i < options->n_inputs; i++) {
        hearth_token *tokens = NULL;

        inputs.list[i] = options->inputs[i];
        if (i >= request->n_prompts || request->prompts[i].n_pieces == 0)
            continue;
        ok = join_pieces(model, request, &request->prompts[i], &tokens, &inputs.list[i].n_tokens, error);
        inputs.list[i].tokens = inputs.joined[inputs.n_joined++] = tokens;
    }
    if (ok)
        *out = inputs;
    else
        hth_api_inputs_deinit(&inputs);
    return ok;
}

void hth_api_inputs_deinit(hth_api_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n_joined; i++)
        free(inputs->joined[i]);
    free(inputs->joined);
    free(inputs->list);
}

/* The tokens of a prompt and of its suffix, in the order that infill models were trained on. */
static bool join_around(hearth_model *model, const hth_api_request *request, const hth_api_text_prompt *prompt,
                        hearth_token **out, size_t *n_out, hth_api_error *error)
{
    size_t n = prompt->n_pieces;
    hearth_token fill[3];
    hth_api_piece *pieces;
    bool ok;

    if (!hth_model_fill_tokens(model, fill)) {
        hth_api_fail(error, HTH_API_UNSUPPORTED, "suffix",
                     "'suffix' needs a model that can fill in between two texts, and this model cannot; leave it out");
        return false;
    }
    pieces = calloc(n + 5, sizeof(*pieces));
    if (!pieces)
        return no_memory(error);
    pieces[0].text = ""; /* the tokens that begin every text */
    pieces[1] = (hth_api_piece){ .tokens = &fill[0], .n_tokens = 1 };
    memcpy(&pieces[2], prompt->pieces, n * sizeof(*pieces));
    pieces[n + 2] = (hth_api_piece){ .tokens = &fill[1], .n_tokens = 1 };
    pieces[n + 3].text = request->suffix;
    pieces[n + 4] = (hth_api_piece){ .tokens = &fill[2], .n_tokens = 1 };
    ok = join_pieces(model, request, &(hth_api_text_prompt){ .pieces = pieces, .n_pieces = n + 5 }, out, n_out, error);
    free(pieces);
    return ok;
}

static bool join_infill(hearth_model *model, const hth_api_request *request, hearth_token **out, size_t *n_out,
                        hth_api_error *error)
{
    hth_api_text_prompt prompt = { .n_pieces = 0 };
    hth_api_piece *pieces = NULL;
    hth_api_roles roles;
    bool ok = hth_api_infill_pieces(model, request->infill, &roles, &pieces, &prompt.n_pieces, error);

    prompt.pieces = pieces;
    ok = ok && join_pieces(model, request, &prompt, out, n_out, error);
    free(pieces);
    return ok;
}

/*
 * Tokenizing reserves one token for each byte of text, several times what is needed, and a prompt may be kept for a
 * long time: release the unused part.
 */
static void give_room_back(hth_api_prompt *prompt)
{
    hearth_token *tokens = prompt->n_tokens > 0 ? realloc(prompt->tokens, prompt->n_tokens * sizeof(*tokens)) : NULL;

    if (tokens)
        prompt->tokens = tokens;
}

/* The prompt of a conversation, after the tokens of its context if there are any. */
static bool make_conversation(hearth_model *model, const hth_api_request *request, hth_api_prompt *prompt,
                              hth_api_error *error)
{
    hth_api_piece pieces[2] = { { .tokens = request->context, .n_tokens = request->n_context } };
    size_t n_before = request->n_context > 0; /* one piece */

    if (!render(model, request, &prompt->chat, &prompt->notes, error))
        return false;
    note_dropped_reasoning(&request->conversation, prompt->chat, &prompt->notes);
    note_dropped_tools(&request->conversation, prompt->chat, &prompt->notes);
    pieces[n_before].text = prompt->chat->text;
    pieces[n_before].chat = n_before > 0 ? prompt->chat : NULL;
    return read_pieces(model, request, &(hth_api_text_prompt){ .pieces = pieces, .n_pieces = n_before + 1 }, prompt,
                       error);
}

/* Make prompt i from its text or its conversation. */
static hth_api_prompt *make_prompt(hearth_model *model, const hth_api_request *request, size_t i, hth_api_error *error)
{
    hth_api_prompt *prompt = hth_api_prompt_new();
    bool ok;

    if (!prompt) {
        (void)no_memory(error); /* the error is filled */
        return NULL;
    }
    if (request->is_chat)
        ok = make_conversation(model, request, prompt, error);
    else if (request->infill)
        ok = join_infill(model, request, &prompt->tokens, &prompt->n_tokens, error);
    else if (request->suffix)
        ok = join_around(model, request, &request->prompts[i], &prompt->tokens, &prompt->n_tokens, error);
    else
        ok = read_pieces(model, request, &request->prompts[i], prompt, error);
    if (ok) {
        give_room_back(prompt);
        return prompt;
    }
    hth_api_prompt_unref(prompt);
    return NULL;
}

/* A prompt that exceeds the context is refused every time, so it is not kept: it must not displace other prompts. */
static hth_api_prompt *find_or_make_prompt(hearth_model *model, uint32_t n_ctx, const hth_api_request *request,
                                           size_t i, hth_memo *memory, hth_api_error *error)
{
    uint8_t key[HTH_MEMO_KEY_BYTES];
    bool has_key = memory && hth_api_prompt_key(request, i, key);
    hth_api_prompt *prompt = has_key ? hth_memo_find(memory, key) : NULL;

    if (prompt)
        return prompt;
    prompt = make_prompt(model, request, i, error);
    if (!prompt || !has_key || prompt->n_tokens > n_ctx)
        return prompt;
    if (request->is_chat)
        /* if this fails, each reply makes its own */
        (void)hearth_chat_parser_new(model, prompt->chat, &prompt->parser, NULL);
    hth_api_prompts_keep(memory, key, prompt);
    return prompt;
}

static bool make_prompts(hearth_model *model, uint32_t n_ctx, const hth_api_request *request, hth_memo *memory,
                         hth_api_prepared *prepared, hth_api_error *error)
{
    size_t n = request->is_chat ? 1 : request->n_prompts;

    prepared->requests = calloc(n, sizeof(*prepared->requests));
    prepared->samplings = calloc(n, sizeof(*prepared->samplings));
    prepared->prompts = calloc(n, sizeof(*prepared->prompts));
    if (!prepared->requests || !prepared->samplings || !prepared->prompts)
        return no_memory(error);
    prepared->n_requests = n;
    for (size_t i = 0; i < n; i++) {
        prepared->prompts[i] = find_or_make_prompt(model, n_ctx, request, i, memory, error);
        if (!prepared->prompts[i])
            return false;
    }
    if (request->is_chat)
        prepared->chat = prepared->prompts[0]->chat;
    return true;
}

/* ---- requests ---- */

/*
 * Clients ask for as many tokens as the model they were written for can generate. A limit beyond the context is
 * dropped: the reply then ends when the context is full, as without a limit.
 */
static void cut_length(uint32_t n_ctx, hearth_request *request)
{
    size_t room = request->n_tokens <= n_ctx ? n_ctx - request->n_tokens + 1 : 0;

    if (request->tokens && request->n_predict > 0 && (size_t)request->n_predict > room)
        request->n_predict = -1;
}

/* Check options that depend on the model, so that errors have the names of the client's fields. */
static bool check_options(const hearth_model_info *info, const hth_api_request *request, const hth_api_prompt *prompt,
                          hth_api_error *error)
{
    const hearth_sampling *sampling = &request->sampling;
    const char *param = prompt_field(request);
    hearth_error err;

    for (size_t i = 0; i < sampling->n_logit_bias; i++)
        if ((uint32_t)sampling->logit_bias[i].token >= info->n_vocab)
            hth_api_fail(error, HTH_API_INVALID_VALUE, "logit_bias",
                         "'logit_bias' has the token %d; this model has tokens 0 to %u", sampling->logit_bias[i].token,
                         info->n_vocab - 1);
    if (prompt->n_tokens == 0)
        hth_api_fail(error, HTH_API_INVALID_VALUE, param,
                     "'%s' is empty, and this model has no token that begins every text; give at least one token",
                     param);
    if (prompt->n_tokens <= info->n_ctx || error->kind != HTH_API_NO_ERROR)
        return error->kind == HTH_API_NO_ERROR;
    (void)hth_prompt_too_long(prompt->n_tokens, info->n_ctx, info->n_ctx_train, &err); /* for its message */
    fail_prompt(request, &err, error);
    return false;
}

/* Append the tokens of one text, each with the bias, to the *n biases. */
static bool add_text_bias(hearth_model *model, const hth_api_text_bias *of, hearth_logit_bias *biases, size_t *n,
                          hth_api_error *error)
{
    hearth_token tokens[HTH_LOGIT_BIAS_MAX];
    hearth_error err = { .message = "" };
    size_t room = HTH_LOGIT_BIAS_MAX - *n, n_tokens = 0;
    hearth_status status = hearth_tokenize(model, of->text, strlen(of->text), 0, tokens, room, &n_tokens, &err);

    if (n_tokens > room)
        hth_api_fail(error, HTH_API_INVALID_VALUE, "logit_bias",
                     "'logit_bias' has more than %d tokens, with those of its texts; leave some out",
                     HTH_LOGIT_BIAS_MAX);
    else if (status != HEARTH_OK)
        hth_api_fail_status(error, &err);
    if (error->kind != HTH_API_NO_ERROR)
        return false;
    for (size_t i = 0; i < n_tokens; i++)
        biases[(*n)++] = (hearth_logit_bias){ .token = tokens[i], .bias = of->bias };
    return true;
}

/*
 * As in llama-server: the text is tokenized by itself, without tokens that begin a text, and names of control tokens in
 * it are plain text. Each token gets the whole bias.
 */
static bool join_biases(hearth_model *model, const hth_api_request *request, hth_api_prepared *prepared,
                        hth_api_error *error)
{
    const hearth_sampling *sampling = &request->sampling;
    size_t n = sampling->n_logit_bias;

    if (request->n_text_biases == 0)
        return true;
    prepared->biases = calloc(HTH_LOGIT_BIAS_MAX, sizeof(*prepared->biases));
    if (!prepared->biases)
        return no_memory(error);
    if (n > 0)
        memcpy(prepared->biases, sampling->logit_bias, n * sizeof(*prepared->biases));
    for (size_t i = 0; i < request->n_text_biases; i++)
        if (*request->text_biases[i].text &&
            !add_text_bias(model, &request->text_biases[i], prepared->biases, &n, error))
            return false;
    for (size_t i = 0; i < prepared->n_requests; i++) {
        prepared->samplings[i].logit_bias = prepared->biases;
        prepared->samplings[i].n_logit_bias = n;
    }
    return true;
}

/*
 * The tokens of the predicted reply become the draft of each request. Tokens that do not fit in the context are left
 * out.
 */
static bool make_draft(hearth_model *model, uint32_t n_ctx, const hth_api_request *request, hth_api_prepared *prepared,
                       hth_api_error *error)
{
    size_t n = 0;

    for (size_t i = 0; i < request->n_prediction && n < n_ctx; i++)
        if (!append_text(model, request, request->prediction[i], 0, &prepared->draft, &n, error))
            return false;
    for (size_t i = 0; i < prepared->n_requests; i++) {
        prepared->requests[i].draft_tokens = prepared->draft;
        prepared->requests[i].n_draft_tokens = n < n_ctx ? n : n_ctx;
    }
    return true;
}

/* Does the rendering's grammar apply from the first token on? */
static bool binds(const hearth_chat_prompt *chat)
{
    return chat->grammar && !chat->grammar_is_lazy;
}

static bool make_requests(const hearth_model_info *info, const hth_api_request *request, uint64_t seed,
                          hth_api_prepared *prepared, hth_api_error *error)
{
    for (size_t i = 0; i < prepared->n_requests; i++) {
        const hth_api_prompt *prompt = prepared->prompts[i];
        hearth_request *one = &prepared->requests[i];
        hearth_sampling *sampling = &prepared->samplings[i];

        if (!check_options(info, request, prompt, error))
            return false;
        *one = request->options;
        *sampling = request->sampling;
        one->sampling = sampling;
        if (sampling->seed == HEARTH_SEED_RANDOM)
            sampling->seed = seed;
        sampling->seed += i * one->n; /* each reply has its own */
        if (request->is_chat)
            put_chat(request, prepared->chat, one, sampling);
        if (!request->has_mirostat && !sampling->grammar_is_lazy &&
            (sampling->grammar || sampling->json_schema || (one->chat && binds(one->chat))))
            sampling->mirostat = 0; /* only a default, and it has no effect with a grammar */
        one->tokens = prompt->tokens;
        one->n_tokens = prompt->n_tokens;
        hth_sampling_cut_windows(sampling, info->n_ctx);
        cut_length(info->n_ctx, one);
    }
    return true;
}

bool hth_api_prepare(hearth_model *model, const hth_api_request *request, uint64_t seed, hth_memo *memory,
                     hth_api_prepared *out, hth_api_error *error)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_prepared prepared = { .n_requests = 0 };
    hearth_error err;

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (hearth_model_info_get(model, &info, &err) != HEARTH_OK) {
        hth_api_fail_status(error, &err);
        return false;
    }
    if (!make_prompts(model, info.n_ctx, request, memory, &prepared, error) ||
        !make_requests(&info, request, seed, &prepared, error) || !join_biases(model, request, &prepared, error) ||
        !make_draft(model, info.n_ctx, request, &prepared, error)) {
        hth_api_prepared_deinit(&prepared);
        return false;
    }
    *out = prepared;
    return true;
}

bool hth_api_render_prompt(hearth_model *model, const hth_api_request *request, const hearth_chat_prompt **out,
                           hth_api_error *error)
{
    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    return render(model, request, out, NULL, error);
}

bool hth_api_count_prompt(hearth_model *model, const hth_api_request *request, size_t *n_out, hth_api_error *error)
{
    const hearth_chat_prompt *chat = NULL;
    hearth_token *tokens = NULL;
    size_t n = 0;
    bool ok;

    if (!hth_api_render_prompt(model, request, &chat, error))
        return false;
    ok = append_chat(model, request, chat, HTH_TOKENIZE_CHAT, &tokens, &n, error);
    free(tokens);
    hearth_chat_prompt_free(chat);
    *n_out = n;
    return ok;
}
