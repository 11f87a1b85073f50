/*
 * llama_writer.cpp - writes a GGUF file through the engine; its exceptions are caught here
 */
#include <algorithm>
#include <cmath>
#include <vector>

#include <ggml-cpp.h>
#include <ggml.h>
#include <gguf.h>

#include "llama/llama_guard.h"
#include "llama/llama_shim.h"

namespace
{

constexpr uint64_t chunk_floats = 1 << 20;
constexpr size_t quantize_bytes = (size_t)256 << 20; /* rows that the engine keeps in memory */
constexpr float f16_max = 65504.0F;

void set_meta(gguf_context *file, const hth_meta &meta)
{
    switch (meta.kind) {
    case HTH_META_U32: gguf_set_val_u32(file, meta.name, meta.value.u32); break;
    case HTH_META_F32: gguf_set_val_f32(file, meta.name, meta.value.f32); break;
    case HTH_META_BOOL: gguf_set_val_bool(file, meta.name, meta.value.flag); break;
    case HTH_META_TEXT: gguf_set_val_str(file, meta.name, meta.value.text); break;
    case HTH_META_TEXTS: gguf_set_arr_str(file, meta.name, const_cast<const char **>(meta.value.texts), meta.n); break;
    case HTH_META_I32S: gguf_set_arr_data(file, meta.name, GGUF_TYPE_INT32, meta.value.i32s, meta.n); break;
    case HTH_META_F32S: gguf_set_arr_data(file, meta.name, GGUF_TYPE_FLOAT32, meta.value.f32s, meta.n); break;
    }
}

ggml_type type_of(const hth_new_tensor &tensor, ggml_type type)
{
    if (tensor.is_vector)
        return GGML_TYPE_F32;
    return tensor.row_length % (uint64_t)ggml_blck_size(type) == 0 ? type : GGML_TYPE_F16;
}

void add_tensors(const hth_new_model *model, ggml_type type, ggml_context *context, gguf_context *file)
{
    for (size_t i = 0; i < model->n_tensors; i++) {
        const hth_new_tensor &from = model->tensors[i];
        ggml_type own = type_of(from, type);
        ggml_tensor *tensor = from.is_vector
                                ? ggml_new_tensor_1d(context, own, (int64_t)from.row_length)
                                : ggml_new_tensor_2d(context, own, (int64_t)from.row_length, (int64_t)from.n_rows);

        ggml_set_name(tensor, from.name);
        gguf_add_tensor(file, tensor);
    }
}

bool fits_f16(const float *values, uint64_t n)
{
    return std::all_of(values, values + n, [](float v) { return !(std::fabs(v) > f16_max) || std::isinf(v); });
}

/* Request the rows of a tensor, and emit them in their type. */
hearth_status put_tensor(const hth_new_model *model, size_t i, ggml_type type, hth_put_fn put, void *user_data,
                         hearth_error *err)
{
    static const char zeros[GGUF_DEFAULT_ALIGNMENT] = {};
    const hth_new_tensor &tensor = model->tensors[i];
    const size_t row_bytes = ggml_row_size(type, (int64_t)tensor.row_length);
    const size_t n_bytes = (size_t)tensor.n_rows * row_bytes, n_pad = GGML_PAD(n_bytes, sizeof(zeros)) - n_bytes;
    const uint64_t n_at_once = std::max<uint64_t>(1, chunk_floats / std::max<uint64_t>(1, tensor.row_length));
    std::vector<float> floats;
    std::vector<char> bytes;

    for (uint64_t row = 0; row < tensor.n_rows; row += n_at_once) {
        const uint64_t n = std::min(n_at_once, tensor.n_rows - row);

        floats.resize(n * tensor.row_length);
        bytes.resize(n * row_bytes);
        hearth_status status = model->rows(model->user_data, i, row, n, floats.data(), err);

        if (status == HEARTH_OK && type == GGML_TYPE_F16 && !fits_f16(floats.data(), floats.size()))
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "tensor '%s' has values that are too large for f16; choose --type bf16 or f32",
                            tensor.name);
        if (status == HEARTH_OK) {
            (void)ggml_quantize_chunk(type, floats.data(), bytes.data(), 0, (int64_t)n, (int64_t)tensor.row_length,
                                      nullptr);
            status = put(user_data, bytes.data(), bytes.size(), err);
        }
        if (status != HEARTH_OK)
            return status;
    }
    return n_pad > 0 ? put(user_data, zeros, n_pad, err) : HEARTH_OK;
}

uint64_t file_bytes(const hth_new_model *model, ggml_type type, const gguf_context *file)
{
    uint64_t n = gguf_get_meta_size(file);

    for (size_t i = 0; i < model->n_tensors; i++) {
        const hth_new_tensor &tensor = model->tensors[i];
        uint64_t own = tensor.n_rows * ggml_row_size(type_of(tensor, type), (int64_t)tensor.row_length);

        n += GGML_PAD(own, GGUF_DEFAULT_ALIGNMENT);
    }
    return n;
}

} // namespace

extern "C" {

hearth_status hth_shim_model_write(const hth_new_model *model, enum ggml_type type, enum llama_ftype ftype,
                                   hth_put_fn put, void *put_user_data, uint64_t *bytes_out, hearth_error *err)
{
    return hth_guarded(err, "write a model", [&] {
        gguf_context_ptr file(gguf_init_empty());
        ggml_context_ptr context(ggml_init({ (model->n_tensors + 1) * ggml_tensor_overhead(), nullptr, true }));

        if (!file || !context)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tensors", model->n_tensors);
        for (size_t i = 0; i < model->n_metas; i++)
            set_meta(file.get(), model->metas[i]);
        gguf_set_val_u32(file.get(), "general.file_type", ftype);
        gguf_set_val_u32(file.get(), "general.quantization_version", GGML_QNT_VERSION);
        add_tensors(model, type, context.get(), file.get());
        *bytes_out = file_bytes(model, type, file.get());
        if (!put)
            return HEARTH_OK;
        std::vector<char> head(gguf_get_meta_size(file.get()));
        gguf_get_meta_data(file.get(), head.data());
        hearth_status status = put(put_user_data, head.data(), head.size(), err);
        for (size_t i = 0; i < model->n_tensors && status == HEARTH_OK; i++)
            status = put_tensor(model, i, type_of(model->tensors[i], type), put, put_user_data, err);
        return status;
    });
}

hearth_status hth_shim_model_quantize(const char *from, const char *to, enum llama_ftype ftype, bool *done,
                                      hearth_error *err)
{
    return hth_guarded(err, "quantise a model", [&] {
        llama_model_quantize_params params = llama_model_quantize_default_params();

        params.ftype = ftype;
        params.max_buf_size = quantize_bytes;
        *done = llama_model_quantize(from, to, &params) == 0;
        return HEARTH_OK;
    });
}

} // extern "C"
