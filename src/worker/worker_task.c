#include "worker/worker_task.h"

#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "base/hash.h"
#include "dialects/request_parse.h"
#include "models/model.h"
#include "models/prefix.h"
#include "wire/adapter_state.h"
#include "wire/history_part.h"
#include "worker/worker_live_adapters.h"
#include "worker/worker_rows.h"
#include "worker/worker_slots.h"

enum {
    REPLIES_QUICK_MAX = 16, /* more are submitted by a lane */
    WORTH_TOKENS_MIN = 512, /* a guess: any machine evaluates fewer within seconds */
    NODES_MAX = 64,         /* of the page of prefixes */
};

void hth_task_deinit(hth_task *task)
{
    for (uint32_t i = 0; i < task->n_parts; i++)
        hth_worker_rows_drop(task->shared->rows, task->parts[i].id);
    hth_request_events_free(task->events);
    if (task->has_slot)
        hth_slot_memory_give_back(task->shared->slots, task->slot);
    hth_api_reply_free(task->reply);
    hth_api_prepared_deinit(&task->prepared);
    hth_api_request_free(task->request);
    hth_known_deinit(&task->known);
    hth_known_text_deinit(&task->history);
    hth_buffer_deinit(&task->answer);
    hth_api_embed_answer_free(task->vectors);
    hearth_embeddings_unref(task->embeddings);
    free(task->adapter_state);
    free(task->parts);
    free(task->salt);
    free(task->rows_from);
    free(task->front_salt);
    free(task->bytes_copy);
}

/* ---- reading ---- */

static void read_adapter_state(hth_task *task)
{
    task->adapter_state = malloc(sizeof(*task->adapter_state));
    if (task->adapter_state)
        (void)hth_adapter_state_read(task->bytes, task->n_bytes, task->adapter_state, &task->error); /* sets error */
    else
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
}

/*
 * Choose the adapters of a task whose body was read: those that the body names, the one that it names as its model, or
 * the model's current ones. They stay the same even if the model's scales change. A reply that continues in another
 * worker needs the adapters that it began with, so task->digest covers them. False with task->error.
 */
static bool choose_adapters(hth_task *task)
{
    hearth_request *request = &task->request->options;
    const char *name = task->request->model;
    uint8_t digest[32];
    hearth_status status;
    hearth_error err;
    size_t n = 0;

    memcpy(task->digest, task->shared->model_digest, sizeof(task->digest));
    if (request->adapters) {
        n = request->n_adapters;
    } else {
        bool is_named = name && hth_model_adapters(task->shared->model, name, task->adapters, &n);

        if (!is_named && name && task->names_adapter) { /* a name outside the body only chooses the model */
            hth_api_fail(&task->error, HTH_API_NOT_FOUND, "model",
                         "the adapter '%.128s' is not loaded any more; GET /v1/models lists the models that there are",
                         name);
            return false;
        }
        if (!is_named)
            (void)hth_model_adapters(task->shared->model, NULL, task->adapters, &n); /* none if the model is unloaded */
        request->adapters = task->adapters;
        request->n_adapters = n;
    }
    if (n == 0)
        return true;
    status = hth_model_adapters_digest(task->shared->model, request->adapters, n, digest, &err);
    if (status == HEARTH_MISUSE || status == HEARTH_NOT_FOUND)
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, "lora", "%s; GET /lora-adapters lists them", err.message);
    else if (status != HEARTH_OK)
        hth_api_fail_status(&task->error, &err);
    if (status != HEARTH_OK)
        return false;
    for (size_t i = 0; i < sizeof(task->digest); i++)
        task->digest[i] ^= digest[i];
    return true;
}

/* Does the body have the parts before the client's body that the headers claim? */
static bool has_parts(const hth_task *task)
{
    return task->n_known <= task->n_bytes && task->n_past <= task->n_bytes - task->n_known &&
           task->n_history <= task->n_bytes - task->n_known - task->n_past;
}

/* Read what another node knows of the prompt. False with task->error. */
static bool read_history(hth_task *task)
{
    if (task->n_history == 0 ||
        hth_history_part_read(task->bytes + task->n_known + task->n_past, task->n_history, &task->history))
        return true;
    hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL, "what should be known of the prompt is no such tokens");
    return false;
}

