/*
 * stub_script_test.c - the stub's replies by script depend on the prompt alone
 */
#include <stdlib.h>
#include <string.h>

#include "stub/script.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define SCRIPT "#script\n<call>look {\"at\":\"a\"}</call>\n#reply\nDone.\n"

/* The place behind a text, in which the control tokens are '{' and '}'. */
static hth_stub_place behind(const char *text)
{
    hth_stub_place place = { .where = 0 };
    uint8_t bytes[HTH_STUB_PLACE_BYTES];

    for (; *text; text++) {
        hth_stub_place_push(&place, *text == '{' ? HTH_STUB_TURN_BEGIN : *text == '}' ? HTH_STUB_TURN_END : *text);
        hth_stub_place_write(&place, bytes);
        hth_stub_place_read(bytes, &place); /* as a cell keeps it */
    }
    return place;
}

static int next_behind(const hth_stub_script *script, const char *text)
{
    hth_stub_place place = behind(text);

    return hth_stub_script_next(script, &place);
}

TEST(the_next_token_is_the_scripts)
{
    hth_stub_script *script = hth_stub_script_new(SCRIPT);

    assert_non_null(script);
    assert_int_equal(next_behind(script, ""), HTH_STUB_OTHER);
    assert_int_equal(next_behind(script, "{user\nassistant\n}"), HTH_STUB_OTHER);
    assert_int_equal(next_behind(script, "{user\nHi}{assistant\n"), '<');
    assert_int_equal(next_behind(script, "{user\nHi}{assistant\n<c"), 'a');
    assert_int_equal(next_behind(script, "{user\nHi}{assistant\n<think></think>"), '<');
    assert_int_equal(next_behind(script, "{assistant\n<think></think><values>[1,</v]</values>"), '<');
    assert_int_equal(next_behind(script, "{assistant\n<values>x</values><ca"), 'l');
    assert_int_equal(next_behind(script, "{assistant\nwhatever}{tool\nx}{assistant\n"), 'D');
    assert_int_equal(next_behind(script, "{assistant\nwhatever}{assistant\nDone."), HTH_STUB_TURN_END);
    assert_int_equal(next_behind(script, "{assistant\na}{assistant\nb}{assistant\n"), HTH_STUB_OTHER);
    hth_stub_script_free(script);
    assert_null(hth_stub_script_new("{{ messages }}"));
    assert_null(hth_stub_script_new(NULL));
}

TEST(a_model_replies_by_its_script_also_from_what_was_restored)
{
    hearth_model_options options = hearth_model_options_default();
    char *directory = hth_test_directory_new();
    hearth_runtime_options runtime_options = hth_test_runtime_options(directory);
    char prompt[1024] = "<|im_start|>user\n";

    memset(prompt + strlen(prompt), 'x', 700);
    strcat(prompt, "<|im_end|>\n<|im_start|>assistant\n");
    options.chat_template = SCRIPT;
    for (int i = 0; i < 2; i++) {
        hearth_runtime *runtime = hth_test_runtime_open(&runtime_options);
        hearth_model *model = hth_test_model_load(runtime, "stub:", &options);
        hearth_request request = hth_test_greedy(prompt, 100);
        const hearth_result *result;

        request.ignore_eos = false;
        request.tokenize_flags = HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS;
        result = hth_test_complete(model, &request);
        assert_string_equal(result->text, "<call>look {\"at\":\"a\"}</call>");
        assert_int_equal(result->stats->cached_tokens > 700, i == 1);
        hearth_result_unref(result);
        hearth_model_unref(model);
        hearth_runtime_close(runtime); /* the other one has the disk alone */
    }
    hth_test_directory_remove(directory);
}
