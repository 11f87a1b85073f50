/*
 * A response is returned as it is stored. A list of items is made of the items' texts. Nothing is parsed.
 */
#include "front/stored_responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "dialects/response_record.h"
#include "http/routes.h"
#include "wire/frames.h"

enum { LIMIT_USUAL = 20, LIMIT_MAX = 100 };

/* ---- in the background ---- */

/* Store the response with this final status, without its own end. put: where. */
static void put_ended(hth_running_response *one, const char *status, const char *why,
                      void (*put)(hth_response_store *, const uint8_t[HTH_RESPONSE_KEY_BYTES], const void *, size_t))
{
    hth_response_record record;
    hth_buffer out = { .text = NULL };

    if (hth_response_record_read(hth_buffer_text(&one->record), one->record.n, &record) &&
        hth_response_record_add_ended(&out, &record, status, why))
        put(one->store, one->key, out.text, out.n);
    hth_buffer_deinit(&out);
}

void hth_running_begin(hth_running_response *one, hth_running_response **list, hth_response_store *store,
                       const uint8_t key[HTH_RESPONSE_KEY_BYTES], const void *record, size_t n, bool goes_on)
{
    if (one->list)
        return; /* another worker sends it again */
    hth_buffer_add(&one->record, record, n);
    if (one->record.failed) {
        hth_buffer_deinit(&one->record);
        return;
    }
    one->list = list;
    one->store = store;
    memcpy(one->key, key, HTH_RESPONSE_KEY_BYTES);
    DL_APPEND(*list, one);
    if (!goes_on)
        put_ended(one, "failed", "the server ended before the response did", hth_response_store_put_here);
}

void hth_running_end(hth_running_response *one)
{
    if (one->list)
        DL_DELETE(*one->list, one);
    one->list = NULL;
    hth_buffer_deinit(&one->record);
}

void hth_running_fail(hth_running_response *one, const char *why)
{
    if (one->list)
        put_ended(one, "failed", why, hth_response_store_put);
    hth_running_end(one);
}

/* The client cancels the response; its request will end. */
static void running_cancel(hth_running_response *one)
{
    hth_relay *relay = one->relay;

    put_ended(one, "cancelled", NULL, hth_response_store_put);
    hth_running_end(one);
    if (relay)
        hth_proxy_cancel(relay);
}

static hth_running_response *running_find(hth_running_response *list, const uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    hth_running_response *one;

    DL_FOREACH(list, one)
    {
        if (memcmp(one->key, key, HTH_RESPONSE_KEY_BYTES) == 0)
            return one;
    }
    return NULL;
}

bool hth_running_is_here(hth_running_response *list, const uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    return running_find(list, key) != NULL;
}

/* ---- answers ---- */

static void answer(const hth_stored_question *question, const hth_buffer *body)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!body->failed) {
        question->on_answer(200, body, NULL, question->user_data);
        return;
    }
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "no memory for the response");
    question->on_answer(0, NULL, &error, question->user_data);
}

static void refuse(const hth_stored_question *question, hth_api_error_kind kind, int status, const char *param,
                   const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, param, "%s", message);
    error.status = status;
    question->on_answer(0, NULL, &error, question->user_data);
}

static void refuse_unknown(const hth_stored_question *question)
{
    char message[256];

    (void)snprintf(message, sizeof(message), "there is no response '%.100s' here for this key (any more)",
                   question->id); /* fits */
    refuse(question, HTH_API_NOT_FOUND, 0, NULL, message);
}

/* ---- items ---- */

static void add_id(hth_buffer *out, const char *name, const hth_response_item *item)
{
    hth_buffer_add_text(out, name);
    if (item)
        hth_buffer_add_json_take(out, json_stringn(item->id, item->n_id));
    else
        hth_buffer_add_text(out, "null");
}

/* Item i in the requested order. */
static const hth_response_item *item_at(const hth_stored_question *question, const hth_response_item *items, size_t n,
                                        size_t i)
{
    return &items[question->is_ascending ? i : n - 1 - i];
}

/* Find the beginning of the list, after the named item. False: there is no such item. */
static bool find_begin(const hth_stored_question *question, const hth_response_item *items, size_t n, size_t *out)
{
    *out = 0;
    if (!question->after[0])
        return true;
    for (size_t i = 0; i < n; i++) {
        const hth_response_item *item = item_at(question, items, n, i);

        if (item->n_id == strlen(question->after) && memcmp(item->id, question->after, item->n_id) == 0) {
            *out = i + 1;
            return true;
        }
    }
    return false;
}

