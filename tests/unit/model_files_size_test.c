/*
 * model_files_size_test.c - the files of a model, one or many
 */
#include "wire/needs_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"

static void make(const char *directory, const char *name, off_t n_bytes, char path[600])
{
    int fd;

    (void)snprintf(path, 600, "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, n_bytes), 0);
    assert_int_equal(close(fd), 0);
}

TEST(all_parts_of_a_split_model_count)
{
    char *directory = hth_test_directory_new();
    char path[600], first[600];

    make(directory, "m-00001-of-00003.gguf", 1000, first);
    make(directory, "m-00002-of-00003.gguf", 200, path);
    assert_int_equal(hth_model_files_bytes(first), 1200); /* a missing part counts nothing */
    make(directory, "m-00003-of-00003.gguf", 30, path);
    assert_int_equal(hth_model_files_bytes(first), 1230);
    assert_int_equal(hth_model_files_bytes(path), 1230);
    hth_test_directory_remove(directory);
}

TEST(a_file_of_any_other_name_counts_alone)
{
    static const char *const names[] = { "m.gguf",
                                         "m",
                                         "-00001-of-00003.gguf",
                                         "m-0000x-of-00003.gguf",
                                         "m-00000-of-00003.gguf",
                                         "m-00001-of-00000.gguf",
                                         "m-00004-of-00003.gguf",
                                         "m-00001-of-99999.gguf",
                                         "m-00001-to-00003.gguf",
                                         "m-00001-of-00003.bin" };
    char *directory = hth_test_directory_new();
    char path[600];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        make(directory, names[i], 7, path);
        assert_int_equal(hth_model_files_bytes(path), 7);
    }
    assert_int_equal(hth_model_files_bytes(NULL), 0);
    assert_int_equal(hth_model_files_bytes(""), 0);
    assert_int_equal(hth_model_files_bytes("/nowhere/m-00001-of-00003.gguf"), 0);
    hth_test_directory_remove(directory);
}
