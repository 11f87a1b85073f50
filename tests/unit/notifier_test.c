/*
 * notifier_test.c - notifications through a file, and what becomes of them when somebody cuts the file
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/notifier.h"
#include "support/cmocka_all.h"

TEST(a_notification_reaches_all_who_opened_the_file_also_after_it_was_cut)
{
    char path[] = "/tmp/hearth-notifier-XXXXXX";
    int fd = mkstemp(path);
    hth_notifier *first, *second;
    uint32_t seen;

    assert_true(fd >= 0);
    first = hth_notifier_open(path);
    second = hth_notifier_open(path);
    hth_notifier_notify(first);
    assert_int_equal(hth_notifier_count(second), 1);

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(hth_notifier_count(second), 0); /* an access of the map would have ended this process */
    assert_int_equal(ftruncate(fd, 0), 0);
    hth_notifier_notify(first);
    seen = hth_notifier_count(second);
    assert_int_equal(seen, 1);
    assert_int_equal(ftruncate(fd, 0), 0);
    hth_notifier_wait(second, seen, 1000); /* the count is another one, so it does not wait */

    hth_notifier_close(second);
    hth_notifier_close(first);
    (void)close(fd);
    (void)unlink(path);
}
