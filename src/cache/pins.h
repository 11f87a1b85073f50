/*
 * pins.h - prefixes that eviction spares, as a folder of empty files
 *
 *   <directory>/<64 hex digits>   the name is the key of the prefix; the file is empty
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

enum { HTH_PINS_MAX = 1024 }; /* in a folder */

typedef struct hth_pins {
    hth_key *keys; /* [n], sorted */
    size_t n;
    size_t capacity;
} hth_pins;

typedef struct hth_pin_folder {
    const hth_fs *fs;
    const char *directory; /* may be missing */
    bool durable;          /* sync the names of pins and of the folder */
} hth_pin_folder;

/*
 * Add the pins in a folder to *pins (initially zeros), each once. Without the folder there are no pins. HEARTH_IO,
 * HEARTH_PERMISSION, HEARTH_NO_MEMORY. The caller releases *pins with hth_pins_deinit, whatever the status.
 */
hearth_status hth_pins_read(const hth_pin_folder *folder, hth_pins *pins, hearth_error *err);
void hth_pins_deinit(hth_pins *pins); /* accepts a zeroed struct */
bool hth_pins_has(const hth_pins *pins, const hth_key *key);

/* Is the prefix pinned? Looks up one name. True if the lookup fails, because a pinned row must not be removed. */
bool hth_pin_is_there(const hth_pin_folder *folder, const hth_key *key);
/*
 * Add a pin. If it already exists, the result is HEARTH_OK and *added_out (may be NULL) is false. HEARTH_FULL beyond
 * HTH_PINS_MAX or on a full device, HEARTH_IO, HEARTH_PERMISSION, HEARTH_NO_MEMORY: no pin was added.
 */
hearth_status hth_pin_add(const hth_pin_folder *folder, const hth_key *key, bool *added_out, hearth_error *err);
/* HEARTH_NOT_FOUND, without a message, if there is no such pin. */
hearth_status hth_pin_remove(const hth_pin_folder *folder, const hth_key *key, hearth_error *err);

#endif