bool hth_task_read(hth_task *task)
{
    size_t n_before = task->n_known + task->n_past + task->n_history;
    hth_api_past past = { .bytes = task->bytes ? task->bytes + task->n_known : NULL, .n_bytes = task->n_past };

    task->error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (task->kind == HTH_TASK_PREFIXES)
        return true; /* it has no body */
    if (task->kind == HTH_TASK_ADAPTERS)
        read_adapter_state(task);
    else if (!has_parts(task))
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL, "the body is shorter than what should be before it");
    else if (hth_known_read(task->bytes, task->n_known, task->n_elsewhere, HTH_API_REPLIES_MAX, &task->known,
                            &task->error) &&
             read_history(task))
        task->request =
            hth_api_request_parse_with(task->api, task->bytes ? task->bytes + n_before : "", task->n_bytes - n_before,
                                       &past, &task->shared->settings->requests, task->shared->defaults, &task->error);
    task->bytes = NULL;
    free(task->bytes_copy);
    task->bytes_copy = NULL;
    if (task->request && task->request->is_load)
        task->kind = HTH_TASK_ANSWER;
    if (task->error.kind == HTH_API_NO_ERROR && task->request && task->kind != HTH_TASK_ANSWER &&
        choose_adapters(task) && task->known.has_model &&
        memcmp(task->known.model, task->digest, sizeof(task->known.model)) != 0)
        hth_api_fail(&task->error, HTH_API_INTERNAL, NULL,
                     "one of the model's file, chat template and adapters was changed meanwhile, and the reply belongs "
                     "to the old one");
    return task->error.kind == HTH_API_NO_ERROR;
}

bool hth_task_is_complicated(const hth_task *task)
{
    const hth_api_request *request = task->request;
    const hearth_request *options = &request->options;
    size_t n_replies = (request->is_chat ? 1 : request->n_prompts) * options->n;

    return task->kind == HTH_TASK_EXPLAIN || task->known.n_replies > 0 || request->n_text_biases > 0 ||
           request->conversation.n_tools > 0 || request->conversation.json_schema ||
           request->conversation.template_values || request->sampling.grammar || request->sampling.json_schema ||
           options->parent_key || n_replies > REPLIES_QUICK_MAX;
}

/* ---- salts ---- */

static void add_text(hth_sha256 *sha, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    uint8_t head[9] = { text != NULL };

    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)n >> 8 * i);
    hth_sha256_update(sha, head, sizeof(head));
    hth_sha256_update(sha, text, n);
}

/*
 * Combine the salt of the client's key with the salt of the request. They are hashed: no other pair gives the same
 * result, and a client without the key's salt cannot choose the result. False with task->error.
 */
static bool join_salts(hth_task *task)
{
    uint8_t digest[HTH_SHA256_BYTES];
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a task has a request when it runs */
    const char *own = task->request->options.cache_salt;
    hth_sha256 *sha;

    task->has_own_salt = own && *own;
    if (!task->front_salt)
        return true;
    sha = hth_sha256_new();
    task->salt = malloc(2 * sizeof(digest) + 1);
    if (!sha || !task->salt) {
        hth_sha256_free(sha);
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return false;
    }
    add_text(sha, task->front_salt);
    add_text(sha, own);
    hth_sha256_peek(sha, digest);
    hth_sha256_free(sha);
    hth_hex_encode(digest, sizeof(digest), task->salt);
    task->request->options.cache_salt = task->salt;
    return true;
}

/* Learn what another node knows of the prompt. Before the prompt is tokenized. */
static void learn(hth_task *task)
{
    hth_api_request *request = task->request;

    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a task has a request when it runs */
    if (!request->options.no_cache_read)
        request->knows_more = hth_model_learn(task->shared->model, request->options.cache_salt,
                                              hth_api_prompt_flags(request), &task->history);
    hth_known_text_deinit(&task->history);
}

