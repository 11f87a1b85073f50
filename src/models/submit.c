/*
 * submit.c - from public requests to slots, and from results to callers
 *
 * The caller's thread checks the options, the prompt and the grammar of a request. So the scheduler can run every
 * request that it gets.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
#include "models/given.h"
#include "models/model_inside.h"

/*
 * Clients shorten a conversation by the number of tokens that an error reports. Up to this size, counting them takes no
 * time.
 */
enum { COUNTED_BYTES_MAX = 256 << 10 };

/* A copy of the tokens of a request, if they fit the context. */
static hearth_status copy_tokens(const hearth_model *model, const hearth_request *request, hth_prompt_tokens *out,
                                 hearth_error *err)
{
    size_t n = request->n_tokens;

    for (size_t i = 0; i < n; i++)
        if (request->tokens[i] < 0 || (uint32_t)request->tokens[i] >= model->info.n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "token %zu of the prompt is %d; this model has tokens 0 to %u", i,
                            request->tokens[i], model->info.n_vocab - 1);
    out->n_tokens = n;
    if (n > model->place.n_ctx)
        return HEARTH_OK; /* refused later because of its length */
    out->tokens = malloc((n ? n : 1) * sizeof(*out->tokens));
    if (!out->tokens)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt of %zu tokens", n);
    if (n > 0)
        memcpy(out->tokens, request->tokens, n * sizeof(*out->tokens));
    return HEARTH_OK;
}

static hearth_status tokenize_prompt(hearth_model *model, const hearth_request *request, hth_prompt_tokens *out,
                                     hearth_error *err)
{
    hth_prompt_source source = {
        .text = request->prompt,
        .n_bytes = strlen(request->prompt),
        .flags = request->tokenize_flags,
        .cache_salt = request->cache_salt,
        .no_cache_read = request->no_cache_read,
        .chat = request->chat,
    };
    hearth_status status;

    /* It would have the token that begins every text, but an empty prompt is nearly always a mistake. */
    if (source.n_bytes == 0)
        return hth_fail(err, HEARTH_MISUSE, "the prompt is empty; give at least one character");
    status = hth_check_text("the prompt", source.text, source.n_bytes, err);
    if (status == HEARTH_OK)
        status = hth_model_check_length(model, source.n_bytes, err);
    return status == HEARTH_OK ? hth_model_text_tokens(model, &source, out, err) : status;
}

/* known: "" or "at least " */
static hearth_status too_long(const char *known, size_t n_tokens, uint32_t n_ctx, uint32_t n_ctx_train,
                              hearth_error *err)
{
    static const char remedy[] = "a larger context (-c N, or context = N in a configuration)";

    /* Clients look for the words of llama-server, "exceeds the available context size". */
    if (n_ctx_train > 0 && n_tokens > n_ctx_train)
        (void)hth_fail(err, HEARTH_TOO_LONG,
                       "the prompt (%s%zu tokens) exceeds the available context size (%u tokens); shorten it: the "
                       "model was trained with %u tokens, and replies beyond them may get worse in %s",
                       known, n_tokens, n_ctx, n_ctx_train, remedy);
    else
        (void)hth_fail(
            err, HEARTH_TOO_LONG,
            "the prompt (%s%zu tokens) exceeds the available context size (%u tokens); shorten it, or give the "
            "model %s",
            known, n_tokens, n_ctx, remedy);
    if (err) {
        err->n_tokens = n_tokens < UINT32_MAX ? (uint32_t)n_tokens : UINT32_MAX;
        err->n_tokens_max = n_ctx;
    }
    return HEARTH_TOO_LONG;
}

hearth_status hth_prompt_too_long(size_t n_tokens, uint32_t n_ctx, uint32_t n_ctx_train, hearth_error *err)
{
    return too_long("", n_tokens, n_ctx, n_ctx_train, err);
}

hearth_status hth_model_check_length(const hearth_model *model, size_t n_bytes, hearth_error *err)
{
    uint32_t token_bytes_max = model->info.token_bytes_max, n_ctx = model->place.n_ctx;
    size_t n_least = token_bytes_max > 0 ? n_bytes / token_bytes_max : 0;

    if (n_bytes <= COUNTED_BYTES_MAX || n_ctx == 0 || n_least <= n_ctx)
        return HEARTH_OK;
    return too_long("at least ", n_least, n_ctx, model->info.n_ctx_train, err);
}

