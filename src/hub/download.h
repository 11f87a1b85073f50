/*
 * download.h - download one file of a hub or a registry as a blob of the cache
 */
#ifndef HTH_HUB_DOWNLOAD_H
#define HTH_HUB_DOWNLOAD_H

#include "hub/listing.h"
#include "hub/settings.h"
#include "hub/shelf.h"

/* The functions are called on the downloading thread. Any of them may be NULL. */
typedef struct hth_hub_watch {
    /* Called several times a second: n_done of the file's bytes are present, some of them from an earlier download. */
    void (*on_progress)(const char *path, uint64_t n_done, uint64_t n_total, void *user_data);
    /* A message for the user: another process downloads the file, or a connection broke. */
    void (*on_note)(const char *text, void *user_data);
    void *user_data;
} hth_hub_watch;

/*
 * Download the blob of a commit's file into the cache, and link it in the commit's snapshot. An existing blob is kept;
 * an interrupted download is resumed; a download by another process is waited for. HEARTH_OK: the blob is complete and
 * its digest right. HEARTH_CORRUPT: the hub sent wrong bytes, which are deleted, or reported wrong sizes. HEARTH_IO:
 * the hub fails or refuses; finished pieces are kept for the next try. HEARTH_FULL, HEARTH_PERMISSION: for the cache's
 * files. HEARTH_NO_MEMORY, HEARTH_MISUSE.
 */
hearth_status hth_hub_download(const hth_hub_settings *settings, const hth_hub_shelf *shelf, const char *repo,
                               const char *commit, const hth_hub_file *file, const hth_hub_watch *watch,
                               hearth_error *err);

/* A blob of any server, and its paths. The texts are borrowed. */
typedef struct hth_hub_blob {
    const char *repo;         /* in messages */
    const hth_hub_file *file; /* its path is only a name for messages; its digest is a SHA-256 */
    const char *url;          /* after the endpoint */
    const char *path, *lock;  /* files */
    bool is_known;            /* if it exists, its bytes were checked earlier; otherwise they are checked now */
} hth_hub_blob;

/* The same for such a blob, without a link. */
hearth_status hth_hub_download_blob(const hth_hub_settings *settings, const hth_hub_blob *blob,
                                    const hth_hub_watch *watch, hearth_error *err);

#endif
