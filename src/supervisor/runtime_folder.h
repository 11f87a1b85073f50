/*
 * runtime_folder.h - the folder of a server's sockets, and cleaning up after killed servers
 *
 * A killed server cannot remove its folder, so the next server does. The owner holds a lock, which the system releases
 * when the owner dies. A process id would not work, because another process may have it by then. Event loop only.
 */
#ifndef HTH_SUPERVISOR_RUNTIME_FOLDER_H
#define HTH_SUPERVISOR_RUNTIME_FOLDER_H

#include "base/log.h"
#include "hearth.h"

enum { HTH_RUNTIME_FOLDER_BYTES = 96 };

typedef struct hth_runtime_folder {
    char path[HTH_RUNTIME_FOLDER_BYTES]; /* "": none */
    int lock_fd;                         /* -1: the file system has no locks */
} hth_runtime_folder;

/*
 * Make a folder of mode 0700 with a new name in parent, and make parent if it is missing. parent NULL: the first of
 * $XDG_RUNTIME_DIR, $TMPDIR and /tmp that works. Then remove the folders that dead servers of the same user left there.
 * n_name_max: the most bytes of a socket's path after the folder's path, so that the path fits a socket address. log
 * may be NULL. Errors: statuses of hth_fail_errno, with *out unchanged.
 */
hearth_status hth_runtime_folder_make(const char *parent, size_t n_name_max, const hth_log *log,
                                      hth_runtime_folder *out, hearth_error *err);
/* Remove it, unless it has a file of another process. Accepts a folder with path "". */
void hth_runtime_folder_remove(hth_runtime_folder *folder);

/*
 * Make the folder for the socket of one process, and write the path of the socket to path_out. The process may make and
 * remove files in this folder only, so a hijacked process cannot replace the socket of another model. HEARTH_MISUSE:
 * the path does not fit, and path_out is ""; other statuses as hth_fail_errno.
 */
hearth_status hth_socket_folder_make(const char *folder, unsigned model, uint64_t generation, char *path_out,
                                     size_t capacity, hearth_error *err);
/* Remove socket and folder. Accepts "". path is unchanged afterwards. */
void hth_socket_folder_remove(char *path);

#endif
