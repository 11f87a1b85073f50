/*
 * ram_tier_test.c - the order of eviction, the quota, what a row costs, and rows that outlive their process
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#endif

#include "base/os.h"
#include "cache/ram_directory.h"
#include "cache/ram_tier.h"
#include "rows/kvc_signature.h"
#include "support/cmocka_all.h"
#include "support/made_row.h"
#include "support/support.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)

static hth_ram_tier *open_tier(uint64_t bytes_max, int fd)
{
    hth_ram_tier_options options = { .bytes_max = bytes_max, .memory_fd = fd };
    hth_ram_tier *tier = NULL;

    assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_OK);
    return tier;
}

static hth_ram_tier_totals totals_of(hth_ram_tier *tier)
{
    hth_ram_tier_totals totals;

    hth_ram_tier_totals_get(tier, &totals);
    return totals;
}

static hth_key key_of(uint64_t n)
{
    hth_key key = { .bytes = { 0 } };

    memcpy(key.bytes, &n, sizeof(n));
    return key;
}

/* The row with key n that stands on key parent. Its bytes do not matter. */
static void put(hth_ram_tier *tier, uint64_t n, uint64_t parent, size_t n_bytes)
{
    hth_row_meta meta = { .id = { .key = key_of(n), .kind = HTH_ROW_BLOCK }, .parent = key_of(parent) };
    hth_ram_row *row = hth_ram_tier_reserve(tier, n_bytes);

    assert_non_null(row);
    hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &meta));
}

static hth_ram_row *pin(hth_ram_tier *tier, uint64_t n)
{
    return hth_ram_tier_pin(tier, &(hth_row_id){ .key = key_of(n), .kind = HTH_ROW_BLOCK });
}

/* Is it there? Unlike a pin this is no use of the row. */
static bool has(hth_ram_tier *tier, uint64_t n)
{
    hth_ram_row_state *states = NULL;
    size_t n_states = 0;
    hth_key key = key_of(n);
    bool found = false;

    assert_int_equal(hth_ram_tier_dump(tier, &states, &n_states, NULL), HEARTH_OK);
    for (size_t i = 0; i < n_states; i++)
        found = found || hth_key_equal(&states[i].meta.id.key, &key);
    free(states);
    return found;
}

/* ---- what goes first ---- */

TEST(a_chain_is_evicted_from_its_end)
{
    hth_ram_tier *tier = open_tier(MIB, -1);

    for (uint64_t n = 1; n <= 5; n++)
        put(tier, n, n - 1, PAGE);
    for (uint64_t n = 5; n >= 1; n--) {
        assert_true(has(tier, n));
        assert_int_equal(hth_ram_tier_evict_bytes(tier, 1), PAGE);
        assert_false(has(tier, n));
    }
    assert_int_equal(hth_ram_tier_evict_bytes(tier, 1), 0);
    hth_ram_tier_close(tier);
}

TEST(a_use_of_a_leaf_counts_as_a_use_of_what_it_stands_on)
{
    hth_ram_tier *tier = open_tier(MIB, -1);

    put(tier, 1, 0, PAGE); /* 1 <- 2 */
    put(tier, 2, 1, PAGE);
    put(tier, 11, 10, PAGE); /* alone, and put later */
    hth_ram_tier_unpin(tier, pin(tier, 2));
    (void)hth_ram_tier_evict_bytes(tier, 1);
    assert_false(has(tier, 11));
    put(tier, 12, 10, PAGE);
    hth_ram_tier_remove(tier, &(hth_row_id){ .key = key_of(2), .kind = HTH_ROW_BLOCK });
    hth_ram_tier_unpin(tier, pin(tier, 12));
    put(tier, 13, 10, PAGE);
    (void)hth_ram_tier_evict_bytes(tier, 1); /* 1 was used with 2, before 12 was put */
    assert_false(has(tier, 1));
    assert_true(has(tier, 12));
    hth_ram_tier_close(tier);
}

TEST(an_inner_row_goes_only_when_every_leaf_is_held)
{
    hth_ram_tier *tier = open_tier(MIB, -1);
    hth_ram_row *leaf;

    for (uint64_t n = 1; n <= 3; n++)
        put(tier, n, n - 1, PAGE);
    leaf = pin(tier, 3);
    assert_non_null(leaf);
    (void)hth_ram_tier_evict_bytes(tier, 1);
    assert_false(has(tier, 1)); /* the oldest of two inner rows */
    assert_true(has(tier, 2));
    assert_int_equal(hth_ram_tier_evict_bytes(tier, 10 * PAGE), PAGE);
    assert_true(has(tier, 3));
    assert_int_equal(totals_of(tier).bytes_pinned, PAGE);
    hth_ram_tier_unpin(tier, leaf);
    hth_ram_tier_close(tier);
}

