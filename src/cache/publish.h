/*
 * publish.h - make a row file visible, whole or not at all
 */
#ifndef HTH_CACHE_PUBLISH_H
#define HTH_CACHE_PUBLISH_H

#include <stdatomic.h>

#include "base/fs.h"
#include "base/log.h"
#include "index/index.h"
#include "rows/row_file.h"

/*
 * How a complete file gets its final name. A probe at the start picks the first way that works. All are safe on a
 * network file system, which has only the second and third: if the answer to a link or rename gets lost, reading the
 * file with the final name shows whether it was carried out.
 */
typedef enum hth_publish_way {
    HTH_PUBLISH_PROBED,  /* as an option: use the first way that works */
    HTH_PUBLISH_UNNAMED, /* a file without a name is linked */
    HTH_PUBLISH_LINK,    /* a file with a temporary name gets a second name and loses the first */
    HTH_PUBLISH_RENAME,  /* a file with a temporary name is renamed, for file systems without links */
} hth_publish_way;

typedef struct hth_publisher {
    hth_row_files rows;
    const hth_log *log;
    hth_index *index;
    const char *temporary_directory;  /* on the same device */
    const char *quarantine_directory; /* likewise; for entries with the name of a row that are not files */
    hth_publish_way way;
    bool durable;
    _Atomic uint64_t n_temporaries; /* makes the names of temporary files unique */
    /* Inodes of fan-out folders that only we can write to and whose own names are durable, if the tier is; 0: none. */
    _Atomic uint64_t folders_known[256];
} hth_publisher;

typedef enum hth_publish_result {
    HTH_PUBLISH_WRITTEN, /* the row was not there before */
    HTH_PUBLISH_ADOPTED, /* the file was already there, but the index did not know it */
    HTH_PUBLISH_EXISTED, /* the row was already there */
    HTH_PUBLISH_TAKEN,   /* another writer holds the reservation; the row may be there or not */
} hth_publish_result;

/*
 * Find out which way works in this directory, or whether the requested one works. Fails if none does: nothing can be
 * written there.
 */
hearth_status hth_publish_probe(const hth_fs *fs, const char *temporary_directory, uint64_t token,
                                hth_publish_way wanted, hth_publish_way *out, hearth_error *err);

/*
 * Find the existing fan-out folders, and make their names durable. HEARTH_PERMISSION if other users own one of them or
 * can write to it: they could put rows into it.
 */
hearth_status hth_publish_check_folders(hth_publisher *publisher, hearth_error *err);
/* Make the names in the fan-out folder of a row durable, if the tier is durable. 0 or -errno. */
int hth_publish_sync_folder(hth_publisher *publisher, const hth_row_id *id);

/*
 * Publish a complete KVC file as the row meta, after checking it in full. After a failure, at most a temporary name
 * remains, or the complete row if only the sync of its directory failed. *is_known_out is always set. True: the index
 * has the row; false: perhaps not. HEARTH_MISUSE or HEARTH_CORRUPT if the file is not that row; HEARTH_FULL, HEARTH_IO,
 * HEARTH_PERMISSION, HEARTH_NO_MEMORY. Writer threads only.
 */
hearth_status hth_publish(hth_publisher *publisher, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                          hth_publish_result *out, bool *is_known_out, hearth_error *err);

#endif
