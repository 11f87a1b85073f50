/*
 * tier_sharing_test.c - several processes at one file tier: one that is stopped hinders no other, and no two undo what
 * the other did
 *
 * A child stops or acts at a labelled step of the parent or its own, so that what is rare otherwise happens every time.
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/file_tier.h"
#include "support/made_row.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { IMAGE_BYTES = 2000 };

typedef struct fixture {
    char *directory;
    test_step_fs step; /* of this process */
    hth_fs fs;         /* the same with a hook at labelled steps */
    hth_file_tier *tier;

    /* Called once, at the first step of that label. */
    const char *hook_at;
    void (*hook)(struct fixture *f);
    bool child_published;
    _Atomic unsigned n_locks_tried; /* of the index's directory */
} fixture;

static void step_and_hook(void *context, const char *label)
{
    fixture *f = (fixture *)((char *)context - offsetof(fixture, step));

    f->step.fs.step(context, label);
    if (f->hook_at && strcmp(label, f->hook_at) == 0) {
        f->hook_at = NULL;
        f->hook(f);
    }
}

static int lock_and_count(void *context, int fd, hth_fs_lock_mode mode)
{
    fixture *f = (fixture *)((char *)context - offsetof(fixture, step));

    if (mode != HTH_FS_LOCK_PROBE)
        atomic_fetch_add(&f->n_locks_tried, 1);
    return f->step.fs.lock(context, fd, mode);
}

static void init_step(fixture *f)
{
    test_step_fs_init(&f->step, NULL);
    f->fs = f->step.fs;
    f->fs.step = step_and_hook;
    f->fs.lock = lock_and_count;
}

static hth_file_tier *open_with(const fixture *f, const hth_fs *fs)
{
    hth_file_tier_options options = {
        .directory = f->directory,
        .bytes_max = UINT64_C(1) << 30,
        .durable = true,
        .fs = fs,
    };
    hearth_error err = { .message = "" };
    hth_file_tier *tier = NULL;

    if (hth_file_tier_open(&options, &tier, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        abort();
    }
    hth_file_tier_settle(tier);
    return tier;
}

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    init_step(f);
    f->tier = open_with(f, &f->fs);
}

static void teardown(fixture *f)
{
    hth_file_tier_close(f->tier);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static hearth_status publish(hth_file_tier *tier, const test_row *row, bool *published_out)
{
    return hth_file_tier_publish(tier, &row->meta, row->bytes, row->n_bytes, published_out, NULL);
}

static void assert_published(fixture *f, const test_row *row)
{
    bool published = false;

    assert_int_equal(publish(f->tier, row, &published), HEARTH_OK);
    assert_true(published);
}

static uint8_t *take_buffer(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    return *bytes = malloc(n_bytes);
}

/* Does the row read back, and sound? */
static bool reads_back(hth_file_tier *tier, const hth_row_id *id)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    bool sound =
        hth_file_tier_read(tier, id, take_buffer, &bytes, &n, NULL) == HEARTH_OK && test_row_verifies(id, bytes, n);

    free(bytes);
    return sound;
}

static hth_index_totals totals_of(fixture *f)
{
    hth_index_totals totals = { .rows = UINT64_MAX };

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    return totals;
}

static size_t n_names(const fixture *f, const char *folder)
{
    char command[8192];
    unsigned n = 0;
    FILE *out;

    (void)snprintf(command, sizeof(command), "find %s/%s -type f | wc -l", f->directory, folder);
    out = popen(command, "r");
    assert_non_null(out);
    assert_int_equal(fscanf(out, "%u", &n), 1);
    (void)pclose(out);
    return n;
}

static const char *path_of(const fixture *f, const hth_row_id *id)
{
    static char path[8192];

    assert_true(hth_file_tier_path(f->tier, id, path, sizeof(path)));
    return path;
}

static void damage(const fixture *f, const test_row *row)
{
    int fd = open(path_of(f, &row->meta.id), O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "XXXX", 4, (off_t)row->n_bytes - 5), 4);
    close(fd);
}

