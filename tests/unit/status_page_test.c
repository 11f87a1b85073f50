/*
 * status_page_test.c - what a worker wrote is read whole, whenever and however it ended
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/status_page.h"

typedef struct fixture {
    hth_status_page *front;  /* as the front has it */
    hth_status_page *worker; /* the same page, mapped once more */
    int fd;
} fixture;

static void setup(fixture *f)
{
    hearth_error err;

    assert_int_equal(hth_status_page_new(&f->front, &f->fd, &err), HEARTH_OK);
    assert_int_equal(hth_status_page_open(f->fd, &f->worker, &err), HEARTH_OK);
}

static void teardown(fixture *f)
{
    hth_status_page_free(f->front);
    hth_status_page_free(f->worker);
    assert_int_equal(close(f->fd), 0);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static hearth_counters counters_of(uint64_t n)
{
    hearth_counters counters = { .struct_size = sizeof(counters), .requests = n, .rows_removed = n };

    return counters;
}

static hearth_model_info info_of(uint64_t n)
{
    hearth_model_info info = { .struct_size = sizeof(info), .name = "tiny", .n_ticks = n, .rows_are_blocks = true };

    return info;
}

static hth_tier_quotas quotas_of(uint64_t n)
{
    return (hth_tier_quotas){ .ram = n, .ram_file = n, .disk = n };
}

FIXTURE_TEST(a_new_page_says_that_nothing_is_known)
{
    hth_status status;

    hth_status_page_read(f->front, &status);
    assert_int_equal(status.tick_ns, 0);
    assert_true(status.loop_ns == UINT64_MAX);
    assert_false(status.has_numbers);
    assert_int_equal(status.n_restoring, 0);
    assert_int_equal(hth_status_page_suspects(f->worker, NULL, 0), 0);
}

FIXTURE_TEST(the_model_and_its_keyspace_outlive_the_worker)
{
    uint8_t digest[HTH_STATUS_MODEL_BYTES], keyspace[HTH_STATUS_KEYSPACE_BYTES];

    assert_false(hth_status_page_model(f->front, digest, keyspace));
    for (int i = 0; i < 16; i++) {
        digest[i] = (uint8_t)(i + 1);
        keyspace[i] = (uint8_t)(101 + i);
    }
    hth_status_page_model_set(f->worker, digest, keyspace);
    hth_status_page_reset(f->front);
    memset(digest, 0, sizeof(digest));
    memset(keyspace, 0, sizeof(keyspace));
    assert_true(hth_status_page_model(f->front, digest, keyspace));
    for (int i = 0; i < 16; i++) {
        assert_int_equal(digest[i], i + 1);
        assert_int_equal(keyspace[i], 101 + i);
    }
}

FIXTURE_TEST(the_front_reads_what_the_worker_wrote)
{
    hearth_counters counters = counters_of(7);
    hearth_model_info info = info_of(9);
    const hth_tier_quotas quotas = quotas_of(9);
    uint8_t keys[2][32] = { { 1, 2 }, { 3, 4 } };
    hth_status status;

    hth_status_page_tick_begin(f->worker);
    hth_status_page_loop_turns(f->worker);
    hth_status_page_numbers_set(f->worker, &counters, &info, &quotas);
    hth_status_page_restoring(f->worker, (const uint8_t(*)[32])keys, 2);
    (void)usleep(1000); /* so that time has passed */
    hth_status_page_read(f->front, &status);
    assert_true(status.tick_ns > 0);
    assert_true(status.loop_ns > 0 && status.loop_ns < UINT64_MAX);
    assert_true(status.has_numbers);
    assert_int_equal(status.counters.requests, 7);
    assert_int_equal(status.counters.rows_removed, 7);
    assert_string_equal(status.info.name, "tiny");
    assert_int_equal(status.info.n_ticks, 9);
    assert_int_equal(status.quotas.disk, 9);
    assert_true(status.info.rows_are_blocks);
    assert_int_equal(status.n_restoring, 2);
    assert_memory_equal(status.restoring, keys, sizeof(keys));

    hth_status_page_tick_end(f->worker);
    hth_status_page_restoring(f->worker, NULL, 0);
    hth_status_page_read(f->front, &status);
    assert_int_equal(status.tick_ns, 0);
    assert_int_equal(status.n_restoring, 0);
}

FIXTURE_TEST(more_keys_than_fit_are_cut)
{
    uint8_t keys[HTH_STATUS_KEYS_MAX + 5][32] = { { 0 } };
    hth_status status;

    for (size_t i = 0; i < HTH_STATUS_KEYS_MAX + 5; i++)
        keys[i][0] = (uint8_t)i;
    hth_status_page_restoring(f->worker, (const uint8_t(*)[32])keys, HTH_STATUS_KEYS_MAX + 5);
    hth_status_page_read(f->front, &status);
    assert_int_equal(status.n_restoring, HTH_STATUS_KEYS_MAX);
    assert_memory_equal(status.restoring, keys, sizeof(status.restoring));
}

FIXTURE_TEST(a_reset_forgets_all_but_the_suspects)
{
    hearth_counters counters = counters_of(7);
    hearth_model_info info = info_of(9);
    const hth_tier_quotas quotas = quotas_of(9);
    uint8_t keys[1][32] = { { 1, 2 } };
    uint8_t suspects[4][32];
    hth_status status;

    hth_status_page_tick_begin(f->worker);
    hth_status_page_loop_turns(f->worker);
    hth_status_page_numbers_set(f->worker, &counters, &info, &quotas);
    hth_status_page_restoring(f->worker, (const uint8_t(*)[32])keys, 1);
    hth_status_page_suspects_add(f->front, (const uint8_t(*)[32])keys, 1);
    hth_status_page_reset(f->front);
    hth_status_page_read(f->front, &status);
    assert_int_equal(status.tick_ns, 0);
    assert_true(status.loop_ns == UINT64_MAX);
    assert_false(status.has_numbers);
    assert_int_equal(status.n_restoring, 0);
    assert_int_equal(hth_status_page_suspects(f->worker, suspects, 4), 1);
    assert_memory_equal(suspects, keys, sizeof(keys));
    hth_status_page_suspects_clear(f->worker);
    assert_int_equal(hth_status_page_suspects(f->worker, suspects, 4), 0);
}

FIXTURE_TEST(suspects_are_kept_once_and_the_oldest_make_room)
{
    uint8_t found[HTH_STATUS_SUSPECTS_MAX + 1][32];
    uint8_t key[1][32] = { { 0 } };

    for (unsigned i = 0; i < HTH_STATUS_SUSPECTS_MAX + 3; i++) {
        key[0][0] = (uint8_t)i;
        key[0][1] = (uint8_t)(i >> 8);
        hth_status_page_suspects_add(f->front, (const uint8_t(*)[32])key, 1);
        hth_status_page_suspects_add(f->front, (const uint8_t(*)[32])key, 1);
    }
    assert_int_equal(hth_status_page_suspects(f->worker, found, HTH_STATUS_SUSPECTS_MAX + 1), HTH_STATUS_SUSPECTS_MAX);
    assert_int_equal(found[0][0], 3);
    assert_int_equal(found[HTH_STATUS_SUSPECTS_MAX - 1][0], (HTH_STATUS_SUSPECTS_MAX + 2) & 255);
    assert_int_equal(hth_status_page_suspects(f->worker, found, 2), 2);
}

FIXTURE_TEST(the_page_is_read_after_its_writer_was_killed)
{
    hearth_counters counters = counters_of(3);
    hearth_model_info info = info_of(3);
    const hth_tier_quotas quotas = quotas_of(3);
    uint8_t keys[1][32] = { { 42 } };
    hth_status status;
    int wait_status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        hth_status_page_numbers_set(f->worker, &counters, &info, &quotas);
        hth_status_page_restoring(f->worker, (const uint8_t(*)[32])keys, 1);
        (void)raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFSIGNALED(wait_status));
    hth_status_page_read(f->front, &status);
    assert_int_equal(status.counters.requests, 3);
    assert_int_equal(status.n_restoring, 1);
    assert_int_equal(status.restoring[0][0], 42);
}

