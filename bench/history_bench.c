/*
 * history_bench.c - the cost of knowing a conversation's tokens, and what it saves
 *
 *   history_bench [--json|--markdown] [--verbose] MODEL [N_TOKENS] [N_TURNS]
 *
 * First, a prompt of N_TOKENS (10000) that is known as a whole, among a thousand other conversations with the same
 * beginning: the time until its tokens are there. They are copied from 1 to 20 records, as from so many turns.
 *
 * Then a conversation of N_TURNS (20) replies: a call of a tool with reasoning, its result, an answer with reasoning,
 * the next question. A reply is made of other tokens than the tokenizer's in one of 50 places, as a model that samples
 * draws them now and then, and its calls have no blanks in their arguments, unlike the template's. Counted are the
 * tokens of all prompts that were found in the cache, with the history and without it, with a template that keeps
 * earlier reasoning and with one that drops it. Then the time until the tokens of the last prompt are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
#include "base/measure.h"
#include "base/os.h"
#include "history/history.h"
#include "report.h"

enum { ROUNDS = 400, OTHERS = 1000, TOKEN_BYTES = 5, SPLIT_ONE_IN = 50, N_CTX = 16384, TEXT_BYTES = 4096 };
enum { BYTES_MAX = 512 << 20, TURNS_MAX = 400, REPLY_TOKENS_MAX = 1024 };

/* ---- the time ---- */

static bool always(size_t n_bytes, void *user_data)
{
    (void)n_bytes;
    (void)user_data;
    return true;
}

static void measure_time(const hth_report *report, size_t n_tokens, size_t n_turns)
{
    static const hth_history_space space = { .bytes = { 1 } };
    static hth_samples samples;
    hth_history *history = hth_history_new(BYTES_MAX, UINT32_MAX);
    size_t n_bytes = n_tokens * TOKEN_BYTES;
    char *text = malloc(n_bytes + 1), *other = malloc(n_bytes + 1), name[128];
    hearth_token *tokens = malloc(n_tokens * sizeof(*tokens));

    if (!history || !text || !other || !tokens)
        hth_report_die("no memory");
    for (size_t i = 0; i < n_tokens; i++) {
        tokens[i] = (hearth_token)(i * 7919 % 100000);
        (void)snprintf(text + i * TOKEN_BYTES, TOKEN_BYTES + 1, "%05d", (int)tokens[i]);
    }
    memcpy(other, text, n_bytes + 1);
    for (size_t i = 0; i < OTHERS; i++) { /* each leaves the text somewhere */
        size_t at = n_bytes / 2 + (i * 7907) % (n_bytes / 2);

        other[at] = '#';
        hth_history_add(history, &space, other, at + 1, 0, tokens, at / TOKEN_BYTES + 1);
        other[at] = text[at];
    }
    for (size_t i = 1; i <= n_turns; i++)
        hth_history_add(history, &space, text, n_tokens * i / n_turns * TOKEN_BYTES, 0, tokens, n_tokens * i / n_turns);
    samples.n = 0;
    for (int i = 0; i < ROUNDS; i++) {
        hth_history_found found;
        uint64_t begin = hth_os_monotonic_ns();

        if (!hth_history_find(history, &space, text, n_bytes, always, NULL, &found) || found.n_tokens != n_tokens)
            hth_report_die("the prompt is not known");
        hth_samples_add(&samples, hth_ms_since(begin) * 1e3);
        free(found.tokens);
    }
    (void)snprintf(name, sizeof(name), "tokens of a known prompt of %zu tokens, of %zu turns, median", n_tokens,
                   n_turns);
    hth_report_number(report, name, hth_samples_median(&samples), "µs", HTH_AT_MOST, 50);
    hth_report_detail(report, "%zu records, %zu KiB; %.1f .. %.1f µs", hth_history_count(history),
                      hth_history_bytes(history) >> 10, hth_samples_min(&samples), hth_samples_max(&samples));
    hth_history_free(history);
    free(tokens);
    free(other);
    free(text);
}

