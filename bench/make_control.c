/*
 * make_control.c - write a control vector of random values for a GGUF model
 *
 * The file has a direction for each layer of the model but the first, as llama.cpp's tool writes it. Equal arguments
 * give equal bytes. The options for wrong files are for tests of refusals.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>

#include "random_model.h"

struct options {
    float gain;
    uint64_t seed;
    uint32_t first, last; /* layers; 0: 1, and the last one of the model */
    uint32_t excess;      /* values more than the model's embeddings have */
    uint16_t n_parts;     /* of a split that the file claims to be the last part of; 0: it is whole */
    const char *hint;     /* the architecture that the file names; NULL: the model's */
    const char *prefix;   /* of the names of tensors */
};

bool fail(const char *format, ...)
{
    va_list arguments;

    fputs("make_control: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return false;
}

/* A number of the model under its architecture's name; 0: there is none. */
static uint32_t number_of(const struct gguf_context *model, const char *architecture, const char *key)
{
    char name[NAME_BYTES];
    int64_t id;

    snprintf(name, sizeof(name), "%s.%s", architecture, key);
    id = gguf_find_key(model, name);
    return id < 0 || gguf_get_kv_type(model, id) != GGUF_TYPE_UINT32 ? 0 : gguf_get_val_u32(model, id);
}

static bool write_vector(const struct options *options, const struct gguf_context *model, const char *path)
{
    const char *architecture = gguf_get_val_str(model, gguf_find_key(model, "general.architecture"));
    uint32_t n_layers = number_of(model, architecture, "block_count");
    uint32_t n_values = number_of(model, architecture, "embedding_length") + options->excess;
    uint32_t first = options->first ? options->first : 1, last = options->last ? options->last : n_layers - 1;
    size_t n_bytes = (last - first + 1) * (ggml_tensor_overhead() + n_values * sizeof(float) + 256);
    struct gguf_context *file;
    struct ggml_context *tensors;
    bool is_written;

    if (n_layers < 2 || last < first)
        return fail("the model has %u layers, none of them between %u and %u", n_layers, first, last);
    file = gguf_init_empty();
    tensors = ggml_init((struct ggml_init_params){ .mem_size = n_bytes });
    gguf_set_val_str(file, "general.architecture", "controlvector");
    gguf_set_val_str(file, "controlvector.model_hint", options->hint ? options->hint : architecture);
    gguf_set_val_i32(file, "controlvector.layer_count", (int32_t)(last - first + 1));
    mark_part(file, options->n_parts);
    for (uint32_t layer = first; layer <= last; layer++) {
        struct ggml_tensor *tensor = ggml_new_tensor_1d(tensors, GGML_TYPE_F32, n_values);
        float *values = tensor->data;

        ggml_format_name(tensor, "%s.%u", options->prefix, layer);
        for (uint32_t i = 0; i < n_values; i++)
            values[i] = options->gain *
                        ((float)(random_at(mix(options->seed ^ hash_text(tensor->name)), i) >> 40) / (1 << 23) - 1);
        gguf_add_tensor(file, tensor);
    }
    is_written = gguf_write_to_file(file, path, /* only_meta= */ false) || fail("cannot write '%s'", path);
    gguf_free(file);
    ggml_free(tensors);
    return is_written;
}

static int usage(FILE *to)
{
    fputs("usage: make_control [options] MODEL OUT\n"
          "  -g GAIN   size of the change (1)\n"
          "  -s SEED   (1)\n"
          "  -f LAYER  the first layer with a direction (1)\n"
          "  -l LAYER  the last one (the model's)\n"
          "  -x N      values more than the model's embeddings have, which is refused (0)\n"
          "  -p PARTS  of a split that the file claims to be the last part of, which is refused\n"
          "  -H HINT   the architecture that the file names (the model's)\n"
          "  -n NAME   of the tensors, instead of 'direction', which is refused\n",
          to);
    return to == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct options options = { .gain = 1, .seed = 1, .prefix = "direction" };
    struct ggml_context *matrices = NULL;
    struct gguf_context *model;
    bool is_written;
    int option;

    while ((option = getopt(argc, argv, "g:s:f:l:x:p:H:n:h")) != -1)
        switch (option) {
        case 'g': options.gain = strtof(optarg, NULL); break;
        case 's': options.seed = strtoull(optarg, NULL, 10); break;
        case 'f': options.first = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'l': options.last = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'x': options.excess = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'p': options.n_parts = (uint16_t)strtoul(optarg, NULL, 10); break;
        case 'H': options.hint = optarg; break;
        case 'n': options.prefix = optarg; break;
        case 'h': return usage(stdout);
        default: return usage(stderr);
        }
    if (argc - optind != 2)
        return usage(stderr);
    model = gguf_init_from_file(argv[optind], (struct gguf_init_params){ .no_alloc = true, .ctx = &matrices });
    if (!model || gguf_find_key(model, "general.architecture") < 0)
        return !fail("'%s' is no GGUF model", argv[optind]);
    is_written = write_vector(&options, model, argv[optind + 1]);
    gguf_free(model);
    ggml_free(matrices);
    return is_written ? 0 : 1;
}
