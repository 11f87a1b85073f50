/*
 * serve_command.c - `hearth serve`: runs the front with options from flags and the configuration file
 *
 *   flags -> file -> set of options -> files that they name -> serve
 *
 * SIGHUP repeats all of this. The front then switches to the new set, or keeps the old one.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "console/output.h"
#include "front/front.h"
#include "options/commands.h"
#include "options/llama_flags.h"
#include "options/model_source.h"
#include "options/serve_config.h"

typedef struct serve {
    hth_pool *pool; /* of the translated command line */
    int argc;
    char **argv;
    hth_serve_options flags;
    const hth_serve_set *set; /* at the start */
    char program[PATH_MAX];
} serve;

/* ---- hooks ---- */

static const hth_serve_set *set_of(const hth_server_options *options)
{
    return (const hth_serve_set *)options;
}

/*
 * The options of a set without errors; NULL with err if the front must keep the old set. Frees problems, which may be
 * NULL.
 */
static const hth_server_options *hand_out(hth_serve_set *set, hth_problems *problems, const char *all,
                                          hearth_error *err)
{
    if (set && problems->n_errors > 0) {
        hth_serve_set_free(&set->options);
        set = NULL;
    }
    if (!set)
        (void)hth_fail(err, problems ? HEARTH_MISUSE : HEARTH_NO_MEMORY, "%s%s",
                       problems ? hth_problems_first(problems) : "no memory",
                       problems && problems->n_errors > 1 ? all : ""); /* NULL reports a failure */
    free(problems);
    return set ? &set->options : NULL;
}

/* Store the warnings for the log. False if out of memory. */
static bool keep_warnings(hth_serve_set *set, const hth_problems *problems)
{
    const char **list = hth_pool_alloc(set->pool, (problems->n + 1) * sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; list && i < problems->n; i++) {
        const char *message = problems->list[i].message;

        if (!problems->list[i].is_warning)
            continue;
        list[n] = hth_pool_text(set->pool, message, strlen(message));
        if (!list[n++])
            return false;
    }
    set->options.warnings = list;
    set->options.n_warnings = n;
    return list != NULL;
}

static const hth_server_options *reload(const hth_server_options *current, void *user_data, hearth_error *err)
{
    serve *s = user_data;
    hth_problems *problems = calloc(1, sizeof(*problems));
    hth_serve_set *set;

    s->flags.named = set_of(current)->named;
    s->flags.n_named = set_of(current)->n_named;
    set = problems ? hth_serve_set_new(s->argc, s->argv, &s->flags, problems) : NULL;
    if (set && problems->n_errors == 0)
        hth_serve_set_check(set, false, problems);
    if (set && !keep_warnings(set, problems))
        hth_problems_add(problems, "no memory for the configuration");
    return hand_out(set, problems, " (and more; 'hearth serve --check' with the same flags shows all)", err);
}

static void release(const hth_server_options *options, void *user_data)
{
    (void)user_data;
    hth_serve_set_free(options);
}

static const hth_server_options *name_model(const hth_server_options *current, const char *name, const char *settings,
                                            void *user_data, hearth_error *err)
{
    hth_problems *problems = calloc(1, sizeof(*problems));

    (void)user_data;
    return hand_out(problems ? hth_serve_set_with(set_of(current), name, settings, problems) : NULL, problems,
                    " (and more)", err);
}

static const hth_server_options *forget_model(const hth_server_options *current, const char *name, void *user_data,
                                              hearth_error *err)
{
    hth_problems *problems;

    (void)user_data;
    if (!hth_serve_set_names(set_of(current), name)) {
        (void)hth_fail(err, HEARTH_NOT_FOUND,
                       "no model '%s' was named while the server runs; take one of the configuration out of the "
                       "configuration, and reload",
                       name); /* NULL reports a failure */
        return NULL;
    }
    problems = calloc(1, sizeof(*problems));
    return hand_out(problems ? hth_serve_set_without(set_of(current), name, problems) : NULL, problems, "", err);
}

static hearth_status read_pressure(const char *text, hth_pressure_settings *settings, void *user_data,
                                   hearth_error *err)
{
    (void)user_data;
    return hth_serve_pressure_read(text, settings, err);
}

static bool write_ports(const char *path, const uint16_t *ports, size_t n, hearth_error *err)
{
    hth_whole_file *file = NULL;
    hearth_status status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_REPLACE, &file, err);

    for (size_t i = 0; i < n && status == HEARTH_OK; i++) {
        char line[16];
        int length = snprintf(line, sizeof(line), "%u\n", ports[i]);

        status = hth_whole_file_write(file, line, (size_t)length, err);
    }
    return hth_whole_file_end(file, status, err) == HEARTH_OK;
}