/* ---- the share ---- */

static const char chat_template[] =
    "{%- set ns = namespace(last=-1) %}"
    "{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}"
    "{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}"
    "{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.role == 'assistant' and m.reasoning_content and (preserve_thinking or loop.index0 > ns.last) %}"
    "{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}"
    "{{- m.content or '' }}"
    "{%- if m.tool_calls %}{%- for call in m.tool_calls %}"
    "{{- '<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' + (call.function.arguments | "
    "tojson) "
    "+ '}\\n</tool_call>' }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

typedef struct talk {
    hearth_model *model;
    hearth_chat_turn turns[TURNS_MAX];
    hearth_chat_call calls[TURNS_MAX];
    char texts[TURNS_MAX][TEXT_BYTES]; /* of turns: the content, or the arguments */
    char reasonings[TURNS_MAX][TEXT_BYTES];
    size_t n;
    bool keeps_reasoning;
    uint64_t n_draws;
    uint64_t n_prompt, n_cached;
} talk;

static unsigned draw(talk *t, unsigned n)
{
    return (unsigned)(hth_draw_uniform(0, t->n_draws++) * n);
}

static void write_words(talk *t, char *text, size_t n_words)
{
    static const char *const words[] = { "the",  "river",  "old", "mill",  "ran",    "and",   "birds",
                                         "sang", "over",   "a",   "stone", "bridge", "while", "rain",
                                         "fell", "softly", "on",  "bread", "king" };
    size_t n = 0;

    for (size_t i = 0; i < n_words && n + 16 < TEXT_BYTES; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, "%s%s", i ? " " : "", words[draw(t, 19)]);
}

/* Add a turn; the assistant's has reasoning, and a call if it calls. */
static void add_turn(talk *t, const char *role, bool calls)
{
    hearth_chat_turn *turn = &t->turns[t->n];

    *turn = (hearth_chat_turn){ .struct_size = sizeof(*turn), .role = role };
    if (strcmp(role, "assistant") == 0) {
        write_words(t, t->reasonings[t->n], 60);
        turn->reasoning = t->reasonings[t->n];
    }
    if (calls) {
        (void)snprintf(t->texts[t->n], TEXT_BYTES, "{\"place\": \"mill %zu\", \"day\": %u}", t->n, draw(t, 365));
        t->calls[t->n] = (hearth_chat_call){
            .struct_size = sizeof(t->calls[0]), .id = "c", .name = "look_up", .arguments = t->texts[t->n]
        };
        turn->calls = &t->calls[t->n];
        turn->n_calls = 1;
        turn->content = "";
    } else {
        write_words(t, t->texts[t->n], strcmp(role, "tool") == 0 ? 80 : 40);
        turn->content = t->texts[t->n];
    }
    if (strcmp(role, "tool") == 0)
        turn->call_id = "c";
    t->n++;
}

static const hearth_chat_tool tools[] = {
    { .struct_size = sizeof(hearth_chat_tool),
      .name = "look_up",
      .description = "Looks a place up.",
      .parameters = "{\"type\":\"object\",\"properties\":{\"place\":{\"type\":\"string\"},\"day\":{\"type\":"
                    "\"integer\"}},\"required\":[\"place\",\"day\"]}" },
};

static const hearth_chat_prompt *render(const talk *t, bool no_reply)
{
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    hearth_error err = { .message = "" };

    conversation.turns = t->turns;
    conversation.n_turns = t->n;
    conversation.tools = tools;
    conversation.n_tools = 1;
    conversation.no_reply = no_reply;
    conversation.template_values = t->keeps_reasoning ? "{\"preserve_thinking\": true}" : NULL;
    hth_report_check(hearth_conversation_render(t->model, &conversation, &prompt, &err), &err);
    return prompt;
}

