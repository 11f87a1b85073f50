/*
 * ram_tier_property_test.c - random operations on the RAM tier, against what must hold
 *
 * Rows are filled with a pattern made from their id, so that any mix-up of slabs shows when one is read. Several
 * threads work on one tier; each checks what it reads, and at the end nothing is held and nothing has leaked.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "cache/arena.h"
#include "cache/ram_directory.h"
#include "cache/ram_tier.h"
#include "support/cmocka_all.h"
#include "support/made_row.h"
#include "support/support.h"

enum { THREADS = 4, ROUNDS = 4000, IDS = 200, HELD_MAX = 6 };

static const uint64_t tier_bytes = UINT64_C(24) << 20;

static hth_ram_tier *open_tier(uint64_t bytes_max, bool warm, int fd)
{
    hth_ram_tier_options options = { .bytes_max = bytes_max, .warm = warm, .memory_fd = fd };
    hth_ram_tier *tier = NULL;

    assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_OK);
    return tier;
}

static hth_row_meta meta_of(uint64_t n)
{
    hth_row_meta meta;

    memset(&meta, 0, sizeof(meta));
    memcpy(meta.id.key.bytes, &n, sizeof(n));
    meta.id.kind = (hth_row_kind)(n % 3);
    meta.parent.bytes[0] = (uint8_t)(n % 7);
    meta.parent.bytes[31] = 1; /* the key of no row: nothing stands on another */
    meta.n_tokens = (uint32_t)n;
    return meta;
}

static hth_ram_row *pin(hth_ram_tier *tier, uint64_t n)
{
    hth_row_meta meta = meta_of(n);

    return hth_ram_tier_pin(tier, &meta.id);
}

static size_t bytes_of(uint64_t n)
{
    return 1000 + n * n * 13 % 900000;
}

static void fill(hth_ram_row *row, uint64_t n)
{
    memset(hth_ram_row_slab(row), (int)(n * 31 % 251), hth_ram_row_bytes(row));
}

static void check(hth_ram_row *row)
{
    uint64_t n = hth_ram_row_meta(row)->n_tokens;
    const uint8_t *file = hth_ram_row_slab(row);
    uint8_t expected = (uint8_t)(n * 31 % 251);

    if (hth_ram_row_bytes(row) != bytes_of(n) || file[0] != expected || file[bytes_of(n) / 2] != expected ||
        file[bytes_of(n) - 1] != expected)
        abort(); /* cmocka's assertions belong to the main thread */
}

typedef struct worker {
    hth_ram_tier *tier;
    uint64_t seed;
} worker;

/* What an operator or pressure does now and then. */
static void disturb(worker *w)
{
    hth_ram_row_state *states = NULL;
    size_t n = 0;

    switch (hth_test_random(&w->seed, 40)) {
    case 0: hth_ram_tier_set_bytes_max(w->tier, tier_bytes / (1 + hth_test_random(&w->seed, 3))); break;
    case 1: (void)hth_ram_tier_evict_bytes(w->tier, hth_test_random(&w->seed, tier_bytes / 4)); break;
    case 2:
        if (hth_ram_tier_dump(w->tier, &states, &n, NULL) != HEARTH_OK)
            abort();
        for (size_t i = 1; i < n; i++)
            if (states[i - 1].used_at < states[i].used_at)
                abort();
        free(states);
        break;
    default: break;
    }
}

