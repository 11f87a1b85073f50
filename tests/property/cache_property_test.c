/*
 * cache_property_test.c - random operations on shared tiers by several threads of several processes
 *
 * The model of the cache is a forest of rows (support/forest.h): what a row must hold follows from its id, so whoever
 * borrows one checks all of it, whichever process saved it. What may be missing is not said here, since others evict;
 * what is lent must be right, and when all have left, the files, the index and its totals must agree.
 *
 * HTH_SEED replays the draws of a run; the order of threads and processes stays the system's. HTH_ROUNDS: how many
 * rounds, 20 by default.
 */
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/read_ahead.h"
#include "support/forest.h"
#include "support/support.h"
#include "support/tier_check.h"

enum { PROCESSES = 3, THREADS = 3, LIVES = 2, OPERATIONS = 150, HELD_MAX = 4, WRITERS_MAX = 3, FLUSH_MS = 600000 };
enum { RAM_BYTES_SMALL = 400 << 10, RAM_BYTES = 8 << 20, FILE_BYTES_SMALL = 100 << 10, FILE_BYTES = 16 << 20 };

/* What the processes of a test share. */
typedef struct shared {
    _Atomic uint64_t n_damaged;
    _Atomic uint64_t n_saved;
    _Atomic uint64_t n_borrowed[HEARTH_TIER_DISK + 1]; /* by tier */
} shared;

#include "support/cache_processes.h" /* needs shared */

/* How the processes of a round open their caches. */
typedef struct plan {
    hth_cache_options options;
    bool may_damage;
    bool kills_one; /* and lets another one adopt its memory */
} plan;

typedef struct worker {
    const fixture *f;
    const plan *plan;
    hth_cache *cache;
    uint64_t random;
    hth_borrowed_row held[HELD_MAX];
    const test_forest_row *held_rows[HELD_MAX];
} worker;

static uint64_t draw(worker *w, uint64_t bound)
{
    return hth_test_random(&w->random, bound);
}

static const test_forest_row *draw_row(worker *w)
{
    return &w->f->forest.rows[draw(w, w->f->forest.n_rows)];
}

/* ---- operations ---- */

static void check_lent(const worker *w, const test_forest_row *row, const hth_borrowed_row *borrowed)
{
    const char *difference = test_forest_difference(row, borrowed);

    MUST(!difference, "a %s row from tier %d is not what was saved: %s", hth_row_kind_name(row->meta.id.kind),
         (int)borrowed->tier, difference);
    atomic_fetch_add(&w->f->shared->n_borrowed[borrowed->tier], 1);
}

static void check_not_lent(const worker *w, hearth_status status, const hearth_error *err)
{
    if (status == HEARTH_CORRUPT)
        MUST(w->plan->may_damage, "a row is damaged that nobody damaged: %s", err->message);
    else if (status == HEARTH_NO_MEMORY)
        MUST(w->plan->options.ram_bytes_max == RAM_BYTES_SMALL, "there is memory: %s", err->message);
    else
        MUST(status == HEARTH_NOT_FOUND, "a borrow ended with status %d: %s", (int)status, err->message);
}

static void give_back(worker *w, size_t i)
{
    if (!w->held_rows[i])
        return;
    check_lent(w, w->held_rows[i], &w->held[i]); /* nobody wrote to it while it was pinned */
    hth_cache_return(w->cache, &w->held[i]);
    w->held_rows[i] = NULL;
}

static void borrow(worker *w)
{
    const test_forest_row *row = draw_row(w);
    size_t i = draw(w, HELD_MAX);
    hearth_error err = { .message = "" };
    hearth_status status;

    give_back(w, i);
    status = hth_cache_borrow(w->cache, row->keyspace, &row->meta, &w->held[i], &err);
    if (status != HEARTH_OK) {
        check_not_lent(w, status, &err);
        return;
    }
    w->held_rows[i] = row;
    check_lent(w, row, &w->held[i]);
    if (draw(w, 3))
        give_back(w, i);
}

