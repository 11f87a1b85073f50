/*
 * whole_file.h - a file that gets its name when it is complete
 *
 * The bytes go to a temporary name in the same folder. Committing syncs the file and gives it its final name. So an
 * incomplete file never appears under that name, even after a power cut. A process that dies earlier leaves at most a
 * temporary file, ".<name>.<16 hex digits>.part", which hth_whole_file_sweep removes.
 */
#ifndef HTH_BASE_WHOLE_FILE_H
#define HTH_BASE_WHOLE_FILE_H

#include "base/fs.h"
#include "base/status.h"

typedef struct hth_whole_file hth_whole_file; /* one thread at a time */

typedef enum hth_whole_file_mode {
    HTH_WHOLE_FILE_NEW,     /* the name must be free, now and at the commit */
    HTH_WHOLE_FILE_REPLACE, /* an existing file is replaced */
} hth_whole_file_mode;

/*
 * Begin a file, mode 0600. fs must outlive it; path is copied. HEARTH_MISUSE: the file must be new but the name is
 * taken, the name is a directory, or the path is too long. HEARTH_NOT_FOUND: no such folder. HEARTH_PERMISSION,
 * HEARTH_FULL, HEARTH_IO, HEARTH_NO_MEMORY. End it with hth_whole_file_commit or hth_whole_file_abort.
 */
hearth_status hth_whole_file_begin(const hth_fs *fs, const char *path, hth_whole_file_mode mode, hth_whole_file **out,
                                   hearth_error *err);

/* Append. After a failure (HEARTH_FULL, HEARTH_IO) only hth_whole_file_abort is allowed. */
hearth_status hth_whole_file_write(hth_whole_file *file, const void *bytes, size_t n_bytes, hearth_error *err);

/*
 * Only with hth_fs_system(): its descriptor, to set owner and mode before it has its final name. The file keeps owning
 * it.
 */
int hth_whole_file_descriptor(const hth_whole_file *file);

/* Its temporary path, for code that writes it or reads it back by name. Owned by file. */
const char *hth_whole_file_temporary_path(const hth_whole_file *file);

/*
 * Make the file durable and give it its name. Frees file, also on failure. HEARTH_MISUSE: the name of a new file was
 * taken in the meantime; HEARTH_FULL, HEARTH_PERMISSION, HEARTH_IO. After a failure the name refers to the same file as
 * before, or, if only the sync of the folder failed, to the whole new file.
 */
hearth_status hth_whole_file_commit(hth_whole_file *file, hearth_error *err);

/* Discard the file, leaving nothing behind. Accepts NULL. */
void hth_whole_file_abort(hth_whole_file *file);

/* Commit if beginning and writing returned HEARTH_OK (so_far), otherwise abort. Returns the first failure. */
hearth_status hth_whole_file_end(hth_whole_file *file, hearth_status so_far, hearth_error *err);

/* Remove the temporary files that dead processes of this user left in the folder of path. */
void hth_whole_file_sweep(const char *path);

#endif
