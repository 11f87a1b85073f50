#include "options/bench_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/output.h"
#include "options/commands.h"
#include "options/values.h"

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* "512,2048" */
static bool read_list(const char *shown, const char *value, uint32_t high, hth_bench_list *out, hearth_error *err)
{
    hth_bench_list list = { .n = 0 };
    char *copy = strdup(value ? value : ""), *rest = copy, *item;
    bool ok = copy != NULL;

    while (ok && (item = strsep(&rest, ","))) {
        if (list.n == HTH_BENCH_LIST_MAX)
            ok = hth_value_too_many(shown, item, HTH_BENCH_LIST_MAX, err);
        else
            ok = hth_value_u32(shown, item, 1, high, &list.values[list.n++], err);
    }
    free(copy);
    if (!ok)
        return false;
    qsort(list.values, list.n, sizeof(list.values[0]), compare);
    *out = list;
    return true;
}

static bool set_lengths(void *options, const char *shown, const char *value, hearth_error *err)
{
    return read_list(shown, value, 1 << 24, &((hth_bench_options *)options)->lengths, err);
}

static bool set_sequences(void *options, const char *shown, const char *value, hearth_error *err)
{
    return read_list(shown, value, HTH_MODEL_PARALLEL_MAX, &((hth_bench_options *)options)->sequences, err);
}

static bool set_quick(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_bench_options *o = options;

    (void)shown, (void)value, (void)err;
    o->lengths = (hth_bench_list){ .values = { 256, 1024 }, .n = 2 };
    o->sequences = (hth_bench_list){ .values = { 1, 4 }, .n = 2 };
    o->seconds = 10;
    return true;
}

#define AT(field) offsetof(hth_bench_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Measures" },
    { "quick", 0, HTH_OPTION_OWN, NULL,
      "a look: the same as --lengths 256,1024 --sequences 1,4 --seconds 10; later options override these",
      .read = set_quick, .is_common = true },
    { "lengths", 0, HTH_OPTION_OWN, "N,...", "lengths of prompts in tokens (default 512,2048,8192)",
      .read = set_lengths, .is_common = true },
    { "sequences", 0, HTH_OPTION_OWN, "N,...", "numbers of replies at once (default 1,2,4,8)", .read = set_sequences,
      .is_common = true },
    { "seconds", 0, HTH_OPTION_NUMBER, "S",
      "time for all measures; lengths that do not fit are left out, but the shortest", .offset = AT(seconds),
      .low = 0.1, .high = 1e6, .is_common = true },
    { "reps", 0, HTH_OPTION_U32, "N", "repeat each measure so often, if time allows, and take the median",
      .offset = AT(reps), .low = 1, .high = HTH_BENCH_REPS_MAX, .is_common = true },
    { "seed", 0, HTH_OPTION_U32, "N", "seed of the prompts and of the arrivals", .offset = AT(seed), .low = 0,
      .high = UINT32_MAX },
    { "cache", 0, HTH_OPTION_TEXT, "DIR",
      "where to put the temporary folder of the tier disk (default: the cache directory)", .offset = AT(folder),
      .is_common = true },
    { "ram-files", 0, HTH_OPTION_TEXT, "DIR", "likewise for the tier tmpfs (default: /dev/shm)", .offset = AT(shm) },
    { .kind = HTH_OPTION_HEADING, .help = "Server" },
    { "url", 0, HTH_OPTION_TEXT, "URL",
      "measure the server at this address, with OpenAI's API, instead of a model here: conversations, agents and "
      "questions about documents arrive for --seconds",
      .offset = AT(url), .is_common = true },
    { "model", 0, HTH_OPTION_TEXT, "NAME", "a model of the server (default: its first)", .offset = AT(model),
      .is_common = true },
    { "rate", 0, HTH_OPTION_NUMBER, "N", "requests that arrive a second, on average", .offset = AT(rate), .low = 0.001,
      .high = 1000, .is_common = true },
    { "api-key", 0, HTH_OPTION_TEXT, "KEY",
      "the key for it (default: $HEARTH_API_KEY). Other users of this machine can see it: better use the variable",
      .offset = AT(key) },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "json", 0, HTH_OPTION_TEXT, "FILE", "write the numbers to this file, too", .offset = AT(json_file),
      .is_common = true },
    { "html", 0, HTH_OPTION_TEXT, "FILE",
      "write the page with plots to this file (default: " HTH_BENCH_PAGE ", with --url " HTH_BENCH_PAGE_BEGIN
      "-HOST-PORT" HTH_BENCH_PAGE_END ", in this folder, if no other file has the name; --compare: none)",
      .offset = AT(html_file), .is_common = true },
    { "no-html", 0, HTH_OPTION_FLAG, NULL, "write no page", .offset = AT(no_html), .is_common = true },
    { "compare", 0, HTH_OPTION_FLAG, NULL, "measure nothing: compare two files of --json", .offset = AT(compares),
      .is_common = true },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress and no warnings", .offset = AT(quiet), .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log, including the engine's", .offset = AT(verbose) },
    { .kind = HTH_OPTION_HEADING, .help = "Engine" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Help" },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options", .is_common = true },
};

