/*
 * conversion.c - from the tensors of a checkpoint to those of a GGUF file
 */
#include "convert/conversion.h"

#include <stdlib.h>
#include <string.h>

#include "convert/checkpoint.h"
#include "convert/mapped_file.h"
#include "convert/metadata.h"
#include "convert/tensor_names.h"

struct hth_conversion {
    const hth_model_writer *writer;
    hth_checkpoint checkpoint;
    hth_architecture architecture;
    hth_tokenizer tokenizer;
    hth_mapped_tensor *mapped; /* [n] */
    hth_new_tensor *named;     /* [n] */
    size_t n;
    char *name;
    hth_meta metas[HTH_METADATA_MAX];
    size_t n_metas;
    hth_conversion_plan plan;
};

/* ---- values ---- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;

    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent > 0)
        return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    return (sign ? -1.0f : 1.0f) * (float)mantissa * 0x1p-24f; /* exact */
}

/* Files are little-endian, like all machines that Hearth runs on. */
static void read_values(hth_safetensors_type type, const uint8_t *from, uint64_t n, float *to)
{
    uint16_t half;

    if (type == HTH_SAFETENSORS_F32) {
        memcpy(to, from, (size_t)n * sizeof(*to));
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&half, from + i * sizeof(half), sizeof(half));
        to[i] = type == HTH_SAFETENSORS_BF16 ? from_bits((uint32_t)half << 16) : from_f16(half);
    }
}

/* ---- rows ---- */

/* The row of the checkpoint that becomes this one (hth_tensor_change). */
static uint64_t source_row(const hth_mapped_tensor *tensor, uint64_t row)
{
    uint64_t in_head = row % tensor->head_length;

    if (tensor->change != HTH_TENSOR_PAIRED)
        return row;
    return row - in_head + in_head % 2 * (tensor->head_length / 2) + in_head / 2;
}

static void read_vector(const hth_mapped_tensor *tensor, uint64_t length, float *out)
{
    const uint8_t *from = tensor->file + tensor->tensor->begin;
    size_t value_bytes = tensor->tensor->type == HTH_SAFETENSORS_F32 ? 4 : 2;

    for (uint64_t i = 0; i < length; i++) {
        read_values(tensor->tensor->type, from + source_row(tensor, i) * value_bytes, 1, &out[i]);
        if (tensor->change == HTH_TENSOR_PLUS_ONE)
            out[i] += 1.0f;
    }
}

static hearth_status read_rows(void *user_data, size_t i, uint64_t first, uint64_t n, float *out, hearth_error *err)
{
    const hth_conversion *conversion = user_data;
    const hth_mapped_tensor *tensor = &conversion->mapped[i];
    const hth_new_tensor *named = &conversion->named[i];
    uint64_t length = named->row_length, row_bytes;

    (void)err;
    if (!tensor->tensor) {
        hth_architecture_rope_factors(&conversion->architecture, out);
    } else if (named->is_vector) {
        read_vector(tensor, length, out);
    } else {
        row_bytes = length * (tensor->tensor->type == HTH_SAFETENSORS_F32 ? 4 : 2);
        for (uint64_t row = 0; row < n; row++)
            read_values(tensor->tensor->type,
                        tensor->file + tensor->tensor->begin + source_row(tensor, first + row) * row_bytes, length,
                        out + row * length);
    }
    if (tensor->tensor && first + n == named->n_rows)
        hth_mapped_file_release(tensor->file + tensor->tensor->begin, tensor->tensor->end - tensor->tensor->begin);
    return HEARTH_OK;
}

/* ---- the plan ---- */

static hth_new_model model_of(hth_conversion *conversion)
{
    return (hth_new_model){ .metas = conversion->metas,
                            .n_metas = conversion->n_metas,
                            .tensors = conversion->named,
                            .n_tensors = conversion->n,
                            .rows = read_rows,
                            .user_data = conversion };
}

