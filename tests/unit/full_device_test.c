/*
 * full_device_test.c - a file tier on a device that is full before the quota is
 */
#include "support/cmocka_all.h"

#ifdef __linux__
#include <sched.h>
#include <sys/mount.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cache/file_tier_set.h"
#include "support/child.h"
#include "support/made_row.h"
#include "support/small_device.h"
#include "support/support.h"

enum { ROOTS_MAX = 2, IMAGE_BYTES = 10000, ROWS_ROOM = 10 };

typedef struct fixture {
    char *directory;
    char paths[ROOTS_MAX][4096];
    test_small_device devices[ROOTS_MAX];
    uint64_t free_min;
    bool spares_rows;
    size_t row_bytes; /* of every row */
    size_t n_roots;
    uint64_t n_published;
    hth_file_tier_set *set;
} fixture;

/* Open a tier of n roots, each on a device with room for ROWS_ROOM rows beside what is to stay free. */
static void open_roots(fixture *f, size_t n)
{
    hth_file_tier_options options[ROOTS_MAX];
    hearth_error err = { .message = "" };

    for (size_t i = 0; i < n; i++)
        options[i] = (hth_file_tier_options){
            .directory = f->paths[i],
            .bytes_max = UINT64_C(1) << 30,
            .free_min = f->free_min,
            .spares_rows = f->spares_rows,
            .fs = &f->devices[i].fs,
        };
    f->n_roots = n;
    assert_ok(hth_file_tier_set_open(options, n, &f->set, &err), err);
    hth_file_tier_set_settle(f->set);
}

static void setup(fixture *f)
{
    test_row row = test_row_make(0, 0, IMAGE_BYTES);

    f->directory = hth_test_directory_new();
    f->row_bytes = row.n_bytes;
    f->free_min = 2 * row.n_bytes;
    for (size_t i = 0; i < ROOTS_MAX; i++) {
        (void)snprintf(f->paths[i], sizeof(f->paths[i]), "%s/root-%zu", f->directory, i);
        test_small_device_init(&f->devices[i], f->paths[i], f->free_min + ROWS_ROOM * row.n_bytes + 500);
    }
    test_row_free(&row);
}

