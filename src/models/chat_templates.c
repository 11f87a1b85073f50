/*
 * chat_templates.c - see chat_templates.h
 *
 * The tokenizer adds the token that begins every text. If a family has no place for a system message, it goes before
 * the first user message.
 */
#include "models/chat_templates.h"

#include <string.h>

/* A loop over the messages of user and assistant, with the texts of system messages in ns.system. */
#define WITH_SYSTEM(body)                                    \
    "{%- set ns = namespace(system='') -%}"                  \
    "{%- for m in messages -%}"                              \
    "{%- if m.role == 'system' or m.role == 'developer' -%}" \
    "{%- set ns.system = ns.system + (m.content or '') -%}"  \
    "{%- else -%}" body "{%- endif -%}"                      \
    "{%- endfor -%}"

/* Before a user message: insert text, which contains ns.system, once. */
#define SYSTEM_BEFORE(text) "{%- if ns.system -%}" text "{%- set ns.system = '' -%}{%- endif -%}"

static const hth_chat_template templates[] = {
    { .name = "alpaca",
      .source = WITH_SYSTEM("{%- if m.role == 'assistant' -%}"
                            "{{ '### Response:\n' + (m.content or '') + '\n\n' }}"
                            "{%- else -%}" SYSTEM_BEFORE(
                                "{{ ns.system + '\n\n' }}") "{{ '### Instruction:\n' + (m.content or '') + '\n\n' }}"
                                                            "{%- endif -%}") "{%- if add_generation_prompt -%}{{ '### "
                                                                             "Response:\n' }}{%- endif -%}",
      .stop = { "### Instruction:" } },
    { .name = "chatml",
      .source = "{%- for m in messages -%}"
                "{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}"
                "{%- endfor -%}"
                "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}",
      .stop = { "<|im_end|>", "<|im_start|>" } },
    { .name = "gemma",
      .source = WITH_SYSTEM(
          "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' }}"
          "{%- if m.role != 'assistant' -%}" SYSTEM_BEFORE(
              "{{ ns.system + '\n\n' }}") "{%- endif -%}"
                                          "{{ (m.content or '') + '<end_of_turn>\n' }}") "{%- if add_generation_prompt "
                                                                                         "-%}{{ "
                                                                                         "'<start_of_turn>model\n' "
                                                                                         "}}{%- endif -%}",
      .stop = { "<end_of_turn>" } },
    { .name = "llama2",
      .source =
          WITH_SYSTEM("{%- if m.role == 'assistant' -%}"
                      "{{ ' ' + (m.content or '') + ' ' + eos_token }}"
                      "{%- else -%}"
                      "{{ '[INST] ' }}" SYSTEM_BEFORE(
                          "{{ '<<SYS>>\n' + ns.system + '\n<</SYS>>\n\n' }}") "{{ (m.content or '') + ' [/INST]' }}"
                                                                              "{%- endif -%}"),
      .stop = { "[INST]" } },
    { .name = "llama3",
      .source = "{%- for m in messages -%}"
                "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + (m.content or '') + '<|eot_id|>' }}"
                "{%- endfor -%}"
                "{%- if add_generation_prompt -%}"
                "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
                "{%- endif -%}",
      .stop = { "<|eot_id|>" } },
    { .name = "mistral",
      .source =
          WITH_SYSTEM("{%- if m.role == 'assistant' -%}"
                      "{{ ' ' + (m.content or '') + eos_token }}"
                      "{%- else -%}"
                      "{{ '[INST] ' }}" SYSTEM_BEFORE("{{ ns.system + '\n\n' }}") "{{ (m.content or '') + '[/INST]' }}"
                                                                                  "{%- endif -%}"),
      .stop = { "[INST]" } },
    { .name = "phi3",
      .source = "{%- for m in messages -%}"
                "{{ '<|' + m.role + '|>\n' + (m.content or '') + '<|end|>\n' }}"
                "{%- endfor -%}"
                "{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%}",
      .stop = { "<|end|>" } },
    { .name = "vicuna",
      .source = WITH_SYSTEM("{%- if m.role == 'assistant' -%}"
                            "{{ 'ASSISTANT: ' + (m.content or '') + eos_token + '\n' }}"
                            "{%- else -%}" SYSTEM_BEFORE(
                                "{{ ns.system + '\n\n' }}") "{{ 'USER: ' + (m.content or '') + '\n' }}"
                                                            "{%- endif -%}") "{%- if add_generation_prompt -%}{{ "
                                                                             "'ASSISTANT:' }}{%- endif -%}",
      .stop = { "USER:" } },
    { .name = "zephyr",
      .source = "{%- for m in messages -%}"
                "{{ '<|' + m.role + '|>\n' + (m.content or '') + eos_token + '\n' }}"
                "{%- endfor -%}"
                "{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%}",
      .stop = { "<|user|>" } },
};

const hth_chat_template *hth_chat_template_named(const char *name)
{
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    for (size_t i = 0; i < hth_n_engine_templates; i++)
        if (strcmp(hth_engine_templates[i].name, name) == 0)
            return &hth_engine_templates[i];
    return NULL;
}

bool hth_chat_template_is_given(const char *value)
{
    return hth_chat_template_named(value) || strstr(value, "{{") || strstr(value, "{%");
}