/*
 * The tokens of the request's prompt, 1 to the size of the context. The caller has entered the model, and releases
 * tokens and text. Statuses as for hearth_submit.
 */
static hearth_status prompt_tokens(hearth_model *model, const hearth_request *request, hth_prompt_tokens *out,
                                   hearth_error *err)
{
    hth_prompt_tokens made = { .tokens = NULL };
    hearth_status status =
        request->prompt ? tokenize_prompt(model, request, &made, err) : copy_tokens(model, request, &made, err);

    if (status == HEARTH_OK && made.n_tokens == 0)
        status = hth_fail(err, HEARTH_MISUSE, "the prompt is empty; give at least one token of text");
    if (status == HEARTH_OK && made.n_tokens > model->place.n_ctx)
        status = hth_prompt_too_long(made.n_tokens, model->place.n_ctx, model->info.n_ctx_train, err);
    if (status != HEARTH_OK) {
        free(made.tokens);
        hth_prompt_text_unref(made.text);
        return status;
    }
    *out = made;
    return HEARTH_OK;
}

hearth_status hth_model_keyspace(const hearth_model *model, const hth_adapter_set *adapters, const char *cache_salt,
                                 hth_keyspace *out, hearth_error *err)
{
    hth_keyspace keyspace = model->place.keyspace;

    if (adapters) {
        uint8_t fingerprint[32];
        hearth_status status = hth_adapter_set_fold(adapters, model->model_fingerprint, fingerprint, err);

        if (status != HEARTH_OK)
            return status;
        hth_keyspace_set_adapted(&keyspace, model->model_fingerprint, fingerprint);
        hth_keyspace_salt(&keyspace, model->cache_salt);
    }
    hth_keyspace_salt(&keyspace, cache_salt);
    *out = keyspace;
    return HEARTH_OK;
}

hearth_status hth_model_request_keyspace(hearth_model *model, const hth_prefix_owner *owner, hth_keyspace *out,
                                         hearth_error *err)
{
    hth_adapter_set *adapters = NULL;
    hearth_status status = hth_adapters_choose(&model->adapters, owner->adapters, owner->n_adapters, &adapters, err);

    if (status == HEARTH_OK)
        status = hth_model_keyspace(model, adapters, owner->cache_salt, out, err);
    hth_adapter_set_unref(adapters);
    return status;
}

/* An explicit n_predict must fit into the context. */
static hearth_status check_room(const hearth_model *model, const hearth_request *request, size_t n_prompt,
                                hearth_error *err)
{
    size_t room = model->place.n_ctx - n_prompt + 1; /* the last token of a reply is not evaluated */

    if (request->n_predict > 0 && !request->prefill_only && (size_t)request->n_predict > room)
        return hth_fail(err, HEARTH_TOO_LONG,
                        "n_predict is %d, but after a prompt of %zu tokens the context of %u has room for %zu; ask for "
                        "fewer, or for -1: as many as fit",
                        request->n_predict, n_prompt, model->place.n_ctx, room);
    if (request->n_predict >= 0 && request->min_tokens > (uint32_t)request->n_predict)
        return hth_fail(err, HEARTH_MISUSE, "min_tokens is %u; it must be at most n_predict, which is %d",
                        request->min_tokens, request->n_predict);
    return HEARTH_OK;
}

/* A token that does not exist would never end a reply, is never drawn, and the engine refuses it. */
static hearth_status check_tokens(const hearth_model *model, const char *name, const hearth_token *tokens, size_t n,
                                  hearth_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= model->info.n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "%s[%zu] is %d; this model has tokens 0 to %u", name, i, tokens[i],
                            model->info.n_vocab - 1);
    return HEARTH_OK;
}

/* Does the key begin with the given digits of the parent key? */
static bool may_be_parent(const hth_request *request, const hth_key *key)
{
    const uint32_t n = request->options.n_parent_digits;
    const uint8_t *given = request->options.parent_key;

    return memcmp(key->bytes, given, n / 2) == 0 && (n % 2 == 0 || key->bytes[n / 2] >> 4 == given[n / 2] >> 4);
}

