/*
 * anthropic_edits.c - "context_management": parts of a long history that the model does not see again
 *
 * Two edits are applied before the history is rendered, so that the client keeps all of it:
 *
 *   clear_tool_uses_20250919  beyond a number of tokens or of tool uses, a short text replaces the results of all but
 *                             the newest uses; their inputs become empty when the client asks for that
 *   clear_thinking_20251015   the reasoning of all but the newest turns of the assistant is left out
 *
 * A token counts as four bytes. So the same edits apply for every model, and are known before the model is loaded. The
 * reply reports the edits that were applied. Other edits are ignored with a note.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/anthropic_inside.h"

enum {
    EDITS_MAX = 16,
    NAMES_MAX = 1024,
    BYTES_A_TOKEN = 4,
    TRIGGER_TOKENS = 100000, /* Anthropic's default */
    KEEP_USES = 3,
    KEEP_THINKING_TURNS = 1,
};

static const char cleared_result[] = "[result cleared to save room]";

/* A call and its place in the history. */
typedef struct place {
    const char *id;
    size_t turn, call;
} place;

typedef struct history {
    hth_api_parse *parse;
    hearth_chat_turn *turns;
    size_t n_turns;
    place *calls; /* [n_calls], all calls with an id, sorted by compare_places; NULL: not sorted yet */
    size_t n_calls;
} history;

/* ---- sizes ---- */

static size_t content_bytes(const hearth_chat_turn *turn)
{
    size_t n = turn->content ? strlen(turn->content) : 0;

    for (size_t i = 0; !turn->content && i < turn->n_parts; i++)
        n += strlen(turn->parts[i]);
    return n;
}

/* The tokens of the prompt, without those that the template adds. */
static size_t prompt_tokens(const history *h)
{
    const hearth_conversation *conversation = &h->parse->request->conversation;
    size_t n = 0;

    for (size_t i = 0; i < h->n_turns; i++) {
        const hearth_chat_turn *turn = &h->turns[i];

        n += content_bytes(turn) + (turn->reasoning ? strlen(turn->reasoning) : 0);
        for (size_t j = 0; j < turn->n_calls; j++)
            n += strlen(turn->calls[j].name) + strlen(turn->calls[j].arguments);
    }
    for (size_t i = 0; i < conversation->n_tools; i++) {
        const hearth_chat_tool *tool = &conversation->tools[i];

        n += strlen(tool->name) + (tool->description ? strlen(tool->description) : 0) +
             (tool->parameters ? strlen(tool->parameters) : 0);
    }
    return n / BYTES_A_TOKEN;
}

/* ---- fields ---- */

/* Read {"type": one of types, "value": n}. Returns the index of the type; -1 when the field is absent or wrong. */
static int parse_amount(const hth_fields *edit, const char *name, const char *const *types, json_int_t low,
                        json_int_t *value)
{
    static const char *const known[] = { "type", "value", NULL };
    hth_fields fields;
    int type;

    if (!hth_fields_enter(edit, name, &fields))
        return -1;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    type = hth_fields_word(&fields, "type", types);
    hth_fields_require(&fields, "value");
    hth_fields_integer(&fields, "value", low, INT32_MAX, value);
    return type;
}

/* ---- names ---- */

/* Sorted names, so that each lookup is fast however many calls there are. */
typedef struct names {
    const char **names;
    size_t n;
} names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The texts of an array, sorted. Other elements are left out; without memory the error is filled. */
static names names_of(hth_api_parse *parse, const json_t *array)
{
    names out = { .n = 0 };

    if (json_array_size(array) > 0)
        out.names = hth_api_allocate(parse, json_array_size(array), sizeof(*out.names));
    for (size_t i = 0; out.names && i < json_array_size(array); i++) {
        const char *one = json_string_value(json_array_get(array, i));

        if (one)
            out.names[out.n++] = one;
    }
    if (out.n > 1)
        qsort(out.names, out.n, sizeof(*out.names), compare_names);
    return out;
}

static bool is_among(const names *all, const char *name)
{
    return all->n > 0 && bsearch(&name, all->names, all->n, sizeof(*all->names), compare_names);
}

/* ---- which call a result answers ---- */