static void print_address(const char *what, const hth_server_address *address, uint16_t port, bool has_tls)
{
    const char *scheme = has_tls ? "https" : "http";

    if (address->path)
        (void)fprintf(stderr, "%s unix:%s\n", what, address->path);
    else if (strchr(address->host, ':'))
        (void)fprintf(stderr, "%s %s://[%s]:%u\n", what, scheme, address->host, port);
    else
        (void)fprintf(stderr, "%s %s://%s:%u\n", what, scheme, address->host, port);
}

/* For users, for scripts that wait for it, and for log collectors. */
static void on_listening(const uint16_t *ports, size_t n, void *user_data)
{
    const serve *s = user_data;
    const hth_server_options *options = &s->set->options;
    hearth_error err;

    for (size_t i = 0; i < n; i++) {
        if (i < options->n_listen)
            print_address("listening on", &options->listen[i], ports[i], options->tls_certificate != NULL);
        else if (i == options->n_listen && hth_server_has_admin_address(options))
            print_address("operators' pages on", &options->admin, ports[i], false);
        else
            (void)fprintf(stderr, "listening for other nodes on %s, port %u\n", options->fleet.listen.host, ports[i]);
    }
    if (s->flags.port_file && !write_ports(s->flags.port_file, ports, n, &err))
        (void)fprintf(stderr, "hearth: warning: %s\n", err.message);
}

/* ---- the command ---- */

static int run(serve *s)
{
    const hth_front_hooks hooks = {
        .program = s->program,
        .reload = reload,
        .release = release,
        .name_model = name_model,
        .forget_model = forget_model,
        .read_pressure = read_pressure,
        .json = hth_serve_json,
        .on_listening = on_listening,
        .user_data = s,
    };
    hearth_error err = { .message = "" };
    hearth_status status;

    if (!hth_os_program_path(s->program, sizeof(s->program))) /* it runs the workers, too */
        return hth_say("cannot find the program's own file, which starts the workers; is /proc mounted?",
                       HTH_EXIT_FAILED);
    status = hth_front_run(&s->set->options, &hooks, &err);
    if (s->flags.port_file)
        (void)unlink(s->flags.port_file); /* it may not exist */
    if (status == HEARTH_OK)
        return HTH_EXIT_OK;
    hth_say_error(&err);
    return status == HEARTH_CANCELLED ? HTH_EXIT_INTERRUPTED : HTH_EXIT_FAILED;
}

static void print_summary(const hth_serve_set *set)
{
    const hth_serve_options *effective = &set->effective;

    (void)printf("ok: %zu model%s", set->options.n_models, set->options.n_models == 1 ? "" : "s");
    for (size_t i = 0; i < set->options.n_models; i++)
        (void)printf("%s%s", i == 0 ? " (" : ", ", set->models[i].name);
    (void)printf("%s, listening on", set->options.n_models > 0 ? ")" : "");
    for (size_t i = 0; i < effective->n_listen; i++)
        (void)printf("%s %s", i > 0 ? "," : "", effective->listen[i]);
    if (set->options.n_keys > 0)
        (void)printf(", %zu key%s", set->options.n_keys, set->options.n_keys == 1 ? "" : "s");
    else
        (void)printf(", no keys");
    (void)printf("%s\n", set->options.tls_certificate ? ", TLS" : "");
}

/* Act on the complete set, whose problems are known. */
static int act(serve *s, hth_problems *problems)
{
    const bool only_prints = s->flags.print_config && !s->flags.check;

    if (!only_prints && (problems->n_errors == 0 || s->flags.check)) /* --check reports all problems */
        hth_serve_set_check(s->set, s->flags.check, problems);
    hth_problems_print(problems, stderr);
    if (problems->n_errors > 0)
        return HTH_EXIT_FAILED;
    if (s->flags.check)
        print_summary(s->set);
    else if (!s->flags.print_config && s->set->serves_downloads && s->set->options.n_models > 0)
        (void)fprintf(
            stderr,
            "no model was named: serving the %zu of the hub's cache, each with the first request for it ('hearth "
            "models ls' lists them)\n",
            s->set->options.n_models);
    if (s->flags.print_config && !hth_serve_config_print(s->set, stdout) && !ferror(stdout))
        return hth_sayf(HTH_EXIT_FAILED, "the configuration cannot be printed: %s", strerror(errno));
    if (s->flags.print_config && (s->flags.n_api_keys > 0 || s->flags.api_key_file))
        (void)fputs("hearth: warning: the printed configuration lacks the keys of --api-key and --api-key-file; put "
                    "them into a file, which 'keys' names\n",
                    stderr);
    return s->flags.check || s->flags.print_config ? hth_output_end(HTH_EXIT_OK) : run(s);
}

