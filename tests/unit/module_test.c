/*
 * module_test.c - an engine module that is missing or wrong is a status that says what to do
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static void a_missing_module_names_the_place_and_the_remedy(void **state)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(hth_backend_llama("/nonexistent/engine", &backend, &err), HEARTH_NOT_FOUND);
    assert_null(backend);
    assert_non_null(strstr(err.message, "/nonexistent/engine"));
    assert_non_null(strstr(err.message, "HEARTH_ENGINE_DIRECTORY"));
}

static void the_environment_names_the_folder_when_the_caller_does_not(void **state)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(setenv("HEARTH_ENGINE_DIRECTORY", "/nonexistent/by-environment", 1), 0);
    assert_int_equal(hth_backend_llama(NULL, &backend, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/by-environment"));
    assert_int_equal(unsetenv("HEARTH_ENGINE_DIRECTORY"), 0);
}

static void a_file_that_is_no_module_is_refused(void **state)
{
    char *directory = hth_test_directory_new();
    const hth_backend *backend = NULL;
    char path[4096];
    hearth_error err;
    FILE *file;

    (void)state;
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

static void a_module_that_is_there_loads_after_failures_and_only_once(void **state)
{
    const hth_backend *first = NULL;
    const hth_backend *second = NULL;
    hearth_error err;

    (void)state;
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &first, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(first->abi, HTH_BACKEND_ABI);
    assert_string_equal(first->name, "llama.cpp");
    assert_int_equal(hth_backend_llama("/nonexistent", &second, &err), HEARTH_OK);
    assert_ptr_equal(first, second);
}

static void a_path_with_the_name_of_another_module_is_served_by_it(void **state)
{
    const hth_backend *backend = NULL;
    hearth_error err;

    (void)state;
    assert_false(hth_model_path_is_file(HTH_TEST_ENGINE_DIR, "stub:"));
    assert_false(hth_model_path_is_file(HTH_TEST_ENGINE_DIR, "stub:kind=window"));
    if (hth_backend_of_model(HTH_TEST_ENGINE_DIR, "stub:kind=window", &backend, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_string_equal(backend->name, "stub");
    if (hth_backend_of_model(HTH_TEST_ENGINE_DIR, "models/stub:tiny.gguf", &backend, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_string_equal(backend->name, "llama.cpp");
}

static void every_other_path_is_a_file_s(void **state)
{
    static const char *const paths[] = {
        "stub",   "stub.gguf",     ":",      ":stub",      "./stub:",      "../stub:",
        "/stub:", "Stub:",         "stub2:", "nonesuch:x", "llama:x.gguf", "",
        "st.ub:", "stub/../stub:", "-stub:", " stub:",     "stub :",       "aaaaaaaaaaaaaaaaaaaaaaaaaaaa:",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (!hth_model_path_is_file(HTH_TEST_ENGINE_DIR, paths[i]))
            fail_msg("'%s' is said to name a module", paths[i]);
    assert_true(hth_model_path_is_file("/nonexistent", "stub:"));
}

static void no_more_engines_than_a_process_has_room_for_are_loaded(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    char *directory = hth_test_directory_new();
    const hth_backend *backend = NULL;
    char path[4096], model[8];
    size_t n_loaded = 0;
    hearth_error err;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_module_names_the_place_and_the_remedy),
        cmocka_unit_test(the_environment_names_the_folder_when_the_caller_does_not),
        cmocka_unit_test(a_file_that_is_no_module_is_refused),
        cmocka_unit_test(a_module_that_is_there_loads_after_failures_and_only_once),
        cmocka_unit_test(a_path_with_the_name_of_another_module_is_served_by_it),
        cmocka_unit_test(every_other_path_is_a_file_s),
        cmocka_unit_test(no_more_engines_than_a_process_has_room_for_are_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