static void *work(void *context)
{
    worker *w = context;
    hth_ram_row *held[HELD_MAX] = { NULL };

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t n = hth_test_random(&w->seed, IDS);
        hth_row_meta meta = meta_of(n);
        size_t place = hth_test_random(&w->seed, HELD_MAX);
        hth_ram_row *row;

        switch (hth_test_random(&w->seed, 6)) {
        case 0:
        case 1:
            row = hth_ram_tier_reserve(w->tier, bytes_of(n));
            if (!row)
                break;
            fill(row, n);
            if (hth_test_random(&w->seed, 8) == 0) {
                hth_ram_tier_unpin(w->tier, row); /* given up before it was visible */
                break;
            }
            row = hth_ram_tier_insert(w->tier, row, &meta);
            check(row);
            hth_ram_tier_unpin(w->tier, held[place]);
            held[place] = row;
            break;
        case 2:
            row = hth_ram_tier_pin(w->tier, &meta.id);
            if (!row)
                break;
            check(row);
            hth_ram_tier_unpin(w->tier, held[place]);
            held[place] = row;
            break;
        case 3: hth_ram_tier_remove(w->tier, &meta.id); break;
        case 4: disturb(w); break;
        default: {
            hth_row_meta children[IDS];
            size_t n_children = hth_ram_tier_children(w->tier, &meta.parent, children, IDS);

            for (size_t i = 0; i < n_children; i++)
                if (memcmp(&children[i].parent, &meta.parent, sizeof(meta.parent)) != 0)
                    abort();
        }
        }
        for (int i = 0; i < HELD_MAX; i++)
            if (held[i])
                check(held[i]); /* whatever the others evict or remove, a pinned row stays as it is */
    }
    for (int i = 0; i < HELD_MAX; i++)
        hth_ram_tier_unpin(w->tier, held[i]);
    return NULL;
}

static void work_on(hth_ram_tier *tier)
{
    hth_ram_tier_totals totals;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = hth_test_seed();

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){ .tier = tier, .seed = seed + (uint64_t)i };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hth_ram_tier_totals_get(tier, &totals);
    assert_true(totals.bytes <= tier_bytes);
    assert_true(totals.rows_evicted > 0);
    for (uint64_t n = 0; n < IDS; n++) {
        hth_row_meta meta = meta_of(n);

        hth_ram_tier_remove(tier, &meta.id);
    }
    hth_ram_tier_totals_get(tier, &totals);
    assert_int_equal(totals.rows, 0);
    assert_int_equal(totals.bytes, 0);
    assert_int_equal(totals.bytes_pinned, 0);
    hth_ram_tier_close(tier);
}

TEST(pinned_rows_keep_their_bytes_whatever_happens_around_them)
{
    work_on(open_tier(tier_bytes, true, -1));
}

TEST(and_so_they_do_in_a_memory_file)
{
    int fd = hth_test_memory_file();

    work_on(open_tier(tier_bytes, true, fd));
    (void)close(fd);
}

TEST(the_least_recently_used_row_goes_first_and_a_pinned_one_never)
{
    hth_ram_tier *tier;
    hth_ram_row *pinned;

    tier = open_tier(10 * 4096, false, -1);
    for (uint64_t n = 0; n < 10; n++) {
        hth_ram_row *row = hth_ram_tier_reserve(tier, 4096);
        hth_row_meta meta = meta_of(n);

        assert_non_null(row);
        hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &meta));
    }
    pinned = pin(tier, 0);
    assert_non_null(pinned);
    hth_ram_tier_unpin(tier, pin(tier, 1)); /* used again */

    hth_ram_row *large = hth_ram_tier_reserve(tier, 3 * 4096);
    assert_non_null(large);
    assert_null(pin(tier, 2));
    assert_null(pin(tier, 3));
    assert_null(pin(tier, 4));
    hth_ram_tier_unpin(tier, pin(tier, 1));
    assert_null(hth_ram_tier_reserve(tier, 11 * 4096)); /* larger than the tier */
    assert_null(hth_ram_tier_reserve(tier, 7 * 4096));  /* what is pinned leaves less */
    assert_non_null(pin(tier, 0));
    hth_ram_tier_unpin(tier, pinned);
    hth_ram_tier_unpin(tier, pinned);
    hth_ram_tier_unpin(tier, large);
    hth_ram_tier_close(tier);
}

