/*
 * run_options.h - the command line of `hearth run`
 */
#ifndef HTH_CLI_RUN_OPTIONS_H
#define HTH_CLI_RUN_OPTIONS_H

#include "hearth.h"

enum { HTH_RUN_STOPS_MAX = 16, HTH_RUN_DIRECTORIES_MAX = 15 };

/* Seeds are shown as JSON numbers, which many readers keep as doubles: 2^53 - 1. */
#define HTH_RUN_SEED_MAX ((UINT64_C(1) << 53) - 1)

typedef struct hth_run_options {
    const char *model;
    const char *prompt;      /* -p; NULL: from file */
    const char *prompt_file; /* -f; "-": standard input */
    const char *system;
    bool chat;
    bool json;
    bool quiet;
    bool verbose;
    bool has_seed;
    bool has_parent_key;
    uint8_t parent_key[32];
    const char *stop[HTH_RUN_STOPS_MAX];
    const char *more_directories[HTH_RUN_DIRECTORIES_MAX];
    hearth_cache_policy policy; /* model_options points to it where something was set */
    hearth_runtime_options runtime;
    hearth_model_options model_options;
    hearth_request request; /* without prompt and callbacks */
} hth_run_options;

/* True when options are complete; otherwise *exit_out is the exit code and what is to be said was said. */
bool hth_run_options_parse(int argc, char **argv, hth_run_options *out, int *exit_out);

#endif
