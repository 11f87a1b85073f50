/*
 * llama_placement.cpp - see llama_placement.h
 *
 * The engine keeps pointers to the patterns, the shares and the devices, so they live as long as the model. It ignores
 * a value whose type is not that of the file's, with a line in its log; here that is an error.
 */
#include "engine/llama_placement.h"

#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <gguf.h>

#include "engine/llama_guard.h"

extern "C" {
#include "base/hash.h"
#include "engine/engine_options.h"
}

struct hth_llama_placement {
    llama_model_params params;
    std::vector<float> shares;
    std::list<std::string> patterns;
    std::vector<llama_model_tensor_buft_override> tensors; /* ending with NULL */
    std::vector<llama_model_kv_override> metadata;         /* ending with an empty key */
    std::string words;
};

namespace
{

/* Those of llama.cpp's common.h. */
constexpr char experts[] = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

constexpr uint32_t n_layers_max = 512; /* the engine's LLAMA_MAX_LAYERS */

/* ---- tensors ---- */

ggml_backend_buffer_type_t buffer_type(const char *name, std::string &known)
{
    known.clear();
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(ggml_backend_dev_get(i));

        if (type && std::strcmp(ggml_backend_buft_name(type), name) == 0)
            return type;
        if (type)
            known += (known.empty() ? "" : ", ") + std::string(ggml_backend_buft_name(type));
    }
    return nullptr;
}

void add_tensors(hth_llama_placement *to, std::string pattern, ggml_backend_buffer_type_t type)
{
    to->patterns.push_back(std::move(pattern));
    to->tensors.push_back({ to->patterns.back().c_str(), type });
}

