/*
 * failing_heap.h - allocations of the program that fail on demand
 *
 * The linker sends each call of malloc, calloc, realloc, strdup and strndup here (ld's --wrap, see more.cmake), where
 * HTH_TEST_WRAPS_MALLOC is defined. Where it is not, WRAPS_MALLOC is 0, and tests of failing allocations skip. One file
 * of a program includes this header and defines allocation_fails().
 */
#ifndef HTH_TESTS_FAILING_HEAP_H
#define HTH_TESTS_FAILING_HEAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Must this allocation fail? The program answers. n_bytes is the size that malloc got, and 0 in the other functions. */
static bool allocation_fails(size_t n_bytes) __attribute__((unused));

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

#ifdef HTH_TEST_WRAPS_MALLOC
enum { WRAPS_MALLOC = 1 };

/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#define FAILING(result, name, parameters, n_bytes, ...) \
    result __real_##name parameters;                    \
    result __wrap_##name parameters;                    \
    result __wrap_##name parameters                     \
    {                                                   \
        if (!allocation_fails(n_bytes))                 \
            return __real_##name(__VA_ARGS__);          \
        errno = ENOMEM;                                 \
        return NULL;                                    \
    }
FAILING(void *, malloc, (size_t n), n, n)
FAILING(void *, calloc, (size_t n, size_t size), 0, n, size)
FAILING(void *, realloc, (void *memory, size_t n), 0, memory, n)
FAILING(char *, strdup, (const char *text), 0, text)
FAILING(char *, strndup, (const char *text, size_t n), 0, text, n)
#undef FAILING
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#else
enum { WRAPS_MALLOC = 0 };
#endif

#endif
