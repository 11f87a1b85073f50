/*
 * make_adapter.c - write a LoRA adapter of random weights for a GGUF model
 *
 * Tests and benchmarks need adapters that change nothing, and adapters that change everything. The adapter has a pair
 * of matrices for every matrix of the attention and the feed-forward layers of the model. With a gain of 0, the second
 * matrix of each pair is zero, and so is the change. Equal arguments give equal bytes.
 *
 * The options for wrong adapters (another architecture, another shape) are for tests of refusals.
 */
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "random_model.h"

struct options {
    uint32_t rank;
    float alpha, gain;
    uint64_t seed;
    const char *architecture; /* NULL: the model's */
    uint32_t excess;          /* of a row of each first matrix */
    uint16_t n_parts;         /* of a split that the file claims to be the last part of; 0: it is whole */
};

bool fail(const char *format, ...)
{
    va_list arguments;

    fputs("make_adapter: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

static bool is_changed(const struct ggml_tensor *tensor)
{
    static const char *const parts[] = { "attn_", "ffn_" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(tensor->name, parts[i]) && !strstr(tensor->name, "_norm") && tensor->ne[1] > 1 && tensor->ne[2] == 1)
            return true;
    return false;
}

static void add(struct gguf_context *file, struct ggml_context *tensors, const char *name, const char *half,
                int64_t n_columns, int64_t n_rows, uint64_t seed, float amplitude)
{
    struct ggml_tensor *tensor = ggml_new_tensor_2d(tensors, GGML_TYPE_F32, n_columns, n_rows);
    float *values = tensor->data;

    ggml_format_name(tensor, "%s.%s", name, half);
    for (int64_t i = 0; i < ggml_nelements(tensor); i++)
        values[i] =
            amplitude * ((float)(random_at(mix(seed ^ hash_text(tensor->name)), (uint64_t)i) >> 40) / (1 << 23) - 1);
    gguf_add_tensor(file, tensor);
}

static bool write_adapter(const struct options *options, const struct gguf_context *model,
                          const struct ggml_context *matrices, const char *path)
{
    size_t n_bytes = ggml_tensor_overhead();
    const char *architecture = options->architecture
                                 ? options->architecture
                                 : gguf_get_val_str(model, gguf_find_key(model, "general.architecture"));
    struct gguf_context *file = gguf_init_empty();
    struct ggml_context *tensors;
    bool is_written;

    for (struct ggml_tensor *t = ggml_get_first_tensor(matrices); t; t = ggml_get_next_tensor(matrices, t))
        if (is_changed(t))
            n_bytes += 2 * ggml_tensor_overhead() + 256 +
                       sizeof(float) * options->rank * (size_t)(t->ne[0] + options->excess + t->ne[1]);
    tensors = ggml_init((struct ggml_init_params){ .mem_size = n_bytes });
    gguf_set_val_str(file, "general.type", "adapter");
    gguf_set_val_str(file, "general.architecture", architecture);
    gguf_set_val_str(file, "adapter.type", "lora");
    gguf_set_val_f32(file, "adapter.lora.alpha", options->alpha);
    mark_part(file, options->n_parts);
    for (struct ggml_tensor *t = ggml_get_first_tensor(matrices); t; t = ggml_get_next_tensor(matrices, t))
        if (is_changed(t)) {
            add(file, tensors, t->name, "lora_a", t->ne[0] + options->excess, options->rank, options->seed,
                1.73f / sqrtf((float)t->ne[0]));
            add(file, tensors, t->name, "lora_b", options->rank, t->ne[1], options->seed,
                options->gain / sqrtf((float)options->rank));
        }
    is_written = gguf_write_to_file(file, path, /* only_meta= */ false) || fail("cannot write '%s'", path);
    gguf_free(file);
    ggml_free(tensors);
    return is_written;
}

static int usage(FILE *to)
{
    fputs("usage: make_adapter [options] MODEL OUT\n"
          "  -r RANK          rank of each pair (8)\n"
          "  -a ALPHA         adapter.lora.alpha (16)\n"
          "  -g GAIN          size of the change; 0: the adapter changes nothing (1)\n"
          "  -s SEED          (1)\n"
          "  -A ARCHITECTURE  instead of the model's, which is refused\n"
          "  -x COLUMNS       more than the model's matrices have, which is refused (0)\n"
          "  -p PARTS         of a split that the file claims to be the last part of, which is refused\n",
          to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct options options = { .rank = 8, .alpha = 16, .gain = 1, .seed = 1 };
    struct ggml_context *matrices = NULL;
    struct gguf_context *model;
    bool is_written;
    int option;

    while ((option = getopt(argc, argv, "r:a:g:s:A:x:p:h")) != -1)
        switch (option) {
        case 'r': options.rank = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'a': options.alpha = strtof(optarg, NULL); break;
        case 'g': options.gain = strtof(optarg, NULL); break;
        case 's': options.seed = strtoull(optarg, NULL, 10); break;
        case 'A': options.architecture = optarg; break;
        case 'x': options.excess = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'p': options.n_parts = (uint16_t)strtoul(optarg, NULL, 10); break;
        case 'h': return usage(stdout);
        default: return usage(stderr);
        }
    if (argc - optind != 2 || options.rank < 1 || options.rank > 4096)
        return usage(stderr);
    model = gguf_init_from_file(argv[optind], (struct gguf_init_params){ .no_alloc = true, .ctx = &matrices });
    if (!model || gguf_find_key(model, "general.architecture") < 0)
        return !fail("'%s' is no GGUF model", argv[optind]);
    is_written = write_adapter(&options, model, matrices, argv[optind + 1]);
    gguf_free(model);
    ggml_free(matrices);
    return is_written ? 0 : 1;
}
