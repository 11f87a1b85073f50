/*
 * weight_region.h - weights in the layout that the engine computes with, in a file that processes share by mapping it
 *
 * The engine repacks some weights when it loads a model. A region keeps the result: one process fills it, the others
 * map it. weight_region.c has the protocol and the byte layout.
 *
 * A region is used by one thread at a time.
 */
#ifndef HTH_ENGINE_WEIGHT_REGION_H
#define HTH_ENGINE_WEIGHT_REGION_H

#include "base/status.h"

#define HTH_WEIGHT_LAYOUT_BYTES 32
#define HTH_WEIGHT_MODEL_BYTES 32

typedef struct hth_weight_region hth_weight_region;

typedef struct hth_weight_region_key {
    const char *folder;     /* made with mode 0700 if it is missing */
    const char *model_path; /* the first part of a split model stands for all */
    const uint8_t *model;   /* hth_weight_model_digest from before the engine opened the files; NULL: no check */
    const char *machine;    /* engine and CPU features: other combinations have their own regions */
    size_t n_bytes;         /* at least 1 */
    unsigned number;        /* distinguishes the regions of one model */
    bool keep;              /* the file stays if this holder is the last one */
} hth_weight_region_key;

/* The identity of a model's files: device, inode, size and times. 0, or an error number. Any thread. */
int hth_weight_model_digest(const char *path, uint8_t out[HTH_WEIGHT_MODEL_BYTES]);

/*
 * Map the region if it exists and is complete. Otherwise begin to fill it: its memory is then writable. key is only
 * read during the call. Other files in the folder that no process holds are removed; kept ones stay while their model
 * is unchanged and the machine text is the same. Waits for other processes that are filling the region or examining the
 * folder, for at most half a minute each. HEARTH_BUSY: one took longer. HEARTH_MISUSE: any user may write to the
 * folder, or its owner is neither this user nor root. HEARTH_NO_MEMORY: no room in the folder. HEARTH_IO and others:
 * see the message. After any failure the caller can still let the engine use its own memory.
 */
hearth_status hth_weight_region_open(const hth_weight_region_key *key, hth_weight_region **out, hearth_error *err);

/* n_bytes, aligned to 4096, until close. */
void *hth_weight_region_memory(const hth_weight_region *region);
/* True: the memory is read-only and has its contents. */
bool hth_weight_region_is_filled(const hth_weight_region *region);
/* Is this the layout with which a filled region was published? */
bool hth_weight_region_has_layout(const hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES]);
/* The path of the file, which another process may have removed. */
const char *hth_weight_region_path(const hth_weight_region *region);

/*
 * The caller has filled the memory: it becomes read-only, and other processes can map it. On failure they cannot, and
 * do not wait for it; the memory stays valid.
 */
hearth_status hth_weight_region_publish(hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES],
                                        hearth_error *err);
/*
 * The contents turned out to be wrong, or will not be completed: remove the file, so that no process maps it again or
 * waits for it. This call and close wait for the folder's lock for at most half a minute. Without the lock, the file
 * stays until a process opens a region there.
 */
void hth_weight_region_reject(hth_weight_region *region);
/* Unmap. The last holder removes the file, unless keep is set in that holder's key. Accepts NULL. */
void hth_weight_region_close(hth_weight_region *region);

/* ---- a whole folder: any thread; these functions read files ---- */

/* Total size of the files in a folder that belong to a model, held or not. */
uint64_t hth_weight_regions_bytes(const char *folder, const char *model_path);
/*
 * Remove those that no process holds, kept or not. Does not wait: while another process examines the folder, all stay.
 * Returns the bytes that were freed.
 */
uint64_t hth_weight_regions_drop(const char *folder, const char *model_path);

#endif
