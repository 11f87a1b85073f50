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
#include <string.h>
#include <sys/random.h>

#include "base/os.h"
#include "cli/run.h"
#include "console/interrupt.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/model_source.h"

/* ---- interruption ---- */

static void interrupt(void *user_data)
{
    hth_run *run = user_data;

    pthread_mutex_lock(&run->interrupt_lock);
    atomic_store(&run->interrupted, true);
    if (run->on_interrupt)
        run->on_interrupt(run->interrupt_user_data);
    pthread_mutex_unlock(&run->interrupt_lock);
}

/* ---- open and load ---- */

static bool is_interrupted(void *user_data)
{
    return atomic_load(&((hth_run *)user_data)->interrupted);
}

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

static bool open_and_load(hth_run *run)
{
    hearth_error err = { .message = "" };
    uint64_t begin_ns;
    hearth_status status;

    if (!read_grammar_files(run))
        return false;
    begin_ns = hth_os_monotonic_ns();
    status = hth_open_model_load(&run->open, &err);
    run->load_ms = (double)(hth_os_monotonic_ns() - begin_ns) / 1e6;
    if (status != HEARTH_OK && !atomic_load(&run->interrupted))
        hth_say_error(&err);
    return status == HEARTH_OK;
}

/* ---- the command ---- */

int hth_command_run(int argc, char **argv)
{
    hth_run *run = calloc(1, sizeof(*run));
    int exit_code = HTH_EXIT_FAILED;
    hearth_error err = { .message = "" };

    if (!run) {
        (void)fputs("hearth: no memory\n", stderr);
        return HTH_EXIT_FAILED;
    }
    run->begin_ns = hth_os_monotonic_ns();
    pthread_mutex_init(&run->interrupt_lock, NULL);
    if (!hth_run_options_parse(argc, argv, &run->options, &exit_code)) {
        free(run);
        return exit_code;
    }
    exit_code = HTH_EXIT_FAILED;
    run->wrap.is_off = run->options.no_wrap;
    /* Before signals are caught: an interrupted download needs no cleanup. */
    if (hth_model_source_find(run->options.setup.path, true, run->options.quiet, run->model_path, &err) != HEARTH_OK) {
        hth_say_error(&err);
        free(run);
        return exit_code;
    }
    run->options.setup.path = run->model_path;
    run->open = (hth_open_model){ .setup = &run->options.setup,
                                  .is_quiet = run->options.quiet,
                                  .is_verbose = run->options.verbose,
                                  .is_ended = is_interrupted,
                                  .user_data = run };
    hth_progress_init(&run->open.progress, !run->options.quiet);
    if (!hth_interrupt_watch(interrupt, run))
        (void)fputs("hearth: warning: Ctrl-C will end the program at once, without saving\n", stderr);

    if (open_and_load(run)) {
        run->options.n_ctx = hth_open_model_recommend(&run->open);
        exit_code = run->options.prompts_file ? hth_run_many(run) : hth_run_one(run);
    } else if (atomic_load(&run->interrupted)) {
        exit_code = HTH_EXIT_INTERRUPTED;
    }
    hth_open_model_close(&run->open);
    free(run->grammar);
    free(run->json_schema);
    /* run is not freed, because the thread that waits for signals may still use it. */
    return exit_code;
}
