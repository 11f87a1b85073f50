/*
 * llama_adapters.cpp - LoRA adapters and control vectors: their files are checked before the engine sees them
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <ggml-cpp.h>

#include "llama/llama_guard.h"
#include "llama/llama_shim.h"

extern "C" {
#include "base/gguf_name.h"
}

namespace
{

/* ---- adapters ---- */

hearth_status check_head(const char *path, const hth_gguf_head &head, hearth_error *err)
{
    return head.file && head.tensors
             ? HEARTH_OK
             : hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: its GGUF header cannot be read", path);
}

/* All parts of a model, whose files are known to be whole. */
hearth_status read_model(const char *path, std::vector<hth_gguf_head> *out, hearth_error *err)
{
    hth_gguf_part named = {};
    char part[HTH_GGUF_PATH_BYTES];

    out->emplace_back(path);
    hearth_status status = check_head(path, out->back(), err);
    const bool is_split = status == HEARTH_OK && hth_gguf_u32(out->back().file.get(), "split.count") > 1 &&
                          hth_gguf_part_read(path, &named);

    for (unsigned i = 2; is_split && i <= named.n_parts && status == HEARTH_OK; i++) {
        hth_gguf_part_path(path, &named, i, part, sizeof(part));
        out->emplace_back(part);
        status = check_head(part, out->back(), err);
    }
    return status;
}

const ggml_tensor *find(const std::vector<hth_gguf_head> &model, const std::string &name)
{
    for (const hth_gguf_head &part : model) {
        const ggml_tensor *found = ggml_get_tensor(part.tensors.get(), name.c_str());

        if (found)
            return found;
    }
    return nullptr;
}

hearth_status check_metadata(const char *path, const gguf_context *file, const char *architecture, hearth_error *err)
{
    std::string type = hth_gguf_text(file, "general.type"), kind = hth_gguf_text(file, "adapter.type");
    std::string made_for = hth_gguf_text(file, "general.architecture");
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

hearth_status check_pair(const char *path, const std::vector<hth_gguf_head> &model, const std::string &name,
                         const ggml_tensor *a, const ggml_tensor *b, hearth_error *err)
{
    const ggml_tensor *matrix = find(model, name);
    bool is_embedding = hth_ends_with(name, "token_embd.weight");

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

hearth_status check_tensors(const char *path, const std::vector<hth_gguf_head> &model, const hth_gguf_head &adapter,
                            uint64_t *n_pairs_out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    size_t n_halves = 0;

    for (ggml_tensor *t = ggml_get_first_tensor(adapter.tensors.get()); t && status == HEARTH_OK;
         t = ggml_get_next_tensor(adapter.tensors.get(), t)) {
        std::string name = t->name;

        if (hth_ends_with(name, "_norm.weight"))
            continue; /* the engine ignores it */
        if (!hth_ends_with(name, ".lora_a") && !hth_ends_with(name, ".lora_b"))
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

/* ---- control vectors ---- */

/* The layer of a tensor "direction.N"; -1: the tensor has a different name. */
long layer_of(const char *name)
{
    static const char begin[] = "direction.";
    const char *number = name + sizeof(begin) - 1;
    char *end = nullptr;
    long layer;

    if (std::strncmp(name, begin, sizeof(begin) - 1) != 0 || *number < '0' || *number > '9')
        return -1;
    layer = std::strtol(number, &end, 10);
    return *end ? -1 : layer;
}

hearth_status check_direction(const char *path, const ggml_tensor *tensor, const hth_shim_control_sum *sum,
                              hearth_error *err)
{
    long layer = layer_of(tensor->name);

    if (layer < 0)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no control vector: it has a tensor '%s', which is no direction",
                        path, tensor->name);
    if (layer == 0 || layer >= (long)sum->n_layers)
        return hth_fail(err, HEARTH_MISUSE,
                        "the control vector '%s' does not fit the model: it has '%s', and the layers that can be "
                        "changed are 1 to %u",
                        path, tensor->name, sum->n_layers - 1);
    if (tensor->type != GGML_TYPE_F32)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the control vector '%s' has the type %s for '%s'; only f32 is used",
                        path, ggml_type_name(tensor->type), tensor->name);
    if (ggml_n_dims(tensor) != 1 || tensor->ne[0] != (int64_t)sum->n_embd)
        return hth_fail(err, HEARTH_MISUSE,
                        "the control vector '%s' does not fit the model: '%s' has %lld values, and the model's "
                        "embeddings have %u",
                        path, tensor->name, (long long)ggml_nelements(tensor), sum->n_embd);
    return HEARTH_OK;
}

/* Add scale times the values of the checked file. */
hearth_status add_values(const char *path, const gguf_context *file, float scale, const hth_shim_control_sum *sum,
                         hearth_error *err)
{
    std::unique_ptr<FILE, int (*)(FILE *)> from(std::fopen(path, "rb"), std::fclose);
    std::vector<float> values(sum->n_embd);

    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        float *to = sum->values + (size_t)(layer_of(gguf_get_tensor_name(file, i)) - 1) * sum->n_embd;

        if (!from ||
            fseeko(from.get(), (off_t)(gguf_get_data_offset(file) + gguf_get_tensor_offset(file, i)), SEEK_SET) ||
            std::fread(values.data(), sizeof(float), values.size(), from.get()) != values.size())
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: it cannot be read", path);
        for (uint32_t k = 0; k < sum->n_embd; k++)
            to[k] += values[k] * scale;
    }
    return HEARTH_OK;
}

} /* namespace */

extern "C" {

hearth_status hth_shim_adapter_check(const char *path, const char *model_path, const char *architecture,
                                     hth_shim_adapter_size *out, hearth_error *err)
{
    return hth_guarded(err, "read the adapter", [&] {
        std::vector<hth_gguf_head> model;
        const hth_gguf_head adapter(path);
        hearth_status status = check_head(path, adapter, err);

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

hearth_status hth_shim_control_add(const char *path, float scale, const hth_shim_control_sum *sum, char *hint,
                                   size_t capacity, hearth_error *err)
{
    return hth_guarded(err, "read the control vector", [&] {
        const hth_gguf_head head(path);
        hearth_status status = HEARTH_OK;

        if (!head.file || !head.tensors)
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: it cannot be read", path);
        if (gguf_get_n_tensors(head.file.get()) == 0)
            return hth_fail(err, HEARTH_MISUSE, "'%s' is no control vector: it has no tensors", path);
        for (int64_t i = 0; i < gguf_get_n_tensors(head.file.get()) && status == HEARTH_OK; i++)
            status = check_direction(
                path, ggml_get_tensor(head.tensors.get(), gguf_get_tensor_name(head.file.get(), i)), sum, err);
        if (status == HEARTH_OK)
            status = add_values(path, head.file.get(), scale, sum, err);
        if (status == HEARTH_OK)
            (void)snprintf(hint, capacity, "%s",
                           hth_gguf_text(head.file.get(), "controlvector.model_hint")); /* truncated if too long */
        return status;
    });
}

hearth_status hth_shim_control_apply(struct llama_context *context, const hth_shim_control_sum *sum, hearth_error *err)
{
    return hth_guarded(err, "apply a control vector", [&] {
        size_t n_values = (size_t)(sum->n_layers - 1) * sum->n_embd;

        return llama_set_adapter_cvec(context, sum->values, n_values, (int32_t)sum->n_embd, (int32_t)sum->first,
                                      (int32_t)sum->last) == 0
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_NO_MEMORY, "the engine has no memory for the control vector");
    });
}

} /* extern "C" */
