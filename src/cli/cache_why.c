/*
 * cache_why.c - `hearth cache why`: why was this prompt cold?
 *
 * Takes the command line of the `hearth run` in question, so that model, parameters, salt and prompt are the same, and
 * asks the library. It loads the model but evaluates nothing; it reads the cache but adds nothing.
 */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "base/controls.h"
#include "cli/cache_options.h"
#include "cli/result_json.h"
#include "console/output.h"
#include "console/text_file.h"
#include "options/commands.h"
#include "options/model_source.h"
#include "options/open_model.h"
#include "options/run_options.h"
#include "rows/directory.h"

enum {
    BEFORE_TOKENS = 16,  /* shown before the token where the prompt diverged */
    RAM_BYTES = 64 << 20 /* for rows that are read */
};

typedef struct answer {
    hearth_explanation explanation;
    char *before;   /* text before the token where the prompt diverged; NULL: it did not */
    size_t n_plain; /* control-token names in the messages that are plain text */
} answer;

/* ---- asking ---- */

/* HEARTH_NOT_FOUND if nothing was ever cached in a directory of the options. */
static hearth_status check_used(const hth_model_setup *setup, hearth_error *err)
{
    char usual[HTH_CACHE_PATH_BYTES];
    const char *directory = setup->runtime.cache_directory;

    if (!directory && !hth_cache_default_directory(usual, sizeof(usual)))
        return HEARTH_OK; /* opening it will fail with the reason */
    directory = directory ? directory : usual;
    if (hth_cache_command_was_used(directory))
        return HEARTH_OK;
    for (size_t i = 0; i < setup->runtime.n_more_directories; i++)
        if (hth_cache_command_was_used(setup->more_directories[i]))
            return HEARTH_OK;
    return hth_cache_command_fail_empty(directory, err);
}

static bool is_ended(void *user_data)
{
    (void)user_data; /* Ctrl-C ends the program */
    return false;
}

/* Open a cache to which nothing is added, and load the model. */
static hearth_status load(hth_run_options *options, hth_open_model *open, hearth_error *err)
{
    hearth_runtime_options *runtime = &options->setup.runtime;

    if (runtime->ram_bytes_max == 0)
        runtime->ram_bytes_max = RAM_BYTES;
    runtime->disk_bytes_max = UINT64_MAX; /* nothing is written, and the recorded quota is kept */
    runtime->ram_file_bytes_max = UINT64_MAX;
    *open = (hth_open_model){ .setup = &options->setup, .is_quiet = options->quiet, .is_ended = is_ended };
    hth_progress_init(&open->progress, false);
    return hth_open_model_load(open, err);
}

/* The text of the tokens before the one where the prompt diverged from the known prefix. */
static hearth_status text_before(hearth_model *model, const hearth_request *request, const hearth_explanation *e,
                                 char **out, hearth_error *err)
{
    uint32_t begin = e->left_at > BEFORE_TOKENS ? e->left_at - BEFORE_TOKENS : 0;
    hearth_token *tokens = calloc(e->prompt_tokens, sizeof(*tokens));
    hearth_status status = HEARTH_NO_MEMORY;
    size_t n = 0;

    if (tokens)
        status = hearth_prompt_tokenize(model, request, tokens, e->prompt_tokens, &n, err);
    if (status == HEARTH_OK)
        status = hearth_detokenize(model, tokens + begin, e->left_at - begin, true, out, NULL, err);
    free(tokens);
    return status;
}

static hearth_status ask(hearth_model *model, const hth_run_options *options, answer *out, hearth_error *err)
{
    hearth_request request = hearth_request_default();
    char *text = options->prompt ? strdup(options->prompt) : hth_text_file_read(options->prompt_file);
    hearth_status status;

    if (!text)
        return HEARTH_FAILED; /* said */
    request.tokenize_flags = options->request.tokenize_flags;
    request.no_cache_read = options->request.no_cache_read;
    out->explanation = (hearth_explanation){ .struct_size = sizeof(out->explanation) };
    status = hth_prompt_render(model, options, text, &request, err);
    if (status == HEARTH_OK)
        status = hearth_explain(model, &request, &out->explanation, err);
    out->n_plain = request.chat ? request.chat->n_plain : 0;
    if (status == HEARTH_OK && out->explanation.left_at < out->explanation.prompt_tokens)
        status = text_before(model, &request, &out->explanation, &out->before, err);
    hearth_chat_prompt_free(request.chat);
    free(text);
    return status;
}

/* ---- printing ---- */

static bool print_answer_json(const answer *a)
{
    const hearth_explanation *e = &a->explanation;
    json_t *object = hth_api_explanation_json(e, a->n_plain);
    bool is_whole = json_object_set_new(object, "text_before", a->before ? json_string(a->before) : json_null()) == 0 &&
                    json_object_set_new(object, "detail", json_string(e->detail)) == 0;

    if (is_whole)
        return hth_json_print(object, false);
    json_decref(object);
    return false;
}

