/*
 * store_url_test.c - the address of a store, in all its forms, and what is none
 */
#include <string.h>

#include "store/store_url.h"
#include "support/cmocka_all.h"

static void read_good(const char *text, hth_store_url *out)
{
    hearth_error err = { .message = "" };

    if (hth_store_url_read(text, out, &err) != HEARTH_OK)
        fail_msg("'%s': %s", text, err.message);
}

TEST(a_host_is_enough)
{
    hth_store_url url;

    read_good("redis://cache.example.com", &url);
    assert_false(url.is_tls);
    assert_int_equal(url.n_servers, 1);
    assert_string_equal(url.servers[0].host, "cache.example.com");
    assert_int_equal(url.servers[0].port, 6379);
    assert_null(url.sentinel_name);
    assert_null(url.user);
    assert_null(url.password);
    assert_int_equal(url.database, 0);
}

TEST(everything_may_be_given)
{
    hth_store_url url;

    read_good("rediss://me:p%40ss%2Fw%3a@[fe80::1]:7000/12", &url);
    assert_true(url.is_tls);
    assert_string_equal(url.servers[0].host, "fe80::1");
    assert_int_equal(url.servers[0].port, 7000);
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "p@ss/w:");
    assert_int_equal(url.database, 12);
}

TEST(a_password_needs_no_user_and_may_have_an_at)
{
    hth_store_url url;

    read_good("redis://pass@word@h", &url);
    assert_null(url.user);
    assert_string_equal(url.password, "pass@word");
    read_good("redis://:other@h/", &url);
    assert_null(url.user);
    assert_string_equal(url.password, "other");
}

TEST(sentinels_are_several_and_know_a_name)
{
    hth_store_url url;

    read_good("redis-sentinel://:x@one,two:1,[::1]:2/ours", &url);
    assert_false(url.is_tls);
    assert_string_equal(url.sentinel_name, "ours");
    assert_int_equal(url.n_servers, 3);
    assert_int_equal(url.servers[0].port, 26379);
    assert_string_equal(url.servers[1].host, "two");
    assert_int_equal(url.servers[1].port, 1);
    assert_string_equal(url.servers[2].host, "::1");
    assert_int_equal(url.servers[2].port, 2);
    read_good("rediss-sentinel://one/ours", &url);
    assert_true(url.is_tls);
}

TEST(what_is_no_address_is_refused_and_passwords_are_not_shown)
{
    static const char *const texts[] = { "",
                                         "h:6379",
                                         "http://h",
                                         "redis://",
                                         "redis://:secret@",
                                         "redis://h:0",
                                         "redis://h:65536",
                                         "redis://h:secret",
                                         "redis://h/secret",
                                         "redis://h/65536",
                                         "redis://h/-1",
                                         "redis://::1",
                                         "redis://[::1",
                                         "redis://[::1]7",
                                         "redis://a,b",
                                         "redis://secret%4@h",
                                         "redis://secret%zz@h",
                                         "redis://secret%00@h",
                                         "redis://ho st",
                                         "redis-sentinel://h",
                                         "redis-sentinel://h/",
                                         "redis-sentinel://h,/n",
                                         "redis-sentinel://h/n/1",
                                         "redis-sentinel://a,b,c,d,e,f,g,h,i/n" };
    char text[HTH_STORE_URL_BYTES + 64] = "redis://";
    hth_store_url url;
    hearth_error err;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        err.message[0] = '\0';
        if (hth_store_url_read(texts[i], &url, &err) != HEARTH_MISUSE)
            fail_msg("'%s' is accepted", texts[i]);
        assert_non_null(strstr(err.message, "it must be redis://"));
        assert_null(strstr(err.message, "secret"));
    }
    memset(text + 8, 'a', HTH_STORE_URL_BYTES);
    assert_int_equal(hth_store_url_read(text, &url, &err), HEARTH_MISUSE);
}
