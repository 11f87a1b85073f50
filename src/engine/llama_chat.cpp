/*
 * llama_chat.cpp - what llama-common knows of chat templates, within bounds
 *
 * A conversation is checked (JSON is measured before it is parsed, schemas before they are converted), handed to the
 * engine's templates, and what comes back is written out as plain C: text, grammar, triggers, stops, and the parser as
 * one string from which a reader is made elsewhere.
 *
 * The engine finds out how a template writes calls and reasoning by rendering it some dozens of times, and does so again
 * for each request (1 to 40 ms). Where no template of its own list is recognised, what it finds depends on the tools and
 * options alone, so the last few are kept, and only the text is rendered anew; see `remembered`.
 */
#include "engine/llama_chat.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <chat-auto-parser.h>
#include <chat.h>
#include <llama.h>

#include "engine/llama_guard.h"
#include "engine/module_lock.h"
#include "engine/schema_cost.h"

extern "C" {
#include "base/json_bounds.h"
#include "engine/sampling.h"
}

namespace
{

using json = common_json;

constexpr size_t template_bytes_max = 512 << 10;
constexpr size_t template_nesting_max = 128;
constexpr size_t schema_bytes_max = 256 << 10;
constexpr size_t schema_values_max = 4096;
constexpr size_t schema_members_max = 200; /* the converter's time grows with the cube of optional ones */
constexpr size_t schema_name_bytes_max = 256;
constexpr size_t pattern_bytes_max = 1024;   /* the converter recurses along it */
constexpr double integer_bound_max = 9.2e18; /* what is less has an opposite, and is not 2^63 - 1, which means none */
constexpr double lone_bound_max = 1e15;
constexpr double repetitions_max = 10000;     /* as in gbnf.h */
constexpr double all_repetitions_max = 50000; /* each becomes a rule; gbnf.h has the limit of those */
constexpr size_t json_depth_max = 64;
constexpr uint64_t pairs_max = 8000000; /* of one conversation; the parser keeps members in a list; some 40 ms */
constexpr double schemas_ms_max = 250;  /* for the grammars of all tools */
constexpr size_t values_bytes_max = 64 << 10;
constexpr size_t reply_nesting_max = 256;
constexpr size_t triggers_max = 64;
constexpr size_t remembered_max = 8;

/* What is wrong with a conversation: HEARTH_MISUSE. */
struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

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

/* Brackets of any kind in one another, wherever they are. */
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

/* The template parser recurses along brackets, blocks and chains of operators in front of a value. */
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

/* What the texts of one conversation have taken so far of what they may. */
struct spent {
    uint64_t n_pairs = 0;
    double n_repetitions = 0; /* that counts in schemas ask for */
    schema_cost schemas{ schemas_ms_max };
};

json parse_within(const std::string &what, const char *text, size_t bytes_max, spent &so_far)
{
    size_t n_bytes = std::strlen(text);
    hth_json_bounds bounds;

    if (n_bytes > bytes_max)
        throw refused(what + " is longer than " + std::to_string(bytes_max >> 10) + " KiB");
    bounds = hth_json_measure(text, n_bytes);
    if (bounds.depth > json_depth_max || bounds.n_values > schema_values_max)
        throw refused(what + " is nested deeper than 64, or has more than 4096 values");
    so_far.n_pairs += bounds.n_pairs;
    if (so_far.n_pairs > pairs_max)
        throw refused(what + " has, with the others, objects of too many members");
    try {
        return json::parse(text);
    } catch (const common_json_error &) {
        throw refused(what + " is not valid JSON");
    }
}

void check_schema(const std::string &what, const json &schema)
{
    if (schema.is_object()) {
        if (schema.size() > schema_members_max)
            throw refused(what + " has an object of more than 200 members");
        for (const auto &[name, value] : schema.items()) {
            if (std::string(name).size() > schema_name_bytes_max)
                throw refused(what + " has a name of more than 256 bytes");
            if (std::string(name) == "pattern" && value.is_string() &&
                value.get<std::string>().size() > pattern_bytes_max)
                throw refused(what + " has a pattern of more than 1024 bytes");
            check_schema(what, value);
        }
    } else if (schema.is_array()) {
        for (const auto &value : schema)
            check_schema(what, value);
    }
}

bool is_integer(const json &schema)
{
    bool found = false;

    if (!schema.contains("type"))
        return false;
    if (schema.at("type").is_array()) {
        for (const auto &one : schema.at("type"))
            found = found || (one.is_string() && one.get<std::string>() == "integer");
        return found;
    }
    return schema.at("type").is_string() && schema.at("type").get<std::string>() == "integer";
}

/*
 * The engine's converter reads bounds of integers as 64 bits, without a look at whether they fit, and writes one bound
 * alone for 15 digits at most; and a grammar repeats so many times at most. Bounds beyond that are left out: the reply is
 * not kept to them then.
 */
void drop_wide_bounds(json &schema, spent &so_far)
{
    if (schema.is_array()) {
        for (size_t i = 0; i < schema.size(); i++)
            drop_wide_bounds(schema.at(i), so_far);
        return;
    }
    if (!schema.is_object())
        return;
    if (is_integer(schema)) {
        std::string last;
        size_t n_left = 0;

        for (const char *key : { "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum" }) {
            if (!schema.contains(key) || !schema.at(key).is_number())
                continue;
            if (!(std::fabs(schema.at(key).get<double>()) < integer_bound_max)) {
                schema.erase(key);
            } else {
                last = key;
                n_left++;
            }
        }
        if (n_left == 1 && std::fabs(schema.at(last).get<double>()) >= lone_bound_max)
            schema.erase(last);
    }
    for (const char *key : { "minLength", "maxLength", "minItems", "maxItems" }) {
        double count = schema.contains(key) && schema.at(key).is_number() ? schema.at(key).get<double>() : 0;

        if (count > repetitions_max || count > all_repetitions_max - so_far.n_repetitions)
            schema.erase(key);
        else
            so_far.n_repetitions += count;
    }
    for (const auto &entry : schema.items())
        drop_wide_bounds(entry.value(), so_far);
}

json schema_within(const std::string &what, const char *text, spent &so_far)
{
    json schema = parse_within(what, text, schema_bytes_max, so_far);

    if (!schema.is_object())
        throw refused(what + " is not an object");
    check_schema(what, schema);
    try {
        so_far.schemas.add(schema);
    } catch (const schema_cost::too_much &e) {
        throw refused(what + ", with the others before: " + e.what());
    }
    drop_wide_bounds(schema, so_far);
    return schema;
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
            throw refused("the arguments of a call are not a JSON object");
        message.tool_calls.push_back({ call.name, call.arguments, call.id ? call.id : "" });
    }
    if (turn.call_id)
        message.tool_call_id = turn.call_id;
    if (turn.name)
        message.tool_name = turn.name;
    return message;
}