/* Print text on one line, even if it has several. */
static void print_text(const char *text)
{
    for (size_t n = strlen(text), n_step; n > 0; text += n_step, n -= n_step) {
        const size_t n_control = hth_control_bytes(text, n);

        n_step = n_control > 0 ? n_control : 1;
        if (*text == '\n')
            (void)fputs("\\n", stdout); /* write errors are checked at the end */
        else
            (void)putchar(n_control > 0 ? ' ' : *text);
    }
}

static bool print_answer(const answer *a)
{
    const hearth_explanation *e = &a->explanation;

    printf("prompt   %" PRIu32 " tokens\n", e->prompt_tokens);
    printf("known    %" PRIu32, e->known_tokens);
    if (e->tier != HEARTH_TIER_NONE)
        printf(", from %s", hearth_tier_name(e->tier));
    printf("%s\n", e->knows_logits ? ", with the scores for the first token of the reply" : "");
    if (e->history_tokens > 0)
        printf("history  the first %" PRIu32 " are the tokens of an earlier conversation\n", e->history_tokens);
    if (a->n_plain > 0)
        printf("text     %zu %s in the messages, read as text\n", a->n_plain,
               a->n_plain == 1 ? "name of a control token" : "names of control tokens");
    printf("reason   %s\n", hearth_miss_name(e->miss));
    if (e->left_at > 0 && e->left_at < e->prompt_tokens) {
        printf("left at  token %" PRIu32 ": ", e->left_at + 1);
        print_text(a->before);
        (void)fputs(" >>>", stdout);
        print_text(e->left_text);
        (void)fputs("<<<\n", stdout);
        if (*e->left_kind)
            printf("which is %s\n", e->left_kind);
    }
    printf("\n%s\n", e->detail);
    return ferror(stdout) == 0;
}

static int tell(const answer *a, bool as_json)
{
    const bool printed = as_json ? print_answer_json(a) : print_answer(a);

    if (!printed && !ferror(stdout))
        (void)fputs("hearth: no memory for the output\n", stderr);
    if (hth_output_end(HTH_EXIT_OK) != HTH_EXIT_OK || !printed)
        return HTH_EXIT_USAGE;
    return a->explanation.known_tokens == a->explanation.prompt_tokens ? HTH_EXIT_OK : HTH_EXIT_FAILED;
}

/* ---- the verb ---- */

const hth_manual hth_cache_why_manual = {
    .name = "why",
    .summary = "say how much of a prompt is known, and why the rest is not",
    .usage =
        "usage: hearth cache why MODEL [-p TEXT | -f FILE] [--json] [OPTIONS OF RUN]\n"
        "\n"
        "Says how much of a prompt is known, why the rest is not, and at which token it leaves the known prompts.\n"
        "Takes the options of the 'hearth run' in question, because some of them are part of the name of a row.\n"
        "\n",
    .closing = "\nExit codes: 0 all of the prompt is known, 1 not all of it, 2 unknown.\n",
    .options = &hth_run_options_table,
    .arguments = HTH_COMPLETE_MODEL " " HTH_COMPLETE_NOTHING,
};

/* The options are those of `run`, whose parser would print its own help. */
static bool print_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool all = strcmp(argv[i], "--help-all") == 0;

        if (!all && strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0)
            continue;
        hth_manual_print(&hth_cache_why_manual, all, stdout);
        return true;
    }
    return false;
}

/* Exit codes as in grep: 0 if the whole prompt is known, 1 if not, 2 on failure. */
int hth_cache_why(int argc, char **argv)
{
    static hth_run_options options;
    hearth_error err = { .message = "" };
    hth_open_model open = { .model = NULL };
    answer a = { .before = NULL };
    static char path[PATH_MAX]; /* as long as the options */
    int result = HTH_EXIT_USAGE;
    hearth_status status;

    if (print_help(argc, argv))
        return HTH_EXIT_OK;
    if (!hth_run_options_parse(argc, argv, &options, &result))
        return result;
    if (options.prompts_file)
        return hth_say("'cache why' explains one prompt; give it with -p or -f", HTH_EXIT_USAGE);
    if (check_used(&options.setup, &err) != HEARTH_OK) {
        hth_say_error(&err);
        return HTH_EXIT_FAILED;
    }
    status = hth_model_source_find(options.setup.path, false, true, path, &err);
    options.setup.path = path;
    if (status == HEARTH_OK)
        status = load(&options, &open, &err);
    if (status == HEARTH_OK)
        status = ask(open.model, &options, &a, &err);
    if (status == HEARTH_OK)
        result = tell(&a, options.json);
    else
        result = HTH_EXIT_USAGE;
    if (status != HEARTH_OK)
        hth_say_error(&err);
    hearth_free(a.before);
    hth_open_model_close(&open);
    return result;
}