TEST(slabs_never_overlap_and_all_memory_comes_back)
{
    enum { SLABS = 300 };
    hth_arena *arena;
    hth_arena_totals totals;
    struct {
        uint8_t *bytes;
        size_t n;
        uint8_t mark;
    } slabs[SLABS] = { { NULL, 0, 0 } };
    uint64_t seed = hth_test_seed();

    assert_int_equal(hth_arena_open(&(hth_arena_options){ .bytes_max = UINT64_C(256) << 20, .fd = -1 }, &arena, NULL),
                     HEARTH_OK);
    for (int round = 0; round < 6000; round++) {
        size_t i = hth_test_random(&seed, SLABS);

        if (slabs[i].bytes) {
            assert_int_equal(slabs[i].bytes[0], slabs[i].mark);
            assert_int_equal(slabs[i].bytes[slabs[i].n - 1], slabs[i].mark);
            hth_arena_give(arena, slabs[i].bytes, slabs[i].n);
            slabs[i].bytes = NULL;
            continue;
        }
        slabs[i].n = 1 + hth_test_random(&seed, hth_test_random(&seed, 20) ? 1 << 20 : 80 << 20);
        slabs[i].bytes = hth_arena_take(arena, slabs[i].n, NULL);
        slabs[i].mark = (uint8_t)round;
        if (slabs[i].bytes) {
            assert_int_equal((uintptr_t)slabs[i].bytes % 4096, 0);
            slabs[i].bytes[0] = slabs[i].bytes[slabs[i].n - 1] = slabs[i].mark;
        }
        hth_arena_totals_get(arena, &totals);
        assert_true(totals.used_bytes <= totals.mapped_bytes);
        assert_true(totals.mapped_bytes <= UINT64_C(272) << 20);
    }
    for (int i = 0; i < SLABS; i++)
        if (slabs[i].bytes)
            hth_arena_give(arena, slabs[i].bytes, slabs[i].n);
    hth_arena_totals_get(arena, &totals);
    assert_int_equal(totals.used_bytes, 0);
    assert_true(totals.mapped_bytes <= 100 << 20); /* one spare segment is kept */
    hth_arena_close(arena);
}

/* ---- fragments ---- */

/* Sizes of a model's rows: a block, the logits, a state, tails of any number of tokens, and snapshots. */
static size_t mixed_size(uint64_t *seed)
{
    enum { TOKEN_BYTES = 22 << 10, HEAD_BYTES = 1100 };

    switch (hth_test_random(seed, 12)) {
    case 0:
    case 1: return HEAD_BYTES + 128256 * 4;
    case 2: return HEAD_BYTES + (300 << 10);
    case 3:
    case 4:
    case 5: return HEAD_BYTES + (1 + hth_test_random(seed, 255)) * TOKEN_BYTES;
    case 6: return hth_test_random(seed, 6) ? 4096 : HEAD_BYTES + hth_test_random(seed, 4000) * TOKEN_BYTES;
    default: return HEAD_BYTES + 256 * TOKEN_BYTES;
    }
}

TEST(a_full_tier_evicts_what_a_row_needs_and_no_more)
{
    enum { ROWS = 6000, HELD = 8 };
    static const uint64_t bytes_max = UINT64_C(300) << 20;
    hth_ram_tier *tier = open_tier(bytes_max, false, -1);
    hth_ram_tier_totals before, after;
    hth_ram_row *held[HELD] = { NULL };
    uint64_t seed = hth_test_seed(), full = 0, n_full = 0, largest = 0;

    for (uint64_t n = 0; n < ROWS; n++) {
        size_t place = hth_test_random(&seed, HELD);
        uint64_t slab = hth_arena_slab_bytes(mixed_size(&seed)), evicted, needed;
        hth_row_meta meta = { .id.kind = HTH_ROW_BLOCK };
        hth_ram_row *row;

        memcpy(meta.id.key.bytes, &n, sizeof(n));
        meta.parent.bytes[31] = 1;
        hth_ram_tier_unpin(tier, held[place]);
        held[place] = NULL;
        if (n % 5 == 0) { /* holes where no eviction made them */
            hth_row_id id = { .kind = HTH_ROW_BLOCK };
            uint64_t other = hth_test_random(&seed, n + 1);

            memcpy(id.key.bytes, &other, sizeof(other));
            hth_ram_tier_remove(tier, &id);
        }
        hth_ram_tier_totals_get(tier, &before);
        row = hth_ram_tier_reserve(tier, slab);
        hth_ram_tier_totals_get(tier, &after);
        if (!row) {
            assert_true(before.bytes_pinned + slab > bytes_max);
            continue;
        }
        largest = slab > largest ? slab : largest;
        evicted = before.bytes + slab - after.bytes;
        needed = before.bytes + slab > bytes_max ? before.bytes + slab - bytes_max : 0;
        assert_true(evicted >= needed);
        assert_true(evicted == needed ||
                    evicted - needed < largest); /* the last row evicted may be larger than asked */
        if (needed == 0)
            assert_int_equal(evicted, 0);
        assert_true(after.bytes <= bytes_max);
        assert_true(after.bytes_mapped <= bytes_max + bytes_max / HTH_ARENA_SPARE_PART);
        row = hth_ram_tier_insert(tier, row, &meta);
        if (hth_test_random(&seed, 10) == 0) {
            held[place] = row;
        } else {
            hth_ram_tier_unpin(tier, row);
        }
        if (needed > 0) {
            full += after.bytes;
            n_full++;
        }
    }
    assert_true(n_full > ROWS / 4);
    assert_true(full / n_full >= bytes_max / 100 * 96); /* on average; what is missing was one large row */
    for (int i = 0; i < HELD; i++)
        hth_ram_tier_unpin(tier, held[i]);
    hth_ram_tier_close(tier);
}

