/*
 * pins.h - prefixes that eviction passes over, as a folder of empty files
 *
 *   <directory>/<64 hex digits>   its name is the key of the prefix; it has no bytes
 *
 * So a pin is one name: it is there or not, whatever crashes, it outlives processes, boots and the index, and every
 * process that shares the directory sees it. Other names in the folder are passed over. The folder is made with the
 * first pin.
 */
#ifndef HTH_CACHE_PINS_H
#define HTH_CACHE_PINS_H

#include "base/fs.h"
#include "base/status.h"
#include "cache/key.h"

enum { HTH_PINS_MAX = 1024 }; /* in a folder */

typedef struct hth_pins {
    hth_key *keys; /* [n], sorted */
    size_t n;
    size_t capacity;
} hth_pins;

/* *out is released with hth_pins_deinit. No folder: no pins. HEARTH_IO, HEARTH_PERMISSION, HEARTH_NO_MEMORY. */
hearth_status hth_pins_read(const hth_fs *fs, const char *directory, hth_pins *out, hearth_error *err);
void hth_pins_deinit(hth_pins *pins); /* accepts zeros */
bool hth_pins_has(const hth_pins *pins, const hth_key *key);

/* Is there such a pin? One look at a name; false when that fails. */
bool hth_pin_is_there(const hth_fs *fs, const char *directory, const hth_key *key);
/*
 * Add a pin; one that is there is HEARTH_OK. durable: the name is synced. HEARTH_FULL beyond HTH_PINS_MAX or on a full
 * device, HEARTH_IO, HEARTH_PERMISSION, HEARTH_NO_MEMORY.
 */
hearth_status hth_pin_add(const hth_fs *fs, const char *directory, const hth_key *key, bool durable, hearth_error *err);
/* HEARTH_NOT_FOUND when there is none. */
hearth_status hth_pin_remove(const hth_fs *fs, const char *directory, const hth_key *key, bool durable,
                             hearth_error *err);

#endif
