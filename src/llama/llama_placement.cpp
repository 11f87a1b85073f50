/*
 * llama_placement.cpp - the parameters of a model for the engine, and the memory that it would take with them
 *
 * The engine keeps pointers to the patterns, the shares and the devices, so they live as long as the model. It ignores
 * a value whose type differs from that in the file, with a line in its log; here that is an error.
 *
 * To tell the memory, the engine plans its buffers by size only (common_get_device_memory_data of v0.5.0). Its sums
 * leave out CPU buffers that are not plain memory: weights that it repacks for the CPU's instructions. Their size is
 * computed from the size of the file.
 */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fit.h>

#include "llama/llama_guard.h"
#include "llama/llama_shim.h"

extern "C" {
#include "base/hash.h"
#include "engine/engine_options.h"
}

namespace
{

struct placement : hth_llama_placement {
    std::vector<float> shares;
    std::list<std::string> patterns;
    std::vector<llama_model_tensor_buft_override> tensors; /* ending with NULL */
    std::vector<llama_model_kv_override> metadata;         /* ending with an empty key */
    std::string added_text, words_text;
};

/* The same patterns as in llama.cpp's common.h. */
constexpr char experts[] = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

/* ---- tensors ---- */

/* The buffer of the CPU, or of a device of the model: with a tensor anywhere else, the engine would end the process. */
ggml_backend_buffer_type_t buffer_type(const char *name, const hth_llama_devices *devices, std::string &known)
{
    std::vector<ggml_backend_buffer_type_t> types = { ggml_backend_cpu_buffer_type() };

    for (size_t i = 0; i < devices->n; i++)
        types.push_back(ggml_backend_dev_buffer_type(devices->all[i]));
    known.clear();
    for (ggml_backend_buffer_type_t type : types) {
        if (std::strcmp(ggml_backend_buft_name(type), name) == 0)
            return type;
        known += (known.empty() ? "" : ", ") + std::string(ggml_backend_buft_name(type));
    }
    return nullptr;
}

void add_tensors(placement *to, std::string pattern, ggml_backend_buffer_type_t type)
{
    to->patterns.push_back(std::move(pattern));
    to->tensors.push_back({ to->patterns.back().c_str(), type });
}

hearth_status add_tensor_override(placement *to, const hth_llama_devices *devices, const hth_tensor_override &one,
                                  hearth_error *err)
{
    std::string known;
    ggml_backend_buffer_type_t type = buffer_type(one.buffer, devices, known);

    if (!type)
        return hth_fail(err, HEARTH_MISUSE, "tensors '%s' cannot lie in '%s': the buffers of this model are %s",
                        one.pattern, one.buffer, known.c_str());
    try {
        (void)std::regex(one.pattern);
    } catch (const std::regex_error &e) {
        return hth_fail(err, HEARTH_MISUSE, "the pattern '%s' of tensors is no regular expression: %s", one.pattern,
                        e.what());
    }
    add_tensors(to, one.pattern, type);
    return HEARTH_OK;
}

hearth_status read_tensors(placement *to, const hearth_engine_options *options, const hth_llama_devices *devices,
                           hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < options->n_tensor_overrides; i++) {
        const char *at = options->tensor_overrides[i];
        hth_tensor_override one;

        do {
            status = hth_tensor_override_read(&at, &one, err);
            if (status == HEARTH_OK)
                status = add_tensor_override(to, devices, one, err);
        } while (status == HEARTH_OK && *at);
        if (status != HEARTH_OK)
            return status;
    }
    if (options->cpu_moe)
        add_tensors(to, experts, ggml_backend_cpu_buffer_type());
    for (uint32_t i = 0; i < options->n_cpu_moe && i < hth_layers_max && !options->cpu_moe; i++)
        add_tensors(to, "blk\\." + std::to_string(i) + experts, ggml_backend_cpu_buffer_type());
    if (to->tensors.empty())
        return HEARTH_OK;
    to->tensors.push_back({ nullptr, nullptr });
    to->params.tensor_buft_overrides = to->tensors.data();
    return HEARTH_OK;
}

/* ---- metadata ---- */

const char *type_of(const gguf_context *file, int64_t id)
{
    switch (gguf_get_kv_type(file, id)) {
    case GGUF_TYPE_BOOL: return "bool";
    case GGUF_TYPE_STRING: return "str";
    case GGUF_TYPE_FLOAT32:
    case GGUF_TYPE_FLOAT64: return "float";
    case GGUF_TYPE_ARRAY: return "a list";
    default: return "int";
    }
}

