/*
 * embed_command.c - `hearth embed`: vectors of texts, or their scores for a query, in one process
 *
 * Lines are read and embedded a thousand at a time, and results are written when their lines are done. So a file of any
 * length needs memory for only a thousand lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/open_model.h"

enum { LINES_AT_ONCE = 1024 };

typedef struct embed {
    hth_model_setup setup;
    const char *file;
    const char *query;
    int32_t norm;
    uint32_t dimensions;
    bool truncate;
    bool json;
    bool quiet;
    bool verbose;

    char **texts; /* from the command line; NULL: from the file */
    size_t n_texts;
    hth_own_model model;
    uint64_t request_id;
    const hearth_embeddings *embeddings; /* of the last request */
    size_t n_done;                       /* inputs that have been written */
} embed;

/* ---- options ---- */

#define AT(field) offsetof(embed, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Input" },
    { "file", 'f', HTH_OPTION_TEXT, "FILE", "read texts from a file, one a line; '-' is standard input",
      .offset = AT(file), .is_common = true },
    { "query", 0, HTH_OPTION_TEXT, "TEXT", "score each text as an answer to this one; the model must be a reranker",
      .offset = AT(query), .is_common = true },
    { "truncate", 0, HTH_OPTION_FLAG, NULL, "cut texts that are too long (default: they are an error)",
      .offset = AT(truncate), .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "norm", 0, HTH_OPTION_I32, "P",
      "norm that vectors are divided by: 2: Euclidean, 1: taxicab, more: that p; 0: the largest value becomes 32760; "
      "-1: none",
      .offset = AT(norm), .low = -1, .high = 64, .is_common = true },
    { "dimensions", 0, HTH_OPTION_U32, "N", "keep so many leading values of each vector (default: all)",
      .offset = AT(dimensions), .low = 1, .high = INT32_MAX, .is_common = true },
    { "json", 0, HTH_OPTION_FLAG, NULL, "one object a line: index, tokens, and embedding or scores (default: an array)",
      .offset = AT(json), .is_common = true },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress and no warnings", .offset = AT(quiet), .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log, including the engine's", .offset = AT(verbose),
      .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Engine" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Help" },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options", .is_common = true },
};

static void init(void *options)
{
    embed *e = options;

    hth_model_setup_init(&e->setup);
    e->setup.runtime.cache_disabled = true; /* nothing is stored */
    e->norm = hearth_embed_request_default().norm;
}

const hth_manual hth_embed_manual = {
    .name = "embed",
    .summary = "make embeddings of texts, or score them for a query",
    .usage = "usage: hearth embed MODEL [TEXT... | -f FILE] [OPTIONS]\n"
             "\n"
             "Writes the embedding of each text as a line: an array of numbers. With --query, the lines "
             "have scores.\nWithout a TEXT and -f, texts are read from standard input, one a line.\n"
             "\n",
    .closing = "\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n"
               "\n"
               "  hearth embed bge.gguf 'a fox' 'a dog'\n"
               "  hearth embed bge.gguf -f lines.txt --json > vectors.jsonl\n"
               "  hearth embed reranker.gguf --query 'What is a fox?' -f documents.txt\n",
    .options = HTH_OPTION_ROWS(rows),
    .init = init,
    .n_bytes = sizeof(embed),
    .arguments = HTH_COMPLETE_MODEL " " HTH_COMPLETE_NOTHING,
};

static bool check(embed *e, int n_arguments, char **arguments)
{
    if (n_arguments == 0)
        return hth_say(
            "embed needs a MODEL, a GGUF file or OWNER/REPO[:QUANT] of a hub; 'hearth embed --help' shows an example",
            false);
    e->setup.path = arguments[0];
    e->texts = n_arguments > 1 ? arguments + 1 : NULL;
    e->n_texts = (size_t)n_arguments - 1;
    if (e->texts && e->file)
        return hth_say("texts on the command line and -f exclude each other; give them once", false);
    if (!e->texts && !e->file && isatty(STDIN_FILENO))
        return hth_say("no text; give texts behind the model, with -f FILE, or on standard input", false);
    if (!e->texts && !e->file)
        e->file = "-";
    return true;
}

static bool parse(embed *e, int argc, char **argv, int *exit_out)
{
    int first;

    init(e);
    first = hth_manual_parse(&hth_embed_manual, NULL, argc, argv, e, exit_out);
    return first >= 0 && check(e, argc - first, argv + first);
}

/* ---- output ---- */

static void print_vector(const float *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        (void)fputs(i > 0 ? "," : "[", stdout);
        if (isfinite(values[i]))
            (void)printf("%.9g", (double)values[i]);
        else
            (void)fputs("null", stdout);
    }
    (void)fputs("]", stdout);
}

/* With pooling none, an input has several vectors: one per line, or an array in an object. */
static void print_input(const embed *e, size_t i)
{
    const hearth_embeddings *found = e->embeddings;
    bool is_list = found->pooling == HEARTH_POOLING_NONE;

    if (e->json)
        (void)printf("{\"index\":%zu,\"tokens\":%u,\"%s\":%s", e->n_done + i, found->n_tokens[i],
                     found->pooling == HEARTH_POOLING_RANK ? "scores" : "embedding", is_list ? "[" : "");
    for (uint32_t k = 0; k < found->n_vectors[i]; k++) {
        if (e->json && k > 0)
            (void)fputs(",", stdout);
        print_vector(found->vectors[i] + (size_t)k * found->n_values, found->n_values);
        if (!e->json)
            (void)fputs("\n", stdout);
    }
    if (e->json)
        (void)printf("%s}\n", is_list ? "]" : "");
}

