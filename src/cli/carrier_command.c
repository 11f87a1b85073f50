/*
 * carrier_command.c - `hearth carrier`: moves rows between this node of a fleet and others; the front starts it
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "carrier/carrier.h"
#include "console/output.h"
#include "models/runtime.h"
#include "options/commands.h"
#include "options/model_options.h"
#include "worker/sandbox.h"

typedef struct carrier_options {
    const char *fleet_file;
    int32_t control_fd;
    bool no_sandbox;
    bool quiet;
    bool verbose;
    hth_model_setup setup;
} carrier_options;

#define AT(field) offsetof(carrier_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "For the front that starts it" },
    { "control-fd", 0, HTH_OPTION_I32, "FD",
      "descriptor of the socket to the front; it ends when the other end is closed", .offset = AT(control_fd), .low = 0,
      .high = 1 << 20, .is_common = true },
    { "fleet", 0, HTH_OPTION_TEXT, "FILE", "the file of the fleet", .offset = AT(fleet_file), .is_common = true },
    { "no-sandbox", 0, HTH_OPTION_FLAG, NULL, "let it keep rights that it does not need", .offset = AT(no_sandbox) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "errors only", .offset = AT(quiet), .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log", .offset = AT(verbose), .is_common = true },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options", .is_common = true },
};

static void init(void *options)
{
    carrier_options *out = options;

    *out = (carrier_options){ .control_fd = -1 };
    hth_model_setup_init(&out->setup);
}

const hth_manual hth_carrier_manual = {
    .name = "carrier",
    .summary = "move rows between nodes of a fleet; 'hearth serve' starts it",
    .usage = "usage: hearth carrier --control-fd FD --fleet FILE [OPTIONS]\n"
             "\n"
             "Fetches rows of the cache from other nodes of a fleet, and gives them rows of this one.\n"
             "'hearth serve' starts it, with a socket for its orders; by hand it does nothing.\n"
             "\n",
    .options = HTH_OPTION_ROWS(rows),
    .init = init,
    .n_bytes = sizeof(carrier_options),
};

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };

    (void)user_data;
    (void)fprintf(stderr, "%s: %s: %s\n", source, names[level], message);
}

/* From now on it can open the cache's folders, and connect to other machines. Failures are in the log. */
static void enter_sandbox(const hth_cache_options *cache, const hth_log *log)
{
    static const char *const none[] = { NULL };
    static const uint16_t no_ports[] = { 0 };
    const char *write[HTH_MODEL_DIRECTORIES_MAX + 4];
    size_t n = 0;

    if (cache->directory)
        write[n++] = cache->directory;
    if (cache->ram_file_directory)
        write[n++] = cache->ram_file_directory;
    if (cache->index_directory)
        write[n++] = cache->index_directory;
    for (size_t i = 0; i < cache->n_more_directories; i++)
        write[n++] = cache->more_directories[i];
    write[n] = NULL;
    (void)hth_sandbox_files(
        &(hth_sandbox_paths){ .read = none, .own_files = none, .write = write, .ports = no_ports, .any_port = true },
        log);
}

static hearth_status run(const carrier_options *options, hearth_error *err)
{
    const hearth_runtime_options runtime = hth_model_setup_runtime(&options->setup);
    const hth_log log = { .level = options->verbose ? HEARTH_LOG_DEBUG
                                 : options->quiet   ? HEARTH_LOG_ERROR
                                                    : HEARTH_LOG_INFO,
                          .write = log_line };
    char directory[HTH_RUNTIME_PATH_BYTES];
    hth_signing_key *key = NULL;
    hth_fleet_pem *pem = NULL;
    hth_tiers *tiers = NULL;
    hth_cache_options cache;
    hearth_status status = hth_runtime_file_options(&runtime, directory, &cache, err);

    if (status == HEARTH_OK)
        status = hth_fleet_pem_read(options->fleet_file, &pem, err);
    if (status == HEARTH_OK && runtime.signing_key_file)
        status = hth_signing_key_load(NULL, runtime.signing_key_file, &key, err);
    if (status == HEARTH_OK) {
        cache.key = key;
        cache.log = &log;
        if (!options->no_sandbox)
            enter_sandbox(&cache, &log);
        status = hth_tiers_open(&cache, &tiers, err);
    }
    if (status == HEARTH_OK)
        status = hth_carrier_run(
            &(hth_carrier_options){ .tiers = tiers, .pem = pem, .control_fd = options->control_fd, .log = &log }, err);
    hth_tiers_close(tiers);
    hth_signing_key_free(key);
    hth_fleet_pem_free(pem);
    return status;
}

int hth_command_carrier(int argc, char **argv)
{
    hearth_error err = { .message = "" };
    carrier_options options;
    int exit_code, first;

    init(&options);
    first = hth_manual_parse(&hth_carrier_manual, NULL, argc, argv, &options, &exit_code);
    if (first < 0)
        return exit_code;
    if (first < argc)
        return hth_sayf(HTH_EXIT_USAGE, "'%s' is one argument too many; see 'hearth carrier --help'", argv[first]);
    if (options.control_fd < 0 || !options.fleet_file)
        return hth_sayf(HTH_EXIT_USAGE, "%s is missing; see 'hearth carrier --help'",
                        options.fleet_file ? "--control-fd" : "--fleet");
    if (fcntl(options.control_fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(options.control_fd, F_SETFD, FD_CLOEXEC) != 0)
        return hth_sayf(HTH_EXIT_USAGE, "--control-fd %d is no open descriptor", (int)options.control_fd);
    (void)signal(SIGPIPE, SIG_IGN); /* NOLINT(cert-err33-c): it cannot fail; OpenSSL writes without MSG_NOSIGNAL */
    return run(&options, &err) == HEARTH_OK ? HTH_EXIT_OK : hth_say(err.message, HTH_EXIT_FAILED);
}
