/*
 * llama_worded_tools.h - describes tools in words, for templates that have no place for them
 *
 * A client may demand a call from a model whose template does not support tools. Then the system message describes the
 * tools, and a grammar forces the calls, in this form:
 *
 *   [{"name": "NAME", "arguments": {...}}]
 *
 * Calls of earlier turns are also written in that form, and their results as user messages, because such a template
 * would omit the calls and may reject the role of the results.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_WORDED_TOOLS_H
#define HTH_LLAMA_LLAMA_WORDED_TOOLS_H

#include <vector>

#include <chat.h>

#include "llama/llama_conversation.h"

/* Write the tools into the messages of both forms. What remains has no tools; the result has their shapes. */
std::vector<common_chat_tool> hth_word_tools(asked &conversation);

/* Make the parser that reads calls of these tools from the reply, and nothing else except reasoning before them. */
void hth_demand_worded_calls(const std::vector<common_chat_tool> &tools, const common_chat_templates_inputs &inputs,
                             common_chat_params &params);

#endif
