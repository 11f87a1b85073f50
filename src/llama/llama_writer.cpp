/*
 * llama_writer.cpp - writes a GGUF file through the engine; its exceptions are caught here
 */
#include "llama/llama_writer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ggml-cpp.h>
#include <ggml.h>
#include <gguf.h>

#include "llama/llama_guard.h"

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

/* Requests rows, and emits them in their type. */
class tensor_writer
{
  public:
    tensor_writer(const hth_new_model *of, hth_put_fn out, void *out_user_data)
        : model(of), put(out), user_data(out_user_data)
    {
    }

    hearth_status write(size_t i, ggml_type type, hearth_error *err)
    {
        const hth_new_tensor &tensor = model->tensors[i];
        uint64_t n_at_once = std::max<uint64_t>(1, chunk_floats / std::max<uint64_t>(1, tensor.row_length));

        for (uint64_t row = 0; row < tensor.n_rows; row += n_at_once) {
            hearth_status status = write_rows(i, type, row, std::min(n_at_once, tensor.n_rows - row), err);

            if (status != HEARTH_OK)
                return status;
        }
        return pad((size_t)tensor.n_rows * ggml_row_size(type, (int64_t)tensor.row_length), err);
    }

    hearth_status pad(size_t n_written, hearth_error *err)
    {
        static const char zeros[GGUF_DEFAULT_ALIGNMENT] = {};
        size_t n = GGML_PAD(n_written, sizeof(zeros)) - n_written;

        return n > 0 ? put(user_data, zeros, n, err) : HEARTH_OK;
    }

  private:
    hearth_status write_rows(size_t i, ggml_type type, uint64_t row, uint64_t n, hearth_error *err)
    {
        const hth_new_tensor &tensor = model->tensors[i];
        hearth_status status;

        floats.resize(n * tensor.row_length);
        bytes.resize(n * ggml_row_size(type, (int64_t)tensor.row_length));
        status = model->rows(model->user_data, i, row, n, floats.data(), err);
        if (status != HEARTH_OK)
            return status;
        if (type == GGML_TYPE_F16 && !fits_f16(floats.data(), floats.size()))
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "tensor '%s' has values that are too large for f16; choose --type bf16 or f32",
                            tensor.name);
        (void)ggml_quantize_chunk(type, floats.data(), bytes.data(), 0, (int64_t)n, (int64_t)tensor.row_length,
                                  nullptr);
        return put(user_data, bytes.data(), bytes.size(), err);
    }

    const hth_new_model *model;
    hth_put_fn put;
    void *user_data;
    std::vector<float> floats;
    std::vector<char> bytes;
};

hearth_status put_file(const hth_new_model *model, ggml_type type, const gguf_context *file, hth_put_fn put,
                       void *user_data, hearth_error *err)
{
    tensor_writer writer(model, put, user_data);
    std::vector<char> head(gguf_get_meta_size(file));
    hearth_status status;

    gguf_get_meta_data(file, head.data());
    status = put(user_data, head.data(), head.size(), err);
    for (size_t i = 0; i < model->n_tensors && status == HEARTH_OK; i++)
        status = writer.write(i, type_of(model->tensors[i], type), err);
    return status;
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
        return put ? put_file(model, type, file.get(), put, put_user_data, err) : HEARTH_OK;
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