common_chat_templates_inputs inputs_of(const hearth_conversation &conversation)
{
    common_chat_templates_inputs inputs;
    spent so_far;

    for (size_t i = 0; i < conversation.n_turns; i++)
        inputs.messages.push_back(message_of(conversation.turns[i], so_far));
    for (size_t i = 0; i < conversation.n_tools; i++) {
        const hearth_chat_tool &tool = conversation.tools[i];
        json schema{ { "type", "object" }, { "properties", json::object() } };

        if (tool.parameters) {
            json given =
                schema_within(std::string("the parameters of tool '") + tool.name + "'", tool.parameters, so_far);

            if (!given.empty())
                schema = given;
        }
        inputs.tools.push_back({ tool.name, tool.description ? tool.description : "", schema.dump() });
    }
    inputs.tool_choice = conversation.tool_choice == HEARTH_TOOL_NONE     ? COMMON_CHAT_TOOL_CHOICE_NONE
                       : conversation.tool_choice == HEARTH_TOOL_REQUIRED ? COMMON_CHAT_TOOL_CHOICE_REQUIRED
                                                                          : COMMON_CHAT_TOOL_CHOICE_AUTO;
    inputs.parallel_tool_calls = conversation.parallel_calls;
    if (conversation.json_schema)
        inputs.json_schema = schema_within("the schema", conversation.json_schema, so_far).dump();
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
            throw refused("template_values is not a JSON object");
        for (const auto &[name, value] : values.items())
            inputs.chat_template_kwargs[std::string(name)] = value.dump();
    }
    return inputs;
}

