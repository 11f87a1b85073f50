/*
 * chat_fuzz.c - whatever a model writes, the engine's parser of replies ends no process and takes nothing back
 *
 * The first byte of an input says how large pieces are and what is asked for, the rest is the reply.
 */
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "support/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static hearth_model *model;
static const hearth_chat_prompt *prompts[4];

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void open_model(void)
{
    static const hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Hi" };
    static const hearth_chat_tool tools[] = {
        { .struct_size = sizeof(hearth_chat_tool), .name = "now" },
        { .struct_size = sizeof(hearth_chat_tool),
          .name = "weather",
          .parameters = "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"
                        "\"array\",\"items\":{\"type\":\"integer\"}}},\"required\":[\"city\"]}" },
    };
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_runtime *runtime;

    runtime_options.cache_disabled = true;
    runtime_options.engine_directory = HTH_TEST_ENGINE_DIR;
    require(hearth_runtime_open(&runtime_options, &runtime, NULL) == HEARTH_OK);
    model = hth_test_template_file_model(runtime, HTH_TEST_FIXTURES "/chat/tools.jinja");
    for (int i = 0; i < 4; i++) {
        hearth_conversation c = hearth_conversation_default();

        c.turns = &turn;
        c.n_turns = 1;
        c.tools = i < 3 ? tools : NULL;
        c.n_tools = i < 3 ? 2 : 0;
        c.tool_choice = i == 1 ? HEARTH_TOOL_REQUIRED : HEARTH_TOOL_AUTO;
        c.reasoning_in_content = i == 2;
        c.json_schema = i == 3 ? "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}" : NULL;
        require(hearth_conversation_render(model, &c, &prompts[i], NULL) == HEARTH_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hearth_chat_parser *parser = NULL;
    uint32_t n_calls = 0;
    json_t *checked;
    const char *text = (const char *)bytes + 1;
    size_t n_piece, at = 0, n;

    if (!model)
        open_model();
    if (n_bytes < 1 || n_bytes > 32768)
        return 0;
    n = n_bytes - 1;
    checked = json_stringn(text, n); /* UTF-8 is what the library gives */
    if (!checked)
        return 0;
    json_decref(checked);
    n_piece = 1 + (bytes[0] >> 2);
    require(hearth_chat_parser_new(model, prompts[bytes[0] & 3], &parser, NULL) == HEARTH_OK);
    for (bool is_last = false; !is_last;) {
        size_t n_now = n - at < n_piece ? n - at : n_piece, n_deltas;
        const hearth_chat_delta *deltas;

        while (at + n_now < n && ((unsigned char)text[at + n_now] & 0xc0) == 0x80)
            n_now++;
        is_last = at + n_now == n;
        require(hearth_chat_parser_feed(parser, text + at, n_now, is_last, &deltas, &n_deltas, NULL) == HEARTH_OK);
        for (size_t i = 0; i < n_deltas; i++) {
            if (deltas[i].kind == HEARTH_DELTA_CALL)
                require(deltas[i].call == n_calls++ && deltas[i].n_bytes > 0);
            if (deltas[i].kind == HEARTH_DELTA_ARGUMENTS)
                require(deltas[i].call + 1 == n_calls);
            require(deltas[i].text[deltas[i].n_bytes] == '\0'); /* NUL bytes may be within */
        }
        at += n_now;
    }
    hearth_chat_parser_free(parser);
    return 0;
}
