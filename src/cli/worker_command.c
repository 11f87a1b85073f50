/*
 * worker_command.c - `hearth worker`: serves one model in its own process, through a Unix socket
 *
 * The front starts it with descriptors for the messages between the two. A worker started by hand serves anyone who can
 * open the socket, that is, its owner.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/default_options.h"
#include "options/serve_options.h"
#include "options/values.h"
#include "supervisor/pressure_library.h"
#include "wire/needs_text.h"
#include "worker/worker.h"

enum { SAVE_MS = 30000, IDLE_MS = 24 * 3600 * 1000 };

typedef struct worker_options {
    const char *socket_path;
    int32_t status_fd;
    int32_t control_fd;
    int32_t carrier_fd;
    int32_t ram_fd;
    uint64_t ram_share;
    const char *adapter_state;
    const char *shown_name;
    uint32_t drain_ms;
    uint32_t save_ms;
    hth_server_options server; /* the options of its tables for workers */
    uint32_t connections_max;
    bool measures;
    const char *found[HTH_DEVICES_MAX];
    size_t n_found;
    const char *pressure_library;
    bool no_sandbox;
    bool quiet;
    bool verbose;
    hth_model_setup setup;
} worker_options;

static bool check_found(const char *shown, const char *value, hearth_error *err)
{
    hth_fit_found_device found;

    return hth_found_read(value, &found) || hth_value_wrong(shown, value, "BYTES:NAME, such as 8000000000:CUDA0", err);
}

#define AT(field) offsetof(worker_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Model" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_serving_options, .offset = AT(setup) },
    { "socket", 0, HTH_OPTION_TEXT, "PATH", "the unix socket to answer on", .offset = AT(socket_path),
      .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Limits" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_request_options, .offset = AT(server) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_slot_options, .offset = AT(server) },
    { "connections-max", 0, HTH_OPTION_U32, "N", "open connections", .offset = AT(connections_max), .low = 1,
      .high = 1 << 20 },
    { "drain-ms", 0, HTH_OPTION_U32, "MS",
      "time for running replies to end when the worker stops (default 30000; with --control-fd 0: the "
      "front has waited for them)",
      .offset = AT(drain_ms), .low = 0, .high = 3600000 },
    { "save-ms", 0, HTH_OPTION_U32, "MS", "longest time to save the content of the context afterwards",
      .offset = AT(save_ms), .low = 0, .high = 3600000 },
    { .kind = HTH_OPTION_TABLE, .table = &hth_worker_stream_options, .offset = AT(server) },
    { .kind = HTH_OPTION_HEADING, .help = "Defaults of requests" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_default_options, .offset = AT(setup.defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Scheduling" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Engine" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "For the front that starts it" },
    { "status-fd", 0, HTH_OPTION_I32, "FD", "descriptor of memory for the state of the worker", .offset = AT(status_fd),
      .low = 0, .high = 1 << 20 },
    { "control-fd", 0, HTH_OPTION_I32, "FD",
      "descriptor for reports of loading; the worker ends when the other end is closed", .offset = AT(control_fd),
      .low = 0, .high = 1 << 20 },
    { "carrier-fd", 0, HTH_OPTION_I32, "FD", "descriptor of a socket to the process that fetches rows of other nodes",
      .offset = AT(carrier_fd), .low = 0, .high = 1 << 20 },
    { "ram-fd", 0, HTH_OPTION_I32, "FD", "descriptor of memory for rows that outlives the worker", .offset = AT(ram_fd),
      .low = 0, .high = 1 << 20 },
    { "ram-share", 0, HTH_OPTION_SIZE, "SIZE", "memory for rows until the front tells another size, in place of --ram",
      .offset = AT(ram_share), .low = 0 },
    { "lora-state", 0, HTH_OPTION_TEXT, "JSON",
      "adapters that were loaded, and scales that were set, in the worker before", .offset = AT(adapter_state) },
    { "shown-name", 0, HTH_OPTION_TEXT, "NAME", "name in replies and pages for clients (default: that of --name)",
      .offset = AT(shown_name) },
    { "measure", 0, HTH_OPTION_FLAG, NULL,
      "do not load the model: print the bytes that it would take, from the metadata of its file",
      .offset = AT(measures) },
    { "device-found", 0, HTH_OPTION_TEXTS, "BYTES:NAME",
      "with --measure: memory of a GPU that the server's models may have; may be repeated", .offset = AT(found),
      .n_offset = AT(n_found), .n_max = HTH_DEVICES_MAX, .repeats = true, .check = check_found },
    { "pressure-library", 0, HTH_OPTION_TEXT, "FILE:SYMBOL",
      "load no model: print used and total bytes, which this function of a shared library tells",
      .offset = AT(pressure_library) },
    { "no-sandbox", 0, HTH_OPTION_FLAG, NULL, "let the worker keep rights that it does not need",
      .offset = AT(no_sandbox) },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "errors only", .offset = AT(quiet), .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log, including the engine's", .offset = AT(verbose),
      .is_common = true },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options", .is_common = true },
};

static void init(void *options)
{
    worker_options *out = options;

    *out = (worker_options){
        .status_fd = -1,
        .control_fd = -1,
        .carrier_fd = -1,
        .ram_fd = -1,
        .ram_share = UINT64_MAX,
        .drain_ms = UINT32_MAX,
        .save_ms = SAVE_MS,
        .server = hth_server_options_default(),
        .connections_max = hth_http_options_default().connections_max,
    };
    hth_model_setup_init(&out->setup);
}