/* The tokens of a reply's text, some of them in two pieces. */
static size_t split_tokens(talk *t, const char *text, size_t n_bytes, hearth_token *out)
{
    hearth_token tokens[REPLY_TOKENS_MAX], parts[64];
    hearth_error err = { .message = "" };
    size_t n = 0, n_out = 0;

    hth_report_check(
        hearth_tokenize(t->model, text, n_bytes, HEARTH_TOKENIZE_SPECIAL, tokens, REPLY_TOKENS_MAX / 2, &n, &err),
        &err);
    for (size_t i = 0; i < n; i++) {
        char bytes[HEARTH_TOKEN_BYTES_MAX];
        size_t n_piece = 0, n_parts = 0;

        hth_report_check(hearth_token_bytes(t->model, tokens[i], bytes, sizeof(bytes), &n_piece, &err), &err);
        if (n_piece < 2 || draw(t, SPLIT_ONE_IN) != 0) {
            out[n_out++] = tokens[i];
            continue;
        }
        for (size_t begin = 0; begin < n_piece; begin += begin ? n_piece : n_piece / 2) {
            size_t end = begin ? n_piece : n_piece / 2;

            hth_report_check(hearth_tokenize(t->model, bytes + begin, end - begin, 0, parts, 64, &n_parts, &err), &err);
            memcpy(out + n_out, parts, n_parts * sizeof(*parts));
            n_out += n_parts;
        }
    }
    return n_out;
}

/* The text of a reply as the model writes it: its calls without blanks in their arguments. Returns its length. */
static size_t write_reply(const char *text, size_t n_bytes, bool calls, char *out)
{
    const char *arguments = calls ? strstr(text, "\"arguments\": ") : NULL;
    size_t n = 0;

    for (size_t i = 0; i < n_bytes; i++)
        if (!arguments || text + i < arguments || text[i] != ' ' || !strchr(":,", text[i - 1]))
            out[n++] = text[i];
    return n;
}

/* Run the conversation so far; its reply is the next turn. */
static void reply(talk *t, bool calls)
{
    const hearth_chat_prompt *before = render(t, false), *after;
    hearth_request request = hearth_request_default();
    hearth_token tokens[REPLY_TOKENS_MAX + 1];
    char own[3 * TEXT_BYTES];
    const hearth_result *result;
    hearth_error err = { .message = "" };
    size_t n_reply;

    add_turn(t, "assistant", calls);
    after = render(t, true);
    if (strncmp(after->text, before->text, before->n_bytes) != 0)
        hth_report_die("the template does not go on with the prompt");
    n_reply = (size_t)(strstr(after->text + before->n_bytes, "<|im_end|>") - after->text) - before->n_bytes;
    if (n_reply > sizeof(own))
        hth_report_die("the reply is too long");
    n_reply = write_reply(after->text + before->n_bytes, n_reply, calls, own);
    request.chat = before;
    request.replayed = tokens;
    request.n_replayed = split_tokens(t, own, n_reply, tokens);
    request.n_predict = (int32_t)request.n_replayed + 1;
    hth_report_check(hearth_complete(t->model, &request, &result, &err), &err);
    t->n_prompt += result->stats->prompt_tokens;
    t->n_cached += result->stats->cached_tokens;
    hearth_result_unref(result);
    /* The same with its end. A reply that is whole is not evaluated, so the one before has a token more. */
    hth_report_check(hearth_special_token(t->model, HEARTH_SPECIAL_EOT, &tokens[request.n_replayed++], &err), &err);
    request.n_predict = (int32_t)request.n_replayed;
    request.tell_replayed = true;
    hth_report_check(hearth_complete(t->model, &request, &result, &err), &err);
    hearth_result_unref(result);
    hearth_chat_prompt_free(after);
    hearth_chat_prompt_free(before);
}

