#include "api/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_BYTES = 64,       /* of a message, to find it in the prompt */
    SCHEMA_BYTES_MAX = 16384 /* longer schemas do not become text */
};

const char hth_api_any_parameters[] = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":true}";

/* ---- system messages after the first ---- */

static bool is_system(const hearth_chat_turn *turn)
{
    return strcmp(turn->role, "system") == 0 || strcmp(turn->role, "developer") == 0;
}

static const char *first_text(const hearth_chat_turn *turn)
{
    return turn->content ? turn->content : turn->n_parts > 0 ? turn->parts[0] : "";
}

static bool has_late_system(const hearth_conversation *conversation)
{
    for (size_t i = 1; i < conversation->n_turns; i++)
        if (is_system(&conversation->turns[i]))
            return true;
    return false;
}

/* Does the prompt contain all system messages? Compares their beginnings, since templates trim white space. */
static bool shows_systems(const hearth_conversation *conversation, const hearth_chat_prompt *prompt)
{
    for (size_t i = 0; i < conversation->n_turns; i++) {
        const char *text = first_text(&conversation->turns[i]);
        char sample[SAMPLE_BYTES + 1];
        size_t n;

        if (!is_system(&conversation->turns[i]))
            continue;
        text += strspn(text, " \t\r\n");
        n = strcspn(text, "\r\n");
        (void)snprintf(sample, sizeof(sample), "%.*s", (int)(n < SAMPLE_BYTES ? n : SAMPLE_BYTES), text); /* cut */
        for (n = strlen(sample); n > 0 && (sample[n - 1] == ' ' || sample[n - 1] == '\t'); n--)
            sample[n - 1] = '\0';
        if (!strstr(prompt->text, sample))
            return false;
    }
    return true;
}

/* New turns, made from those of a conversation. All zeros: none. */
typedef struct folded {
    hearth_chat_turn *turns; /* [n] */
    size_t n;
    const char **parts; /* of the joined turns */
} folded;

static void folded_deinit(folded *f)
{
    free(f->turns);
    free((void *)f->parts);
}

static size_t n_texts(const hearth_chat_turn *turn)
{
    return turn->content ? 1 : turn->n_parts;
}

/* Begin a turn like this one, but without text. Its parts are the last ones in f->parts. */
static void begin_turn(folded *f, size_t n_parts, const hearth_chat_turn *like)
{
    hearth_chat_turn turn = *like;

    turn.content = NULL;
    turn.parts = f->parts + n_parts;
    turn.n_parts = 0;
    f->turns[f->n++] = turn;
}

/* Append the texts of a turn to the last turn, whose parts are the last ones in f->parts. */
static void add_texts(folded *f, size_t *n_parts, const hearth_chat_turn *turn, bool wraps)
{
    hearth_chat_turn *last = &f->turns[f->n - 1];

    if (wraps)
        f->parts[(*n_parts)++] = "<system>";
    for (size_t i = 0; i < n_texts(turn); i++)
        f->parts[(*n_parts)++] = turn->content ? turn->content : turn->parts[i];
    if (wraps)
        f->parts[(*n_parts)++] = "</system>";
    last->n_parts = (size_t)(f->parts + *n_parts - last->parts);
}

static bool is_last(const folded *f, const char *role)
{
    return f->n > 0 && strcmp(f->turns[f->n - 1].role, role) == 0;
}

/*
 * Each later system message becomes text at the end of the user or tool message before it, or a user message of its
 * own. Consecutive user messages are then joined, since many templates require that.
 */
static bool fold(const hearth_conversation *conversation, folded *f)
{
    static const hearth_chat_turn user = { .struct_size = sizeof(hearth_chat_turn), .role = "user" };
    size_t n_parts = 0, capacity = 0;

    for (size_t i = 0; i < conversation->n_turns; i++)
        capacity += n_texts(&conversation->turns[i]) + 2;
    f->turns = calloc(conversation->n_turns ? conversation->n_turns : 1, sizeof(*f->turns));
    f->parts = calloc(capacity ? capacity : 1, sizeof(*f->parts));
    if (!f->turns || !f->parts)
        return false;
    for (size_t i = 0; i < conversation->n_turns; i++) {
        const hearth_chat_turn *turn = &conversation->turns[i];
        bool is_late = i > 0 && is_system(turn), is_user = strcmp(turn->role, "user") == 0;

        if (is_user || strcmp(turn->role, "tool") == 0 || is_late) {
            if (is_late ? !is_last(f, "user") && !is_last(f, "tool") : !is_user || !is_last(f, "user"))
                begin_turn(f, n_parts, is_late ? &user : turn);
            add_texts(f, &n_parts, turn, is_late);
        } else {
            f->turns[f->n++] = *turn;
        }
    }
    return true;
}

/* ---- tools without a grammar ---- */

char *hth_api_described_parameters(const char *description, const char *parameters)
{
    static const char format[] = "%s%sIts parameters, as a JSON schema: %s";
    const char *between = description && *description ? "\n\n" : "";
    size_t capacity;
    char *text;

    if (!description)
        description = "";
    if (!parameters || strlen(parameters) > SCHEMA_BYTES_MAX)
        return strdup(description);
    capacity = strlen(description) + sizeof(format) + strlen(between) + strlen(parameters);
    text = malloc(capacity);
    if (text)
        (void)snprintf(text, capacity, format, description, between, parameters); /* fits */
    return text;
}

