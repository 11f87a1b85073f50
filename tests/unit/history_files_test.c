/*
 * history_files_test.c - files become one without a loss, seldom, and within a bound; a reader changes nothing
 *
 * A token is a byte of text here.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include "history/history_files.h"
#include "support/cmocka_all.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { N_VOCAB = 256, MEMORY = 1 << 20, FLUSH_MS = 60000, MANY = 20, PATH = 4096, TEXT = 64 };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const hth_history_space space = { .bytes = { 1 } };

/* hth_history_text_fn */
static char *text_of(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data)
{
    char *text = form == 0 ? malloc(span->n_tokens) : NULL;

    (void)user_data;
    for (size_t i = 0; text && i < span->n_tokens; i++)
        text[i] = (char)span->tokens[i];
    *n_out = span->n_tokens;
    return text;
}

/* A process with the history. */
typedef struct process {
    hth_history *history;
    hth_history_files *files;
} process;

static process start(const char *folder, const hth_fs *fs, size_t bytes_max)
{
    process p = { .history = hth_history_new(MEMORY, N_VOCAB) };
    const hth_history_files_options options = {
        .history = p.history,
        .directory = folder,
        .bytes_max = bytes_max,
        .text_of = text_of,
        .fs = fs,
        .log = &silent,
    };

    assert_non_null(p.history);
    assert_int_equal(hth_history_files_open(&options, &p.files, NULL), HEARTH_OK);
    return p;
}

static void end(process *p)
{
    assert_true(hth_history_files_close(p->files, FLUSH_MS));
    hth_history_free(p->history);
}

static void add_text(const process *p, const char *text)
{
    hearth_token tokens[TEXT];
    size_t n = strlen(text);

    assert_true(n <= TEXT);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (unsigned char)text[i];
    hth_history_add(p->history, &space, text, n, 0, tokens, n);
    hth_history_files_wake(p->files);
    assert_true(hth_history_files_flush(p->files, FLUSH_MS));
}

static void add(const process *p, int i)
{
    char text[TEXT];

    (void)snprintf(text, sizeof(text), "conversation %03d", i);
    add_text(p, text);
}

static bool always(size_t n_bytes, void *user_data)
{
    (void)n_bytes;
    (void)user_data;
    return true;
}

static bool knows(const process *p, int i)
{
    char text[TEXT];
    hth_history_found found;

    (void)snprintf(text, sizeof(text), "conversation %03d and more", i);
    assert_true(hth_history_find(p->history, &space, text, strlen(text), always, NULL, &found));
    free(found.tokens);
    return found.n_bytes > 0;
}

static size_t n_files(const char *folder)
{
    DIR *listed = opendir(folder);
    const struct dirent *entry;
    size_t n = 0;

    while (listed && (entry = readdir(listed)))
        n += entry->d_name[0] != '.';
    if (listed)
        (void)closedir(listed);
    return n;
}

typedef struct fixture {
    char *directory;
    char folder[PATH];
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->folder, sizeof(f->folder), "%s/history/model", f->directory);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* So many files, each of a process that has ended, which know conversations from 0 on. No process has both too many
 * files and something to write, so none makes them one. */
static void write_files(const fixture *f, int n)
{
    process p[MANY];

    assert_true(n <= MANY);
    for (int i = 0; i < n; i++)
        p[i] = start(f->folder, NULL, MEMORY);
    for (int i = 0; i < n; i++)
        add(&p[i], i);
    for (int i = 0; i < n; i++)
        end(&p[i]);
    assert_int_equal(n_files(f->folder), n);
}

static void expect_known(const fixture *f, int n)
{
    process p = start(f->folder, NULL, MEMORY);

    for (int i = 0; i < n; i++)
        assert_true(knows(&p, i));
    end(&p);
}

FIXTURE_TEST(many_files_become_one)
{
    process p;

    write_files(f, MANY);
    p = start(f->folder, NULL, MEMORY);
    add(&p, MANY);
    assert_int_equal(n_files(f->folder), 1);
    end(&p);
    expect_known(f, MANY + 1);
}

