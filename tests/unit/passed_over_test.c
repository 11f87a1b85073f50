/*
 * passed_over_test.c - each field that was sent in vain is told of once for each key, where anybody listens
 */
#include <stdio.h>
#include <string.h>

#include "front/access_log.h"
#include "support/cmocka_all.h"

typedef struct told {
    unsigned n;
    char last[256];
} told;

static void on_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    told *t = user_data;

    (void)level;
    (void)source;
    t->n++;
    (void)snprintf(t->last, sizeof(t->last), "%s", message);
}

TEST(a_field_is_told_of_once_for_each_key)
{
    static hth_passed_over seen;
    told t = { .n = 0 };
    const hth_log log = { .level = HEARTH_LOG_DEBUG, .write = on_line, .user_data = &t };

    seen = (hth_passed_over){ .n = 0 };
    hth_passed_over_log(&seen, &log, "a", "/v1/messages", "container, mcp_servers");
    assert_int_equal(t.n, 2);
    assert_string_equal(t.last, "/v1/messages from key a: 'mcp_servers' has no effect here; said once");
    hth_passed_over_log(&seen, &log, "a", "/v1/messages", "mcp_servers, container");
    assert_int_equal(t.n, 2);
    hth_passed_over_log(&seen, &log, "b", "/v1/messages", "container");
    hth_passed_over_log(&seen, &log, "", "/v1/messages", "container");
    assert_int_equal(t.n, 4);
    assert_string_equal(t.last, "/v1/messages: 'container' has no effect here; said once");
}

/* The level changes with the configuration, and the client sends the same fields all along. */
TEST(what_nobody_was_told_is_told_when_somebody_listens)
{
    static hth_passed_over seen;
    told t = { .n = 0 };
    hth_log log = { .level = HEARTH_LOG_INFO, .write = on_line, .user_data = &t };

    seen = (hth_passed_over){ .n = 0 };
    hth_passed_over_log(&seen, &log, "a", "/v1/messages", "container");
    assert_int_equal(t.n, 0);
    log.level = HEARTH_LOG_DEBUG;
    hth_passed_over_log(&seen, &log, "a", "/v1/messages", "container");
    assert_int_equal(t.n, 1);
    hth_passed_over_log(&seen, &log, "a", "/v1/messages", "container");
    assert_int_equal(t.n, 1);
}

TEST(what_is_remembered_is_bounded)
{
    static hth_passed_over seen;
    told t = { .n = 0 };
    const hth_log log = { .level = HEARTH_LOG_DEBUG, .write = on_line, .user_data = &t };

    seen = (hth_passed_over){ .n = 0 };
    for (int i = 0; i < HTH_PASSED_OVER_MAX + 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "field%d", i);
        hth_passed_over_log(&seen, &log, "a", "/v1/messages", name);
    }
    assert_int_equal(t.n, HTH_PASSED_OVER_MAX);
}
