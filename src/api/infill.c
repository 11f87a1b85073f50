/*
 * infill.c - llama.cpp's /infill: the reply fills the gap in a file, with other files around it
 *
 * The prompt has the form that Qwen2.5-Coder was trained on (arXiv:2409.12186) and that llama-server uses:
 *
 *   [repository] myproject, for each extra file [file] name, text, [file] filename,
 *   [prefix] text before the gap, prompt [suffix] text after it [middle]
 *
 * If the model has no repository or file token, that token is left out; each extra file then follows a line of dashes.
 * Names of control tokens in the texts are plain text. Nothing is truncated: a prompt that does not fit is an error,
 * because the cache cannot match a prompt whose beginning was cut off.
 */

#include <stdlib.h>

#include "api/parse.h"
#include "api/prompt.h"

enum {
    FILES_MAX = 256,
    FILE_NAME_BYTES_MAX = 1024,
    OTHER_PIECES = 12, /* of a prompt without extra files */
    FILE_PIECES = 4,
};

/* ---- the request ---- */

static void parse_files(hth_api_parse *parse, hth_api_infill *infill)
{
    json_t *array = hth_fields_array(&parse->body, "input_extra", FILES_MAX);
    hth_api_infill_file *files = hth_api_allocate(parse, json_array_size(array) + 1, sizeof(*files));
    hth_fields fields;

    for (size_t i = 0; files && hth_fields_item(&parse->body, "input_extra", array, i, &fields); i++) {
        hth_fields_rest(&fields, HTH_NAMES("filename", "text"));
        hth_fields_require(&fields, "text");
        files[i].name = "tmp";
        hth_fields_string(&fields, "text", HTH_API_TEXT_BYTES_MAX, &files[i].text);
        hth_fields_string(&fields, "filename", FILE_NAME_BYTES_MAX, &files[i].name);
    }
    infill->files = files;
    infill->n_files = json_array_size(array);
}

void hth_api_parse_infill(hth_api_parse *parse)
{
    hth_api_request *request = parse->request;
    hth_api_infill *infill = hth_api_allocate(parse, 1, sizeof(*infill));

    if (!infill)
        return;
    request->kind = HTH_API_NATIVE_COMPLETION; /* except for its prompt */
    infill->prompt = "";
    hth_fields_require(&parse->body, "input_prefix");
    hth_fields_require(&parse->body, "input_suffix");
    hth_fields_string(&parse->body, "input_prefix", HTH_API_TEXT_BYTES_MAX, &infill->prefix);
    hth_fields_string(&parse->body, "input_suffix", HTH_API_TEXT_BYTES_MAX, &infill->suffix);
    hth_fields_string(&parse->body, "prompt", HTH_API_TEXT_BYTES_MAX, &infill->prompt);
    parse_files(parse, infill);
    hth_api_set_prompt(parse, infill->prompt);
    request->infill = infill;
}

/* ---- the prompt ---- */

typedef struct pieces {
    hth_api_piece *pieces;
    size_t n;
    const hth_api_roles *roles;
} pieces;

static void add_text(pieces *to, const char *text)
{
    if (*text)
        to->pieces[to->n++] = (hth_api_piece){ .text = text, .is_plain = true };
}

/* False if the model has no such token. */
static bool add_role(pieces *to, hearth_special role)
{
    if (to->roles->tokens[role] < 0)
        return false;
    to->pieces[to->n++] = (hth_api_piece){ .tokens = &to->roles->tokens[role], .n_tokens = 1 };
    return true;
}

static void add_file(pieces *to, const char *name)
{
    if (!add_role(to, HEARTH_SPECIAL_FIM_FILE))
        return;
    add_text(to, name);
    add_text(to, "\n");
}

bool hth_api_infill_pieces(hearth_model *model, const hth_api_infill *infill, hth_api_roles *roles, hth_api_piece **out,
                           size_t *n_out, hth_api_error *error)
{
    pieces to = { .pieces = calloc(OTHER_PIECES + FILE_PIECES * infill->n_files, sizeof(*to.pieces)), .roles = roles };

    for (int i = 0; i < HEARTH_SPECIALS; i++)
        (void)hearth_special_token(model, (hearth_special)i, &roles->tokens[i], NULL); /* every role has an answer */
    if (roles->tokens[HEARTH_SPECIAL_FIM_PREFIX] < 0 || roles->tokens[HEARTH_SPECIAL_FIM_SUFFIX] < 0 ||
        roles->tokens[HEARTH_SPECIAL_FIM_MIDDLE] < 0) {
        hth_api_fail(error, HTH_API_UNSUPPORTED, "input_prefix",
                     "/infill needs a model that can fill in between two texts, and this model has no tokens for that; "
                     "choose another model");
        free(to.pieces);
        return false;
    }
    if (!to.pieces) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return false;
    }
    to.pieces[to.n++].text = ""; /* adds the tokens that begin every text */
    if (add_role(&to, HEARTH_SPECIAL_FIM_REPOSITORY))
        add_text(&to, "myproject\n");
    for (size_t i = 0; i < infill->n_files; i++) {
        size_t n_before = to.n;

        add_file(&to, infill->files[i].name);
        if (to.n == n_before)
            add_text(&to, "\n\n--- snippet ---\n\n");
        add_text(&to, infill->files[i].text);
    }
    add_file(&to, "filename");
    (void)add_role(&to, HEARTH_SPECIAL_FIM_PREFIX); /* present, like the next two */
    add_text(&to, infill->prefix);
    add_text(&to, infill->prompt);
    (void)add_role(&to, HEARTH_SPECIAL_FIM_SUFFIX);
    add_text(&to, infill->suffix);
    (void)add_role(&to, HEARTH_SPECIAL_FIM_MIDDLE);
    *out = to.pieces;
    *n_out = to.n;
    return true;
}
