/*
 * learned_test.c - the memory that models were seen to take outlives a server
 */
#include "supervisor/learned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    char path[600];  /* of the learned */
    char model[600]; /* of a model's file */
    unsigned n_warnings;
    hth_log log;
} fixture;

static void count(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    (void)message;
    f->n_warnings += level == HEARTH_LOG_WARNING;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/needs", f->directory);
    (void)snprintf(f->model, sizeof(f->model), "%s/m.gguf", f->directory);
    write_text(f->model, "weights");
    f->log = (hth_log){ .level = HEARTH_LOG_DEBUG, .write = count, .user_data = f };
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static const uint8_t *key_of(unsigned number, uint8_t key[HTH_LEARNED_KEY_BYTES])
{
    memset(key, 0, HTH_LEARNED_KEY_BYTES);
    memcpy(key, &number, sizeof(number));
    return key;
}

static hth_learned_model model_of(uint64_t bytes)
{
    hth_learned_model model;

    memset(&model, 0, sizeof(model));
    model.bytes = bytes;
    return model;
}

FIXTURE_TEST(what_was_noted_is_known_to_the_next_server)
{
    hth_learned *learned = hth_learned_open(f->path, &f->log);
    hth_learned_model one = model_of(123456), two = model_of(0), found;
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    struct stat st;

    two.needs.n_ctx = 512;
    two.needs.memory.host.cell_bytes = 99;
    two.needs.memory.n_devices = 1;
    (void)snprintf(two.needs.memory.devices[0].name, sizeof(two.needs.memory.devices[0].name), "CUDA0");
    assert_false(hth_learned_find(learned, key_of(1, key), &found));
    hth_learned_note(learned, key_of(1, key), &one);
    hth_learned_note(learned, key_of(2, key), &one);
    hth_learned_note(learned, key_of(2, key), &two);
    hth_learned_close(learned);
    assert_int_equal(stat(f->path, &st), 0);

    learned = hth_learned_open(f->path, &f->log);
    assert_true(hth_learned_find(learned, key_of(1, key), &found));
    assert_memory_equal(&found, &one, sizeof(found));
    assert_true(hth_learned_find(learned, key_of(2, key), &found));
    assert_memory_equal(&found, &two, sizeof(found));
    assert_false(hth_learned_find(learned, key_of(3, key), &found));
    hth_learned_close(learned);
    assert_int_equal(f->n_warnings, 0);
}

FIXTURE_TEST(a_damaged_file_is_empty_and_is_replaced)
{
    static const char *const texts[] = {
        "something else\n",
        "hearth-needs 1\nmodel 12 3\n",
        "hearth-needs 1\nhost 1 2 3 4 5 6\n",
        "hearth-needs 1\nmodel 0000000000000000000000000000000000000000000000000000000000000000 x\n",
        "hearth-needs 1\nmodel 0000000000000000000000000000000000000000000000000000000000000000 9999999999999999999\n",
        "hearth-needs 1\nmodel 00000000000000000000000000000000000000000000000000000000000000zz 1\n",
        "hearth-needs 1\nmodel 0000000000000000000000000000000000000000000000000000000000000000 1\nhost 1\n",
    };
    const hth_learned_model one = model_of(5);
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    hth_learned_model found;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_learned *learned;

        write_text(f->path, texts[i]);
        learned = hth_learned_open(f->path, &f->log);
        assert_int_equal(f->n_warnings, i + 1);
        assert_false(hth_learned_find(learned, key_of(0, key), &found));
        hth_learned_note(learned, key_of(1, key), &one);
        hth_learned_close(learned);
        learned = hth_learned_open(f->path, &f->log);
        assert_true(hth_learned_find(learned, key_of(1, key), &found));
        hth_learned_close(learned);
    }
}

FIXTURE_TEST(a_folder_that_others_can_write_to_is_not_trusted)
{
    const hth_learned_model one = model_of(5);
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    hth_learned_model found;
    hth_learned *learned = hth_learned_open(f->path, &f->log);

    hth_learned_note(learned, key_of(1, key), &one);
    hth_learned_write(learned);
    assert_int_equal(chmod(f->directory, 0777), 0);
    hth_learned_close(learned);
    learned = hth_learned_open(f->path, &f->log);
    assert_false(hth_learned_find(learned, key_of(1, key), &found));
    hth_learned_close(learned);
    assert_int_equal(chmod(f->directory, 0700), 0);
}

FIXTURE_TEST(a_file_that_cannot_be_written_is_told_once)
{
    const hth_learned_model one = model_of(5);
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    hth_learned *learned = hth_learned_open(f->path, &f->log);

    assert_int_equal(mkdir(f->path, 0700), 0); /* the name is a folder's */
    hth_learned_note(learned, key_of(1, key), &one);
    hth_learned_write(learned);
    hth_learned_note(learned, key_of(2, key), &one);
    hth_learned_close(learned);
    assert_int_equal(f->n_warnings, 1);
}

FIXTURE_TEST(the_model_that_was_noted_first_goes_when_there_are_too_many)
{
    const hth_learned_model one = model_of(5);
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    hth_learned_model found;
    hth_learned *learned = hth_learned_open(NULL, &f->log);

    for (unsigned i = 0; i < 257; i++)
        hth_learned_note(learned, key_of(i, key), &one);
    assert_false(hth_learned_find(learned, key_of(0, key), &found));
    assert_true(hth_learned_find(learned, key_of(1, key), &found));
    assert_true(hth_learned_find(learned, key_of(256, key), &found));
    hth_learned_close(learned);
    hth_learned_close(NULL);
}

FIXTURE_TEST(another_file_and_other_options_are_another_model)
{
    static const char *const options[] = { "--ctx", "512", NULL }, *const others[] = { "--ctx", "1024", NULL },
                             *const salted[] = { "--ctx", "512", "--cache-salt", "a", NULL },
                             *const resalted[] = { "--ctx", "512", "--cache-salt", "b", NULL };
    uint8_t a[HTH_LEARNED_KEY_BYTES], b[HTH_LEARNED_KEY_BYTES];

    assert_true(hth_learned_key(f->model, options, a));
    assert_true(hth_learned_key(f->model, options, b));
    assert_memory_equal(a, b, sizeof(a));
    assert_true(hth_learned_key(f->model, others, b));
    assert_memory_not_equal(a, b, sizeof(a));
    write_text(f->model, "other weights");
    assert_true(hth_learned_key(f->model, options, b));
    assert_memory_not_equal(a, b, sizeof(a));
    assert_true(hth_learned_key(f->model, salted, a)); /* a secret is no part of it */
    assert_true(hth_learned_key(f->model, resalted, b));
    assert_memory_equal(a, b, sizeof(a));
    assert_false(hth_learned_key("stub:", options, a));
    assert_false(hth_learned_key(f->directory, options, a));
    assert_false(hth_learned_key(NULL, options, a));
}
