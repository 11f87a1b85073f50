/*
 * arena_test.c - what a slab costs, and when memory goes back
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/arena.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)

static hth_arena *open_arena(uint64_t bytes_max, bool warm)
{
    hth_arena *arena = NULL;

    assert_int_equal(
        hth_arena_open(&(hth_arena_options){ .bytes_max = bytes_max, .warm = warm, .fd = -1 }, &arena, NULL),
        HEARTH_OK);
    return arena;
}

static hth_arena_totals totals_of(hth_arena *arena)
{
    hth_arena_totals totals;

    hth_arena_totals_get(arena, &totals);
    assert_true(totals.used_bytes <= totals.mapped_bytes);
    assert_true(totals.mapped_bytes <= totals.address_bytes);
    return totals;
}

TEST(a_slab_goes_into_the_hole_that_one_of_its_size_left)
{
    hth_arena *arena = open_arena(32 * MIB, false);
    uint8_t *large, *small, *fence_a, *fence_b;

    large = hth_arena_take(arena, 5 * MIB, NULL);
    fence_a = hth_arena_take(arena, 1, NULL);
    small = hth_arena_take(arena, 100 * PAGE, NULL);
    fence_b = hth_arena_take(arena, 1, NULL);
    hth_arena_give(arena, large, 5 * MIB);
    hth_arena_give(arena, small, 100 * PAGE);
    assert_ptr_equal(hth_arena_take(arena, 100 * PAGE, NULL), small);
    assert_ptr_equal(hth_arena_take(arena, 5 * MIB, NULL), large);
    hth_arena_give(arena, fence_a, 1);
    hth_arena_give(arena, fence_b, 1);
    hth_arena_close(arena);
}

TEST(free_bytes_in_pieces_still_make_one_large_slab)
{
    enum { PIECES = 256 };
    hth_arena *arena = open_arena(PIECES * 16 * PAGE, false);
    uint8_t *pieces[PIECES], *slab;

    for (int i = 0; i < PIECES; i++) {
        pieces[i] = hth_arena_take(arena, 16 * PAGE, NULL);
        assert_non_null(pieces[i]);
        memset(pieces[i], i, 16 * PAGE);
    }
    assert_null(hth_arena_take(arena, 1, NULL)); /* the limit */
    for (int i = 0; i < PIECES; i += 2)
        hth_arena_give(arena, pieces[i], 16 * PAGE);
    slab = hth_arena_take(arena, PIECES / 2 * 16 * PAGE, NULL); /* all that is free, and no two pieces are adjacent */
    assert_non_null(slab);
    memset(slab, 255, PIECES / 2 * 16 * PAGE);
    assert_int_equal(totals_of(arena).used_bytes, PIECES * 16 * PAGE);
    assert_true(totals_of(arena).mapped_bytes <= PIECES * 17 * PAGE);
    for (int i = 1; i < PIECES; i += 2) {
        assert_int_equal(pieces[i][0], i);
        assert_int_equal(pieces[i][16 * PAGE - 1], i);
    }
    assert_null(hth_arena_take(arena, 1, NULL));
    hth_arena_close(arena);
}

TEST(a_slab_larger_than_a_segment_has_its_own_piece_which_goes_with_it)
{
    hth_arena *arena = open_arena(4 * HTH_ARENA_SEGMENT_BYTES, false);
    size_t n = HTH_ARENA_SEGMENT_BYTES + PAGE;
    uint8_t *slab = hth_arena_take(arena, n, NULL);

    assert_non_null(slab);
    slab[0] = slab[n - 1] = 1;
    assert_int_equal(totals_of(arena).mapped_bytes, n); /* only addresses are as long as two segments */
    hth_arena_give(arena, slab, n);
    assert_int_equal(totals_of(arena).address_bytes, 0);
    assert_int_equal(totals_of(arena).mapped_bytes, 0);
    assert_null(hth_arena_take(arena, SIZE_MAX, NULL));
    assert_null(hth_arena_take(arena, SIZE_MAX - 2 * PAGE, NULL));
    hth_arena_close(arena);
}