/* The time until the tokens of the prompt are there. */
static void measure_prompt(const hth_report *report, const talk *t, const char *kind)
{
    enum { PROMPTS = 30 };

    static hth_samples samples;
    const hearth_chat_prompt *prompt = render(t, false);
    hearth_request request = hearth_request_default();
    char name[128];

    request.chat = prompt;
    samples.n = 0;
    for (int i = 0; i < PROMPTS; i++) {
        uint64_t begin = hth_os_monotonic_ns();
        hearth_error err = { .message = "" };
        size_t n = 0;

        hth_report_check(hearth_prompt_tokenize(t->model, &request, NULL, 0, &n, &err), &err);
        hth_samples_add(&samples, hth_ms_since(begin));
    }
    (void)snprintf(name, sizeof(name), "%s: tokens of the last prompt, median", kind);
    hth_report_number(report, name, hth_samples_median(&samples), "ms", HTH_NO_BOUND, 0);
    hearth_chat_prompt_free(prompt);
}

static double share(const hth_report *report, const char *path, size_t n_turns, bool has_history, bool keeps_reasoning)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    talk *t = calloc(1, sizeof(*t));
    hearth_runtime *runtime;
    hearth_error err = { .message = "" };
    double result;

    if (!t)
        hth_report_die("no memory");
    options.cache_directory = getenv("HEARTH_CACHE");
    options.log = hth_report_log;
    options.log_level = HEARTH_LOG_ERROR;
    if (has_history)
        options.history_bytes_max = UINT64_C(64) << 20;
    model_options.n_ctx = N_CTX;
    model_options.chat_template = chat_template;
    model_options.cache_salt = keeps_reasoning ? has_history ? "1" : "2" : has_history ? "3" : "4"; /* all cold */
    hth_report_check(hearth_runtime_open(&options, &runtime, &err), &err);
    hth_report_check(hearth_model_load(runtime, path, &model_options, &t->model, &err), &err);
    t->keeps_reasoning = keeps_reasoning;
    add_turn(t, "user", false);
    for (size_t i = 0; i < n_turns; i++) {
        reply(t, i % 2 == 0);
        add_turn(t, i % 2 == 0 ? "tool" : "user", false);
    }
    result = 100.0 * (double)t->n_cached / (double)t->n_prompt;
    hth_report_detail(report, "%llu of %llu prompt tokens", (unsigned long long)t->n_cached,
                      (unsigned long long)t->n_prompt);
    measure_prompt(report, t, has_history ? "with history" : "without history");
    hearth_model_unref(t->model);
    hearth_runtime_close(runtime);
    free(t);
    return result;
}

int main(int argc, char **argv)
{
    hth_report report;
    size_t n_tokens, n_turns;
    char name[128];

    argc = hth_report_options(&report, argc, argv);
    if (argc < 2 || argc > 4)
        hth_report_die("usage: history_bench [--json|--markdown] [--verbose] MODEL [N_TOKENS] [N_TURNS]");
    n_tokens = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000;
    n_turns = argc > 3 ? strtoul(argv[3], NULL, 10) : 20;
    if (n_tokens < 100 || n_tokens > 99999 || n_turns < 1 || 2 * n_turns + 1 > TURNS_MAX)
        hth_report_die("N_TOKENS must be 100 to 99999, N_TURNS 1 to %d", TURNS_MAX / 2 - 1);
    measure_time(&report, n_tokens, 1);
    measure_time(&report, n_tokens, 20);
    for (int keeps = 1; keeps >= 0; keeps--)
        for (int has = 0; has <= 1; has++) {
            (void)snprintf(name, sizeof(name), "%zu turns with tools, reasoning %s, %s history: cached prompt tokens",
                           n_turns, keeps ? "kept" : "dropped", has ? "with" : "without");
            hth_report_number(&report, name, share(&report, argv[1], n_turns, has, keeps), "%", HTH_NO_BOUND, 0);
        }
    return 0;
}
