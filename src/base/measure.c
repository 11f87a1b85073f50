/*
 * measure.c - medians, and a memcpy that is not optimised away
 */
#include "base/measure.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"

void hth_samples_add(hth_samples *samples, double value)
{
    if (samples->n < HTH_SAMPLES_MAX)
        samples->values[samples->n++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double hth_samples_percentile(const hth_samples *samples, double part)
{
    double sorted[HTH_SAMPLES_MAX], place;
    size_t i;

    if (samples->n == 0)
        return 0;
    memcpy(sorted, samples->values, samples->n * sizeof(sorted[0]));
    qsort(sorted, samples->n, sizeof(sorted[0]), compare);
    place = part * (double)(samples->n - 1);
    i = (size_t)place;
    return i + 1 < samples->n ? sorted[i] + (place - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[samples->n - 1];
}

double hth_ms_since(uint64_t begin_ns)
{
    return (double)(hth_os_monotonic_ns() - begin_ns) * 1e-6;
}

bool hth_copy_init(hth_copy *copy, size_t n_bytes)
{
    void *slabs = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *cells = NULL;

    *copy = (hth_copy){ .n_bytes = 0 };
    if (slabs == MAP_FAILED)
        return false;
    if (posix_memalign(&cells, 64, n_bytes) != 0) {
        (void)munmap(slabs, n_bytes); /* it was mapped just now */
        return false;
    }
    hth_os_memory_prefault(slabs, n_bytes);
    memset(slabs, 1, n_bytes);
    memset(cells, 2, n_bytes);
    *copy = (hth_copy){ .slabs = slabs, .cells = cells, .n_bytes = n_bytes };
    return true;
}

void hth_copy_deinit(hth_copy *copy)
{
    if (copy->slabs)
        (void)munmap(copy->slabs, copy->n_bytes); /* as it was mapped */
    free(copy->cells);
    *copy = (hth_copy){ .n_bytes = 0 };
}

double hth_copy_ms(hth_copy *copy)
{
    uint64_t begin = hth_os_monotonic_ns();

    memcpy(copy->cells, copy->slabs, copy->n_bytes);
    __asm__ volatile("" : : "r"(copy->cells) : "memory"); /* the copy must happen */
    return hth_ms_since(begin);
}
