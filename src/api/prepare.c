#include "api/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/prompt.h"
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

/* The request that is prepared. */
typedef struct maker {
    hearth_model *model;
    const hth_api_request *request;
    hth_api_error *error;
} maker;

/* All zeros: no tokens. */
typedef struct token_list {
    hearth_token *tokens; /* [n], owned */
    size_t n;
} token_list;

static bool no_memory(const maker *m)
{
    hth_api_fail(m->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
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

static bool fail(const maker *m, const hearth_error *err)
{
    hth_api_fail_status(m->error, err);
    return false;
}

/* The error is about a prompt that has no tokens, or too many. */
static bool fail_prompt(const maker *m, const hearth_error *err)
{
    hth_api_fail_status(m->error, err);
    if (err->status == HEARTH_TOO_LONG)
        (void)snprintf(m->error->param, sizeof(m->error->param), "%s", prompt_field(m->request)); /* fits */
    return false;
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

static bool render_once(const maker *m, const hearth_conversation *conversation, const hearth_chat_prompt **out,
                        hth_api_notes *notes)
{
    hearth_error err;

    if (hth_api_render(m->model, conversation, out, notes, &err) == HEARTH_OK)
        return true;
    if (err.status == HEARTH_MISUSE)
        name_bad_call(conversation, m->error);
    /* The template's error says why it refuses the conversation, and the client can change the conversation. */
    if (err.status == HEARTH_ENGINE)
        hth_api_fail(m->error, HTH_API_INVALID_VALUE, prompt_field(m->request), "%s", err.message);
    return fail(m, &err);
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
static bool render(const maker *m, const hearth_chat_prompt **out, hth_api_notes *notes)
{
    hearth_conversation conversation = m->request->conversation;

    if (conversation.n_tools == 0 || conversation.tool_choice == HEARTH_TOOL_NONE)
        conversation.json_schema = NULL;
    if (!render_once(m, &conversation, out, notes))
        return false;
    if (conversation.json_schema == m->request->conversation.json_schema || !(*out)->can_think ||
        conversation.no_thinking)
        return true;
    hearth_chat_prompt_free(*out); /* only the rendering shows that this model reasons here */
    *out = NULL;
    return render_once(m, &m->request->conversation, out, notes);
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

/* Make room for n_more tokens at the end of a list. */
static bool reserve(const maker *m, token_list *to, size_t n_more)
{
    hearth_token *grown = realloc(to->tokens, (to->n + n_more + 1) * sizeof(*grown));

    if (!grown)
        return no_memory(m);
    to->tokens = grown;
    return true;
}

static bool append(const maker *m, const hearth_token *tokens, size_t n, token_list *to)
{
    if (!reserve(m, to, n))
        return false;
    if (n > 0)
        memcpy(to->tokens + to->n, tokens, n * sizeof(*tokens));
    to->n += n;
    return true;
}

/* Append the tokens of a text. */
static bool append_text(const maker *m, const char *text, unsigned flags, token_list *to)
{
    size_t n_bytes = strlen(text), capacity = n_bytes + 16, n_more = 0;
    hearth_error err;

    if (!reserve(m, to, capacity))
        return false;
    if (hth_model_tokenize(m->model, text, n_bytes, flags, m->request->is_gone, to->tokens + to->n, capacity, &n_more,
                           &err) != HEARTH_OK)
        return fail(m, &err);
    to->n += n_more;
    return true;
}

/* Append the tokens of a rendered conversation. */
static bool append_chat(const maker *m, const hearth_chat_prompt *chat, unsigned flags, token_list *to)
{
    const hth_prompt_source source = { .text = chat->text,
                                       .n_bytes = chat->n_bytes,
                                       .flags = flags,
                                       .no_cache_read = true,
                                       .chat = chat,
                                       .is_gone = m->request->is_gone };
    hth_prompt_tokens made;
    hearth_error err;
    bool ok;

    if (hth_model_prompt_of_text(m->model, &source, &made, &err) != HEARTH_OK)
        return fail_prompt(m, &err);
    ok = append(m, made.tokens, made.n_tokens, to);
    free(made.tokens);
    hth_prompt_text_unref(made.text);
    return ok;
}

/* False, with the error filled, if the texts certainly have more tokens than fit in the context. */
static bool check_pieces(const maker *m, const hth_api_text_prompt *prompt)
{
    hearth_error err;
    size_t n_bytes = 0;

    for (size_t i = 0; i < prompt->n_pieces; i++)
        n_bytes += prompt->pieces[i].text ? strlen(prompt->pieces[i].text) : 0;
    return hth_model_check_length(m->model, n_bytes, &err) == HEARTH_OK || fail_prompt(m, &err);
}

static bool join_pieces(const maker *m, const hth_api_text_prompt *prompt, token_list *to)
{
    bool ok = check_pieces(m, prompt);

    for (size_t i = 0; ok && i < prompt->n_pieces; i++) {
        const hth_api_piece *piece = &prompt->pieces[i];
        const unsigned flags = (piece->is_plain ? 0u : HEARTH_TOKENIZE_SPECIAL) | (i == 0 ? HEARTH_TOKENIZE_BOS : 0u);

        ok = piece->chat ? append_chat(m, piece->chat, HEARTH_TOKENIZE_SPECIAL, to)
           : piece->text ? append_text(m, piece->text, flags, to)
                         : append(m, piece->tokens, piece->n_tokens, to);
    }
    return ok;
}

/* A prompt that is one text. chat: the rendering that it comes from; NULL: none. */
static hth_prompt_source source_of(const maker *m, const char *text, const hearth_chat_prompt *chat)
{
    return (hth_prompt_source){
        .text = text,
        .n_bytes = strlen(text),
        .flags = HTH_TOKENIZE_CHAT,
        .cache_salt = m->request->options.cache_salt,
        .no_cache_read = m->request->options.no_cache_read,
        .chat = chat,
        .is_gone = m->request->is_gone,
    };
}

/* The tokens of a prompt that is one text. */
static bool read_text(const maker *m, const char *text, hth_api_prompt *prompt)
{
    const hth_prompt_source source = source_of(m, text, prompt->chat);
    hth_prompt_tokens made;
    hearth_error err;

    if (hth_model_check_length(m->model, source.n_bytes, &err) != HEARTH_OK ||
        hth_model_prompt_of_text(m->model, &source, &made, &err) != HEARTH_OK)
        return fail_prompt(m, &err);
    prompt->tokens = made.tokens;
    prompt->n_tokens = made.n_tokens;
    prompt->text = made.text;
    return true;
}

/* The tokens of a prompt of texts and tokens. */
static bool read_pieces(const maker *m, const hth_api_text_prompt *from, hth_api_prompt *prompt)
{
    token_list list = { .n = 0 };
    bool ok;

    if (from->n_pieces == 1 && from->pieces[0].text)
        return read_text(m, from->pieces[0].text, prompt);
    ok = join_pieces(m, from, &list);
    prompt->tokens = list.tokens;
    prompt->n_tokens = list.n;
    return ok;
}

bool hth_api_prepare_inputs(hearth_model *model, const hth_api_request *request, hth_api_inputs *out,
                            hth_api_error *error)
{
    const maker m = { .model = model, .request = request, .error = error };
    const hearth_embed_request *options = &request->embed->options;
    hth_api_inputs inputs = {
        .list = calloc(options->n_inputs, sizeof(*inputs.list)),
        .joined = calloc(options->n_inputs, sizeof(*inputs.joined)),
    };
    bool ok = (inputs.list && inputs.joined) || no_memory(&m);

    for (size_t i = 0; ok && i < options->n_inputs; i++) {
        token_list list = { .n = 0 };

        inputs.list[i] = options->inputs[i];
        if (i >= request->n_prompts || request->prompts[i].n_pieces == 0)
            continue;
        ok = join_pieces(&m, &request->prompts[i], &list);
        inputs.list[i].tokens = inputs.joined[inputs.n_joined++] = list.tokens;
        inputs.list[i].n_tokens = list.n;
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
static bool read_around(const maker *m, const hth_api_text_prompt *from, hth_api_prompt *prompt)
{
    size_t n = from->n_pieces;
    hearth_token fill[3];
    hth_api_piece *pieces;
    bool ok;

    if (!hth_model_fill_tokens(m->model, fill)) {
        hth_api_fail(m->error, HTH_API_UNSUPPORTED, "suffix",
                     "'suffix' needs a model that can fill in between two texts, and this model cannot; leave it out");
        return false;
    }
    pieces = calloc(n + 5, sizeof(*pieces));
    if (!pieces)
        return no_memory(m);
    pieces[0].text = ""; /* the tokens that begin every text */
    pieces[1] = (hth_api_piece){ .tokens = &fill[0], .n_tokens = 1 };
    memcpy(&pieces[2], from->pieces, n * sizeof(*pieces));
    pieces[n + 2] = (hth_api_piece){ .tokens = &fill[1], .n_tokens = 1 };
    pieces[n + 3].text = m->request->suffix;
    pieces[n + 4] = (hth_api_piece){ .tokens = &fill[2], .n_tokens = 1 };
    ok = read_pieces(m, &(hth_api_text_prompt){ .pieces = pieces, .n_pieces = n + 5 }, prompt);
    free(pieces);
    return ok;
}

static bool read_infill(const maker *m, hth_api_prompt *prompt)
{
    hth_api_text_prompt from = { .n_pieces = 0 };
    hth_api_piece *pieces = NULL;
    hth_api_roles roles;
    bool ok = hth_api_infill_pieces(m->model, m->request->infill, &roles, &pieces, &from.n_pieces, m->error);

    from.pieces = pieces;
    ok = ok && read_pieces(m, &from, prompt);
    free(pieces);
    return ok;
}

/* The prompt of a conversation, after the tokens of its context if there are any. */
static bool read_conversation(const maker *m, hth_api_prompt *prompt)
{
    const hth_api_request *request = m->request;
    hth_api_piece pieces[2] = { { .tokens = request->context, .n_tokens = request->n_context } };
    size_t n_before = request->n_context > 0; /* one piece */

    if (!render(m, &prompt->chat, &prompt->notes))
        return false;
    note_dropped_reasoning(&request->conversation, prompt->chat, &prompt->notes);
    note_dropped_tools(&request->conversation, prompt->chat, &prompt->notes);
    pieces[n_before].text = prompt->chat->text;
    pieces[n_before].chat = n_before > 0 ? prompt->chat : NULL;
    return read_pieces(m, &(hth_api_text_prompt){ .pieces = pieces, .n_pieces = n_before + 1 }, prompt);
}

/*
 * Make prompt i from its text or its conversation. Tokenizing reserves one token for each byte of text, several times
 * what is needed, and a prompt may be kept for a long time: release the unused part.
 */
static hth_api_prompt *make_prompt(const maker *m, size_t i)
{
    const hth_api_request *request = m->request;
    hth_api_prompt *prompt = hth_api_prompt_new();
    hearth_token *tokens;
    bool ok;

    if (!prompt) {
        (void)no_memory(m); /* the error is filled */
        return NULL;
    }
    ok = request->is_chat ? read_conversation(m, prompt)
       : request->infill  ? read_infill(m, prompt)
       : request->suffix  ? read_around(m, &request->prompts[i], prompt)
                          : read_pieces(m, &request->prompts[i], prompt);
    if (!ok) {
        hth_api_prompt_unref(prompt);
        return NULL;
    }
    tokens = prompt->n_tokens > 0 ? realloc(prompt->tokens, prompt->n_tokens * sizeof(*tokens)) : NULL;
    if (tokens)
        prompt->tokens = tokens;
    return prompt;
}

/* A prompt that exceeds the context is refused every time, so it is not kept: it must not displace other prompts. */
static hth_api_prompt *find_or_make_prompt(const maker *m, uint32_t n_ctx, size_t i, hth_memo *memory)
{
    uint8_t key[HTH_MEMO_KEY_BYTES];
    bool has_key = memory && hth_api_prompt_key(m->request, i, key);
    hth_api_prompt *prompt = has_key && !m->request->knows_more ? hth_memo_find(memory, key) : NULL;

    if (prompt)
        return prompt;
    prompt = make_prompt(m, i);
    if (!prompt || !has_key || prompt->n_tokens > n_ctx)
        return prompt;
    if (m->request->is_chat)
        /* if this fails, each reply makes its own */
        (void)hearth_chat_parser_new(m->model, prompt->chat, &prompt->parser, NULL);
    hth_api_prompts_keep(memory, key, prompt);
    return prompt;
}

static bool make_prompts(const maker *m, uint32_t n_ctx, hth_memo *memory, hth_api_prepared *prepared)
{
    size_t n = m->request->is_chat ? 1 : m->request->n_prompts;

    prepared->requests = calloc(n, sizeof(*prepared->requests));
    prepared->samplings = calloc(n, sizeof(*prepared->samplings));
    prepared->prompts = calloc(n, sizeof(*prepared->prompts));
    if (!prepared->requests || !prepared->samplings || !prepared->prompts)
        return no_memory(m);
    prepared->n_requests = n;
    for (size_t i = 0; i < n; i++) {
        prepared->prompts[i] = find_or_make_prompt(m, n_ctx, i, memory);
        if (!prepared->prompts[i])
            return false;
    }
    if (m->request->is_chat)
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
static bool check_options(const maker *m, const hearth_model_info *info, const hth_api_prompt *prompt)
{
    const hearth_sampling *sampling = &m->request->sampling;
    const char *param = prompt_field(m->request);
    hearth_error err;

    for (size_t i = 0; i < sampling->n_logit_bias; i++)
        if ((uint32_t)sampling->logit_bias[i].token >= info->n_vocab)
            hth_api_fail(m->error, HTH_API_INVALID_VALUE, "logit_bias",
                         "'logit_bias' has the token %d; this model has tokens 0 to %u", sampling->logit_bias[i].token,
                         info->n_vocab - 1);
    if (prompt->n_tokens == 0)
        hth_api_fail(m->error, HTH_API_INVALID_VALUE, param,
                     "'%s' is empty, and this model has no token that begins every text; give at least one token",
                     param);
    if (prompt->n_tokens <= info->n_ctx || m->error->kind != HTH_API_NO_ERROR)
        return m->error->kind == HTH_API_NO_ERROR;
    (void)hth_prompt_too_long(prompt->n_tokens, info->n_ctx, info->n_ctx_train, &err); /* for its message */
    return fail_prompt(m, &err);
}

/* Append the tokens of one text, each with the bias, to the *n biases. */
static bool add_text_bias(const maker *m, const hth_api_text_bias *of, hearth_logit_bias *biases, size_t *n)
{
    hearth_token tokens[HTH_LOGIT_BIAS_MAX];
    hearth_error err = { .message = "" };
    size_t room = HTH_LOGIT_BIAS_MAX - *n, n_tokens = 0;
    hearth_status status = hearth_tokenize(m->model, of->text, strlen(of->text), 0, tokens, room, &n_tokens, &err);

    if (n_tokens > room)
        hth_api_fail(m->error, HTH_API_INVALID_VALUE, "logit_bias",
                     "'logit_bias' has more than %d tokens, with those of its texts; leave some out",
                     HTH_LOGIT_BIAS_MAX);
    else if (status != HEARTH_OK)
        hth_api_fail_status(m->error, &err);
    if (m->error->kind != HTH_API_NO_ERROR)
        return false;
    for (size_t i = 0; i < n_tokens; i++)
        biases[(*n)++] = (hearth_logit_bias){ .token = tokens[i], .bias = of->bias };
    return true;
}

/*
 * As in llama-server: the text is tokenized by itself, without tokens that begin a text, and names of control tokens in
 * it are plain text. Each token gets the whole bias.
 */
static bool join_biases(const maker *m, hth_api_prepared *prepared)
{
    const hth_api_request *request = m->request;
    const hearth_sampling *sampling = &request->sampling;
    size_t n = sampling->n_logit_bias;

    if (request->n_text_biases == 0)
        return true;
    prepared->biases = calloc(HTH_LOGIT_BIAS_MAX, sizeof(*prepared->biases));
    if (!prepared->biases)
        return no_memory(m);
    if (n > 0)
        memcpy(prepared->biases, sampling->logit_bias, n * sizeof(*prepared->biases));
    for (size_t i = 0; i < request->n_text_biases; i++)
        if (*request->text_biases[i].text && !add_text_bias(m, &request->text_biases[i], prepared->biases, &n))
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
static bool make_draft(const maker *m, uint32_t n_ctx, hth_api_prepared *prepared)
{
    token_list draft = { .n = 0 };
    bool ok = true;

    for (size_t i = 0; ok && i < m->request->n_prediction && draft.n < n_ctx; i++)
        ok = append_text(m, m->request->prediction[i], 0, &draft);
    prepared->draft = draft.tokens;
    for (size_t i = 0; i < prepared->n_requests; i++) {
        prepared->requests[i].draft_tokens = draft.tokens;
        prepared->requests[i].n_draft_tokens = draft.n < n_ctx ? draft.n : n_ctx;
    }
    return ok;
}

/* Does the rendering's grammar apply from the first token on? */
static bool binds(const hearth_chat_prompt *chat)
{
    return chat->grammar && !chat->grammar_is_lazy;
}

static bool make_requests(const maker *m, const hearth_model_info *info, uint64_t seed, hth_api_prepared *prepared)
{
    const hth_api_request *request = m->request;

    for (size_t i = 0; i < prepared->n_requests; i++) {
        const hth_api_prompt *prompt = prepared->prompts[i];
        hearth_request *one = &prepared->requests[i];
        hearth_sampling *sampling = &prepared->samplings[i];

        if (!check_options(m, info, prompt))
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
    const maker m = { .model = model, .request = request, .error = error };
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_prepared prepared = { .n_requests = 0 };
    hearth_error err;

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (hearth_model_info_get(model, &info, &err) != HEARTH_OK)
        return fail(&m, &err);
    if (!make_prompts(&m, info.n_ctx, memory, &prepared) || !make_requests(&m, &info, seed, &prepared) ||
        !join_biases(&m, &prepared) || !make_draft(&m, info.n_ctx, &prepared)) {
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
    return render(&(maker){ .model = model, .request = request, .error = error }, out, NULL);
}

bool hth_api_count_prompt(hearth_model *model, const hth_api_request *request, size_t *n_out, hth_api_error *error)
{
    const maker m = { .model = model, .request = request, .error = error };
    const hearth_chat_prompt *chat = NULL;
    token_list list = { .n = 0 };
    bool ok;

    if (!hth_api_render_prompt(model, request, &chat, error))
        return false;
    ok = append_chat(&m, chat, HTH_TOKENIZE_CHAT, &list);
    free(list.tokens);
    hearth_chat_prompt_free(chat);
    *n_out = list.n;
    return ok;
}

bool hth_api_known_prompt(hearth_model *model, const hth_api_request *request, hth_known_text *out,
                          hth_api_error *error)
{
    const maker m = { .model = model, .request = request, .error = error };
    const hth_api_text_prompt *prompt = request->is_chat || request->n_prompts != 1 ? NULL : &request->prompts[0];
    const hearth_chat_prompt *chat = NULL;
    const char *text =
        prompt && prompt->n_pieces == 1 && !request->infill && !request->suffix ? prompt->pieces[0].text : NULL;
    hth_prompt_source source;
    hearth_error err;
    bool ok = true;

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    *out = (hth_known_text){ .n_bytes = 0 };
    if (request->is_chat && request->n_context == 0) {
        if (!render(&m, &chat, NULL))
            return false;
        text = chat->text;
    }
    if (text) {
        source = source_of(&m, text, chat);
        ok = hth_model_known_of_text(model, &source, out, &err) == HEARTH_OK || fail(&m, &err);
    }
    hearth_chat_prompt_free(chat);
    return ok;
}

unsigned hth_api_prompt_flags(const hth_api_request *request)
{
    return HTH_TOKENIZE_CHAT | (request->is_chat ? HTH_PROMPT_CHAT : 0u);
}
