/*
 * The tokenizer adds the token that begins every text. If a family has no place for a system message, it goes before
 * the first user message.
 */
#include "models/chat_templates.h"

#include <string.h>

#define BEGIN_REPLY(text) "{%- if add_generation_prompt -%}{{ '" text "' }}{%- endif -%}"

/* ---- our own ----------------------------------------------------------------------------------------------------- */

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
#define SYSTEM_FIRST SYSTEM_BEFORE("{{ ns.system + '\n\n' }}")

/* A message of the assistant, or of another role. */
#define ASSISTANT_OR(assistant, other) "{%- if m.role == 'assistant' -%}" assistant "{%- else -%}" other "{%- endif -%}"

#define MESSAGES(body) "{%- for m in messages -%}" body "{%- endfor -%}"

static const hth_chat_template templates[] = {
    { .name = "alpaca",
      .source = WITH_SYSTEM(ASSISTANT_OR("{{ '### Response:\n' + (m.content or '') + '\n\n' }}",
                                         SYSTEM_FIRST "{{ '### Instruction:\n' + (m.content or '') + '\n\n' }}"))
          BEGIN_REPLY("### Response:\n"),
      .stop = { "### Instruction:" } },
    { .name = "chatml",
      .source = MESSAGES("{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>\n' }}")
          BEGIN_REPLY("<|im_start|>assistant\n"),
      .stop = { "<|im_end|>", "<|im_start|>" } },
    { .name = "gemma",
      .source = WITH_SYSTEM("{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' }}"
                            "{%- if m.role != 'assistant' -%}" SYSTEM_FIRST "{%- endif -%}"
                            "{{ (m.content or '') + '<end_of_turn>\n' }}") BEGIN_REPLY("<start_of_turn>model\n"),
      .stop = { "<end_of_turn>" } },
    { .name = "llama2",
      .source = WITH_SYSTEM(
          ASSISTANT_OR("{{ ' ' + (m.content or '') + ' ' + eos_token }}",
                       "{{ '[INST] ' }}" SYSTEM_BEFORE(
                           "{{ '<<SYS>>\n' + ns.system + '\n<</SYS>>\n\n' }}") "{{ (m.content or '') + ' [/INST]' }}")),
      .stop = { "[INST]" } },
    { .name = "llama3",
      .source =
          MESSAGES("{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + (m.content or '') + '<|eot_id|>' }}")
              BEGIN_REPLY("<|start_header_id|>assistant<|end_header_id|>\n\n"),
      .stop = { "<|eot_id|>" } },
    { .name = "mistral",
      .source = WITH_SYSTEM(ASSISTANT_OR("{{ ' ' + (m.content or '') + eos_token }}",
                                         "{{ '[INST] ' }}" SYSTEM_FIRST "{{ (m.content or '') + '[/INST]' }}")),
      .stop = { "[INST]" } },
    { .name = "phi3",
      .source =
          MESSAGES("{{ '<|' + m.role + '|>\n' + (m.content or '') + '<|end|>\n' }}") BEGIN_REPLY("<|assistant|>\n"),
      .stop = { "<|end|>" } },
    { .name = "vicuna",
      .source = WITH_SYSTEM(ASSISTANT_OR("{{ 'ASSISTANT: ' + (m.content or '') + eos_token + '\n' }}", SYSTEM_FIRST
                                         "{{ 'USER: ' + (m.content or '') + '\n' }}")) BEGIN_REPLY("ASSISTANT:"),
      .stop = { "USER:" } },
    { .name = "zephyr",
      .source = MESSAGES("{{ '<|' + m.role + '|>\n' + (m.content or '') + eos_token + '\n' }}")
          BEGIN_REPLY("<|assistant|>\n"),
      .stop = { "<|user|>" } },
};

/* ---- the engine's ------------------------------------------------------------------------------------------------ */

/*
 * The engine has them as code (llama-chat.cpp, v0.5.0), which neither its reply parser nor ours can read. A test
 * compares each with that code. A name in both lists means ours.
 *
 * In each, r is the role of a message and c its content.
 */
#define EACH(body)                                             \
    "{%- for m in messages -%}{%- set c = m.content or '' -%}" \
    "{%- set r = 'system' if m.role == 'developer' else m.role -%}" body "{%- endfor -%}"

/* Tool results belong to the user. */
#define ROLES(system, user, assistant)                                                                             \
    "{%- if r == 'system' -%}{{ " system " }}{%- elif r == 'assistant' -%}{{ " assistant " }}{%- else -%}{{ " user \
    " }}{%- endif -%}"