/* Do these tools render, with a conversation that every template accepts? */
static bool goes_through(hearth_model *model, const hearth_conversation *conversation, const hearth_chat_tool *tools,
                         size_t n_tools)
{
    static const hearth_chat_turn hello = { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "x" };
    hearth_conversation probe = *conversation;
    const hearth_chat_prompt *prompt = NULL;
    hearth_status status;

    probe.turns = &hello;
    probe.n_turns = 1;
    probe.continue_last = false;
    probe.json_schema = NULL;
    probe.tools = tools;
    probe.n_tools = n_tools;
    status = hearth_conversation_render(model, &probe, &prompt, NULL);
    hearth_chat_prompt_free(prompt);
    return status != HEARTH_MISUSE && status != HEARTH_ENGINE;
}

/* Mark the tools that do not render on their own. They are few, so a binary search finds them. */
static void mark_bad(hearth_model *model, const hearth_conversation *conversation, size_t begin, size_t n, bool *is_bad)
{
    if (n == 0 || goes_through(model, conversation, conversation->tools + begin, n))
        return;
    if (n == 1) {
        is_bad[begin] = true;
        return;
    }
    mark_bad(model, conversation, begin, n / 2, is_bad);
    mark_bad(model, conversation, begin + n / 2, n - n / 2, is_bad);
}

/* Copy the tools. A bad tool accepts any parameters, and its schema becomes text. */
static hearth_chat_tool *loosened(const hearth_conversation *conversation, const bool *is_bad, char **texts)
{
    hearth_chat_tool *tools = calloc(conversation->n_tools, sizeof(*tools));

    for (size_t i = 0; tools && i < conversation->n_tools; i++) {
        tools[i] = conversation->tools[i];
        if (!is_bad[i])
            continue;
        texts[i] = hth_api_described_parameters(tools[i].description, tools[i].parameters);
        tools[i].description = texts[i]; /* if out of memory, the tool has no description */
        tools[i].parameters = hth_api_any_parameters;
    }
    return tools;
}

static void note_bad(const hearth_conversation *conversation, const bool *is_bad, hth_api_notes *notes)
{
    char note[HTH_API_NOTE_BYTES + 1];

    for (size_t i = 0; i < conversation->n_tools; i++) {
        if (!is_bad[i])
            continue;
        (void)snprintf(note, sizeof(note), "tools.%.60s.parameters",
                       conversation->tools[i].name); /* truncated if too long */
        hth_api_note(notes, note);
    }
}

static bool may_be_tools(const hearth_conversation *conversation, hearth_status status)
{
    return conversation->n_tools > 0 && (status == HEARTH_MISUSE || status == HEARTH_ENGINE);
}

static hearth_status render_loosened(hearth_model *model, const hearth_conversation *conversation,
                                     const hearth_chat_prompt **out, hth_api_notes *notes, hearth_status failed)
{
    hearth_conversation loose = *conversation;
    bool *is_bad = calloc(conversation->n_tools, sizeof(*is_bad));
    char **texts = calloc(conversation->n_tools, sizeof(*texts));
    hearth_chat_tool *tools = NULL;
    hearth_status status = failed;

    if (is_bad && texts && !goes_through(model, conversation, conversation->tools, conversation->n_tools)) {
        bool any = false;

        mark_bad(model, conversation, 0, conversation->n_tools, is_bad);
        for (size_t i = 0; i < conversation->n_tools; i++)
            any = any || is_bad[i];
        for (size_t i = 0; !any && i < conversation->n_tools; i++)
            is_bad[i] = true; /* each tool renders on its own, but all together are too much */
        loose.any_parameters = true;
        status = hearth_conversation_render(model, &loose, out, NULL);
        if (may_be_tools(conversation, status)) { /* not a schema, or one beyond the limits */
            tools = loosened(conversation, is_bad, texts);
            loose.tools = tools;
            status = tools ? hearth_conversation_render(model, &loose, out, NULL) : failed;
        }
        if (status == HEARTH_OK)
            note_bad(conversation, is_bad, notes);
    }
    for (size_t i = 0; texts && i < conversation->n_tools; i++)
        free(texts[i]);
    free(texts);
    free(tools);
    free(is_bad);
    return status;
}

/* ---- both ---- */

hearth_status hth_api_render(hearth_model *model, const hearth_conversation *conversation,
                             const hearth_chat_prompt **out, hth_api_notes *notes, hearth_error *err)
{
    hearth_conversation other = *conversation;
    const hearth_chat_prompt *prompt = NULL;
    hearth_status status = hearth_conversation_render(model, conversation, &prompt, err), again = status;
    folded f = { .n = 0 };

    if (has_late_system(conversation) &&
        (status == HEARTH_ENGINE || (status == HEARTH_OK && !shows_systems(conversation, prompt))) &&
        fold(conversation, &f)) {
        const hearth_chat_prompt *with_folded = NULL;

        other.turns = f.turns;
        other.n_turns = f.n;
        again = hearth_conversation_render(model, &other, &with_folded, NULL);
        if (again == HEARTH_OK) {
            hearth_chat_prompt_free(prompt);
            prompt = with_folded;
            status = again;
        }
    }
    if (status != HEARTH_OK && may_be_tools(&other, again))
        again = render_loosened(model, &other, &prompt, notes, again);
    folded_deinit(&f);
    if (status != HEARTH_OK && again != HEARTH_OK)
        return status; /* with the error of the conversation as given */
    *out = prompt;
    return HEARTH_OK;
}