TEST(a_snapshot_that_names_itself_as_its_parent_is_a_leaf)
{
    hth_ram_tier *tier = open_tier(MIB, -1);
    hth_ram_row_state *states = NULL;
    size_t n = 0;

    put(tier, 1, 1, PAGE);
    assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 1);
    assert_true(states[0].leaf);
    free(states);
    hth_ram_tier_close(tier);
}

/* ---- the quota ---- */

TEST(a_lower_quota_evicts_at_once_and_what_is_held_when_it_is_not)
{
    hth_ram_tier *tier = open_tier(16 * MIB, -1);
    hth_ram_row *held;

    for (uint64_t n = 0; n < 16; n++)
        put(tier, n, 100, MIB);
    held = pin(tier, 3);
    hth_ram_tier_set_bytes_max(tier, MIB / 2);
    assert_int_equal(totals_of(tier).rows, 1);
    assert_int_equal(totals_of(tier).bytes_mapped, MIB);
    assert_null(hth_ram_tier_reserve(tier, 1));
    hth_ram_tier_unpin(tier, held);
    assert_int_equal(totals_of(tier).rows, 0);
    assert_int_equal(totals_of(tier).bytes, 0);
    assert_true(totals_of(tier).bytes_mapped <= MIB / 2 + MIB / 32);
    assert_int_equal(totals_of(tier).rows_evicted, 16);
    hth_ram_tier_set_bytes_max(tier, 100 * MIB);
    put(tier, 1, 100, 99 * MIB);
    assert_int_equal(totals_of(tier).bytes_max, 100 * MIB);
    hth_ram_tier_close(tier);
}

TEST(the_quota_of_a_memory_file_shrinks_and_grows)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(160 * MIB, fd);
    struct stat st;

    for (uint64_t n = 0; n < 16; n++)
        put(tier, n, 100, 10 * MIB);
    assert_int_equal(totals_of(tier).rows_displaced, 0);
    hth_ram_tier_set_bytes_max(tier, 20 * MIB); /* in several steps */
    assert_int_equal(totals_of(tier).rows, 2);
    assert_true(has(tier, 15));
    assert_int_equal(totals_of(tier).bytes_max, 20 * MIB);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 <= 21 * MIB);
    put(tier, 20, 100, 10 * MIB);
    assert_int_equal(totals_of(tier).rows_displaced, 1);
    assert_null(hth_ram_tier_reserve(tier, 21 * MIB)); /* more than the quota */
    assert_int_equal(totals_of(tier).rows_displaced, 2);
    hth_ram_tier_set_bytes_max(tier, 40 * MIB);
    put(tier, 21, 100, 10 * MIB);
    put(tier, 22, 100, 10 * MIB);
    assert_int_equal(totals_of(tier).rows, 4);
    assert_int_equal(totals_of(tier).rows_displaced, 2);
    hth_ram_tier_close(tier);
    assert_int_equal(close(fd), 0);
}

TEST(evicting_bytes_gives_memory_back_to_the_system)
{
    hth_ram_tier *tier = open_tier(16 * MIB, -1);

    for (uint64_t n = 0; n < 16; n++)
        put(tier, n, 100, MIB);
    assert_int_equal(totals_of(tier).bytes_mapped, 16 * MIB);
    assert_int_equal(hth_ram_tier_evict_bytes(tier, 3 * MIB + 1), 4 * MIB);
    assert_int_equal(totals_of(tier).bytes_mapped, 12 * MIB);
    hth_ram_tier_close(tier);
}

/* ---- a dump ---- */