/* Everything of the inputs besides the conversation itself, as one text. */
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

/* The single token whose name a text is, or -1. */
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

/* Triggers as the sampler reads them. False when one of them cannot be honoured: then the grammar has to be left out. */
bool write_triggers(const llama_vocab *vocab, const common_chat_params &params, hearth_chat_prompt *out)
{
    if (params.grammar_triggers.empty() || params.grammar_triggers.size() > triggers_max)
        return false;
    out->triggers = array_of<hearth_trigger>(params.grammar_triggers.size());
    for (const common_grammar_trigger &from : params.grammar_triggers) {
        hearth_trigger &to = out->triggers[out->n_triggers];
        hearth_token token = -1;

        if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN)
            token = from.token;
        else if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD)
            token = token_of(vocab, from.value);
        if (from.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN || from.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL) {
            /* Looking ahead is what the sampler's patterns cannot do. */
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

void free_triggers(hearth_chat_prompt *prompt)
{
    for (size_t i = 0; i < prompt->n_triggers; i++)
        std::free(const_cast<char *>(prompt->triggers[i].text));
    std::free(prompt->triggers);
    prompt->triggers = nullptr;
    prompt->n_triggers = 0;
}

void clear(hearth_chat_prompt *prompt)
{
    free_triggers(prompt);
    for (size_t i = 0; i < prompt->n_stop; i++)
        std::free(prompt->stop[i]);
    std::free(prompt->stop);
    std::free(prompt->shown_tokens);
    std::free(prompt->text);
    std::free(prompt->grammar);
    std::free(prompt->grammar_prefix);
    std::free(prompt->parser);
    *prompt = {};
}

struct prompt_clearer {
    void operator()(hearth_chat_prompt *prompt) const
    {
        clear(prompt);
    }
};

void write_prompt(const llama_vocab *vocab, const common_chat_templates_inputs &inputs,
                  const common_chat_params &params, hearth_chat_prompt *out)
{
    json parser{
        { "format", (int)params.format },
        { "reasoning_format", (int)inputs.reasoning_format },
        { "generation_prompt", params.generation_prompt },
        { "parser", params.parser },
        { "continues", inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE },
    };

    out->text = copied(params.prompt);
    out->n_bytes = std::strlen(out->text); /* a template could write a zero byte */
    out->can_think = params.supports_thinking;
    if (params.grammar.size() > HTH_GRAMMAR_BYTES_MAX && !params.grammar_lazy)
        throw refused("the grammar of the tools or the schema has more than " +
                      std::to_string(HTH_GRAMMAR_BYTES_MAX >> 10) + " KiB; give fewer tools, or simpler parameters");
    /* One that is only to keep calls in shape, and is too large for that, is left out: calls are found without it, too. */
    if (!params.grammar.empty() && params.grammar.size() <= HTH_GRAMMAR_BYTES_MAX &&
        (!params.grammar_lazy || write_triggers(vocab, params, out))) {
        out->grammar = copied(params.grammar);
        out->grammar_is_lazy = params.grammar_lazy;
        if (!params.grammar_lazy && !params.generation_prompt.empty())
            out->grammar_prefix = copied(params.generation_prompt);
    } else {
        free_triggers(out);
    }
    out->stop = array_of<char *>(params.additional_stops.size());
    for (const std::string &stop : params.additional_stops)
        out->stop[out->n_stop++] = copied(stop);
    out->shown_tokens = array_of<hearth_token>(params.preserved_tokens.size());
    for (const std::string &name : params.preserved_tokens) {
        hearth_token token = token_of(vocab, name);

        if (token >= 0 && is_control(vocab, token) && out->n_shown_tokens < 64)
            out->shown_tokens[out->n_shown_tokens++] = token;
    }
    out->parser = copied(parser.dump());
}

/* What the engine found out for some tools and options; the text is left empty. */
struct remembered {
    std::string options;
    common_chat_params params;
};

} /* namespace */

