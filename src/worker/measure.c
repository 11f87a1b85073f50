/*
 * measure.c - see measure.h
 */
#include "worker/measure.h"

#include <string.h>
#include <unistd.h>

#include "models/needs.h"
#include "wire/model_files_size.h"
#include "wire/needs_text.h"
#include "worker/sandbox.h"

static void enter_sandbox(const hth_worker_options *options, const hearth_runtime_options *runtime)
{
    const hth_log log = { .level = runtime->log_level, .write = runtime->log, .user_data = runtime->log_user_data };
    hth_sandbox_paths *paths =
        hth_sandbox_paths_of_worker(options->model_path, options->adapters, options->model, runtime, NULL, NULL);

    if (paths)
        (void)hth_sandbox_files(paths, &log);
    else
        hth_warn(&log, "no memory to restrict access to files");
    hth_sandbox_paths_free(paths);
}

/* The weights of adapters are about as large as their files. */
static uint64_t adapter_bytes(const hth_adapter_specs *adapters)
{
    hth_adapter_spec spec;
    uint64_t sum = 0;

    for (size_t i = 0; adapters && i < adapters->n; i++)
        if (hth_adapter_spec_read(adapters->list[i], &spec, NULL) == HEARTH_OK)
            sum += hth_model_files_bytes(spec.path);
    return sum;
}

static hearth_status tell(const hth_model_needs *needs, int fd, hearth_error *err)
{
    hth_buffer text = { .text = NULL };
    bool ok;

    hth_needs_write(needs, &text);
    ok = !text.failed;
    for (const char *line = hth_buffer_text(&text), *end; ok && (end = strchr(line, '\n')) != NULL; line = end + 1)
        ok = dprintf(fd, "needs %.*s\n", (int)(end - line), line) > 0;
    hth_buffer_deinit(&text);
    return ok ? HEARTH_OK : hth_fail(err, HEARTH_IO, "cannot tell the needs of the model");
}

hearth_status hth_measure_run(const hth_worker_options *options, int fd, hearth_error *err)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model_options model = *options->model;
    hth_model_fit fit = { .n_ctx_max = 0 };
    hth_model_needs needs;
    hearth_status status;

    runtime_options.cache_disabled = true;
    runtime_options.engine_directory = options->runtime->engine_directory;
    runtime_options.log = options->runtime->log;
    runtime_options.log_user_data = options->runtime->log_user_data;
    runtime_options.log_level = options->runtime->log_level;
    if (options->sandbox)
        enter_sandbox(options, &runtime_options);
    status = hearth_runtime_open(&runtime_options, &runtime, err);
    if (status == HEARTH_OK && hth_model_must_fit(&model))
        status = hth_model_fit_options(runtime, options->model_path, HTH_FIT_TOTAL, options->found, &model, &fit, err);
    if (status == HEARTH_OK)
        status = hth_model_needs_ask(runtime, options->model_path, &model, &needs, err);
    hearth_runtime_close(runtime);
    if (status != HEARTH_OK)
        return status;
    needs.fit = fit;
    needs.memory.host.weight_bytes += adapter_bytes(options->adapters);
    return tell(&needs, fd, err);
}