static void borrow_under_another_keyspace(worker *w)
{
    const test_forest_row *row = draw_row(w);
    hth_keyspace other = *row->keyspace;
    hth_borrowed_row borrowed;
    hearth_status status;

    if (draw(w, 2))
        other.fingerprint[31] ^= 1;
    else
        other.ctx_params_hash[0] ^= 1;
    status = hth_cache_borrow(w->cache, &other, &row->meta, &borrowed, NULL);
    MUST(status != HEARTH_OK, "a row was lent to another keyspace");
}

static void save(worker *w)
{
    const test_forest_row *row = draw_row(w);
    hearth_save_reason reason = draw(w, 2) ? HEARTH_SAVE_COLD : HEARTH_SAVE_FINISH;

    if (draw(w, 4) && hth_cache_is_saved(w->cache, &row->meta.id))
        return;
    if (test_forest_save(&w->f->forest, row, reason, w->cache))
        atomic_fetch_add(&w->f->shared->n_saved, 1);
}

static void begin_a_save_and_abort_it(worker *w)
{
    hth_save wanted = test_forest_save_of(&w->f->forest, draw_row(w), HEARTH_SAVE_COLD);
    hth_slab *slab = hth_cache_save_begin(w->cache, &wanted);

    if (slab)
        memset(hth_slab_image(slab), 0xEE, wanted.image_bytes);
    hth_cache_save_abort(w->cache, slab);
}

static void restore(worker *w, const hth_keyspace *keyspace, const hth_lookup *lookup)
{
    hth_read_ahead *ahead = hth_read_ahead_begin(w->cache, keyspace, lookup->rows, lookup->n_rows);
    size_t n_wanted = draw(w, 3) ? lookup->n_rows : draw(w, lookup->n_rows + 1);

    MUST(ahead, "no memory");
    for (size_t i = 0; i < n_wanted; i++) {
        const test_forest_row *row = test_forest_find(&w->f->forest, &lookup->rows[i].meta.id);
        hearth_error err = { .message = "" };
        hth_borrowed_row borrowed;
        hearth_status status = hth_read_ahead_next(ahead, &borrowed, &err);

        if (status != HEARTH_OK) {
            check_not_lent(w, status, &err);
            if (status == HEARTH_NOT_FOUND)
                hth_cache_note_gone(w->cache, &row->meta.id);
            break;
        }
        check_lent(w, row, &borrowed);
        hth_cache_return(w->cache, &borrowed);
    }
    hth_read_ahead_end(ahead);
}

/* Look a prompt up, see that what is found is its prefix, and restore it. */
static void look_up(worker *w)
{
    const test_forest *forest = &w->f->forest;
    const hth_keyspace *keyspace = &forest->keyspaces[draw(w, TEST_FOREST_KEYSPACES)];
    const hearth_token *prompt = forest->prompts[draw(w, TEST_FOREST_PROMPTS)];
    hth_key_stream *stream = hth_key_stream_new(keyspace);
    size_t n_tokens = draw(w, 2) ? TEST_FOREST_TOKENS : 1 + draw(w, TEST_FOREST_TOKENS);
    uint32_t n_covered = 0;
    hth_lookup lookup;

    MUST(stream, "no memory");
    MUST(hth_lookup_init(&lookup, w->cache, keyspace, stream,
                         &(hth_lookup_options){ .way = HTH_LOOKUP_CELLS, .n_limit = n_tokens }, prompt, n_tokens,
                         NULL) == HEARTH_OK,
         "no memory");
    for (size_t i = 0; i < lookup.n_rows; i++) {
        const hth_lookup_row *found = &lookup.rows[i];
        const test_forest_row *row = test_forest_find(forest, &found->meta.id);

        MUST(row && row->keyspace == keyspace, "a row of another keyspace, or of nobody, was found");
        MUST(found->meta.first_position == n_covered && row->meta.first_position == n_covered,
             "row %zu of a prefix begins at %u instead of %u", i, found->meta.first_position, n_covered);
        MUST(found->n_use <= row->meta.n_tokens && n_covered + found->n_use <= n_tokens, "more is used than there is");
        MUST(memcmp(row->tokens, prompt + n_covered, found->n_use * sizeof(*prompt)) == 0, "a row of other tokens");
        n_covered += found->n_use;
    }
    MUST(lookup.n_cached == n_covered, "%u tokens are said to be cached, %u are", lookup.n_cached, n_covered);
    restore(w, keyspace, &lookup);
    hth_lookup_deinit(&lookup);
    hth_key_stream_free(stream);
}

