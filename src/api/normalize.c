/*
 * normalize.c - removes text that clients add to prompts, that changes each time and means nothing to the model
 *
 * A prefix is reused only as far as it is identical. So one changing line at the beginning, such as a version or a
 * session number, makes everything after it cold. Claude Code writes such a line, which it calls a header. The line is
 * removed before the prompt is rendered, if it has its exact form and place. Nothing else changes. docs/clients.md
 * describes it.
 */
#include <string.h>

#include "api/parse.h"

static const char billing[] = "x-anthropic-billing-header:";

/* The length of a name or value, which has no white space and no ';'. */
static size_t word_bytes(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+/");
}

/*
 * The length of the header's line, including its line end if it has one: "x-anthropic-billing-header:
 * cc_version=2.1.197.123; cc_entrypoint=sdk-cli;". 0 if the text does not begin with such a line.
 */
static size_t billing_bytes(const char *text)
{
    const char *at = text;
    size_t n_fields = 0;

    if (strncmp(text, billing, strlen(billing)) != 0)
        return 0;
    for (at += strlen(billing) + strspn(text + strlen(billing), " "); *at && *at != '\n'; n_fields++) {
        size_t n_name = word_bytes(at), n_value = at[n_name] == '=' ? word_bytes(at + n_name + 1) : 0;

        at += n_name + 1 + n_value;
        if (n_name == 0 || n_value == 0 || *at != ';')
            return 0;
        at++;
        at += strspn(at, " ");
    }
    if (n_fields == 0)
        return 0;
    return (size_t)(at - text) + strspn(at, "\n");
}

/* The header is the first line of the system message: a block of its own, or the beginning of its text. */
static bool remove_billing_header(hth_api_parse *parse, hearth_chat_turn *system)
{
    const char **parts;
    size_t n = billing_bytes(system->content ? system->content : system->parts[0]);

    if (n == 0)
        return false;
    if (system->content) {
        system->content += n;
        return true;
    }
    if (system->parts[0][n] == '\0') {
        system->parts++;
        system->n_parts--;
        if (system->n_parts == 0)
            system->content = "";
        return true;
    }
    parts = hth_api_allocate(parse, system->n_parts, sizeof(*parts));
    if (!parts)
        return false; /* the error is filled */
    memcpy(parts, system->parts, system->n_parts * sizeof(*parts));
    parts[0] += n;
    system->parts = parts;
    return true;
}

void hth_api_normalize(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hearth_conversation *conversation = &request->conversation;
    hearth_chat_turn first;
    hearth_chat_turn *turns;

    if (parse->error->kind != HTH_API_NO_ERROR || conversation->n_turns == 0)
        return;
    first = conversation->turns[0];
    if (strcmp(first.role, "system") != 0 || (!first.content && first.n_parts == 0))
        return;
    if (!remove_billing_header(parse, &first))
        return;
    request->normalized = "claude-code-billing-header";
    if (first.content && !*first.content && conversation->n_turns > 1) { /* the message contained nothing else */
        conversation->turns++;
        conversation->n_turns--;
        return;
    }
    turns = hth_api_allocate_structs(parse, conversation->n_turns, sizeof(*turns));
    if (!turns)
        return; /* the error is filled */
    memcpy(turns, conversation->turns, conversation->n_turns * sizeof(*turns));
    turns[0] = first;
    conversation->turns = turns;
}