/* ---- adopted rows ---- */

enum { CHAINS = 6, CHAIN_ROWS = 5, DAMAGES = 250 };

static test_row chain_row(uint32_t i)
{
    uint32_t chain = i / CHAIN_ROWS, place = i % CHAIN_ROWS;

    return place + 1 < CHAIN_ROWS ? test_row_make(chain, place, 500 + (size_t)chain * place * 3000)
                                  : test_row_make_logits(chain, place - 1, 4000);
}

static void put_chains(hth_ram_tier *tier, const test_row *rows)
{
    for (uint32_t i = 0; i < CHAINS * CHAIN_ROWS; i++) {
        hth_ram_row *row = hth_ram_tier_reserve(tier, rows[i].n_bytes);

        assert_non_null(row);
        memcpy(hth_ram_row_slab(row), rows[i].bytes, rows[i].n_bytes);
        hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &rows[i].meta));
    }
}

typedef struct asker {
    hth_ram_tier *tier;
    const test_row *rows;
    size_t n_found;
} asker;

static void *ask_for_all(void *context)
{
    asker *a = context;

    for (size_t i = 0; i < CHAINS * CHAIN_ROWS; i++) {
        hth_ram_row *row = hth_ram_tier_pin(a->tier, &a->rows[i].meta.id);

        if (!row)
            continue;
        if (hth_ram_row_bytes(row) != a->rows[i].n_bytes ||
            memcmp(hth_ram_row_slab(row), a->rows[i].bytes, a->rows[i].n_bytes) != 0)
            abort();
        a->n_found++;
        hth_ram_tier_unpin(a->tier, row);
    }
    return NULL;
}

TEST(adopted_rows_are_checked_once_however_many_ask_for_them)
{
    int fd = hth_test_memory_file();
    test_row rows[CHAINS * CHAIN_ROWS];
    hth_ram_tier *tier = open_tier(tier_bytes, false, fd);
    hth_ram_tier_totals totals;
    pthread_t threads[THREADS];
    asker askers[THREADS];

    for (uint32_t i = 0; i < CHAINS * CHAIN_ROWS; i++)
        rows[i] = chain_row(i);
    put_chains(tier, rows);
    hth_ram_tier_close(tier);
    assert_int_equal(pwrite(fd, "!", 1, ((off_t)64 << 20) + (off_t)rows[0].n_bytes - 1), 1); /* the first slab */
    tier = open_tier(tier_bytes, true, fd);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){ .tier = tier, .rows = rows };
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_all, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].n_found, CHAINS * CHAIN_ROWS - 1);
    }
    hth_ram_tier_totals_get(tier, &totals);
    assert_int_equal(totals.rows_adopted, CHAINS * CHAIN_ROWS);
    assert_int_equal(totals.rows_adopted_dropped, 1);
    hth_ram_tier_close(tier);
    (void)close(fd);
    for (uint32_t i = 0; i < CHAINS * CHAIN_ROWS; i++)
        test_row_free(&rows[i]);
}

