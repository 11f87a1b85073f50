/*
 * run_command.c - `hearth run`: generates text in one process
 *
 *   open the runtime -> load the model -> one prompt (run_one.c) or several (run_many.c) -> save, flush
 *
 * Ctrl-C cancels the requests, which end like all others: the computed part is saved. The reply is complete before its
 * rows are durable; the program waits for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_source.h"
#include "cli/run.h"
#include "cli/text_file.h"
#include "models/model.h"

enum { FLUSH_MS = 60000 };

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

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    hth_run *run = user_data;

    /* Warnings of the engine rarely concern users, and its failures come back as messages. */
    if (!run->options.verbose && strcmp(source, "hearth") != 0)
        return;
    hth_progress_end(&run->progress);
    if (level <= HEARTH_LOG_WARNING)
        (void)fprintf(stderr, "hearth: %s: %s\n", names[level], message);
    else
        (void)fprintf(stderr, "%s: %s\n", source, message);
}

static bool show_loading(float fraction, void *user_data)
{
    hth_run *run = user_data;

    hth_progress_draw(&run->progress, "loading model", fraction, "");
    return !atomic_load(&run->interrupted);
}

/* The texts of grammar and schema must live as long as requests are submitted. */
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
    const hth_run_options *options = &run->options;
    hearth_runtime_options runtime = hth_model_setup_runtime(&options->setup);
    hearth_model_options model = hth_model_setup_model(&options->setup);
    hearth_error err = { .message = "" };
    char *template_text = NULL;
    uint64_t begin_ns;
    hearth_status status;

    if (!read_grammar_files(run))
        return false;
    runtime.log = options->quiet ? NULL : log_line;
    runtime.log_user_data = run;
    runtime.log_level = options->verbose ? HEARTH_LOG_DEBUG : HEARTH_LOG_WARNING;
    if (hearth_runtime_open(&runtime, &run->runtime, &err) != HEARTH_OK) {
        hth_run_say_error(&err);
        return false;
    }
    if (!hth_model_setup_template(&options->setup, &template_text))
        return false;
    model.chat_template = template_text;
    model.progress = show_loading;
    model.progress_user_data = run;
    begin_ns = hth_os_monotonic_ns();
    status = hearth_model_load(run->runtime, options->setup.path, &model, &run->model, &err);
    if (status == HEARTH_OK)
        status = hth_adapter_specs_load(&options->setup.adapters, run->model, &err);
    run->load_ms = (double)(hth_os_monotonic_ns() - begin_ns) / 1e6;
    hth_progress_end(&run->progress);
    free(template_text);
    if (status != HEARTH_OK && !atomic_load(&run->interrupted))
        hth_run_say_error(&err);
    return status == HEARTH_OK;
}

/* ---- the command ---- */

/* Values that the command line does not give are those that a server would use. */
static void take_recommendations(hth_run *run)
{
    hth_run_options *options = &run->options;
    const hth_api_defaults beside = hth_default_options_beside(options->setup.path);
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_sampling_advice advice;
    hth_api_defaults recommended;

    hth_model_advice(run->model, &advice);
    recommended = hth_api_defaults_of_model(&advice);
    hth_api_defaults_add(&options->setup.defaults, &recommended);
    hth_api_defaults_add(&options->setup.defaults, &beside);
    if (hearth_model_info_get(run->model, &info, NULL) == HEARTH_OK)
        options->window_max = info.n_ctx < HTH_API_LAST_N_MAX ? info.n_ctx : HTH_API_LAST_N_MAX;
}

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
    /* Before signals are caught: a download needs no care when it ends early. */
    if (hth_model_source_find(run->options.setup.path, true, run->options.quiet, run->model_path, &err) != HEARTH_OK) {
        hth_run_say_error(&err);
        free(run);
        return exit_code;
    }
    run->options.setup.path = run->model_path;
    hth_progress_init(&run->progress, !run->options.quiet);
    if (!hth_interrupt_watch(interrupt, run))
        (void)fputs("hearth: warning: Ctrl-C will end the program at once, without saving\n", stderr);

    if (open_and_load(run)) {
        take_recommendations(run);
        exit_code = run->options.prompts_file ? hth_run_many(run) : hth_run_one(run);
        if (hearth_runtime_flush(run->runtime, FLUSH_MS, &err) != HEARTH_OK && !run->options.quiet)
            hth_run_say_error(&err);
    } else if (atomic_load(&run->interrupted)) {
        exit_code = HTH_EXIT_INTERRUPTED;
    }
    hearth_model_unref(run->model);
    hearth_runtime_close(run->runtime);
    free(run->grammar);
    free(run->json_schema);
    /* run is not freed, because the thread that waits for signals may still use it. */
    return exit_code;
}