static bool prepare(hth_task *task)
{
    if (!join_salts(task))
        return false;
    if (task->history.n_bytes > 0)
        learn(task);
    if (!hth_api_prepare(task->shared->model, task->request, task->seed, task->shared->prompts, &task->prepared,
                         &task->error))
        return false;
    /* Add the notes of the template and of grammars to those of the parser. */
    for (size_t i = 0; i < task->prepared.n_requests; i++)
        if (task->prepared.prompts[i])
            hth_api_notes_join(&task->request->notes, &task->prepared.prompts[i]->notes);
    return true;
}

/* ---- submitting ---- */

/* The library's request for this part: all replies to one prompt, or one resumed reply, whose sampling is *sampling. */
static hearth_request request_of(hth_task *task, uint32_t part, hearth_sampling *sampling)
{
    uint32_t n = task->request->options.n;
    bool is_known = task->known.n_replies > 0;
    hearth_request request = task->prepared.requests[is_known ? part / n : part];
    const hth_known_reply *known = hth_known_at(&task->known, part);

    request.is_resumed = task->goes_on;
    request.age_us = task->age_us;
    if (!is_known)
        return request;
    request.n = 1;
    *sampling = *request.sampling;
    sampling->seed += part % n;
    request.sampling = sampling;
    /* A reply that ended by a time limit, for example, ends at the same token again. */
    if (known->has_ended) {
        request.n_predict = (int32_t)known->n;
        if (request.min_tokens > known->n)
            request.min_tokens = known->n;
    }
    if (known->n > 0) {
        request.replayed = known->tokens;
        request.n_replayed = known->n;
        request.n_replayed_elsewhere = known->n_elsewhere;
        request.replayed_state = known->state;
        request.tell_replayed = true;
    }
    return request;
}

/* Replies of one submitted request. */
static uint32_t n_each(const hth_task *task)
{
    return task->known.n_replies > 0 ? 1 : task->request->options.n;
}

/* Another node may have the missing rows. On the scheduler's thread. */
static bool on_missing(const hearth_missing *missing, void *user_data)
{
    const hth_request_part *part = user_data;
    const hth_task *task = part->owner;

    return hth_worker_rows_fetch(task->shared->rows, task->rows_from, missing);
}

static bool submit(hth_task *task)
{
    uint32_t n_parts = task->known.n_replies > 0 ? task->n_replies : (uint32_t)task->prepared.n_requests;

    for (uint32_t i = 0; i < n_parts; i++) {
        hth_request_part *part = &task->parts[i];
        const hth_api_prompt *prompt =
            task->prepared.prompts[task->known.n_replies > 0 ? i / task->request->options.n : i];
        hearth_sampling sampling;
        hearth_request request = request_of(task, i, &sampling);
        hearth_error err;

        *part = (hth_request_part){ .events = task->events, .first = i * n_each(task), .owner = task };
        hth_request_part_connect(part, &request);
        request.on_missing = task->shared->rows && task->rows_from ? on_missing : NULL;
        if (hth_submit_held(task->shared->model, &request, prompt->text, &part->id, &part->source, &err) != HEARTH_OK) {
            hth_api_fail_status(&task->error, &err);
            return false;
        }
        task->n_parts++;
        task->n_submitted += n_each(task);
    }
    return true;
}

static const char *shown_model(const hth_task *task)
{
    const char *named = task->request->model; /* clients compare it with the requested name */

    return named && *named ? named : task->shared->shown_name;
}

/* Take the slot that will remember the first reply. A number that does not exist is ignored with a note. */
static void take_slot(hth_task *task)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    (void)hearth_model_info_get(task->shared->model, &info, NULL); /* cannot fail with a model */
    if (task->request->slot >= (json_int_t)info.n_parallel)
        hth_api_note(&task->request->notes, "id_slot");
    task->slot = hth_slot_memory_take(task->shared->slots, task->request->slot, info.n_parallel);
    task->has_slot = true;
}

