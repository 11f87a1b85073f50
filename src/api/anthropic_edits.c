/*
 * anthropic_edits.c - "context_management": what of a long history the model is not shown again
 *
 * Two edits are applied before the history is rendered, so that the client keeps all of it:
 *
 *   clear_tool_uses_20250919  beyond a number of tokens or of tool uses, the results of all but the newest uses become a
 *                             short text, and their inputs nothing where that is asked for
 *   clear_thinking_20251015   of all but the newest turns of the assistant, what it thought is left out
 *
 * Tokens are counted as four bytes each: which edits apply is then the same for every model, and known before it is there.
 * What was applied is told in the reply. Others are passed over with a note.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/anthropic_inside.h"

enum {
    EDITS_MAX = 16,
    NAMES_MAX = 1024,
    BYTES_A_TOKEN = 4,
    TRIGGER_TOKENS = 100000, /* where the client gives none, as Anthropic has it */
    KEEP_USES = 3,
    KEEP_THINKING_TURNS = 1,
};

static const char cleared_result[] = "[result cleared to save room]";

/* A call, and where it stands. */
typedef struct place {
    const char *id;
    size_t turn, call;
} place;

typedef struct history {
    hth_api_parse *parse;
    hearth_chat_turn *turns;
    size_t n_turns;
    place *calls; /* [n_calls] all that have an id, in the order of compare_places; NULL: not asked for yet */
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

/* Of everything that the prompt is made of, but for what the template adds. */
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

/* {"type": one of the types, "value": n}; the index of its type, or -1 where the field is absent or wrong. */
static int parse_amount(const hth_fields *edit, const char *name, const char *const *types, json_int_t low,
                        json_int_t *value)
{
    static const char *const known[] = { "type", "value", NULL };
    char path[HTH_PATH_BYTES], type_path[HTH_PATH_BYTES];
    hth_fields fields = *edit;
    const char *type = NULL;

    fields.object = hth_fields_object(edit, name);
    if (!fields.object)
        return -1;
    (void)snprintf(path, sizeof(path), "%.80s%s.", edit->path, name); /* names are ours, and short */
    fields.path = path;
    hth_fields_rest(&fields, known);
    hth_fields_require(&fields, "type");
    hth_fields_string(&fields, "type", HTH_ANTHROPIC_NAME_BYTES_MAX, &type);
    hth_fields_require(&fields, "value");
    hth_fields_integer(&fields, "value", low, INT32_MAX, value);
    for (int i = 0; type && types[i]; i++)
        if (strcmp(type, types[i]) == 0)
            return i;
    (void)hth_fields_path(&fields, "type", type_path);
    hth_api_fail(fields.error, HTH_API_INVALID_VALUE, type_path, "'%s' is '%.40s'; it must be %s%s%s", type_path, type,
                 types[0], types[1] ? " or " : "", types[1] ? types[1] : "");
    return -1;
}

/* ---- names ---- */

/* Names in their order, so that one is found among them however many calls ask. */
typedef struct names {
    const char **names;
    size_t n;
} names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The texts of an array; none of anything else, or without memory, which has its error. */
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

/* By id, then by turn; of one turn the first call comes last. */
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

/* The call that a tool's turn answers: of the last turn before it that has one of its id, the first. NULL: there is none. */
static hearth_chat_call *call_of(const history *h, size_t i)
{
    const place wanted = { .id = h->turns[i].call_id, .turn = i, .call = SIZE_MAX }; /* before the calls of turn i */
    size_t low = 0, high = wanted.id ? h->n_calls : 0;
    const place *found;

    while (low < high) { /* how many are before it */
        size_t middle = low + (high - low) / 2;

        if (compare_places(&h->calls[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    found = low > 0 ? &h->calls[low - 1] : NULL;
    if (!found || strcmp(found->id, wanted.id) != 0)
        return NULL;
    return (hearth_chat_call *)&h->turns[found->turn].calls[found->call]; /* the parse's own, and not given out yet */
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
 * Clear the results of all uses but the newest, or only count what that would save. Results that are as short as what
 * would stand in their place stay.
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
    json_t *inputs = hth_fields_any(edit, "clear_tool_inputs"), *excluded; /* true, false, or names */
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
    /* From the end; the messages between two of the user, with results of tools among them, are one turn. */
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
    hth_fields fields = hth_fields_inside(&parse->body, NULL, "context_management.");
    json_t *array;

    fields.object = hth_fields_object(&parse->body, "context_management");
    if (!fields.object || !turns)
        return;
    parse->request->edits.is_asked = true;
    hth_fields_rest(&fields, known);
    array = hth_fields_array(&fields, "edits", EDITS_MAX);
    for (size_t i = 0; i < json_array_size(array) && parse->error->kind == HTH_API_NO_ERROR; i++) {
        char path[HTH_PATH_BYTES], note[HTH_PATH_BYTES];
        const char *type = NULL;
        hth_fields edit;

        (void)snprintf(path, sizeof(path), "context_management.edits[%zu].", i); /* fits */
        edit = hth_fields_inside(&parse->body, json_array_get(array, i), path);
        if (!json_is_object(edit.object)) {
            hth_fail_type(parse->error, "context_management.edits", "an array of objects", edit.object);
            return;
        }
        hth_fields_require(&edit, "type");
        hth_fields_string(&edit, "type", HTH_ANTHROPIC_NAME_BYTES_MAX, &type);
        if (!type)
            return;
        if (strcmp(type, "clear_tool_uses_20250919") == 0) {
            edit_tool_uses(&h, &edit);
        } else if (strcmp(type, "clear_thinking_20251015") == 0) {
            edit_thinking(&h, &edit);
        } else {
            (void)snprintf(note, sizeof(note), "context_management.edits[].%.60s", type); /* cut where it is long */
            hth_api_note(parse->notes, note);
        }
    }
}