static void list_items(const hth_stored_question *question, const hth_response_record *record)
{
    size_t n = record->n_items, begin, end;
    hth_response_item *items = calloc(n + 1, sizeof(*items));
    hth_buffer body = { .text = NULL };

    if (items)
        hth_response_record_items(record, items);
    if (!items) {
        body.failed = true;
    } else if (!find_begin(question, items, n, &begin)) {
        free(items);
        refuse(question, HTH_API_INVALID_VALUE, 0, "after", "'after' names no item of this response");
        return;
    } else {
        end = n - begin < question->limit ? n : begin + question->limit;
        hth_buffer_add_text(&body, "{\"object\":\"list\",\"data\":[");
        for (size_t i = begin; i < end; i++) {
            const hth_response_item *item = item_at(question, items, n, i);

            hth_buffer_add_text(&body, i > begin ? "," : "");
            hth_buffer_add(&body, item->text, item->n_text);
        }
        add_id(&body, "],\"first_id\":", end > begin ? item_at(question, items, n, begin) : NULL);
        add_id(&body, ",\"last_id\":", end > begin ? item_at(question, items, n, end - 1) : NULL);
        hth_buffer_add_text(&body, end < n ? ",\"has_more\":true}" : ",\"has_more\":false}");
    }
    free(items);
    answer(question, &body);
    hth_buffer_deinit(&body);
}

/* ---- questions ---- */

/* The page of a response that is only read. */
static void give(const hth_stored_question *question, const hth_response_record *record)
{
    hth_buffer body = { .text = NULL };

    if (question->what == HTH_STORED_ITEMS) {
        list_items(question, record);
        return;
    }
    hth_buffer_add(&body, record->response, record->n_response);
    answer(question, &body);
    hth_buffer_deinit(&body);
}

static void remove_response(const hth_stored_question *question)
{
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    hth_buffer body = { .text = NULL };

    hth_response_key(question->owner, question->id, strlen(question->id), key);
    hth_response_store_remove(question->store, key);
    hth_buffer_add_json_take(&body,
                             json_pack("{s:s, s:s, s:b}", "id", question->id, "object", "response", "deleted", 1));
    answer(question, &body);
    hth_buffer_deinit(&body);
}

static void on_found(const void *bytes, size_t n, void *user_data)
{
    hth_stored_question *question = user_data;
    hth_response_record record;

    if (!bytes || !hth_response_record_read(bytes, n, &record))
        refuse_unknown(question);
    else if (question->what == HTH_STORED_CANCEL && !question->was_running)
        refuse(
            question, HTH_API_INVALID_VALUE, 0, NULL,
            "this response has ended; only one that was asked for with 'background' and still runs can be cancelled");
    else if (question->is_removal)
        remove_response(question);
    else
        give(question, &record);
}

/* Parse the part of the path after the prefix. False: it names nothing. */
static bool read_path(hth_stored_question *question, const char *path)
{
    const char *slash = strchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : strlen(path);

    if (n == 0 || n >= sizeof(question->id))
        return false;
    memcpy(question->id, path, n);
    question->id[n] = '\0';
    question->what = !slash                             ? HTH_STORED_RESPONSE
                   : strcmp(slash, "/input_items") == 0 ? HTH_STORED_ITEMS
                                                        : HTH_STORED_CANCEL;
    return question->what != HTH_STORED_CANCEL || strcmp(slash, "/cancel") == 0;
}

/* Parse the query of a list. False: an error was answered. */
static bool read_query(hth_stored_question *question, const hth_http_exchange *exchange)
{
    const char *limit = hth_http_query(exchange, "limit");
    unsigned long number = limit ? strtoul(limit, NULL, 10) : LIMIT_USUAL;
    const char *text;

    if (number < 1 || number > LIMIT_MAX) {
        refuse(question, HTH_API_INVALID_VALUE, 0, "limit", "'limit' must be 1 to 100");
        return false;
    }
    question->limit = number;
    text = hth_http_query(exchange, "order");
    question->is_ascending = text && strcmp(text, "asc") == 0;
    if (text && !question->is_ascending && strcmp(text, "desc") != 0) {
        refuse(question, HTH_API_INVALID_VALUE, 0, "order", "'order' must be asc or desc");
        return false;
    }
    text = hth_http_query(exchange, "after");
    if (text && strlen(text) >= sizeof(question->after)) {
        refuse(question, HTH_API_INVALID_VALUE, 0, "after", "'after' names no item of this response");
        return false;
    }
    (void)snprintf(question->after, sizeof(question->after), "%s", text ? text : ""); /* fits */
    return true;
}

