/*
 * run_command.c - `hearth run`: generates text in one process
 *
 *   open the runtime -> load the model -> one prompt (run_one.c) or several (run_many.c) -> save, flush
 *
 * Ctrl-C cancels the requests, which end normally: the computed part is saved. The reply is complete before its rows
 * are durable, so the program waits for them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "cli/run.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"

/* The texts of grammar and schema must live until all requests are submitted. */
static bool read_grammar_files(hth_run *run)
{
    hth_run_options *options = &run->options;

    if (options->grammar_file) {
        run->grammar = hth_text_file_read(options->grammar_file);
        options->sampling.grammar = run->grammar;
    }
    if (options->json_schema_file) {
        run->json_schema = hth_text_file_read(options->json_schema_file);
        options->sampling.json_schema = run->json_schema;
    }
    return !run->grammar == !options->grammar_file && !run->json_schema == !options->json_schema_file;
}

static bool load(hth_run *run)
{
    uint64_t begin_ns;
    bool ok;

    if (!read_grammar_files(run))
        return false;
    begin_ns = hth_os_monotonic_ns();
    ok = hth_own_model_load(&run->model);
    run->load_ms = (double)(hth_os_monotonic_ns() - begin_ns) / 1e6;
    return ok;
}

int hth_command_run(int argc, char **argv)
{
    hth_run *run = calloc(1, sizeof(*run));
    hth_run_options *options = run ? &run->options : NULL;
    int exit_code = HTH_EXIT_FAILED;

    if (!run)
        return hth_say("no memory", HTH_EXIT_FAILED);
    run->begin_ns = hth_os_monotonic_ns();
    if (!hth_run_options_parse(argc, argv, options, &exit_code)) {
        free(run);
        return exit_code;
    }
    exit_code = HTH_EXIT_FAILED;
    run->wrap.is_off = options->no_wrap;
    if (!hth_own_model_find(&run->model, &options->setup, options->quiet, options->verbose,
                            "Ctrl-C will end the program at once, without saving")) {
        free(run);
        return exit_code;
    }
    if (load(run)) {
        options->n_ctx = hth_open_model_recommend(&run->model.open);
        exit_code = options->prompts_file ? hth_run_many(run) : hth_run_one(run);
    } else if (atomic_load(&run->model.interrupted)) {
        exit_code = HTH_EXIT_INTERRUPTED;
    }
    hth_open_model_close(&run->model.open);
    free(run->grammar);
    free(run->json_schema);
    return exit_code; /* run is never freed (open_model.h) */
}
