/*
 * tool_request.c - names and parameters of tools from clients
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "api/render.h"
#include "base/controls.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "base/words.h"
#include "models/given.h"

enum { SAFE_BYTES = 100 }; /* of a replaced name, before its number */

/* Keep letters and digits and replace every other character by '_'. A hash of the name keeps names distinct. */
static void make_safe(const char *given, char out[SAFE_BYTES + sizeof("_01234567")])
{
    size_t n = 0;

    for (const char *c = given; *c && n < SAFE_BYTES; c++) {
        const char one[2] = { *c, '\0' };

        if (!hth_utf8_goes_on(*c))
            out[n++] = hth_is_name(one, 1) ? *c : '_';
    }
    (void)snprintf(out + n, sizeof("_01234567"), "_%08x", hth_crc32c(0, given, strlen(given))); /* fits */
}

const char *hth_api_offered_name(hth_api_parse *parse, const char *given)
{
    hth_api_request *request = parse->request;
    char safe[SAFE_BYTES + sizeof("_01234567")];
    hth_api_renamed *renamed;

    if (hth_is_name(given, HTH_TOOL_NAME_BYTES_MAX) || !*given)
        return given;
    for (const hth_api_renamed *known = request->renamed; known; known = known->next)
        if (strcmp(known->given, given) == 0)
            return known->offered;
    make_safe(given, safe);
    renamed = hth_api_allocate(parse, 1, sizeof(*renamed));
    if (!renamed)
        return given;
    *renamed =
        (hth_api_renamed){ .given = given, .offered = hth_api_join(parse, safe, "", ""), .next = request->renamed };
    if (!renamed->offered)
        return given;
    request->renamed = renamed;
    return renamed->offered;
}

const char *hth_api_given_name(const hth_api_request *request, const char *offered)
{
    for (const hth_api_renamed *known = request->renamed; known; known = known->next)
        if (strcmp(known->offered, offered) == 0)
            return known->given;
    return offered;
}

void hth_api_check_tool_name(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t i)
{
    const char *name = tools[i].name;

    if (!name)
        return;
    if (!*name || hth_has_controls(name))
        hth_fields_refuse(fields, "name", "is empty or has a control character; it must be 1 to %d printable bytes",
                          HTH_API_NAME_BYTES_MAX);
    tools[i].name = name = hth_api_offered_name(parse, name);
    for (size_t j = 0; j < i; j++)
        if (tools[j].name && strcmp(tools[j].name, name) == 0)
            hth_fields_refuse(fields, "name", "is '%s', like the name of tool %zu; give each tool its own name", name,
                              j);
}

bool hth_api_choose_tool(hth_api_parse *parse, const char *name)
{
    hearth_conversation *conversation = &parse->request->conversation;

    name = hth_api_offered_name(parse, name);
    for (size_t i = 0; conversation->tools && i < conversation->n_tools; i++)
        if (strcmp(conversation->tools[i].name, name) == 0) {
            conversation->tools = &conversation->tools[i];
            conversation->n_tools = 1;
            conversation->tool_choice = HEARTH_TOOL_REQUIRED;
            return true;
        }
    return false;
}

/* Let the model call the tool with any parameters, and put the schema into the description as text. */
static void loosen(hth_api_parse *parse, hearth_chat_tool *tool, const json_t *schema)
{
    char *text = json_dumps(schema, JSON_COMPACT), *described = hth_api_described_parameters(tool->description, text);
    char note[HTH_PATH_BYTES];

    tool->parameters = hth_api_any_parameters;
    tool->description = described ? hth_api_join(parse, described, "", "") : NULL;
    free(described);
    free(text);
    (void)snprintf(note, sizeof(note), "tools.%.60s.parameters",
                   tool->name ? tool->name : ""); /* truncated if too long */
    hth_api_note(parse->notes, note);
}

void hth_api_tool_schema(hth_api_parse *parse, hearth_chat_tool *tool, json_t *schema)
{
    char path[HTH_API_NOTE_BYTES + 1];

    if (parse->error->kind != HTH_API_NO_ERROR)
        return;
    (void)snprintf(path, sizeof(path), "tools.%.40s.parameters", tool->name ? tool->name : "");
    hth_api_note_large_counts(parse, path, schema);
    if (hth_api_lost_reference(schema) || json_dumpb(schema, NULL, 0, JSON_COMPACT) > parse->limits->schema_bytes_max)
        loosen(parse, tool, schema);
    else
        tool->parameters = hth_api_json_text(parse, schema);
}
