/*
 * llama_chat.cpp - chat templates and replies by llama-common, within limits
 *
 * A checked conversation (llama_conversation.h) goes to the engine's templates. The result is written as plain C: text,
 * grammar, triggers, stops, and the parser as one string, from which a reader is made.
 *
 * This takes two steps. First, the text is rendered from the real conversation, in a way that keeps the engine from
 * reading any schema. Then the parser and its grammar are made from shapes of the schemas (llama_schemas.h). For the
 * second step the engine renders the template a few dozen times to find out how it writes calls, which takes
 * milliseconds (docs/engine.md, "Chat templates"). The result depends only on the tools and options, so the last few
 * results are kept; see `remembered`. This also holds for templates on the engine's own list. Their code in v0.5.0
 * changes messages, but messages do not affect how a reply is parsed, unless the reply continues a message.
 */
#include "llama/llama_chat.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <chat-auto-parser.h>
#include <chat.h>
#include <llama.h>

#include "engine/module_lock.h"
#include "llama/llama_bounds.h"
#include "llama/llama_continued.h"
#include "llama/llama_conversation.h"
#include "llama/llama_guard.h"
#include "llama/llama_plain_text.h"
#include "llama/llama_worded_tools.h"

extern "C" {
#include "llama/grammar_check.h"
#include "sampling/sampling.h"
}

namespace
{

using json = common_json;

constexpr size_t template_bytes_max = 512 << 10;
constexpr size_t template_nesting_max = 128;
constexpr size_t reply_nesting_max = 256;
constexpr size_t triggers_max = 64;
constexpr size_t remembered_max = 8;
constexpr hth_bounds bounds_of_reading{ (size_t)256 << 20, 5 };
constexpr size_t rendered_bytes_max = (size_t)512 << 20; /* plus, for each byte of the conversation: */
constexpr size_t rendered_bytes_per_byte = 32;
constexpr unsigned rendered_seconds_max = 5; /* less than an event loop may be blocked; and one more for: */
constexpr size_t rendered_bytes_per_second = (size_t)64 << 10;

char *copied(const std::string &text)
{
    char *copy = static_cast<char *>(std::malloc(text.size() + 1));

    if (!copy)
        throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
}

template <typename Item> Item *array_of(size_t n)
{
    void *items = std::calloc(n ? n : 1, sizeof(Item));

    if (!items)
        throw std::bad_alloc();
    return static_cast<Item *>(items);
}

/* Nesting depth of brackets of any kind, wherever they occur. */
size_t bracket_nesting(const char *text, size_t n_bytes)
{
    size_t depth = 0, deepest = 0;

    for (size_t i = 0; i < n_bytes; i++)
        if (text[i] == '(' || text[i] == '[' || text[i] == '{')
            deepest = std::max(deepest, ++depth);
        else if ((text[i] == ')' || text[i] == ']' || text[i] == '}') && depth > 0)
            depth--;
    return deepest;
}

/* Limit the nesting, because the template parser recurses along brackets, blocks, and operators before a value. */
void check_template(const char *source)
{
    size_t n_bytes = std::strlen(source), depth = 0, n_not = 0;

    if (n_bytes > template_bytes_max)
        throw refused("it is longer than 512 KiB");
    if (bracket_nesting(source, n_bytes) > template_nesting_max)
        throw refused("its brackets are nested deeper than 128");
    for (const char *at = source; (at = std::strstr(at, "{%"));) {
        at += 2;
        at += *at == '-' || *at == '+';
        at += std::strspn(at, " \t\r\n");
        for (const char *word : { "if", "for", "macro", "call", "filter" })
            depth += std::strncmp(at, word, std::strlen(word)) == 0;
        if (std::strncmp(at, "end", 3) == 0 && depth > 0)
            depth--;
        if (depth > template_nesting_max)
            throw refused("its blocks are nested deeper than 128");
    }
    for (const char *at = source; *at; at += std::strspn(at, " \t\r\n")) {
        bool again = std::strncmp(at, "not", 3) == 0 || *at == '-';

        n_not = again ? n_not + 1 : 0;
        if (n_not > 1024) /* a line of dashes is harmless */
            throw refused("it has more than 1024 operators in a row");
        at += again && *at == 'n' ? 3 : 1;
    }
}

/* All inputs except the conversation itself, as one text. */
std::string options_of(const common_chat_templates_inputs &inputs)
{
    json options = json::array();

    options.push_back(common_chat_tools_to_json_oaicompat(inputs.tools));
    options.push_back(inputs.json_schema);
    options.push_back((int)inputs.tool_choice);
    options.push_back(inputs.parallel_tool_calls);
    options.push_back((int)inputs.reasoning_format);
    options.push_back(inputs.enable_thinking);
    for (const auto &[name, value] : inputs.chat_template_kwargs) {
        options.push_back(name);
        options.push_back(value);
    }
    return options.dump();
}

/* The token whose name is this text, or -1. */
hearth_token token_of(const llama_vocab *vocab, const std::string &text)
{
    llama_token tokens[2];

    if (!vocab || text.empty() || text.size() > 4096)
        return -1;
    return llama_tokenize(vocab, text.c_str(), (int32_t)text.size(), tokens, 2, false, true) == 1 ? tokens[0] : -1;
}

bool is_control(const llama_vocab *vocab, hearth_token token)
{
    return (llama_vocab_get_attr(vocab, token) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED)) != 0;
}

