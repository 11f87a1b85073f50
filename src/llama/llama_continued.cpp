/*
 * llama_continued.cpp - see llama_continued.h
 */
#include "llama/llama_continued.h"

#include <new>
#include <stdexcept>

namespace
{

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

} /* namespace */

std::string hth_trimmed(const std::string &text)
{
    size_t begin = text.find_first_not_of(white), end = text.find_last_not_of(white);

    return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

around_reasoning hth_find_around_reasoning(const common_chat_templates *templates)
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

void hth_move_reasoning(const around_reasoning &around, common_chat_templates_inputs &inputs)
{
    const std::string begin = hth_trimmed(around.begin), end = hth_trimmed(around.end);
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
