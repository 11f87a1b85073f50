/*
 * tool_request.c - names and parameters of tools, as clients give them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/render.h"
#include "api/request_inside.h"
#include "base/words.h"

void hth_api_check_tool_name(const hth_fields *fields, const hearth_chat_tool *tools, size_t i, size_t n_max)
{
    const char *name = tools[i].name;

    if (!name)
        return;
    if (!hth_is_name(name, n_max))
        hth_fields_fail(fields, HTH_API_INVALID_VALUE, "name",
                        "is '%.140s'; it must be 1 to %zu letters, digits, underscores and hyphens", name, n_max);
    for (size_t j = 0; j < i; j++)
        if (tools[j].name && strcmp(tools[j].name, name) == 0)
            hth_fields_fail(fields, HTH_API_INVALID_VALUE, "name",
                            "is '%s', like the name of tool %zu; give each tool its own name", name, j);
}

bool hth_api_choose_tool(hth_api_parse *parse, const char *name)
{
    hearth_conversation *conversation = &parse->request->conversation;

    for (size_t i = 0; conversation->tools && i < conversation->n_tools; i++)
        if (strcmp(conversation->tools[i].name, name) == 0) {
            conversation->tools = &conversation->tools[i];
            conversation->n_tools = 1;
            conversation->tool_choice = HEARTH_TOOL_REQUIRED;
            return true;
        }
    return false;
}

/* Let the model call the tool with any parameters, and tell the schema as text. */
static void loosen(hth_api_parse *parse, hearth_chat_tool *tool, const json_t *schema)
{
    char *text = json_dumps(schema, JSON_COMPACT), *described = hth_api_described_parameters(tool->description, text);
    char note[HTH_PATH_BYTES];

    tool->parameters = hth_api_any_parameters;
    tool->description = described ? hth_api_join(parse, described, "", "") : NULL;
    free(described);
    free(text);
    (void)snprintf(note, sizeof(note), "tools.%.60s.parameters",
                   tool->name ? tool->name : ""); /* cut where it is long */
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
