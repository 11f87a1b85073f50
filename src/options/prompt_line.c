/*
 * prompt_line.c - reads lines of prompts, and the JSON members that are options
 *
 * The row of the command line that has the name of a member reads its value. So a line accepts the same values as the
 * command line, with the same messages. A list replaces that of the command line.
 */
#include "options/prompt_line.h"

#include <string.h>

#include "base/status.h"

enum { SHOWN_BYTES = 320, NUMBER_BYTES = 64 };

typedef struct member {
    const hth_option *option;
    void *options;
    const char *shown;
} member;

static hearth_status read_text(const member *m, const char *text, hearth_error *err)
{
    return hth_option_read(m->option, m->options, m->shown, text, err) ? HEARTH_OK : HEARTH_MISUSE;
}

static hearth_status wrong_type(const member *m, const char *expected, hearth_error *err)
{
    return hth_fail(err, HEARTH_MISUSE, "%s must be %s", m->shown, expected);
}

/* Read a text, or a number in the form of the command line. */
static hearth_status read_plain(const member *m, const json_t *value, hearth_error *err)
{
    char number[NUMBER_BYTES];

    if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        return hth_fail(err, HEARTH_MISUSE, "%s has a zero byte, so it is no text", m->shown);
    if (json_is_string(value))
        return read_text(m, json_string_value(value), err);
    if (m->option->kind == HTH_OPTION_TEXT)
        return wrong_type(m, "a text", err);
    if (json_is_integer(value))
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value)); /* sized for it */
    else if (json_is_real(value))
        (void)snprintf(number, sizeof(number), "%.9g", json_real_value(value)); /* likewise; exact for a float */
    else
        return wrong_type(m, "a number or a text", err);
    return read_text(m, number, err);
}

/* Read {"15": -1.5} as "15=-1.5". */
static hearth_status read_pairs(const member *m, json_t *pairs, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    const char *key;
    json_t *value;

    json_object_foreach(pairs, key, value)
    {
        char pair[NUMBER_BYTES];
        int n = -1;

        if (json_is_number(value))
            n = snprintf(pair, sizeof(pair), "%s=%.9g", key, json_number_value(value));
        else if (json_is_string(value))
            n = snprintf(pair, sizeof(pair), "%s=%s", key, json_string_value(value));
        if (n < 0 || n >= (int)sizeof(pair))
            return wrong_type(m, "an object of tokens and numbers", err);
        status = read_text(m, pair, err);
        if (status != HEARTH_OK)
            break;
    }
    return status;
}

/* Read a text that is given as JSON, such as a schema; object keeps the text. */
static hearth_status read_nested(const member *m, json_t *object, const char *key, hearth_error *err)
{
    char *text = json_dumps(json_object_get(object, key), JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *kept = text ? json_string(text) : NULL;

    free(text);
    if (!kept || json_object_set_new(object, key, kept) != 0)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %s", m->shown);
    return read_text(m, json_string_value(kept), err);
}

static hearth_status read_member(const member *m, json_t *object, const char *key, hearth_error *err)
{
    json_t *value = json_object_get(object, key);
    bool is_list = m->option->repeats;
    hearth_status status = HEARTH_OK;
    json_t *element;
    size_t i;

    if (m->option->kind == HTH_OPTION_FLAG) {
        if (!json_is_boolean(value))
            return wrong_type(m, "true or false", err);
        hth_option_set_flag(m->option, m->options, json_is_true(value));
        return HEARTH_OK;
    }
    if (m->option->value[0] == '[' && json_is_boolean(value)) /* its value may be omitted */
        return read_text(m, json_is_true(value) ? "" : NULL, err);
    if (m->option->kind == HTH_OPTION_TEXT && (json_is_object(value) || json_is_array(value)))
        return read_nested(m, object, key, err);
    if (!is_list || (!json_is_array(value) && !json_is_object(value)))
        return read_plain(m, value, err);
    status = read_text(m, NULL, err);
    if (status == HEARTH_OK && json_is_object(value))
        return read_pairs(m, value, err);
    json_array_foreach(value, i, element)
    {
        if (status == HEARTH_OK)
            status = read_plain(m, element, err);
    }
    return status;
}

/* Read the members in the order in which they are written. */
static hearth_status read_object(hth_prompt_line *out, const char *where, hearth_error *err)
{
    json_t *prompt = json_object_get(out->object, "prompt");
    hearth_status status = HEARTH_OK;
    const char *key;
    json_t *value;
    void *next;

    if (!json_is_string(prompt) || strlen(json_string_value(prompt)) != json_string_length(prompt))
        return hth_fail(err, HEARTH_MISUSE, "%s: \"prompt\" must be there, a text without zero bytes", where);
    out->prompt = json_string_value(prompt);
    out->id = json_incref(json_object_get(out->object, "id"));
    json_object_foreach_safe(out->object, next, key, value)
    {
        char shown[SHOWN_BYTES];
        size_t offset;
        const hth_option *option = hth_run_option_of_request(key, &offset);
        const member m = { .option = option, .options = (char *)&out->options + offset, .shown = shown };

        if (strcmp(key, "prompt") == 0 || strcmp(key, "id") == 0)
            continue;
        (void)snprintf(shown, sizeof(shown), "%s: %s", where, key); /* a long name is cut */
        hth_end_at_character(shown, sizeof(shown));
        if (!m.option)
            return hth_fail(err, HEARTH_MISUSE,
                            "%s is no option of a request; \"prompt\", \"id\" and the names that docs/generation.md "
                            "lists are allowed, such as \"n_predict\"",
                            shown);
        status = read_member(&m, out->object, key, err);
        if (status != HEARTH_OK)
            return status;
    }
    return status;
}

hearth_status hth_prompt_line_init(hth_prompt_line *out, const hth_run_options *base, const char *where,
                                   const char *line, size_t n, hearth_error *err)
{
    json_error_t problem;

    out->options = *base;
    out->object = NULL;
    out->id = NULL;
    if (!base->prompts_json_file) {
        out->prompt = line;
        return strlen(line) == n
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_INVALID_TEXT, "%s: it has a zero byte, so it is no text", where);
    }
    out->object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (!out->object)
        return hth_fail(err, HEARTH_MISUSE, "%s: not a line of JSON: %s, at byte %d", where, problem.text,
                        problem.position);
    if (!json_is_object(out->object))
        return hth_fail(err, HEARTH_MISUSE, "%s: it must be a JSON object, such as {\"prompt\": \"...\"}", where);
    return read_object(out, where, err);
}

void hth_prompt_line_deinit(hth_prompt_line *line)
{
    json_decref(line->id);
    json_decref(line->object);
    line->id = NULL;
    line->object = NULL;
}
