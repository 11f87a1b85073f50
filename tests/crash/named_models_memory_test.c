/*
 * named_models_memory_test.c - a reload without memory leaves no model of an operator's order out
 *
 * The linker sends allocations to support/failing_heap.h. The n-th allocation of a reload fails, for every n: then the
 * reload is refused, and the set in force stays, or it has all models.
 */
#include <string.h>

#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"
#include "support/serve_set.h"

enum { ALLOCATIONS_MAX = 10000 };

static failing_heap heap;
static hth_problems problems;

ALLOCATION_FAILS(n_bytes)
{
    return failing_heap_counts(&heap);
}

/* True if the allocation to fail came. */
static bool reload_with_failure(const hth_serve_set *set, uint64_t fail_at)
{
    static hth_serve_options flags; /* large */
    char program[] = "serve";
    char *argv[] = { program };
    hth_serve_set *next;

    hth_serve_options_init(&flags);
    flags.named = set->named;
    flags.n_named = set->n_named;
    memset(&problems, 0, sizeof(problems));
    heap = (failing_heap){ .armed = true, .fail_at = fail_at, .n_fails = 1 };
    next = hth_serve_set_new(1, argv, &flags, &problems);
    heap.armed = false;
    if (problems.n_errors == 0) {
        assert_non_null(next);
        if (problems.n > 0)
            fail_msg("allocation %llu: %s", (unsigned long long)fail_at, problems.list[0].message);
        assert_int_equal(next->options.n_models, 2);
    }
    if (next)
        hth_serve_set_free(&next->options);
    return heap.n >= fail_at;
}

TEST(a_reload_without_memory_is_refused_or_has_all_models)
{
    char command[] = "--model one=stub: --listen 127.0.0.1:1";
    hth_serve_set *set, *named;
    uint64_t n = 1;

    if (!WRAPS_MALLOC)
        skip();
    set = hth_test_set_of_flags(command, &problems);
    assert_int_equal(problems.n_errors, 0);
    named = hth_serve_set_with(set, "late", "{\"path\":\"stub:\",\"aliases\":[\"later\"],\"context\":512}", &problems);
    assert_non_null(named);
    hth_serve_set_free(&set->options);
    set = hth_serve_set_with(named, "more", "{\"path\":\"stub:\",\"start\":\"at-once\"}", &problems);
    assert_non_null(set);
    hth_serve_set_free(&named->options);
    assert_string_equal(hth_problems_first(&problems), "");
    while (n < ALLOCATIONS_MAX && reload_with_failure(set, n))
        n++;
    assert_in_range(n, 2, ALLOCATIONS_MAX - 1);
    hth_serve_set_free(&set->options);
}
