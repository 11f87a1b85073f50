/*
 * prompt_line.h - one line of --prompts or --prompts-json: a prompt and, in JSON, its own options
 */
#ifndef HTH_OPTIONS_PROMPT_LINE_H
#define HTH_OPTIONS_PROMPT_LINE_H

#include <jansson.h>

#include "options/run_options.h"

typedef struct hth_prompt_line {
    hth_run_options options; /* from the command line and the line; strings belong to the line and the object */
    const char *prompt;
    json_t *id;     /* a reference; NULL: none was given */
    json_t *object; /* the line, if it is JSON */
} hth_prompt_line;

/*
 * Read a line of n bytes. Messages begin with where ("prompts.jsonl, line 3"). The line must stay valid until
 * hth_prompt_line_deinit, which must be called in any case. out need not be initialised. HEARTH_MISUSE,
 * HEARTH_INVALID_TEXT, HEARTH_NO_MEMORY.
 */
hearth_status hth_prompt_line_init(hth_prompt_line *out, const hth_run_options *base, const char *where,
                                   const char *line, size_t n, hearth_error *err);
void hth_prompt_line_deinit(hth_prompt_line *line);

#endif
