/*
 * allocations.h - how often our own code asks for memory
 *
 * A program with this file and the linker's --wrap has its calls of malloc, calloc, realloc and their like counted, those of
 * our own layers included, which it links statically; what other libraries do inside is not seen.
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Not where the linker cannot wrap functions. */
bool hth_allocations_are_counted(void);

/* Allocations of the calling thread since it began. */
uint64_t hth_allocations_of_thread(void);

#endif
