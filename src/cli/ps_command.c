/*
 * ps_command.c - `hearth ps`: the models of a running server, their state and their memory
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/operator_page.h"
#include "console/output.h"
#include "console/units.h"
#include "options/commands.h"

enum { NAME_COLUMNS = 15, MEMORY_NAME_COLUMNS = 22, SIZE_BYTES = 32 };

typedef struct ps_options {
    hth_operator server;
    bool memory;
    bool watch;
    bool names;
    bool json;
} ps_options;

#define AT(field) offsetof(ps_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "memory", 0, HTH_OPTION_FLAG, NULL,
      "show the memory that each model is expected to take, by the metadata of its file, and the most that was "
      "measured",
      .offset = AT(memory) },
    { "watch", 'w', HTH_OPTION_FLAG, NULL,
      "show the models again each second, until Ctrl-C; without a terminal: only when more than the times has changed",
      .offset = AT(watch) },
    { "names", 0, HTH_OPTION_FLAG, NULL, "the names alone, one a line", .offset = AT(names) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "print the server's page as it is, one JSON object", .offset = AT(json) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

const hth_manual hth_ps_manual = {
    .name = "ps",
    .summary = "show the models of a running server, their state and memory",
    .usage =
        "usage: hearth ps [--url URL] [--memory] [--watch | --json | --names]\n"
        "\n"
        "Shows the models of a running server: the state of their workers, the place of their weights, their memory,\n"
        "requests at work and waiting, the time since their last use, "
        "the time until they leave memory, and the part of\n"
        "prompts that came from the cache. Only operators see them: start the server with --admin unix:FILE and ask\n"
        "there, or use an operator's key ('hearth help key').\n"
        "\n"
        "  hearth ps --url unix:/run/hearth/admin.sock\n"
        "\n",
    .closing = "\nExit codes: 0 done, 1 the server does not answer, or refuses; 2 wrong usage.\n",
    .options = HTH_OPTION_ROWS(rows),
};

/* A number in the object, or in its member object inner; 0 if it is missing. */
static uint64_t number(const json_t *object, const char *name, const char *inner)
{
    const json_t *value = json_object_get(object, name);

    if (inner)
        value = json_object_get(value, inner);
    return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

static void print_model(const json_t *model)
{
    const char *name = json_string_value(json_object_get(model, "name"));
    const char *state =
        json_object_get(model, "hash_progress") ? "hashing" : json_string_value(json_object_get(model, "state"));
    const char *residency = json_string_value(json_object_get(model, "residency"));
    const uint64_t n_prompt = number(model, "cache", "tokens_prompt"), idle_ms = number(model, "idle_ms", NULL);
    char memory[32], idle[32] = "-", leaves[32] = "-", cached[32] = "-";

    if (idle_ms > 0)
        (void)hth_time_text(idle_ms, idle);
    if (json_object_get(model, "leaves_in_ms"))
        (void)hth_time_text(number(model, "leaves_in_ms", NULL), leaves);
    else if (json_is_true(json_object_get(model, "pinned")))
        (void)snprintf(leaves, sizeof(leaves), "pinned");
    if (n_prompt > 0)
        (void)snprintf(cached, sizeof(cached), "%.0f%%",
                       100.0 * (double)number(model, "cache", "tokens_cached") / (double)n_prompt);
    hth_output_line(stdout, "%-*s %-8s %-13s %10s %4llu %4llu %7s %7s %4s", NAME_COLUMNS, name ? name : "?",
                    state ? state : "?", residency ? residency : "?",
                    hth_size_text(number(model, "memory_bytes", NULL), memory),
                    (unsigned long long)number(model, "running_requests", NULL),
                    (unsigned long long)number(model, "waiting_requests", NULL), idle, leaves, cached);
}

/* A size, or "-" for 0. */
static const char *size_or_dash(uint64_t bytes, char text[SIZE_BYTES])
{
    return bytes > 0 ? hth_size_text(bytes, text) : "-";
}

/*
 * Print the parts of a model on the host or a device. expected is the total there, including other memory; 0: the parts
 * are all.
 */
static void print_parts(const char *name, const json_t *share, uint64_t expected, uint64_t measured)
{
    const uint64_t weights = number(share, "weight_bytes", NULL), cells = number(share, "cell_bytes", NULL),
                   buffers = number(share, "compute_bytes", NULL);
    char text[5][SIZE_BYTES];

    hth_output_line(stdout, "%-*s %10s %10s %10s %10s %10s", MEMORY_NAME_COLUMNS, name, size_or_dash(weights, text[0]),
                    size_or_dash(cells, text[1]), size_or_dash(buffers, text[2]),
                    size_or_dash(expected > 0 ? expected : weights + cells + buffers, text[3]),
                    size_or_dash(measured, text[4]));
}

/* Print the choice of --fit, if there was one. */
static void print_fit(const json_t *needs)
{
    const json_t *fit = json_object_get(needs, "fit");

    if (!fit)
        return;
    printf("  context %llu of %llu", (unsigned long long)number(needs, "n_ctx", NULL),
           (unsigned long long)number(fit, "n_ctx_max", NULL));
    if (number(fit, "n_layers_max", NULL) > 0)
        printf(", %llu of %llu layers on GPUs", (unsigned long long)number(fit, "n_layers", NULL),
               (unsigned long long)number(fit, "n_layers_max", NULL));
    printf("\n");
}

/* Print the memory of the process, without rows, then that on each device. */
static void print_memory(const json_t *model)
{
    const char *name = json_string_value(json_object_get(model, "name"));
    const json_t *needs = json_object_get(model, "expected"), *device;
    char place[NAME_COLUMNS];
    size_t i;

    print_parts(name ? name : "?", needs, number(needs, "host_bytes", NULL), number(model, "measured_bytes", NULL));
    json_array_foreach(json_object_get(needs, "devices"), i, device)
    {
        name = json_string_value(json_object_get(device, "name"));
        (void)snprintf(place, sizeof(place), "  on %s", name ? name : "?"); /* cut if too long */
        print_parts(place, device, 0, 0);
    }
    print_fit(needs);
}

/* Print the total of all models on the host or a device. */
static void print_pool(const char *name, const json_t *pool)
{
    const bool is_limited = json_object_get(pool, "limit_bytes") != NULL;
    char used[SIZE_BYTES], limit[SIZE_BYTES] = "";

    if (is_limited)
        (void)hth_size_text(number(pool, "limit_bytes", NULL), limit);
    hth_output_line(stdout, "%s: %s%s%s", name, hth_size_text(number(pool, "used_bytes", NULL), used),
                    is_limited ? " of " : "", limit);
}

static int print_page(const json_t *page, bool memory)
{
    const json_t *models = json_object_get(page, "models"), *pools = json_object_get(page, "memory"), *pool;
    const char *name;
    size_t i;
    json_t *model;

    if (!json_is_array(models))
        return hth_say("the answer is not that of a Hearth server; --url names the address for operators",
                       HTH_EXIT_FAILED);
    if (memory)
        printf("%-*s %10s %10s %10s %10s %10s\n", MEMORY_NAME_COLUMNS, "MODEL", "WEIGHTS", "CELLS", "BUFFERS",
               "EXPECTED", "MEASURED");
    else
        printf("%-*s %-8s %-13s %10s %4s %4s %7s %7s %4s\n", NAME_COLUMNS, "MODEL", "STATE", "RESIDENCY", "MEMORY",
               "BUSY", "WAIT", "UNUSED", "LEAVES", "HITS");
    json_array_foreach((json_t *)models, i, model)
    {
        if (memory)
            print_memory(model);
        else
            print_model(model);
    }
    print_pool("memory", pools);
    if (memory)
        print_pool("of it, rows", json_object_get(pools, "rows"));
    json_array_foreach(json_object_get(pools, "devices"), i, pool)
    {
        name = json_string_value(json_object_get(pool, "name"));
        print_pool(name ? name : "?", pool);
    }
    return hth_output_end(HTH_EXIT_OK);
}

/* The page without times and sizes; NULL if out of memory. The caller frees it. */
static char *lasting_facts(const json_t *page)
{
    static const char *const names[] = {
        "name", "state", "residency", "pinned", "running_requests", "waiting_requests"
    };
    json_t *facts = json_array(), *model;
    char *text;
    size_t i;

    json_array_foreach(json_object_get(page, "models"), i, model)
    {
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            json_t *value = json_object_get(model, names[k]);

            (void)json_array_append_new(facts, value ? json_incref(value) : json_null());
        }
    }
    text = json_dumps(facts, 0);
    json_decref(facts);
    return text;
}