FIXTURE_TEST(a_reader_changes_nothing)
{
    process p;

    write_files(f, MANY);
    p = start(f->folder, NULL, MEMORY);
    end(&p);
    assert_int_equal(n_files(f->folder), MANY);
}

FIXTURE_TEST(nothing_is_removed_while_a_file_cannot_be_read)
{
    test_step_fs step;
    process p;

    write_files(f, MANY);
    test_step_fs_init(&step, NULL);
    step.fail_only = "read_at";
    step.fail_at = 5;
    step.fail_errnum = EIO;
    step.fail_from_then_on = true;
    p = start(f->folder, &step.fs, MEMORY);
    assert_false(knows(&p, 10));
    add(&p, MANY);
    end(&p);
    assert_true(n_files(f->folder) > MANY);
    expect_known(f, MANY + 1);
}

FIXTURE_TEST(a_file_that_could_not_be_read_once_is_read_before_it_is_removed)
{
    test_step_fs step;
    process p;

    write_files(f, MANY);
    test_step_fs_init(&step, NULL);
    step.fail_only = "read_at";
    step.fail_at = 5;
    step.fail_errnum = EIO;
    p = start(f->folder, &step.fs, MEMORY);
    assert_false(knows(&p, 4));
    add(&p, MANY);
    end(&p);
    assert_int_equal(n_files(f->folder), 1);
    expect_known(f, MANY + 1);
}

FIXTURE_TEST(what_another_process_adds_meanwhile_is_kept)
{
    process other, p;

    write_files(f, MANY - 1);
    other = start(f->folder, NULL, MEMORY);
    add(&other, MANY - 1); /* its files become one, and it goes on */
    for (int i = 0; i < MANY; i++) {
        process more = start(f->folder, NULL, 16u << 20);

        add(&more, 100 + i);
        end(&more);
    }
    p = start(f->folder, NULL, MEMORY);
    add(&other, MANY);
    end(&other);
    for (int i = 0; i < MANY; i++)
        add(&p, 200 + i);
    end(&p);
    expect_known(f, MANY + 1);
}

FIXTURE_TEST(files_of_other_keys_stay)
{
    static const uint8_t secret[32] = { 7 };
    hth_signing_key *key = hth_hmac_key_new(secret, sizeof(secret));
    hth_history *history = hth_history_new(MEMORY, N_VOCAB);
    hth_history_files_options options = {
        .history = history, .directory = f->folder, .bytes_max = MEMORY, .text_of = text_of, .key = key, .log = &silent
    };
    process p = { .history = history };

    write_files(f, MANY); /* without a signature */
    assert_int_equal(hth_history_files_open(&options, &p.files, NULL), HEARTH_OK);
    add(&p, MANY);
    end(&p);
    assert_true(n_files(f->folder) > MANY);
    expect_known(f, MANY);
    hth_signing_key_free(key);
}

/* ---- not again and again ---- */

FIXTURE_TEST(files_that_must_stay_do_not_make_every_record_write_all)
{
    process living[MANY], p;
    test_step_fs step;

    for (int i = 0; i < MANY; i++)
        living[i] = start(f->folder, NULL, MEMORY);
    for (int i = 0; i < MANY; i++)
        add(&living[i], i);
    test_step_fs_init(&step, NULL);
    step.fail_only = "sync_data"; /* of which there is one each time */
    p = start(f->folder, &step.fs, MEMORY);
    for (int i = 0; i < 50; i++)
        add(&p, 100 + i);
    assert_in_range(step.n_steps, 1, 2);
    end(&p);
    for (int i = 0; i < MANY; i++)
        end(&living[i]);
    expect_known(f, MANY);
}

FIXTURE_TEST(a_full_device_is_not_asked_to_write_all_again_and_again)
{
    test_step_fs step;
    process p;

    write_files(f, MANY);
    test_step_fs_init(&step, NULL);
    step.fail_only = "write";
    step.fail_at = 2;
    step.fail_errnum = ENOSPC;
    step.fail_from_then_on = true;
    p = start(f->folder, &step.fs, MEMORY);
    for (int i = 0; i < 30; i++)
        add(&p, 100 + i);
    assert_in_range(step.n_steps, 30, 33);
    end(&p);
    expect_known(f, MANY);
}