/* The smallest type that represents every matrix without loss. Vectors are always F32. */
static const char *own_type(const hth_conversion *conversion)
{
    const hth_safetensors_tensor *first = NULL;

    for (size_t i = 0; i < conversion->n; i++) {
        const hth_safetensors_tensor *tensor = conversion->mapped[i].tensor;

        if (!tensor || conversion->named[i].is_vector)
            continue;
        if (first && tensor->type != first->type)
            return "f32"; /* neither F16 nor BF16 can represent the other */
        first = tensor;
    }
    return !first || first->type == HTH_SAFETENSORS_F32 ? "f32" : first->type == HTH_SAFETENSORS_BF16 ? "bf16" : "f16";
}

static hearth_status make_plan(hth_conversion *conversion, const char *type, hearth_error *err)
{
    hth_conversion_plan *plan = &conversion->plan;
    hth_new_model model = model_of(conversion);
    bool mixed = false;

    if (type && !conversion->writer->type_find(type, &mixed))
        return hth_fail(err, HEARTH_MISUSE, "there is no type '%s'", type);
    *plan = (hth_conversion_plan){ .architecture = conversion->architecture.name,
                                   .type = type && !mixed ? type : own_type(conversion),
                                   .tokenizer = conversion->tokenizer.vocabulary.model,
                                   .tokenizer_pre = conversion->tokenizer.vocabulary.pre,
                                   .n_ctx = conversion->architecture.n_ctx,
                                   .n_files = conversion->checkpoint.n_files,
                                   .n_tensors = conversion->n,
                                   .n_tokens = conversion->tokenizer.vocabulary.n };
    for (size_t i = 0; i < conversion->checkpoint.n_files; i++)
        plan->bytes_in += conversion->checkpoint.files[i].n_bytes;
    for (size_t i = 0; i < conversion->n; i++)
        plan->n_parameters += conversion->named[i].row_length * conversion->named[i].n_rows;
    return conversion->writer->write(&model, plan->type, NULL, NULL, &plan->bytes_out, err);
}

static hearth_status open_all(hth_conversion *c, const char *folder, bool require_argument_order, hearth_error *err)
{
    hearth_status status = hth_checkpoint_open(folder, require_argument_order, &c->checkpoint, err);

    if (status == HEARTH_OK)
        status = hth_architecture_read(c->checkpoint.config, &c->architecture, err);
    if (status == HEARTH_OK)
        status = hth_tensors_map(&c->checkpoint, &c->architecture, &c->mapped, &c->named, &c->n, err);
    if (status == HEARTH_OK)
        status = hth_tokenizer_read(folder, c->checkpoint.config, c->architecture.n_vocab, &c->tokenizer, err);
    return status;
}

hearth_status hth_conversion_open(const hth_model_writer *writer, const char *folder, const char *type,
                                  const char *name, bool require_argument_order, hth_conversion **out,
                                  hearth_error *err)
{
    hth_conversion *c = calloc(1, sizeof(*c));
    hearth_status status;

    if (!c || !(c->name = strdup(name))) {
        free(c);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to convert '%s'", folder);
    }
    c->writer = writer;
    status = open_all(c, folder, require_argument_order, err);
    if (status == HEARTH_OK) {
        c->n_metas = hth_metadata_list(&c->architecture, &c->tokenizer, c->name, c->metas);
        status = make_plan(c, type, err);
    }
    if (status != HEARTH_OK) {
        hth_conversion_close(c);
        return status;
    }
    *out = c;
    return HEARTH_OK;
}

void hth_conversion_close(hth_conversion *conversion)
{
    if (!conversion)
        return;
    hth_tokenizer_deinit(&conversion->tokenizer);
    free(conversion->mapped);
    free(conversion->named);
    hth_checkpoint_close(&conversion->checkpoint);
    free(conversion->name);
    free(conversion);
}

const hth_conversion_plan *hth_conversion_planned(const hth_conversion *conversion)
{
    return &conversion->plan;
}

hearth_status hth_conversion_write(hth_conversion *conversion, hth_put_fn put, void *user_data, hearth_error *err)
{
    hth_new_model model = model_of(conversion);
    uint64_t n_bytes;

    return conversion->writer->write(&model, conversion->plan.type, put, user_data, &n_bytes, err);
}