/* Find the prefix of the prompt that the parent key names. A key from another conversation is an error. */
static hearth_status find_parent(hth_request *request, hearth_error *err)
{
    const bool is_whole = request->options.n_parent_digits == 2 * HTH_KEY_BYTES;
    hth_key_stream *stream;
    hth_key key;
    bool is_ambiguous = false;

    if (!request->options.parent_key)
        return HEARTH_OK;
    stream = hth_key_stream_new(&request->keyspace);
    if (!stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the keys of a prompt");
    for (uint32_t i = 0; !(is_whole && request->n_parent > 0) && i < request->n_prompt; i++) {
        hth_key_stream_push(stream, &request->prompt[i], 1);
        hth_key_stream_key(stream, &key);
        if (!may_be_parent(request, &key))
            continue;
        is_ambiguous = request->n_parent > 0;
        if (is_ambiguous)
            break;
        request->n_parent = i + 1;
    }
    hth_key_stream_free(stream);
    if (is_ambiguous)
        return hth_fail(err, HEARTH_MISUSE,
                        "the %u digits of parent_key begin the keys of several beginnings of this prompt; give more",
                        request->options.n_parent_digits);
    if (request->n_parent == 0)
        return hth_fail(err, HEARTH_NOT_FOUND,
                        "parent_key is not the key of any beginning of this prompt; give the finish_key of a request "
                        "to the same model, parameters and cache_salt, whose prompt and reply the prompt begins with");
    return HEARTH_OK;
}

/* Make the slot of reply i. The first reply finds the parent and reads the grammar, and the others share them. */
static hearth_status make_slot(hearth_model *model, const hearth_request *given, hth_adapter_set *adapters,
                               const hth_prompt_tokens *prompt, uint64_t first_id, uint32_t i, hth_slot **slots,
                               hearth_error *err)
{
    size_t n_tokens = prompt->n_tokens;
    const hth_slot *first = i > 0 ? slots[0] : NULL;
    hearth_sampling sampling = *given->sampling;
    hearth_request one = *given;
    hth_request *request;
    hearth_token *copied = malloc((n_tokens + 1) * sizeof(*copied));
    hearth_status status;

    assert(prompt->tokens);
    if (!copied)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt of %zu tokens", n_tokens);
    memcpy(copied, prompt->tokens, n_tokens * sizeof(*copied));
    sampling.seed += i;
    one.sampling = &sampling;
    if (first)
        one.on_missing = NULL; /* they wait for the rows of the first */
    if (one.draft_max == -1 && model->draft_max > 0)
        one.draft_max = (int32_t)model->draft_max;
    if (one.draft_min == -1)
        one.draft_min = (int32_t)model->draft_min;
    status = hth_request_new(&one, copied, n_tokens, first_id + i, &request, err);
    if (status != HEARTH_OK)
        return status;
    request->text = hth_prompt_text_ref(prompt->text);
    request->adapters = hth_adapter_set_ref(adapters);
    status = hth_model_keyspace(model, adapters, given->cache_salt, &request->keyspace, err);
    if (status == HEARTH_OK)
        status = check_tokens(model, "stop_tokens", request->options.stop_tokens, request->options.n_stop_tokens, err);
    if (status == HEARTH_OK)
        status =
            check_tokens(model, "draft_tokens", request->options.draft_tokens, request->options.n_draft_tokens, err);
    if (first)
        request->n_parent = first->request->n_parent;
    else if (status == HEARTH_OK)
        status = find_parent(request, err);
    if (status == HEARTH_OK)
        status = hth_slot_new(hth_scheduler_workplace(model->scheduler), request, &sampling, first, &slots[i], err);
    if (status != HEARTH_OK)
        hth_request_free(request);
    return status;
}

hearth_status hth_model_prompt_take(hearth_model *model, const hearth_request *request, const char *function,
                                    hth_model_prompt *out, hearth_error *err)
{
    hth_model_prompt prompt = { .tokens = NULL };
    hth_prompt_tokens made;
    hth_given_request given;
    hearth_status status = hth_given_request_read(request, &given, err);

    if (status == HEARTH_OK)
        status = hth_model_enter_scheduler(model, function, err);
    if (status != HEARTH_OK)
        return status;
    status = prompt_tokens(model, &given.request, &made, err);
    if (status != HEARTH_OK) {
        hth_model_leave(model);
        return status;
    }
    prompt.tokens = made.tokens;
    prompt.n_tokens = made.n_tokens;
    prompt.n_known = made.text ? made.text->n_known : 0;
    hth_prompt_text_unref(made.text);
    prompt.owner = (hth_prefix_owner){ .cache_salt = given.request.cache_salt,
                                       .adapters = given.request.adapters,
                                       .n_adapters = given.request.n_adapters };
    status = hth_model_request_keyspace(model, &prompt.owner, &prompt.keyspace, err);
    if (status != HEARTH_OK) {
        hth_model_prompt_give_back(model, &prompt);
        return status;
    }
    prompt.no_cache_read = given.request.no_cache_read;
    *out = prompt;
    return HEARTH_OK;
}

void hth_model_prompt_give_back(hearth_model *model, hth_model_prompt *prompt)
{
    free(prompt->tokens);
    hth_model_leave(model);
}

/* text is as for hth_submit_held. */
static hearth_status make_slots(hearth_model *model, const hearth_request *given, hth_prompt_text *text,
                                hth_slot **slots, uint64_t *id_out, hearth_error *err)
{
    hth_adapter_set *adapters = NULL;
    hth_prompt_tokens prompt = { .tokens = NULL };
    hearth_status status = hth_adapters_choose(&model->adapters, given->adapters, given->n_adapters, &adapters, err);

    if (status == HEARTH_OK && model->is_deterministic)
        status = hth_adapters_check_deterministic(hth_adapter_set_count(adapters), err);
    if (status == HEARTH_OK)
        status = prompt_tokens(model, given, &prompt, err);

    if (!prompt.text)
        prompt.text = hth_prompt_text_ref(text);
    if (status == HEARTH_OK)
        status = check_room(model, given, prompt.n_tokens, err);
    if (status == HEARTH_OK)
        *id_out = hth_runtime_next_request_ids(model->runtime, given->n);
    for (uint32_t i = 0; status == HEARTH_OK && i < given->n; i++)
        status = make_slot(model, given, adapters, &prompt, *id_out, i, slots, err);
    hth_adapter_set_unref(adapters);
    free(prompt.tokens);
    hth_prompt_text_unref(prompt.text);
    return status;
}

/* source_out NULL: the events are not held. */
static hearth_status submit_given(hearth_model *model, hth_given_request *given, hth_prompt_text *text,
                                  uint64_t *id_out, hth_event_source **source_out, hearth_error *err)
{
    hth_slot *slots[HTH_REPLIES_MAX] = { NULL };
    hth_event_source *source = NULL;
    uint64_t id = 0;
    hearth_status status = hth_model_enter_scheduler(model, "hearth_submit", err);

    if (status != HEARTH_OK)
        return status;
    if (given->sampling.seed == HEARTH_SEED_RANDOM)
        given->sampling.seed = hth_draw_seed();
    if (given->request.events)
        status = hth_events_connect(model, &given->request, source_out != NULL, &source, err);
    if (status == HEARTH_OK)
        status = make_slots(model, &given->request, text, slots, &id, err);
    if (status == HEARTH_OK && id_out)
        *id_out = id; /* callbacks may read it */
    if (status == HEARTH_OK && source)
        hth_events_begin(source, id);
    if (status == HEARTH_OK)
        status = hth_scheduler_submit(model->scheduler, slots, given->request.n, err);
    if (status != HEARTH_OK) {
        for (uint32_t i = 0; i < given->request.n; i++)
            hth_slot_free(slots[i]);
        hth_events_drop(source);
    } else if (source_out) {
        *source_out = source;
    }
    hth_model_leave(model);
    return status;
}

hearth_status hth_submit_held(hearth_model *model, const hearth_request *request, hth_prompt_text *text,
                              uint64_t *id_out, hth_event_source **source_out, hearth_error *err)
{
    hth_given_request given;
    hearth_status status = hth_given_request_read(request, &given, err);

    return status == HEARTH_OK ? submit_given(model, &given, text, id_out, source_out, err) : status;
}

hearth_status hearth_submit(hearth_model *model, const hearth_request *request, uint64_t *id_out, hearth_error *err)
{
    return hth_submit_held(model, request, NULL, id_out, NULL, err);
}

/* hearth_complete forwards events to the caller's callbacks, and waits for on_done. */
typedef struct completion {
    const hearth_request *request;
    const hearth_result **results; /* [request->n] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t first_id; /* 0: hearth_submit has not returned */
    uint32_t n_done;
} completion;

static bool pass_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    completion *c = user_data;

    return !c->request->on_text || c->request->on_text(id, text, n, c->request->user_data);
}

