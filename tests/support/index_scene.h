/*
 * index_scene.h - what tests of the index alone share: a directory with an index, its rows, and child processes
 */
#ifndef HTH_TESTS_INDEX_SCENE_H
#define HTH_TESTS_INDEX_SCENE_H

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "index/index.h"
#include "index/owner.h"
#include "support/cmocka_all.h"
#include "support/index_rows.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    char index[4096];
    char owners[4096];
    hth_log log;
    unsigned n_warnings;
} fixture;

static inline void count_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    (void)message;
    if (level <= HEARTH_LOG_WARNING)
        f->n_warnings++;
}

static inline void fixture_setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->index, sizeof(f->index), "%s/index", f->directory);
    (void)snprintf(f->owners, sizeof(f->owners), "%s/owners", f->directory);
    assert_int_equal(mkdir(f->owners, 0700), 0);
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = count_warning, .user_data = f };
}

static inline void fixture_teardown(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define IN_FIXTURE(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

static inline hth_index *open_boot(fixture *f, const char *boot_id, bool *rebuild_out)
{
    hth_index_options options = {
        .directory = f->index,
        .owners_directory = f->owners,
        .log = &f->log,
        .boot_id = boot_id,
    };
    hth_index *index = NULL;
    bool rebuild = false;

    assert_int_equal(hth_index_open(&options, &index, &rebuild, NULL), HEARTH_OK);
    if (rebuild_out)
        *rebuild_out = rebuild;
    return index;
}

static inline hth_index *open_complete(fixture *f)
{
    bool rebuild;
    hth_index *index = open_boot(f, NULL, &rebuild);

    if (rebuild)
        assert_int_equal(hth_index_rebuilt(index, NULL), HEARTH_OK);
    return index;
}

/* Row number i of a chain; position counts in rows of ten tokens. */
static inline hth_row_meta row_at(uint32_t chain, uint32_t i)
{
    hth_row_meta meta = { .id = { .kind = HTH_ROW_BLOCK } };

    hth_sha256_of(&(uint32_t[2]){ chain, i + 1 }, 8, meta.id.key.bytes);
    hth_sha256_of(&(uint32_t[2]){ chain, i }, 8, meta.parent.bytes);
    meta.first_position = i * 10;
    meta.n_tokens = 10;
    meta.bytes = 1000;
    meta.last_used_time = 100;
    meta.save_reason = HEARTH_SAVE_COLD;
    return meta;
}

static inline void publish(hth_index *index, const hth_row_meta *meta)
{
    assert_int_equal(test_index_publish(index, meta, 1), HEARTH_OK);
}

static inline bool has(hth_index *index, const hth_row_meta *meta)
{
    bool found = false;

    assert_int_equal(hth_index_get(index, &meta->id, NULL, &found, NULL), HEARTH_OK);
    return found;
}

static inline hth_reserve_result reserve(hth_index *index, const hth_row_meta *meta, uint32_t deadline_s)
{
    hth_reserve_result result;

    assert_int_equal(hth_index_reserve(index, &meta->id, deadline_s, &result, NULL), HEARTH_OK);
    return result;
}

static inline hearth_status evict(hth_index *index, uint64_t bytes_max, hth_row_id *ids, size_t capacity, size_t *n_out)
{
    hth_row_meta rows[256];
    hearth_status status;

    assert_true(capacity <= 256);
    status = hth_index_evict(index, bytes_max, NULL, NULL, rows, capacity, n_out, NULL);
    for (size_t i = 0; i < *n_out; i++)
        ids[i] = rows[i].id;
    return status;
}

static inline uint64_t total_bytes(hth_index *index)
{
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(index, &totals, NULL), HEARTH_OK);
    return totals.bytes;
}

/* Let a crash of this child be one: cmocka's handlers, which fork handed on, would go on with its tests. */
static inline void end_by_signals(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGABRT };

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)signal(signals[i], SIG_DFL);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(abort); /* instead of an exit */
#endif
}

/* Run body in a child and wait for it; its exit status must be 0 unless it is killed by itself. */
static inline void in_child(fixture *f, void (*body)(fixture *f))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        end_by_signals();
        body(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) || WIFSIGNALED(status));
}

#endif
