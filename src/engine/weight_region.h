/*
 * weight_region.h - weights in the layout that the engine computes with, in a file that processes map
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
    const char *folder;     /* made if it is missing; refused if others than its group may write to it */
    const char *model_path; /* the first part of a split model stands for all */
    const uint8_t *model;   /* its digest before anybody opened it; NULL: that of now */
    const char *machine;    /* engine and features of the processor: others have regions of their own */
    size_t n_bytes;         /* at least 1 */
    unsigned number;        /* of the regions of one model */
    bool keep;              /* the last holder leaves the file */
} hth_weight_region_key;

/* The identity of a model's files: device, inode, size and times. 0, or an error number. */
int hth_weight_model_digest(const char *path, uint8_t out[HTH_WEIGHT_MODEL_BYTES]);

/*
 * Map the region if it is there and whole. Otherwise begin to fill it: its memory is then writable. Waits while
 * another process fills it, for half a minute at most (HEARTH_BUSY). Every failure leaves the caller with the engine's
 * way: memory of its own.
 */
hearth_status hth_weight_region_open(const hth_weight_region_key *key, hth_weight_region **out, hearth_error *err);

/* n_bytes, aligned to 4096, until close. */
void *hth_weight_region_memory(const hth_weight_region *region);
/* True: the memory is read-only and has its contents. */
bool hth_weight_region_is_filled(const hth_weight_region *region);
/* Is this the layout that a filled region was published with? */
bool hth_weight_region_has_layout(const hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES]);
/* The path of the file, which others may have removed. */
const char *hth_weight_region_path(const hth_weight_region *region);

/*
 * The caller has filled the memory: it becomes read-only, and others can map it. On failure they cannot, and do not wait
 * for it; the memory stays.
 */
hearth_status hth_weight_region_publish(hth_weight_region *region, const uint8_t layout[HTH_WEIGHT_LAYOUT_BYTES],
                                        hearth_error *err);
/* The contents turned out wrong, or will not be complete: nobody maps the file again, or waits for it. */
void hth_weight_region_reject(hth_weight_region *region);
/* Unmap. The last holder removes the file, unless its key says keep. Accepts NULL. */
void hth_weight_region_close(hth_weight_region *region);

/*
 * Remove the files in a folder that nobody holds, except kept ones of model files that are as they were. Opening a
 * region does it, too, and removes kept ones of another machine text.
 */
void hth_weight_regions_sweep(const char *folder);
/* Bytes of the files in a folder that are of a model, whoever holds them. */
uint64_t hth_weight_regions_bytes(const char *folder, const char *model_path);
/*
 * Remove those that nobody holds, kept or not. Does not wait: while another process looks at the folder, all stay.
 * Returns the bytes that are free now.
 */
uint64_t hth_weight_regions_drop(const char *folder, const char *model_path);

#endif
