/*
 * content_request.c - the content of messages: one text, or parts
 *
 * A part that is not text is replaced by a short text, with a note. A conversation keeps its parts, so refusing one
 * would fail every later request that repeats it. Parts of the assistant's own turn that are its reasoning become the
 * turn's reasoning.
 */
#include <string.h>

#include "api/parse.h"

const char *hth_api_replaced_part(hth_api_parse *parse, const hth_fields *part, const char *type)
{
    /* Prefixes of the types in all APIs. */
    static const char *const kinds[] = { "image",    "input_image", "input_audio", "audio",         "video",
                                         "document", "file",        "input_file",  "search_result", NULL };
    static const char *const names[] = { "image",    "image", "audio", "audio",        "video",
                                         "document", "file",  "file",  "search result" };
    const char *name = "part";

    for (size_t i = 0; kinds[i]; i++)
        if (strncmp(type, kinds[i], strlen(kinds[i])) == 0) {
            name = names[i];
            break;
        }
    hth_fields_note(part, type);
    return hth_api_join(parse, "[", name, " left out]");
}

/* The type of a part without "type": the first of its members that names one. */
static const char *type_by_members(const hth_fields *part)
{
    static const char *const members[] = { "text",        "thinking", "reasoning", "refusal", "image_url",
                                           "input_audio", "image",    "audio",     "file" };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (json_object_get(part->object, members[i]))
            return members[i];
    return "part";
}

/* The text of one part; *n_readable counts parts that are text. */
static const char *parse_part(hth_api_parse *parse, const hth_fields *part, const char *type, size_t *n_readable)
{
    const char *text = "", *member;

    if (!hth_is_among(type,
                      HTH_NAMES("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal")))
        return hth_api_replaced_part(parse, part, type);
    ++*n_readable;
    member = strcmp(type, "refusal") == 0 ? type : "text";
    hth_fields_rest(part, HTH_NAMES("type", "text", "refusal", "annotations", "logprobs", "cache_control"));
    if (!json_object_get(part->object, member)) /* null is not an error: the part is empty */
        hth_fields_require(part, member);
    hth_fields_string(part, member, HTH_API_TEXT_BYTES_MAX, &text);
    return text;
}

/* A part of what the assistant thought, as Anthropic, Mistral and others write it: a text, or parts that are texts. */
static void parse_reasoning_part(hth_api_parse *parse, const hth_fields *part, const char *type, hth_api_joined *joined)
{
    const char *member = json_object_get(part->object, type) ? type : "text";
    const json_t *value = json_object_get(part->object, member), *one;
    size_t i;

    if (json_is_string(value))
        hth_api_joined_add(parse, joined, json_string_value(value));
    else if (!json_is_array(value) && !json_is_null(value))
        hth_fields_note(part, type);
    json_array_foreach(value, i, one)
    {
        const char *text = json_string_value(json_is_string(one) ? one : json_object_get(one, "text"));

        if (text)
            hth_api_joined_add(parse, joined, text);
    }
}

size_t hth_api_parse_parts(hth_api_parse *parse, const hth_fields *fields, const char *name, const char *usual_type,
                           hearth_chat_turn *turn)
{
    const json_t *array = hth_fields_any(fields, name);
    const bool is_own = turn->role && strcmp(turn->role, "assistant") == 0;
    size_t n = json_array_size(array), n_parts = 0, n_readable = 0;
    const char **parts = hth_api_allocate(parse, n, sizeof(*parts));
    hth_api_joined reasoning = { .text = NULL };

    for (size_t i = 0; parts && i < n && parse->error->kind == HTH_API_NO_ERROR; i++) {
        const json_t *one = json_array_get(array, i);
        const char *type = usual_type;
        hth_fields part;

        if (json_is_string(one)) {
            parts[n_parts++] = json_string_value(one);
            n_readable++;
            continue;
        }
        if (!hth_fields_item(fields, name, array, i, &part))
            continue;
        hth_fields_string(&part, "type", HTH_API_NAME_BYTES_MAX, &type);
        if (!type)
            type = type_by_members(&part);
        if (is_own && hth_is_among(type, HTH_NAMES("thinking", "reasoning")))
            parse_reasoning_part(parse, &part, type, &reasoning);
        else if (!is_own || strcmp(type, "redacted_thinking") != 0)
            parts[n_parts++] = parse_part(parse, &part, type, &n_readable);
    }
    if (reasoning.text && !turn->reasoning) /* otherwise the message has it twice */
        turn->reasoning = reasoning.text;
    turn->parts = parts;
    turn->n_parts = n_parts;
    return n_readable;
}

void hth_api_parse_content(hth_api_parse *parse, const hth_fields *fields, bool is_question, hearth_chat_turn *turn)
{
    json_t *content = hth_fields_any(fields, "content");

    if (json_is_string(content))
        turn->content = json_string_value(content);
    else if (json_is_array(content) && hth_api_parse_parts(parse, fields, "content", NULL, turn) == 0 && is_question &&
             turn->n_parts > 0)
        hth_fields_fail(fields, HTH_API_UNSUPPORTED, "content", HTH_API_UNREADABLE_PARTS);
    else if (json_is_array(content) && turn->n_parts == 0 && turn->n_calls == 0)
        turn->content = ""; /* only reasoning */
    else if (content && !json_is_array(content))
        hth_fields_wrong_type(fields, "content", "a text or an array of content parts", content);
    else if (!json_object_get(fields->object, "content") && turn->n_calls == 0 && strcmp(turn->role, "assistant") != 0)
        hth_fields_require(fields, "content");
    else if (!content && turn->n_calls == 0)
        turn->content = ""; /* null */
}
