/*
 * sandbox.h - drops the rights that a worker does not need
 *
 * A model file and a request's text reach an engine that parses both in C++. An attacker who takes over the engine
 * should find a process that can open the model, the cache and no other files of its user, and that cannot start
 * programs, inspect other processes or use the network. Loading needs more rights than serving, so there are two steps:
 * files first, before any other thread exists; system calls once the model is loaded. This is a second line of defence:
 * a system without support logs that, and the worker goes on.
 */
#ifndef HTH_WORKER_SANDBOX_H
#define HTH_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "models/adapter_spec.h"

typedef struct hth_sandbox_paths {
    /* Readable files and folders with their contents; links are followed. */
    const char *const *read; /* ending with NULL */
    /* Readable files; links are not followed. */
    const char *const *own_files; /* ending with NULL */
    /* Readable and writable folders. Missing ones are made, with mode 0700. */
    const char *const *write; /* ending with NULL; an empty path is skipped, here and above */
    /* TCP ports, on any machine, that may be connected to. If there is one, host names may be looked up, too. */
    const uint16_t *ports; /* ending with 0 */
    bool any_port;         /* all may be connected to */
} hth_sandbox_paths;

/*
 * From now on this thread, and threads that it starts, can open only these paths, the system's programs, libraries and
 * settings, and compute devices. TCP is blocked except for these ports, if the system supports that. Open files stay
 * open. True: the restrictions are in force. False: the log has the reason.
 */
bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log);

/*
 * From now on no thread of this process can start programs or processes, inspect, signal or slow down other processes,
 * change the machine, open other sockets, or make io_uring queues. Existing queues keep the restrictions that they were
 * made with. moves_threads: the process may move its threads, and those of other processes of its user, to other CPUs.
 * Denied calls fail with EPERM. True: the restrictions are in force. False: the log has the reason.
 */
bool hth_sandbox_calls(bool moves_threads, const hth_log *log);

/*
 * The paths of a worker: the model, its draft model, the engine's module, the paths in the runtime's options, the
 * folder of host weights, the socket's folder (NULL: none), and the folder of saved slots (likewise); and the ports of
 * the RPC servers. Release with hth_sandbox_paths_free. NULL without memory.
 */
hth_sandbox_paths *hth_sandbox_paths_of_worker(const char *model_path, const hth_adapter_specs *adapters,
                                               const hearth_model_options *model, const hearth_runtime_options *runtime,
                                               const char *socket_path, const char *slot_directory);
void hth_sandbox_paths_free(hth_sandbox_paths *paths); /* accepts NULL */

#endif
