/*
 * responses_past.c - items of earlier responses that a request continues or names
 *
 * The front gives the records of the responses that a body names with the request. The response that the request
 * continues is read as its input followed by its output. An item that is only named is looked for in all records.
 *
 * A name is short and may occur often, and an item is long. So all of them together, each as often as it is named, may
 * have only as many bytes as the body that would have contained them.
 */
#include "dialects/responses_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/response_record.h"
#include "base/json_bounds.h"

/* Parse a value of a record; it was valid when it was written. */
static json_t *load(const hth_api_parse *parse, const char *text, size_t n)
{
    const hth_api_limits *limits = parse->limits;

    return hth_json_is_within(text, n, limits->depth_max + 16, limits->values_max)
             ? json_loadb(text, n, JSON_ALLOW_NUL, NULL)
             : NULL;
}

/* Read the record at *at, and move *at behind it; false behind the last record. */
static bool next_record(const hth_api_parse *parse, size_t *at, hth_response_record *out)
{
    const hth_api_past *past = parse->past;

    if (!past || !hth_response_record_read(past->bytes + *at, past->n_bytes - *at, out))
        return false;
    *at += out->n_bytes;
    return true;
}

/* Count n more bytes of the request; false, with the error, when there are too many. */
static bool add_bytes(hth_api_parse *parse, const char *param, size_t n)
{
    const size_t n_max = parse->limits->body_bytes_max;

    if (parse->n_bytes > n_max || n > n_max - parse->n_bytes) {
        hth_api_fail(parse->error, HTH_API_TOO_LARGE, param,
                     "the request has more than %zu bytes, counting each item as often as it is named; name fewer "
                     "items (the limit is limits.body_bytes_max, as for a body)",
                     n_max);
        return false;
    }
    parse->n_bytes += n;
    return true;
}

/* The length of value as text; 0 for NULL. */
static size_t bytes_of(const json_t *value)
{
    return value ? json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) : 0;
}

static hth_response_item *items_of(hth_api_parse *parse, const hth_response_record *record)
{
    hth_response_item *items = hth_api_allocate(parse, record->n_items, sizeof(*items));

    if (items)
        hth_response_record_items(record, items);
    return items;
}

static json_t *output_of(const hth_api_parse *parse, const hth_response_record *record)
{
    json_t *response = load(parse, record->response, record->n_response);
    json_t *output = json_incref(json_object_get(response, "output"));

    json_decref(response);
    return output;
}

/* All items until the end of that response. */
static json_t *all_of(hth_api_parse *parse, const hth_response_record *record)
{
    hth_response_item *items = items_of(parse, record);
    json_t *all = json_array(), *output;

    for (size_t i = 0; items && i < record->n_items && add_bytes(parse, "previous_response_id", items[i].n_text); i++)
        if (json_array_append_new(all, load(parse, items[i].text, items[i].n_text)))
            hth_api_fail(parse->error, HTH_API_INTERNAL, "previous_response_id",
                         "the response that 'previous_response_id' names cannot be read any more; send its items");
    output = output_of(parse, record);
    (void)add_bytes(parse, "previous_response_id", bytes_of(output)); /* the error is filled */
    if (!json_is_array(output) || json_array_extend(all, output))
        hth_api_fail(parse->error, HTH_API_INTERNAL, "previous_response_id",
                     "the response that 'previous_response_id' names cannot be read any more; send its items");
    json_decref(output);
    return all;
}

static bool is_text(const char *text, size_t n, const char *wanted)
{
    return strlen(wanted) == n && memcmp(text, wanted, n) == 0;
}

json_t *hth_api_past_items(hth_api_parse *parse, const char *id)
{
    hth_response_record record;
    size_t at = 0;

    while (next_record(parse, &at, &record))
        if (is_text(record.id, record.n_id, id))
            return all_of(parse, &record);
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, "previous_response_id",
                 "'previous_response_id' is '%.80s', which is not kept here (any more) for this key; send the "
                 "conversation's items as 'input'",
                 id);
    return NULL;
}

/* ---- items that are only named ---- */

/* By id; equal ids in the order of the records. */
static int compare(const void *a, const void *b)
{
    const hth_api_past_item *one = a, *other = b;
    size_t n;
    int order;

    assert(one);
    assert(other);
    n = one->n_id < other->n_id ? one->n_id : other->n_id;
    order = memcmp(one->id, other->id, n);
    if (order == 0 && one->n_id != other->n_id)
        return one->n_id < other->n_id ? -1 : 1;
    return order ? order : one->at < other->at ? -1 : one->at > other->at;
}

static void add(hth_api_past_index *index, hth_api_past_item item)
{
    item.at = index->n;
    index->items[index->n++] = item;
}

static void add_record(hth_api_parse *parse, hth_api_past_index *index, const hth_response_record *record,
                       json_t *output)
{
    hth_response_item *items = items_of(parse, record);
    json_t *item;
    size_t i;

    for (size_t k = 0; items && k < record->n_items; k++)
        add(index, (hth_api_past_item){
                       .id = items[k].id, .n_id = items[k].n_id, .text = items[k].text, .n_text = items[k].n_text });
    json_array_foreach(output, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));

        if (id)
            add(index, (hth_api_past_item){ .id = id, .n_id = strlen(id), .n_text = bytes_of(item), .value = item });
    }
}

/* Each record is read once, however many of its items are named. */
static void read_records(hth_api_parse *parse, hth_api_past_index *index)
{
    hth_response_record record;
    size_t n = 0, i = 0;

    index->is_read = true;
    index->values = json_array();
    for (size_t at = 0; next_record(parse, &at, &record);) {
        json_t *output = output_of(parse, &record);

        n += record.n_items + json_array_size(output);
        if (json_array_append_new(index->values, output ? output : json_null()))
            return; /* without memory no item is found */
    }
    index->items = n > 0 ? hth_api_allocate(parse, n, sizeof(*index->items)) : NULL;
    for (size_t at = 0; index->items && next_record(parse, &at, &record);)
        add_record(parse, index, &record, json_array_get(index->values, i++));
    if (index->items && index->n > 1)
        qsort(index->items, index->n, sizeof(*index->items), compare);
}

json_t *hth_api_past_find(hth_api_parse *parse, hth_api_past_index *index, const char *id)
{
    size_t low = 0, high, n_id = strlen(id);

    if (!index->is_read)
        read_records(parse, index);
    for (high = index->n; low < high;) { /* find the first item that is not before id */
        size_t middle = low + (high - low) / 2;

        if (compare(&index->items[middle], &(hth_api_past_item){ .id = id, .n_id = n_id }) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < index->n && is_text(index->items[low].id, index->items[low].n_id, id); low++) {
        hth_api_past_item *item = &index->items[low];

        if (!item->value && !item->is_bad) {
            item->value = load(parse, item->text, item->n_text);
            item->is_bad = json_array_append_new(index->values, item->value) != 0;
            if (item->is_bad)
                item->value = NULL; /* released by the failure, or not parsed */
        }
        if (item->value)
            return add_bytes(parse, "input", item->n_text) ? json_incref(item->value) : NULL;
    }
    return NULL;
}

void hth_api_past_index_deinit(hth_api_past_index *index)
{
    json_decref(index->values);
    *index = (hth_api_past_index){ .n = 0 };
}
