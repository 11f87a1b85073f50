/*
 * llama_conversation.cpp - turns, tools and schemas, measured and compiled on their way to the engine
 */
#include "llama/llama_conversation.h"

#include <cstring>
#include <new>

extern "C" {
#include "base/json_bounds.h"
#include "llama/grammar_check.h"
}

namespace
{

using json = common_json;

constexpr size_t schema_bytes_max = 256 << 10;
constexpr size_t schema_values_max = 4096;
constexpr size_t json_depth_max = 64;
constexpr uint64_t pairs_max = 8000000; /* per conversation; about 40 ms, because the parser keeps members in a list */
constexpr size_t values_bytes_max = 64 << 10;
constexpr size_t known_bytes_max = 4 << 20;

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

json object_within(const std::string &what, const char *text, spent &so_far)
{
    json object = parse_within(what, text, schema_bytes_max, so_far);

    if (!object.is_object())
        throw refused(what + " is not an object");
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
            throw refused("the arguments of a call are not a JSON object");
        message.tool_calls.push_back({ call.name, call.arguments, call.id ? call.id : "" });
    }
    if (turn.call_id)
        message.tool_call_id = turn.call_id;
    if (turn.name)
        message.tool_name = turn.name;
    return message;
}

/* Can the parameters be compiled? Throws refused if they must be. */
bool is_compiled(known_schemas &known, const std::string &what, const json &schema, bool is_any_good, spent &so_far)
{
    try {
        known.check(what, schema.dump(), so_far.steps);
        return true;
    } catch (const refused &) {
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
        to.told.tools.push_back({ tool.name, description, to.schemas.tool(tool.name, schema, compiles).dump() });
    } catch (const llama_schemas::too_much &e) {
        throw refused(what + ": " + e.what());
    }
}

} /* namespace */

asked asked_of(known_schemas &known, llama_schemas::markup markup, const hearth_conversation &conversation)
{
    asked made{ {}, {}, llama_schemas(markup) };
    common_chat_templates_inputs &inputs = made.inputs, &told = made.told;
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
            throw refused("template_values is not a JSON object");
        for (const auto &[name, value] : values.items())
            inputs.chat_template_kwargs[std::string(name)] = value.dump();
        /* Templates have several names for it; the engine sets them all from this one. */
        if (values.contains("preserve_thinking") && !values.contains("preserve_reasoning"))
            inputs.chat_template_kwargs["preserve_reasoning"] = values.at("preserve_thinking").dump();
    }
    told = inputs;
    for (size_t i = 0; i < conversation.n_tools; i++)
        add_tool(known, conversation.tools[i], conversation.any_parameters, made, so_far);
    if (conversation.json_schema) {
        json schema = object_within("the schema", conversation.json_schema, so_far);

        if (!schema.empty())
            known.check("the schema", schema.dump(), so_far.steps);
        inputs.json_schema = schema.dump();
        told.json_schema = made.schemas.reply(schema).dump();
    }
    return made;
}

void known_schemas::check(const std::string &what, const std::string &schema, uint64_t &steps)
{
    uint64_t before = steps, taken = 0;
    hearth_error err = {};

    if (find(schema, taken)) {
        if (taken > steps)
            throw refused(what + ", with the others before, takes too long to be compiled");
        steps -= taken;
        return;
    }
    switch (hth_schema_check(schema.data(), schema.size(), &steps, &err)) {
    case HEARTH_OK: keep(schema, before - steps); break;
    case HEARTH_NO_MEMORY: throw std::bad_alloc();
    default: throw refused(what + ": " + err.message);
    }
}

bool known_schemas::find(const std::string &schema, uint64_t &taken)
{
    hth_module_guard guard(&lock_);
    auto found = taken_.find(schema);

    if (found != taken_.end())
        taken = found->second;
    return found != taken_.end();
}

void known_schemas::keep(const std::string &schema, uint64_t taken)
{
    hth_module_guard guard(&lock_);

    if (n_bytes_ + schema.size() > known_bytes_max) {
        taken_.clear();
        n_bytes_ = 0;
    }
    if (taken_.emplace(schema, taken).second)
        n_bytes_ += schema.size() + 128; /* plus the approximate size of an entry */
}