/* By id, then by turn; within one turn the first call comes last. */
static int compare_places(const void *a, const void *b)
{
    const place *one = a, *other = b;
    int order = strcmp(one->id, other->id);

    if (order == 0 && one->turn != other->turn)
        return one->turn < other->turn ? -1 : 1;
    return order ? order : one->call > other->call ? -1 : one->call < other->call;
}

/* False without memory, with the error filled. */
static bool sort_calls(history *h)
{
    size_t n = 0;

    if (h->calls)
        return true;
    for (size_t i = 0; i < h->n_turns; i++)
        n += h->turns[i].n_calls;
    h->calls = hth_api_allocate(h->parse, n, sizeof(*h->calls));
    if (!h->calls)
        return false;
    for (size_t i = 0; i < h->n_turns; i++)
        for (size_t k = 0; k < h->turns[i].n_calls; k++)
            if (h->turns[i].calls[k].id)
                h->calls[h->n_calls++] = (place){ .id = h->turns[i].calls[k].id, .turn = i, .call = k };
    if (h->n_calls > 1)
        qsort(h->calls, h->n_calls, sizeof(*h->calls), compare_places);
    return true;
}

/*
 * The call that a tool's turn answers: in the last turn before it that has a call of its id, the first one. NULL: there
 * is none.
 */
