/*
 * api.h - what the tests of the public interface share: greedy requests on the stub engine, and looks into a directory
 *
 * Every function fails the running test where something goes wrong.
 */
#ifndef HTH_TESTS_API_H
#define HTH_TESTS_API_H

#include "hearth.h"
#include "support/cmocka_all.h"

/* Options of a runtime that keeps its rows in that directory, with a small RAM tier and no demand on free space. */
hearth_runtime_options hth_test_runtime_options(const char *directory);
hearth_runtime *hth_test_runtime_open(const hearth_runtime_options *options);

/* options may be NULL. */
hearth_model *hth_test_model_load(hearth_runtime *runtime, const char *path, const hearth_model_options *options);

/* Give the last reference back, and wait until the model has saved what it held and is gone. */
void hth_test_model_end(hearth_runtime *runtime, hearth_model *model);

/* What most tests of a model need; to be a test's fixture, released by hth_test_stub_tear_down. */
typedef struct hth_test_stub {
    char *directory; /* of the cache */
    hearth_runtime *runtime;
    hearth_model *model; /* "stub:" */
} hth_test_stub;
void hth_test_stub_set_up(hth_test_stub *stub);

/* The same without a model, which the test may load there. */
void hth_test_runtime_set_up(hth_test_stub *stub);
void hth_test_stub_tear_down(hth_test_stub *stub);

#define STUB_TEST(name) TEST_WITH(hth_test_stub, f, name, hth_test_stub_set_up, hth_test_stub_tear_down)
#define RUNTIME_TEST(name) TEST_WITH(hth_test_stub, f, name, hth_test_runtime_set_up, hth_test_stub_tear_down)

/* One stub for all tests of a file: GROUP(with_a_stub, hth_test_shared_stub_set_up, hth_test_shared_stub_tear_down). */
#define SHARED_STUB_TEST(name) TEST_IN(hth_test_stub, f, name, NULL, NULL)
int hth_test_shared_stub_set_up(void **state);
int hth_test_shared_stub_tear_down(void **state);

/* The likeliest n_predict tokens, whatever they are. */
hearth_request hth_test_greedy(const char *prompt, int32_t n_predict);
const hearth_result *hth_test_complete(hearth_model *model, const hearth_request *request);

/* A prompt of n bytes, released with free; the stub has a token for each, after one that begins every text. */
char *hth_test_prompt(size_t n, unsigned variant);

hearth_counters hth_test_counters(hearth_runtime *runtime);

/* Wait until everything is written, and what that superseded is removed. */
void hth_test_flush(hearth_runtime *runtime);

/* Row files below the directory whose name ends so: "-tail.kvc", ".kvc". */
size_t hth_test_n_files(const char *directory, const char *suffix);
/* The first one that is found; released with free. */
char *hth_test_file(const char *directory, const char *suffix);

#endif
