/*
 * llama_adapters.cpp - see llama_adapters.h
 */
#include "llama/llama_adapters.h"

#include <memory>
#include <string>
#include <vector>

#include <ggml.h>
#include <gguf.h>

#include "llama/llama_guard.h"
#include "llama/llama_shim.h"

namespace
{

struct gguf_deleter {
    void operator()(gguf_context *file) const
    {
        gguf_free(file);
    }
};

struct ggml_deleter {
    void operator()(ggml_context *tensors) const
    {
        ggml_free(tensors);
    }
};

/* The head of a file: its metadata, and the names, types and shapes of its tensors. */
struct head {
    std::unique_ptr<gguf_context, gguf_deleter> file;
    std::unique_ptr<ggml_context, ggml_deleter> tensors;
};

hearth_status read_head(const char *path, head *out, hearth_error *err)
{
    ggml_context *tensors = nullptr;
    gguf_init_params params = { /* no_alloc = */ true, /* ctx = */ &tensors };

    out->file.reset(gguf_init_from_file(path, params));
    out->tensors.reset(tensors);
    if (!out->file || !tensors)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: its GGUF header cannot be read", path);
    return HEARTH_OK;
}

/* All parts of a model. */
hearth_status read_model(const char *path, std::vector<head> *out, hearth_error *err)
{
    hth_shim_file first = {};
    hearth_status status = hth_shim_file_read(path, &first, err);
    uint32_t n = first.split_count > 1 ? first.split_count : 1;

    for (uint32_t i = 0; i < n && status == HEARTH_OK; i++) {
        char part[4096];
        head one;

        if (n > 1)
            status = hth_shim_split_path(path, i, n, part, sizeof(part), err);
        if (status == HEARTH_OK)
            status = read_head(n > 1 ? part : path, &one, err);
        out->push_back(std::move(one));
    }
    return status;
}

const ggml_tensor *find(const std::vector<head> &model, const std::string &name)
{
    for (const head &part : model) {
        const ggml_tensor *found = ggml_get_tensor(part.tensors.get(), name.c_str());

        if (found)
            return found;
    }
    return nullptr;
}

bool ends_with(const std::string &text, const char *end)
{
    size_t n = std::char_traits<char>::length(end);

    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

/* The text of a key; "": missing, or not a text. */
std::string text_of(const gguf_context *file, const char *key)
{
    int64_t id = gguf_find_key(file, key);

    return id < 0 || gguf_get_kv_type(file, id) != GGUF_TYPE_STRING ? "" : gguf_get_val_str(file, id);
}

hearth_status check_metadata(const char *path, const gguf_context *file, const char *architecture, hearth_error *err)
{
    std::string type = text_of(file, "general.type"), kind = text_of(file, "adapter.type");
    std::string made_for = text_of(file, "general.architecture");
    int64_t alpha = gguf_find_key(file, "adapter.lora.alpha");

    if (type != "adapter")
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no adapter: its general.type is '%.40s', not 'adapter'", path,
                        type.c_str());
    if (kind != "lora")
        return hth_fail(err, HEARTH_UNSUPPORTED, "'%s' is an adapter of type '%.40s'; only 'lora' can be loaded", path,
                        kind.c_str());
    if (made_for != architecture)
        return hth_fail(err, HEARTH_MISUSE,
                        "the adapter '%s' was made for the architecture '%.40s', and the model's is '%s'", path,
                        made_for.c_str(), architecture);
    if (alpha >= 0 && gguf_get_kv_type(file, alpha) != GGUF_TYPE_FLOAT32)
        return hth_fail(err, HEARTH_CORRUPT, "the adapter '%s' is damaged: its adapter.lora.alpha is no float", path);
    if (gguf_find_key(file, "adapter.alora.invocation_tokens") >= 0)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "the adapter '%s' applies only after certain tokens (aLoRA), which is not offered", path);
    return HEARTH_OK;
}

/* Can the engine multiply with this type on every device? */
bool is_usable(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0;
}

std::string shape_of(const ggml_tensor *t)
{
    std::string text = std::to_string(t->ne[0]) + "x" + std::to_string(t->ne[1]);

    return t->ne[2] > 1 ? text + "x" + std::to_string(t->ne[2]) : text;
}

/*
 * Does the product of a and b have the shape of the matrix? For embeddings, rows are looked up in a, so there the pair
 * is the other way round.
 */
bool fits(const ggml_tensor *matrix, const ggml_tensor *a, const ggml_tensor *b, bool is_embedding)
{
    if (matrix->ne[3] != 1 || a->ne[3] != 1 || b->ne[3] != 1 || a->ne[2] != matrix->ne[2] || b->ne[2] != matrix->ne[2])
        return false;
    if (is_embedding)
        return a->ne[0] == b->ne[0] && a->ne[0] >= 1 && a->ne[1] == matrix->ne[1] && b->ne[1] == matrix->ne[0];
    return a->ne[1] == b->ne[0] && a->ne[1] >= 1 && a->ne[0] == matrix->ne[0] && b->ne[1] == matrix->ne[1];
}

