/*
 * run_options.c - reads and checks the options of `hearth run`, and its lines of prompts
 *
 * The table below has all options of the command. Those with a key are options of a request; a line of --prompts-json
 * may set them, too, under the name of the field in hearth.h.
 */
#include "options/run_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/status.h"
#include "console/output.h"
#include "options/commands.h"
#include "options/default_options.h"
#include "options/values.h"

/* ---- readers of single options ----------------------------------------------------------------------------------- */

static bool read_seed(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_run_options *out = options;
    long long number;

    if (!hth_value_integer(shown, value, 0, (long long)HTH_RUN_SEED_MAX, &number, err))
        return false;
    out->sampling.seed = (uint64_t)number;
    return true;
}

static bool add_stop_token(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_run_options *out = options;
    size_t *n = &out->request.n_stop_tokens;

    if (!value) {
        *n = 0;
        return true;
    }
    if (*n == HTH_STOP_TOKENS_MAX)
        return hth_value_too_many(shown, value, HTH_STOP_TOKENS_MAX, err);
    if (!hth_value_i32(shown, value, 0, INT32_MAX, &out->stop_tokens[*n], err))
        return false;
    (*n)++;
    return true;
}

/* "15=-1.5", "15=-inf" */
static bool add_logit_bias(void *options, const char *shown, const char *value, hearth_error *err)
{
    static const char expected[] = "TOKEN=BIAS, a token's number and what is added to its logit, such as 15=-1.5, "
                                   "15=+inf or 15=-inf";
    hth_run_options *out = options;
    size_t *n = &out->sampling.n_logit_bias;
    char *end;
    long token;
    double bias;

    if (!value) {
        *n = 0;
        return true;
    }
    errno = 0;
    token = strtol(value, &end, 10);
    if (end == value || *end != '=' || errno || token < 0 || token > INT32_MAX)
        return hth_value_wrong(shown, value, expected, err);
    bias = strtod(end + 1, &end);
    if (end[-1] == '=' || *end || isnan(bias))
        return hth_value_wrong(shown, value, expected, err);
    if (*n == HTH_LOGIT_BIAS_MAX)
        return hth_value_too_many(shown, value, HTH_LOGIT_BIAS_MAX, err);
    out->logit_bias[(*n)++] = (hearth_logit_bias){ .token = (hearth_token)token, .bias = (float)bias };
    return true;
}

/* Add a trigger of a kind; value NULL removes all of the kind. */
static bool add_trigger(hth_run_options *out, hearth_trigger_kind kind, const char *shown, const char *value,
                        hearth_error *err)
{
    hearth_trigger trigger = { .struct_size = sizeof(trigger), .kind = kind };
    const size_t n = out->sampling.n_triggers;

    if (!value) {
        out->sampling.n_triggers = 0;
        for (size_t i = 0; i < n; i++)
            if (out->triggers[i].kind != kind)
                out->triggers[out->sampling.n_triggers++] = out->triggers[i];
        return true;
    }
    if (n == HTH_TRIGGERS_MAX)
        return hth_value_too_many(shown, value, HTH_TRIGGERS_MAX, err);
    if (kind != HEARTH_TRIGGER_TOKEN && !*value)
        return hth_value_wrong(shown, value, "a text of at least one character", err);
    if (kind == HEARTH_TRIGGER_TOKEN && !hth_value_i32(shown, value, 0, INT32_MAX, &trigger.token, err))
        return false;
    if (kind != HEARTH_TRIGGER_TOKEN)
        trigger.text = value;
    out->triggers[n] = trigger;
    out->sampling.n_triggers++;
    return true;
}

static bool add_trigger_word(void *options, const char *shown, const char *value, hearth_error *err)
{
    return add_trigger(options, HEARTH_TRIGGER_WORD, shown, value, err);
}

static bool add_trigger_pattern(void *options, const char *shown, const char *value, hearth_error *err)
{
    return add_trigger(options, HEARTH_TRIGGER_PATTERN, shown, value, err);
}

static bool add_trigger_token(void *options, const char *shown, const char *value, hearth_error *err)
{
    return add_trigger(options, HEARTH_TRIGGER_TOKEN, shown, value, err);
}