/* Write the triggers for the sampler. False: one is not supported, so the grammar must be left out. */
bool write_triggers(const llama_vocab *vocab, const common_chat_params &params, hearth_chat_prompt *out)
{
    if (params.grammar_triggers.empty() || params.grammar_triggers.size() > triggers_max)
        return false;
    hearth_trigger *triggers = array_of<hearth_trigger>(params.grammar_triggers.size());

    out->triggers = triggers;
    for (const common_grammar_trigger &from : params.grammar_triggers) {
        hearth_trigger &to = triggers[out->n_triggers];
        to.struct_size = sizeof(to);
        hearth_token token = -1;

        if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN)
            token = from.token;
        else if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD)
            token = token_of(vocab, from.value);
        if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN || from.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL) {
            /* The sampler's patterns have no look-ahead. */
            if (from.value.find("(?!") != std::string::npos || from.value.find("(?=") != std::string::npos)
                return false;
            to.kind = HEARTH_TRIGGER_PATTERN;
            to.text =
                copied(from.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN ? from.value : "^(?:" + from.value + ")$");
        } else if (token >= 0) {
            to.kind = HEARTH_TRIGGER_TOKEN;
            to.token = token;
        } else {
            to.kind = HEARTH_TRIGGER_WORD;
            to.text = copied(from.value);
        }
        out->n_triggers++;
    }
    return true;
}

struct prompt_clearer {
    void operator()(hearth_chat_prompt *prompt) const
    {
        hth_chat_prompt_clear(prompt);
    }
};

/* The texts around reasoning, and whether the beginning of the reply is inside them. */
void write_thinking(const std::string &begin, const std::string &end, const std::string &beginning,
                    hearth_chat_prompt *out)
{
    if (begin.empty() || end.empty() || begin.size() > HTH_THINKING_TEXT_BYTES_MAX ||
        end.size() > HTH_THINKING_TEXT_BYTES_MAX)
        return;
    size_t last = beginning.rfind(begin);

    out->thinking_begin = copied(begin);
    out->thinking_end = copied(end);
    out->starts_thinking = last != std::string::npos && beginning.find(end, last + begin.size()) == std::string::npos;
}