hearth_status check_pair(const char *path, const std::vector<head> &model, const std::string &name,
                         const ggml_tensor *a, const ggml_tensor *b, hearth_error *err)
{
    const ggml_tensor *matrix = find(model, name);
    bool is_embedding = ends_with(name, "token_embd.weight");

    if (!a || !b)
        return hth_fail(err, HEARTH_CORRUPT, "the adapter '%s' is damaged: it has only half of the pair for '%s'", path,
                        name.c_str());
    if (!matrix)
        return hth_fail(err, HEARTH_MISUSE, "the adapter '%s' changes '%s', which the model does not have", path,
                        name.c_str());
    if (!fits(matrix, a, b, is_embedding))
        return hth_fail(err, HEARTH_MISUSE,
                        "the adapter '%s' does not fit the model: its pair for '%s' has the shapes %s and %s, and the "
                        "model's matrix is %s",
                        path, name.c_str(), shape_of(a).c_str(), shape_of(b).c_str(), shape_of(matrix).c_str());
    if (!is_usable(a->type) || !is_usable(b->type))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "the adapter '%s' has the type %s for '%s'; f32, f16, bf16 and q8_0 can be used", path,
                        ggml_type_name(is_usable(a->type) ? b->type : a->type), name.c_str());
    if (matrix->type == GGML_TYPE_NVFP4)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the adapter '%s' changes '%s', whose type %s takes no adapters", path,
                        name.c_str(), ggml_type_name(matrix->type));
    /*
     * If such a model reuses its embeddings as the output matrix, the engine would multiply by the same pair there,
     * which the shapes do not allow.
     */
    if (is_embedding && !find(model, "output.weight"))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "the adapter '%s' changes '%s', which this model uses for its output, too; such adapters "
                        "cannot be applied, merge it into the model's file",
                        path, name.c_str());
    return HEARTH_OK;
}

hearth_status check_tensors(const char *path, const std::vector<head> &model, const head &adapter,
                            uint64_t *n_pairs_out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    size_t n_halves = 0;

    for (ggml_tensor *t = ggml_get_first_tensor(adapter.tensors.get()); t && status == HEARTH_OK;
         t = ggml_get_next_tensor(adapter.tensors.get(), t)) {
        std::string name = t->name;

        if (ends_with(name, "_norm.weight"))
            continue; /* the engine ignores it */
        if (!ends_with(name, ".lora_a") && !ends_with(name, ".lora_b"))
            return hth_fail(err, HEARTH_MISUSE, "the adapter '%s' has a tensor '%s', which is half of no pair", path,
                            name.c_str());
        name.resize(name.size() - 7);
        n_halves++;
        status = check_pair(path, model, name, ggml_get_tensor(adapter.tensors.get(), (name + ".lora_a").c_str()),
                            ggml_get_tensor(adapter.tensors.get(), (name + ".lora_b").c_str()), err);
    }
    if (status == HEARTH_OK && n_halves == 0)
        return hth_fail(err, HEARTH_MISUSE, "the adapter '%s' changes nothing: it has no tensors", path);
    *n_pairs_out = n_halves / 2;
    return status;
}

} /* namespace */

extern "C" {

hearth_status hth_shim_adapter_check(const char *path, const char *model_path, const char *architecture,
                                     hth_shim_adapter_size *out, hearth_error *err)
{
    return hth_guarded(err, "read the adapter", [&] {
        std::vector<head> model;
        head adapter;
        hearth_status status = read_head(path, &adapter, err);

        if (status == HEARTH_OK)
            status = check_metadata(path, adapter.file.get(), architecture, err);
        if (status == HEARTH_OK)
            status = read_model(model_path, &model, err);
        if (status == HEARTH_OK)
            status = check_tensors(path, model, adapter, &out->n_pairs, err);
        for (size_t i = 0; i < model.size() && status == HEARTH_OK; i++)
            out->n_model_tensors += (uint64_t)gguf_get_n_tensors(model[i].file.get());
        return status;
    });
}

hearth_status hth_shim_adapter_load(struct llama_model *model, const char *path, struct llama_adapter_lora **out,
                                    hearth_error *err)
{
    return hth_guarded(err, "load the adapter", [&] {
        llama_adapter_lora *adapter = llama_adapter_lora_init(model, path);

        if (!adapter)
            return hth_fail(err, HEARTH_ENGINE, "the engine refused it");
        *out = adapter;
        return HEARTH_OK;
    });
}

void hth_shim_adapter_free(struct llama_adapter_lora *adapter)
{
    (void)hth_guarded(nullptr, "free an adapter", [&] {
        llama_adapter_lora_free(adapter);
        return HEARTH_OK;
    });
}

hearth_status hth_shim_adapters_apply(struct llama_context *context, struct llama_adapter_lora **adapters,
                                      float *scales, size_t n, hearth_error *err)
{
    return hth_guarded(err, "apply adapters", [&] {
        return llama_set_adapters_lora(context, adapters, n, scales) == 0
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_ENGINE, "the engine refused the adapters");
    });
}

} /* extern "C" */
