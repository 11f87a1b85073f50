/*
 * address_test.c - addresses are read in all their forms, and nothing else is an address
 */
#include "options/values.h"

#include <string.h>

#include "support/cmocka_all.h"

TEST(addresses_are_read_in_all_their_forms)
{
    static const struct {
        const char *text;
        const char *host; /* NULL: it is no address */
        unsigned port;
    } cases[] = {
        { "127.0.0.1:8080", "127.0.0.1", 8080 },
        { "8081", "127.0.0.1", 8081 },
        { "localhost", "localhost", 8080 },
        { "[::1]:0", "::1", 0 },
        { "[fe80::1%eth0]", "fe80::1%eth0", 8080 },
        { "a-b.example:65535", "a-b.example", 65535 },
        { "unix:/x", "", 0 },
        { "", NULL, 0 },
        { ":8080", NULL, 0 },
        { "::1", NULL, 0 },
        { "[::1", NULL, 0 },
        { "[::1]8080", NULL, 0 },
        { "[]:1", NULL, 0 },
        { "h:65536", NULL, 0 },
        { "h:", NULL, 0 },
        { "h:1x", NULL, 0 },
        { "h:-1", NULL, 0 },
        { "a b", NULL, 0 },
        { "http://x", NULL, 0 },
        { "unix:", NULL, 0 },
        { "h:000080", NULL, 0 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[256];
        const char *path;
        uint16_t port;
        hearth_error err;
        bool ok = hth_address_read("--listen", cases[i].text, host, sizeof(host), &port, &path, &err);

        if (ok != !!cases[i].host)
            fail_msg("'%s' is %s", cases[i].text, ok ? "accepted" : "refused");
        if (!ok)
            continue;
        assert_string_equal(host, cases[i].host);
        assert_int_equal(port, cases[i].port);
        assert_int_equal(!!path, strncmp(cases[i].text, "unix:", 5) == 0);
    }
}
