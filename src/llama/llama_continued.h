/*
 * llama_continued.h - the beginning of a continued reply
 *
 * The engine writes it after the prompt: a block of reasoning, for templates that have one, and the content. A client
 * may have sent both as content, with the template's texts around the reasoning. Then the engine would write an empty
 * block before that one.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_CONTINUED_H
#define HTH_LLAMA_LLAMA_CONTINUED_H

#include <string>

#include <chat.h>

/* What the engine writes before and after reasoning, including white space. Empty: the template has no reasoning. */
struct around_reasoning {
    std::string begin, end;
};

around_reasoning hth_find_around_reasoning(const common_chat_templates *templates);

/* Move reasoning at the beginning of the last message's content to the message's reasoning. */
void hth_move_reasoning(const around_reasoning &around, common_chat_templates_inputs &inputs);

/* The text without white space at both ends. */
std::string hth_trimmed(const std::string &text);

#endif
