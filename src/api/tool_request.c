/*
 * tool_request.c - the schema of a tool's parameters, as a client gave it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/render.h"
#include "api/request_inside.h"

/* The tool may be called with any parameters; what it is to be called with is told as text. */
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