const hth_manual hth_worker_manual = {
    .name = "worker",
    .summary = "serve one model on a unix socket; 'hearth serve' starts such processes",
    .usage = "usage: hearth worker --model FILE --socket PATH [OPTIONS]\n"
             "\n"
             "Serves one model on a unix socket that only its owner can open, with the HTTP interface "
             "of\n'hearth serve', which starts such processes itself. By hand:\n\n"
             "  hearth worker --model models/hearth-tiny.gguf --socket /tmp/tiny.sock &\n"
             "  curl --unix-socket /tmp/tiny.sock http://worker/v1/chat/completions \\\n"
             "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]}'\n"
             "\n",
    .options = HTH_OPTION_ROWS(rows),
    .init = init,
    .n_bytes = sizeof(worker_options),
};

/* True if the options are complete. Otherwise *exit_out is the exit code, and all messages have been printed. */
static bool parse(int argc, char **argv, worker_options *out, int *exit_out)
{
    int first;

    init(out);
    first = hth_manual_parse(&hth_worker_manual, NULL, argc, argv, out, exit_out);
    if (first < 0)
        return false;
    if (first < argc)
        return hth_sayf(false, "'%s' is one argument too many; see 'hearth worker --help'", argv[first]);
    if (!out->pressure_library && (!out->setup.path || (!out->socket_path && !out->measures)))
        return hth_sayf(false, "%s is missing; see 'hearth worker --help'", out->setup.path ? "--socket" : "--model");
    return true;
}

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    const worker_options *options = user_data;

    /* The engine's warnings rarely matter to users, and its failures are returned as messages. */
    if (!options->verbose && strcmp(source, "hearth") != 0)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", source, names[level], message);
}

static hearth_status run(const worker_options *options, const char *template_text, hearth_error *err)
{
    hth_fit_found found = { .n = 0 };
    const hth_server_options *server = &options->server;
    hearth_runtime_options runtime = hth_model_setup_runtime(&options->setup);
    hearth_engine_options engine;
    hearth_model_options model = hth_model_setup_model(&options->setup, &engine);
    const hth_api_defaults advice = hth_default_options_beside(options->setup.path);
    hth_worker_options worker = {
        .model_path = options->setup.path,
        .runtime = &runtime,
        .model = &model,
        .adapters = &options->setup.adapters,
        .adapter_state = options->adapter_state,
        .shown_name = options->shown_name,
        .socket_path = options->socket_path,
        .status_fd = options->status_fd,
        .control_fd = options->control_fd,
        .carrier_fd = options->carrier_fd,
        .http = hth_http_options_default(),
        .settings = server->worker,
        .defaults = &options->setup.defaults,
        .advice = &advice,
        .silence_ms = server->relay.keep_alive_ms,
        .drain_timeout_ms = options->drain_ms,
        .save_timeout_ms = options->save_ms,
        .found = &found,
        .sandbox = !options->no_sandbox,
    };

    for (size_t i = 0; i < options->n_found; i++)
        (void)hth_found_read(options->found[i], &found.at[found.n++]); /* its form was checked */
    worker.settings.slot_limits.free_min = runtime.disk_free_min;
    runtime.ram_memory_fd = options->ram_fd;
    if (options->ram_share < UINT64_MAX)
        runtime.ram_bytes_max = options->ram_share > 0 ? options->ram_share : 1; /* no room for any row */
    if (!model.cache_salt)
        model.cache_salt = getenv(HTH_SERVER_SECRET_VARIABLE); /* command lines are visible to other users */
    runtime.log = log_line;
    runtime.log_user_data = (void *)options; /* the log function only reads it */
    runtime.log_level = options->verbose ? HEARTH_LOG_DEBUG : options->quiet ? HEARTH_LOG_ERROR : HEARTH_LOG_INFO;
    model.chat_template = template_text;
    worker.http.headers_bytes_max = server->http.headers_bytes_max;
    worker.http.connections_max = options->connections_max;
    if (options->control_fd >= 0) {
        worker.http.idle_timeout_ms = IDLE_MS; /* the front keeps its connections open and handles slow clients */
        worker.http.write_timeout_ms = 0;
    }
    if (options->drain_ms == UINT32_MAX)
        worker.drain_timeout_ms = options->control_fd >= 0 ? 0 : 30000;
    if (options->measures)
        return hth_measure_run(&worker, options->control_fd >= 0 ? options->control_fd : STDOUT_FILENO, err);
    return hth_worker_run(&worker, err);
}

static hearth_status print_memory_use(const char *library, hearth_error *err)
{
    uint64_t used, total;
    hearth_status status = hth_pressure_library_ask(library, &used, &total, err);

    if (status == HEARTH_OK)
        (void)printf("%llu %llu\n", (unsigned long long)used, (unsigned long long)total); /* main reports a failure */
    return status;
}

int hth_command_worker(int argc, char **argv)
{
    hearth_error err = { .message = "" };
    char *template_text = NULL;
    worker_options options;
    hearth_status status;
    int exit_code;

    if (!parse(argc, argv, &options, &exit_code))
        return exit_code;
    if (options.pressure_library) {
        status = print_memory_use(options.pressure_library, &err);
    } else {
        if (!hth_model_setup_template(&options.setup, &template_text))
            return HTH_EXIT_FAILED;
        status = run(&options, template_text, &err);
        free(template_text);
    }
    if (status == HEARTH_OK)
        return HTH_EXIT_OK;
    return hth_say(err.message, HTH_EXIT_FAILED);
}
