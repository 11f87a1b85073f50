/*
 * normalize_test.c - what clients write for themselves is taken out of prompts, and nothing else
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/request_parse.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

#define HEADER "x-anthropic-billing-header: cc_version=2.1.197.123; cc_entrypoint=sdk-cli;"

static hth_api_request *parsed(hth_api_kind kind, const char *body, bool normalizes)
{
    hth_api_limits limits = hth_api_limits_default();

    limits.normalize = normalizes ? HTH_NORMALIZE_ON : HTH_NORMALIZE_OFF;
    return hth_test_parsed_with(kind, body, &limits, NULL);
}

/* A request with that as its "system". */
static hth_api_request *with_system(const char *system, bool normalizes)
{
    char body[1024];

    (void)snprintf(
        body, sizeof(body),
        "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"system\":%s}",
        system);
    return parsed(HTH_API_MESSAGES, body, normalizes);
}

#define BLOCK(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

TEST(the_billing_header_of_claude_code_is_taken_out)
{
    hth_api_request *r = with_system("[" BLOCK(HEADER) "," BLOCK("You are an agent.") "]", true);

    assert_int_equal(r->conversation.turns[0].n_parts, 1);
    assert_string_equal(r->conversation.turns[0].parts[0], "You are an agent.");
    assert_string_equal(r->normalized, "claude-code-billing-header");

    r = with_system("[" BLOCK(HEADER "\\nYou are an agent.") "," BLOCK("More.") "]", true); /* joined on its way */
    assert_string_equal(r->conversation.turns[0].parts[0], "You are an agent.");
    assert_string_equal(r->conversation.turns[0].parts[1], "More.");

    r = with_system("\"" HEADER " cch=ab12c;\\n\\nYou are an agent.\"", true);
    assert_string_equal(r->conversation.turns[0].content, "You are an agent.");

    r = with_system("[" BLOCK(HEADER) "]", true); /* then there is no system message */
    assert_int_equal(r->conversation.n_turns, 1);
    assert_string_equal(r->conversation.turns[0].role, "user");

    r = parsed(HTH_API_CHAT,
               "{\"messages\":[{\"role\":\"system\",\"content\":\"" HEADER
               "\\nBe.\"},{\"role\":\"user\",\"content\":\"Hi\"}]}",
               true); /* from a proxy that speaks another API */
    assert_string_equal(r->conversation.turns[0].content, "Be.");
}

TEST(nothing_else_is_touched)
{
    static const char *const texts[] = {
        "x-anthropic-billing-header: is a line of Claude Code",
        "x-anthropic-billing-header: cc_version=2.1; and so on",
        "x-anthropic-billing-header: cc_version=2.1",
        "x-anthropic-billing-header: ",
        " x-anthropic-billing-header: cc_version=2.1;",
        "You know x-anthropic-billing-header: cc_version=2.1;",
        "Today is 2026-11-22.",
        "",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char system[256];
        hth_api_request *r;

        (void)snprintf(system, sizeof(system), "\"%s\"", texts[i]);
        r = with_system(system, true);
        assert_string_equal(r->conversation.turns[0].content, texts[i]);
        assert_null(r->normalized);
    }
}

TEST(the_header_stays_in_a_message_of_the_user_and_where_that_is_wanted)
{
    hth_api_request *r = parsed(
        HTH_API_MESSAGES,
        "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"" HEADER "\"}]}", true);

    assert_string_equal(r->conversation.turns[0].content, HEADER);
    r = with_system("[" BLOCK(HEADER) "," BLOCK("A") "]", false);
    assert_int_equal(r->conversation.turns[0].n_parts, 2);
    assert_null(r->normalized);
}