static bool make_reply(hth_task *task)
{
    hth_api_reply_options options = {
        .model = shown_model(task),
        .id = task->id,
        .created_s = task->created_s,
    };

    take_slot(task);
    options.slot = task->slot;
    task->reply = hth_api_reply_new(task->shared->model, task->request, &task->prepared, &options, &task->error);
    if (!task->reply)
        return false;
    task->n_replies = (uint32_t)hth_api_reply_n(task->reply); /* at most HTH_API_REPLIES_MAX */
    if (task->known.n_replies > task->n_replies) {
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL, "more replies are known than are asked for");
        return false;
    }
    task->events = hth_request_events_new(task->shared->queue, task->n_replies, task->owner);
    task->parts = calloc(task->n_replies, sizeof(*task->parts));
    if (!task->events || !task->parts) {
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return false;
    }
    hth_request_events_remember(task->events, task->shared->slots, &task->request->options, task->slot);
    if (task->request->stream)
        hth_request_events_want(task->events, (task->request->wants_timings ? HEARTH_EVENTS_STATS : 0) |
                                                  (task->request->wants_progress ? HEARTH_EVENTS_PREFILL : 0));
    return true;
}

/* ---- answers ---- */

static void explain(hth_task *task)
{
    hearth_explanation about = { .struct_size = sizeof(about) };
    const hth_prompt_text *text;
    json_t *answer, *normalized;
    hearth_error err;

    if (!prepare(task))
        return;
    if (hearth_explain(task->shared->model, &task->prepared.requests[0], &about, &err) != HEARTH_OK) {
        hth_api_fail_status(&task->error, &err);
        return;
    }
    text = task->prepared.prompts[0]->text; /* the request has only tokens */
    about.history_tokens = text ? text->n_known : 0;
    answer = hth_api_explanation_json(&about, task->prepared.chat ? task->prepared.chat->n_plain : 0);
    normalized = json_array();
    if (task->request->normalized)
        json_array_append_new(normalized, json_string(task->request->normalized));
    json_object_set_new(answer, "detail", json_string(about.detail));
    json_object_set_new(answer, "ignored", json_string(task->request->notes.text));
    json_object_set_new(answer, "normalized", normalized);
    hth_buffer_add_json_take(&task->answer, answer);
}

static void tell_history(hth_task *task)
{
    hth_known_text known;

    if (!join_salts(task) || !hth_api_known_prompt(task->shared->model, task->request, &known, &task->error))
        return;
    hth_history_part_add(&task->answer, &known);
    hth_known_text_deinit(&known);
}

static json_t *node_json(const hth_prefix_node *node)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:[]}", "key", hth_json_hex(node->key.bytes, HTH_KEY_BYTES),
                     "tokens", (json_int_t)node->n_tokens, "end", (json_int_t)node->end, "rows", (json_int_t)node->rows,
                     "bytes", (json_int_t)node->bytes, "uses", (json_int_t)node->uses, "children");
}

/* The roots with their subtrees. NULL without memory. */
static json_t *tree_json(const hth_prefix_tree *tree)
{
    json_t *roots = json_array(), *nodes[NODES_MAX];

    for (size_t i = 0; i < tree->n; i++) {
        const size_t parent = tree->nodes[i].parent;

        nodes[i] = node_json(&tree->nodes[i]); /* valid after the array takes it over */
        if (json_array_append_new(parent == HTH_PREFIX_TREE_ROOT ? roots : json_object_get(nodes[parent], "children"),
                                  nodes[i]) != 0) {
            json_decref(roots);
            return NULL;
        }
    }
    return roots;
}

/* The page of the most used prefixes: keys and numbers, and no token. Who may see prompts is decided elsewhere. */
static void list_prefixes(hth_task *task)
{
    hth_prefix_tree tree;
    size_t n_rows = 0;
    hearth_error err;

    if (hth_used_prefixes(task->shared->model, NODES_MAX, &tree, &n_rows, &err) != HEARTH_OK) {
        hth_api_fail_status(&task->error, &err);
        return;
    }
    hth_buffer_add_json_take(&task->answer, json_pack("{s:s, s:I, s:o}", "model", task->shared->model_name, "rows",
                                                      (json_int_t)n_rows, "prefixes", tree_json(&tree)));
    hth_prefix_tree_deinit(&tree);
}

/* ---- embeddings ---- */

void hth_task_begin_vectors(hth_task *task)
{
    if (task->embeddings && task->embeddings->status != HEARTH_OK)
        hth_api_fail_status(&task->error, &task->embeddings->error);
    else if (!(task->vectors = hth_api_embed_answer_new(task->request, task->embeddings, shown_model(task))))
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the answer");
}