static void pass_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    completion *c = user_data;

    if (c->request->on_progress)
        c->request->on_progress(id, phase, n_done, n_total, c->request->user_data);
}

static bool pass_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    completion *c = user_data;

    return c->request->on_token(id, event, c->request->user_data);
}

static bool pass_missing(const hearth_missing *missing, void *user_data)
{
    completion *c = user_data;

    return c->request->on_missing(missing, c->request->user_data);
}

static void take_result(uint64_t id, const hearth_result *result, void *user_data)
{
    completion *c = user_data;

    if (c->request->on_done)
        c->request->on_done(id, result, c->request->user_data);
    pthread_mutex_lock(&c->lock);
    while (c->first_id == 0)
        pthread_cond_wait(&c->changed, &c->lock);
    c->results[id - c->first_id] = hearth_result_ref(result);
    c->n_done++;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

hearth_status hearth_complete(hearth_model *model, const hearth_request *request, const hearth_result **results,
                              hearth_error *err)
{
    completion c = { .results = results };
    hth_given_request given;
    hearth_request outer;
    uint64_t id;
    hearth_status status;

    if (!results)
        return hth_fail(err, HEARTH_MISUSE, "hearth_complete: results is NULL");
    status = hth_given_request_read(request, &given, err);
    results[0] = NULL; /* a request that cannot be read has no n */
    if (status != HEARTH_OK)
        return status;
    for (uint32_t i = 0; i < given.request.n; i++)
        results[i] = NULL;
    if (given.request.events)
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_complete waits for the reply itself; set events to NULL, or use "
                        "hearth_submit");
    outer = given.request;
    c.request = &outer;
    given.request.on_text = pass_text;
    given.request.on_token = outer.on_token ? pass_token : NULL; /* on_token replaces on_text */
    given.request.on_progress = pass_progress;
    given.request.on_missing = outer.on_missing ? pass_missing : NULL;
    given.request.on_done = take_result;
    given.request.user_data = &c;
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    status = submit_given(model, &given, NULL, &id, NULL, err);
    if (status == HEARTH_OK) {
        pthread_mutex_lock(&c.lock);
        c.first_id = id;
        pthread_cond_broadcast(&c.changed);
        while (c.n_done < given.request.n)
            pthread_cond_wait(&c.changed, &c.lock);
        pthread_mutex_unlock(&c.lock);
        for (uint32_t i = 0; i < given.request.n && status == HEARTH_OK; i++) {
            status = results[i]->status;
            if (status != HEARTH_OK && err)
                *err = results[i]->error;
        }
    }
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    return status;
}