/* A mark before each turn of system message and user. */
#define TURNS(first, mark, system, user, assistant)                                                                    \
    "{%- set ns = namespace(inside=" first ") -%}" EACH("{%- if not ns.inside -%}{{ '" mark "' }}{%- endif -%}" ROLES( \
        system, user, assistant) "{%- set ns.inside = r != 'assistant' -%}")

#define MISTRAL(mark, user, assistant) TURNS("false", mark, "c + '\n\n'", user, assistant " + '</s>'")
#define LLAMA_2(content, mark)                                                                                     \
    "{{ '[INST] ' }}" TURNS("true", mark, "'<<SYS>>\n' + " content " + '\n<</SYS>>\n\n'", content " + ' [/INST]'", \
                            content " + '</s>'")

/* Templates of families */
#define BAILING(begin) \
    EACH("{{ '<role>' + ('HUMAN' if r == 'user' else r | upper) + '</role>' + c }}") BEGIN_REPLY(begin)
#define EXAONE                                                                                \
    EACH(ROLES("'[|system|]' + c | trim + '[|endofturn|]\n'", "'[|user|]' + c | trim + '\n'", \
               "'[|assistant|]' + c | trim + '[|endofturn|]\n'"))                             \
    BEGIN_REPLY("[|assistant|]")
#define GRANITE                                                                         \
    EACH("{{ '<|start_of_role|>' + r + '<|end_of_role|>' + c + '<|end_of_text|>\n' }}") \
    BEGIN_REPLY("<|start_of_role|>assistant<|end_of_role|>")