static void init(void *options)
{
    hth_bench_options *out = options;

    *out = (hth_bench_options){
        .lengths = { .values = { 512, 2048, 8192 }, .n = 3 },
        .sequences = { .values = { 1, 2, 4, 8 }, .n = 4 },
        .seconds = 60,
        .reps = 3,
        .seed = 1,
        .rate = 2,
        .shm = "/dev/shm",
    };
    hth_model_setup_init(&out->setup);
}

const hth_manual hth_bench_manual = {
    .name = "bench",
    .summary = "measure a model on this machine, or a server, with plots",
    .usage = "usage: hearth bench MODEL [OPTIONS]\n"
             "       hearth bench --url URL [OPTIONS]\n"
             "       hearth bench --compare A.json B.json [--html FILE]\n"
             "\n"
             "Measures a model on this machine: new prompts against known ones by tier, prefill,\n"
             "generation, and the cost of the cache. MODEL is named as for 'hearth run'.\n"
             "With --url it measures a server, Hearth's or another one, under a load of requests.\n"
             "Both write tables, and a page with plots for a browser.\n"
             "\n",
    .closing = "\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n"
               "\n"
               "  hearth bench models/hearth-tiny.gguf --quick\n"
               "  hearth bench model.gguf --json today.json --html today.html\n"
               "  hearth bench --url http://127.0.0.1:8080 --rate 4 --json hearth.json\n",
    .options = HTH_OPTION_ROWS(rows),
    .init = init,
    .n_bytes = sizeof(hth_bench_options),
    .arguments = HTH_COMPLETE_MODEL,
};

static bool check(hth_bench_options *o, int n_arguments, char **arguments)
{
    if (o->compares && n_arguments != 2)
        return hth_say("--compare needs two files that 'hearth bench --json' wrote", false);
    if (o->compares && o->url)
        return hth_say("--compare and --url exclude each other; give one", false);
    if (o->html_file && o->no_html)
        return hth_say("--html and --no-html exclude each other; give one", false);
    if (o->url && n_arguments > 0)
        return hth_say("with --url the server has the model; choose one of its models with --model", false);
    if (!o->compares && !o->url && n_arguments != 1)
        return hth_say("bench needs one MODEL, a GGUF file or OWNER/REPO[:QUANT] of a hub, or --url; 'hearth bench "
                       "--help' shows an example",
                       false);
    o->n_ctx = o->setup.model.n_ctx;
    for (int i = 0; i < n_arguments; i++)
        o->arguments[i] = arguments[i];
    return true;
}

bool hth_bench_options_parse(int argc, char **argv, hth_bench_options *out, int *exit_out)
{
    int first;

    init(out);
    first = hth_manual_parse(&hth_bench_manual, NULL, argc, argv, out, exit_out);
    return first >= 0 && check(out, argc - first, argv + first);
}