void hth_stored_ask(hth_stored_question *question, const hth_http_exchange *exchange, const char *prefix)
{
    const char *method = hth_http_method(exchange), *path = hth_http_path(exchange) + strlen(prefix), *stream;
    hth_running_response *one;
    hth_response_record record;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    if (strcmp(path, "compact") == 0) {
        refuse(question, HTH_API_UNSUPPORTED, 0, NULL,
               "compaction is not supported here: its result would be text that only OpenAI's models read. Prompts are "
               "cached, so a conversation may be as long as the context; to shorten one, have the model sum it up");
        return;
    }
    if (!read_path(question, path)) {
        refuse(question, HTH_API_NOT_FOUND, 0, NULL,
               "there is nothing of this name below '/v1/responses'; docs/api.md lists what there is");
        return;
    }
    question->is_removal = question->what == HTH_STORED_RESPONSE && strcmp(method, "DELETE") == 0;
    if (question->what == HTH_STORED_CANCEL ? strcmp(method, "POST") != 0
                                            : !question->is_removal && !hth_method_is("GET", method)) {
        question->allow = question->what == HTH_STORED_CANCEL ? "POST"
                        : question->what == HTH_STORED_ITEMS  ? "GET, HEAD"
                                                              : "GET, HEAD, DELETE";
        refuse(question, HTH_API_INVALID_VALUE, 405, NULL, "this endpoint does not take this method");
        return;
    }
    stream = hth_http_query(exchange, "stream");
    if (stream && strcmp(stream, "true") == 0) {
        refuse(question, HTH_API_UNSUPPORTED, 0, "stream",
               "'stream' is not supported here: a stored response is returned as a whole");
        return;
    }
    if (question->what == HTH_STORED_ITEMS && !read_query(question, exchange))
        return;
    question->lookup = (hth_response_lookup){ .on_found = on_found, .user_data = question };
    hth_response_key(question->owner, question->id, strlen(question->id), key);
    one = running_find(*question->running, key);
    question->was_running = one != NULL;
    if ((one || question->begun) &&
        (question->what == HTH_STORED_ITEMS || (question->what == HTH_STORED_RESPONSE && !question->is_removal))) {
        if (one ? hth_response_record_read(hth_buffer_text(&one->record), one->record.n, &record)
                : hth_response_record_read(question->begun, question->n_begun, &record))
            give(question, &record);
        else
            refuse_unknown(question);
        return;
    }
    if (one)
        running_cancel(one); /* after this, the store has it */
    hth_response_store_find(question->store, key, &question->lookup);
}

/* ---- the search for earlier responses ---- */

/* Look up the next records. A lookup that is answered at once is handled in the loop. */
static void look_on(hth_past_search *search)
{
    search->is_looking = true;
    while (search->n_found < search->past.n) {
        size_t n_before = search->n_found;
        const char *id = search->past.ids[n_before];
        uint8_t key[HTH_RESPONSE_KEY_BYTES];

        hth_response_key(search->owner, id, strlen(id), key);
        hth_response_store_find(search->store, key, &search->lookup);
        if (search->n_found == n_before) {
            search->is_looking = false;
            return;
        }
    }
    search->is_looking = false;
    search->on_done(search->user_data);
}

static void on_past_found(const void *bytes, size_t n, void *user_data)
{
    hth_past_search *search = user_data;

    if (bytes && n <= HTH_PAST_BYTES_MAX - search->records.n) /* the worker reports a record that is missing here */
        hth_buffer_add(&search->records, bytes, n);
    search->n_found++;
    if (!search->is_looking)
        look_on(search);
}

void hth_past_search_begin(hth_past_search *search)
{
    search->lookup = (hth_response_lookup){ .on_found = on_past_found, .user_data = search };
    look_on(search);
}

void hth_past_search_deinit(hth_past_search *search)
{
    hth_response_lookup_cancel(&search->lookup);
    hth_buffer_deinit(&search->records);
}