TEST(a_dump_shows_every_row_with_its_pins_the_latest_used_first)
{
    hth_ram_tier *tier = open_tier(MIB, -1);
    hth_ram_row_state *states = NULL;
    hth_ram_row *row;
    size_t n = 1;
    hth_key one = key_of(1), two = key_of(2), three = key_of(3);

    assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
    for (uint64_t i = 1; i <= 3; i++)
        put(tier, i, i - 1, i * PAGE);
    row = pin(tier, 1);
    hth_ram_tier_pin_again(tier, row);
    hth_ram_row_set_stored(row, true);
    assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 3);
    assert_true(hth_key_equal(&states[0].meta.id.key, &one));
    assert_true(hth_key_equal(&states[1].meta.id.key, &three));
    assert_true(hth_key_equal(&states[2].meta.id.key, &two));
    assert_int_equal(states[0].pins, 2);
    assert_int_equal(states[1].pins, 0);
    assert_true(states[0].stored);
    assert_false(states[1].stored);
    assert_true(states[0].verified);
    assert_false(states[0].leaf);
    assert_true(states[1].leaf);
    assert_int_equal(states[1].bytes, 3 * PAGE);
    free(states);
    hth_ram_tier_unpin(tier, row);
    hth_ram_tier_unpin(tier, row);
    hth_ram_tier_close(tier);
}

/* ---- what a row costs ---- */

#ifdef __GLIBC__
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* At sizes right behind and right before the tables' and arrays' growth. */
TEST(bookkeeping_takes_less_than_300_bytes_a_row)
{
    static const size_t row_counts[] = { 10000, 16000, 17000, 24000, 30000, 33000, 66000 };
    void *probe;
    size_t before = heap_bytes();

    probe = malloc(1000);
    assert_non_null(probe);
    if (heap_bytes() == before) { /* a sanitizer's allocator does not say */
        free(probe);
        skip();
    }
    free(probe);
    for (size_t i = 0; i < sizeof(row_counts) / sizeof(row_counts[0]); i++) {
        size_t n_rows = row_counts[i];
        hth_ram_tier *tier;
        size_t bytes_a_row;

        before = heap_bytes();
        tier = open_tier(n_rows * PAGE, -1);
        for (uint64_t n = 1; n <= n_rows; n++)
            put(tier, n, n % 128 == 1 ? 0 : n - 1, PAGE);
        assert_int_equal(totals_of(tier).rows, n_rows);
        bytes_a_row = (heap_bytes() - before) / n_rows;
        print_message("%zu rows: %zu bytes a row\n", n_rows, bytes_a_row);
        assert_true(bytes_a_row + 32 < 300); /* 32: a slot of a memory file's directory */
        hth_ram_tier_close(tier);
    }
}
#endif

/* ---- memory that outlives the tier ---- */

enum { CHAIN_ROWS = 6 };

static void put_row(hth_ram_tier *tier, const test_row *made)
{
    hth_ram_row *row = hth_ram_tier_reserve(tier, made->n_bytes);

    assert_non_null(row);
    memcpy(hth_ram_row_slab(row), made->bytes, made->n_bytes);
    hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &made->meta));
}

static void put_chain(hth_ram_tier *tier, uint32_t chain)
{
    for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
        test_row made = test_row_make(chain, i, 3000 * (i + 1));

        put_row(tier, &made);
        test_row_free(&made);
    }
}

static bool has_row(hth_ram_tier *tier, uint32_t chain, uint32_t i)
{
    test_row made = test_row_make(chain, i, 3000 * (i + 1));
    hth_ram_row *row = hth_ram_tier_pin(tier, &made.meta.id);
    bool found = row != NULL;

    if (row) {
        assert_int_equal(hth_ram_row_bytes(row), made.n_bytes);
        assert_memory_equal(hth_ram_row_slab(row), made.bytes, made.n_bytes);
        assert_memory_equal(&hth_ram_row_meta(row)->parent, &made.meta.parent, sizeof(hth_key));
        assert_int_equal(hth_ram_row_meta(row)->first_position, made.meta.first_position);
        assert_int_equal(hth_ram_row_meta(row)->n_tokens, made.meta.n_tokens);
        hth_ram_tier_unpin(tier, row);
    }
    test_row_free(&made);
    return found;
}

