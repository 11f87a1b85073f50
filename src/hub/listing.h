/*
 * listing.h - the GGUF files of a repository at one commit, as listed by a hub or found in the cache
 */
#ifndef HTH_HUB_LISTING_H
#define HTH_HUB_LISTING_H

#include <stddef.h>
#include <stdint.h>

#include "hearth.h"
#include "hub/reference.h"

enum { HTH_HUB_COMMIT_BYTES = 41, HTH_HUB_DIGEST_BYTES = 65, HTH_HUB_FILES_MAX = 65536 };

typedef struct hth_hub_file {
    char path[HTH_HUB_PATH_BYTES]; /* in the repository; safe */
    /* In hex: the SHA-256, or for a small file git's SHA-1. The name of its blob. */
    char digest[HTH_HUB_DIGEST_BYTES];
    uint64_t bytes;
} hth_hub_file;

typedef struct hth_hub_listing {
    char commit[HTH_HUB_COMMIT_BYTES];
    hth_hub_file *files; /* [n] */
    size_t n, capacity;
} hth_hub_listing;

void hth_hub_listing_deinit(hth_hub_listing *listing);
/* Append a copy. False if out of memory. */
bool hth_hub_listing_add(hth_hub_listing *listing, const hth_hub_file *file);

/*
 * Read a hub's response: {"sha": ..., "siblings": [{"rfilename", "size", "blobId", "lfs": {"sha256", "size"}}]}.
 * HEARTH_CORRUPT if it is not a listing, has an unsafe path, or has two sizes for a file. Release it with
 * hth_hub_listing_deinit, even after a failure.
 */
hearth_status hth_hub_listing_read(const char *text, size_t n_bytes, hth_hub_listing *out, hearth_error *err);

#endif
