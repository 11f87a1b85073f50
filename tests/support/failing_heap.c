#include "support/failing_heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 8 };

/* The answers of the program's files, filled before main() starts. Those of the files that do not run are all no. */
static bool (*answers[FILES_MAX])(size_t n_bytes);
static size_t n_answers;

void hth_test_heap_ask(bool (*fails)(size_t n_bytes))
{
    assert(n_answers < FILES_MAX);
    answers[n_answers++] = fails;
}

#ifdef HTH_TEST_WRAPS_MALLOC
static bool allocation_fails(size_t n_bytes)
{
    bool fails = false;

    for (size_t i = 0; i < n_answers; i++)
        fails |= answers[i](n_bytes);
    return fails;
}

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
#endif