TEST(a_lower_limit_gives_free_memory_back_and_a_higher_one_takes_more)
{
    hth_arena *arena = open_arena(8 * MIB, false);
    uint8_t *kept = hth_arena_take(arena, MIB, NULL), *other = hth_arena_take(arena, 7 * MIB, NULL);

    assert_non_null(kept);
    assert_non_null(other);
    hth_arena_give(arena, other, 7 * MIB);
    assert_int_equal(totals_of(arena).mapped_bytes, 8 * MIB); /* kept for the next one */
    hth_arena_set_bytes_max(arena, 2 * MIB);
    assert_int_equal(totals_of(arena).mapped_bytes, 2 * MIB);
    assert_null(hth_arena_take(arena, 7 * MIB, NULL));
    assert_int_equal(hth_arena_release(arena, UINT64_MAX / 2), MIB);
    assert_int_equal(totals_of(arena).mapped_bytes, MIB);
    hth_arena_set_bytes_max(arena, 300 * MIB);
    assert_non_null(hth_arena_take(arena, 290 * MIB, NULL));
    hth_arena_close(arena);
}

TEST(slabs_can_be_had_while_memory_is_warmed_and_the_limit_holds)
{
    hth_arena *arena = open_arena(HTH_ARENA_SEGMENT_BYTES + 8 * PAGE, true);
    uint8_t *slabs[65];

    for (int i = 0; i < 64; i++) {
        slabs[i] = hth_arena_take(arena, MIB, NULL);
        assert_non_null(slabs[i]);
        slabs[i][0] = slabs[i][MIB - 1] = (uint8_t)i;
        assert_true(totals_of(arena).mapped_bytes <= (HTH_ARENA_SEGMENT_BYTES + 8 * PAGE) / 16 * 17);
    }
    slabs[64] = hth_arena_take(arena, 8 * PAGE, NULL);
    assert_non_null(slabs[64]);
    assert_null(hth_arena_take(arena, 1, NULL));
    hth_arena_close(arena);
}

static size_t warm_bytes(hth_arena *arena)
{
    hth_arena_totals totals = totals_of(arena);

    return totals.mapped_bytes - totals.used_bytes;
}

static void wait_for_warm(hth_arena *arena, size_t n_bytes)
{
    for (int i = 0; i < 30000 && warm_bytes(arena) < n_bytes; i++)
        usleep(1000);
    assert_true(warm_bytes(arena) >= n_bytes);
}

/* As a prefill on a GPU takes them: without a pause in which memory would be warmed in peace. */
static void come_without_a_pause(size_t n_bytes)
{
    hth_arena *arena = open_arena(1024 * MIB, true);
    bool cold = false;

    wait_for_warm(arena, HTH_ARENA_SEGMENT_BYTES);
    while (!cold)
        assert_non_null(hth_arena_take(arena, n_bytes, &cold));
    hth_arena_more_follow(arena, n_bytes, cold);
    for (int i = 0; i < 30000 && warm_bytes(arena) < 5 * n_bytes; i++) {
        hth_arena_give(arena, hth_arena_take(arena, PAGE, NULL), PAGE); /* no pause */
        usleep(1000);
    }
    for (int i = 0; i < 4; i++) {
        assert_non_null(hth_arena_take(arena, n_bytes, &cold));
        assert_false(cold);
    }
    hth_arena_close(arena);
}

TEST(memory_is_warmed_while_slabs_come_without_a_pause)
{
    come_without_a_pause(8 * MIB);
}

TEST(memory_is_warmed_for_slabs_of_more_than_half_a_segment)
{
    come_without_a_pause(HTH_ARENA_SEGMENT_BYTES / 2 + PAGE);
}

TEST(no_more_memory_is_warmed_than_a_series_needs)
{
    hth_arena *arena = open_arena(1024 * MIB, true);
    bool cold = false;

    wait_for_warm(arena, HTH_ARENA_SEGMENT_BYTES);
    while (!cold)
        assert_non_null(hth_arena_take(arena, 4 * MIB, &cold));
    for (int i = 0; i < 64; i++) {
        hth_arena_more_follow(arena, 4 * MIB, cold);
        wait_for_warm(arena, 4 * MIB);
        assert_true(warm_bytes(arena) <= 2 * HTH_ARENA_SEGMENT_BYTES + 16 * MIB);
        assert_non_null(hth_arena_take(arena, 4 * MIB, &cold));
    }
    hth_arena_more_follow(arena, HTH_ARENA_SEGMENT_BYTES + 1, true); /* not touched ahead */
    hth_arena_close(arena);
}

/*
 * An arena at its limit with 6 slabs of 12 MiB of a series, of which only the last one was cold. The series is owed
 * memory, and the limit allows none.
 */