void write_prompt(const llama_vocab *vocab, const common_chat_templates_inputs &inputs,
                  const common_chat_params &params, const std::vector<size_t> &places, hearth_chat_prompt *out)
{
    json parser{
        { "format", (int)params.format },
        { "reasoning_format", (int)inputs.reasoning_format },
        { "generation_prompt", params.generation_prompt },
        { "parser", params.parser },
        { "continues", inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE },
    };

    out->text = copied(params.prompt);
    out->n_bytes = std::strlen(out->text); /* a template can write a NUL byte, which ends the text */
    size_t *plain = array_of<size_t>(places.size());
    out->plain = plain;
    for (size_t place : places)
        if (place < out->n_bytes)
            plain[out->n_plain++] = place;
    out->can_think = params.supports_thinking;
    if (!params.thinking_end_tags.empty())
        write_thinking(params.thinking_start_tag, params.thinking_end_tags.front(), params.generation_prompt, out);
    if (!params.grammar.empty() && (!params.grammar_lazy || write_triggers(vocab, params, out))) {
        out->grammar = copied(params.grammar);
        out->grammar_is_lazy = params.grammar_lazy;
        if (!params.grammar_lazy && !params.generation_prompt.empty())
            out->grammar_prefix = copied(params.generation_prompt);
    } else {
        hth_chat_prompt_clear_triggers(out);
    }
    char **stops = array_of<char *>(params.additional_stops.size());
    out->stop = stops;
    for (const std::string &stop : params.additional_stops)
        stops[out->n_stop++] = copied(stop);
    hearth_token *shown = array_of<hearth_token>(params.preserved_tokens.size());
    out->shown_tokens = shown;
    for (const std::string &name : params.preserved_tokens) {
        hearth_token token = token_of(vocab, name);

        if (token >= 0 && is_control(vocab, token) && out->n_shown_tokens < 64)
            shown[out->n_shown_tokens++] = token;
    }
    out->parser = copied(parser.dump());
}

/* The engine's result for some tools and options, without the text of the prompt. */
struct remembered {
    std::string options;
    common_chat_params params;
};

} /* namespace */

struct hth_llama_chat {
    hth_llama_chat(const llama_vocab *of, bool reads_special) : vocab(of), names(reads_special ? nullptr : of)
    {
    }

    common_chat_templates_ptr templates;
    const llama_vocab *vocab;
    const control_names names; /* names that are plain text in messages */
    std::string source;
    std::string abilities;
    bool is_analysed = false; /* the engine analyses the template, because it is not on its list */
    known_schemas schemas;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the fields below */
    bool knows_markup = false;
    llama_schemas::markup markup = llama_schemas::markup::none; /* of calls */
    bool has_calls = false;                                     /* known with the markup */
    std::set<std::string> reasoning;                            /* the texts around it; known with the markup */
    around_reasoning around;                                    /* for continued replies; likewise */
    std::list<remembered> recent;                               /* most recently used first */
};

struct hth_engine_chat_reader {
    common_chat_parser_params params;
    common_chat_msg begun; /* the beginning of a continued reply, which is already in the prompt */
};

