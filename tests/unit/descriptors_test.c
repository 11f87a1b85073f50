/*
 * descriptors_test.c - connections and the limit of open files
 */
#include <sys/resource.h>

#include "supervisor/descriptors.h"
#include "support/cmocka_all.h"

static void limit_set(rlim_t now, rlim_t most)
{
    const struct rlimit limit = { .rlim_cur = now, .rlim_max = most };

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t limit_now(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

/* In this order: the most that a process may have cannot be raised again. */
TEST(the_limit_is_raised_as_far_as_it_is_needed_and_may_be)
{
    limit_set(128, 512);
    assert_int_equal(hth_descriptors_for(16, 16), 16); /* enough */
    assert_int_equal(limit_now(), 128);
    assert_int_equal(hth_descriptors_for(200, 100), 200);
    assert_int_equal(limit_now(), 396);
    assert_int_equal(hth_descriptors_for(16384, 4096), 512 - 128 - 96);
    assert_int_equal(limit_now(), 512);
}

TEST(requests_keep_their_share_of_a_low_limit)
{
    limit_set(256, 256);
    assert_int_equal(hth_descriptors_for(16384, 4096), 256 - 64 - 96);
    assert_int_equal(hth_descriptors_for(16384, 10), 256 - 10 - 96);
    assert_int_equal(hth_descriptors_for(90, 4096), 90);
    limit_set(64, 64);
    assert_int_equal(hth_descriptors_for(100, 100), 1);
}
