/*
 * listing.h - names of models at a hub, and the GGUF files of a repository at one commit, as listed by the hub or found
 * in the cache
 */
#ifndef HTH_HUB_LISTING_H
#define HTH_HUB_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum { HTH_HUB_REPO_BYTES = 200, HTH_HUB_PATH_BYTES = 512 };

/* "OWNER/REPO", "OWNER/REPO:QUANT" or "OWNER/REPO:FILE.gguf" */
typedef struct hth_hub_reference {
    char repo[HTH_HUB_REPO_BYTES];   /* "OWNER/REPO" */
    char choice[HTH_HUB_PATH_BYTES]; /* the quant, or the path of a file in the repository; "": not given */
    bool is_file;                    /* the choice is a path: it ends in ".gguf" */
} hth_hub_reference;

/* HEARTH_MISUSE, with the expected form, if it is not a reference. */
hearth_status hth_hub_reference_read(const char *text, hth_hub_reference *out, hearth_error *err);
/* Could it be meant as a reference? True if it has one '/' before the first ':' and does not look like a file path. */
bool hth_hub_is_reference(const char *text);

/* May a hub's file have this path? Relative, and no part of it is empty, "." or ".."; no control characters. */
bool hth_hub_path_is_safe(const char *path);
/* A branch, a tag or a commit, such as "main" or "refs/pr/1". */
bool hth_hub_revision_is_safe(const char *revision);

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
