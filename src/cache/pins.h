/*
 * pins.h - prefixes that eviction spares, as a folder of empty files
 *
 *   <directory>/<64 hex digits>   the name is the key of the prefix, in lower case; the file is empty
 *
 * A crash leaves a pin whole or absent, because a pin is one name. It outlives processes, boots and the index, and
 * every process that shares the directory sees it. Other names in the folder are ignored. The first pin makes the
 * folder.
 */
#ifndef HTH_CACHE_PINS_H
#define HTH_CACHE_PINS_H

#include "base/fs.h"
#include "base/status.h"
#include "rows/key.h"

enum { HTH_PINS_MAX = 1024 }; /* in a folder; processes that pin at the same time may exceed it by a few */

typedef struct hth_pins {
    hth_key *keys; /* [n], sorted */
    size_t n;
    size_t capacity;
} hth_pins;

typedef struct hth_pin_folder {
    const hth_fs *fs;
    const char *directory; /* may be missing */
    bool durable;          /* sync the folder after a change, and its parent before a pin is added */
} hth_pin_folder;

/*
 * Add the pins in a folder to *pins (initially zeros), each once. Without the folder there are no pins. HEARTH_IO,
 * HEARTH_PERMISSION, HEARTH_NO_MEMORY. The caller releases *pins with hth_pins_deinit, whatever the status.
 */
hearth_status hth_pins_read(const hth_pin_folder *folder, hth_pins *pins, hearth_error *err);
void hth_pins_deinit(hth_pins *pins); /* accepts a zeroed struct */
bool hth_pins_has(const hth_pins *pins, const hth_key *key);

/*
 * Is the prefix pinned? Looks up one name. True also if the lookup fails, because a pinned row must not be removed;
 * false if the path is too long, because no such pin can exist.
 */
bool hth_pin_file_exists(const hth_pin_folder *folder, const hth_key *key);
/*
 * Add a pin. If it already exists, the result is HEARTH_OK and *added_out (may be NULL) is false; it is not synced
 * again. HEARTH_FULL beyond HTH_PINS_MAX or on a full device, HEARTH_IO, HEARTH_PERMISSION, HEARTH_NO_MEMORY;
 * HEARTH_MISUSE: the path is too long. After a failure there is no pin, unless its removal failed, too; `hearth cache
 * stat` then counts it.
 */
hearth_status hth_pin_add(const hth_pin_folder *folder, const hth_key *key, bool *added_out, hearth_error *err);
/*
 * HEARTH_NOT_FOUND, without a message, if there is no such pin. HEARTH_IO, HEARTH_PERMISSION; HEARTH_MISUSE: the path
 * is too long.
 */
hearth_status hth_pin_remove(const hth_pin_folder *folder, const hth_key *key, hearth_error *err);

#endif
