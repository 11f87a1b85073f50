/*
 * adapter_files_test.c - only files beneath the folder of adapters are found
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/adapter_state.h"

typedef struct fixture {
    char *directory;
    char folder[512]; /* of the adapters */
    char path[PATH_MAX];
    hearth_error err;
} fixture;

static void write_file(const fixture *f, const char *name)
{
    char path[600];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void set_up(fixture *f)
{
    char *real = hth_test_directory_new(), path[600];

    f->directory = real;
    (void)snprintf(f->folder, sizeof(f->folder), "%s/lora", real);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/lora/more", real);
    assert_int_equal(mkdir(path, 0700), 0);
    write_file(f, "secret.gguf");
    write_file(f, "lora-2.gguf"); /* the folder's name begins its name */
    write_file(f, "lora/b.gguf");
    write_file(f, "lora/a..b.gguf");
    write_file(f, "lora/.hidden.gguf");
    write_file(f, "lora/notes.txt");
    write_file(f, "lora/more/c.gguf");
    (void)snprintf(path, sizeof(path), "%s/lora/out.gguf", real);
    assert_int_equal(symlink("../secret.gguf", path), 0);
    (void)snprintf(path, sizeof(path), "%s/lora/in.gguf", real);
    assert_int_equal(symlink("more/c.gguf", path), 0);
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void assert_found(fixture *f, const char *file, const char *end)
{
    size_t n;

    assert_ok(hth_adapter_file_find(f->folder, file, f->path, &f->err), f->err);
    n = strlen(f->path);
    assert_true(n > strlen(end));
    assert_string_equal(f->path + n - strlen(end), end);
}

static void assert_refused(fixture *f, const char *file, hearth_status status, const char *part)
{
    assert_int_equal(hth_adapter_file_find(f->folder, file, f->path, &f->err), status);
    if (!strstr(f->err.message, part))
        fail_msg("'%s' is not in '%s'", part, f->err.message);
}

FIXTURE_TEST(files_beneath_the_folder_are_found)
{
    char path[600];

    assert_found(f, "b.gguf", "/lora/b.gguf");
    assert_found(f, "./b.gguf", "/lora/b.gguf");
    assert_found(f, "a..b.gguf", "/lora/a..b.gguf");
    assert_found(f, "more/c.gguf", "/lora/more/c.gguf");
    assert_found(f, "in.gguf", "/lora/more/c.gguf");
    (void)snprintf(path, sizeof(path), "%s/more/c.gguf", f->folder);
    assert_found(f, path, "/lora/more/c.gguf");
}

FIXTURE_TEST(files_elsewhere_are_refused)
{
    char path[600];

    assert_refused(f, "../secret.gguf", HEARTH_MISUSE, "'..'");
    assert_refused(f, "more/../b.gguf", HEARTH_MISUSE, "'..'");
    assert_refused(f, "more/..", HEARTH_MISUSE, "'..'");
    assert_refused(f, "//..", HEARTH_MISUSE, "'..'");
    assert_refused(f, "out.gguf", HEARTH_MISUSE, "not beneath");
    (void)snprintf(path, sizeof(path), "%s/secret.gguf", f->directory);
    assert_refused(f, path, HEARTH_MISUSE, "not beneath");
    (void)snprintf(path, sizeof(path), "%s/lora-2.gguf", f->directory);
    assert_refused(f, path, HEARTH_MISUSE, "not beneath");
    assert_refused(f, "none.gguf", HEARTH_NOT_FOUND, "'none.gguf'");
    assert_refused(f, "more", HEARTH_MISUSE, "is no file");
    assert_refused(f, "", HEARTH_MISUSE, "not beneath");
    assert_int_equal(hth_adapter_file_find(NULL, "b.gguf", f->path, &f->err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(f->err.message, "lora_dir"));
}

FIXTURE_TEST(the_list_has_the_adapters_of_the_folder)
{
    size_t n_entries = 0;
    json_t *list = hth_adapter_files_list(f->folder, &n_entries);

    assert_int_equal(json_array_size(list), 4);
    assert_int_equal(n_entries, 9); /* with the folder and its parent */
    assert_string_equal(json_string_value(json_array_get(list, 0)), "a..b.gguf");
    assert_string_equal(json_string_value(json_array_get(list, 1)), "b.gguf");
    assert_string_equal(json_string_value(json_array_get(list, 2)), "in.gguf");
    json_decref(list);
    list = hth_adapter_files_list(NULL, &n_entries);
    assert_int_equal(n_entries, 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}
