#include "options/open_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/interrupt.h"
#include "console/output.h"
#include "models/model.h"
#include "options/default_options.h"
#include "options/model_source.h"

enum { FLUSH_MS = 60000 };

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    hth_open_model *open = user_data;

    /* Warnings of the engine rarely concern users, and its failures are returned as messages. */
    if (!open->is_verbose && strcmp(source, "hearth") != 0)
        return;
    hth_progress_end(&open->progress);
    if (level <= HEARTH_LOG_WARNING)
        (void)fprintf(stderr, "hearth: %s: %s\n", names[level], message);
    else
        (void)fprintf(stderr, "%s: %s\n", source, message);
}

static bool show_loading(float fraction, void *user_data)
{
    hth_open_model *open = user_data;

    hth_progress_draw(&open->progress, "loading model", fraction, "");
    return !open->is_ended(open->user_data);
}

hearth_status hth_open_model_load(hth_open_model *open, hearth_error *err)
{
    hearth_runtime_options runtime = hth_model_setup_runtime(open->setup);
    hearth_engine_options engine;
    hearth_model_options model = hth_model_setup_model(open->setup, &engine);
    char *template_text = NULL;
    hearth_status status;

    runtime.log = open->is_quiet ? NULL : log_line;
    runtime.log_user_data = open;
    runtime.log_level = open->is_verbose ? HEARTH_LOG_DEBUG : HEARTH_LOG_WARNING;
    if (!hth_model_setup_template(open->setup, &template_text))
        return HEARTH_INVALID_TEXT; /* said */
    status = hearth_runtime_open(&runtime, &open->runtime, err);
    model.chat_template = template_text;
    model.progress = show_loading;
    model.progress_user_data = open;
    if (status == HEARTH_OK)
        status = hearth_model_load(open->runtime, open->setup->path, &model, &open->model, err);
    if (status == HEARTH_OK)
        status = hth_adapter_specs_load(&open->setup->adapters, open->model, err);
    hth_progress_end(&open->progress);
    free(template_text);
    return status;
}

void hth_open_model_close(hth_open_model *open)
{
    hearth_error err = { .message = "" };

    if (open->model && hearth_runtime_flush(open->runtime, FLUSH_MS, &err) != HEARTH_OK && !open->is_quiet)
        (void)fprintf(stderr, "hearth: %s\n", err.message);
    hearth_model_unref(open->model);
    hearth_runtime_close(open->runtime);
    open->model = NULL;
    open->runtime = NULL;
}

uint32_t hth_open_model_recommend(hth_open_model *open)
{
    const hth_api_defaults beside = hth_default_options_beside(open->setup->path);
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_sampling_advice advice;
    hth_api_defaults recommended;

    hth_model_advice(open->model, &advice);
    recommended = hth_api_defaults_of_model(&advice);
    hth_api_defaults_add(&open->setup->defaults, &recommended);
    hth_api_defaults_add(&open->setup->defaults, &beside);
    if (hearth_model_info_get(open->model, &info, NULL) != HEARTH_OK)
        return 0;
    return info.n_ctx;
}

/* ---- with Ctrl-C ---- */

static void interrupt(void *user_data)
{
    hth_own_model *own = user_data;

    pthread_mutex_lock(&own->lock);
    atomic_store(&own->interrupted, true);
    if (own->on_interrupt)
        own->on_interrupt(own->interrupt_user_data);
    pthread_mutex_unlock(&own->lock);
}

void hth_own_model_on_interrupt(hth_own_model *own, void (*function)(void *user_data), void *user_data)
{
    pthread_mutex_lock(&own->lock);
    own->on_interrupt = function;
    own->interrupt_user_data = user_data;
    if (function && atomic_load(&own->interrupted))
        function(user_data);
    pthread_mutex_unlock(&own->lock);
}

static bool is_interrupted(void *user_data)
{
    return atomic_load(&((hth_own_model *)user_data)->interrupted);
}

bool hth_own_model_find(hth_own_model *own, hth_model_setup *setup, bool is_quiet, bool is_verbose, const char *warning)
{
    hearth_error err = { .message = "" };

    /* Before signals are caught: an interrupted download needs no cleanup. */
    if (hth_model_source_find(setup->path, true, is_quiet, own->path, &err) != HEARTH_OK)
        return hth_say(err.message, false);
    setup->path = own->path;
    own->open = (hth_open_model){
        .setup = setup, .is_quiet = is_quiet, .is_verbose = is_verbose, .is_ended = is_interrupted, .user_data = own
    };
    hth_progress_init(&own->open.progress, !is_quiet);
    pthread_mutex_init(&own->lock, NULL);
    if (!hth_interrupt_watch(interrupt, own))
        (void)fprintf(stderr, "hearth: warning: %s\n", warning);
    return true;
}

bool hth_own_model_load(hth_own_model *own)
{
    hearth_error err = { .message = "" };
    const hearth_status status = hth_open_model_load(&own->open, &err);

    if (status != HEARTH_OK && !atomic_load(&own->interrupted))
        hth_say_error(&err);
    return status == HEARTH_OK;
}