hearth_status add_tensor_override(hth_llama_placement *to, const hth_tensor_override &one, hearth_error *err)
{
    std::string known;
    ggml_backend_buffer_type_t type = buffer_type(one.buffer, known);

    if (!type)
        return hth_fail(err, HEARTH_MISUSE, "tensors '%s' cannot lie in '%s': the buffers of this machine are %s",
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

hearth_status read_tensors(hth_llama_placement *to, const hearth_engine_options *options, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < options->n_tensor_overrides; i++) {
        const char *at = options->tensor_overrides[i];
        hth_tensor_override one;

        do {
            status = hth_tensor_override_read(&at, &one, err);
            if (status == HEARTH_OK)
                status = add_tensor_override(to, one, err);
        } while (status == HEARTH_OK && *at);
        if (status != HEARTH_OK)
            return status;
    }
    if (options->cpu_moe)
        add_tensors(to, experts, ggml_backend_cpu_buffer_type());
    for (uint32_t i = 0; i < options->n_cpu_moe && i < n_layers_max && !options->cpu_moe; i++)
        add_tensors(to, "blk\\." + std::to_string(i) + experts, ggml_backend_cpu_buffer_type());
    if (to->tensors.empty())
        return HEARTH_OK;
    to->tensors.push_back({ nullptr, nullptr });
    to->params.tensor_buft_overrides = to->tensors.data();
    return HEARTH_OK;
}

/* ---- metadata ---- */

struct file_deleter {
    void operator()(gguf_context *file) const
    {
        gguf_free(file);
    }
};

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

bool ends_with(const std::string &text, const char *end)
{
    size_t n = std::strlen(end);

    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

/* Values on which the engine would end the process, as in llama_shim.cpp. */
bool is_impossible(const hth_metadata_override &one)
{
    if (one.type == HTH_METADATA_FLOAT && one.number < 0 && ends_with(one.key, "epsilon"))
        return true;
    return one.type == HTH_METADATA_INT && ends_with(one.key, ".block_count") &&
           (one.integer < 1 || one.integer > (int64_t)n_layers_max);
}

hearth_status add_metadata(hth_llama_placement *to, const hth_metadata_override &one, const gguf_context *file,
                           hearth_error *err)
{
    static const char *const names[] = { "int", "float", "bool", "str" };
    static const llama_model_kv_override_type types[] = { LLAMA_KV_OVERRIDE_TYPE_INT, LLAMA_KV_OVERRIDE_TYPE_FLOAT,
                                                          LLAMA_KV_OVERRIDE_TYPE_BOOL, LLAMA_KV_OVERRIDE_TYPE_STR };
    int64_t id = gguf_find_key(file, one.key);
    llama_model_kv_override entry = {};

    /* The files were checked, and are cached, by what they themselves say of these. */
    if (std::strcmp(one.key, "general.architecture") == 0 || std::strncmp(one.key, "split.", 6) == 0)
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' cannot be overridden", one.key);
    if (id >= 0 && std::strcmp(type_of(file, id), names[one.type]) != 0)
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' is %s in the model's file, so %s cannot override it",
                        one.key, type_of(file, id), names[one.type]);
    if (is_impossible(one))
        return hth_fail(err, HEARTH_MISUSE, "the metadata '%s' is overridden by an impossible value", one.key);
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

hearth_status read_metadata(hth_llama_placement *to, const char *path, const hearth_engine_options *options,
                            hearth_error *err)
{
    std::unique_ptr<gguf_context, file_deleter> file;
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

std::string words_of(const hearth_engine_options *o, const hth_llama_devices *devices)
{
    std::string words;

    if (devices->n == 0)
        return words;
    if (o->split_mode == HEARTH_SPLIT_MODE_ROW)
        words += " split=row main=" + std::to_string(o->main_gpu);
    if (devices->n > 1 && o->tensor_split)
        words += std::string(" shares=") + o->tensor_split;
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

hearth_status read_shares(hth_llama_placement *to, const hearth_engine_options *options, hearth_error *err)
{
    float shares[HTH_DEVICES_MAX];
    size_t n = 0;
    hearth_status status = HEARTH_OK;

    if (!options->tensor_split)
        return HEARTH_OK;
    status = hth_tensor_split_read(options->tensor_split, shares, &n, err);
    to->shares.assign(llama_max_devices(), 0.0F);
    for (size_t i = 0; i < n && i < to->shares.size(); i++)
        to->shares[i] = shares[i];
    to->params.tensor_split = to->shares.data();
    return status;
}

} /* namespace */

extern "C" {

hearth_status hth_llama_placement_new(const char *path, const hearth_engine_options *options,
                                      hth_llama_devices *devices, int32_t n_gpu_layers, hth_llama_placement **out,
                                      hearth_error *err)
{
    return hth_guarded(err, "place the model", [&] {
        std::unique_ptr<hth_llama_placement> made(new hth_llama_placement());
        hearth_status status;

        made->params = llama_model_default_params();
        made->params.devices = devices->all;
        made->params.n_gpu_layers = n_gpu_layers;
        made->params.split_mode = split_mode_of(options->split_mode);
        /* The list of devices has the one of HEARTH_SPLIT_MODE_NONE only. */
        made->params.main_gpu = options->split_mode == HEARTH_SPLIT_MODE_ROW ? (int32_t)options->main_gpu : 0;
        status = read_shares(made.get(), options, err);
        if (status == HEARTH_OK)
            status = read_tensors(made.get(), options, err);
        if (status == HEARTH_OK)
            status = read_metadata(made.get(), path, options, err);
        made->words = words_of(options, devices);
        if (status == HEARTH_OK)
            *out = made.release();
        return status;
    });
}

void hth_llama_placement_free(hth_llama_placement *placement)
{
    delete placement;
}

const struct llama_model_params *hth_llama_placement_params(const hth_llama_placement *placement)
{
    return &placement->params;
}

const char *hth_llama_placement_words(const hth_llama_placement *placement)
{
    return placement->words.c_str();
}

bool hth_llama_placement_meta(const hth_llama_placement *placement, const char *key, char *text, size_t capacity)
{
    for (const llama_model_kv_override &entry : placement->metadata) {
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

} /* extern "C" */
