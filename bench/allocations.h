/*
 * allocations.h - the number of memory allocations of our own code
 *
 * A program with this file and the linker's --wrap counts calls of malloc, calloc, realloc and their like, with those
 * of our own layers, which it links statically. Allocations inside other libraries are not seen.
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* False where the linker cannot wrap functions. */
bool hth_allocations_are_counted(void);

/* Allocations of the calling thread since it began. */
uint64_t hth_allocations_of_thread(void);

#endif