static void teardown(fixture *f)
{
    hth_file_tier_set_close(f->set);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static bool has(fixture *f, uint32_t chain, uint32_t i)
{
    test_row row = test_row_make(chain, i, IMAGE_BYTES);
    bool found = hth_file_tier_set_has(f->set, &row.meta.id, NULL);

    test_row_free(&row);
    return found;
}

/* Publish row i of a chain; the devices must have free what is to stay free, or others fill them. */
static hearth_status publish(fixture *f, uint32_t chain, uint32_t i, hearth_error *err)
{
    test_row row = test_row_make(chain, i, IMAGE_BYTES);
    bool published = false;
    hearth_status status;

    row.meta.last_used_time += f->n_published++; /* later than those before it */
    status = hth_file_tier_set_publish(f->set, &row.meta, row.bytes, row.n_bytes, &published, err);
    test_row_free(&row);
    for (size_t root = 0; root < f->n_roots; root++)
        if (f->devices[root].n_others == 0 && !f->devices[root].hides_fullness)
            assert_true(test_small_device_free(&f->devices[root]) >= f->free_min);
    assert_int_equal(published, status == HEARTH_OK);
    return status;
}

static uint64_t total_rows(fixture *f)
{
    hth_index_totals totals;

    assert_int_equal(hth_file_tier_set_totals(f->set, &totals, NULL), HEARTH_OK);
    return totals.rows;
}

/* ---- one root ---- */

FIXTURE_TEST(the_tiers_own_rows_make_room_on_a_device_that_is_nearly_full)
{
    open_roots(f, 1);
    for (uint32_t i = 0; i < 3 * ROWS_ROOM; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    assert_int_equal(total_rows(f), ROWS_ROOM);
    for (uint32_t i = 0; i < 3 * ROWS_ROOM; i++)
        assert_int_equal(has(f, i, 0), i >= 2 * ROWS_ROOM);
}

FIXTURE_TEST(rows_go_leaves_first_and_what_the_new_one_stands_on_stays)
{
    hearth_error err;

    open_roots(f, 1);
    for (uint32_t i = 0; i < ROWS_ROOM - 2; i++)
        assert_int_equal(publish(f, 1, i, NULL), HEARTH_OK);
    assert_int_equal(publish(f, 2, 0, NULL), HEARTH_OK);
    assert_int_equal(publish(f, 2, 1, NULL), HEARTH_OK);
    for (uint32_t i = 2; i < ROWS_ROOM; i++)
        assert_int_equal(publish(f, 2, i, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < ROWS_ROOM; i++)
        assert_true(has(f, 2, i));
    assert_int_equal(total_rows(f), ROWS_ROOM);
    /* Nothing but what it stands on is left to go. */
    assert_int_equal(publish(f, 2, ROWS_ROOM, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, f->paths[0]));
}

FIXTURE_TEST(a_device_that_others_fill_gets_back_what_is_to_stay_free)
{
    hearth_error err;

    open_roots(f, 1);
    for (uint32_t i = 0; i < ROWS_ROOM; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    f->devices[0].n_others = 4 * f->row_bytes;
    assert_int_equal(publish(f, ROWS_ROOM, 0, NULL), HEARTH_OK);
    assert_int_equal(total_rows(f), ROWS_ROOM - 4);
    assert_true(has(f, ROWS_ROOM, 0));

    f->devices[0].n_others = f->devices[0].capacity - f->row_bytes;
    assert_int_equal(publish(f, ROWS_ROOM + 1, 0, &err), HEARTH_FULL);
    assert_int_equal(total_rows(f), 0);
    assert_non_null(strstr(err.message, "make room on that device"));

    f->devices[0].n_others = 0;
    assert_int_equal(publish(f, ROWS_ROOM + 1, 0, NULL), HEARTH_OK);
}

FIXTURE_TEST(a_row_that_can_never_fit_the_device_evicts_nothing)
{
    test_row large = test_row_make(50, 0, (ROWS_ROOM + 1) * IMAGE_BYTES);

    open_roots(f, 1);
    for (uint32_t i = 0; i < ROWS_ROOM / 2; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_set_publish(f->set, &large.meta, large.bytes, large.n_bytes, NULL, NULL),
                     HEARTH_FULL);
    assert_int_equal(total_rows(f), ROWS_ROOM / 2);
    test_row_free(&large);
}

FIXTURE_TEST(a_tier_that_spares_its_rows_refuses_what_would_leave_too_little_free)
{
    f->spares_rows = true;
    f->devices[0].n_others = f->row_bytes;
    open_roots(f, 1);
    for (uint32_t i = 0; i < ROWS_ROOM - 1; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    assert_int_equal(publish(f, ROWS_ROOM, 0, NULL), HEARTH_FULL);
    f->devices[0].hides_fullness = true;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(publish(f, ROWS_ROOM + i, 0, NULL), HEARTH_OK);
    assert_int_equal(publish(f, ROWS_ROOM + 2, 0, NULL), HEARTH_FULL); /* by the device itself */
    assert_int_equal(total_rows(f), ROWS_ROOM + 1);
}

FIXTURE_TEST(a_device_that_has_room_by_its_own_account_and_refuses_the_row_gets_room_too)
{
    f->devices[0].hides_fullness = true;
    open_roots(f, 1);
    for (uint32_t i = 0; i < 3 * ROWS_ROOM; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    assert_true(has(f, 3 * ROWS_ROOM - 1, 0));
    assert_in_range(total_rows(f), ROWS_ROOM, ROWS_ROOM + 2);
}

/* ---- several roots ---- */

FIXTURE_TEST(every_root_is_filled_before_a_row_goes_and_none_stops_taking_rows)
{
    open_roots(f, 2);
    for (uint32_t i = 0; i < 2 * ROWS_ROOM; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
    assert_int_equal(total_rows(f), 2 * ROWS_ROOM);
    for (uint32_t i = 2 * ROWS_ROOM; i < 6 * ROWS_ROOM; i++) {
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
        assert_true(has(f, i, 0));
    }
    assert_int_equal(total_rows(f), 2 * ROWS_ROOM);
}

FIXTURE_TEST(a_root_whose_rows_all_bear_others_leaves_the_row_to_the_next_one)
{
    hth_file_tier *const *roots;

    open_roots(f, 2);
    roots = hth_file_tier_set_roots(f->set);
    /* The first root holds the beginnings of chains that go on in the second one. */
    for (uint32_t root = 0; root < 2; root++)
        for (uint32_t i = 0; i < ROWS_ROOM; i++) {
            test_row row = test_row_make(i, root, IMAGE_BYTES);

            assert_int_equal(hth_file_tier_publish(roots[root], &row.meta, row.bytes, row.n_bytes, NULL, NULL),
                             HEARTH_OK);
            test_row_free(&row);
        }
    for (uint32_t i = 100; i < 100 + ROWS_ROOM; i++)
        assert_int_equal(publish(f, i, 0, NULL), HEARTH_OK);
}

/* ---- a device of the system ---- */

#ifdef __linux__

enum { DEVICE_MB = 40, FREE_MB = 16, ROW_MB = 1, ROWS = 100 };

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        hth_test_not_available("a user namespace with a user");
    (void)close(fd);
}

/* A file system of its own, which this process alone sees. */
static void mount_device(const char *path)
{
    char users[64], groups[64], size[64];

    (void)snprintf(users, sizeof(users), "%ld %ld 1", (long)geteuid(), (long)geteuid());
    (void)snprintf(groups, sizeof(groups), "%ld %ld 1", (long)getegid(), (long)getegid());
    (void)snprintf(size, sizeof(size), "size=%dm,mode=0700", DEVICE_MB);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        hth_test_not_available("a user namespace");
    write_text("/proc/self/uid_map", users);
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/gid_map", groups);
    if (mount("tmpfs", path, "tmpfs", 0, size) != 0)
        hth_test_not_available("a mount in a user namespace");
}

static void fill_device(void *context)
{
    const char *directory = context;
    hth_file_tier_options options = {
        .directory = directory,
        .bytes_max = UINT64_C(1) << 30,
        .free_min = (uint64_t)FREE_MB << 20,
    };
    hth_file_tier *tier;

    mount_device(directory);
    require(hth_file_tier_open(&options, &tier, NULL) == HEARTH_OK);
    hth_file_tier_settle(tier);
    for (uint32_t i = 0; i < ROWS; i++) {
        test_row row = test_row_make(i, 0, (size_t)ROW_MB << 20);
        bool published = false;
        struct statvfs st;

        require(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, &published, NULL) == HEARTH_OK);
        require(published && hth_file_tier_has(tier, &row.meta.id, NULL));
        require(statvfs(directory, &st) == 0);
        /* The index grows beside the rows. */
        require((uint64_t)st.f_bavail * st.f_frsize >= ((uint64_t)(FREE_MB - ROW_MB) << 20));
        test_row_free(&row);
    }
    hth_file_tier_close(tier);
}

/* Files that are written through a map would end the process on such a device. */
static void open_without_a_free_byte(void *context)
{
    static const uint8_t zeros[4096];
    const char *directory = context;
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_C(1) << 30 };
    test_row row = test_row_make(1, 0, (size_t)ROW_MB << 20);
    bool published = false;
    hth_file_tier *tier;
    char filler[4096];
    int fd;

    mount_device(directory);
    (void)snprintf(filler, sizeof(filler), "%s/filler", directory);
    fd = open(filler, O_WRONLY | O_CREAT, 0600);
    require(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros))
        continue;
    require(errno == ENOSPC);
    require(hth_file_tier_open(&options, &tier, NULL) == HEARTH_OK);
    hth_file_tier_settle(tier);
    require(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, &published, NULL) != HEARTH_OK);
    require(!published && !hth_file_tier_has(tier, &row.meta.id, NULL));

    require(ftruncate(fd, 0) == 0);
    hth_file_tier_maintain(tier);
    hth_file_tier_settle(tier);
    require(hth_file_tier_publish(tier, &row.meta, row.bytes, row.n_bytes, &published, NULL) == HEARTH_OK);
    require(published && hth_file_tier_has(tier, &row.meta.id, NULL));
    hth_file_tier_close(tier);
    (void)close(fd);
    test_row_free(&row);
}

FIXTURE_TEST(a_tier_opens_on_a_device_without_a_free_byte)
{
    hth_test_in_child(open_without_a_free_byte, f->directory);
}

FIXTURE_TEST(a_tier_on_a_small_file_system_goes_on_taking_rows)
{
    hth_test_in_child(fill_device, f->directory);
}

#endif
