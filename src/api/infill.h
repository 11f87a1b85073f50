/*
 * infill.h - llama.cpp's /infill: the reply fills the gap in a file, with other files around it
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
#ifndef HTH_API_INFILL_H
#define HTH_API_INFILL_H

#include "api/request.h"

typedef struct hth_api_infill_file {
    const char *name;
    const char *text;
} hth_api_infill_file;

struct hth_api_infill {
    const char *prefix;
    const char *suffix;
    const char *prompt;         /* the beginning of the gap */
    hth_api_infill_file *files; /* [n_files] */
    size_t n_files;
};

/*
 * Make the pieces of the prompt. The caller frees *out, which points into infill and to *roles. False, with error
 * filled, if the model has no infill tokens.
 */
typedef struct hth_api_roles {
    hearth_token tokens[HEARTH_SPECIALS];
} hth_api_roles;
bool hth_api_infill_pieces(hearth_model *model, const hth_api_infill *infill, hth_api_roles *roles, hth_api_piece **out,
                           size_t *n_out, hth_api_error *error);

#endif
