/*
 * roster_test.c - the leases of nodes in the store: what is one, and what is none
 */
#include <string.h>

#include "fleet/roster.h"
#include "support/cmocka_all.h"

#define EPOCH "0123456789abcdef0123456789abcdef"

static bool read_lease(const char *text, hth_lease *out)
{
    return hth_lease_read(text, strlen(text), out);
}

TEST(a_lease_has_an_epoch_an_address_and_a_page)
{
    hth_lease lease;

    assert_true(read_lease(EPOCH " [::1]:9430\n{\"a b\":\n1}", &lease));
    assert_string_equal(lease.epoch, EPOCH);
    assert_string_equal(lease.address, "[::1]:9430");
    assert_int_equal(lease.n_page, 10);
    assert_memory_equal(lease.page, "{\"a b\":\n1}", 10);
    assert_true(read_lease(EPOCH " h:1\n", &lease));
    assert_int_equal(lease.n_page, 0);
}

TEST(other_texts_are_none)
{
    static const char *const texts[] = { "",
                                         "\n",
                                         EPOCH,
                                         EPOCH "\n",
                                         EPOCH " \n{}",
                                         EPOCH " h:1",
                                         EPOCH " h\n{}",
                                         EPOCH " http://h:1\n{}",
                                         EPOCH " a b:1\n{}",
                                         EPOCH "0 h:1\n{}",
                                         "0123456789abcdef0123456789abcdeg h:1\n{}",
                                         "0123 h:1\n{}" };
    char text[400] = EPOCH " ";
    hth_lease lease;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (read_lease(texts[i], &lease))
            fail_msg("'%s' is a lease", texts[i]);
    memset(text + 33, 'a', 300);
    memcpy(text + 333, ":1\n{}", 6);
    assert_false(read_lease(text, &lease));
    assert_false(hth_lease_read(EPOCH " h\0:1\n{}", 41, &lease));
}
