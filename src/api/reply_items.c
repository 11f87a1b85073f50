/*
 * reply_items.c - the pieces of a reply, in the order in which they came
 *
 * Content and reasoning are stored as two texts, and calls as a list; an item is a piece of one of them. An item ends
 * where a delta of another kind comes. A token belongs to the item of the text that follows it.
 */
#include "api/writer.h"
#include "base/grow.h"

static hth_api_item *add(hth_api_choice *choice, hearth_chat_delta_kind kind, size_t begin)
{
    hth_api_item *items = hth_grown(choice->items, choice->n_items, &choice->items_capacity, sizeof(*items));

    if (!items)
        return NULL;
    choice->items = items;
    items += choice->n_items++;
    *items = (hth_api_item){ .kind = kind, .begin = begin, .end = begin, .told_begin = choice->n_told_taken };
    return items;
}

bool hth_api_items_note(hth_api_choice *choice, const hearth_chat_delta *delta)
{
    hth_api_item *item = choice->n_items > 0 ? &choice->items[choice->n_items - 1] : NULL;
    bool is_text = delta->kind == HEARTH_DELTA_CONTENT || delta->kind == HEARTH_DELTA_REASONING;

    if (delta->kind == HEARTH_DELTA_CALL) {
        item = add(choice, delta->kind, 0);
        if (item)
            item->call = choice->n_calls; /* the call that comes next */
    } else if (is_text && (!item || item->kind != delta->kind)) {
        item = add(choice, delta->kind, delta->kind == HEARTH_DELTA_CONTENT ? choice->content.n : choice->reasoning.n);
    }
    if (!item)
        return false;
    if (is_text)
        item->end += delta->n_bytes;
    choice->n_told_taken = choice->told.n;
    item->told_end = choice->told.n;
    return true;
}