struct hth_llama_chat {
    common_chat_templates_ptr templates;
    const llama_vocab *vocab = nullptr;
    std::string source;
    bool is_analysed = false;                         /* the engine knows the template by analysis, not by its list */
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
    std::list<remembered> recent;                     /* latest use first */
};

struct hth_llama_chat_reader {
    common_chat_parser_params params;
    common_chat_msg begun; /* what the prompt holds of the reply already, where it goes on with one */
};

namespace
{

/*
 * Does the engine treat this template as one of those it was written for? Those may change the conversation, or decide
 * by it how replies are read, so nothing of them is remembered.
 */
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

bool find_out_whether_analysed(const hth_llama_chat *chat, const common_chat_templates *templates)
{
    (void)chat;
    try {
        for (const char *variant : { "", "tool_use" }) {
            std::string source = common_chat_templates_source(templates, variant);

            if (!source.empty() && is_listed(common_chat_template(source, "", "")))
                return false;
        }
        return true;
    } catch (const std::exception &) {
        return false; /* then it is analysed for each request, and says then what is wrong */
    }
}

common_chat_params apply(hth_llama_chat *chat, const common_chat_templates_inputs &inputs)
{
    bool may_remember = chat->is_analysed && inputs.continue_final_message == COMMON_CHAT_CONTINUATION_NONE;
    std::string options;
    common_chat_params text;

    if (!may_remember)
        return common_chat_templates_apply(chat->templates.get(), inputs);
    options = options_of(inputs);
    {
        common_chat_templates_inputs plain = inputs;

        plain.force_pure_content = true; /* nothing but the rendering */
        text = common_chat_templates_apply(chat->templates.get(), plain);
    }
    {
        hth_module_guard guard(&chat->lock);

        for (auto at = chat->recent.begin(); at != chat->recent.end(); ++at)
            /* How a reply begins is part of how it is read, and may depend on the conversation. */
            if (at->options == options && at->params.generation_prompt == text.generation_prompt) {
                common_chat_params found = at->params;

                chat->recent.splice(chat->recent.begin(), chat->recent, at);
                found.prompt = text.prompt;
                return found;
            }
    }
    common_chat_params params = common_chat_templates_apply(chat->templates.get(), inputs);

    if (params.prompt == text.prompt && params.generation_prompt == text.generation_prompt &&
        options.size() + params.parser.size() + params.grammar.size() < (size_t)1 << 20) {
        hth_module_guard guard(&chat->lock);

        chat->recent.push_front({ options, params });
        chat->recent.front().params.prompt.clear();
        if (chat->recent.size() > remembered_max)
            chat->recent.pop_back();
    }
    return params;
}

/* The same, with errors that say what is wrong and not which part of the engine has met it. */
common_chat_params apply_plainly(hth_llama_chat *chat, const common_chat_templates_inputs &inputs)
{
    static constexpr char prefix[] = "Automatic parser generation failed: ";

    try {
        return apply(chat, inputs);
    } catch (const std::invalid_argument &e) {
        const char *at = std::strstr(e.what(), prefix);

        throw std::runtime_error(at ? at + sizeof(prefix) - 1 : e.what());
    }
}

/* The text behind a beginning that the reader of the reply has himself written. */
std::string without(const std::string &begun, const std::string &text)
{
    if (text.compare(0, begun.size(), begun) == 0)
        return text.substr(begun.size());
    return begun.compare(0, text.size(), text) == 0 ? std::string() : text;
}

/* HEARTH_MISUSE for what is wrong with what was given. */
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

} /* namespace */

