/*
 * model_weights.c - write a declared model, with its weights drawn from the seed, and show progress
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "random_model.h"

/* ---- progress ---- */

void progress_show(struct progress *progress, double part)
{
    int percent = (int)(100.0 * part);
    int step = progress->is_terminal ? 1 : 10;

    if (percent > 100)
        percent = 100;
    percent -= percent % step;
    if (percent <= progress->percent_shown)
        return;
    progress->percent_shown = percent;
    if (progress->is_terminal)
        fprintf(stderr, "\rmake_model: %s %3d%%", progress->label, percent);
    else
        fprintf(stderr, "make_model: %s %d%%\n", progress->label, percent);
}

void progress_end(struct progress *progress)
{
    if (progress->is_terminal && progress->percent_shown >= 0)
        fputc('\n', stderr);
    progress->percent_shown = -1;
}

/* ---- weights ---- */

struct writer {
    FILE *file;
    struct progress *progress;
    double part_max; /* the part of the whole work that writing the weights is */
    uint64_t bytes, bytes_max;
    uint64_t seed;
    float *values; /* [N_WEIGHT_VALUES] of the tensor being written */
    ggml_fp16_t *values_f16;
    unsigned char *chunk; /* [CHUNK_BYTES] */
};

static bool writer_put(struct writer *writer, const void *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, writer->file) != n)
        return false;
    writer->bytes += n;
    progress_show(writer->progress, writer->part_max * (double)writer->bytes / (double)writer->bytes_max);
    return true;
}

/*
 * Write elements [begin, end) of a tensor, uniform in (-amplitude, amplitude).
 *
 * There are 65536 equally spaced values, so that a 64-bit draw gives four elements and each is one look in a table.
 */
static bool write_random(struct writer *writer, const struct ggml_tensor *tensor, uint64_t begin, uint64_t end,
                         float amplitude)
{
    uint64_t key = mix(writer->seed ^ hash_text(tensor->name));
    float spacing = amplitude / 32768.0f;
    size_t element_bytes = ggml_type_size(tensor->type);
    uint16_t draw[4];

    for (int i = 0; i < N_WEIGHT_VALUES; i++) {
        writer->values[i] = ((float)i - 32767.5f) * spacing;
        writer->values_f16[i] = ggml_fp32_to_fp16(writer->values[i]);
    }
    while (begin < end) {
        uint64_t n = end - begin < CHUNK_BYTES / element_bytes ? end - begin : CHUNK_BYTES / element_bytes;
        float *chunk_f32 = (float *)writer->chunk;
        ggml_fp16_t *chunk_f16 = (ggml_fp16_t *)writer->chunk;

        for (uint64_t i = 0; i < n; i++) {
            if (i == 0 || (begin + i) % 4 == 0) {
                uint64_t bits = random_at(key, (begin + i) / 4);

                for (int j = 0; j < 4; j++)
                    draw[j] = (uint16_t)(bits >> (16 * j));
            }
            if (tensor->type == GGML_TYPE_F16)
                chunk_f16[i] = writer->values_f16[draw[(begin + i) % 4]];
            else
                chunk_f32[i] = writer->values[draw[(begin + i) % 4]];
        }
        if (!writer_put(writer, writer->chunk, n * element_bytes))
            return false;
        begin += n;
    }
    return true;
}

/* Write a small F32 tensor whose values follow a rule. They are exact, so that no rounding mode can change them. */
static bool write_pattern(struct writer *writer, const struct ggml_tensor *tensor, enum fill fill)
{
    for (int64_t i = 0; i < ggml_nelements(tensor); i++) {
        float value = 1.0f;

        if (fill == FILL_MINUS_RAMP)
            value = -(float)(1 + i % tensor->ne[0]);
        else if (fill == FILL_TIME_STEP)
            value = -3.0f - 0.5f * (float)(i % 6);
        else if (fill == FILL_QUERY_NORM)
            value = QUERY_GAIN;
        if (!writer_put(writer, &value, sizeof(value)))
            return false;
    }
    return true;
}

static bool write_weight(struct writer *writer, const struct weight *weight)
{
    const struct ggml_tensor *tensor = weight->tensor;
    uint64_t n = (uint64_t)ggml_nelements(tensor);
    uint64_t n_quiet = 0;
    float amplitude = 1.73f / sqrtf((float)tensor->ne[0]);

    if (weight->fill != FILL_RANDOM && weight->fill != FILL_HEAD && weight->fill != FILL_QUERY)
        return write_pattern(writer, tensor, weight->fill);

    /* Special tokens get small logits, so that greedy text is words and neither ends nor breaks inside a character. */
    if (weight->fill == FILL_HEAD)
        n_quiet = (uint64_t)tensor->ne[0] * N_SPECIAL_TOKENS;
    if (weight->fill == FILL_QUERY)
        amplitude *= QUERY_GAIN;
    return write_random(writer, tensor, 0, n_quiet, amplitude / 16.0f) &&
           write_random(writer, tensor, n_quiet, n, amplitude);
}

static bool write_padding(struct writer *writer, size_t n_written, size_t alignment)
{
    static const unsigned char zeros[64];
    size_t n = GGML_PAD(n_written, alignment) - n_written;

    return n == 0 || writer_put(writer, zeros, n);
}

bool model_write(const struct model *model, uint64_t seed, FILE *file, struct progress *progress, double part_max)
{
    struct writer writer = {
        .file = file, .progress = progress, .part_max = part_max, .seed = seed, .bytes_max = model_bytes(model)
    };
    size_t alignment = gguf_get_alignment(model->gguf);
    bool is_written = gguf_write_to_file_ptr(model->gguf, file, /* only_meta= */ true);
    int errnum;

    writer.bytes = gguf_get_meta_size(model->gguf);
    writer.values = allocate(N_WEIGHT_VALUES, sizeof(*writer.values));
    writer.values_f16 = allocate(N_WEIGHT_VALUES, sizeof(*writer.values_f16));
    writer.chunk = allocate(CHUNK_BYTES, 1);
    for (size_t i = 0; is_written && i < model->n_weights; i++) {
        is_written = write_weight(&writer, &model->weights[i]) &&
                     write_padding(&writer, ggml_nbytes(model->weights[i].tensor), alignment);
    }
    is_written = is_written && fflush(file) == 0;
    errnum = errno;
    free(writer.values);
    free(writer.values_f16);
    free(writer.chunk);
    errno = errnum;
    return is_written;
}
