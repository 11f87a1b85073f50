/*
 * ram_tier_test.c - processes are killed while they use a RAM tier in a memory file, and the next one finds it sound
 *
 * A child inserts, uses, removes and evicts rows in the file that this process holds, until it is killed (SIGKILL) at a
 * moment drawn from a seed, be it in the opening, in the middle of a store or between two of them. Then this process
 * opens the tier, reads every row, and checks that exactly those rows are there that must be: what was inserted for
 * certain, nothing that was removed for certain, and of the one operation under way either.
 *
 * HTH_KILLS: how many children are killed, 300 by default. HTH_SEED replays the choices, not the moments.
 */
#include "support/cmocka_all.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/ram_directory.h"
#include "cache/ram_tier.h"
#include "support/made_row.h"
#include "support/support.h"

enum { CHAINS = 10, CHAIN_ROWS = 6, ROWS = CHAINS * CHAIN_ROWS, WARM_EVERY = 16, DELAY_US_MAX = 4000 };

static const uint64_t large_bytes = UINT64_C(64) << 20; /* nothing is evicted */
static const uint64_t small_bytes = UINT64_C(1) << 20;

typedef enum presence {
    ABSENT = 0,
    UNKNOWN,
    PRESENT,
} presence;

/* Written by the child, in memory that both see. */
typedef struct report {
    _Atomic uint32_t n_done;
    _Atomic int rows[ROWS];
} report;

typedef struct fixture {
    int fd;
    test_row rows[ROWS];
    report *report;
    uint64_t random;
} fixture;

/* ---- the child ---- */

static void put_row(hth_ram_tier *tier, const test_row *made)
{
    hth_ram_row *row = hth_ram_tier_reserve(tier, made->n_bytes);

    if (!row)
        _exit(1);
    memcpy(hth_ram_row_slab(row), made->bytes, made->n_bytes);
    hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &made->meta));
}

static void be_killed(const fixture *f, const hth_ram_tier_options *options, bool may_evict)
{
    uint64_t random = f->random;
    hth_ram_tier *tier = NULL;

    if (hth_ram_tier_open(options, &tier, NULL) != HEARTH_OK)
        _exit(1);
    for (;;) {
        uint32_t i = (uint32_t)hth_test_random(&random, ROWS);
        _Atomic int *known = &f->report->rows[i];

        switch (hth_test_random(&random, may_evict ? 8 : 5)) {
        case 0:
        case 1:
        case 2:
            if (atomic_load(known) != PRESENT)
                atomic_store(known, UNKNOWN);
            put_row(tier, &f->rows[i]);
            atomic_store(known, PRESENT);
            break;
        case 3:
            if (atomic_load(known) != ABSENT)
                atomic_store(known, UNKNOWN);
            hth_ram_tier_remove(tier, &f->rows[i].meta.id);
            atomic_store(known, ABSENT);
            break;
        case 5: (void)hth_ram_tier_evict_bytes(tier, hth_test_random(&random, 100000)); break;
        case 6: hth_ram_tier_set_bytes_max(tier, small_bytes / (1 + hth_test_random(&random, 3))); break;
        default: hth_ram_tier_unpin(tier, hth_ram_tier_pin(tier, &f->rows[i].meta.id)); break;
        }
        atomic_fetch_add(&f->report->n_done, 1);
    }
}

/* ---- what must hold ---- */

