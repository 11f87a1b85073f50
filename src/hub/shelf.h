/*
 * shelf.h - a repository's directory in the model cache that the programs of this ecosystem share
 *
 *   CACHE/models--OWNER--REPO/blobs/DIGEST            the bytes of a file, named after their digest
 *   CACHE/models--OWNER--REPO/snapshots/COMMIT/PATH   a link to ../../blobs/DIGEST
 *   CACHE/models--OWNER--REPO/refs/REVISION           the commit that a branch or tag had
 *   CACHE/.locks/models--OWNER--REPO/DIGEST.lock      locked (flock) to download, link or remove the blob
 *
 * The layout is that of the Python library huggingface_hub. A blob has its name only once it is complete.
 */
#ifndef HTH_HUB_SHELF_H
#define HTH_HUB_SHELF_H

#include <limits.h>
#include <stdbool.h>

#include "hearth.h"
#include "hub/listing.h"

typedef struct hth_hub_shelf {
    char folder[PATH_MAX]; /* CACHE/models--OWNER--REPO */
    char locks[PATH_MAX];  /* CACHE/.locks/models--OWNER--REPO */
} hth_hub_shelf;

/* The directories of a repository in the cache, which are not created. HEARTH_MISUSE: the path is too long. */
hearth_status hth_hub_shelf_init(hth_hub_shelf *out, const char *cache, const char *repo, hearth_error *err);

/* Paths of a blob. False if too long. */
bool hth_hub_blob_path(const hth_hub_shelf *shelf, const char *digest, char out[PATH_MAX]);
bool hth_hub_snapshot_path(const hth_hub_shelf *shelf, const char *commit, const char *path, char out[PATH_MAX]);
bool hth_hub_lock_path(const hth_hub_shelf *shelf, const char *digest, char out[PATH_MAX]);

/* Is there a blob at the path, with this size? */
bool hth_hub_blob_is_there(const char *blob, uint64_t bytes);

/* Make the directories above a file. */
hearth_status hth_hub_make_folders(const char *path, hearth_error *err);
/* Write a small file atomically, and make the directories above it. */
hearth_status hth_hub_write_file(const char *path, const char *text, size_t n_bytes, hearth_error *err);

/* The commit of a revision, which may itself be a commit. False if the cache has none. */
bool hth_hub_commit_read(const hth_hub_shelf *shelf, const char *revision, char out[HTH_HUB_COMMIT_BYTES]);
/* Store it. A revision that is a commit needs no ref. */
hearth_status hth_hub_commit_write(const hth_hub_shelf *shelf, const char *revision, const char *commit,
                                   hearth_error *err);

/* Is the file of a snapshot a link to its blob? */
bool hth_hub_is_linked(const hth_hub_shelf *shelf, const char *commit, const hth_hub_file *file);
/*
 * Link the file of a snapshot to its blob; an existing link is replaced. The link's time shows models/trusted_digest.h
 * that the blob had its digest until then.
 */
hearth_status hth_hub_link(const hth_hub_shelf *shelf, const char *commit, const hth_hub_file *file, hearth_error *err);

/*
 * The GGUF files of a snapshot whose bytes are present. digest is the name of the blob; "": the file is not a link. A
 * missing snapshot has none. HEARTH_NO_MEMORY. Release it with hth_hub_listing_deinit.
 */
hearth_status hth_hub_snapshot_read(const hth_hub_shelf *shelf, const char *commit, hth_hub_listing *out,
                                    hearth_error *err);

#endif
