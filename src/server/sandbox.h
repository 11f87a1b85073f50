/*
 * sandbox.h - a worker gives up what it does not need of the system
 *
 * A model file and a request's text reach an engine that parses both in C++. Whoever takes it over should find a process
 * that can open the model, the cache, and nothing else of its user's files; that cannot start programs, look into other
 * processes or speak to the network. Two steps, because loading needs more than serving: files first, before any other
 * thread exists; system calls once the model is loaded. A second line of defence: where the system knows no such thing,
 * that is logged and work goes on.
 */
#ifndef HTH_SERVER_SANDBOX_H
#define HTH_SERVER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

typedef struct hth_sandbox_paths {
    /* Files, and folders with all that is in them, that may be read; the parts of a split model with its first one. */
    const char *const *read; /* ending with NULL */
    /* Folders that may be read and written; those that do not exist are made, mode 0700. */
    const char *const *write; /* ending with NULL; an empty path stands for nothing, above, too */
    /* TCP ports, of any machine, that may be connected to; where there are some, names of machines may be looked up. */
    const uint16_t *ports; /* ending with 0 */
} hth_sandbox_paths;

/*
 * From now on this thread, and those it starts, can open these paths, the system's programs, libraries and settings, and
 * devices for computing; nothing else. TCP is closed, but for these ports, where the system can do that. Files that are open stay open. True:
 * it is in force; otherwise the log says why not.
 */
bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log);

/*
 * From now on all threads of this process can neither start programs and processes, nor look into others, signal or slow
 * them down, nor change the machine, nor reach other sockets than those they have, nor make queues of io_uring: those that
 * there are go on, as far as they were restricted when they were made. Such calls fail with EPERM. True: it is in force; otherwise the
 * log says why not.
 */
bool hth_sandbox_calls(const hth_log *log);

/*
 * The paths of a worker: the model, the engine's module, what the runtime's options name, the socket's folder, and that of
 * saved slots (NULL: none); and the ports of the RPC servers (NULL: none). Released with hth_sandbox_paths_free; NULL without memory.
 */
hth_sandbox_paths *hth_sandbox_paths_of_worker(const char *model_path, const char *rpc_servers,
                                               const hearth_runtime_options *runtime, const char *socket_path,
                                               const char *slot_directory);
void hth_sandbox_paths_free(hth_sandbox_paths *paths); /* accepts NULL */

#endif