/* ---- work ---- */

static void take(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    embed *e = user_data;

    (void)id;
    e->embeddings = hearth_embeddings_ref(embeddings);
}

static void cancel(void *user_data)
{
    const embed *e = user_data;

    (void)hearth_cancel(e->model.open.model, e->request_id, NULL); /* if not found, it has ended */
}

/* Embed n texts and write the results; false, with a message, on failure. */
static bool embed_texts(embed *e, char *const *texts, size_t n)
{
    hearth_embed_request request = hearth_embed_request_default();
    hearth_embed_input inputs[LINES_AT_ONCE];
    hearth_error err = { .message = "" };
    hearth_status status;

    for (size_t i = 0; i < n; i++)
        inputs[i] = (hearth_embed_input){ .struct_size = sizeof(inputs[i]), .text = texts[i] };
    request.inputs = inputs;
    request.n_inputs = n;
    request.query = e->query;
    request.norm = e->norm;
    request.dimensions = e->dimensions;
    request.truncate = e->truncate;
    request.on_done = take;
    request.user_data = e;
    e->embeddings = NULL;
    status = hearth_embed_submit(e->model.open.model, &request, &e->request_id, &err);
    if (status == HEARTH_OK) {
        hth_own_model_on_interrupt(&e->model, cancel, e);
        (void)hearth_wait(e->model.open.model, e->request_id, UINT32_MAX, NULL); /* it was submitted */
        hth_own_model_on_interrupt(&e->model, NULL, NULL);
        status = e->embeddings->status;
        err = e->embeddings->error;
    }
    if (status != HEARTH_OK) {
        if (!atomic_load(&e->model.interrupted) && n > 1)
            (void)hth_sayf(0, "of texts %zu to %zu: %s", e->n_done + 1, e->n_done + n, err.message);
        else if (!atomic_load(&e->model.interrupted))
            hth_say_error(&err);
    } else {
        for (size_t i = 0; i < n; i++)
            print_input(e, i);
    }
    hearth_embeddings_unref(e->embeddings);
    e->n_done += n;
    return status == HEARTH_OK;
}

static bool embed_arguments(embed *e)
{
    bool ok = true;

    for (size_t i = 0; i < e->n_texts && ok; i += LINES_AT_ONCE)
        ok = embed_texts(e, e->texts + i, e->n_texts - i < LINES_AT_ONCE ? e->n_texts - i : LINES_AT_ONCE);
    return ok;
}

/* Copy the next lines of the file; *n_out is 0 if none are left. */
static bool read_lines(hth_line_reader *reader, char **lines, size_t *n_out, hearth_error *err)
{
    size_t n = 0, n_bytes;
    uint64_t number;

    while (n < LINES_AT_ONCE && !hth_line_reader_is_done(reader)) {
        const char *line = hth_line_reader_next(reader, &n_bytes, &number);

        if (!line && !hth_line_reader_is_done(reader) && hth_line_reader_fill(reader, err) != HEARTH_OK)
            break;
        if (!line)
            continue;
        if (strlen(line) != n_bytes) {
            (void)snprintf(err->message, sizeof(err->message), "%s, line %llu has a zero byte",
                           hth_line_reader_name(reader), (unsigned long long)number);
            break;
        }
        lines[n] = strdup(line);
        if (!lines[n]) {
            (void)snprintf(err->message, sizeof(err->message), "no memory for a line");
            break;
        }
        n++;
    }
    *n_out = n;
    return !err->message[0];
}

static bool embed_file(embed *e)
{
    char *lines[LINES_AT_ONCE];
    hearth_error err = { .message = "" };
    hth_line_reader *reader = NULL;
    bool ok = hth_line_reader_open(e->file, &reader, &err) == HEARTH_OK;
    size_t n = 1;

    while (ok && n > 0 && !atomic_load(&e->model.interrupted)) {
        ok = read_lines(reader, lines, &n, &err);
        if (ok && n > 0 && !embed_texts(e, lines, n)) {
            ok = false;
            err.message[0] = '\0'; /* already reported */
        }
        for (size_t i = 0; i < n; i++)
            free(lines[i]);
    }
    hth_line_reader_close(reader);
    return ok || (err.message[0] && hth_say(err.message, false));
}

int hth_command_embed(int argc, char **argv)
{
    embed *e = calloc(1, sizeof(*e));
    int exit_code = HTH_EXIT_FAILED;

    if (!e)
        return hth_say("no memory", HTH_EXIT_FAILED);
    if (!parse(e, argc, argv, &exit_code)) {
        free(e);
        return exit_code;
    }
    exit_code = HTH_EXIT_FAILED;
    e->setup.model.n_parallel = 1;
    e->setup.model.fingerprint_mode = HEARTH_FINGERPRINT_FAST_UNSAFE; /* no row is read or stored */
    if (!hth_own_model_find(&e->model, &e->setup, e->quiet, e->verbose, "Ctrl-C will end the program at once")) {
        free(e);
        return exit_code;
    }
    if (hth_own_model_load(&e->model) && (e->texts ? embed_arguments(e) : embed_file(e)))
        exit_code = HTH_EXIT_OK;
    exit_code = hth_output_end(exit_code);
    if (atomic_load(&e->model.interrupted))
        exit_code = HTH_EXIT_INTERRUPTED;
    hth_open_model_close(&e->model.open);
    return exit_code; /* e is never freed (open_model.h) */
}
