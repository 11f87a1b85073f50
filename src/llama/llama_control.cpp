/*
 * llama_control.cpp - see llama_control.h
 */
#include "llama/llama_control.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <ggml-cpp.h>
#include <gguf.h>

#include "llama/llama_guard.h"

namespace
{

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

hearth_status check_file(const char *path, const gguf_context *file, ggml_context *tensors,
                         const hth_shim_control_sum *sum, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (gguf_get_n_tensors(file) == 0)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no control vector: it has no tensors", path);
    for (int64_t i = 0; i < gguf_get_n_tensors(file) && status == HEARTH_OK; i++)
        status = check_direction(path, ggml_get_tensor(tensors, gguf_get_tensor_name(file, i)), sum, err);
    return status;
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

void copy_hint(const gguf_context *file, char *hint, size_t capacity)
{
    int64_t id = gguf_find_key(file, "controlvector.model_hint");

    hint[0] = '\0';
    if (id >= 0 && gguf_get_kv_type(file, id) == GGUF_TYPE_STRING)
        (void)snprintf(hint, capacity, "%s", gguf_get_val_str(file, id)); /* truncated if too long */
}

} /* namespace */

extern "C" {

hearth_status hth_shim_control_add(const char *path, float scale, const hth_shim_control_sum *sum, char *hint,
                                   size_t capacity, hearth_error *err)
{
    return hth_guarded(err, "read the control vector", [&] {
        ggml_context *read = nullptr;
        gguf_init_params params = { /* no_alloc = */ true, /* ctx = */ &read }; /* a wrong file may be very large */
        gguf_context_ptr file(gguf_init_from_file(path, params));
        ggml_context_ptr tensors(read);
        hearth_status status;

        if (!file || !tensors)
            return hth_fail(err, HEARTH_CORRUPT, "'%s' is damaged or incomplete: it cannot be read", path);
        status = check_file(path, file.get(), tensors.get(), sum, err);
        if (status == HEARTH_OK)
            status = add_values(path, file.get(), scale, sum, err);
        if (status != HEARTH_OK)
            return status;
        copy_hint(file.get(), hint, capacity);
        return HEARTH_OK;
    });
}

hearth_status hth_shim_control_apply(struct llama_context *context, const hth_shim_control_sum *sum, uint32_t first,
                                     uint32_t last, hearth_error *err)
{
    return hth_guarded(err, "apply a control vector", [&] {
        size_t n_values = (size_t)(sum->n_layers - 1) * sum->n_embd;

        return llama_set_adapter_cvec(context, sum->values, n_values, (int32_t)sum->n_embd, (int32_t)first,
                                      (int32_t)last) == 0
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_NO_MEMORY, "the engine has no memory for the control vector");
    });
}

} /* extern "C" */
