/*
 * sandbox.h - a worker gives up the rights that it does not need
 *
 * A model file and a request's text reach an engine that parses both in C++. An attacker who takes over the engine
 * shall find a process that can open the model, the cache and no other files of its user, and that cannot start
 * programs, look into other processes or speak to the network. Loading needs more than serving, so there are two steps:
 * files first, before any other thread exists; system calls once the model is loaded. This is a second line of defence:
 * a system without such means logs that, and work goes on.
 */
#ifndef HTH_WORKER_SANDBOX_H
#define HTH_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "models/adapter_spec.h"

typedef struct hth_sandbox_paths {
    /* Readable files and folders with their contents, also behind links. */
    const char *const *read; /* ending with NULL */
    /* Readable files; a link among them opens nothing. */
    const char *const *own_files; /* ending with NULL */
    /* Readable and writable folders. Missing ones are made, with mode 0700. */
    const char *const *write; /* ending with NULL; an empty path is skipped, above, too */
    /* TCP ports, of any machine, that may be connected to. With any port, host names may be looked up, too. */
    const uint16_t *ports; /* ending with 0 */
} hth_sandbox_paths;

/*
 * From now on this thread, and threads that it starts, can open only these paths, the system's programs, libraries and
 * settings, and devices for computing. TCP is closed except for these ports, where the system can do that. Open files
 * stay open. True: it is in force. False: the log has the reason.
 */
bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log);

/*
 * From now on no thread of this process can start programs or processes, look into other processes, signal them or slow
 * them down, change the machine, open other sockets, or make io_uring queues. Existing queues go on within the
 * restrictions that they were made with. moves_threads: the process may put its threads, and those of other processes
 * of its user, on other CPUs. Denied calls fail with EPERM. True: it is in force. False: the log has the reason.
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
