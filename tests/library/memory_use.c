/*
 * memory_use.c - a library as operators write it for pressure.library, with functions that work and others
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int full(uint64_t *used, uint64_t *total);
EXPORTED int half(uint64_t *used, uint64_t *total);
EXPORTED int empty(uint64_t *used, uint64_t *total);
EXPORTED int nonsense(uint64_t *used, uint64_t *total);
EXPORTED int fails(uint64_t *used, uint64_t *total);
EXPORTED int crashes(uint64_t *used, uint64_t *total);
EXPORTED int hangs(uint64_t *used, uint64_t *total);

static int tell(uint64_t *used, uint64_t *total, uint64_t used_mib, uint64_t total_mib)
{
    *used = used_mib << 20;
    *total = total_mib << 20;
    return 0;
}

int full(uint64_t *used, uint64_t *total)
{
    return tell(used, total, 1000, 1000);
}

int half(uint64_t *used, uint64_t *total)
{
    return tell(used, total, 500, 1000);
}

int empty(uint64_t *used, uint64_t *total)
{
    return tell(used, total, 0, 0);
}

int nonsense(uint64_t *used, uint64_t *total)
{
    return tell(used, total, 2000, 1000);
}

int fails(uint64_t *used, uint64_t *total)
{
    (void)tell(used, total, 500, 1000);
    return 7;
}

int crashes(uint64_t *used, uint64_t *total)
{
    (void)used;
    (void)total;
    abort();
}

int hangs(uint64_t *used, uint64_t *total)
{
    (void)used;
    (void)total;
    for (;;)
        (void)pause(); /* a signal that it survives changes nothing */
}
