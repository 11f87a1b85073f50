/*
 * runtime_folder.h - the folder of a server's sockets, and those that killed servers have left
 *
 * A server that is killed cannot remove its folder, so the next one does. Whose folder it is, a lock tells that its
 * owner holds and the system takes away with it: not a process id, which may be another's by then. Event loop only.
 */
#ifndef HTH_SERVER_RUNTIME_FOLDER_H
#define HTH_SERVER_RUNTIME_FOLDER_H

#include "base/log.h"
#include "hearth.h"

enum { HTH_RUNTIME_FOLDER_BYTES = 96 };

typedef struct hth_runtime_folder {
    char path[HTH_RUNTIME_FOLDER_BYTES]; /* "": none */
    int lock_fd;                         /* -1: the file system has no locks */
} hth_runtime_folder;

/*
 * Make a folder of mode 0700, with a name of its own, in parent, which is made where it is missing; NULL: in
 * $XDG_RUNTIME_DIR, $TMPDIR or /tmp, whichever will do. Remove there what servers of the same user that are dead have
 * left. n_name_max: bytes that the path of a socket in it has behind the folder's; the whole fits the system's
 * addresses. HEARTH_IO, HEARTH_PERMISSION and others that hth_fail_errno makes, with *out as it was. log may be NULL.
 */
hearth_status hth_runtime_folder_make(const char *parent, size_t n_name_max, const hth_log *log,
                                      hth_runtime_folder *out, hearth_error *err);
/* Remove it; what somebody else put there stays, with the folder. Accepts one that is none. */
void hth_runtime_folder_remove(hth_runtime_folder *folder);

/*
 * Make the folder of one process' socket, and write the socket's path to path_out. The process may make and remove
 * files in this folder only, so a process that was taken over cannot replace the socket of another model. HEARTH_MISUSE
 * for a path that does not fit, with path_out ""; others as hth_fail_errno makes them.
 */
hearth_status hth_socket_folder_make(const char *folder, unsigned model, uint64_t generation, char *path_out,
                                     size_t capacity, hearth_error *err);
/* Remove socket and folder. path is as it was before; "" is accepted. */
void hth_socket_folder_remove(char *path);

#endif