static hearth_status tell_found(bool found, uint64_t request_id, hearth_error *err)
{
    if (found)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_NOT_FOUND, "request %llu is neither waiting nor running",
                    (unsigned long long)request_id);
}

hearth_status hearth_cancel(hearth_model *model, uint64_t request_id, hearth_error *err)
{
    bool found;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_cancel: model is NULL");
    /* No hth_model_enter: the requests of a model that is being unloaded can be cancelled, too. */
    pthread_mutex_lock(&model->lock);
    found = (model->scheduler && hth_scheduler_cancel(model->scheduler, request_id)) ||
            (model->embedder && hth_embedder_cancel(model->embedder, request_id));
    pthread_mutex_unlock(&model->lock);
    return tell_found(found, request_id, err);
}

hearth_status hearth_linger(hearth_model *model, uint64_t request_id, uint32_t ms, hearth_error *err)
{
    bool found;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_linger: model is NULL");
    pthread_mutex_lock(&model->lock);
    found = model->scheduler && hth_scheduler_linger(model->scheduler, request_id, ms);
    pthread_mutex_unlock(&model->lock);
    return tell_found(found, request_id, err);
}

hearth_status hearth_rows_came(hearth_model *model, uint64_t request_id, hearth_error *err)
{
    bool found;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_rows_came: model is NULL");
    pthread_mutex_lock(&model->lock);
    found = model->scheduler && hth_scheduler_rows_came(model->scheduler, request_id);
    pthread_mutex_unlock(&model->lock);
    return tell_found(found, request_id, err);
}

