/*
 * tools_fuzz.c - no parameters of a tool end the process or hold it up, whatever a template's notation of calls
 *
 * An input is the JSON schema of a tool's parameters. It goes to templates that write calls as JSON, their members as
 * elements, and members of members as elements. What is no prompt is an error with a reason.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { TEMPLATES = 3 };

static hearth_model *models[TEMPLATES];

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void open_models(void)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime = NULL;

    options.cache_disabled = true;
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    require(hearth_runtime_open(&options, &runtime, NULL) == HEARTH_OK);
    models[0] = hth_test_template_file_model(runtime, HTH_TEST_FIXTURES "/chat/tools.jinja");
    models[1] = hth_test_template_file_model(runtime, HTH_TEST_FIXTURES "/chat/tagged.jinja");
    models[2] = hth_test_template_file_model(runtime, HTH_TEST_FIXTURES "/chat/nested.jinja");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static const hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Hi" };
    char *parameters = malloc(n_bytes + 1);
    hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f", .parameters = parameters };
    hearth_conversation c = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    hearth_error err = { .message = "" };

    if (!models[0])
        open_models();
    if (!parameters)
        return 0;
    if (n_bytes > 0)
        memcpy(parameters, bytes, n_bytes);
    parameters[n_bytes] = '\0';
    c.turns = &turn;
    c.n_turns = 1;
    c.tools = &tool;
    c.n_tools = 1;
    for (size_t i = 0; i < TEMPLATES; i++) {
        err.message[0] = '\0';
        if (hearth_conversation_render(models[i], &c, &prompt, &err) == HEARTH_OK) {
            require(!prompt->grammar || strlen(prompt->grammar) <= 256 * 1024);
            hearth_chat_prompt_free(prompt);
        } else {
            require(err.message[0] != '\0');
        }
    }
    free(parameters);
    return 0;
}
