/*
 * module_test.c - an engine module that is missing or wrong is a status that says what to do
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(a_missing_module_names_the_place_and_the_remedy)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    assert_int_equal(hth_backend_llama("/nonexistent/engine", &backend, &err), HEARTH_NOT_FOUND);
    assert_null(backend);
    assert_non_null(strstr(err.message, "/nonexistent/engine"));
    assert_non_null(strstr(err.message, "HEARTH_ENGINE_DIRECTORY"));
}

TEST(the_environment_names_the_folder_when_the_caller_does_not)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    assert_int_equal(setenv("HEARTH_ENGINE_DIRECTORY", "/nonexistent/by-environment", 1), 0);
    assert_int_equal(hth_backend_llama(NULL, &backend, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/by-environment"));
    assert_int_equal(unsetenv("HEARTH_ENGINE_DIRECTORY"), 0);
}

TEST(a_file_that_is_no_module_is_refused)
{
    char *directory = hth_test_directory_new();
    const hth_backend *backend = NULL;
    char path[4096];
    hearth_error err;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/hearth-llama.so", directory);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs("no library", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hth_backend_llama(directory, &backend, &err), HEARTH_ENGINE);
    assert_null(backend);
    assert_non_null(strstr(err.message, path));
    hth_test_directory_remove(directory);
}

TEST(a_module_that_is_there_loads_after_failures_and_only_once)
{
    const hth_backend *first = NULL;
    const hth_backend *second = NULL;
    hearth_error err;

    assert_ok(hth_backend_llama(HTH_TEST_ENGINE_DIR, &first, &err), err);
    assert_int_equal(first->abi, HTH_BACKEND_ABI);
    assert_string_equal(first->name, "llama.cpp");
    assert_int_equal(hth_backend_llama(HTH_TEST_ENGINE_DIR "/.", &second, &err), HEARTH_OK); /* the same file */
    assert_ptr_equal(first, second);
    assert_int_equal(hth_backend_llama(NULL, &second, &err), HEARTH_OK);
    assert_ptr_equal(first, second);
}

static void copy_file(const char *from, const char *to, const char *more)
{
    char command[3 * 4096];

    (void)snprintf(command, sizeof(command), "cp '%s' '%s' && printf '%s' >>'%s'", from, to, more, to);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): paths of the test's own */
}

/* Code cannot be loaded twice, so a directory with another module of the same name is an error and not ignored. */
TEST(a_module_from_another_directory_is_refused_once_one_is_loaded)
{
    char *directory = hth_test_directory_new();
    const hth_backend *backend = NULL;
    char path[4096];
    hearth_error err;

    assert_int_equal(hth_backend_of_model(HTH_TEST_ENGINE_DIR, "stub:", &backend, &err), HEARTH_OK);
    assert_int_equal(hth_backend_llama(directory, &backend, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, directory));
    (void)snprintf(path, sizeof(path), "%s/hearth-stub.so", directory);
    copy_file(HTH_TEST_ENGINE_DIR "/hearth-stub.so", path, "");
    assert_int_equal(hth_backend_of_model(directory, "stub:", &backend, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, HTH_TEST_ENGINE_DIR));
    hth_test_directory_remove(directory);
}

/* The fingerprint of a model path, in a process of its own, which loads the module from directory. */
static void fingerprint_of(const char *directory, const char *model_path, uint8_t out[32])
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const hth_backend *backend;
        hearth_error err;

        if (hth_backend_of_model(directory, model_path, &backend, &err) != HEARTH_OK)
            _exit(1);
        hth_module_fingerprint(model_path, out);
        _exit(write(ends[1], out, 32) != 32);
    }
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], out, 32), 32);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Rows of the old module's models would else be given to those of the new one. */
TEST(a_module_that_was_replaced_in_place_has_other_models)
{
    char *directory = hth_test_directory_new();
    uint8_t first[32], again[32], other[32], replaced[32];
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/hearth-mine.so", directory);
    copy_file(HTH_TEST_ENGINE_DIR "/hearth-stub.so", path, "");
    fingerprint_of(directory, "mine:", first);
    fingerprint_of(directory, "mine:", again);
    fingerprint_of(directory, "mine:kind=window", other);
    copy_file(HTH_TEST_ENGINE_DIR "/hearth-stub.so", path, "a later build");
    fingerprint_of(directory, "mine:", replaced);
    assert_memory_equal(first, again, 32);
    assert_memory_not_equal(first, other, 32);
    assert_memory_not_equal(first, replaced, 32);
    hth_test_directory_remove(directory);
}

