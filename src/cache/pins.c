#include "cache/pins.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hex.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 2 * HTH_KEY_BYTES };

static bool path_of(const char *directory, const hth_key *key, char path[PATH_BYTES])
{
    char hex[NAME_BYTES + 1];

    hth_hex_encode(key->bytes, HTH_KEY_BYTES, hex);
    return (size_t)snprintf(path, PATH_BYTES, "%s/%s", directory, hex) < PATH_BYTES;
}

static hearth_status too_long(const char *directory, hearth_error *err)
{
    return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", directory);
}

/* ---- all pins ---- */

typedef struct reading {
    hth_pins *pins;
    bool out_of_memory;
} reading;

static bool read_name(const char *name, void *user_data)
{
    reading *r = user_data;
    hth_pins *pins = r->pins;
    hth_key key, *keys;

    if (!hth_is_hex(name, NAME_BYTES) || !hth_hex_decode(name, key.bytes, HTH_KEY_BYTES))
        return true;
    keys = (hth_key *)hth_grown(pins->keys, pins->n, &pins->capacity, sizeof(*keys));
    r->out_of_memory = !keys;
    if (!keys)
        return false;
    pins->keys = keys;
    pins->keys[pins->n++] = key;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(((const hth_key *)a)->bytes, ((const hth_key *)b)->bytes, HTH_KEY_BYTES);
}

/* Several folders may have the same pin. */
static void sort_once_each(hth_pins *pins)
{
    size_t n = 0;

    if (pins->n > 0)
        qsort(pins->keys, pins->n, sizeof(pins->keys[0]), compare_keys);
    for (size_t i = 0; i < pins->n; i++)
        if (n == 0 || !hth_key_equal(&pins->keys[n - 1], &pins->keys[i]))
            pins->keys[n++] = pins->keys[i];
    pins->n = n;
}

hearth_status hth_pins_read(const hth_pin_folder *folder, hth_pins *pins, hearth_error *err)
{
    reading r = { .pins = pins };
    int rc = hth_fs_list(folder->fs, folder->directory, read_name, &r);

    sort_once_each(pins);
    if (r.out_of_memory)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the pins of a cache");
    if (rc != 0 && rc != -ENOENT)
        return hth_fail_errno(err, -rc, "cannot read the pins in '%s'", folder->directory);
    return HEARTH_OK;
}

void hth_pins_deinit(hth_pins *pins)
{
    free(pins->keys);
    *pins = (hth_pins){ .keys = NULL };
}

bool hth_pins_has(const hth_pins *pins, const hth_key *key)
{
    return pins->n > 0 && bsearch(key, pins->keys, pins->n, sizeof(pins->keys[0]), compare_keys);
}

/* ---- one pin ---- */

bool hth_pin_file_exists(const hth_pin_folder *folder, const hth_key *key)
{
    char path[PATH_BYTES];
    hth_fs_stat st;

    return path_of(folder->directory, key, path) && hth_fs_stat_path(folder->fs, path, &st) != -ENOENT;
}

static hearth_status check_number(const hth_pin_folder *folder, hearth_error *err)
{
    hth_pins pins = { .keys = NULL };
    hearth_status status = hth_pins_read(folder, &pins, err);

    if (status == HEARTH_OK && pins.n >= HTH_PINS_MAX)
        status = hth_fail(err, HEARTH_FULL, "'%s' has %zu pins, which is the limit; unpin one first", folder->directory,
                          pins.n);
    hth_pins_deinit(&pins);
    return status;
}

/* Make sure that the folder exists and, if the pins are durable, that its name survives a power loss. 0 or -errno. */
static int make_folder(const hth_pin_folder *folder)
{
    const char *end = strrchr(folder->directory, '/');
    char parent[PATH_BYTES];
    int rc = hth_fs_make_directory(folder->fs, folder->directory);

    if ((rc != 0 && rc != -EEXIST) || !folder->durable || !end)
        return rc == -EEXIST ? 0 : rc;
    if (snprintf(parent, sizeof(parent), "%.*s", (int)(end - folder->directory), folder->directory) >= PATH_BYTES)
        return -ENAMETOOLONG;
    return hth_fs_sync_directory(folder->fs, end == folder->directory ? "/" : parent);
}

static hearth_status success(bool added, bool *added_out)
{
    if (added_out)
        *added_out = added;
    return HEARTH_OK;
}

hearth_status hth_pin_add(const hth_pin_folder *folder, const hth_key *key, bool *added_out, hearth_error *err)
{
    char path[PATH_BYTES];
    hearth_status status;
    hth_fs_stat st;
    int fd, rc;

    if (!path_of(folder->directory, key, path))
        return too_long(folder->directory, err);
    if (hth_fs_stat_path(folder->fs, path, &st) == 0)
        return success(false, added_out);
    rc = make_folder(folder);
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot make the folder of pins '%s'", folder->directory);
    status = check_number(folder, err);
    if (status != HEARTH_OK)
        return status;
    fd = hth_fs_open(folder->fs, path, HTH_FS_CREATE);
    if (fd == -EEXIST)
        return success(false, added_out);
    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot make the pin '%s'", path);
    hth_fs_close(folder->fs, fd);
    rc = folder->durable ? hth_fs_sync_directory(folder->fs, folder->directory) : 0;
    if (rc != 0) {
        (void)hth_fs_remove(folder->fs, path); /* if this fails, too, 'hearth cache stat' counts the pin */
        return hth_fail_errno(err, -rc, "cannot make the pin '%s' durable", path);
    }
    return success(true, added_out);
}

hearth_status hth_pin_remove(const hth_pin_folder *folder, const hth_key *key, hearth_error *err)
{
    char path[PATH_BYTES];
    int rc;

    if (!path_of(folder->directory, key, path))
        return too_long(folder->directory, err);
    rc = hth_fs_remove(folder->fs, path);
    if (rc == -ENOENT)
        return HEARTH_NOT_FOUND;
    if (rc == 0 && folder->durable)
        rc = hth_fs_sync_directory(folder->fs, folder->directory);
    return rc == 0 ? HEARTH_OK : hth_fail_errno(err, -rc, "cannot remove the pin '%s'", path);
}
