/*
 * llama_worded_tools.cpp - tools in the system message, calls and results as text
 */
#include "llama/llama_worded_tools.h"

#include <string>

#include <chat-peg-parser.h>
#include <json.h>

namespace
{

using json = common_json;

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

} /* namespace */

std::vector<common_chat_tool> hth_word_tools(asked &conversation)
{
    common_chat_templates_inputs &inputs = conversation.inputs, &told = conversation.told;
    std::vector<common_chat_tool> shapes = std::move(told.tools);
    std::vector<common_chat_msg> messages = without_tools(inputs.messages);

    if (messages.empty() || (messages[0].role != "system" && messages[0].role != "developer")) {
        messages.insert(messages.begin(), common_chat_msg());
        messages[0].role = "system";
    }
    append(messages[0], description_of(inputs));
    inputs.messages = told.messages = messages;
    inputs.tools.clear();
    told.tools.clear();
    inputs.tool_choice = told.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    return shapes;
}

void hth_demand_worded_calls(const std::vector<common_chat_tool> &tools, const common_chat_templates_inputs &inputs,
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