/* In a process of its own, since such a module stays. */
TEST(a_module_that_changes_while_it_is_loaded_is_refused_from_then_on)
{
    char *directory = hth_test_directory_new();
    int wait_status;
    pid_t child;

    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const hth_backend *backend = NULL;
        char path[4096];
        hearth_error err;
        bool ok = true;

        (void)snprintf(path, sizeof(path), "%s/hearth-torn.so", directory);
        copy_file(HTH_TEST_ENGINE_DIR "/hearth-stub.so", path, "");
        (void)setenv("HTH_TEST_MODULE_APPENDS_TO", path, 1);
        for (int i = 0; i < 2; i++)
            ok = ok && hth_backend_of_model(directory, "torn:", &backend, &err) == HEARTH_IO && !backend &&
                 strstr(err.message, path) && strstr(err.message, "start another process");
        _exit(!ok);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
    hth_test_directory_remove(directory);
}

TEST(a_path_with_the_name_of_another_module_is_served_by_it)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    assert_false(hth_model_path_is_file(HTH_TEST_ENGINE_DIR, "stub:"));
    assert_false(hth_model_path_is_file(HTH_TEST_ENGINE_DIR, "stub:kind=window"));
    assert_ok(hth_backend_of_model(HTH_TEST_ENGINE_DIR, "stub:kind=window", &backend, &err), err);
    assert_string_equal(backend->name, "stub");
    assert_ok(hth_backend_of_model(HTH_TEST_ENGINE_DIR, "models/stub:tiny.gguf", &backend, &err), err);
    assert_string_equal(backend->name, "llama.cpp");
}

TEST(every_other_path_is_a_file_s)
{
    static const char *const paths[] = {
        "stub",   "stub.gguf",     ":",      ":stub",      "./stub:",      "../stub:",
        "/stub:", "Stub:",         "stub2:", "nonesuch:x", "llama:x.gguf", "",
        "st.ub:", "stub/../stub:", "-stub:", " stub:",     "stub :",       "aaaaaaaaaaaaaaaaaaaaaaaaaaaa:",
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (!hth_model_path_is_file(HTH_TEST_ENGINE_DIR, paths[i]))
            fail_msg("'%s' is said to name a module", paths[i]);
    assert_true(hth_model_path_is_file("/nonexistent", "stub:"));
}

TEST(no_more_engines_than_a_process_has_room_for_are_loaded)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    char *directory = hth_test_directory_new();
    const hth_backend *backend = NULL;
    char path[4096], model[8];
    size_t n_loaded = 0;
    hearth_error err;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/hearth-%s.so", directory, names[i]);
        assert_int_equal(symlink(HTH_TEST_ENGINE_DIR "/hearth-stub.so", path), 0);
        (void)snprintf(model, sizeof(model), "%s:", names[i]);
        if (hth_backend_of_model(directory, model, &backend, &err) == HEARTH_OK)
            n_loaded++;
    }
    assert_int_equal(n_loaded, 2); /* besides those of the tests above */
    assert_int_equal(hth_backend_of_model(directory, "d:", &backend, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "hearth-d"));
    assert_int_equal(hth_backend_of_model(directory, "a:", &backend, &err), HEARTH_OK); /* loaded before */
    hth_test_directory_remove(directory);
}