TEST(rows_in_a_memory_file_are_found_by_the_next_tier)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);
    hth_ram_row_state *states = NULL;
    size_t n = 0;
    uint64_t bytes;

    put_chain(tier, 1);
    put_chain(tier, 2);
    bytes = totals_of(tier).bytes;
    hth_ram_tier_close(tier);

    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows, 2 * CHAIN_ROWS);
    assert_int_equal(totals_of(tier).rows_adopted, 2 * CHAIN_ROWS);
    assert_int_equal(totals_of(tier).rows_adopted_dropped, 0);
    assert_int_equal(totals_of(tier).bytes, bytes);
    assert_int_equal(totals_of(tier).bytes_pinned, 0);
    assert_true(has_row(tier, 1, 2));
    assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
    assert_true(states[0].verified);
    assert_false(states[1].verified);
    free(states);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
        assert_true(has_row(tier, 1, i));
        assert_true(has_row(tier, 2, i));
    }
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(a_removed_row_is_not_found_again)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);
    test_row made = test_row_make(1, 5, 0);

    put_chain(tier, 1);
    hth_ram_tier_remove(tier, &made.meta.id);
    test_row_free(&made);
    hth_ram_tier_close(tier);
    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows, CHAIN_ROWS - 1);
    assert_false(has_row(tier, 1, 5));
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(adopted_rows_keep_their_order_and_the_quota_holds)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);

    put_chain(tier, 1);
    put_chain(tier, 2);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_true(has_row(tier, 1, i)); /* the older chain was used later */
    hth_ram_tier_close(tier);
    tier = open_tier(22 * PAGE, fd);
    assert_true(totals_of(tier).rows_evicted > 0);
    assert_true(totals_of(tier).bytes <= 22 * PAGE);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_true(has_row(tier, 1, i));
    assert_false(has_row(tier, 2, CHAIN_ROWS - 1));
    hth_ram_tier_close(tier);
    (void)close(fd);
}

static uint64_t held_by(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

TEST(a_file_whose_process_was_killed_keeps_its_rows_and_nothing_else)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);
    hth_ram_directory *directory = NULL;
    hth_ram_entry *entries = NULL;
    uint64_t held;
    size_t n_rows = 0;

    put_chain(tier, 1);
    assert_int_equal(hth_ram_directory_trim(fd, &n_rows, NULL), HEARTH_BUSY);
    hth_ram_tier_close(tier);
    held = held_by(fd);
    assert_true(held < MIB);

    /* what a helper thread touched, and entries that are out of bounds */
    assert_int_equal(hth_os_file_allocate(fd, HTH_RAM_DIRECTORY_BYTES + MIB, 64 * MIB), 0);
    assert_int_equal(hth_ram_directory_open(fd, &directory, NULL), HEARTH_OK);
    assert_int_equal(hth_ram_directory_entries(directory, &entries, &n_rows, NULL), HEARTH_OK);
    free(entries);
    (void)hth_ram_directory_put(directory, UINT64_MAX - PAGE, 2 * PAGE, 1);
    (void)hth_ram_directory_put(directory, 80 * MIB, PAGE, 1);
    (void)hth_ram_directory_put(directory, PAGE, UINT64_MAX, 1);
    hth_ram_directory_close(directory);
    assert_int_equal(hth_ram_directory_trim(fd, &n_rows, NULL), HEARTH_OK);
    assert_int_equal(n_rows, CHAIN_ROWS + 3);
    assert_int_equal(held_by(fd), held);

    tier = open_tier(MIB, fd);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_true(has_row(tier, 1, i));
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(a_file_without_rows_is_of_no_use)
{
    int fd = hth_test_memory_file();
    size_t n_rows = 1;
    uint8_t garbage[8192];

    assert_int_equal(hth_ram_directory_trim(fd, &n_rows, NULL), HEARTH_OK); /* its process came to nothing */
    assert_int_equal(n_rows, 0);
    hth_ram_tier_close(open_tier(MIB, fd));
    n_rows = 1;
    assert_int_equal(hth_ram_directory_trim(fd, &n_rows, NULL), HEARTH_OK);
    assert_int_equal(n_rows, 0);
    memset(garbage, 0x5A, sizeof(garbage));
    assert_int_equal(pwrite(fd, garbage, sizeof(garbage), 0), sizeof(garbage));
    n_rows = 1;
    assert_int_equal(hth_ram_directory_trim(fd, &n_rows, NULL), HEARTH_OK);
    assert_int_equal(n_rows, 0);
    (void)close(fd);
}

TEST(two_tiers_do_not_share_memory)
{
    int fd = hth_test_memory_file();
    hth_ram_tier_options options = { .bytes_max = MIB, .memory_fd = fd };
    hth_ram_tier *tier = open_tier(MIB, fd), *second = NULL;
    hearth_error err;

    assert_int_equal(hth_ram_tier_open(&options, &second, &err), HEARTH_BUSY);
    assert_null(second);
    hth_ram_tier_close(tier);
    assert_int_equal(hth_ram_tier_open(&options, &second, &err), HEARTH_OK);
    hth_ram_tier_close(second);
    (void)close(fd);
}