/* False: it was submitted. */
static bool embed(hth_task *task)
{
    const hth_embed_terms terms = {
        .is_gone = task->is_gone,
        .n_values_max = HTH_API_EMBED_VALUES_MAX,
        .counts_answer = true,
        .on_worked = task->on_worked,
    };
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_embed_request request;
    hth_api_inputs inputs;
    hearth_error err;
    hearth_status status;

    (void)hearth_model_info_get(task->shared->model, &info, NULL); /* cannot fail: the model is loaded */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as above */
    if (task->request->embed->options.n_inputs == 0) {
        hth_task_begin_vectors(task);
        return true;
    }
    if (!join_salts(task) || !hth_api_embed_options(&info, task->request, &request, &task->error) ||
        !hth_api_prepare_inputs(task->shared->model, task->request, &inputs, &task->error))
        return true;
    request.inputs = inputs.list;
    request.adapters = task->request->options.adapters;
    request.n_adapters = task->request->options.n_adapters;
    request.cache_salt = task->request->options.cache_salt;
    request.no_cache_read = task->request->options.no_cache_read;
    request.on_done = task->on_embedded;
    request.user_data = task->owner;
    status = hth_embed_submit(task->shared->model, &request, &terms, NULL, &err);
    hth_api_inputs_deinit(&inputs); /* the task may already be gone */
    if (status == HEARTH_OK)
        return false;
    hth_api_fail_status(&task->error, &err);
    return true;
}

bool hth_task_run(hth_task *task)
{
    if (task->request)
        task->request->is_gone = task->is_gone;
    switch (task->kind) {
    case HTH_TASK_EMBED: return embed(task);
    case HTH_TASK_GENERATE: (void)(prepare(task) && make_reply(task) && submit(task)); break; /* it has the error */
    case HTH_TASK_ANSWER:
        (void)hth_api_answer(task->shared->model, task->request, &task->answer,
                             &task->error); /* task keeps the error */
        break;
    case HTH_TASK_EXPLAIN: explain(task); break;
    case HTH_TASK_HISTORY: tell_history(task); break;
    case HTH_TASK_PREFIXES: list_prefixes(task); break;
    case HTH_TASK_SLOT:
        if (join_salts(task))
            hth_slot_order_run(task);
        break;
    case HTH_TASK_ADAPTERS: hth_task_set_adapters(task); break;
    }
    if (task->answer.failed)
        hth_api_fail(&task->error, HTH_API_OVERLOADED, NULL, "no memory for the answer");
    return true;
}

/* ---- cancel, linger and pause ---- */

void hth_task_cancel(const hth_task *task)
{
    for (uint32_t i = 0; i < task->n_parts; i++)
        for (uint32_t k = 0; k < n_each(task); k++)
            (void)hearth_cancel(task->shared->model, task->parts[i].id + k, NULL); /* not found: it has ended */
}

/* Is a prompt long, or partly restored, so that its rows will help if the client asks again? */
static bool is_worth_reading(const hth_task *task)
{
    for (uint32_t i = 0; i < task->n_replies; i++)
        if (hth_request_events_n_restored(task->events, i) > 0)
            return true;
    for (size_t i = 0; i < task->prepared.n_requests; i++)
        if (task->prepared.requests[i].n_tokens >= WORTH_TOKENS_MIN)
            return true;
    return false;
}

void hth_task_linger(const hth_task *task, uint32_t ms)
{
    if (ms == 0 || !is_worth_reading(task)) {
        hth_task_cancel(task);
        return;
    }
    for (uint32_t i = 0; i < task->n_parts; i++)
        for (uint32_t k = 0; k < n_each(task); k++)
            (void)hearth_linger(task->shared->model, task->parts[i].id + k, ms, NULL); /* not found: it has ended */
}

void hth_task_pause(const hth_task *task, bool pause)
{
    for (uint32_t i = 0; i < task->n_parts; i++)
        for (uint32_t k = 0; k < n_each(task); k++)
            (void)hearth_pause(task->shared->model, task->parts[i].id + k, pause, NULL); /* not found: it has ended */
}