/* A batch that fails, and a later one that does not: the first one must not count as written. */
FIXTURE_TEST(a_failed_write_removes_nothing)
{
    test_step_fs step;
    process p;

    write_files(f, MANY);
    test_step_fs_init(&step, NULL);
    step.fail_only = "write";
    step.fail_at = 2; /* the one of all records */
    step.fail_errnum = EIO;
    p = start(f->folder, &step.fs, MEMORY);
    add(&p, MANY);
    end(&p);
    assert_true(n_files(f->folder) >= MANY);
    expect_known(f, MANY + 1);
}

/* ---- the bound of all models ---- */

static void make_old(const char *folder, time_t mtime)
{
    DIR *listed = opendir(folder);
    const struct dirent *entry;
    char path[2 * PATH];

    assert_non_null(listed);
    while ((entry = readdir(listed)))
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            assert_int_equal(utime(path, &(struct utimbuf){ .actime = mtime, .modtime = mtime }), 0);
        }
    (void)closedir(listed);
}

FIXTURE_TEST(files_of_models_that_are_gone_make_room)
{
    enum { SMALL = 1024, MODELS = 8 };
    char folder[PATH + 32];
    process oldest, p;

    for (int i = 0; i < MODELS; i++) { /* 912 bytes each */
        (void)snprintf(folder, sizeof(folder), "%s/history/gone%d", f->directory, i);
        p = start(folder, NULL, MEMORY);
        for (int k = 0; k < 6; k++)
            add(&p, 10 * i + k);
        if (i == 0)
            oldest = p; /* lives */
        else
            end(&p);
        make_old(folder, 1000000 + i);
    }
    p = start(f->folder, NULL, SMALL);
    add(&p, 99);
    end(&p);
    for (int i = 0; i < MODELS; i++) {
        (void)snprintf(folder, sizeof(folder), "%s/history/gone%d", f->directory, i);
        assert_int_equal(n_files(folder), i == 0 || i > 4);
        assert_int_equal(access(folder, F_OK) == 0, i == 0 || i > 4);
    }
    assert_int_equal(n_files(f->folder), 1);
    end(&oldest);
}

FIXTURE_TEST(only_files_of_histories_are_removed)
{
    char path[PATH + 64];
    FILE *file;
    process p;

    (void)snprintf(path, sizeof(path), "%s/history", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/history/gone", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/history/gone/notes.history.txt", f->directory);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 10000; i++)
        (void)fputc('x', file);
    assert_int_equal(fclose(file), 0);
    p = start(f->folder, NULL, 1024);
    add(&p, 1);
    end(&p);
    assert_int_equal(access(path, F_OK), 0);
}

/* ---- bytes that nobody wrote ---- */

/* Heads within heads, each of which claims all bytes behind it. */
TEST(reading_costs_a_few_times_the_bytes_whatever_they_claim)
{
    enum { STEP = 96, HEADS = 2000 };
    size_t n_bytes = (size_t)STEP * HEADS;
    uint8_t *bytes = calloc(n_bytes, 1);
    hth_history_reader reader = { .bytes = bytes, .n_bytes = n_bytes };
    hth_history_entry entry;

    assert_non_null(bytes);
    for (size_t at = 0; at + STEP <= n_bytes; at += STEP) {
        uint32_t n_tokens = (uint32_t)((n_bytes - at - hth_history_entry_bytes(0, false)) / 4);

        memcpy(bytes + at, "HTHHIST1", 8);
        for (int i = 0; i < 4; i++) {
            bytes[at + 8 + (size_t)i] = (uint8_t)(hth_history_entry_bytes(n_tokens, false) >> 8 * i);
            bytes[at + 12 + (size_t)i] = (uint8_t)(n_tokens >> 8 * i);
        }
    }
    assert_false(hth_history_reader_next(&reader, &entry));
    assert_true(reader.has_given_up);
    assert_in_range(reader.n_checked, n_bytes / 2, 4 * n_bytes);
    free(bytes);
}