/*
 * ---- children ----
 *
 * Each is this program again, with a role: the parent has threads, and a child that goes on after a fork of such a
 * process is nothing that a sanitizer can follow.
 */

static void stop_here(fixture *f)
{
    (void)f;
    (void)raise(SIGSTOP);
}

/* "publish DIRECTORY CHAIN STEP": 1 it wrote the row, 0 it was there or taken, 2 it could not. */
static int role_publish(fixture *f, char **arguments)
{
    test_row row = test_row_make((uint32_t)strtoul(arguments[0], NULL, 10), 0, IMAGE_BYTES);
    bool published = false;
    hearth_status status;

    f->hook = stop_here;
    f->hook_at = arguments[1];
    status = publish(f->tier, &row, &published);
    test_row_free(&row);
    return status != HEARTH_OK ? 2 : published;
}

/* "evict DIRECTORY STEP": evict everything. */
static int role_evict(fixture *f, char **arguments)
{
    f->hook = stop_here;
    f->hook_at = arguments[0];
    return hth_file_tier_evict_to(f->tier, 0, NULL, NULL) == HEARTH_OK ? 0 : 2;
}

/* "read DIRECTORY CHAIN": 1 the row is found and reads back. */
static int role_read(fixture *f, char **arguments)
{
    test_row row = test_row_make((uint32_t)strtoul(arguments[0], NULL, 10), 0, IMAGE_BYTES);
    bool found = hth_file_tier_has(f->tier, &row.meta.id, NULL) && reads_back(f->tier, &row.meta.id);

    test_row_free(&row);
    return found;
}

/* A role: arguments are its name, the directory and more. */
PLAYER(arguments)
{
    fixture f = { .directory = arguments[1] };
    int result = 3;

    init_step(&f);
    f.tier = open_with(&f, &f.fs);
    if (strcmp(arguments[0], "publish") == 0)
        result = role_publish(&f, arguments + 2);
    else if (strcmp(arguments[0], "evict") == 0)
        result = role_evict(&f, arguments + 2);
    else if (strcmp(arguments[0], "read") == 0)
        result = role_read(&f, arguments + 2);
    hth_file_tier_close(f.tier);
    return result;
}

static pid_t start(const fixture *f, const char *role, const char *first, const char *second)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        PLAY(role, f->directory, first, second);
    }
    return child;
}

