/*
 * origin_test.c - which origins a rule names, and no other ones
 */
#include <string.h>

#include "http/origin.h"
#include "support/cmocka_all.h"

static void expect(const char *rule, const char *origin, bool has)
{
    if (hth_origin_rule_fault(rule))
        fail_msg("'%s' is no rule: %s", rule, hth_origin_rule_fault(rule));
    if (hth_origin_rule_has(rule, origin) != has)
        fail_msg("the rule '%s' %s '%s'", rule, has ? "lacks" : "has", origin);
}

TEST(the_word_localhost_is_all_pages_of_this_machine)
{
    static const char *const local[] = { "http://localhost",      "http://localhost:5173",  "https://localhost:8443",
                                         "http://127.0.0.1:3000", "http://[::1]:3000",      "https://[::1]",
                                         "http://LOCALHOST:1",    "http://tauri.localhost", "https://app.localhost:9",
                                         "http://127.0.0.1:65535" };
    static const char *const others[] = { "null",
                                          "",
                                          "localhost",
                                          "http://",
                                          "http://localhost.evil.example",
                                          "http://localhost.evil.example:5173",
                                          "http://evil.example",
                                          "http://evillocalhost",
                                          "http://.localhost.evil",
                                          "http://localhost@evil.example",
                                          "http://localhost:5173@evil.example",
                                          "http://evil.example/localhost",
                                          "http://evil.example#localhost",
                                          "http://127.0.0.1.evil.example",
                                          "http://[::1].evil.example",
                                          "http://[::1",
                                          "http://192.168.1.5",
                                          "http://localhost:",
                                          "http://localhost:5173x",
                                          "http://localhost:999999",
                                          "http://localhost/",
                                          "http://localhost ",
                                          " http://localhost",
                                          "ftp://localhost",
                                          "tauri://localhost",
                                          "file://localhost" };

    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        expect("localhost", local[i], true);
        assert_true(hth_origin_is_local(local[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        expect("localhost", others[i], false);
        assert_false(hth_origin_is_local(others[i]));
    }
}

TEST(an_origin_is_itself_however_it_is_written)
{
    expect("https://app.example.com", "https://app.example.com", true);
    expect("https://app.example.com/", "https://app.example.com", true);
    expect("HTTPS://App.Example.COM", "https://app.example.com", true);
    expect("https://app.example.com:443", "https://app.example.com", true);
    expect("http://app.example.com:80", "http://app.example.com", true);
    expect("http://app.example.com:8080", "http://app.example.com:8080", true);
    expect("tauri://localhost", "tauri://localhost", true);
    expect("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop", true);

    expect("https://app.example.com", "http://app.example.com", false);
    expect("https://app.example.com", "https://app.example.com:8443", false);
    expect("https://app.example.com", "https://app.example.com.evil.example", false);
    expect("https://app.example.com", "https://evil.example", false);
    expect("https://app.example.com", "https://app.example.com@evil.example", false);
    expect("https://app.example.com", "null", false);
    expect("http://app.example.com:443", "http://app.example.com", false);
    expect("chrome-extension://abcdefghijklmnop", "chrome-extension://ponmlkjihgfedcba", false);
}

TEST(a_scheme_stands_for_all_its_origins)
{
    static const char *const rules[] = { "chrome-extension", "chrome-extension://", "chrome-extension://*",
                                         "CHROME-EXTENSION://" };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        expect(rules[i], "chrome-extension://abcdefghijklmnop", true);
        expect(rules[i], "chrome-extension-x://abcdefghijklmnop", false);
        expect(rules[i], "chrome://abcdefghijklmnop", false);
        expect(rules[i], "http://chrome-extension", false);
        expect(rules[i], "http://localhost", false);
    }
    expect("app", "app://obsidian.md", true);
    expect("tauri", "tauri://localhost", true);
    expect("vscode-webview", "vscode-webview://1s6hr3d8rqhnvu3n0", true);
    expect("my-program://", "my-program://main", true);
    expect("*", "null", true);
    expect("*", "http://evil.example", true);
}

TEST(what_names_nobody_or_everybody_is_no_rule)
{
    static const char *const wrong[] = { "null",
                                         "file://",
                                         "file",
                                         "http://",
                                         "https://*",
                                         "http://*.example.com",
                                         "example.com",
                                         "localhost:5173",
                                         "https://example.com/path",
                                         "https://user@example.com",
                                         "https://example.com:",
                                         "https://example.com:99x",
                                         "://x",
                                         "tauri:",
                                         "",
                                         "a,b" };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (!hth_origin_rule_fault(wrong[i]))
            fail_msg("'%s' is taken for a rule", wrong[i]);
    assert_non_null(strstr(hth_origin_rule_fault("null"), "list localhost"));
}

TEST(an_origin_makes_its_host_known)
{
    assert_true(hth_origin_rule_has_host("https://chat.example.com", "chat.example.com", 16));
    assert_true(hth_origin_rule_has_host("https://chat.example.com:8443/", "CHAT.example.com", 16));
    assert_true(hth_origin_rule_has_host("*", "anything", 8));
    assert_false(hth_origin_rule_has_host("https://chat.example.com", "chat.example.co", 15));
    assert_false(hth_origin_rule_has_host("localhost", "evil.example", 12));
    assert_false(hth_origin_rule_has_host("app://", "", 0));
    assert_false(hth_origin_rule_has_host("app://evil.example", "evil.example", 12)); /* no name of the net */
}