/* Is it a value on which the engine would end the process, as in llama_shim.cpp? */
bool is_impossible(const hth_metadata_override &one, const gguf_context *file)
{
    static const char used[] = ".expert_used_count";
    static const std::set<std::string> scalings = { "none", "linear", "yarn", "longrope" };
    const std::string key = one.key;

    if (hth_ends_with(key, "epsilon"))
        return one.type == HTH_METADATA_FLOAT && one.number < 0;
    if (hth_ends_with(key, ".rope.scaling.type"))
        return one.type == HTH_METADATA_STR && scalings.count(one.text) == 0;
    if (hth_ends_with(key, used))
        return one.type == HTH_METADATA_INT &&
               (one.integer < 1 ||
                one.integer >
                    hth_gguf_u32(file, (key.substr(0, key.size() - std::strlen(used)) + ".expert_count").c_str()));
    return false;
}

/*
 * Some keys must keep the value in the file, because the files were checked and are cached by it. Others count the
 * tensors of the file, or give the kind of its tokens: with another value, the engine refuses the file or ends the
 * process.
 */
bool is_fixed(const std::string &key)
{
    static const char *const counts[] = { ".block_count", ".nextn_predict_layers", ".expert_count",
                                          ".expert_group_count", ".expert_group_used_count" };

    return key == "general.architecture" || key == "tokenizer.ggml.model" || key.compare(0, 6, "split.") == 0 ||
           std::any_of(std::begin(counts), std::end(counts), [&](const char *end) { return hth_ends_with(key, end); });
}

hearth_status add_metadata(placement *to, const hth_metadata_override &one, const gguf_context *file, hearth_error *err)
{
    static const char *const names[] = { "int", "float", "bool", "str" };
    static const llama_model_kv_override_type types[] = { LLAMA_KV_OVERRIDE_TYPE_INT, LLAMA_KV_OVERRIDE_TYPE_FLOAT,
                                                          LLAMA_KV_OVERRIDE_TYPE_BOOL, LLAMA_KV_OVERRIDE_TYPE_STR };
    int64_t id = gguf_find_key(file, one.key);
    llama_model_kv_override entry = {};

    if (is_fixed(one.key))
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' cannot be overridden", one.key);
    if (id >= 0 && std::strcmp(type_of(file, id), names[one.type]) != 0)
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' is %s in the model's file, so %s cannot override it",
                        one.key, type_of(file, id), names[one.type]);
    if (is_impossible(one, file))
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' is overridden by an impossible value", one.key);
    if (id < 0)
        to->added_text += (to->added_text.empty() ? "" : ", ") + std::string(one.key);
    entry.tag = types[one.type];
    (void)std::snprintf(entry.key, sizeof(entry.key), "%s", one.key); /* as long */
    switch (one.type) {
    case HTH_METADATA_INT: entry.val_i64 = one.integer; break;
    case HTH_METADATA_FLOAT: entry.val_f64 = one.number; break;
    case HTH_METADATA_BOOL: entry.val_bool = one.flag; break;
    case HTH_METADATA_STR: (void)std::snprintf(entry.val_str, sizeof(entry.val_str), "%s", one.text); break;
    }
    to->metadata.push_back(entry);
    return HEARTH_OK;
}

hearth_status read_metadata(placement *to, const char *path, const hearth_engine_options *options, hearth_error *err)
{
    gguf_context_ptr file;
    hearth_status status = HEARTH_OK;

    if (options->n_metadata_overrides == 0)
        return HEARTH_OK;
    file.reset(gguf_init_from_file(path, { true, nullptr }));
    if (!file)
        return hth_fail(err, HEARTH_CORRUPT, "the engine cannot read the metadata of '%s'", path);
    for (size_t i = 0; i < options->n_metadata_overrides; i++) {
        const char *at = options->metadata_overrides[i];
        hth_metadata_override one;

        do {
            status = hth_metadata_override_read(&at, &one, err);
            if (status == HEARTH_OK)
                status = add_metadata(to, one, file.get(), err);
        } while (status == HEARTH_OK && *at);
        if (status != HEARTH_OK)
            return status;
    }
    to->metadata.push_back({});
    to->params.kv_overrides = to->metadata.data();
    return HEARTH_OK;
}

/* ---- words ---- */

std::string digest_of(const char *const *texts, size_t n)
{
    uint8_t digest[HTH_SHA256_BYTES];
    char hex[2 * HTH_SHA256_BYTES + 1];
    std::string all;

    for (size_t i = 0; i < n; i++)
        all += texts[i] + std::string(1, '\n');
    hth_sha256_of(all.data(), all.size(), digest);
    hth_hex_encode(digest, sizeof(digest), hex);
    return hex;
}

