#include "dialects/response_record.h"

#include <string.h>

#include "base/bytes.h"

enum { HEAD_BYTES = 20, LENGTHS_BYTES = 8 };

static const char magic[4] = { 'H', 'R', 'R', '1' };

static void put_u32(char *at, size_t value)
{
    hth_put_u32((uint8_t *)at, (uint32_t)value); /* a record is never longer */
}

static size_t get_u32(const char *at)
{
    return hth_get_u32((const uint8_t *)at);
}

/* Append value as JSON. Returns the number of bytes. */
static size_t add_json(hth_buffer *out, const json_t *value)
{
    size_t n_before = out->n;

    hth_buffer_add_json_take(out, json_incref((json_t *)value)); /* only the reference count changes */
    return out->n - n_before;
}

static size_t add_text(hth_buffer *out, const char *text)
{
    hth_buffer_add_text(out, text);
    return strlen(text);
}

void hth_response_record_add(hth_buffer *out, const char *id, const json_t *response, const json_t *items)
{
    size_t n_before = out->n, n_items = json_array_size(items), n_id, n_response;
    char zeros[LENGTHS_BYTES] = { 0 };

    hth_buffer_add(out, magic, sizeof(magic));
    for (size_t i = 0; i < 2 + n_items; i++) /* the head is as long as two entries */
        hth_buffer_add(out, zeros, LENGTHS_BYTES);
    n_id = add_text(out, id);
    n_response = add_json(out, response);
    for (size_t i = 0; i < n_items && !out->failed; i++) {
        const json_t *item = json_array_get(items, i);
        const char *item_id = json_string_value(json_object_get(item, "id"));
        size_t n_item_id = add_text(out, item_id ? item_id : ""), n_text = add_json(out, item);
        char *at = out->text + n_before + HEAD_BYTES + i * LENGTHS_BYTES;

        if (out->failed)
            break;
        put_u32(at, n_item_id);
        put_u32(at + 4, n_text);
    }
    if (out->failed)
        return;
    if (out->n - n_before > HTH_RESPONSE_RECORD_BYTES_MAX) {
        out->n = n_before;
        out->text[out->n] = '\0';
        return;
    }
    put_u32(out->text + n_before + 4, out->n - n_before);
    put_u32(out->text + n_before + 8, n_items);
    put_u32(out->text + n_before + 12, n_id);
    put_u32(out->text + n_before + 16, n_response);
}

/*
 * The position of a member among the first members of a response, before those from the client; NULL: the response has
 * another form.
 */
static const char *member(const hth_response_record *record, const char *text)
{
    enum { BEGINNING_BYTES = 512 };

    return memmem(record->response, record->n_response < BEGINNING_BYTES ? record->n_response : BEGINNING_BYTES, text,
                  strlen(text));
}

bool hth_response_record_add_ended(hth_buffer *out, const hth_response_record *record, const char *status,
                                   const char *why)
{
    static const char in_progress[] = "\"status\":\"in_progress\"", no_error[] = "\"error\":null";
    const char *at_status = member(record, in_progress), *at_error = member(record, no_error);
    const char *head = record->lengths - HEAD_BYTES, *end = record->response + record->n_response;
    size_t n_before = out->n, n_grown;

    if (!at_status || !at_error || at_error < at_status)
        return false;
    hth_buffer_add(out, head, (size_t)(at_status - head));
    hth_buffer_add_text(out, "\"status\":");
    hth_buffer_add_json_take(out, json_string(status));
    at_status += sizeof(in_progress) - 1;
    hth_buffer_add(out, at_status, (size_t)(at_error - at_status));
    hth_buffer_add_text(out, "\"error\":");
    hth_buffer_add_json_take(out, why ? json_pack("{s:s, s:s}", "code", "server_error", "message", why) : json_null());
    hth_buffer_add(out, at_error + sizeof(no_error) - 1, (size_t)(end - at_error) - sizeof(no_error) + 1);
    hth_buffer_add(out, end, record->n_bytes - (size_t)(end - head));
    if (out->failed)
        return false;
    n_grown = out->n - n_before - record->n_bytes; /* wraps around if the record shrinks, and back below */
    put_u32(out->text + n_before + 4, out->n - n_before);
    put_u32(out->text + n_before + 16, record->n_response + n_grown);
    return true;
}

bool hth_response_record_read(const void *bytes, size_t n, hth_response_record *out)
{
    const char *at = bytes;
    hth_response_record record;
    size_t n_used;

    if (n < HEAD_BYTES || memcmp(at, magic, sizeof(magic)) != 0)
        return false;
    record.n_bytes = get_u32(at + 4);
    record.n_items = get_u32(at + 8);
    record.n_id = get_u32(at + 12);
    record.n_response = get_u32(at + 16);
    if (record.n_bytes > n || record.n_bytes > HTH_RESPONSE_RECORD_BYTES_MAX || record.n_bytes < HEAD_BYTES ||
        record.n_items > (record.n_bytes - HEAD_BYTES) / LENGTHS_BYTES)
        return false;
    record.lengths = at + HEAD_BYTES;
    record.id = record.lengths + record.n_items * LENGTHS_BYTES;
    n_used = HEAD_BYTES + record.n_items * LENGTHS_BYTES;
    if (record.n_id > record.n_bytes - n_used || record.n_response > record.n_bytes - n_used - record.n_id)
        return false;
    record.response = record.id + record.n_id;
    record.items = record.response + record.n_response;
    n_used += record.n_id + record.n_response;
    for (size_t i = 0; i < 2 * record.n_items; i++) { /* for each item its id, then its text */
        size_t n_piece = get_u32(record.lengths + i * 4);

        if (n_piece > record.n_bytes - n_used)
            return false;
        n_used += n_piece;
    }
    if (n_used != record.n_bytes)
        return false;
    *out = record;
    return true;
}

void hth_response_record_items(const hth_response_record *record, hth_response_item *out)
{
    const char *at = record->items;

    for (size_t i = 0; i < record->n_items; i++) {
        out[i].n_id = get_u32(record->lengths + i * LENGTHS_BYTES);
        out[i].n_text = get_u32(record->lengths + i * LENGTHS_BYTES + 4);
        out[i].id = at;
        out[i].text = at + out[i].n_id;
        at += out[i].n_id + out[i].n_text;
    }
}
