/*
 * weight_region_processes_test.c - processes of several users share a region; those that die leave a whole one or none
 */
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/ptrace.h>
#endif

#include "support/child.h"
#include "support/region_scene.h"

enum {
    KILLS = 60,
    LARGE = 64 << 20,
    SPARE = 16 << 20,
    USER_A = 65532,
    USER_B = 65533,
    STRANGER = 65534,
    GROUP = 65531
};

/* ---- processes that die ---- */

/* Steps at which a process is killed. */
typedef enum death { IN_FILLING, BEFORE_PUBLISHING, AFTER_PUBLISHING, N_DEATHS } death;

static _Noreturn void act_until(fixture *f, death at)
{
    hth_weight_region *region = NULL;

    require(hth_weight_region_open(&f->key, &region, NULL) == HEARTH_OK);
    if (at == IN_FILLING)
        (void)raise(SIGKILL);
    fill(region);
    if (at == BEFORE_PUBLISHING)
        (void)raise(SIGKILL);
    require(hth_weight_region_publish(region, layout, NULL) == HEARTH_OK);
    (void)raise(SIGKILL);
    _exit(1);
}

FIXTURE_TEST(a_process_that_dies_leaves_a_whole_region_or_none)
{
    for (death at = IN_FILLING; at < N_DEATHS; at++) {
        hth_weight_region *region;
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            act_until(f, at);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(n_files(f), 1); /* without a holder */
        region = open_region(f);
        assert_int_equal(hth_weight_region_is_filled(region), at == AFTER_PUBLISHING);
        if (at == AFTER_PUBLISHING)
            assert_true(has_weights(region));
        hth_weight_region_close(region);
        assert_int_equal(n_files(f), 0);
    }
}

#ifdef __linux__

/* All that a process does with a region: fill, close as the last holder, keep, map what is kept. */
static void live(fixture *f)
{
    hth_weight_region *region = NULL;

    for (int i = 0; i < 3; i++) {
        f->key.keep = i > 0;
        require(hth_weight_region_open(&f->key, &region, NULL) == HEARTH_OK);
        if (!hth_weight_region_is_filled(region)) {
            fill(region);
            require(hth_weight_region_publish(region, layout, NULL) == HEARTH_OK);
        }
        hth_weight_region_close(region);
    }
}

static void wait_for(pid_t pid, int *status)
{
    assert_int_equal(waitpid(pid, status, 0), pid);
}

/* Let a process live until its call to the system number n, and kill it there. False: it made fewer calls. */
static bool kill_at_call(fixture *f, int n)
{
    const pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(TEST_NOT_AVAILABLE);
        (void)raise(SIGSTOP);
        live(f);
        _exit(0);
    }
    wait_for(pid, &status);
    for (int stops = 2 * n - 1; stops > 0 && WIFSTOPPED(status); stops--) { /* each call stops twice */
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        wait_for(pid, &status);
    }
    if (WIFSTOPPED(status)) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        wait_for(pid, &status);
        assert_true(WIFSIGNALED(status));
        return true;
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == TEST_NOT_AVAILABLE)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

FIXTURE_TEST(a_kill_at_any_call_to_the_system_leaves_a_region_to_use_or_to_fill_and_no_file_for_ever)
{
    int n = 1, n_whole = 0;

    assert_int_equal(mkdir(f->folder, 0700), 0);
    for (; kill_at_call(f, n); n++) {
        hth_weight_region *region = open_region(f);

        n_whole += hth_weight_region_is_filled(region);
        if (!hth_weight_region_is_filled(region)) {
            fill(region);
            assert_ok(hth_weight_region_publish(region, layout, &f->err), f->err);
        }
        assert_true(has_weights(region));
        hth_weight_region_close(region);
        assert_int_equal(n_files(f), 0);
    }
    assert_in_range(n_whole, 1, n - 2);
}
#endif