extern "C" {

hearth_status hth_llama_chat_new(const struct llama_model *model, const char *given, hth_llama_chat **out,
                                 hearth_error *err)
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
        /* common_chat_templates_init rethrows a sliced exception, so what is wrong is learned here. */
        (void)common_chat_template(source, "", "");
        chat = std::make_unique<hth_llama_chat>();
        chat->templates = common_chat_templates_init(model, given ? given : "");
        chat->source = source;
        chat->vocab = model ? llama_model_get_vocab(model) : nullptr;
        chat->is_analysed = find_out_whether_analysed(chat.get(), chat->templates.get());
        *out = chat.release();
        return HEARTH_OK;
    });
}

const char *hth_llama_chat_source(const hth_llama_chat *chat)
{
    return chat->source.c_str();
}

void hth_llama_chat_free(hth_llama_chat *chat)
{
    delete chat;
}

hearth_status hth_llama_chat_render(const hth_llama_chat *chat, const hearth_chat_message *messages, size_t n_messages,
                                    char **text_out, hearth_error *err)
{
    return guarded(err, "apply the chat template", [&] {
        common_chat_templates_inputs inputs;

        for (size_t i = 0; i < n_messages; i++) {
            common_chat_msg message;

            message.role = messages[i].role;
            message.content = messages[i].content;
            inputs.messages.push_back(std::move(message));
        }
        *text_out = copied(common_chat_templates_apply(chat->templates.get(), inputs).prompt);
        return HEARTH_OK;
    });
}

hearth_status hth_llama_chat_prompt(hth_llama_chat *chat, const hearth_conversation *conversation,
                                    hearth_chat_prompt *out, hearth_error *err)
{
    return guarded(err, "apply the chat template", [&] {
        common_chat_templates_inputs inputs = inputs_of(*conversation);
        common_chat_params params = apply_plainly(chat, inputs);
        hearth_chat_prompt made = {};
        std::unique_ptr<hearth_chat_prompt, prompt_clearer> holder(&made);

        /* Where the engine finds no form of calls it leaves the tools out, and nothing would make the model call one. */
        if (inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED && !inputs.tools.empty() && params.grammar.empty())
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "the chat template of this model has no place for tools, so a call cannot be demanded; let "
                            "the model choose, or take a model whose template has tools");
        write_prompt(chat->vocab, inputs, params, &made);
        *out = made;
        made = {};
        return HEARTH_OK;
    });
}

/* ---- replies ---- */

hearth_status hth_llama_chat_reader_new(const char *parser, hth_llama_chat_reader **out, hearth_error *err)
{
    return guarded(err, "make a parser for replies", [&] {
        json from = json::parse(parser);
        auto reader = std::make_unique<hth_llama_chat_reader>();
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
                reader->begun = {}; /* it has no form yet: then all of it is told, as the engine does */
            }
        }
        *out = reader.release();
        return HEARTH_OK;
    });
}

void hth_llama_chat_reader_free(hth_llama_chat_reader *reader)
{
    delete reader;
}

hearth_status hth_llama_chat_read(const hth_llama_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                  hth_chat_reply *out, hearth_error *err)
{
    if (bracket_nesting(text, n_bytes) > reply_nesting_max) /* the parser recurses along them */
        return hth_fail(err, HEARTH_CORRUPT, "the reply nests brackets deeper than %zu", reply_nesting_max);
    return hth_guarded(err, "read the reply", [&] {
        common_chat_msg message;
        hth_chat_reply reply = {};

        try {
            message = common_chat_parse(std::string(text, n_bytes), !is_whole, reader->params);
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