static void touch(worker *w)
{
    hth_row_id ids[5];

    for (size_t i = 0; i < 5; i++)
        ids[i] = draw_row(w)->meta.id;
    hth_cache_touch(w->cache, ids, 1 + draw(w, 5));
}

static void evict(worker *w)
{
    uint64_t freed = 0;
    hearth_error err = { .message = "" };
    unsigned tiers = (unsigned)draw(w, HEARTH_EVICT_RAM | HEARTH_EVICT_RAM_FILE | HEARTH_EVICT_DISK);

    MUST(hth_cache_evict(w->cache, draw(w, 4) ? draw(w, 60000) : UINT64_MAX, tiers + 1, &freed, &err) == HEARTH_OK,
         "%s", err.message);
}

static void change_write_limits(worker *w)
{
    hth_writer_limits limits;

    hth_cache_write_limits_get(w->cache, &limits);
    limits.queue_rows_max = draw(w, 3) ? 1000 : draw(w, 4);
    limits.queue_bytes_max = draw(w, 3) ? 4 << 20 : draw(w, 30000);
    limits.bytes_per_s = draw(w, 3) ? 0 : 1 << 20;
    hth_cache_write_limits_set(w->cache, &limits);
}

static void list_children(worker *w)
{
    const test_forest_row *parent = draw_row(w);
    hth_row_meta children[32];
    size_t n = hth_cache_children(w->cache, &parent->meta.id.key, children, 1 + draw(w, 32));

    for (size_t i = 0; i < n; i++) {
        const test_forest_row *row = test_forest_find(&w->f->forest, &children[i].id);

        MUST(row && hth_key_equal(&row->meta.parent, &parent->meta.id.key), "a child of somebody else");
        for (size_t j = 0; j < i; j++)
            MUST(!hth_row_id_equal(&children[i].id, &children[j].id), "a child is listed twice");
    }
}

static bool is_of_the_forest(const hth_cache_row *row, void *user_data)
{
    const worker *w = user_data;

    MUST(test_forest_find(&w->f->forest, &row->meta.id), "a row that nobody saved is listed");
    return true;
}

static void list_rows(worker *w)
{
    MUST(hth_cache_rows(w->cache, is_of_the_forest, w, NULL) == HEARTH_OK, "rows cannot be listed");
}

static void peek(worker *w)
{
    const test_forest_row *row = draw_row(w);
    hearth_token tokens[HTH_BLOCK_TOKENS];
    size_t n = hth_cache_tokens(w->cache, &row->meta.id, tokens, HTH_BLOCK_TOKENS);

    MUST(n == 0 || (n == row->meta.n_tokens && memcmp(tokens, row->tokens, n * sizeof(*tokens)) == 0),
         "other tokens than were saved");
}

/* ---- damage behind the cache's back ---- */

static void flip_byte(const char *path, uint64_t at)
{
    int fd = open(path, O_RDWR);
    uint8_t byte;
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        off_t offset = (off_t)(at % (uint64_t)st.st_size);

        if (pread(fd, &byte, 1, offset) == 1) {
            byte ^= 0x10;
            MUST(pwrite(fd, &byte, 1, offset) == 1, "cannot damage '%s'", path);
        }
    }
    (void)close(fd);
}

static void put_another_row_there(worker *w, const char *directory, const char *path)
{
    char other[8192], copy[8192];
    uint8_t bytes[TEST_FOREST_ROW_BYTES_MAX];
    FILE *file;
    size_t n;

    test_forest_path(directory, &draw_row(w)->meta.id, other, sizeof(other));
    file = fopen(other, "r");
    if (!file)
        return;
    n = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    (void)snprintf(copy, sizeof(copy), "%s/copy-%d-%p", w->f->directory, (int)getpid(), (void *)w);
    file = fopen(copy, "w");
    MUST(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, "cannot write '%s'", copy);
    if (rename(copy, path) != 0) /* no row of that first byte was kept so far */
        (void)unlink(copy);
}