TEST(what_is_no_memory_of_ours_is_cleared)
{
    int fd = hth_test_memory_file();
    uint8_t garbage[8192];
    hth_ram_tier *tier;

    memset(garbage, 0x5A, sizeof(garbage));
    assert_int_equal(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows, 0);
    put_chain(tier, 1);
    hth_ram_tier_close(tier);

    assert_int_equal(pwrite(fd, "\2", 1, 8), 1); /* another version */
    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows, 0);
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(a_descriptor_that_is_no_file_is_refused)
{
    int ends[2];
    hth_ram_tier_options options = { .bytes_max = MIB };
    hth_ram_tier *tier = NULL;

    assert_int_equal(pipe(ends), 0);
    options.memory_fd = ends[0];
    assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_MISUSE);
    assert_null(tier);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_MISUSE); /* closed */
    assert_null(tier);
}

/* The first place of a slab: a file begins with "KVC". */
static off_t find_slab(int fd, size_t which)
{
    char bytes[4];
    off_t at = (off_t)64 << 20;

    for (;; at += (off_t)PAGE) {
        assert_int_equal(pread(fd, bytes, sizeof(bytes), at), sizeof(bytes));
        if (memcmp(bytes, "KVC", 3) == 0 && which-- == 0)
            return at;
    }
}

TEST(a_damaged_row_is_dropped_at_its_first_use)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);
    off_t file;

    put_chain(tier, 1);
    hth_ram_tier_close(tier);
    file = find_slab(fd, 3);
    assert_int_equal(pwrite(fd, "!!!!", 4, file + 2000), 4); /* in the image of a row */
    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows, CHAIN_ROWS);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_int_equal(has_row(tier, 1, i), i != 3);
    assert_int_equal(totals_of(tier).rows, CHAIN_ROWS - 1);
    assert_int_equal(totals_of(tier).rows_adopted_dropped, 1);
    hth_ram_tier_close(tier);
    tier = open_tier(MIB, fd);
    assert_int_equal(totals_of(tier).rows_adopted_dropped, 0); /* it was forgotten for good */
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(a_new_row_takes_the_place_of_one_that_nobody_checked)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(MIB, fd);

    put_chain(tier, 1);
    hth_ram_tier_close(tier);
    assert_int_equal(pwrite(fd, "!!!!", 4, find_slab(fd, 3) + 2000), 4);
    tier = open_tier(MIB, fd);
    put_chain(tier, 1);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_true(has_row(tier, 1, i));
    assert_int_equal(totals_of(tier).rows, CHAIN_ROWS);
    hth_ram_tier_close(tier);
    (void)close(fd);
}

/* ---- a system that has no memory left ---- */

#if defined(__linux__) && defined(__LP64__)
static uint64_t system_bytes = UINT64_MAX; /* what the system gives to a file */

/* In the place of the C library's: memory files cannot be larger than that. */
int fallocate(int fd, int mode, off_t offset, off_t n_bytes)
{
    struct stat st;

    if (mode == 0 && (fstat(fd, &st) != 0 || (uint64_t)st.st_blocks * 512 + (uint64_t)n_bytes > system_bytes)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, n_bytes);
}

static void leave_system(int fd, uint64_t n_bytes)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    system_bytes = (uint64_t)st.st_blocks * 512 + n_bytes;
}

TEST(without_memory_in_the_system_older_rows_make_room_and_the_quota_stays)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(16 * MIB, fd);

    leave_system(fd, 4 * MIB + 16 * PAGE); /* the directory takes pages, too */
    for (uint64_t n = 0; n < 12; n++) {
        put(tier, n, 100, MIB);
        assert_true(has(tier, n));
    }
    assert_int_equal(totals_of(tier).rows, 4);
    assert_true(has(tier, 8));
    put(tier, 20, 100, 3 * MIB); /* one row in the place of many */
    assert_int_equal(totals_of(tier).bytes, 4 * MIB);
    assert_int_equal(totals_of(tier).bytes_max, 16 * MIB);

    system_bytes = UINT64_MAX; /* it has memory again, and all of the quota is used */
    for (uint64_t n = 30; n < 46; n++)
        put(tier, n, 100, MIB);
    assert_int_equal(totals_of(tier).bytes, 16 * MIB);
    assert_true(has(tier, 30));
    hth_ram_tier_close(tier);
    (void)close(fd);
}