static int result_of(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static pid_t assert_stops(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

/* A child that publishes the first row of a chain and is stopped at a step. */
static pid_t stopped_publisher(const fixture *f, const char *chain, const char *at)
{
    return assert_stops(start(f, "publish", chain, at));
}

static void end_child(pid_t child)
{
    int status;

    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Another process publishes the first row of chain 1; whether it wrote it is kept. */
static void publish_in_child(fixture *f)
{
    int result = result_of(start(f, "publish", "1", ""));

    assert_in_range(result, 0, 1);
    f->child_published = result == 1;
}

/* ---- one that is stopped ---- */

/* Wait until a row is there; false: nobody writes it, or the time ran out. */
static bool await_row(hth_file_tier *tier, const hth_row_id *id, uint32_t timeout_ms)
{
    hth_wait_result result = hth_index_wait(hth_file_tier_index(tier), id, timeout_ms);

    return result == HTH_WAIT_THERE || (result == HTH_WAIT_NO_WRITER && hth_file_tier_has(tier, id, NULL));
}

static void read_everything(fixture *f, const test_row *row)
{
    hth_row_meta children[4];

    assert_true(hth_file_tier_has(f->tier, &row->meta.id, NULL));
    assert_false(hth_file_tier_has(f->tier, &(hth_row_id){ .kind = HTH_ROW_TAIL }, NULL));
    assert_int_equal(hth_file_tier_children(f->tier, &row->meta.parent, children, 4), 1);
    assert_true(reads_back(f->tier, &row->meta.id));
    hth_file_tier_touch(f->tier, &row->meta.id, 1);
    assert_int_equal(totals_of(f).rows, 1);
}

FIXTURE_TEST(a_process_stopped_inside_a_transaction_blocks_no_reader_and_no_opening)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);
    pid_t child;

    assert_published(f, &row);
    child = stopped_publisher(f, "2", "index commit");
    read_everything(f, &row);
    assert_false(await_row(f->tier, &other.meta.id, 1));
    /* A new process opens, finds, reads and ends, too. */
    assert_int_equal(result_of(start(f, "read", "1", "")), 1);
    end_child(child);
    assert_published(f, &other); /* its lock and its reservation went with it */
    test_row_free(&row);
    test_row_free(&other);
}

static void *maintain(void *context)
{
    hth_file_tier_maintain(context);
    return NULL;
}

FIXTURE_TEST(a_process_stopped_with_the_directorys_lock_blocks_no_reader)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    char path[8192], command[8192];
    pthread_t writer;
    pid_t child;

    assert_published(f, &row);
    (void)snprintf(path, sizeof(path), "%s/index/lock", f->directory);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(path, O_RDWR);

        if (fd < 0 || flock(fd, LOCK_EX) != 0)
            _exit(1);
        (void)raise(SIGSTOP);
        _exit(0);
    }
    (void)assert_stops(child);

    /* Somebody dropped the index, so it is to be opened anew, and the lock is wanted for that. */
    (void)snprintf(command, sizeof(command), "rm -r %s/index/v3-*", f->directory);
    assert_int_equal(system(command), 0);
    atomic_store(&f->n_locks_tried, 0);
    assert_int_equal(pthread_create(&writer, NULL, maintain, f->tier), 0);
    while (atomic_load(&f->n_locks_tried) == 0)
        (void)sched_yield();
    read_everything(f, &row);
    end_child(child);
    assert_int_equal(pthread_join(writer, NULL), 0);
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    read_everything(f, &row);
    test_row_free(&row);
}

FIXTURE_TEST(a_process_can_start_while_another_is_stopped_with_the_directorys_lock)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    char path[8192];
    int fd;

    assert_published(f, &row);
    hth_file_tier_close(f->tier);
    (void)snprintf(path, sizeof(path), "%s/index/lock", f->directory);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    f->tier = open_with(f, &f->fs); /* without its index, for now */
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    close(fd);
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_int_equal(totals_of(f).rows, 1);
    test_row_free(&row);
}

/* ---- what has a row's name changes ---- */

FIXTURE_TEST(a_bad_row_that_was_replaced_meanwhile_is_not_set_aside)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    damage(f, &row);
    assert_false(reads_back(f->tier, &row.meta.id));
    assert_int_equal(unlink(path_of(f, &row.meta.id)), 0);
    publish_in_child(f);
    assert_true(f->child_published);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_true(reads_back(f->tier, &row.meta.id));
    assert_int_equal(n_names(f, "quarantine"), 0);
    assert_int_equal(totals_of(f).rows, 1);
    assert_int_equal(totals_of(f).bytes, row.n_bytes);
    /* The one that was read now, and then refused, is. */
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_int_equal(n_names(f, "quarantine"), 1);
    assert_int_equal(totals_of(f).rows, 0);
    test_row_free(&row);
}

FIXTURE_TEST(nobody_publishes_a_row_while_it_is_set_aside_or_removed)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    f->hook = publish_in_child;
    for (int i = 0; i < 2; i++) {
        assert_published(f, &row);
        f->hook_at = "taken";
        f->child_published = true;
        if (i == 0)
            hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
        else
            assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
        assert_null(f->hook_at);
        assert_false(f->child_published);
        assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
        assert_int_equal(totals_of(f).rows, 0);
        assert_int_equal(totals_of(f).bytes, 0);
        publish_in_child(f);
        assert_true(f->child_published);
        assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    }
    test_row_free(&row);
}