std::string words_of(const hearth_engine_options *o, const hth_llama_devices *devices, const std::vector<float> &shares)
{
    std::string words;

    if (devices->n == 0)
        return words;
    if (o->split_mode == HEARTH_SPLIT_MODE_ROW)
        words += " split=row";
    for (size_t i = 0; i < devices->n && devices->n > 1 && !shares.empty(); i++) {
        char share[32];

        (void)std::snprintf(share, sizeof(share), "%s%a", i > 0 ? "," : " shares=", (double)shares[i]); /* fits */
        words += share;
    }
    if (o->no_kv_offload)
        words += " cells=host";
    if (o->cpu_moe || o->n_cpu_moe > 0)
        words += " experts=cpu:" + (o->cpu_moe ? std::string("all") : std::to_string(o->n_cpu_moe));
    if (o->n_tensor_overrides > 0)
        words += " tensors=" + digest_of(o->tensor_overrides, o->n_tensor_overrides);
    return words;
}

llama_split_mode split_mode_of(hearth_split_mode mode)
{
    switch (mode) {
    case HEARTH_SPLIT_MODE_NONE: return LLAMA_SPLIT_MODE_NONE;
    case HEARTH_SPLIT_MODE_ROW: return LLAMA_SPLIT_MODE_ROW;
    default: return LLAMA_SPLIT_MODE_LAYER;
    }
}

hearth_status read_shares(placement *to, const hearth_engine_options *options, const hth_llama_devices *devices,
                          hearth_error *err)
{
    float shares[HTH_DEVICES_MAX];
    size_t n = 0;
    hearth_status status;

    if (!options->tensor_split || devices->n == 0 || options->split_mode == HEARTH_SPLIT_MODE_NONE)
        return HEARTH_OK;
    status = hth_tensor_split_read(options->tensor_split, shares, &n, err);
    if (status != HEARTH_OK)
        return status;
    while (n > devices->n && shares[n - 1] == 0.0F)
        n--;
    if (n > devices->n)
        return hth_fail(err, HEARTH_MISUSE, "tensor_split is '%.200s', with %zu shares; the model has %zu devices",
                        options->tensor_split, n, devices->n);
    to->shares.assign(std::max(llama_max_devices(), n), 0.0F);
    std::copy_n(shares, n, to->shares.begin());
    to->params.tensor_split = to->shares.data();
    return HEARTH_OK;
}

/* ---- memory ---- */

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

hearth_status hth_llama_placement_new(const char *path, const hearth_engine_options *options,
                                      hth_llama_devices *devices, int32_t n_gpu_layers, hth_llama_placement **out,
                                      hearth_error *err)
{
    return hth_guarded(err, "place the model", [&] {
        std::unique_ptr<placement> made(new placement());
        hearth_status status;

        made->params = llama_model_default_params();
        made->params.devices = devices->all;
        made->params.n_gpu_layers = n_gpu_layers;
        made->params.split_mode = split_mode_of(options->split_mode);
        made->params.main_gpu = 0; /* with HEARTH_SPLIT_MODE_NONE, that one is the only device */
        status = read_shares(made.get(), options, devices, err);
        if (status == HEARTH_OK)
            status = read_tensors(made.get(), options, devices, err);
        if (status == HEARTH_OK)
            status = read_metadata(made.get(), path, options, err);
        made->words_text = words_of(options, devices, made->shares);
        made->words = made->words_text.c_str();
        made->added = made->added_text.c_str();
        if (status == HEARTH_OK)
            *out = made.release();
        return status;
    });
}

void hth_llama_placement_free(hth_llama_placement *made)
{
    delete static_cast<placement *>(made);
}

bool hth_llama_placement_meta(const hth_llama_placement *made, const char *key, char *text, size_t capacity)
{
    for (const llama_model_kv_override &entry : static_cast<const placement *>(made)->metadata) {
        int n = -1;

        if (!entry.key[0] || std::strcmp(entry.key, key) != 0)
            continue;
        switch (entry.tag) {
        case LLAMA_KV_OVERRIDE_TYPE_INT: n = std::snprintf(text, capacity, "%lld", (long long)entry.val_i64); break;
        case LLAMA_KV_OVERRIDE_TYPE_FLOAT: n = std::snprintf(text, capacity, "%g", entry.val_f64); break;
        case LLAMA_KV_OVERRIDE_TYPE_BOOL:
            n = std::snprintf(text, capacity, "%s", entry.val_bool ? "true" : "false");
            break;
        case LLAMA_KV_OVERRIDE_TYPE_STR: n = std::snprintf(text, capacity, "%s", entry.val_str); break;
        }
        return n >= 0 && (size_t)n < capacity;
    }
    return false;
}

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
