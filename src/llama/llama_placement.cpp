/*
 * llama_placement.cpp - see llama_placement.h
 *
 * The engine keeps pointers to the patterns, the shares and the devices, so they live as long as the model. It ignores
 * a value whose type differs from that in the file, with a line in its log; here that is an error.
 */
#include "llama/llama_placement.h"

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

#include <gguf.h>

#include "llama/llama_guard.h"

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
    std::string added;                                     /* metadata keys that the file does not have */
    std::string words;
};

namespace
{

/* The same patterns as in llama.cpp's common.h. */
constexpr char experts[] = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";

constexpr uint32_t n_layers_max = 512; /* the engine's LLAMA_MAX_LAYERS */

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

void add_tensors(hth_llama_placement *to, std::string pattern, ggml_backend_buffer_type_t type)
{
    to->patterns.push_back(std::move(pattern));
    to->tensors.push_back({ to->patterns.back().c_str(), type });
}

hearth_status add_tensor_override(hth_llama_placement *to, const hth_llama_devices *devices,
                                  const hth_tensor_override &one, hearth_error *err)
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

hearth_status read_tensors(hth_llama_placement *to, const hearth_engine_options *options,
                           const hth_llama_devices *devices, hearth_error *err)
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

/* A number in the file; 0: missing. */
uint32_t count_in(const gguf_context *file, const std::string &key)
{
    int64_t id = gguf_find_key(file, key.c_str());

    return id >= 0 && gguf_get_kv_type(file, id) == GGUF_TYPE_UINT32 ? gguf_get_val_u32(file, id) : 0;
}

/* Is it a value on which the engine would end the process, as in llama_shim.cpp? */
bool is_impossible(const hth_metadata_override &one, const gguf_context *file)
{
    static const char used[] = ".expert_used_count";
    static const std::set<std::string> scalings = { "none", "linear", "yarn", "longrope" };
    const std::string key = one.key;

    if (ends_with(key, "epsilon"))
        return one.type == HTH_METADATA_FLOAT && one.number < 0;
    if (ends_with(key, ".rope.scaling.type"))
        return one.type == HTH_METADATA_STR && scalings.count(one.text) == 0;
    if (ends_with(key, used))
        return one.type == HTH_METADATA_INT &&
               (one.integer < 1 ||
                one.integer > count_in(file, key.substr(0, key.size() - std::strlen(used)) + ".expert_count"));
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
           std::any_of(std::begin(counts), std::end(counts), [&](const char *end) { return ends_with(key, end); });
}

hearth_status add_metadata(hth_llama_placement *to, const hth_metadata_override &one, const gguf_context *file,
                           hearth_error *err)
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
        to->added += (to->added.empty() ? "" : ", ") + std::string(one.key);
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

hearth_status read_shares(hth_llama_placement *to, const hearth_engine_options *options,
                          const hth_llama_devices *devices, hearth_error *err)
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
        made->params.main_gpu = 0; /* with HEARTH_SPLIT_MODE_NONE, that one is the only device */
        status = read_shares(made.get(), options, devices, err);
        if (status == HEARTH_OK)
            status = read_tensors(made.get(), options, devices, err);
        if (status == HEARTH_OK)
            status = read_metadata(made.get(), path, options, err);
        made->words = words_of(options, devices, made->shares);
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

const char *hth_llama_placement_added(const hth_llama_placement *placement)
{
    return placement->added.c_str();
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
