/*
 * llama_continued.h - the beginning of a reply that goes on
 *
 * The engine writes it behind the prompt: a block of reasoning, for templates that have one, and the content. A client
 * may have sent both as content, with the template's texts around the reasoning. Then the engine would write an empty
 * block before that one.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_CONTINUED_H
#define HTH_LLAMA_LLAMA_CONTINUED_H

#include <string>

#include <chat.h>

/* What the engine writes before and behind reasoning, with white space. Empty: the template has none. */
struct around_reasoning {
    std::string begin, end;
};

around_reasoning hth_find_around_reasoning(const common_chat_templates *templates);

/* Reasoning at the beginning of the last message's content becomes its reasoning. */
void hth_move_reasoning(const around_reasoning &around, common_chat_templates_inputs &inputs);

/* Without white space at both ends. */
std::string hth_trimmed(const std::string &text);

#endif
