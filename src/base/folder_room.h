/*
 * folder_room.h - how much space the files of a folder may take up, and how much their device must keep free
 *
 * A writer of a new file takes the lock of the folder, asks whether there is room, writes, and releases the lock once
 * the file has its name. So several writers, even in different processes, do not use the same space.
 */
#ifndef HTH_BASE_FOLDER_ROOM_H
#define HTH_BASE_FOLDER_ROOM_H

#include "base/fs.h"
#include "base/status.h"

/* All zeros: no limits. */
typedef struct hth_folder_limits {
    uint64_t bytes_max; /* of all files directly in the folder; 0: no limit */
    uint64_t free_min;  /* on the device, in addition to a new file */
} hth_folder_limits;

/*
 * Wait for the lock of the folder of path. *fd_out is released with hth_folder_unlock; -1 on a file system without
 * locks. HEARTH_BUSY: another writer held it for 10 s; HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO; HEARTH_MISUSE:
 * the path is too long.
 */
hearth_status hth_folder_lock(const hth_fs *fs, const char *path, int *fd_out, hearth_error *err);
void hth_folder_unlock(const hth_fs *fs, int fd); /* accepts -1 */

/*
 * Is there room for a file of n_bytes at path? The file that it replaces counts as room only for bytes_max, because
 * both files are on the device until the new one is complete. HEARTH_FULL: no; HEARTH_IO and others: unknown.
 */
hearth_status hth_folder_has_room(const hth_fs *fs, const char *path, uint64_t n_bytes, const hth_folder_limits *limits,
                                  hearth_error *err);

#endif