static hearth_chat_call *call_of(const history *h, size_t i)
{
    /* sorts before the calls of turn i */
    const place wanted = { .id = h->turns[i].call_id, .turn = i, .call = SIZE_MAX };
    size_t low = 0, high = wanted.id ? h->n_calls : 0;
    const place *found;

    while (low < high) { /* count the calls before it */
        size_t middle = low + (high - low) / 2;

        if (compare_places(&h->calls[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    found = low > 0 ? &h->calls[low - 1] : NULL;
    if (!found || strcmp(found->id, wanted.id) != 0)
        return NULL;
    return (hearth_chat_call *)&h->turns[found->turn].calls[found->call]; /* our own, and not shared yet */
}

/* ---- tool uses ---- */

typedef struct tool_clearing {
    names excluded;
    bool all_inputs;
    names inputs;
    size_t n_keep;
} tool_clearing;

static bool clears_input(const tool_clearing *clearing, const hearth_chat_call *call)
{
    return clearing->all_inputs || is_among(&clearing->inputs, call->name);
}

/*
 * Clear the results of all uses but the newest, or only count the savings. Results that are not longer than the
 * replacement stay.
 */
static void clear_uses(const history *h, const tool_clearing *clearing, bool only_count, uint32_t *n_uses,
                       size_t *n_bytes)
{
    size_t n_later = 0;

    *n_uses = 0;
    *n_bytes = 0;
    for (size_t i = h->n_turns; i > 0; i--) {
        hearth_chat_turn *turn = &h->turns[i - 1];
        hearth_chat_call *call;
        size_t n;

        if (strcmp(turn->role, "tool") != 0)
            continue;
        call = call_of(h, i - 1);
        if ((call && is_among(&clearing->excluded, call->name)) || n_later++ < clearing->n_keep)
            continue;
        n = content_bytes(turn);
        if (n <= strlen(cleared_result))
            continue;
        ++*n_uses;
        *n_bytes += n - strlen(cleared_result);
        if (call && clears_input(clearing, call))
            *n_bytes += strlen(call->arguments) - strlen("{}"); /* no object is shorter */
        if (only_count)
            continue;
        turn->content = cleared_result;
        turn->parts = NULL;
        turn->n_parts = 0;
        if (call && clears_input(clearing, call))
            call->arguments = "{}";
    }
}

static void edit_tool_uses(history *h, const hth_fields *edit)
{
    static const char *const known[] = { "type",          "trigger", "keep", "clear_at_least", "clear_tool_inputs",
                                         "exclude_tools", NULL };
    static const char *const triggers[] = { "input_tokens", "tool_uses", NULL };
    static const char *const uses[] = { "tool_uses", NULL }, *const tokens[] = { "input_tokens", NULL };
    hth_api_edits *edits = &h->parse->request->edits;
    json_int_t trigger = TRIGGER_TOKENS, keep = KEEP_USES, at_least = 0;
    json_t *inputs = hth_fields_any(edit, "clear_tool_inputs"), *excluded; /* true, false, or a list of names */
    tool_clearing clearing = { .all_inputs = json_is_true(inputs) };
    size_t n_bytes, n_uses = 0;
    uint32_t n_cleared;
    bool by_uses;

    hth_fields_rest(edit, known);
    excluded = hth_fields_array(edit, "exclude_tools", NAMES_MAX);
    by_uses = parse_amount(edit, "trigger", triggers, 0, &trigger) == 1;
    (void)parse_amount(edit, "keep", uses, 0, &keep); /* there is one type */
    (void)parse_amount(edit, "clear_at_least", tokens, 0, &at_least);
    if (hth_fields_failed(edit))
        return;
    clearing.n_keep = (size_t)keep;
    for (size_t i = 0; i < h->n_turns; i++)
        n_uses += strcmp(h->turns[i].role, "tool") == 0;
    if ((by_uses ? n_uses : prompt_tokens(h)) <= (size_t)trigger)
        return;
    clearing.excluded = names_of(h->parse, excluded);
    clearing.inputs = names_of(h->parse, inputs);
    if (!sort_calls(h) || hth_fields_failed(edit))
        return;
    clear_uses(h, &clearing, true, &n_cleared, &n_bytes);
    if (n_cleared == 0 || n_bytes / BYTES_A_TOKEN < (size_t)at_least)
        return;
    clear_uses(h, &clearing, false, &n_cleared, &n_bytes);
    edits->cleared_tool_uses += n_cleared;
    edits->cleared_tool_tokens += (uint32_t)(n_bytes / BYTES_A_TOKEN);
}

/* ---- thinking ---- */

static void edit_thinking(const history *h, const hth_fields *edit)
{
    static const char *const known[] = { "type", "keep", NULL };
    static const char *const turns[] = { "thinking_turns", NULL };
    hth_api_edits *edits = &h->parse->request->edits;
    json_t *keep = hth_fields_any(edit, "keep");
    const char *word = json_string_value(json_is_object(keep) ? json_object_get(keep, "type") : keep);
    json_int_t n_keep = KEEP_THINKING_TURNS, n_turns = 0;
    bool in_turn = false, was_counted = false;
    size_t n_bytes = 0;

    hth_fields_rest(edit, known);
    if (word && strcmp(word, "all") == 0)
        return;
    (void)parse_amount(edit, "keep", turns, 1, &n_keep); /* there is one type */
    if (hth_fields_failed(edit))
        return;
    /*
     * From the end. All messages between two messages of the user, with the results of tools among them, are one turn.
     */
    for (size_t i = h->n_turns; i > 0; i--) {
        hearth_chat_turn *turn = &h->turns[i - 1];

        if (strcmp(turn->role, "user") == 0)
            in_turn = false;
        if (strcmp(turn->role, "assistant") != 0)
            continue;
        if (!in_turn)
            was_counted = false;
        n_turns += !in_turn;
        in_turn = true;
        if (n_turns <= n_keep || !turn->reasoning)
            continue;
        n_bytes += strlen(turn->reasoning);
        turn->reasoning = NULL;
        edits->cleared_thinking_turns += !was_counted;
        was_counted = true;
    }
    edits->cleared_thinking_tokens += (uint32_t)(n_bytes / BYTES_A_TOKEN);
}

/* ---- all edits ---- */

void hth_anthropic_edits(hth_api_parse *parse, hearth_chat_turn *turns)
{
    static const char *const known[] = { "edits", NULL };
    history h = { .parse = parse, .turns = turns, .n_turns = parse->request->conversation.n_turns };
    hth_fields fields;
    json_t *array;

    if (!hth_fields_enter(&parse->body, "context_management", &fields) || !turns)
        return;
    parse->request->edits.is_asked = true;
    hth_fields_rest(&fields, known);
    array = hth_fields_array(&fields, "edits", EDITS_MAX);
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        const char *type = NULL;
        hth_fields edit;

        if (!hth_fields_item(&fields, "edits", array, i, &edit))
            return;
        hth_fields_require(&edit, "type");
        hth_fields_string(&edit, "type", HTH_API_NAME_BYTES_MAX, &type);
        if (!type)
            return;
        if (strcmp(type, "clear_tool_uses_20250919") == 0)
            edit_tool_uses(&h, &edit);
        else if (strcmp(type, "clear_thinking_20251015") == 0)
            edit_thinking(&h, &edit);
        else
            hth_fields_note(&edit, type);
    }
}