namespace
{

/* Is the template on the engine's list of templates with special code? That code may change the conversation. */
bool is_listed(const common_chat_template &source)
{
    for (bool with_tools : { false, true }) {
        autoparser::generation_params params;

        params.messages = json::array({ json{ { "role", "user" }, { "content", "x" } } });
        if (with_tools)
            params.tools = common_chat_tools_to_json_oaicompat(
                { { "f", "", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}" } });
        params.add_generation_prompt = true;
        if (common_chat_try_specialized_template(source, source.source(), params))
            return true;
    }
    return false;
}

bool find_out_whether_analysed(const common_chat_templates *templates)
{
    try {
        for (const char *variant : { "", "tool_use" }) {
            std::string source = common_chat_templates_source(templates, variant);

            if (!source.empty() && is_listed(common_chat_template(source, "", "")))
                return false;
        }
        return true;
    } catch (const std::exception &) {
        return false; /* each request then analyses the template, and reports the error */
    }
}

bool source_has(const hth_llama_chat &chat, const char *text)
{
    return chat.source.find(text) != std::string::npos;
}

/*
 * The markup of calls, deduced from the names that the engine gives to the schemas of a tool. Also found: the texts
 * around reasoning, and whether there are calls at all; if the engine finds no form for them, it makes no grammar.
 */
llama_schemas::markup find_markup(hth_llama_chat &chat)
{
    common_chat_templates_inputs inputs;

    inputs.messages.push_back({});
    inputs.messages.back().role = "user";
    inputs.messages.back().content = "x";
    inputs.tools.push_back({ "f", "", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}" });
    inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    try {
        const common_chat_params params = common_chat_templates_apply(chat.templates.get(), inputs);

        chat.has_calls = !params.grammar.empty();
        chat.reasoning = { hth_trimmed(params.thinking_start_tag) };
        for (const std::string &tag : params.thinking_end_tags)
            chat.reasoning.insert(hth_trimmed(tag));
        if (chat.is_analysed)
            chat.around = hth_find_around_reasoning(chat.templates.get());
        if (!chat.has_calls || params.parser.find("\"tool-f-schema\"") != std::string::npos)
            return llama_schemas::markup::none;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &) { /* each request then reports the error */
    }
    return source_has(chat, "]<]minimax[>[") ? llama_schemas::markup::members_of_members
                                             : llama_schemas::markup::members;
}

/* Found at the first use, because this takes milliseconds. */
llama_schemas::markup markup_of_calls(hth_llama_chat *chat)
{
    hth_module_guard guard(&chat->lock);

    if (chat->knows_markup)
        return chat->markup;
    const llama_schemas::markup found = find_markup(*chat);
    if (!hth_bounds_are_met()) {
        chat->markup = found;
        chat->knows_markup = true;
    }
    return found;
}

/* Render the text, with the beginning of the reply, in a way that keeps the engine from reading any schema. */
common_chat_params rendered(const hth_llama_chat &chat, const common_chat_templates_inputs &inputs)
{
    common_chat_templates_inputs plain = inputs;

    if (chat.is_analysed) {
        plain.force_pure_content = true;
    } else {
        plain.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
        plain.json_schema.clear();
        /* One template of the list shows the schema of the reply: DeepSeek V4, known by this variable. */
        if (!inputs.json_schema.empty() && source_has(chat, "dsml_token") && !source_has(chat, "function_calls"))
            plain.chat_template_kwargs["response_format"] = inputs.json_schema;
    }
    return common_chat_templates_apply(chat.templates.get(), plain);
}

/* When a reply continues a message, the engine appends the beginning of the reply to the rendering. */
std::string beginning(const hth_llama_chat &chat, const asked &given, std::string prompt, const plain_texts &plain)
{
    const common_chat_templates_inputs told = plain.any() ? plain.marked(given.told) : given.told;
    const std::string before = rendered(chat, told).prompt;

    if (plain.any())
        prompt = common_chat_templates_apply(chat.templates.get(), told).prompt;
    if (prompt.compare(0, before.size(), before) != 0)
        throw std::runtime_error("a reply cannot be gone on with in this template; let the model begin a new one");
    return prompt.substr(before.size());
}

bool token_by_name(const void *vocab, const char *text, size_t n_bytes, hearth_token *out)
{
    *out = token_of(static_cast<const llama_vocab *>(vocab), std::string(text, n_bytes));
    return *out >= 0;
}

/*
 * The grammar with the real schemas. A lazy one that cannot be used is left out, because calls are also found without
 * it.
 */
std::string grammar_with_schemas(const hth_llama_chat &chat, const asked &given, const common_chat_params &params)
{
    std::string text = given.schemas.grammar(params.parser, params.grammar_lazy);
    uint32_t n_tokens = chat.vocab ? (uint32_t)llama_vocab_n_tokens(chat.vocab) : 0;
    hearth_error err = {};
    hearth_status status;

    if (text.size() > HTH_GRAMMAR_BYTES_MAX)
        status = hth_fail(&err, HEARTH_MISUSE, "it has more than %d KiB", HTH_GRAMMAR_BYTES_MAX >> 10);
    else
        status = hth_grammar_check(text.data(), text.size(), n_tokens, token_by_name, chat.vocab, &err);
    if (status == HEARTH_NO_MEMORY)
        throw std::bad_alloc();
    if (status != HEARTH_OK && params.grammar_lazy)
        return "";
    if (status != HEARTH_OK)
        throw refused(std::string("the grammar of the tools or the schema cannot be used: ") + err.message +
                      "; give fewer tools, or simpler parameters");
    return text;
}

/* The result's prompt has marks. */
common_chat_params apply(hth_llama_chat *chat, const asked &given, const plain_texts &plain)
{
    bool may_remember = given.inputs.continue_final_message == COMMON_CHAT_CONTINUATION_NONE;
    std::string options = options_of(given.inputs);
    common_chat_params text = rendered(*chat, plain.any() ? plain.marked(given.inputs) : given.inputs), params;

    text.generation_prompt = plain.undone(text.generation_prompt, nullptr);
    if (may_remember) {
        hth_module_guard guard(&chat->lock);

        for (auto at = chat->recent.begin(); at != chat->recent.end(); ++at)
            /* The beginning of the reply is part of the parser, and may depend on the conversation. */
            if (at->options == options && at->params.generation_prompt == text.generation_prompt) {
                params = at->params;
                chat->recent.splice(chat->recent.begin(), chat->recent, at);
                params.prompt = text.prompt;
                return params;
            }
    }
    params = common_chat_templates_apply(chat->templates.get(), given.told);
    if (!params.grammar.empty())
        params.grammar = grammar_with_schemas(*chat, given, params);
    if (!may_remember && chat->is_analysed)
        text.prompt += beginning(*chat, given, params.prompt, plain);
    params.prompt.clear();
    if (may_remember && !hth_bounds_are_met() && params.generation_prompt == text.generation_prompt &&
        options.size() + params.parser.size() + params.grammar.size() < (size_t)1 << 20) {
        hth_module_guard guard(&chat->lock);

        chat->recent.push_front({ options, params });
        if (chat->recent.size() > remembered_max)
            chat->recent.pop_back();
    }
    params.prompt = text.prompt;
    return params;
}

/* The same, with error messages that do not name the engine's component. */
common_chat_params apply_plainly(hth_llama_chat *chat, const asked &given, const plain_texts &plain)
{
    static constexpr char prefix[] = "Automatic parser generation failed: ";

    try {
        return apply(chat, given, plain);
    } catch (const std::invalid_argument &e) {
        const char *at = std::strstr(e.what(), prefix);

        throw std::runtime_error(at ? at + sizeof(prefix) - 1 : e.what());
    }
}

/*
 * The prompt, with the places of names in it that are plain text. If a call is demanded, the template must have a place
 * for tools, or they are described in words.
 */
common_chat_params prompt_of(hth_llama_chat *chat, asked &given, std::vector<size_t> &places)
{
    bool is_demanded = given.inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED && !given.inputs.tools.empty();
    bool in_words = is_demanded && !chat->has_calls && given.inputs.json_schema.empty();
    const std::vector<common_chat_tool> tools = in_words ? hth_word_tools(given) : std::vector<common_chat_tool>();
    const plain_texts plain(chat->names, chat->reasoning, chat->source, given.inputs);
    common_chat_params params = apply_plainly(chat, given, plain);

    if (in_words) {
        hth_demand_worded_calls(tools, given.inputs, params);
        params.grammar = grammar_with_schemas(*chat, given, params);
    }
    if (plain.any())
        params.prompt = plain.undone(params.prompt, &places);
    return params;
}

/* The text without the beginning that is already in the prompt. */
std::string without(const std::string &begun, const std::string &text)
{
    if (text.compare(0, begun.size(), begun) == 0)
        return text.substr(begun.size());
    return begun.compare(0, text.size(), text) == 0 ? std::string() : text;
}

/* As hth_guarded; refused becomes HEARTH_MISUSE. */
template <typename Call> hearth_status guarded(hearth_error *err, const char *what, Call call) noexcept
{
    return hth_guarded(err, what, [&] {
        try {
            return call();
        } catch (const refused &e) {
            return hth_fail(err, HEARTH_MISUSE, "%s", e.what());
        }
    });
}

size_t n_bytes_of(const char *text)
{
    return text ? std::strlen(text) : 0;
}

/* Templates copy texts, but not more often than this allows. */
hth_bounds bounds_of(const hearth_conversation &conversation)
{
    size_t n_bytes = n_bytes_of(conversation.json_schema) + n_bytes_of(conversation.template_values);

    for (size_t i = 0; i < conversation.n_turns; i++) {
        const hearth_chat_turn &turn = conversation.turns[i];

        n_bytes += n_bytes_of(turn.content) + n_bytes_of(turn.reasoning);
        for (size_t j = 0; j < turn.n_parts; j++)
            n_bytes += n_bytes_of(turn.parts[j]);
        for (size_t j = 0; j < turn.n_calls; j++)
            n_bytes += n_bytes_of(turn.calls[j].arguments);
    }
    for (size_t i = 0; i < conversation.n_tools; i++)
        n_bytes += n_bytes_of(conversation.tools[i].description) + n_bytes_of(conversation.tools[i].parameters);
    return { rendered_bytes_max + rendered_bytes_per_byte * n_bytes,
             rendered_seconds_max + (unsigned)(n_bytes / rendered_bytes_per_second) };
}

/* Read the template, and have the engine try it. */
std::unique_ptr<hth_llama_chat> read_template(const llama_model *model, const char *given, const char *source,
                                              bool special_in_messages)
{
    /* common_chat_templates_init loses the text of an exception, so the template is parsed here first. */
    (void)common_chat_template(source, "", "");
    auto chat = std::make_unique<hth_llama_chat>(model ? llama_model_get_vocab(model) : nullptr, special_in_messages);

    chat->templates = common_chat_templates_init(model, given ? given : "");
    chat->source = source;
    chat->abilities = json(common_chat_templates_get_caps(chat->templates.get())).dump();
    chat->is_analysed = find_out_whether_analysed(chat->templates.get());
    return chat;
}

} /* namespace */

extern "C" {

hearth_status hth_llama_chat_new(const struct llama_model *model, const char *given, bool special_in_messages,
                                 hth_llama_chat **out, hearth_error *err)
{
    return guarded(err, "read the chat template", [&] {
        const char *source = given ? given : llama_model_chat_template(model, nullptr);
        const char *with_tools = given ? nullptr : llama_model_chat_template(model, "tool_use");
        std::unique_ptr<hth_llama_chat> chat;

        if (!source || !*source) {
            *out = nullptr;
            return HEARTH_OK;
        }
        check_template(source);
        if (with_tools)
            check_template(with_tools);
        hth_run_bounded(bounds_of_reading, [&] { chat = read_template(model, given, source, special_in_messages); });
        *out = chat.release();
        return HEARTH_OK;
    });
}

const char *hth_llama_chat_source(const hth_llama_chat *chat)
{
    return chat->source.c_str();
}

const char *hth_llama_chat_abilities(const hth_llama_chat *chat)
{
    return chat->abilities.c_str();
}

void hth_llama_chat_free(hth_llama_chat *chat)
{
    delete chat;
}

hearth_status hth_llama_chat_prompt(hth_llama_chat *chat, const hearth_conversation *conversation,
                                    hearth_chat_prompt *out, hearth_error *err)
{
    return guarded(err, "apply the chat template", [&] {
        hearth_chat_prompt made = {};
        std::unique_ptr<hearth_chat_prompt, prompt_clearer> holder(&made);

        hth_run_bounded(bounds_of(*conversation), [&] {
            asked given = asked_of(chat->schemas, markup_of_calls(chat), *conversation);
            std::vector<size_t> places;

            if (given.inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE &&
                !given.inputs.messages.empty()) {
                hth_move_reasoning(chat->around, given.inputs);
                hth_move_reasoning(chat->around, given.told);
            }
            const common_chat_params params = prompt_of(chat, given, places);

            write_prompt(chat->vocab, given.inputs, params, places, &made);
        });
        *out = made;
        made = {};
        return HEARTH_OK;
    });
}

hearth_status hth_llama_chat_tokenize(const hth_llama_chat *chat, const hth_llama_slices *slices, const char *text,
                                      size_t n_bytes, int32_t n_slice, bool add_special, hearth_token *tokens,
                                      int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                      hearth_error *err)
{
    return hth_guarded(err, "tokenize the text", [&] {
        std::vector<hearth_token> all;
        hearth_status status = hth_llama_marked_tokens(slices, n_slice, chat->vocab, chat->names, text, n_bytes,
                                                       add_special, all, stop, err);

        if (status != HEARTH_OK)
            return status;
        if (all.size() > INT32_MAX)
            return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes has too many tokens", n_bytes);
        *n_out = all.size() > (size_t)capacity ? -(int32_t)all.size() : (int32_t)all.size();
        if (*n_out > 0)
            std::memcpy(tokens, all.data(), all.size() * sizeof(*tokens));
        return HEARTH_OK;
    });
}

/* ---- replies ---- */

hearth_status hth_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err)
{
    if (!parser || !out)
        return hth_fail(err, HEARTH_MISUSE, "a reader of replies needs the parser of a prompt");
    return guarded(err, "make a parser for replies", [&] {
        json from = json::parse(parser);
        auto reader = std::make_unique<hth_engine_chat_reader>();
        std::string arena = from.at("parser").get<std::string>();

        reader->params.format = (common_chat_format)from.at("format").get<int>();
        reader->params.reasoning_format = (common_reasoning_format)from.at("reasoning_format").get<int>();
        reader->params.generation_prompt = from.at("generation_prompt").get<std::string>();
        if (!arena.empty())
            reader->params.parser.load(arena);
        if (from.value("continues", false)) {
            try {
                reader->begun = common_chat_parse("", true, reader->params);
            } catch (const std::bad_alloc &) {
                throw;
            } catch (const std::exception &) {
                reader->begun = {}; /* no parsed form yet: the reply then includes it, as in the engine */
            }
        }
        *out = reader.release();
        return HEARTH_OK;
    });
}

void hth_llama_chat_reader_free(hth_engine_chat_reader *reader)
{
    delete reader;
}

hearth_status hth_llama_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                  hth_chat_reply *out, hearth_error *err)
{
    if (!reader || (!text && n_bytes > 0) || !out)
        return hth_fail(err, HEARTH_MISUSE, "reading a reply needs a reader and its text");
    if (bracket_nesting(text, n_bytes) > reply_nesting_max) /* the parser recurses along brackets */
        return hth_fail(err, HEARTH_CORRUPT, "the reply nests brackets deeper than %zu", reply_nesting_max);
    return hth_guarded(err, "read the reply", [&] {
        common_chat_msg message;
        hth_chat_reply reply = {};

        try {
            message = common_chat_parse(text ? std::string(text, n_bytes) : std::string(), !is_whole, reader->params);
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &e) {
            return hth_fail(err, HEARTH_CORRUPT, "the reply does not have the form of the chat template: %s", e.what());
        }
        try {
            const std::string reasoning = without(reader->begun.reasoning_content, message.reasoning_content);
            const std::string content = without(reader->begun.render_content(), message.render_content());

            reply.reasoning = copied(reasoning);
            reply.n_reasoning = reasoning.size();
            reply.content = copied(content);
            reply.n_content = content.size();
            reply.calls = array_of<hth_chat_reply_call>(message.tool_calls.size());
            for (const common_chat_tool_call &call : message.tool_calls) {
                hth_chat_reply_call &to = reply.calls[reply.n_calls++];

                to.id = copied(call.id);
                to.name = copied(call.name);
                to.arguments = copied(call.arguments);
                to.n_arguments = call.arguments.size();
            }
        } catch (...) {
            hth_chat_reply_clear(&reply);
            throw;
        }
        *out = reply;
        return HEARTH_OK;
    });
}

} /* extern "C" */
