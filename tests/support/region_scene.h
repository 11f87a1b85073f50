/*
 * region_scene.h - what tests of regions of weights share: a folder, a model's file, and weights to fill a region with
 */
#ifndef HTH_TESTS_REGION_SCENE_H
#define HTH_TESTS_REGION_SCENE_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/weight_region.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PATH_BYTES = 4096, N_BYTES = 300000 };

static const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES] = { 7, 8, 9 };

typedef struct fixture {
    char *directory;
    char folder[PATH_BYTES];
    char model[PATH_BYTES];
    hth_weight_region_key key;
    hearth_error err;
} fixture;

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    assert_true((size_t)snprintf(f->folder, sizeof(f->folder), "%s/regions", f->directory) < sizeof(f->folder));
    assert_true((size_t)snprintf(f->model, sizeof(f->model), "%s/m.gguf", f->directory) < sizeof(f->model));
    write_file(f->model, "weights");
    f->key =
        (hth_weight_region_key){ .folder = f->folder, .model_path = f->model, .machine = "engine", .n_bytes = N_BYTES };
}

static inline void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static inline hth_weight_region *open_region(fixture *f)
{
    hth_weight_region *region = NULL;

    assert_ok(hth_weight_region_open(&f->key, &region, &f->err), f->err);
    assert_int_equal((uintptr_t)hth_weight_region_memory(region) % 4096, 0);
    return region;
}

static inline uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + 5);
}

static inline void fill(hth_weight_region *region)
{
    uint8_t *memory = hth_weight_region_memory(region);

    for (size_t i = 0; i < N_BYTES; i++)
        memory[i] = byte_at(i);
}

static inline bool has_weights(const hth_weight_region *region)
{
    const uint8_t *memory = hth_weight_region_memory(region);

    for (size_t i = 0; i < N_BYTES; i++)
        if (memory[i] != byte_at(i))
            return false;
    return true;
}

static inline hth_weight_region *publish(fixture *f)
{
    hth_weight_region *region = open_region(f);

    assert_false(hth_weight_region_is_filled(region));
    fill(region);
    assert_ok(hth_weight_region_publish(region, layout, &f->err), f->err);
    assert_true(hth_weight_region_is_filled(region));
    return region;
}

/* Open a region of another model in the folder, for a moment. False: it cannot be opened. */
static inline bool sweep(const fixture *f)
{
    char model[PATH_BYTES];
    const hth_weight_region_key key = {
        .folder = f->folder, .model_path = model, .machine = f->key.machine, .n_bytes = 1
    };
    hth_weight_region *region = NULL;
    hearth_status status;

    assert_true((size_t)snprintf(model, sizeof(model), "%s/sweeper.gguf", f->directory) < sizeof(model));
    write_file(model, "sweeper");
    status = hth_weight_region_open(&key, &region, NULL);
    hth_weight_region_close(region);
    return status == HEARTH_OK;
}

static inline size_t n_files(const fixture *f)
{
    DIR *directory = opendir(f->folder);
    const struct dirent *entry;
    size_t n = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)))
        n += entry->d_name[0] != '.';
    (void)closedir(directory);
    return n;
}

#endif
