/*
 * llama_needs.cpp - see llama_needs.h
 *
 * The engine plans its buffers by size only (common_get_device_memory_data of v0.5.0). Its sums leave out CPU buffers
 * that are not plain memory: weights that it repacks for the CPU's instructions. Their size is computed from the size
 * of the file.
 */
#include "llama/llama_needs.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fit.h>

#include "llama/llama_guard.h"

namespace
{

hth_engine_share share_of(const common_device_memory_data &from)
{
    hth_engine_share share = {};

    share.weight_bytes = from.model;
    share.cell_bytes = from.context;
    share.compute_bytes = from.compute;
    return share;
}

void add_share(hth_engine_share *to, const hth_engine_share &more)
{
    to->weight_bytes += more.weight_bytes;
    to->cell_bytes += more.cell_bytes;
    to->compute_bytes += more.compute_bytes;
}

/*
 * Does the device compute in the host's memory? Integrated GPUs do; Metal does not report it, but nearly all of its
 * GPUs do.
 */
bool is_in_host(ggml_backend_dev_t device)
{
    return ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_IGPU ||
           std::strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "MTL") == 0;
}

uint64_t counted(int64_t bytes)
{
    return bytes > 0 ? (uint64_t)bytes : 0;
}

} /* namespace */

extern "C" {

hearth_status hth_llama_needs(const char *path, const struct llama_model_params *model, uint64_t weight_bytes,
                              const struct llama_context_params *context, hth_engine_needs *out, hearth_error *err)
{
    return hth_guarded(err, "plan the memory of the model", [&] {
        std::vector<ggml_backend_dev_t> used;
        uint32_t n_layers = 0, n_ctx_train = 0, n_experts = 0;
        uint64_t known = 0;
        hth_engine_needs needs = {};
        hth_engine_share in_host = {};

        const common_device_memory_data_vec all = common_get_device_memory_data(
            path, model, context, used, n_layers, n_ctx_train, n_experts, GGML_LOG_LEVEL_ERROR);

        for (size_t i = 0; i + 1 < all.size() && i < used.size() && i < HTH_DEVICES_MAX; i++) {
            const hth_engine_share share = share_of(all[i]);
            hth_engine_device_share *to = &needs.devices[needs.n_devices];

            known += share.weight_bytes;
            if (is_in_host(used[i])) {
                add_share(&in_host, share);
                continue;
            }
            needs.n_devices++;
            (void)std::snprintf(to->name, sizeof(to->name), "%s", ggml_backend_dev_name(used[i])); /* cut if too long */
            to->free_bytes = counted(all[i].free);
            to->total_bytes = counted(all[i].total);
            to->share = share;
        }
        if (!all.empty())
            needs.host = share_of(all.back());
        known += needs.host.weight_bytes;
        needs.repacked_bytes = weight_bytes - std::min(known, weight_bytes);
        needs.host.weight_bytes += needs.repacked_bytes;
        add_share(&needs.host, in_host);
        *out = needs;
        return HEARTH_OK;
    });
}

} /* extern "C" */