FIXTURE_TEST(nobody_publishes_a_row_while_it_is_evicted)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    uint64_t n_evicted = 0;

    assert_published(f, &row);
    f->hook = publish_in_child;
    f->hook_at = "evicted from the index";
    f->child_published = true;
    assert_int_equal(hth_file_tier_evict_to(f->tier, 0, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, 1);
    assert_false(f->child_published);
    assert_int_equal(n_names(f, "rows"), 0);
    assert_int_equal(totals_of(f).rows, 0);
    publish_in_child(f);
    assert_true(f->child_published);
    test_row_free(&row);
}

FIXTURE_TEST(a_row_that_is_being_written_cannot_be_removed_or_set_aside)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    pid_t child = stopped_publisher(f, "1", "placed");

    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_BUSY);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    end_child(child);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(totals_of(f).rows, 1);
    test_row_free(&row);
}

FIXTURE_TEST(a_row_that_was_lost_and_written_again_meanwhile_stays_in_the_index)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    assert_int_equal(unlink(path_of(f, &row.meta.id)), 0);
    assert_false(reads_back(f->tier, &row.meta.id)); /* noted as lost */
    publish_in_child(f);
    assert_true(f->child_published);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(totals_of(f).rows, 1);
    test_row_free(&row);
}

/* Let every other process count as dead. */
static void take_for_dead(const fixture *f)
{
    char command[8192];

    (void)snprintf(command, sizeof(command), "find %s/owners -type f ! -name %016llx -delete", f->directory,
                   (unsigned long long)hth_index_owner_token(hth_file_tier_index(f->tier)));
    assert_int_equal(system(command), 0);
}

FIXTURE_TEST(a_writer_that_lost_its_reservation_gives_no_name_to_its_file)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    pid_t child = stopped_publisher(f, "1", "written");
    hth_reserve_result result;

    take_for_dead(f);
    assert_int_equal(hth_index_reserve(hth_file_tier_index(f->tier), &row.meta.id, 60, &result, NULL), HEARTH_OK);
    assert_int_equal(result, HTH_RESERVED);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(result_of(child), 0);
    assert_int_equal(n_names(f, "rows"), 0);
    assert_int_equal(hth_index_release(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL), HEARTH_OK);
    test_row_free(&row);
}

FIXTURE_TEST(an_eviction_that_was_stopped_for_long_removes_nothing_that_is_not_its_own)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    pid_t child;

    assert_published(f, &row);
    child = assert_stops(start(f, "evict", "evicted from the index", ""));
    /* Its reservation runs out, as if its deadline had passed, and another process publishes the row. */
    take_for_dead(f);
    assert_int_equal(publish(f->tier, &row, NULL), HEARTH_OK);
    assert_int_equal(totals_of(f).rows, 1);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(result_of(child), 0);
    assert_true(reads_back(f->tier, &row.meta.id));
    assert_int_equal(totals_of(f).rows, 1);
    test_row_free(&row);
}

/* ---- operations that fail ---- */

FIXTURE_TEST(a_file_that_cannot_be_removed_stays_counted)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    f->step.fail_only = "remove";
    f->step.fail_errnum = EIO;
    f->step.fail_from_then_on = true;
    atomic_store(&f->step.n_steps, 0);
    atomic_store(&f->step.fail_at, 1);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_IO);
    assert_int_equal(totals_of(f).bytes, row.n_bytes);
    assert_int_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_IO);
    assert_int_equal(totals_of(f).bytes, row.n_bytes);
    f->step.fail_only = NULL; /* the move to the quarantine fails, too */
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    atomic_store(&f->step.fail_at, 0);
    assert_int_equal(totals_of(f).bytes, row.n_bytes);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(totals_of(f).bytes, 0);
    test_row_free(&row);
}

static uint64_t file_size_before;

static void let_transactions_fail(fixture *f)
{
    (void)f;
    file_size_before = hth_test_limit_file_size(0); /* nothing can be written anywhere */
}

