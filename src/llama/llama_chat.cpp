/*
 * llama_chat.cpp - chat templates and replies by llama-common, within limits
 *
 * A checked conversation goes to the engine's templates. The result is written as plain C: text, grammar, triggers,
 * stops, and the parser as one string, from which a reader is made.
 *
 * This takes two steps. First, the text is rendered from the real conversation, in a way that keeps the engine from
 * reading any schema. Then the parser and its grammar are made from shapes of the schemas (llama_schemas.h). For the
 * second step the engine renders the template a few dozen times to find out how it writes calls, which takes
 * milliseconds (docs/engine.md, "Chat templates"). The result depends only on the tools and options, so the last few
 * results are kept; see `remembered`. This also holds for templates on the engine's own list. Their code in v0.5.0
 * changes messages, but messages do not affect how a reply is parsed, unless the reply continues a message.
 */
#include "llama/llama_shim.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <chat-auto-parser.h>
#include <chat-peg-parser.h>
#include <chat.h>
#include <llama.h>

#include "engine/module_lock.h"
#include "llama/llama_bounds.h"
#include "llama/llama_guard.h"
#include "llama/llama_plain_text.h"
#include "llama/llama_schemas.h"

extern "C" {
#include "base/json_bounds.h"
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
constexpr size_t known_bytes_max = 4 << 20;
constexpr hth_bounds bounds_of_reading{ (size_t)256 << 20, 5 };
constexpr size_t rendered_bytes_max = (size_t)512 << 20; /* plus, for each byte of the conversation: */
constexpr size_t rendered_bytes_per_byte = 32;
constexpr unsigned rendered_seconds_max = 5; /* less than an event loop may be blocked; and one more for: */
constexpr size_t rendered_bytes_per_second = (size_t)64 << 10;

/*
 * ---- checked conversations ----
 *
 * JSON is measured before it is parsed: at most 256 KiB, 64 levels and 4096 values per text, and 8 million pairs of
 * members of the same object in all texts. Schemas are compiled, in at most HTH_CHECK_STEPS_MAX steps in total.
 */

/*
 * Up to 4 MiB of valid schemas, with the steps that compiling each one took, because tools are sent again with each
 * request. Any thread.
 */
class known_schemas
{
  public:
    known_schemas() = default;
    known_schemas(const known_schemas &) = delete;

    /* Check that the schema can be compiled, and subtract its steps, even if it is known. Throws hth_refused. */
    void check(const std::string &what, const std::string &schema, uint64_t &steps);

  private:
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    std::unordered_map<std::string, uint64_t> taken_;
    size_t n_bytes_ = 0;
};

void known_schemas::check(const std::string &what, const std::string &schema, uint64_t &steps)
{
    const uint64_t before = steps;
    hearth_error err = {};

    {
        hth_module_guard guard(&lock_);
        auto found = taken_.find(schema);

        if (found != taken_.end()) {
            if (found->second > steps)
                throw hth_refused(what + ", with the others before, takes too long to be compiled");
            steps -= found->second;
            return;
        }
    }
    switch (hth_schema_check(schema.data(), schema.size(), &steps, &err)) {
    case HEARTH_OK: break;
    case HEARTH_NO_MEMORY: throw std::bad_alloc();
    default: throw hth_refused(what + ": " + err.message);
    }
    hth_module_guard guard(&lock_);

    if (n_bytes_ + schema.size() > known_bytes_max) {
        taken_.clear();
        n_bytes_ = 0;
    }
    if (taken_.emplace(schema, before - steps).second)
        n_bytes_ += schema.size() + 128; /* plus the approximate size of an entry */
}

/*
 * A conversation for the engine. inputs has the real schemas, for the text of the prompt. shaped has shapes instead,
 * for the engine's parser. schemas writes the grammar of that parser. Everything is copied.
 */
struct asked {
    common_chat_templates_inputs inputs, shaped;
    llama_schemas schemas;
};

constexpr size_t schema_bytes_max = 256 << 10;
constexpr size_t schema_values_max = 4096;
constexpr size_t json_depth_max = 64;
constexpr uint64_t pairs_max = 8000000; /* per conversation; about 40 ms, because the parser keeps members in a list */
constexpr size_t values_bytes_max = 64 << 10;

/* How much of the limits the texts of one conversation have used so far. */
struct spent {
    uint64_t n_pairs = 0;
    uint64_t steps = HTH_CHECK_STEPS_MAX; /* left for compiling schemas */
};

json parse_within(const std::string &what, const char *text, size_t bytes_max, spent &so_far)
{
    size_t n_bytes = std::strlen(text);
    hth_json_bounds bounds;

    if (n_bytes > bytes_max)
        throw hth_refused(what + " is longer than " + std::to_string(bytes_max >> 10) + " KiB");
    bounds = hth_json_measure(text, n_bytes);
    if (bounds.depth > json_depth_max || bounds.n_values > schema_values_max)
        throw hth_refused(what + " is nested deeper than 64, or has more than 4096 values");
    so_far.n_pairs += bounds.n_pairs;
    if (so_far.n_pairs > pairs_max)
        throw hth_refused(what + " has, with the others, objects of too many members");
    try {
        return json::parse(text);
    } catch (const common_json_error &) {
        throw hth_refused(what + " is not valid JSON");
    }
}

json object_within(const std::string &what, const char *text, spent &so_far)
{
    json object = parse_within(what, text, schema_bytes_max, so_far);

    if (!object.is_object())
        throw hth_refused(what + " is not an object");
    return object;
}

common_chat_msg message_of(const hearth_chat_turn &turn, spent &so_far)
{
    common_chat_msg message;

    message.role = turn.role;
    if (turn.content)
        message.content = turn.content;
    else if (turn.n_parts == 1)
        message.content = turn.parts[0];
    else
        for (size_t i = 0; i < turn.n_parts; i++)
            message.content_parts.push_back({ "text", turn.parts[i] });
    if (turn.reasoning)
        message.reasoning_content = turn.reasoning;
    for (size_t i = 0; i < turn.n_calls; i++) {
        const hearth_chat_call &call = turn.calls[i];

        if (!parse_within("the arguments of a call", call.arguments, schema_bytes_max, so_far).is_object())
            throw hth_refused("the arguments of a call are not a JSON object");
        message.tool_calls.push_back({ call.name, call.arguments, call.id ? call.id : "" });
    }
    if (turn.call_id)
        message.tool_call_id = turn.call_id;
    if (turn.name)
        message.tool_name = turn.name;
    return message;
}

/* Can the parameters be compiled? Throws hth_refused if they must be. */
bool is_compiled(known_schemas &known, const std::string &what, const json &schema, bool is_any_good, spent &so_far)
{
    try {
        known.check(what, schema.dump(), so_far.steps);
        return true;
    } catch (const hth_refused &) {
        if (!is_any_good)
            throw;
        return false;
    }
}

void add_tool(known_schemas &known, const hearth_chat_tool &tool, bool is_any_good, asked &to, spent &so_far)
{
    const std::string what = std::string("the parameters of tool '") + tool.name + "'";
    const std::string description = tool.description ? tool.description : "";
    json schema{ { "type", "object" }, { "properties", json::object() } };
    bool compiles = true;

    if (tool.parameters) {
        json given = object_within(what, tool.parameters, so_far);

        if (!given.empty()) {
            schema = given;
            compiles = is_compiled(known, what, schema, is_any_good, so_far);
        }
    }
    to.inputs.tools.push_back({ tool.name, description, schema.dump() });
    try {
        to.shaped.tools.push_back({ tool.name, description, to.schemas.tool(tool.name, schema, compiles).dump() });
    } catch (const llama_schemas::too_much &e) {
        throw hth_refused(what + ": " + e.what());
    }
}

/* markup: of the template's calls. Throws hth_refused, and the exceptions of llama-common. */
asked asked_of(known_schemas &known, llama_schemas::markup markup, const hearth_conversation &conversation)
{
    asked made{ {}, {}, llama_schemas(markup) };
    common_chat_templates_inputs &inputs = made.inputs, &shaped = made.shaped;
    spent so_far;

    for (size_t i = 0; i < conversation.n_turns; i++)
        inputs.messages.push_back(message_of(conversation.turns[i], so_far));
    inputs.tool_choice = conversation.tool_choice == HEARTH_TOOL_NONE     ? COMMON_CHAT_TOOL_CHOICE_NONE
                       : conversation.tool_choice == HEARTH_TOOL_REQUIRED ? COMMON_CHAT_TOOL_CHOICE_REQUIRED
                                                                          : COMMON_CHAT_TOOL_CHOICE_AUTO;
    inputs.parallel_tool_calls = conversation.parallel_calls;
    inputs.enable_thinking = !conversation.no_thinking;
    inputs.reasoning_format =
        conversation.reasoning_in_content ? COMMON_REASONING_FORMAT_NONE : COMMON_REASONING_FORMAT_DEEPSEEK;
    if (conversation.continue_last) {
        inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
        inputs.add_generation_prompt = false;
    } else {
        inputs.add_generation_prompt = !conversation.no_reply;
    }
    if (conversation.template_values) {
        json values = parse_within("template_values", conversation.template_values, values_bytes_max, so_far);

        if (!values.is_object())
            throw hth_refused("template_values is not a JSON object");
        for (const auto &[name, value] : values.items())
            inputs.chat_template_kwargs[std::string(name)] = value.dump();
        /* Templates have several names for it; the engine sets them all from this one. */
        if (values.contains("preserve_thinking") && !values.contains("preserve_reasoning"))
            inputs.chat_template_kwargs["preserve_reasoning"] = values.at("preserve_thinking").dump();
    }
    shaped = inputs;
    for (size_t i = 0; i < conversation.n_tools; i++)
        add_tool(known, conversation.tools[i], conversation.any_parameters, made, so_far);
    if (conversation.json_schema) {
        json schema = object_within("the schema", conversation.json_schema, so_far);

        if (!schema.empty())
            known.check("the schema", schema.dump(), so_far.steps);
        inputs.json_schema = schema.dump();
        shaped.json_schema = made.schemas.reply(schema).dump();
    }
    return made;
}

/* ---- prompts, as plain C ---- */

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
        throw hth_refused("it is longer than 512 KiB");
    if (bracket_nesting(source, n_bytes) > template_nesting_max)
        throw hth_refused("its brackets are nested deeper than 128");
    for (const char *at = source; (at = std::strstr(at, "{%"));) {
        at += 2;
        at += *at == '-' || *at == '+';
        at += std::strspn(at, " \t\r\n");
        for (const char *word : { "if", "for", "macro", "call", "filter" })
            depth += std::strncmp(at, word, std::strlen(word)) == 0;
        if (std::strncmp(at, "end", 3) == 0 && depth > 0)
            depth--;
        if (depth > template_nesting_max)
            throw hth_refused("its blocks are nested deeper than 128");
    }
    for (const char *at = source; *at; at += std::strspn(at, " \t\r\n")) {
        bool again = std::strncmp(at, "not", 3) == 0 || *at == '-';

        n_not = again ? n_not + 1 : 0;
        if (n_not > 1024) /* a line of dashes is harmless */
            throw hth_refused("it has more than 1024 operators in a row");
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

/*
 * ---- continued replies ----
 *
 * The engine writes the beginning of a continued reply after the prompt: a block of reasoning, for templates that have
 * one, and the content. A client may have sent both as content, with the template's texts around the reasoning. Then
 * the engine would write an empty block before that one.
 */

/* What the engine writes before and after reasoning, including white space. Empty: the template has no reasoning. */
struct around_reasoning {
    std::string begin, end;
};

constexpr char white[] = " \t\r\n";

/* Cut the white space that the engine writes itself. */
std::string without_space(std::string text, const std::string &before, const std::string &behind)
{
    if (text.compare(0, before.size(), before) == 0)
        text.erase(0, before.size());
    if (text.size() >= behind.size() && text.compare(text.size() - behind.size(), behind.size(), behind) == 0)
        text.erase(text.size() - behind.size());
    return text;
}

/* The text without white space at both ends. */
std::string trimmed(const std::string &text)
{
    size_t begin = text.find_first_not_of(white), end = text.find_last_not_of(white);

    return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

around_reasoning find_around_reasoning(const common_chat_templates *templates)
{
    static const std::string thought = "THOUGHT", said = "SAID";
    common_chat_templates_inputs inputs;
    common_chat_params params;

    inputs.messages.resize(2);
    inputs.messages[0].role = "user";
    inputs.messages[0].content = "x";
    inputs.messages[1].role = "assistant";
    inputs.messages[1].reasoning_content = thought;
    inputs.messages[1].content = said;
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
    try {
        params = common_chat_templates_apply(templates, inputs);
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &) { /* it does not support continued replies */
        return {};
    }
    const std::string &text = params.generation_prompt;
    const size_t begin = params.thinking_start_tag.empty() ? std::string::npos : text.find(params.thinking_start_tag);
    const size_t middle = text.find(thought), end = text.rfind(said);

    if (begin < middle && middle < end && end != std::string::npos)
        return { text.substr(begin, middle - begin),
                 text.substr(middle + thought.size(), end - middle - thought.size()) };
    return {};
}

/* Move reasoning at the beginning of the last message's content to the message's reasoning. */
void move_reasoning(const around_reasoning &around, common_chat_templates_inputs &inputs)
{
    const std::string begin = trimmed(around.begin), end = trimmed(around.end);
    common_chat_msg &message = inputs.messages.back();
    const std::string text = message.content;
    const size_t first = text.find_first_not_of(white);

    if (begin.empty() || end.empty() || first == std::string::npos || !message.reasoning_content.empty() ||
        text.compare(first, begin.size(), begin) != 0)
        return;
    const size_t from = first + begin.size(), to = text.find(end, from);
    const std::string behind_begin = around.begin.substr(around.begin.find(begin) + begin.size());
    const size_t at_end = around.end.find(end);

    if (to == std::string::npos) {
        inputs.continue_final_message = COMMON_CHAT_CONTINUATION_REASONING;
        message.reasoning_content = without_space(text.substr(from), behind_begin, "");
        message.content.clear();
        return;
    }
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_CONTENT;
    message.reasoning_content = without_space(text.substr(from, to - from), behind_begin, around.end.substr(0, at_end));
    message.content = without_space(text.substr(to + end.size()), around.end.substr(at_end + end.size()), "");
}

/*
 * ---- tools in words ----
 *
 * A client may demand a call from a model whose template does not support tools. Then the system message describes the
 * tools, and a grammar forces the calls, in this form:
 *
 *   [{"name": "NAME", "arguments": {...}}]
 *
 * Calls of earlier turns are also written in that form, and their results as user messages, because such a template
 * would omit the calls and may reject the role of the results.
 */

std::string description_of(const common_chat_templates_inputs &inputs)
{
    std::string text = "Reply with calls of tools. Each line describes one of them:\n\n";

    for (const common_chat_tool &tool : inputs.tools)
        text +=
            json{
                { "name", tool.name },
                { "description", tool.description },
                { "parameters", json::parse(tool.parameters) }
            }.dump() +
            "\n";
    text += "\nWrite nothing but a JSON array of ";
    text += inputs.parallel_tool_calls ? "one or more calls" : "one call";
    return text + ", in this form:\n\n[{\"name\": \"name of the tool\", \"arguments\": {\"name\": \"value\"}}]";
}

void append(common_chat_msg &to, const std::string &text)
{
    to.content = to.render_content();
    to.content_parts.clear();
    to.content += (to.content.empty() ? "" : "\n\n") + text;
}

void write_calls(common_chat_msg &message)
{
    json calls = json::array();

    for (const common_chat_tool_call &call : message.tool_calls)
        calls.push_back(json{ { "name", call.name }, { "arguments", json::parse(call.arguments) } });
    message.tool_calls.clear();
    append(message, calls.dump());
}

/* Adjacent results become one message, followed by the user's text, because templates expect turns to alternate. */
std::vector<common_chat_msg> without_tools(const std::vector<common_chat_msg> &messages)
{
    std::vector<common_chat_msg> made;
    bool is_result_last = false;

    for (const common_chat_msg &message : messages) {
        bool is_result = message.role == "tool";

        if (is_result_last && (is_result || message.role == "user")) {
            append(made.back(), message.render_content());
            continue;
        }
        made.push_back(message);
        if (is_result) {
            common_chat_msg result;

            result.role = "user";
            append(result, message.render_content());
            made.back() = result;
        } else if (!message.tool_calls.empty()) {
            write_calls(made.back());
        }
        is_result_last = is_result;
    }
    return made;
}

/* Write the tools into the messages of both forms. What remains has no tools; the result has their shapes. */
std::vector<common_chat_tool> word_tools(asked &conversation)
{
    common_chat_templates_inputs &inputs = conversation.inputs, &shaped = conversation.shaped;
    std::vector<common_chat_tool> shapes = std::move(shaped.tools);
    std::vector<common_chat_msg> messages = without_tools(inputs.messages);

    if (messages.empty() || (messages[0].role != "system" && messages[0].role != "developer")) {
        messages.insert(messages.begin(), common_chat_msg());
        messages[0].role = "system";
    }
    append(messages[0], description_of(inputs));
    inputs.messages = shaped.messages = messages;
    inputs.tools.clear();
    shaped.tools.clear();
    inputs.tool_choice = shaped.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    return shapes;
}

/* Make the parser that reads calls of these tools from the reply, and nothing else except reasoning before them. */
void demand_worded_calls(const std::vector<common_chat_tool> &tools, const common_chat_templates_inputs &inputs,
                         common_chat_params &params)
{
    const bool may_reason = params.supports_thinking && inputs.reasoning_format != COMMON_REASONING_FORMAT_NONE &&
                            !params.thinking_end_tags.empty();
    const common_peg_arena parser = build_chat_peg_parser([&](common_chat_peg_builder &p) {
        common_peg_parser calls = p.standard_json_tools("", "", common_chat_tools_to_json_oaicompat(tools),
                                                        inputs.parallel_tool_calls, true, "name", "arguments", true) +
                                  p.end();

        if (may_reason) {
            const std::string &end = params.thinking_end_tags.front();

            calls = p.optional(p.optspace(params.thinking_start_tag) + p.reasoning(p.until(end)) + p.optspace(end)) +
                    p.space() + calls;
        }
        return p.prefix(params.generation_prompt, params.thinking_start_tag) << calls;
    });

    params.parser = parser.save();
    params.grammar_lazy = false;
    params.grammar_triggers.clear();
}

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
        chat.reasoning = { trimmed(params.thinking_start_tag) };
        for (const std::string &tag : params.thinking_end_tags)
            chat.reasoning.insert(trimmed(tag));
        if (chat.is_analysed)
            chat.around = find_around_reasoning(chat.templates.get());
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
    const common_chat_templates_inputs shaped = plain.any() ? plain.marked(given.shaped) : given.shaped;
    const std::string before = rendered(chat, shaped).prompt;

    if (plain.any())
        prompt = common_chat_templates_apply(chat.templates.get(), shaped).prompt;
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
        throw hth_refused(std::string("the grammar of the tools or the schema cannot be used: ") + err.message +
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
    params = common_chat_templates_apply(chat->templates.get(), given.shaped);
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
    const std::vector<common_chat_tool> tools = in_words ? word_tools(given) : std::vector<common_chat_tool>();
    const plain_texts plain(chat->names, chat->reasoning, chat->source, given.inputs);
    common_chat_params params = apply_plainly(chat, given, plain);

    if (in_words) {
        demand_worded_calls(tools, given.inputs, params);
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
    return hth_guarded(err, "read the chat template", [&] {
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
    return hth_guarded(err, "apply the chat template", [&] {
        hearth_chat_prompt made = {};
        std::unique_ptr<hearth_chat_prompt, prompt_clearer> holder(&made);

        hth_run_bounded(bounds_of(*conversation), [&] {
            asked given = asked_of(chat->schemas, markup_of_calls(chat), *conversation);
            std::vector<size_t> places;

            if (given.inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE &&
                !given.inputs.messages.empty()) {
                move_reasoning(chat->around, given.inputs);
                move_reasoning(chat->around, given.shaped);
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

        return status == HEARTH_OK ? hth_llama_slices_give(all, n_bytes, tokens, capacity, n_out, err) : status;
    });
}

/* ---- replies ---- */

hearth_status hth_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err)
{
    if (!parser || !out)
        return hth_fail(err, HEARTH_MISUSE, "a reader of replies needs the parser of a prompt");
    return hth_guarded(err, "make a parser for replies", [&] {
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
