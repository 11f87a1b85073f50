/*
 * download.h - one file of a hub, or of a registry, becomes a blob of the cache
 */
#ifndef HTH_HUB_DOWNLOAD_H
#define HTH_HUB_DOWNLOAD_H

#include "hub/listing.h"
#include "hub/settings.h"
#include "hub/shelf.h"

/* The calls come from the thread that downloads. Any of them may be NULL. */
typedef struct hth_hub_watch {
    /* Several times a second: n_done of the file's bytes are there, some of them from an earlier download. */
    void (*on_progress)(const char *path, uint64_t n_done, uint64_t n_total, void *user_data);
    /* A sentence for people: another process downloads the file, a connection broke. */
    void (*on_note)(const char *text, void *user_data);
    void *user_data;
} hth_hub_watch;

/*
 * Bring the blob of a file of a commit into the cache, and link it in the commit's snapshot. A blob that is there
 * stays; a download that ended early goes on; one of another process is waited for. HEARTH_OK: the blob is whole, and
 * its digest right. HEARTH_CORRUPT: the hub sent wrong bytes, which are deleted, or told wrong sizes. HEARTH_IO: the
 * hub fails or refuses; finished pieces stay for the next try. HEARTH_FULL, HEARTH_PERMISSION: of the cache's files.
 * HEARTH_NO_MEMORY, HEARTH_MISUSE.
 */
hearth_status hth_hub_download(const hth_hub_settings *settings, const hth_hub_shelf *shelf, const char *repo,
                               const char *commit, const hth_hub_file *file, const hth_hub_watch *watch,
                               hearth_error *err);

/* A blob of any server, and its places. The texts are borrowed. */
typedef struct hth_hub_blob {
    const char *repo;         /* in messages */
    const hth_hub_file *file; /* its path is a name in messages; its digest is a SHA-256 */
    const char *url;          /* behind the endpoint */
    const char *path, *lock;  /* files */
    bool is_known;            /* if it is there, its bytes were checked before; otherwise they are checked now */
} hth_hub_blob;

/* The same for it, without a link. */
hearth_status hth_hub_download_blob(const hth_hub_settings *settings, const hth_hub_blob *blob,
                                    const hth_hub_watch *watch, hearth_error *err);

#endif