static hth_arena *open_with_a_series_at_the_limit(uint8_t **last_out)
{
    hth_arena *arena = open_arena(HTH_ARENA_SEGMENT_BYTES + 24 * MIB, true);
    bool cold = false;

    wait_for_warm(arena, HTH_ARENA_SEGMENT_BYTES);
    for (int i = 0; i < 6; i++) {
        assert_false(cold);
        *last_out = hth_arena_take(arena, 12 * MIB, &cold);
        assert_non_null(*last_out);
        hth_arena_more_follow(arena, 12 * MIB, cold);
    }
    assert_true(cold);
    assert_int_equal(totals_of(arena).mapped_bytes, 76 * MIB);
    return arena;
}

/*
 * With a higher limit, the helper touches what 5 slabs of the series take, so nothing is owed any more. While something
 * is, it counts its next piece in the same moment as it adds the last one: no other sum is seen meanwhile.
 */
static void expect_one_piece_for_the_series(hth_arena *arena)
{
    hth_arena_set_bytes_max(arena, 1024 * MIB);
    wait_for_warm(arena, 60 * MIB);
    assert_int_equal(totals_of(arena).mapped_bytes, 136 * MIB);
}

TEST(a_series_at_the_limit_is_owed_no_more_than_is_touched_ahead_of_it)
{
    uint8_t *last;
    hth_arena *arena = open_with_a_series_at_the_limit(&last);
    bool cold = true;

    for (int i = 0; i < 64; i++) { /* each row takes the place of an older one */
        hth_arena_give(arena, last, 12 * MIB);
        last = hth_arena_take(arena, 12 * MIB, &cold);
        assert_false(cold);
        hth_arena_more_follow(arena, 12 * MIB, cold);
    }
    expect_one_piece_for_the_series(arena);
    hth_arena_close(arena);
}

TEST(a_series_is_still_owed_its_memory_after_a_pause)
{
    uint8_t *last;
    hth_arena *arena = open_with_a_series_at_the_limit(&last);

    usleep(250000); /* longer than the helper waits for a pause */
    expect_one_piece_for_the_series(arena);
    hth_arena_close(arena);
}

TEST(a_series_is_owed_nothing_for_slabs_of_other_sizes)
{
    uint8_t *last;
    hth_arena *arena = open_with_a_series_at_the_limit(&last);

    expect_one_piece_for_the_series(arena);
    for (int i = 0; i < 8; i++)
        hth_arena_more_follow(arena, PAGE, false);
    hth_arena_more_follow(arena, HTH_ARENA_SEGMENT_BYTES + 1, true);
    for (int i = 0; i < 3; i++)
        assert_non_null(hth_arena_take(arena, 12 * MIB, NULL));
    wait_for_warm(arena, HTH_ARENA_SEGMENT_BYTES); /* 28 MiB were left */
    assert_int_equal(totals_of(arena).mapped_bytes, 136 * MIB + HTH_ARENA_SEGMENT_BYTES);
    hth_arena_close(arena);
}

/* For a series, a piece of 40 MiB would be touched: for slabs of none, a segment in the next pause. */
TEST(cold_slabs_of_no_series_are_followed_by_no_memory_of_their_size)
{
    hth_arena *arena = open_arena(1024 * MIB, true);
    bool cold = false;

    wait_for_warm(arena, HTH_ARENA_SEGMENT_BYTES);
    assert_non_null(hth_arena_take(arena, 30 * MIB, &cold));
    assert_false(cold);
    assert_non_null(hth_arena_take(arena, 40 * MIB, &cold));
    assert_true(cold);
    assert_non_null(hth_arena_take(arena, 4 * MIB, &cold));
    assert_false(cold);
    wait_for_warm(arena, 60 * MIB); /* 30 MiB were left */
    assert_int_equal(totals_of(arena).mapped_bytes, 104 * MIB + HTH_ARENA_SEGMENT_BYTES);
    hth_arena_close(arena);
}

/* ---- in a file ---- */

