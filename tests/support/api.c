#include "support/api.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/greedy.h"
#include "support/support.h"

enum { PATIENCE_MS = 60000, PATH_BYTES = 4096 };

hearth_runtime_options hth_test_runtime_options(const char *directory)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_directory = directory;
    options.ram_bytes_max = 64 << 20;
    options.disk_free_min = 0;
    return options;
}

hearth_runtime *hth_test_runtime_open(const hearth_runtime_options *options)
{
    hearth_runtime *runtime = NULL;
    hearth_error err;

    assert_ok(hearth_runtime_open(options, &runtime, &err), err);
    return runtime;
}

void hth_test_model_end(hearth_runtime *runtime, hearth_model *model)
{
    size_t n_before = 0, n = 0;

    assert_int_equal(hearth_runtime_models(runtime, NULL, 0, &n_before, NULL), HEARTH_OK);
    hearth_model_unref(model);
    do {
        usleep(1000);
        assert_int_equal(hearth_runtime_models(runtime, NULL, 0, &n, NULL), HEARTH_OK);
    } while (n == n_before);
}

hearth_model *hth_test_model_load(hearth_runtime *runtime, const char *path, const hearth_model_options *options)
{
    hearth_model *model = NULL;
    hearth_error err;

    assert_ok(hearth_model_load(runtime, path, options, &model, &err), err);
    return model;
}

void hth_test_runtime_set_up(hth_test_stub *stub)
{
    hearth_runtime_options options;

    stub->directory = hth_test_directory_new();
    options = hth_test_runtime_options(stub->directory);
    stub->runtime = hth_test_runtime_open(&options);
}

void hth_test_stub_set_up(hth_test_stub *stub)
{
    hth_test_runtime_set_up(stub);
    stub->model = hth_test_model_load(stub->runtime, "stub:", NULL);
}

void hth_test_stub_tear_down(hth_test_stub *stub)
{
    hearth_model_unref(stub->model);
    hearth_runtime_close(stub->runtime);
    hth_test_directory_remove(stub->directory);
}

int hth_test_shared_stub_set_up(void **state)
{
    hth_test_stub_set_up(*state = hth_test_fixture_new(sizeof(hth_test_stub)));
    return 0;
}

int hth_test_shared_stub_tear_down(void **state)
{
    hth_test_stub_tear_down(*state);
    free(*state);
    return 0;
}

hearth_request hth_test_greedy(const char *prompt, int32_t n_predict)
{
    hearth_request request = hearth_request_default();

    request.prompt = prompt;
    request.n_predict = n_predict;
    request.sampling = hth_test_greedy_sampling();
    request.ignore_eos = true;
    return request;
}

const hearth_result *hth_test_complete(hearth_model *model, const hearth_request *request)
{
    const hearth_result *result = NULL;
    hearth_error err;

    assert_ok(hearth_complete(model, request, &result, &err), err);
    return result;
}

char *hth_test_prompt(size_t n, unsigned variant)
{
    char *text = malloc(n + 1);

    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + (i * 7 + i / 11 + variant + variant / 26 * i) % 26);
    text[n] = '\0';
    return text;
}

hearth_counters hth_test_counters(hearth_runtime *runtime)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };

    assert_int_equal(hearth_runtime_counters(runtime, &counters, NULL), HEARTH_OK);
    return counters;
}

void hth_test_flush(hearth_runtime *runtime)
{
    /* A removal is queued when the row that supersedes is written. */
    assert_int_equal(hearth_runtime_flush(runtime, PATIENCE_MS, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_flush(runtime, PATIENCE_MS, NULL), HEARTH_OK);
}

/* ---- files ---- */

/* Count the files that end so; the first one's path goes to first, where that is given and still NULL. */
static size_t walk(const char *directory, const char *suffix, char **first)
{
    DIR *folder = opendir(directory);
    struct dirent *entry;
    size_t n = 0;

    if (!folder)
        return 0;
    while ((entry = readdir(folder))) {
        size_t n_name = strlen(entry->d_name);
        char path[PATH_BYTES];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        n += walk(path, suffix, first); /* nothing, for what is no folder */
        if (n_name < strlen(suffix) || strcmp(entry->d_name + n_name - strlen(suffix), suffix) != 0)
            continue;
        n++;
        if (first && !*first)
            *first = strdup(path);
    }
    (void)closedir(folder);
    return n;
}

static void rows_of(const char *directory, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/rows", directory);
}

size_t hth_test_n_files(const char *directory, const char *suffix)
{
    char path[PATH_BYTES];

    rows_of(directory, path);
    return walk(path, suffix, NULL);
}

char *hth_test_file(const char *directory, const char *suffix)
{
    char path[PATH_BYTES];
    char *first = NULL;

    rows_of(directory, path);
    if (walk(path, suffix, &first) == 0)
        fail_msg("no row file ends in '%s'", suffix);
    return first;
}
