/*
 * infill.h - llama.cpp's /infill: the reply fills the gap in a file, with other files around it
 *
 * The prompt has the form that Qwen2.5-Coder was trained with (arXiv:2409.12186), and that llama-server gives it:
 *
 *   [repository] myproject, for each extra file [file] name, text, [file] filename,
 *   [prefix] text before the gap, prompt [suffix] text after it [middle]
 *
 * A model without the token of a repository or of a file gets none; extra files then have a line of dashes before them.
 * Names of control tokens in texts are plain text. Nothing is cut: a prompt that does not fit is an error, because the
 * cache cannot find a prompt again whose beginning was cut away.
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
 * The pieces of the prompt: free *out, which points into infill and to *roles. False, with error filled, when the model
 * has no tokens to fill in.
 */
typedef struct hth_api_roles {
    hearth_token tokens[HEARTH_SPECIALS];
} hth_api_roles;
bool hth_api_infill_pieces(hearth_model *model, const hth_api_infill *infill, hth_api_roles *roles, hth_api_piece **out,
                           size_t *n_out, hth_api_error *error);

#endif
