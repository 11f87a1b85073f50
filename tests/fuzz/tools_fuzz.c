/*
 * tools_fuzz.c - no parameters of a tool, which the engine makes a grammar of, end the process or hold it up
 *
 * An input is the JSON schema of a tool's parameters. Where a prompt comes of it, its grammar is one that the sampler reads.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static hearth_model *model;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void open_model(void)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_model_options options = hearth_model_options_default();
    static char text[65536];
    hearth_runtime *runtime;
    FILE *file = fopen(HTH_TEST_FIXTURES "/chat/tools.jinja", "r");

    require(file && fread(text, 1, sizeof(text) - 1, file) > 0);
    (void)fclose(file); /* only read from */
    runtime_options.cache_disabled = true;
    runtime_options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.chat_template = text;
    options.n_ctx = 512;
    options.n_parallel = 1;
    options.n_threads = 1;
    require(hearth_runtime_open(&runtime_options, &runtime, NULL) == HEARTH_OK);
    require(hearth_model_load(runtime, HTH_TEST_MODELS "/hearth-tiny.gguf", &options, &model, NULL) == HEARTH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const hearth_chat_turn turn = { .role = "user", .content = "Hi" };
    char *parameters = malloc(n_bytes + 1);
    hearth_chat_tool tool = { .name = "f", .parameters = parameters };
    hearth_conversation c = hearth_conversation_default();
    hearth_chat_prompt prompt;
    hearth_error err = { .message = "" };

    if (!model)
        open_model();
    if (!parameters)
        return 0;
    if (n_bytes > 0)
        memcpy(parameters, bytes, n_bytes);
    parameters[n_bytes] = '\0';
    c.turns = &turn;
    c.n_turns = 1;
    c.tools = &tool;
    c.n_tools = 1;
    if (hearth_conversation_render(model, &c, &prompt, &err) == HEARTH_OK) {
        require(!prompt.grammar || strlen(prompt.grammar) <= 256 * 1024);
        hearth_chat_prompt_free(&prompt);
    } else {
        require(err.message[0] != '\0');
    }
    free(parameters);
    return 0;
}