bool hth_model_pause(hearth_model *model, uint64_t request_id, hth_pause by, bool paused)
{
    bool found;

    pthread_mutex_lock(&model->lock);
    found = model->scheduler && hth_scheduler_pause(model->scheduler, request_id, by, paused);
    pthread_mutex_unlock(&model->lock);
    return found;
}

hearth_status hearth_pause(hearth_model *model, uint64_t request_id, bool paused, hearth_error *err)
{
    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_pause: model is NULL");
    return tell_found(hth_model_pause(model, request_id, HTH_PAUSE_CALLER, paused), request_id, err);
}

hearth_status hearth_wait(hearth_model *model, uint64_t request_id, uint32_t timeout_ms, hearth_error *err)
{
    bool has_ended = true, is_loaded;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_wait: model is NULL");
    if (hth_scheduler_is_this_thread() || hth_embedder_is_this_thread())
        return hth_fail(err, HEARTH_MISUSE, "hearth_wait was called in a callback, which the request's end waits for");
    if (request_id == 0 || request_id > hth_runtime_last_request_id(model->runtime))
        return hth_fail(err, HEARTH_NOT_FOUND, "there was no request %llu", (unsigned long long)request_id);
    /* No hth_model_enter: the requests of a model that is being unloaded end, too. The scheduler outlives its users. */
    pthread_mutex_lock(&model->lock);
    is_loaded = model->embedder != NULL;
    model->users += is_loaded;
    pthread_mutex_unlock(&model->lock);
    if (is_loaded) {
        has_ended = (!model->scheduler || hth_scheduler_wait(model->scheduler, request_id, timeout_ms)) &&
                    hth_embedder_wait(model->embedder, request_id, timeout_ms);
        hth_model_leave(model);
    }
    if (!has_ended)
        return hth_fail(err, HEARTH_TIMED_OUT, "request %llu has not ended within %u ms; it goes on",
                        (unsigned long long)request_id, timeout_ms);
    return HEARTH_OK;
}

hearth_status hearth_session_end(hearth_model *model, const char *session_id, const char *cache_salt, hearth_error *err)
{
    hth_keyspace keyspace;
    hearth_status status;

    if (!session_id || !*session_id || strnlen(session_id, HTH_SESSION_BYTES_MAX + 1) > HTH_SESSION_BYTES_MAX)
        return hth_fail(err, HEARTH_MISUSE, "session_id is missing, empty or longer than %d bytes",
                        HTH_SESSION_BYTES_MAX);
    status = hth_model_enter_scheduler(model, "hearth_session_end", err);
    if (status != HEARTH_OK)
        return status;
    status = hth_model_keyspace(model, NULL, cache_salt, &keyspace, err);
    if (status == HEARTH_OK)
        status = hth_scheduler_end_session(model->scheduler, &keyspace, session_id, err);
    hth_model_leave(model);
    return status;
}

hearth_status hearth_model_save(hearth_model *model, hearth_save_reason reason, uint32_t timeout_ms, hearth_error *err)
{
    hearth_status status;

    if (reason != HEARTH_SAVE_EVICT && reason != HEARTH_SAVE_SHUTDOWN)
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_model_save: reason must be HEARTH_SAVE_EVICT or HEARTH_SAVE_SHUTDOWN");
    status = hth_model_enter(model, "hearth_model_save", err);
    if (status != HEARTH_OK)
        return status;
    if (model->scheduler) /* otherwise there is nothing to save */
        status = hth_scheduler_save(model->scheduler, reason, timeout_ms, err);
    hth_model_leave(model);
    return status;
}