/* Open, fill, publish and close regions until the end comes. 0: a region had other weights than it should. */
static _Noreturn void churn(fixture *f, int go)
{
    char byte;

    require(read(go, &byte, 1) == 1);
    for (;;) {
        hth_weight_region *region = NULL;

        require(hth_weight_region_open(&f->key, &region, NULL) == HEARTH_OK);
        if (!hth_weight_region_is_filled(region)) {
            fill(region);
            require(hth_weight_region_publish(region, layout, NULL) == HEARTH_OK);
        }
        require(has_weights(region));
        hth_weight_region_close(region);
    }
}

FIXTURE_TEST(kills_at_any_time_leave_no_wrong_region_and_no_file_for_ever)
{
    uint64_t seed = hth_test_seed();

    for (int i = 0; i < KILLS; i++) {
        pid_t pids[2];
        int go[2];

        assert_int_equal(pipe(go), 0);
        for (size_t k = 0; k < 2; k++) {
            pids[k] = fork();
            assert_true(pids[k] >= 0);
            if (pids[k] == 0)
                churn(f, go[0]);
        }
        assert_int_equal(write(go[1], "gg", 2), 2);
        (void)usleep((useconds_t)hth_test_random(&seed, 8000));
        for (size_t k = 0; k < 2; k++) {
            int status;

            assert_int_equal(kill(pids[k], SIGKILL), 0);
            assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
            assert_true(WIFSIGNALED(status)); /* no churn found a wrong region before */
        }
        (void)close(go[0]);
        (void)close(go[1]);
        f->key.keep = i % 2 == 0;
    }
    f->key.keep = false;
    hth_weight_region_close(open_region(f));
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(who_finds_another_filling_waits_for_it)
{
    int begun[2], opened[2];
    hth_weight_region *region;
    char byte;
    pid_t pid;
    int status;

    assert_int_equal(pipe(begun), 0);
    assert_int_equal(pipe(opened), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        require(hth_weight_region_open(&f->key, &region, NULL) == HEARTH_OK);
        require(write(begun[1], "b", 1) == 1);
        (void)usleep(50000); /* the parent most likely waits by now; if not, the test says the same */
        fill(region);
        require(hth_weight_region_publish(region, layout, NULL) == HEARTH_OK);
        require(read(opened[0], &byte, 1) == 1);
        hth_weight_region_close(region);
        _exit(0);
    }
    assert_int_equal(read(begun[0], &byte, 1), 1);
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    assert_true(has_weights(region));
    assert_int_equal(write(opened[1], "o", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    hth_weight_region_close(region);
    assert_int_equal(n_files(f), 0);
    for (size_t i = 0; i < 2; i++) {
        (void)close(begun[i]);
        (void)close(opened[i]);
    }
}

/* ---- memory and users ---- */

static size_t mapped_bytes(void)
{
    char *text = hth_test_text("/proc/self/statm");
    const size_t n = text ? strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;

    free(text);
    return n;
}

static void open_without_memory(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;
    const size_t limit = mapped_bytes() + SPARE;

    require(setrlimit(RLIMIT_AS, &(struct rlimit){ .rlim_cur = limit, .rlim_max = limit }) == 0);
    if (limit == SPARE || mmap(NULL, LARGE, PROT_READ, MAP_PRIVATE | MAP_ANON, -1, 0) != MAP_FAILED)
        hth_test_not_available("limit of mapped memory");
    require(hth_weight_region_open(&f->key, &region, &f->err) == HEARTH_NO_MEMORY);
    require(sweep(f));
}

FIXTURE_TEST(a_file_stays_while_there_is_no_memory_to_map_it)
{
    hth_weight_region *region;

    f->key.n_bytes = LARGE;
    f->key.keep = true;
    hth_weight_region_close(publish(f));
    hth_test_in_child(open_without_memory, f);
    assert_int_equal(n_files(f), 1);
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    hth_weight_region_close(region);
}

/* A process of this user, who is in the group unless a stranger. */
static void become(uid_t user)
{
    const gid_t group = GROUP;

    require(setgroups(user == STRANGER ? 0 : 1, &group) == 0);
    require(setgid(user) == 0 && setuid(user) == 0);
}

/* Between user A, who fills, and user B, who maps. */
typedef struct company {
    fixture *f;
    int from_a[2], to_a[2];
} company;

static _Noreturn void act_as_a(company *with)
{
    hth_weight_region *region = NULL;
    char byte;

    become(USER_A);
    require(hth_weight_region_open(&with->f->key, &region, &with->f->err) == HEARTH_OK);
    fill(region);
    require(hth_weight_region_publish(region, layout, &with->f->err) == HEARTH_OK);
    require(write(with->from_a[1], "p", 1) == 1);
    require(read(with->to_a[0], &byte, 1) == 1);
    hth_weight_region_close(region);
    _exit(0);
}

static void act_as_b(void *context)
{
    company *with = context;
    hth_weight_region *region = NULL;
    struct stat st;
    char byte;

    become(USER_B);
    (void)close(with->from_a[1]);
    require(read(with->from_a[0], &byte, 1) == 1);
    require(hth_weight_region_open(&with->f->key, &region, &with->f->err) == HEARTH_OK);
    require(hth_weight_region_is_filled(region) && has_weights(region));
    require(stat(hth_weight_region_path(region), &st) == 0);
    require(st.st_uid == USER_A && st.st_gid == GROUP && (st.st_mode & 07777) == 0660);
    require(write(with->to_a[1], "e", 1) == 1);
    require(read(with->from_a[0], &byte, 1) == 0); /* A has ended */
    require(stat(hth_weight_region_path(region), &st) == 0 && has_weights(region));
    hth_weight_region_close(region);
}

static void die_filling_as_a(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;

    become(USER_A);
    require(hth_weight_region_open(&f->key, &region, &f->err) == HEARTH_OK);
    _exit(0); /* as a kill: nothing is closed in order */
}

static void fill_as_b(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;

    become(USER_B);
    require(hth_weight_region_open(&f->key, &region, &f->err) == HEARTH_OK);
    require(!hth_weight_region_is_filled(region));
    fill(region);
    require(hth_weight_region_publish(region, layout, &f->err) == HEARTH_OK);
    hth_weight_region_close(region);
}

static void keep_as_b(void *context)
{
    fixture *f = context;

    f->key.keep = true;
    fill_as_b(f);
}

static void drop_as_a(void *context)
{
    fixture *f = context;

    become(USER_A);
    hth_weight_regions_drop(f->folder, f->model);
}

static void fail_as_stranger(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;

    become(STRANGER);
    require(hth_weight_region_open(&f->key, &region, &f->err) == HEARTH_PERMISSION);
}

/* A folder as models.md has root make it. */
static void make_shared_folder(fixture *f)
{
    if (geteuid() != 0) {
        print_message("skipped: only root can start processes of two users\n");
        skip();
    }
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(chmod(f->model, 0644), 0);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    assert_int_equal(chown(f->folder, 0, GROUP), 0);
    assert_int_equal(chmod(f->folder, 02770), 0);
}

FIXTURE_TEST(two_users_of_a_group_map_one_file_and_the_last_of_them_removes_it)
{
    company with = { .f = f };
    pid_t pid;
    int status;

    make_shared_folder(f);
    assert_int_equal(pipe(with.from_a), 0);
    assert_int_equal(pipe(with.to_a), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        act_as_a(&with);
    (void)close(with.from_a[1]);
    hth_test_in_child(act_as_b, &with);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(n_files(f), 0);
    (void)close(with.from_a[0]);
    (void)close(with.to_a[0]);
    (void)close(with.to_a[1]);
}

FIXTURE_TEST(what_a_user_left_another_of_the_group_removes_and_a_stranger_cannot_touch)
{
    make_shared_folder(f);
    hth_test_in_child(die_filling_as_a, f);
    assert_int_equal(n_files(f), 1);
    hth_test_in_child(fill_as_b, f);
    assert_int_equal(n_files(f), 0);
    hth_test_in_child(keep_as_b, f);
    hth_test_in_child(fail_as_stranger, f);
    assert_int_equal(n_files(f), 1);
    hth_test_in_child(drop_as_a, f);
    assert_int_equal(n_files(f), 0);
}
