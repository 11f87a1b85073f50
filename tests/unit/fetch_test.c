/*
 * fetch_test.c - where an answer may lead, and what is shown of an address
 */
#include "http/fetch.h"

#include <string.h>

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

TEST(a_name_and_a_password_of_an_address_are_not_shown)
{
    static const struct {
        const char *url, *shown;
    } cases[] = {
        { "http://ann:secret@host:8080/v1?a@b", "http://host:8080/v1?a@b" },
        { "https://ann@host", "https://host" },
        { "http:/ann:secret@host", "http:/host" },
        { "ann:secret@host:8080", "host:8080" },
        { "http://a@b:c@d@host/x", "http://host/x" },
        { "http://host/a@b", "http://host/a@b" },
        { "host:8080/://a:b@c", "host:8080/://a:b@c" },
        { "http://host", "http://host" },
        { "unix:/run/a@b.sock", "unix:/run/a@b.sock" },
        { "", "" },
    };
    char shown[HTH_FETCH_URL_BYTES];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(hth_fetch_shown(cases[i].url, shown), cases[i].shown);
}

TEST(a_page_of_a_server_is_at_its_address_or_at_its_unix_socket)
{
    static const struct {
        const char *base, *url, *socket;
    } cases[] = {
        { "http://host:8080", "http://host:8080/v1/models", NULL },
        { "http://host:8080/", "http://host:8080/v1/models", NULL },
        { "https://host/hearth", "https://host/hearth/v1/models", NULL },
        { "unix:/run/hearth/admin.sock", "http://localhost/v1/models", "/run/hearth/admin.sock" },
        { "unix:///run/hearth/admin.sock", "http://localhost/v1/models", "/run/hearth/admin.sock" },
        { "unix:admin.sock", "http://localhost/v1/models", "admin.sock" },
    };
    char url[HTH_FETCH_URL_BYTES], long_base[HTH_FETCH_URL_BYTES];
    const char *socket;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(hth_fetch_address(cases[i].base, "/v1/models", url, &socket));
        assert_string_equal(url, cases[i].url);
        if (cases[i].socket)
            assert_string_equal(socket, cases[i].socket);
        else
            assert_null(socket);
    }
    memset(long_base, 'x', sizeof(long_base) - 1);
    long_base[sizeof(long_base) - 1] = '\0';
    assert_false(hth_fetch_address(long_base, "/v1/models", url, &socket));
}
