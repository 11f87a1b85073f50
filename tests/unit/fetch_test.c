/*
 * fetch_test.c - where an answer may lead
 */
#include "server/fetch.h"

#include "support/cmocka_all.h"

TEST(an_answer_leads_to_https_to_its_own_origin_and_within_this_machine)
{
    static const struct {
        const char *from, *to;
        bool may;
    } cases[] = {
        { "https://hub.example", "https://storage.example/a?b", true },
        { "http://hub.example", "https://storage.example/a", true },
        { "https://hub.example", "http://storage.example/a", false },
        { "https://hub.example", "http://hub.example/a", false },
        { "http://hub.example", "http://hub.example:80/a", true },
        { "http://hub.example", "http://hub.example:81/a", false },
        { "http://127.0.0.1:1", "http://localhost:2/a", true },
        { "http://[::1]:1", "http://127.0.0.1:2/a", true },
        { "https://hub.example", "http://127.0.0.1:2/a", false },
        { "http://hub.example", "http://localhost:2/a", false },
        { "https://localhost", "http://localhost:2/a", false },
        { "https://hub.example", "https://localhost/a", true },
        { "https://hub.example", "file:///etc/passwd", false },
        { "https://hub.example", "nowhere", false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (hth_fetch_may_lead(cases[i].from, cases[i].to) != cases[i].may)
            fail_msg("%s leads to %s: not %d", cases[i].from, cases[i].to, cases[i].may);
}
