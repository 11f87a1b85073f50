/*
 * allocations.c - wrappers that the linker puts before the C library's functions (--wrap)
 */
#include "allocations.h"

#include <stddef.h>

static _Thread_local uint64_t n_allocations;

uint64_t hth_allocations_of_thread(void)
{
    return n_allocations;
}

#ifdef HTH_NO_WRAP

bool hth_allocations_are_counted(void)
{
    return false;
}

#else

bool hth_allocations_are_counted(void)
{
    return true;
}

/* Names that --wrap asks for. */
void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *memory, size_t n_bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t n_bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *memory, size_t n_bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n_bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t n_bytes)
{
    n_allocations++;
    return __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
    n_allocations++;
    return __real_calloc(n, n_bytes);
}

void *__wrap_realloc(void *memory, size_t n_bytes)
{
    n_allocations++;
    return __real_realloc(memory, n_bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t n_bytes)
{
    n_allocations++;
    return __real_posix_memalign(out, alignment, n_bytes);
}

char *__wrap_strdup(const char *text)
{
    n_allocations++;
    return __real_strdup(text);
}

#endif