/* The value may be omitted; it is "" then. */
static bool read_logprobs(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_run_options *out = options;
    uint32_t n_top = 0;

    if (value && *value && !hth_value_u32(shown, value, 0, 64, &n_top, err))
        return false;
    out->request.logprobs = value;
    out->request.n_top_logprobs = n_top;
    return true;
}

static bool read_parent_key(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_run_options *out = options;

    out->has_parent_key = true;
    out->n_parent_digits = (uint32_t)hth_hex_decode_first(value, out->parent_key, sizeof(out->parent_key));
    return out->n_parent_digits > 0 ||
           hth_value_wrong(shown, value,
                           "1 to 64 hex digits, the first ones of the finish key of an earlier run with -v or --json",
                           err);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(hth_run_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Prompt" },
    { "prompt", 'p', HTH_OPTION_TEXT, "TEXT", "the prompt", .offset = AT(prompt), .is_common = true },
    { "file", 'f', HTH_OPTION_TEXT, "FILE",
      "read the prompt from a file, without its last line end; '-' is standard input", .offset = AT(prompt_file),
      .is_common = true },
    { "chat", 0, HTH_OPTION_FLAG, NULL, "send the prompt as a user's message, through the model's chat template",
      .offset = AT(chat), .is_common = true },
    { "system", 0, HTH_OPTION_TEXT, "TEXT", "with --chat: a system message before it", .offset = AT(system),
      .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_template_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_thinking_options, .offset = AT(setup.defaults) },
    { .kind = HTH_OPTION_HEADING, .help = "Several prompts" },
    { "prompts", 0, HTH_OPTION_TEXT, "FILE",
      "run many prompts together, one per line; results come in the order of the file; '-' is standard input; empty "
      "lines are skipped",
      .offset = AT(prompts_text_file), .is_common = true },
    { "prompts-json", 0, HTH_OPTION_TEXT, "FILE",
      "the same, each line a JSON object: prompt, id (given back), and options of the request by their names in "
      "hearth.h, such as n_predict, temperature, priority, stop",
      .offset = AT(prompts_json_file), .is_common = true },
    { "parallel", 0, HTH_OPTION_U32, "N", "run N of them at once, 1 to 128 (default 8)", .offset = AT(parallel),
      .low = 1, .high = HTH_MODEL_PARALLEL_MAX, .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Reply" },
    { "predict", 'n', HTH_OPTION_I32, "N", "at most N tokens; -1: until the model ends or the context is full",
      .offset = AT(request.n_predict), .low = -1, .high = INT32_MAX, .key = "n_predict", .is_common = true },
    { "n", 0, HTH_OPTION_U32, "K", "K replies to the one prompt, computed together, with seeds S, S+1, ...; 1 to 128",
      .offset = AT(request.n), .low = 1, .high = 128, .key = "n" },
    { "min-tokens", 0, HTH_OPTION_U32, "N", "the model cannot end its reply before N tokens",
      .offset = AT(request.min_tokens), .low = 0, .high = INT32_MAX, .key = "min_tokens" },
    { "stop", 0, HTH_OPTION_TEXTS, "TEXT", "end before TEXT, which is not part of the reply; may be repeated",
      .offset = AT(stop), .n_offset = AT(request.n_stop), .n_max = HTH_STOPS_MAX, .repeats = true, .key = "stop",
      .is_common = true },
    { "stop-token", 0, HTH_OPTION_OWN, "TOKEN", "end at the token with this id; may be repeated",
      .read = add_stop_token, .repeats = true, .key = "stop_tokens" },
    { "ignore-eos", 0, HTH_OPTION_FLAG, NULL, "continue after the model ended its reply",
      .offset = AT(request.ignore_eos), .key = "ignore_eos" },
    { "draft-max", 0, HTH_OPTION_I32, "N",
      "guess up to N next tokens, and verify them together; 0 (none; 14 with --draft-model) to 14",
      .offset = AT(request.draft_max), .low = 0, .high = HEARTH_DRAFT_MAX, .key = "draft_max" },
    { "draft-min", 0, HTH_OPTION_I32, "N", "leave out a draft of fewer tokens", .offset = AT(request.draft_min),
      .low = 0, .high = HEARTH_DRAFT_MAX, .key = "draft_min" },
    { "echo", 0, HTH_OPTION_FLAG, NULL, "begin the text with the text of the prompt", .offset = AT(request.echo),
      .key = "echo" },
    { "prefill-only", 0, HTH_OPTION_FLAG, NULL,
      "compute the prompt, keep it, and end: the next run with this prompt is warm", .offset = AT(request.prefill_only),
      .key = "prefill_only" },
    { "logprobs", 0, HTH_OPTION_OWN, "[N]",
      "with --json: the logarithm of each token's probability, and those of the N likeliest, 0 to 64",
      .read = read_logprobs, .key = "logprobs" },
    { "json", 0, HTH_OPTION_FLAG, NULL,
      "print one JSON object at the end instead of streaming text; one a line where there are several",
      .offset = AT(json), .is_common = true },
    { .kind = HTH_OPTION_HEADING,
      .help = "Sampling; the order is: bias, grammar, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, "
              "XTC,\ntemperature, adaptive-p, draw. The defaults are those of the model, otherwise temperature 0.8, "
              "top-k 40,\ntop-p 0.95, min-p 0.05" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_sampling_options, .offset = AT(setup.defaults) },
    { "seed", 0, HTH_OPTION_OWN, "S", "draws depend on S and the position only (default: a new one each request)",
      .read = read_seed, .key = "seed", .is_common = true },
    { "dry-breaker", 0, HTH_OPTION_TEXTS, "TEXT",
      "DRY: TEXT ends a phrase; may be repeated (default: newline, colon, quote, asterisk)", .offset = AT(dry_breakers),
      .n_offset = AT(sampling.n_dry_breakers), .n_max = HTH_DRY_BREAKERS_MAX, .repeats = true, .key = "dry_breakers" },
    { "logit-bias", 0, HTH_OPTION_OWN, "TOKEN=BIAS",
      "add BIAS to a token's logit; +inf: only this token, -inf: never; may be repeated", .read = add_logit_bias,
      .repeats = true, .key = "logit_bias" },
    { .kind = HTH_OPTION_HEADING, .help = "Grammar" },
    { "grammar", 0, HTH_OPTION_TEXT, "TEXT", "GBNF that the reply must follow", .offset = AT(sampling.grammar),
      .key = "grammar" },
    { "grammar-file", 0, HTH_OPTION_TEXT, "FILE", "the same, from a file", .offset = AT(grammar_file) },
    { "json-schema", 0, HTH_OPTION_TEXT, "TEXT", "JSON schema that the reply must follow",
      .offset = AT(sampling.json_schema), .key = "json_schema" },
    { "json-schema-file", 0, HTH_OPTION_TEXT, "FILE", "the same, from a file", .offset = AT(json_schema_file) },
    { "grammar-lazy", 0, HTH_OPTION_FLAG, NULL, "apply the grammar or schema from a trigger on",
      .offset = AT(sampling.grammar_is_lazy), .key = "grammar_is_lazy" },
    { "trigger-word", 0, HTH_OPTION_OWN, "TEXT", "from the first TEXT in the reply on; may be repeated",
      .read = add_trigger_word, .repeats = true, .key = "trigger_words" },
    { "trigger-token", 0, HTH_OPTION_OWN, "TOKEN", "from the token with this id on; may be repeated",
      .read = add_trigger_token, .repeats = true, .key = "trigger_tokens" },
    { "trigger-pattern", 0, HTH_OPTION_OWN, "REGEX",
      "from the first group of a matching regular expression on; may be repeated", .read = add_trigger_pattern,
      .repeats = true, .key = "trigger_patterns" },
    { .kind = HTH_OPTION_HEADING, .help = "Scheduling" },
    { "priority", 0, HTH_OPTION_I32, "N",
      "-100 to 100; a request of higher priority runs first and may preempt running ones",
      .offset = AT(request.priority), .low = -100, .high = 100, .key = "priority" },
    { "session-id", 0, HTH_OPTION_TEXT, "NAME", "keep the sequence for the next prompt with this name",
      .offset = AT(request.session_id), .key = "session_id" },
    { "queue-timeout-ms", 0, HTH_OPTION_U32, "MS", "longest wait until the request first runs (0: no limit)",
      .offset = AT(request.queue_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "queue_timeout_ms" },
    { "run-timeout-ms", 0, HTH_OPTION_U32, "MS", "longest time of running (0: no limit)",
      .offset = AT(request.run_timeout_ms), .low = 0, .high = UINT32_MAX, .key = "run_timeout_ms" },
    { "deadline-ms", 0, HTH_OPTION_U32, "MS", "longest time from submission to the end (0: no limit)",
      .offset = AT(request.deadline_ms), .low = 0, .high = UINT32_MAX, .key = "deadline_ms" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_scheduling_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Cache" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_cache_options, .offset = AT(setup) },
    { "no-cache-read", 0, HTH_OPTION_FLAG, NULL, "do not read the cache, but write it",
      .offset = AT(request.no_cache_read), .key = "no_cache_read", .is_common = true },
    { "parent-key", 0, HTH_OPTION_OWN, "HEX",
      "finish key of an earlier run, or its first digits; the prompt holds that whole conversation and more",
      .read = read_parent_key, .key = "parent_key" },
    { .kind = HTH_OPTION_HEADING, .help = "Engine" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_engine_options, .offset = AT(setup) },
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "no-wrap", 0, HTH_OPTION_FLAG, NULL, "do not break a terminal's lines between words", .offset = AT(no_wrap) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress, no statistics, no warnings", .offset = AT(quiet),
      .is_common = true },
    { "verbose", 'v', HTH_OPTION_FLAG, NULL, "show the log, including the engine's", .offset = AT(verbose),
      .is_common = true },
    { "help", 'h', HTH_OPTION_END, .help = "the most used options", .is_common = true },
    { "help-all", 0, HTH_OPTION_END, .help = "all options: sampling, grammars, scheduling, cache, engine",
      .is_common = true },
};

const hth_option_table hth_run_options_table = HTH_OPTION_TABLE_OF(rows);

/* ---- conflicting and missing options ---------------------------------------------------------------------- */

static bool check_prompt(hth_run_options *out)
{
    bool many = out->prompts_text_file || out->prompts_json_file;

    if (out->prompt && out->prompt_file)
        return hth_say("-p and -f exclude each other; give the prompt once", false);
    if (out->prompts_text_file && out->prompts_json_file)
        return hth_say("--prompts and --prompts-json exclude each other; give one file", false);
    if (many && (out->prompt || out->prompt_file))
        return hth_say("--prompts and --prompts-json take the place of -p and -f; give the prompts once", false);
    if (out->parallel && !many)
        return hth_say("--parallel needs several prompts, with --prompts or --prompts-json", false);
    if ((out->system || out->setup.chat_template || out->setup.chat_template_file) && !out->chat)
        return hth_say("--system and --chat-template need --chat", false);
    if ((out->setup.defaults.reasoning != HTH_API_REASONING_AUTO || out->setup.defaults.template_values) && !out->chat)
        return hth_say("--reasoning and --chat-template-kwargs need --chat", false);
    out->prompts_file = out->prompts_text_file ? out->prompts_text_file : out->prompts_json_file;
    if (out->prompt || out->prompt_file || many)
        return true;
    if (isatty(STDIN_FILENO))
        return hth_say("no prompt; give it with -p TEXT, -f FILE, or on standard input", false);
    out->prompt_file = "-";
    return true;
}

static bool check_grammar(const hth_run_options *out)
{
    const hearth_sampling *sampling = &out->sampling;
    int n_grammars = !!sampling->grammar + !!sampling->json_schema + !!out->grammar_file + !!out->json_schema_file;

    if (n_grammars > 1)
        return hth_say("--grammar, --grammar-file, --json-schema and --json-schema-file exclude each other; give one",
                       false);
    if (n_grammars > 0 && !sampling->grammar_is_lazy && out->setup.defaults.sampling.mirostat > 0)
        return hth_say("--mirostat needs a surprise to steer, and a grammar leaves none; leave one of them out, or add "
                       "--grammar-lazy",
                       false);
    if (out->prompts_json_file) /* its lines may set the missing options */
        return true;
    if (sampling->grammar_is_lazy && n_grammars == 0)
        return hth_say("--grammar-lazy needs a --grammar or --json-schema", false);
    if (sampling->grammar_is_lazy && sampling->n_triggers == 0)
        return hth_say("--grammar-lazy needs a --trigger-word, --trigger-token or --trigger-pattern", false);
    if (sampling->n_triggers > 0 && !sampling->grammar_is_lazy)
        return hth_say("--trigger-word, --trigger-token and --trigger-pattern need --grammar-lazy", false);
    return true;
}

static bool check(int n_arguments, char **arguments, hth_run_options *out)
{
    if (n_arguments == 0)
        return hth_say(
            "run needs a MODEL, a GGUF file or OWNER/REPO[:QUANT] of a hub; 'hearth run --help' shows an example",
            false);
    out->setup.path = arguments[0];
    if (n_arguments > 1)
        return hth_sayf(false, "unexpected argument '%s'; a prompt is given with -p", arguments[1]);
    if (out->request.logprobs && !out->json)
        return hth_say("--logprobs needs --json, where they are shown", false);
    return check_prompt(out) && check_grammar(out);
}

static void init(void *options)
{
    hth_run_options *out = options;

    memset(out, 0, sizeof(*out));
    hth_model_setup_init(&out->setup);
    out->request = hearth_request_default();
    out->sampling = hearth_sampling_default();
}

const hth_manual hth_run_manual = {
    .name = "run",
    .summary = "generate text from a prompt, warm when the prompt was seen before",
    .usage = "usage: hearth run MODEL [-p TEXT | -f FILE | --prompts FILE] [OPTIONS]\n"
             "\n"
             "Generates text from a prompt and streams it to standard output. The computed prompt is kept on disk, so\n"
             "the same prompt, or one that begins like it, starts to answer at once.\n"
             "Without -p and -f the prompt is read from standard input, unless that is a terminal. "
             "From 8 tokens on, the same\n"
             "prompt again needs no evaluation before its first token; a shorter one needs one.\n"
             "MODEL is the path of a GGUF file, OWNER/REPO[:QUANT] of a hub, "
             "which is downloaded if it is not there ('hearth pull\n"
             "--help'), or NAME[:TAG] of Ollama.\n"
             "\n",
    .closing =
        "\nSIZE is a number of bytes with an optional K, M, G or T. Exit codes: 0 done, 1 failed, 2 wrong usage,\n"
        "130 interrupted (once: the computed part is kept; twice: ends at once).\n"
        "\n"
        "  hearth run model.gguf --chat -p 'Why is the sky blue?' -n 200\n"
        "  hearth run model.gguf --prompts questions.txt --parallel 16 --json > answers.jsonl\n",
    .options = &hth_run_options_table,
    .init = init,
    .n_bytes = sizeof(hth_run_options),
    .arguments = HTH_COMPLETE_MODEL " " HTH_COMPLETE_NOTHING,
};

bool hth_run_options_parse(int argc, char **argv, hth_run_options *out, int *exit_out)
{
    int first;

    init(out);
    out->setup.model.n_parallel = 0; /* until the number of running requests is known */
    first = hth_manual_parse(&hth_run_manual, NULL, argc, argv, out, exit_out);
    if (first < 0 || !check(argc - first, argv + first, out))
        return false;
    if (out->prompts_file && out->parallel == 0)
        out->parallel = hearth_model_options_default().n_parallel;
    if (out->setup.model.n_parallel == 0)
        out->setup.model.n_parallel = out->prompts_file ? out->parallel : out->request.n;
    return true;
}

hearth_request hth_run_options_request(hth_run_options *options)
{
    hearth_sampling *sampling = &options->sampling;
    hearth_request request = options->request;

    hth_api_defaults_fill(&options->setup.defaults, &request, sampling);
    hth_sampling_cut_windows(sampling, options->n_ctx);
    request.stop = options->stop;
    request.stop_tokens = options->stop_tokens;
    request.parent_key = options->has_parent_key ? options->parent_key : NULL;
    request.n_parent_digits = options->n_parent_digits;
    sampling->triggers = options->triggers;
    sampling->logit_bias = options->logit_bias;
    sampling->dry_breakers = sampling->n_dry_breakers ? options->dry_breakers : NULL;
    request.sampling = sampling;
    return request;
}

hearth_status hth_prompt_render(hearth_model *model, const hth_run_options *options, const char *prompt,
                                hearth_request *request, hearth_error *err)
{
    const hth_api_defaults *how = &options->setup.defaults;
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(turns[0]), .role = "system", .content = options->system },
        { .struct_size = sizeof(turns[0]), .role = "user", .content = prompt },
    };

    if (!options->chat) {
        request->prompt = prompt;
        return HEARTH_OK;
    }
    conversation.turns = options->system ? turns : turns + 1;
    conversation.n_turns = options->system ? 2 : 1;
    conversation.no_thinking = how->reasoning == HTH_API_REASONING_OFF;
    conversation.template_values = how->template_values;
    return hearth_conversation_render(model, &conversation, &request->chat, err);
}

/*
 * ---- lines of prompts ----
 *
 * The row of the command line that has the name of a member reads its value. So a line accepts the same values as the
 * command line, with the same messages. A list replaces that of the command line.
 */

enum { SHOWN_BYTES = 320, NUMBER_BYTES = 64 };

typedef struct member {
    const hth_option *option;
    void *options;
    const char *shown;
} member;

static hearth_status read_text(const member *m, const char *text, hearth_error *err)
{
    return hth_option_read(m->option, m->options, m->shown, text, err) ? HEARTH_OK : HEARTH_MISUSE;
}

static hearth_status wrong_type(const member *m, const char *expected, hearth_error *err)
{
    return hth_fail(err, HEARTH_MISUSE, "%s must be %s", m->shown, expected);
}

/* Read a text, or a number in the form of the command line. */
static hearth_status read_plain(const member *m, const json_t *value, hearth_error *err)
{
    char number[NUMBER_BYTES];

    if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        return hth_fail(err, HEARTH_MISUSE, "%s has a zero byte, so it is no text", m->shown);
    if (json_is_string(value))
        return read_text(m, json_string_value(value), err);
    if (m->option->kind == HTH_OPTION_TEXT)
        return wrong_type(m, "a text", err);
    if (json_is_integer(value))
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value)); /* sized for it */
    else if (json_is_real(value))
        (void)snprintf(number, sizeof(number), "%.9g", json_real_value(value)); /* likewise; exact for a float */
    else
        return wrong_type(m, "a number or a text", err);
    return read_text(m, number, err);
}