static void check(fixture *f, const hth_ram_tier_options *options, bool may_evict)
{
    hth_ram_tier *tier = NULL;
    hth_ram_row_state *states = NULL;
    hth_ram_tier_totals totals;
    uint64_t bytes = 0;
    size_t n = 0;

    assert_int_equal(hth_ram_tier_open(options, &tier, NULL), HEARTH_OK);
    assert_int_equal(hth_ram_tier_dump(tier, &states, &n, NULL), HEARTH_OK);
    for (size_t i = 0; i < n; i++)
        bytes += states[i].bytes;
    free(states);
    hth_ram_tier_totals_get(tier, &totals);
    assert_int_equal(totals.rows, n);
    assert_int_equal(totals.bytes, bytes);
    assert_int_equal(totals.bytes_pinned, 0);
    assert_true(totals.bytes <= options->bytes_max);
    assert_int_equal(totals.rows_adopted, n);
    assert_int_equal(totals.rows_evicted, 0);
    for (size_t i = 0; i < ROWS; i++) {
        hth_ram_row *row = hth_ram_tier_pin(tier, &f->rows[i].meta.id);
        int known = atomic_load(&f->report->rows[i]);

        if (row) {
            n--;
            assert_int_equal(hth_ram_row_bytes(row), f->rows[i].n_bytes);
            assert_memory_equal(hth_ram_row_slab(row), f->rows[i].bytes, f->rows[i].n_bytes);
            assert_int_not_equal(known, ABSENT);
            hth_ram_tier_unpin(tier, row);
        } else if (!may_evict) {
            assert_int_not_equal(known, PRESENT);
        }
        atomic_store(&f->report->rows[i], row ? PRESENT : ABSENT);
    }
    assert_int_equal(n, 0); /* no row but ours */
    hth_ram_tier_totals_get(tier, &totals);
    assert_int_equal(totals.rows_adopted_dropped, 0); /* a kill leaves a whole row or none */
    hth_ram_tier_close(tier);
}

static void sleep_us(uint64_t us)
{
    struct timespec time = { .tv_nsec = (long)us * 1000 };

    (void)nanosleep(&time, NULL); /* any other moment is as good */
}

static void one_kill(fixture *f, hth_ram_tier_options *options, bool may_evict, bool in_the_opening)
{
    pid_t child;
    size_t n_rows;
    int status = 0;

    atomic_store(&f->report->n_done, 0);
    f->random = hth_test_random(&f->random, UINT64_MAX);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_killed(f, options, may_evict);
    while (!in_the_opening && atomic_load(&f->report->n_done) == 0 && waitpid(child, &status, WNOHANG) == 0)
        sleep_us(20);
    sleep_us(hth_test_random(&f->random, DELAY_US_MAX));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    options->warm = false;
    if (hth_test_random(&f->random, 2) == 0) /* the parent may give back what no row uses */
        assert_int_equal(hth_ram_directory_trim(f->fd, &n_rows, NULL), HEARTH_OK);
    check(f, options, may_evict);
}

TEST(a_kill_at_any_moment_leaves_whole_rows_and_right_totals)
{
    uint64_t kills = hth_test_number("HTH_KILLS", 300);
    fixture f = { .random = hth_test_seed() };

    f.fd = hth_os_memory_file_new("hearth-test");
    if (f.fd < 0)
        skip(); /* the system has none */
    f.report = mmap(NULL, sizeof(*f.report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f.report, MAP_FAILED);
    for (uint32_t i = 0; i < ROWS; i++)
        f.rows[i] = i % CHAIN_ROWS == CHAIN_ROWS - 1
                      ? test_row_make_logits(i / CHAIN_ROWS, i % CHAIN_ROWS - 1, 4000)
                      : test_row_make(i / CHAIN_ROWS, i % CHAIN_ROWS, 100 + (size_t)i * i * 20);
    for (uint64_t i = 0; i < kills; i++) {
        bool may_evict = i / 8 % 2 == 1;
        hth_ram_tier_options options = {
            .bytes_max = may_evict ? small_bytes : large_bytes,
            .warm = i % WARM_EVERY == 0,
            .memory_fd = f.fd,
        };

        if (may_evict && i % 8 == 0) { /* from here on rows may be missing, and the quota is lower than what is there */
            hth_ram_tier *tier = NULL;

            assert_int_equal(hth_ram_tier_open(&options, &tier, NULL), HEARTH_OK);
            hth_ram_tier_close(tier);
        }
        one_kill(&f, &options, may_evict, i % 3 == 0);
    }
    for (uint32_t i = 0; i < ROWS; i++)
        test_row_free(&f.rows[i]);
    (void)munmap(f.report, sizeof(*f.report));
    (void)close(f.fd);
}
