/*
 * responses_past.c - what of earlier responses a request goes on from
 *
 * The front gives the records of the responses that a body names with the request. The response that it goes on from is
 * read as its input followed by its output; an item that is only named is looked for in all of them.
 */
#include "api/responses_inside.h"

#include <string.h>

#include "api/response_record.h"
#include "base/json_bounds.h"

/* A value of a record, which was valid when it was written. */
static json_t *load(const hth_api_parse *parse, const char *text, size_t n)
{
    const hth_api_limits *limits = parse->limits;

    return hth_json_is_within(text, n, limits->depth_max + 16, limits->values_max)
             ? json_loadb(text, n, JSON_ALLOW_NUL, NULL)
             : NULL;
}

/* The record at *at among the request's; false behind the last one. */
static bool next_record(const hth_api_parse *parse, size_t *at, hth_response_record *out)
{
    const hth_api_past *past = parse->past;

    if (!past || !hth_response_record_read(past->bytes + *at, past->n_bytes - *at, out))
        return false;
    *at += out->n_bytes;
    return true;
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

/* What was said until the end of that response. */
static json_t *all_of(hth_api_parse *parse, const hth_response_record *record)
{
    hth_response_item *items = items_of(parse, record);
    json_t *all = json_array(), *output;

    for (size_t i = 0; items && i < record->n_items; i++)
        if (json_array_append_new(all, load(parse, items[i].text, items[i].n_text)))
            hth_api_fail(parse->error, HTH_API_INTERNAL, "previous_response_id",
                         "the response that 'previous_response_id' names cannot be read any more; send its items");
    output = output_of(parse, record);
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

json_t *hth_api_past_item(hth_api_parse *parse, const char *id)
{
    hth_response_record record;
    json_t *found = NULL;

    for (size_t at = 0; !found && next_record(parse, &at, &record);) {
        hth_response_item *items = items_of(parse, &record);
        json_t *output = output_of(parse, &record), *item;
        size_t i;

        for (size_t k = 0; items && !found && k < record.n_items; k++)
            if (is_text(items[k].id, items[k].n_id, id))
                found = load(parse, items[k].text, items[k].n_text);
        json_array_foreach(output, i, item)
        {
            const char *item_id = json_string_value(json_object_get(item, "id"));

            if (!found && item_id && strcmp(item_id, id) == 0)
                found = json_incref(item);
        }
        json_decref(output);
    }
    return found;
}
