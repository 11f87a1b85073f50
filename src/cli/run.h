/*
 * run.h - the two forms of `hearth run`: one prompt, and several
 */
#ifndef HTH_CLI_RUN_H
#define HTH_CLI_RUN_H

#include "console/output.h"
#include "options/open_model.h"
#include "options/run_options.h"

typedef struct hth_run {
    hth_run_options options;
    hth_own_model model;
    char *grammar; /* of --grammar-file and --json-schema-file; NULL: none */
    char *json_schema;
    uint64_t begin_ns;
    hth_word_wrap wrap; /* of standard output */
    double load_ms;
} hth_run;

/* Run the prompt or prompts and write the results. The model must be loaded. Returns the exit code. */
int hth_run_one(hth_run *run);
int hth_run_many(hth_run *run);

#endif