static uint64_t held_by(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static hth_arena *open_in(int fd, uint64_t bytes_max)
{
    hth_arena *arena = NULL;

    assert_int_equal(hth_arena_open(&(hth_arena_options){ .bytes_max = bytes_max, .fd = fd }, &arena, NULL), HEARTH_OK);
    return arena;
}

TEST(slabs_in_a_file_are_claimed_by_the_next_arena)
{
    int fd = hth_test_memory_file();
    hth_arena *arena = open_in(fd, 300 * MIB);
    size_t large = HTH_ARENA_SEGMENT_BYTES + PAGE;
    uint8_t *slabs[3], *slab;
    uint64_t offsets[3];
    bool cold = false;

    hth_arena_claims_end(arena);
    for (int i = 0; i < 3; i++) {
        size_t n = i == 2 ? large : MIB;

        slabs[i] = hth_arena_take(arena, n, &cold);
        assert_non_null(slabs[i]);
        assert_true(cold);
        assert_true(hth_arena_commit(arena, slabs[i], n));
        slabs[i][0] = slabs[i][n - 1] = (uint8_t)(i + 1);
        offsets[i] = hth_arena_offset(arena, slabs[i]);
    }
    hth_arena_close(arena);

    arena = open_in(fd, 300 * MIB);
    slab = hth_arena_claim(arena, offsets[2], large);
    assert_non_null(slab);
    assert_int_equal(slab[large - 1], 3);
    slab = hth_arena_claim(arena, offsets[1], MIB);
    assert_non_null(slab);
    assert_int_equal(slab[0], 2);
    assert_null(hth_arena_claim(arena, offsets[1], MIB));                     /* taken */
    assert_null(hth_arena_claim(arena, offsets[1] - PAGE, 2 * PAGE));         /* reaches into it */
    assert_null(hth_arena_claim(arena, offsets[2] + 8 * PAGE, PAGE));         /* inside the large one */
    assert_null(hth_arena_claim(arena, offsets[1] + 1, PAGE));                /* no page */
    assert_null(hth_arena_claim(arena, HTH_ARENA_SEGMENT_BYTES - PAGE, MIB)); /* across a segment's end */
    assert_null(hth_arena_claim(arena, UINT64_MAX - PAGE + 1, PAGE));
    assert_null(hth_arena_claim(arena, UINT64_C(1) << 60, PAGE)); /* beyond the file */
    assert_null(hth_arena_claim(arena, 0, UINT64_MAX));
    assert_null(hth_arena_claim(arena, 0, 0));
    hth_arena_claims_end(arena);
    assert_true(held_by(fd) <= MIB + large); /* the slab that nobody claimed went back */
    assert_int_equal(slab[MIB - 1], 2);
    slab = hth_arena_take(arena, MIB, &cold);
    assert_true(cold);
    assert_true(hth_arena_commit(arena, slab, MIB));
    assert_int_equal(slab[0], 0);
    hth_arena_close(arena);
    (void)close(fd);
}

TEST(memory_in_a_file_goes_back_to_the_system_when_the_limit_falls)
{
    int fd = hth_test_memory_file();
    hth_arena *arena = open_in(fd, 16 * MIB);
    uint8_t *slab;

    hth_arena_claims_end(arena);
    slab = hth_arena_take(arena, 16 * MIB, NULL);
    assert_true(hth_arena_commit(arena, slab, 16 * MIB));
    assert_true(held_by(fd) >= 16 * MIB);
    hth_arena_give(arena, slab, 16 * MIB);
    hth_arena_set_bytes_max(arena, MIB);
    assert_true(held_by(fd) <= MIB);
    hth_arena_close(arena);
    (void)close(fd);
}

TEST(free_memory_in_a_file_goes_back_to_the_system_with_the_arena)
{
    int fd = hth_test_memory_file();
    hth_arena *arena = open_in(fd, 32 * MIB);
    uint8_t *slabs[2];
    uint64_t offset;

    hth_arena_claims_end(arena);
    for (int i = 0; i < 2; i++) {
        slabs[i] = hth_arena_take(arena, MIB, NULL);
        assert_true(hth_arena_commit(arena, slabs[i], MIB));
    }
    slabs[1][0] = 7;
    offset = hth_arena_offset(arena, slabs[1]);
    hth_arena_give(arena, slabs[0], MIB);
    hth_arena_close(arena);
    assert_int_equal(held_by(fd), MIB);

    arena = open_in(fd, 32 * MIB); /* an arena that does not know its slabs gives nothing back */
    slabs[1] = hth_arena_claim(arena, offset, MIB);
    assert_int_equal(slabs[1][0], 7);
    hth_arena_give(arena, slabs[1], MIB);
    hth_arena_close(arena);
    assert_int_equal(held_by(fd), MIB);
    (void)close(fd);
}