static void damage(worker *w)
{
    const char *directory = draw(w, 2) ? w->f->ram_files : w->f->disk;
    char path[8192];

    test_forest_path(directory, &draw_row(w)->meta.id, path, sizeof(path));
    atomic_fetch_add(&w->f->shared->n_damaged, 1);
    switch (draw(w, 5)) {
    case 0: flip_byte(path, draw(w, 1 << 20)); break;
    case 1: (void)truncate(path, (off_t)draw(w, 3000)); break; /* where there is no such file, nothing is damaged */
    case 2: (void)truncate(path, (off_t)(TEST_FOREST_ROW_BYTES_MAX + draw(w, 100))); break;
    case 3: (void)unlink(path); break;
    default: put_another_row_there(w, directory, path); break;
    }
}

/* ---- processes ---- */

static void operate(worker *w)
{
    uint64_t which = draw(w, 100);

    if (which < 35)
        save(w);
    else if (which < 60)
        borrow(w);
    else if (which < 75)
        look_up(w);
    else if (which < 80)
        touch(w);
    else if (which < 82)
        evict(w);
    else if (which < 84)
        change_write_limits(w);
    else if (which < 86)
        (void)hth_cache_flush(w->cache, (uint32_t)draw(w, 20)); /* what is not written by then stays in the queue */
    else if (which < 88)
        list_children(w);
    else if (which < 89)
        list_rows(w);
    else if (which < 91)
        peek(w);
    else if (which < 93)
        begin_a_save_and_abort_it(w);
    else if (which < 94)
        hth_cache_reject(w->cache, &draw_row(w)->meta.id, "the test says so");
    else if (which < 95)
        borrow_under_another_keyspace(w);
    else if (w->plan->may_damage)
        damage(w);
}

static void *work(void *context)
{
    worker *w = context;

    for (unsigned i = 0; i < OPERATIONS; i++)
        operate(w);
    for (size_t i = 0; i < HELD_MAX; i++)
        give_back(w, i);
    return NULL;
}

static bool is_not_pinned(const hth_cache_row *row, void *user_data)
{
    (void)user_data;
    MUST(row->n_pins == 0, "%u pins were not returned", row->n_pins);
    return true;
}

/* What an earlier process left in memory. */
static void check_adopted(worker *w)
{
    for (size_t i = 0; i < w->f->forest.n_rows; i++) {
        const test_forest_row *row = &w->f->forest.rows[i];
        hearth_error err = { .message = "" };
        hth_borrowed_row borrowed;

        if (hth_cache_find(w->cache, &row->meta.id, NULL) != HEARTH_TIER_RAM)
            continue;
        /* It may have been evicted for one that was borrowed just now, and its file by another process. */
        if (hth_cache_borrow(w->cache, row->keyspace, &row->meta, &borrowed, &err) != HEARTH_OK)
            continue;
        check_lent(w, row, &borrowed);
        hth_cache_return(w->cache, &borrowed);
    }
}

static void live(const fixture *f, const plan *p, uint64_t *random)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    hearth_error err = { .message = "" };
    hth_cache *cache = NULL;

    MUST(hth_cache_open(&p->options, &cache, &err) == HEARTH_OK, "%s", err.message);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){ .f = f, .plan = p, .cache = cache };
        workers[i].random = hth_test_random(random, UINT64_MAX);
    }
    check_adopted(&workers[0]);
    for (size_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "no thread");
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    if (hth_test_random(random, 2)) {
        MUST(hth_cache_flush(cache, FLUSH_MS), "the writers are stuck");
        MUST(hth_cache_rows(cache, is_not_pinned, NULL, NULL) == HEARTH_OK, "rows cannot be listed");
        hth_cache_close(cache, FLUSH_MS);
    } else {
        hth_cache_close(cache, (uint32_t)hth_test_random(random, 10));
    }
}

static pid_t start(const fixture *f, const plan *p, uint64_t random)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        for (unsigned i = 0; i < LIVES; i++)
            live(f, p, &random);
        _exit(0);
    }
    return child;
}

static void await(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a process ended with status 0x%x", status);
}

/* ---- rounds ---- */