static uint64_t odd_number(uint64_t *seed)
{
    switch (hth_test_random(seed, 5)) {
    case 0: return hth_test_random(seed, 40) * 4096;
    case 1: return (UINT64_C(1) << hth_test_random(seed, 64)) - hth_test_random(seed, 2) * 4096;
    case 2: return hth_test_random(seed, 3) * HTH_ARENA_SEGMENT_BYTES + hth_test_random(seed, 3) * 4096;
    case 3: return UINT64_MAX - hth_test_random(seed, 3) * 4095;
    default: return hth_test_random(seed, 100000);
    }
}

/* An entry whose checksum is right and whose contents are not. The layout is that of ram_directory.c. */
static void forge_entry(int fd, uint64_t *seed)
{
    uint32_t number = (uint32_t)hth_test_random(seed, CHAINS * CHAIN_ROWS + 5);
    uint64_t fields[4] = { 0, odd_number(seed), odd_number(seed), odd_number(seed) };
    uint8_t text[20];

    memcpy(text, &number, 4);
    memcpy(text + 4, &fields[1], 16);
    fields[0] = UINT64_C(0x48524F57) << 32 | hth_crc32c(0, text, sizeof(text));
    assert_int_equal(pwrite(fd, fields, sizeof(fields), 4096 + 32 * (off_t)number), sizeof(fields));
}

static void damage(int fd, uint64_t *seed)
{
    uint8_t byte = (uint8_t)hth_test_random(seed, 256);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    for (uint64_t n = 1 + hth_test_random(seed, 8); n > 0; n--) {
        off_t at;

        switch (hth_test_random(seed, 8)) {
        case 0: at = (off_t)hth_test_random(seed, 40); break; /* the header */
        case 1:
        case 2: at = (off_t)(4096 + hth_test_random(seed, 32 * (CHAINS * CHAIN_ROWS + 2))); break; /* the slots */
        case 3: at = (off_t)(HTH_ARENA_SEGMENT_BYTES + hth_test_random(seed, 80) * 4096); break;   /* heads of files */
        case 4:
            at = (off_t)(HTH_ARENA_SEGMENT_BYTES + hth_test_random(seed, 80) * 4096 + hth_test_random(seed, 400));
            break;
        case 5: at = (off_t)(HTH_ARENA_SEGMENT_BYTES + hth_test_random(seed, 80 * 4096)); break;
        default: forge_entry(fd, seed); continue;
        }
        if (at < st.st_size)
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
}

TEST(whatever_is_in_a_memory_file_only_sound_rows_come_out)
{
    int fd = hth_test_memory_file();
    test_row rows[CHAINS * CHAIN_ROWS];
    uint64_t seed = hth_test_seed(), n_adopted = 0, n_dropped = 0;

    for (uint32_t i = 0; i < CHAINS * CHAIN_ROWS; i++)
        rows[i] = chain_row(i);
    for (int round = 0; round < DAMAGES; round++) {
        hth_ram_tier *tier = open_tier(tier_bytes, false, fd);
        hth_ram_row_state *states = NULL;
        hth_ram_tier_totals totals;
        uint64_t bytes = 0;
        size_t n = 0;

        assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
        for (size_t i = 0; i < n; i++) {
            hth_ram_row *row = hth_ram_tier_pin(tier, &states[i].meta.id);

            if (!row)
                continue;
            assert_true(test_row_verifies(&states[i].meta.id, hth_ram_row_slab(row), hth_ram_row_bytes(row)));
            bytes += states[i].bytes;
            hth_ram_tier_unpin(tier, row);
        }
        free(states);
        hth_ram_tier_totals_get(tier, &totals);
        assert_int_equal(totals.bytes, bytes);
        n_adopted += totals.rows_adopted;
        n_dropped += totals.rows_adopted_dropped;
        put_chains(tier, rows);
        hth_ram_tier_totals_get(tier, &totals);
        assert_int_equal(totals.rows, CHAINS * CHAIN_ROWS);
        hth_ram_tier_close(tier);
        damage(fd, &seed);
        if (round % 2 == 0)
            assert_int_equal(hth_ram_directory_trim(fd, &n, NULL), HEARTH_OK);
    }
    assert_true(n_adopted > DAMAGES); /* the test is about what it says */
    assert_true(n_dropped > DAMAGES / 4);
    (void)close(fd);
    for (uint32_t i = 0; i < CHAINS * CHAIN_ROWS; i++)
        test_row_free(&rows[i]);
}