static void init(void *options)
{
    hth_serve_options_init(options);
}

const hth_manual hth_serve_manual = {
    .name = "serve",
    .summary = "serve models with the APIs of OpenAI, Anthropic, Ollama, llama.cpp",
    .usage = "usage: hearth serve [-m [NAME=]FILE]... [--config FILE] [OPTIONS]\n"
             "\n"
             "Serves models over HTTP, with the APIs of OpenAI, Anthropic, Ollama and llama.cpp. "
             "Each model runs in a worker\n"
             "process. When a worker dies, a new one takes over and continues its requests. "
             "A prompt that was computed once is\n"
             "not computed again, also after a restart. "
             "Without a model it serves those that were downloaded, each with the\n"
             "first request for it.\n"
             "\n",
    .closing = "\nMost options are also keys of the configuration file; docs/operating.md explains them.\n"
               "SIZE is a number of bytes with an optional K, M, G or T, "
               "MS one of milliseconds or a time such as 30s or 5min.\n"
               "Most flags of llama-server are taken, too (docs/flags.md has the table), and\n"
               "its variables of the environment.\n"
               "SIGTERM ends the server once running requests are done, "
               "SIGHUP reads configuration, keys and certificates anew.\n"
               "\n"
               "  hearth serve -m models/hearth-tiny.gguf\n"
               "  hearth serve --config /etc/hearth/hearth.conf --check\n",
    .options = &hth_serve_flags,
    .init = init,
    .n_bytes = sizeof(hth_serve_options),
};

static bool parse(serve *s, hth_problems *problems, int *exit_out)
{
    int first;

    *exit_out = HTH_EXIT_USAGE;
    hth_serve_options_init(&s->flags);
    (void)hth_llama_flags_translate(s->pool, &hth_serve_flags, s->argc, s->argv, getenv, &s->argc, &s->argv,
                                    problems); /* problems has the errors */
    if (problems->n_errors > 0) {
        hth_problems_print(problems, stderr);
        return false;
    }
    first = hth_manual_parse(&hth_serve_manual, NULL, s->argc, s->argv, &s->flags, exit_out);
    if (first < 0)
        return false;
    if (s->flags.print_keys) {
        hth_serve_keys_print(stdout);
        *exit_out = HTH_EXIT_OK;
        return false;
    }
    return first == s->argc || hth_sayf(false, "unexpected argument '%s'; a model is given with -m", s->argv[first]);
}

/*
 * Download missing models of the command line before anything waits for the server. A reload does not, because it must
 * not block a running server.
 */
static bool download_models(const serve *s)
{
    for (size_t i = 0; i < s->flags.n_models; i++) {
        char path[PATH_MAX];
        hearth_error err;

        if (hth_model_source_find(hth_serve_given_path(s->flags.models[i]), true, false, path, &err) != HEARTH_OK)
            return hth_say(err.message, false);
    }
    return true;
}

static int load_and_act(serve *s, hth_problems *problems)
{
    const bool may_download = !s->flags.is_offline && !s->flags.check && !s->flags.print_config;

    if (may_download && !download_models(s))
        return HTH_EXIT_FAILED;
    s->set = hth_serve_set_new(s->argc, s->argv, &s->flags, problems);
    if (s->set)
        return act(s, problems);
    hth_problems_print(problems, stderr);
    return HTH_EXIT_FAILED;
}

int hth_command_serve(int argc, char **argv)
{
    serve *s = calloc(1, sizeof(*s));
    hth_problems *problems = calloc(1, sizeof(*problems));
    int exit_code = HTH_EXIT_FAILED;

    if (s)
        s->pool = hth_pool_new();
    if (!s || !problems || !s->pool) {
        (void)fputs("hearth: no memory\n", stderr);
    } else {
        s->argc = argc;
        s->argv = argv;
        if (parse(s, problems, &exit_code))
            exit_code = load_and_act(s, problems);
        hth_serve_set_free(s->set ? &s->set->options : NULL);
    }
    if (s)
        hth_pool_free(s->pool);
    free(problems);
    free(s);
    return exit_code;
}