/*
 * Print a page of --watch. On a terminal it replaces the last one. Elsewhere it is appended, unless the facts are the
 * same; *shown has those of the last page.
 */
static int print_again(const json_t *page, bool memory, char **shown)
{
    const bool is_terminal = isatty(STDOUT_FILENO);
    char *facts = lasting_facts(page);
    int exit_code = HTH_EXIT_OK;

    if (is_terminal || !facts || !*shown || strcmp(facts, *shown) != 0) {
        if (is_terminal)
            (void)fputs("\033[H\033[J", stdout); /* clears the screen */
        else if (*shown)
            (void)putchar('\n');
        exit_code = print_page(page, memory);
    }
    free(*shown);
    *shown = facts;
    return exit_code;
}

static int print_names(const json_t *page)
{
    json_t *model;
    size_t i;

    json_array_foreach(json_object_get(page, "models"), i, model)
    {
        const char *name = json_string_value(json_object_get(model, "name"));

        if (name)
            hth_output_line(stdout, "%s", name);
    }
    return hth_output_end(HTH_EXIT_OK);
}

/* Request and print once. shown is as above, for --watch. */
static int show(const ps_options *options, char **shown)
{
    hth_buffer body = { .text = NULL };
    int exit_code = hth_operator_ask(&options->server, "/admin/models", NULL, &body);
    json_t *page = exit_code == HTH_EXIT_OK ? json_loadb(hth_buffer_text(&body), body.n, 0, NULL) : NULL;

    if (exit_code == HTH_EXIT_OK && options->json) {
        (void)hth_output_text(hth_buffer_text(&body), body.n); /* failures are reported at the end */
        exit_code = hth_output_end(HTH_EXIT_OK);
    } else if (exit_code == HTH_EXIT_OK && options->names) {
        exit_code = print_names(page);
    } else if (exit_code == HTH_EXIT_OK) {
        exit_code = options->watch ? print_again(page, options->memory, shown) : print_page(page, options->memory);
    }
    json_decref(page);
    hth_buffer_deinit(&body);
    return exit_code;
}

static int watch(const ps_options *options)
{
    const struct timespec pause = { .tv_sec = 1 };
    char *shown = NULL;
    int exit_code;

    while ((exit_code = show(options, &shown)) == HTH_EXIT_OK)
        (void)nanosleep(&pause, NULL); /* Ctrl-C ends the program */
    free(shown);
    return exit_code;
}

int hth_command_ps(int argc, char **argv)
{
    ps_options options = { .json = false };
    int exit_code;
    const int first = hth_manual_parse(&hth_ps_manual, NULL, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    if (first < argc)
        return hth_sayf(HTH_EXIT_USAGE, "ps takes no '%s'; 'hearth ps --help' lists its options", argv[first]);
    if (options.watch && (options.json || options.names))
        return hth_say("--watch is for people; programs read the stream GET /admin/events", HTH_EXIT_USAGE);
    return options.watch ? watch(&options) : show(&options, NULL);
}
