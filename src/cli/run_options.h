/*
 * run_options.h - the command line of `hearth run`
 */
#ifndef HTH_CLI_RUN_OPTIONS_H
#define HTH_CLI_RUN_OPTIONS_H

#include "cli/model_options.h"
#include "cli/option_table.h"
#include "hearth.h"

enum {
    HTH_RUN_STOPS_MAX = 64,
    HTH_RUN_STOP_TOKENS_MAX = 64,
    HTH_RUN_TRIGGERS_MAX = 64,
    HTH_RUN_BREAKERS_MAX = 64,
    HTH_RUN_BIASES_MAX = 4096,
};

/* Seeds are shown as JSON numbers, which many readers keep as doubles: 2^53 - 1. */
#define HTH_RUN_SEED_MAX ((UINT64_C(1) << 53) - 1)

/* Plain values: a copy is complete, but for the strings, which belong to the command line (or a line of prompts). */
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
    bool quiet;
    bool verbose;
    bool help;
    bool help_all;
    bool has_seed;
    bool has_parent_key;
    uint8_t parent_key[32];
    const char *stop[HTH_RUN_STOPS_MAX];
    hearth_token stop_tokens[HTH_RUN_STOP_TOKENS_MAX];
    hearth_trigger triggers[HTH_RUN_TRIGGERS_MAX];
    const char *dry_breakers[HTH_RUN_BREAKERS_MAX];
    hearth_logit_bias logit_bias[HTH_RUN_BIASES_MAX];
    hth_model_setup setup;
    hearth_sampling sampling; /* likewise */
    hearth_request request;   /* counts of arrays, but not the arrays; without prompt and callbacks */
} hth_run_options;

/* True when options are complete; otherwise *exit_out is the exit code and what is to be said was said. */
bool hth_run_options_parse(int argc, char **argv, hth_run_options *out, int *exit_out);

/*
 * Put what a model recommends in place of sampling values that this command line, which was parsed into options, does not
 * give. n_ctx is of the context.
 */
void hth_run_options_recommend(int argc, char **argv, const hth_api_defaults *recommended, uint32_t n_ctx,
                               hth_run_options *options);

/*
 * The row of an option that a line of --prompts-json may have; NULL when there is none of that name, such as "top_k".
 * Its value is read by hth_option_read into a copy of the options.
 */
const hth_option *hth_run_option_of_request(const char *key);

/* The request that options describe, with pointers into them; those in options->sampling are set. */
hearth_request hth_run_options_request(hth_run_options *options);

#endif
