/*
 * run_options.h - the command line of `hearth run`, and its lines of prompts
 */
#ifndef HTH_OPTIONS_RUN_OPTIONS_H
#define HTH_OPTIONS_RUN_OPTIONS_H

#include <jansson.h>

#include "hearth.h"
#include "options/model_options.h"
#include "options/option_table.h"
#include "sampling/sampling.h"
#include "sched/request.h"

/* Seeds appear as JSON numbers, which many readers store as doubles: 2^53 - 1. */
#define HTH_RUN_SEED_MAX ((UINT64_C(1) << 53) - 1)

/*
 * Plain values: a copy is complete, except for the strings, which belong to the command line or to a line of prompts.
 */
typedef struct hth_run_options {
    const char *prompt;       /* -p; NULL: from a file */
    const char *prompt_file;  /* -f; "-": standard input */
    const char *prompts_file; /* --prompts or --prompts-json; NULL: there is one prompt */
    const char *prompts_text_file;
    const char *prompts_json_file;
    uint32_t parallel; /* 0: not given */
    const char *system;
    const char *grammar_file;
    const char *json_schema_file;
    bool chat;
    bool json;
    bool no_wrap;
    bool quiet;
    bool verbose;
    bool has_parent_key;
    uint8_t parent_key[32];
    uint32_t n_parent_digits; /* of it */
    const char *stop[HTH_STOPS_MAX];
    hearth_token stop_tokens[HTH_STOP_TOKENS_MAX];
    hearth_trigger triggers[HTH_TRIGGERS_MAX];
    const char *dry_breakers[HTH_DRY_BREAKERS_MAX];
    hearth_logit_bias logit_bias[HTH_LOGIT_BIAS_MAX];
    hth_model_setup setup;    /* its defaults are the sampling numbers, and how much to think */
    uint32_t n_ctx;           /* of the model; set once it is loaded */
    hearth_sampling sampling; /* likewise */
    hearth_request request;   /* counts of arrays, without the arrays, prompt and callbacks */
} hth_run_options;

extern const hth_option_table hth_run_options_table; /* in an hth_run_options */

/* True if the options are complete. Otherwise *exit_out is the exit code, and all messages were printed. */
bool hth_run_options_parse(int argc, char **argv, hth_run_options *out, int *exit_out);

/* The request that the options describe, with pointers into them; options->sampling is completed. */
hearth_request hth_run_options_request(hth_run_options *options);

/*
 * Put prompt into *request: unchanged or, if options ask for a chat, as a rendered conversation in request->chat, to be
 * released with hearth_chat_prompt_free. prompt is borrowed and must not move. request is not changed on failure.
 */
hearth_status hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                                hearth_request *request, hearth_error *err);

/* One line of --prompts or --prompts-json: a prompt and, in JSON, its own options. */
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
