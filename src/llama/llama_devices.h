/*
 * llama_devices.h - the backends of llama.cpp and their devices, here and on RPC servers
 */
#ifndef HTH_LLAMA_LLAMA_DEVICES_H
#define HTH_LLAMA_LLAMA_DEVICES_H

#include <ggml-backend.h>

#include "hearth.h"

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"
#include "engine/backend.h"
#include "engine/engine_options.h"

enum { HTH_LLAMA_DEVICES_MAX = HTH_DEVICES_MAX };

/* The devices besides the CPU that can take layers of a model. */
typedef struct hth_llama_devices {
    ggml_backend_dev_t all[HTH_LLAMA_DEVICES_MAX + 1]; /* ending with NULL; they live as long as the process */
    size_t n;
    /* The devices as one word for ctx_params_hash: "Vulkan:llvmpipe(LLVM15.0.6)", "RPC:host:port". "": none. */
    char word[2048];
    hth_rpc_addresses servers;
    unsigned n_servers; /* servers in use */
} hth_llama_devices;

/*
 * Pick the devices for a model: first those of the RPC servers ("host:port,host:port"; NULL: none), then those of this
 * machine that names lists ("CUDA0,CUDA1", or "none"; NULL: those that the engine itself would pick). The engine must
 * be started. HEARTH_MISUSE: rpc_servers is not a list of addresses, or no device has such a name. HEARTH_ENGINE: a
 * server does not answer. HEARTH_UNSUPPORTED: the engine was built without RPC.
 */
hearth_status hth_llama_devices_pick(const char *rpc_servers, const char *names, hth_llama_devices *out,
                                     hearth_error *err);
/* Keep only the device at an index. HEARTH_MISUSE: there are fewer devices. */
hearth_status hth_llama_devices_keep(hth_llama_devices *devices, uint32_t index, hearth_error *err);
/* Can every device take rows of a matrix, for HEARTH_SPLIT_MODE_ROW? */
bool hth_llama_devices_split_rows(const hth_llama_devices *devices);
/* Release the devices after the model is gone. Accepts the result of a failed pick, and a zeroed struct. */
void hth_llama_devices_release(hth_llama_devices *devices);

/* The free and the total bytes of all devices together; 0: unknown. */
void hth_llama_devices_memory(const hth_llama_devices *devices, uint64_t *free_bytes_out, uint64_t *total_bytes_out);

/* All backends and devices of this machine, as returned by hth_backend.devices. The engine must be started. */
hearth_status hth_llama_devices_list(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