const hth_chat_template hth_engine_templates[] = {
    { .name = "bailing", .source = BAILING("<role>ASSISTANT</role>"), .stop = { "<role>HUMAN</role>" } },
    { .name = "bailing-think", .source = BAILING("<role>ASSISTANT</role><think>"), .stop = { "<role>HUMAN</role>" } },
    { .name = "bailing2",
      .source =
          EACH("{{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' if loop.first and r != 'system' else '' }}"
               "{{ '<role>' + ('HUMAN' if r == 'user' else r | upper) + '</role>' + c + '<|role_end|>' }}")
              BEGIN_REPLY("<role>ASSISTANT</role>"),
      .stop = { "<|role_end|>" } },
    { .name = "chatglm3",
      .source = "{{ '[gMASK]sop' }}" EACH("{{ '<|' + r + '|>\n ' + c }}") BEGIN_REPLY("<|assistant|>"),
      .stop = { "<|user|>" } },
    { .name = "chatglm4",
      .source = "{{ '[gMASK]<sop>' }}" EACH("{{ '<|' + r + '|>\n' + c }}") BEGIN_REPLY("<|assistant|>\n"),
      .stop = { "<|user|>" } },
    { .name = "command-r",
      .source = EACH(ROLES("'<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + c | trim + '<|END_OF_TURN_TOKEN|>'",
                           "'<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + c | trim + '<|END_OF_TURN_TOKEN|>'",
                           "'<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + c | trim + '<|END_OF_TURN_TOKEN|>'"))
          BEGIN_REPLY("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"),
      .stop = { "<|END_OF_TURN_TOKEN|>" } },
    { .name = "deepseek",
      .source = EACH(ROLES("c", "'### Instruction:\n' + c + '\n'", "'### Response:\n' + c + '\n<|EOT|>\n'"))
          BEGIN_REPLY("### Response:\n"),
      .stop = { "<|EOT|>" } },
    { .name = "deepseek-ocr", .source = EACH("{{ c }}"), .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "deepseek2",
      .source = EACH(ROLES("c + '\n\n'", "'User: ' + c + '\n\n'", "'Assistant: ' + c + '<｜end▁of▁sentence｜>'"))
          BEGIN_REPLY("Assistant:"),
      .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "deepseek3",
      .source = EACH(ROLES("c + '\n\n'", "'<｜User｜>' + c", "'<｜Assistant｜>' + c + '<｜end▁of▁sentence｜>'"))
          BEGIN_REPLY("<｜Assistant｜>"),
      .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "exaone-moe",
      .source = EACH("{{ '<|' + r + '|>\n' + c | trim + '<|endofturn|>\n' }}") BEGIN_REPLY("<|assistant|>\n"),
      .stop = { "<|endofturn|>" } },
    { .name = "exaone3", .source = EXAONE, .stop = { "[|endofturn|]" } },
    { .name = "exaone4", .source = EXAONE, .stop = { "[|endofturn|]" } },
    { .name = "falcon3",
      .source = EACH("{{ '<|' + r + '|>\n' + c + '\n' }}") BEGIN_REPLY("<|assistant|>\n"),
      .stop = { "<|user|>" } },
    { .name = "gigachat",
      .source = "{{ '<s>' }}" EACH(
          ROLES("c + '<|message_sep|>'",
                "'user<|role_sep|>' + c + '<|message_sep|>available functions<|role_sep|>[]<|message_sep|>'",
                "'assistant<|role_sep|>' + c + '<|message_sep|>'")) BEGIN_REPLY("assistant<|role_sep|>"),
      .stop = { "<|message_sep|>" } },
    { .name = "glmedge",
      .source = EACH("{{ '<|' + r + '|>\n' + c }}") BEGIN_REPLY("<|assistant|>"),
      .stop = { "<|user|>" } },
    { .name = "gpt-oss",
      .source = EACH("{{ '<|start|>' + r + '<|message|>' + c + ('<|return|>' if r == 'assistant' else '<|end|>') }}")
          BEGIN_REPLY("<|start|>assistant"),
      .stop = { "<|return|>" } },
    { .name = "granite", .source = GRANITE, .stop = { "<|end_of_text|>" } },
    { .name = "granite-4.0", .source = GRANITE, .stop = { "<|end_of_text|>" } },
    { .name = "granite-4.1", .source = GRANITE, .stop = { "<|end_of_text|>" } },
    { .name = "grok-2",
      .source = EACH(ROLES("'System: ' + c | trim + '<|separator|>\n\n'", "'Human: ' + c | trim + '<|separator|>\n\n'",
                           "'Assistant: ' + c + '<|separator|>\n\n'")) BEGIN_REPLY("Assistant:"),
      .stop = { "<|separator|>" } },
    { .name = "hunyuan-dense",
      .source = EACH(ROLES("c + '<｜hy_place▁holder▁no▁3｜>'", "'<｜hy_User｜>' + c + '<｜hy_Assistant｜>'",
                           "'<｜hy_Assistant｜>' + c + '<｜hy_place▁holder▁no▁2｜>'")),
      .stop = { "<｜hy_place▁holder▁no▁2｜>" } },
    { .name = "hunyuan-moe",
      .source = EACH(
          ROLES("'<|startoftext|>' + c + '<|extra_4|>'", "'<|startoftext|>' + c + '<|extra_0|>'", "c + '<|eos|>'")),
      .stop = { "<|eos|>" } },
    { .name = "hunyuan-vl",
      .source = "{{ '<｜hy_begin▁of▁sentence｜>' }}" EACH(
          ROLES("c + '<｜hy_place▁holder▁no▁3｜>'", "c + '<｜hy_User｜>'", "c + '<｜hy_Assistant｜>'")),
      .stop = { "<｜hy_Assistant｜>" } },
    { .name = "kimi-k2",
      .source = EACH("{{ '<|im_' + r + '|>' + r + '<|im_middle|>' + c + '<|im_end|>' }}")
          BEGIN_REPLY("<|im_assistant|>assistant<|im_middle|>"),
      .stop = { "<|im_end|>" } },
    { .name = "llama2-sys", .source = LLAMA_2("c", "[INST] "), .stop = { "[INST]" } },
    { .name = "llama2-sys-bos", .source = LLAMA_2("c", "<s>[INST] "), .stop = { "[INST]" } },
    { .name = "llama2-sys-strip", .source = LLAMA_2("c | trim", "[INST] "), .stop = { "[INST]" } },
    { .name = "llama4",
      .source = EACH("{{ '<|header_start|>' + r + '<|header_end|>\n\n' + c | trim + '<|eot|>' }}")
          BEGIN_REPLY("<|header_start|>assistant<|header_end|>\n\n"),
      .stop = { "<|eot|>" } },
    { .name = "megrez",
      .source = EACH("{{ '<|role_start|>' + r + '<|role_end|>' + c + '<|turn_end|>' }}")
          BEGIN_REPLY("<|role_start|>assistant<|role_end|>"),
      .stop = { "<|turn_end|>" } },
    { .name = "minicpm",
      .source = EACH(ROLES("c | trim", "'<用户>' + c | trim + '<AI>'", "c | trim")),
      .stop = { "<用户>" } },
    { .name = "mistral-v1", .source = MISTRAL(" [INST] ", "c + ' [/INST]'", "' ' + c"), .stop = { "[INST]" } },
    { .name = "mistral-v3", .source = MISTRAL("[INST] ", "c + '[/INST]'", "' ' + c | trim"), .stop = { "[INST]" } },
    { .name = "mistral-v3-tekken", .source = MISTRAL("[INST]", "c + '[/INST]'", "c"), .stop = { "[INST]" } },
    { .name = "mistral-v7",
      .source =
          EACH(ROLES("'[SYSTEM_PROMPT] ' + c + '[/SYSTEM_PROMPT]'", "'[INST] ' + c + '[/INST]'", "' ' + c + '</s>'")),
      .stop = { "[INST]" } },
    { .name = "mistral-v7-tekken",
      .source = EACH(ROLES("'[SYSTEM_PROMPT]' + c + '[/SYSTEM_PROMPT]'", "'[INST]' + c + '[/INST]'", "c + '</s>'")),
      .stop = { "[INST]" } },
    { .name = "monarch",
      .source = EACH("{{ ('' if loop.first else '<s>') + r + '\n' + c + '</s>\n' }}") BEGIN_REPLY("<s>assistant\n"),
      .stop = { "</s>" } },
    { .name = "openchat",
      .source =
          EACH(ROLES("c + '<|end_of_turn|>'", "'GPT4 Correct User: ' + c + '<|end_of_turn|>'",
                     "'GPT4 Correct Assistant: ' + c + '<|end_of_turn|>'")) BEGIN_REPLY("GPT4 Correct Assistant:"),
      .stop = { "<|end_of_turn|>" } },
    { .name = "orion",
      .source = "{%- set ns = namespace(system='') -%}" EACH(
          "{%- if r == 'system' -%}{%- set ns.system = ns.system + c -%}{%- elif r == 'assistant' -%}{{ c + '</s>' }}"
          "{%- else -%}{{ 'Human: ' + (ns.system + '\n\n' if ns.system else '') + c + '\n\nAssistant: </s>' }}"
          "{%- set ns.system = '' -%}{%- endif -%}"),
      .stop = { "</s>" } },
    { .name = "pangu-embedded",
      .source = EACH("{{ '[unused9]系统：[unused10]' if loop.first and r != 'system' else '' }}" ROLES(
          "'[unused9]系统：' + c + '[unused10]'",
          "'[unused9]' + ('工具' if r == 'tool' else '用户') + '：' + c + '[unused10]'",
          "'[unused9]助手：' + c + '[unused10]'")) BEGIN_REPLY("[unused9]助手："),
      .stop = { "[unused10]" } },
    { .name = "phi4",
      .source = EACH("{{ '<|im_start|>' + r + '<|im_sep|>' + c + '<|im_end|>' }}")
          BEGIN_REPLY("<|im_start|>assistant<|im_sep|>"),
      .stop = { "<|im_end|>" } },
    { .name = "rwkv-world",
      .source = EACH(ROLES("'System: ' + c | trim + '\n\n'", "'User: ' + c | trim + '\n\n'",
                           "'Assistant: ' + c | trim + '\n\n'")) BEGIN_REPLY("Assistant:"),
      .stop = { "User:" } },
    { .name = "seed_oss",
      .source = EACH("{{ '<seed:bos>' + r + '\n' + (c | trim if r == 'assistant' else c) + '<seed:eos>' }}")
          BEGIN_REPLY("<seed:bos>assistant\n"),
      .stop = { "<seed:eos>" } },
    { .name = "smolvlm",
      .source = "{{ '<|im_start|>' }}" EACH(
          ROLES("c + '\n\n'", "'User: ' + c + '<end_of_utterance>\n'", "'Assistant: ' + c + '<end_of_utterance>\n'"))
          BEGIN_REPLY("Assistant:"),
      .stop = { "<end_of_utterance>" } },
    { .name = "solar-open",
      .source = EACH("{{ '<|begin|>' + r + '<|content|>' + c + '<|end|>' }}") BEGIN_REPLY("<|begin|>assistant"),
      .stop = { "<|end|>" } },
    { .name = "vicuna-orca",
      .source = EACH(ROLES("'SYSTEM: ' + c + '\n'", "'USER: ' + c + '\n'", "'ASSISTANT: ' + c + '</s>\n'"))
          BEGIN_REPLY("ASSISTANT:"),
      .stop = { "USER:" } },
    { .name = "yandex",
      .source = EACH(ROLES("''", "' Пользователь: ' + c + '\n\n'", "' Ассистент: ' + c + '\n\n'"))
          BEGIN_REPLY(" Ассистент:[SEP]"),
      .stop = { " Пользователь:" } },
};

const size_t hth_n_engine_templates = sizeof(hth_engine_templates) / sizeof(hth_engine_templates[0]);

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