FIXTURE_TEST(a_publish_whose_announcement_fails_can_be_repeated_at_once)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    f->hook = let_transactions_fail;
    f->hook_at = "placed";
    assert_int_equal(publish(f->tier, &row, NULL), HEARTH_OK); /* the file is there */
    (void)hth_test_limit_file_size(file_size_before);
    assert_int_equal(totals_of(f).rows, 0);
    assert_int_equal(unlink(path_of(f, &row.meta.id)), 0);
    assert_published(f, &row);
    assert_int_equal(totals_of(f).rows, 1);
    test_row_free(&row);
}

FIXTURE_TEST(a_device_too_full_for_the_index_costs_no_row_that_is_there)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);

    assert_published(f, &row);
    let_transactions_fail(f);
    assert_int_not_equal(publish(f->tier, &other, NULL), HEARTH_OK);
    hth_file_tier_touch(f->tier, &row.meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_true(reads_back(f->tier, &row.meta.id));
    assert_int_not_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_OK);
    assert_true(reads_back(f->tier, &row.meta.id));
    (void)hth_test_limit_file_size(file_size_before);
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_published(f, &other);
    assert_int_equal(totals_of(f).rows, 2);
    test_row_free(&row);
    test_row_free(&other);
}

/* ---- waiting for a row ---- */

typedef struct waiter {
    hth_file_tier *tier;
    const hth_row_id *id;
    uint32_t timeout_ms;
    bool found;
} waiter;

static void *wait_for_row(void *context)
{
    waiter *w = context;

    w->found = await_row(w->tier, w->id, w->timeout_ms);
    return NULL;
}

FIXTURE_TEST(who_waits_for_a_row_is_told_when_another_process_has_written_it)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    pid_t child = stopped_publisher(f, "1", "written");
    waiter w = { .tier = f->tier, .id = &row.meta.id, .timeout_ms = 600000 };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_row, &w), 0);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(result_of(child), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(w.found);
    test_row_free(&row);
}

FIXTURE_TEST(who_waits_for_a_row_is_told_when_its_writer_died)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    pid_t child = stopped_publisher(f, "1", "reserved");
    waiter w = { .tier = f->tier, .id = &row.meta.id, .timeout_ms = 600000 };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_row, &w), 0);
    end_child(child);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(w.found);
    test_row_free(&row);
}

static void publish_in_turn(fixture *f)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    waiter w = { .tier = f->tier, .id = &row.meta.id, .timeout_ms = 1 };

    (void)wait_for_row(&w); /* it is being written, by ourselves: the time runs out */
    f->child_published = w.found;
    test_row_free(&row);
}

FIXTURE_TEST(a_wait_ends_with_its_time_and_at_once_when_nobody_writes)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_false(await_row(f->tier, &row.meta.id, 600000));
    f->hook = publish_in_turn;
    f->hook_at = "written";
    f->child_published = true;
    assert_published(f, &row);
    assert_false(f->child_published);
    assert_true(await_row(f->tier, &row.meta.id, 600000));
    test_row_free(&row);
}

/* ---- notes of threads that only read ---- */

enum { TOUCHES = 10000 }; /* fewer than the tier keeps, so that none is dropped */

typedef struct toucher {
    hth_file_tier *tier;
    hth_row_id id;
    _Atomic bool is_done;
} toucher;

static void *touch_often(void *user_data)
{
    toucher *t = user_data;

    for (unsigned i = 0; i < TOUCHES; i++)
        hth_file_tier_touch(t->tier, &t->id, 1);
    atomic_store(&t->is_done, true);
    return NULL;
}

FIXTURE_TEST(no_use_is_lost_while_another_thread_writes_the_notes)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    toucher t = { .tier = f->tier, .id = row.meta.id };
    uint32_t before;
    hth_row_meta meta;
    pthread_t thread;

    assert_published(f, &row);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    before = meta.hit_count;
    assert_int_equal(pthread_create(&thread, NULL, touch_often, &t), 0);
    while (!atomic_load(&t.is_done))
        hth_file_tier_maintain(f->tier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    hth_file_tier_maintain(f->tier);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.hit_count - before, TOUCHES);
    test_row_free(&row);
}
