/*
 * failing_heap.h - allocations of the program that fail on demand
 *
 *     ALLOCATION_FAILS(n_bytes)
 *     {
 *         return failing_heap_counts(&heap);
 *     }
 *
 * The linker sends each call of malloc, calloc, realloc, strdup and strndup to failing_heap.c (ld's --wrap, see
 * more.cmake). Where it cannot, WRAPS_MALLOC is 0, and tests of failing allocations skip.
 */
#ifndef HTH_TESTS_FAILING_HEAP_H
#define HTH_TESTS_FAILING_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef HTH_TEST_WRAPS_MALLOC
enum { WRAPS_MALLOC = 1 };
#else
enum { WRAPS_MALLOC = 0 };
#endif

/* Must this allocation fail? The file answers. n_bytes is the size that malloc got, and 0 in the other functions. */
#define ALLOCATION_FAILS(n_bytes)                                            \
    static bool allocation_fails(size_t n_bytes);                            \
    __attribute__((constructor)) static void allocation_fails_is_asked(void) \
    {                                                                        \
        hth_test_heap_ask(allocation_fails);                                 \
    }                                                                        \
    static bool allocation_fails(__attribute__((unused)) size_t n_bytes)
void hth_test_heap_ask(bool (*fails)(size_t n_bytes));

/* Which allocations fail: those from fail_at on, n_fails of them, counted from 1 while the heap is armed. */
typedef struct failing_heap {
    bool armed;
    uint64_t n;       /* allocations so far */
    uint64_t fail_at; /* 0: none fails */
    uint64_t n_fails;
} failing_heap;

static inline bool failing_heap_counts(failing_heap *heap)
{
    if (!heap->armed)
        return false;
    heap->n++;
    return heap->fail_at > 0 && heap->n >= heap->fail_at && heap->n < heap->fail_at + heap->n_fails;
}

#endif