static plan draw_plan(fixture *f, int memory_fd)
{
    plan p = {
        .may_damage = hth_test_random(&f->random, 2) == 0,
        .kills_one = hth_test_random(&f->random, 2) == 0,
        .options = {
            .ram_memory_fd = memory_fd,
            .ram_bytes_max = hth_test_random(&f->random, 2) ? RAM_BYTES : RAM_BYTES_SMALL,
            .ram_file_directory = hth_test_random(&f->random, 4) ? f->ram_files : NULL,
            .ram_file_bytes_max = hth_test_random(&f->random, 2) ? FILE_BYTES : FILE_BYTES_SMALL,
            .directory = f->disk,
            .disk_bytes_max = hth_test_random(&f->random, 2) ? FILE_BYTES : FILE_BYTES_SMALL,
            .n_writer_threads = 1 + (unsigned)hth_test_random(&f->random, WRITERS_MAX),
            .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 4 << 20 },
            .save_on_second_use = hth_test_random(&f->random, 4) == 0,
        },
    };

    return p;
}

/* Kill a process somewhere in its work, and let another one go on with its memory. */
static void kill_and_follow(fixture *f, const plan *p, pid_t *child)
{
    struct timespec time = { .tv_nsec = (long)hth_test_random(&f->random, UINT64_C(150) * 1000000) };
    int status;

    (void)nanosleep(&time, NULL);
    assert_int_equal(kill(*child, SIGKILL), 0);
    assert_int_equal(waitpid(*child, &status, 0), *child);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        fail_msg("a process ended with signal %d", WTERMSIG(status));
    *child = start(f, p, hth_test_random(&f->random, UINT64_MAX));
}

static void check_at_rest(const fixture *f, const plan *p, const char *directory, uint64_t bytes_max)
{
    /* Each writer may have seen room for its row at the same moment. */
    uint64_t slack = (uint64_t)PROCESSES * p->options.n_writer_threads * TEST_FOREST_ROW_BYTES_MAX;
    test_tier_census census;

    test_tier_check(&f->forest, directory, &census);
    assert_true(census.bytes <= bytes_max + slack);
    if (!p->may_damage) {
        assert_int_equal(census.verified.quarantined, 0);
        assert_int_equal(census.verified.gone, 0);
    }
    assert_true(census.verified.quarantined + census.verified.gone <= atomic_load(&f->shared->n_damaged));
}

static void a_round(fixture *f)
{
    pid_t children[PROCESSES];
    plan plans[PROCESSES];
    int memory_fd = hth_os_memory_file_new("hearth-test"); /* -1 where there is none: then memory is private */

    plans[0] = draw_plan(f, memory_fd);
    for (size_t i = 1; i < PROCESSES; i++) {
        plans[i] = plans[0];
        plans[i].options.ram_memory_fd = -1;
    }
    atomic_store(&f->shared->n_damaged, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        children[i] = start(f, &plans[i], hth_test_random(&f->random, UINT64_MAX));
    if (plans[0].kills_one)
        kill_and_follow(f, &plans[0], &children[0]);
    for (size_t i = 0; i < PROCESSES; i++)
        await(children[i]);
    if (memory_fd >= 0)
        (void)close(memory_fd);
    check_at_rest(f, &plans[0], f->ram_files, FILE_BYTES);
    check_at_rest(f, &plans[0], f->disk, plans[0].options.disk_bytes_max);
}

FIXTURE_TEST(threads_and_processes_are_lent_exactly_what_was_saved)
{
    uint64_t n_rounds = hth_test_number("HTH_ROUNDS", 20);

    for (uint64_t i = 0; i < n_rounds; i++)
        a_round(f);
    printf("%llu rows saved; borrowed from ram %llu, ram_file %llu, disk %llu\n",
           (unsigned long long)atomic_load(&f->shared->n_saved),
           (unsigned long long)atomic_load(&f->shared->n_borrowed[HEARTH_TIER_RAM]),
           (unsigned long long)atomic_load(&f->shared->n_borrowed[HEARTH_TIER_RAM_FILE]),
           (unsigned long long)atomic_load(&f->shared->n_borrowed[HEARTH_TIER_DISK]));
}
