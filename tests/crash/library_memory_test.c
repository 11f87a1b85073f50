/*
 * library_memory_test.c - every allocation of a program's thread in the library fails in turn
 *
 * The linker sends allocations to support/failing_heap.h. A script opens a runtime, loads a model and asks it, with the
 * n-th allocation failing, for every n. Nothing crashes or leaks, and a call that fails reports HEARTH_NO_MEMORY.
 */
#include "hearth.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"

enum { ALLOCATIONS_MAX = 10000 };

static _Thread_local failing_heap heap;

ALLOCATION_FAILS(n_bytes)
{
    return failing_heap_counts(&heap);
}

static hearth_status tokenize(hearth_model *model, hearth_error *err)
{
    hearth_token tokens[64];
    char *text = NULL;
    size_t n = 0;
    hearth_status status = hearth_tokenize(model, "to and fro", 10, HEARTH_TOKENIZE_BOS, tokens, 64, &n, err);

    if (status == HEARTH_OK)
        status = hearth_detokenize(model, tokens, n, true, &text, NULL, err);
    hearth_free(text);
    return status;
}

static hearth_status complete(hearth_model *model, hearth_error *err)
{
    static const char *const stop[] = { "~~" };
    hearth_request request = hearth_request_default();
    const hearth_result *results[2];
    hearth_status status;

    request.prompt = "Once upon a time";
    request.n = 2;
    request.n_predict = 4;
    request.stop = stop;
    request.n_stop = 1;
    status = hearth_complete(model, &request, results, err);
    for (int i = 0; i < 2; i++)
        hearth_result_unref(results[i]);
    return status;
}

static hearth_status ask(hearth_model *model, hearth_error *err)
{
    hearth_request request = hearth_request_default();
    hearth_explanation explanation = { .struct_size = sizeof(explanation) };
    hearth_status status = tokenize(model, err);

    request.prompt = "Twice";
    if (status == HEARTH_OK)
        status = hearth_explain(model, &request, &explanation, err);
    return status == HEARTH_OK ? complete(model, err) : status;
}

/* fail_at 0: none fails. True if the allocation to fail came. */
static bool run_with_failure(uint64_t fail_at)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model *model = NULL;
    hearth_error err = { .message = "" };
    hearth_status status;

    options.cache_disabled = true;
    heap = (failing_heap){ .armed = true, .fail_at = fail_at, .n_fails = 1 };
    status = hearth_runtime_open(&options, &runtime, &err);
    if (status == HEARTH_OK)
        status = hearth_model_load(runtime, "stub:", NULL, &model, &err);
    if (status == HEARTH_OK)
        status = ask(model, &err);
    heap.armed = false;
    if (status != HEARTH_OK && (fail_at == 0 || status != HEARTH_NO_MEMORY || err.status != status || !err.message[0]))
        fail_msg("allocation %llu: status %d, %s", (unsigned long long)fail_at, (int)status, err.message);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return heap.n >= fail_at;
}

TEST(a_call_without_memory_says_so)
{
    uint64_t n = 1;

    if (!WRAPS_MALLOC)
        skip();
    (void)run_with_failure(0); /* the engine stays loaded */
    while (n < ALLOCATIONS_MAX && run_with_failure(n))
        n++;
    assert_in_range(n, 2, ALLOCATIONS_MAX - 1);
}