/* Everything in numbers_set has the same value, so that a mixture shows. */
typedef struct writer {
    hth_status_page *page;
    _Atomic bool stop;
} writer;

static void *write_on(void *user_data)
{
    writer *w = user_data;

    for (uint64_t n = 1; !atomic_load(&w->stop); n++) {
        hearth_counters counters = counters_of(n);
        hearth_model_info info = info_of(n);
        const hth_tier_quotas quotas = quotas_of(n);
        uint8_t keys[HTH_STATUS_KEYS_MAX][32];

        memset(keys, (int)(n & 127), sizeof(keys));
        hth_status_page_numbers_set(w->page, &counters, &info, &quotas);
        hth_status_page_restoring(w->page, (const uint8_t(*)[32])keys, n % (HTH_STATUS_KEYS_MAX + 1));
    }
    return NULL;
}

FIXTURE_TEST(numbers_are_never_a_mixture_while_they_are_written)
{
    writer w = { .page = f->worker };
    pthread_t thread;
    hth_status status;
    unsigned n_read = 0;

    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    for (unsigned i = 0; i < 20000 || n_read == 0; i++) {
        hth_status_page_read(f->front, &status);
        if (status.has_numbers) {
            n_read++;
            assert_int_equal(status.counters.requests, status.counters.rows_removed);
            assert_int_equal(status.counters.requests, status.info.n_ticks);
        }
        for (size_t k = 0; k < status.n_restoring; k++) {
            assert_int_equal(status.restoring[k][0], status.restoring[0][0]);
            assert_int_equal(status.restoring[k][31], status.restoring[0][0]);
        }
    }
    atomic_store(&w.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

FIXTURE_TEST(whatever_the_page_holds_what_is_read_is_sane)
{
    uint64_t seed = hth_test_seed();
    uint8_t suspects[HTH_STATUS_SUSPECTS_MAX][32];
    struct stat st;
    uint8_t *bytes;

    assert_int_equal(fstat(f->fd, &st), 0);
    bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    for (unsigned round = 0; round < 200; round++) {
        hth_status status;

        for (size_t i = 0; i < (size_t)st.st_size; i++)
            bytes[i] = round == 0 ? 0xff : (uint8_t)hth_test_random(&seed, 256);
        hth_status_page_read(f->front, &status);
        assert_true(status.n_restoring <= HTH_STATUS_KEYS_MAX);
        if (status.has_numbers) {
            assert_non_null(memchr(status.info.name, '\0', sizeof(status.info.name)));
            assert_non_null(memchr(status.info.strategy, '\0', sizeof(status.info.strategy)));
            assert_true(status.info.activity <= HEARTH_UNLOADED);
            assert_true(status.info.rows_are_blocks || !status.info.rows_are_blocks);
        }
        assert_true(hth_status_page_suspects(f->front, suspects, HTH_STATUS_SUSPECTS_MAX) <= HTH_STATUS_SUSPECTS_MAX);
    }
    assert_int_equal(munmap(bytes, (size_t)st.st_size), 0);
}

FIXTURE_TEST(the_size_of_the_page_cannot_be_changed)
{
#ifdef F_GET_SEALS
    if (fcntl(f->fd, F_GET_SEALS) < 0)
        skip(); /* no file in memory */
    assert_int_not_equal(ftruncate(f->fd, 0), 0);
    assert_int_equal(errno, EPERM);
#else
    (void)f;
    skip();
#endif
}

TEST(a_descriptor_of_something_else_is_refused)
{
    char path[] = "/tmp/hearth-not-a-page.XXXXXX";
    int fd = mkstemp(path);
    hth_status_page *page = NULL;
    hearth_error err;

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(hth_status_page_open(fd, &page, &err), HEARTH_CORRUPT);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(hth_status_page_open(fd, &page, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "no status page of this version"));
    assert_null(page);
    assert_int_equal(close(fd), 0);
    assert_int_not_equal(hth_status_page_open(-1, &page, &err), HEARTH_OK);
    hth_status_page_free(NULL);
}
