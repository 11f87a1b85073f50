/*
 * small_device.h - the system's file operations on a device that has so much room and no more
 *
 * What the files below a directory are long is taken from a capacity: that is what is free, and a write that needs more
 * fails as it would on a full device.
 */
#ifndef HTH_TEST_SMALL_DEVICE_H
#define HTH_TEST_SMALL_DEVICE_H

#include "base/fs.h"

typedef struct test_small_device {
    hth_fs fs; /* what to pass on; its context is this struct */
    const char *directory;
    uint64_t capacity;
    uint64_t n_others;   /* bytes that others than the cache hold */
    bool hides_fullness; /* says that all of capacity is free, and refuses writes all the same */
} test_small_device;

/* directory outlives the device; nothing needs to be there yet. */
void test_small_device_init(test_small_device *device, const char *directory, uint64_t capacity);
/* What is free in truth. */
uint64_t test_small_device_free(const test_small_device *device);

#endif