TEST(a_reserve_that_gets_no_memory_leaves_the_tier_working)
{
    int fd = hth_test_memory_file();
    hth_ram_tier *tier = open_tier(16 * MIB, fd);
    hth_ram_row *held;

    leave_system(fd, MIB);
    held = hth_ram_tier_reserve(tier, MIB);
    assert_non_null(held);
    for (int i = 0; i < 3; i++)
        assert_null(hth_ram_tier_reserve(tier, MIB));
    assert_int_equal(totals_of(tier).bytes, MIB);
    assert_int_equal(totals_of(tier).bytes_pinned, MIB);
    hth_ram_tier_unpin(tier, held);
    assert_int_equal(totals_of(tier).bytes, 0);
    leave_system(fd, 0);
    (void)hth_ram_tier_evict_bytes(tier, MIB);
    assert_null(hth_ram_tier_reserve(tier, 5 * MIB)); /* not even an empty tier has room */
    system_bytes = UINT64_MAX;
    put(tier, 1, 100, 16 * MIB);
    assert_int_equal(totals_of(tier).bytes_max, 16 * MIB);
    hth_ram_tier_close(tier);
    (void)close(fd);
}
#endif

/* ---- signatures ---- */

/* The same row with room for a signature, and with the signature where there is a key. */
static test_row signed_row(uint32_t chain, uint32_t i, const hth_signing_key *key)
{
    test_row plain = test_row_make(chain, i, 3000 * (i + 1)), made = plain;
    hth_kvc_fault fault;
    hth_kvc_info info;
    size_t n_head, n_image;

    assert_true(hth_kvc_parse(plain.bytes, plain.n_bytes, NULL, &info, &fault));
    n_image = (size_t)info.image_byte_count;
    info.hmac = hth_kvc_signature_room();
    n_head = hth_kvc_head_bytes(&info);
    made.n_bytes = n_head + n_image;
    made.meta.bytes = made.n_bytes;
    made.bytes = malloc(made.n_bytes);
    assert_non_null(made.bytes);
    hth_kvc_encode_head(&info, n_image, info.image_crc32c, made.bytes);
    memcpy(made.bytes + n_head, plain.bytes + info.image_offset, n_image);
    test_row_free(&plain);
    if (key)
        assert_true(hth_kvc_sign(made.bytes, made.n_bytes, key));
    return made;
}

static hth_signing_key *signing_key(uint8_t first)
{
    uint8_t bytes[32] = { first };
    hth_signing_key *key = hth_hmac_key_new(bytes, sizeof(bytes));

    assert_non_null(key);
    return key;
}

TEST(with_a_key_adopted_rows_are_used_only_when_they_are_signed_with_it)
{
    int fd = hth_test_memory_file();
    hth_signing_key *ours = signing_key(1), *another = signing_key(2);
    const hth_signing_key *keys[] = { ours, another, NULL };
    hth_ram_tier_options options = { .bytes_max = MIB, .memory_fd = fd, .key = ours };
    hth_ram_tier *tier = open_tier(MIB, fd);
    test_row rows[4];

    for (uint32_t i = 0; i < 4; i++) { /* signed, by somebody else, not yet, and without room for it */
        rows[i] = i < 3 ? signed_row(1, i, keys[i]) : test_row_make(1, i, 100);
        put_row(tier, &rows[i]);
    }
    hth_ram_tier_close(tier);

    tier = NULL;
    assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_OK);
    assert_int_equal(totals_of(tier).rows_adopted, 4);
    for (uint32_t i = 0; i < 4; i++) {
        hth_ram_row *row = hth_ram_tier_pin(tier, &rows[i].meta.id);

        assert_int_equal(row != NULL, i == 0);
        assert_int_equal(hth_ram_tier_has(tier, &rows[i].meta.id, NULL), i == 0);
        hth_ram_tier_unpin(tier, row);
    }
    assert_int_equal(totals_of(tier).rows_adopted_dropped, 3);
    put_row(tier, &rows[2]); /* this process's own rows are signed when they are written */
    hth_ram_tier_unpin(tier, hth_ram_tier_pin(tier, &rows[2].meta.id));
    assert_true(hth_ram_tier_has(tier, &rows[2].meta.id, NULL));
    hth_ram_tier_close(tier);

    tier = open_tier(MIB, fd); /* without a key signatures are not looked at */
    for (uint32_t i = 0; i < 4; i++) {
        hth_ram_row *row = hth_ram_tier_pin(tier, &rows[i].meta.id);

        assert_int_equal(row != NULL, i == 0 || i == 2);
        hth_ram_tier_unpin(tier, row);
        test_row_free(&rows[i]);
    }
    hth_ram_tier_close(tier);
    hth_signing_key_free(ours);
    hth_signing_key_free(another);
    (void)close(fd);
}