/* Read {"15": -1.5} as "15=-1.5". */
static hearth_status read_pairs(const member *m, json_t *pairs, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    const char *key;
    json_t *value;

    json_object_foreach(pairs, key, value)
    {
        char pair[NUMBER_BYTES];
        int n = -1;

        if (json_is_number(value))
            n = snprintf(pair, sizeof(pair), "%s=%.9g", key, json_number_value(value));
        else if (json_is_string(value))
            n = snprintf(pair, sizeof(pair), "%s=%s", key, json_string_value(value));
        if (n < 0 || n >= (int)sizeof(pair))
            return wrong_type(m, "an object of tokens and numbers", err);
        status = read_text(m, pair, err);
        if (status != HEARTH_OK)
            break;
    }
    return status;
}

/* Read a text that is given as JSON, such as a schema; object keeps the text. */
static hearth_status read_nested(const member *m, json_t *object, const char *key, hearth_error *err)
{
    char *text = json_dumps(json_object_get(object, key), JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *kept = text ? json_string(text) : NULL;

    free(text);
    if (!kept || json_object_set_new(object, key, kept) != 0)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %s", m->shown);
    return read_text(m, json_string_value(kept), err);
}

static hearth_status read_member(const member *m, json_t *object, const char *key, hearth_error *err)
{
    json_t *value = json_object_get(object, key);
    bool is_list = m->option->repeats;
    hearth_status status = HEARTH_OK;
    json_t *element;
    size_t i;

    if (m->option->kind == HTH_OPTION_FLAG) {
        if (!json_is_boolean(value))
            return wrong_type(m, "true or false", err);
        hth_option_set_flag(m->option, m->options, json_is_true(value));
        return HEARTH_OK;
    }
    if (m->option->value[0] == '[' && json_is_boolean(value)) /* its value may be omitted */
        return read_text(m, json_is_true(value) ? "" : NULL, err);
    if (m->option->kind == HTH_OPTION_TEXT && (json_is_object(value) || json_is_array(value)))
        return read_nested(m, object, key, err);
    if (!is_list || (!json_is_array(value) && !json_is_object(value)))
        return read_plain(m, value, err);
    status = read_text(m, NULL, err);
    if (status == HEARTH_OK && json_is_object(value))
        return read_pairs(m, value, err);
    json_array_foreach(value, i, element)
    {
        if (status == HEARTH_OK)
            status = read_plain(m, element, err);
    }
    return status;
}

/*
 * The row of an option of a request, and the offset in hth_run_options that the row's offset is relative to; or NULL.
 */
static const hth_option *option_of_request(const char *key, size_t *offset)
{
    const hth_option *row = hth_option_table_find(&hth_run_options_table, key);

    *offset = row ? 0 : AT(setup.defaults);
    return row ? row : hth_option_table_find(&hth_sampling_options, key);
}

/* Read the members in the order in which they are written. */
static hearth_status read_object(hth_prompt_line *out, const char *where, hearth_error *err)
{
    json_t *prompt = json_object_get(out->object, "prompt");
    hearth_status status = HEARTH_OK;
    const char *key;
    json_t *value;
    void *next;

    if (!json_is_string(prompt) || strlen(json_string_value(prompt)) != json_string_length(prompt))
        return hth_fail(err, HEARTH_MISUSE, "%s: \"prompt\" must be there, a text without zero bytes", where);
    out->prompt = json_string_value(prompt);
    out->id = json_incref(json_object_get(out->object, "id"));
    json_object_foreach_safe(out->object, next, key, value)
    {
        char shown[SHOWN_BYTES];
        size_t offset;
        const hth_option *option = option_of_request(key, &offset);
        const member m = { .option = option, .options = (char *)&out->options + offset, .shown = shown };

        if (strcmp(key, "prompt") == 0 || strcmp(key, "id") == 0)
            continue;
        (void)snprintf(shown, sizeof(shown), "%s: %s", where, key); /* a long name is cut */
        hth_end_at_character(shown, sizeof(shown));
        if (!m.option)
            return hth_fail(err, HEARTH_MISUSE,
                            "%s is no option of a request; \"prompt\", \"id\" and the names that docs/generation.md "
                            "lists are allowed, such as \"n_predict\"",
                            shown);
        status = read_member(&m, out->object, key, err);
        if (status != HEARTH_OK)
            return status;
    }
    return status;
}

hearth_status hth_prompt_line_init(hth_prompt_line *out, const hth_run_options *base, const char *where,
                                   const char *line, size_t n, hearth_error *err)
{
    json_error_t problem;

    out->options = *base;
    out->object = NULL;
    out->id = NULL;
    if (!base->prompts_json_file) {
        out->prompt = line;
        return strlen(line) == n
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_INVALID_TEXT, "%s: it has a zero byte, so it is no text", where);
    }
    out->object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (!out->object)
        return hth_fail(err, HEARTH_MISUSE, "%s: not a line of JSON: %s, at byte %d", where, problem.text,
                        problem.position);
    if (!json_is_object(out->object))
        return hth_fail(err, HEARTH_MISUSE, "%s: it must be a JSON object, such as {\"prompt\": \"...\"}", where);
    return read_object(out, where, err);
}

void hth_prompt_line_deinit(hth_prompt_line *line)
{
    json_decref(line->id);
    json_decref(line->object);
    line->id = NULL;
    line->object = NULL;
}
