/*
 * backend_weights.c - puts the engine's repacked weights into regions (weight_region.h)
 *
 * The engine keeps weights that it repacks in buffers of the type "CPU_REPACK". It handles such a buffer in three
 * steps: allocate it; assign each tensor its place and its kernels (init_tensor); repack each tensor into its place
 * (set_tensor). Here, for loads that ask for it, the buffer's memory is that of a region, and a filled region makes
 * set_tensor unnecessary. The type is still the engine's own, so all its decisions are unchanged.
 *
 * The engine has no public interface for that, so the types below repeat the start of its function tables
 * (ggml-backend-impl.h of v0.5.0). We check through public functions that the fields are where we expect them;
 * otherwise the engine's buffer is used unchanged.
 *
 * Wrong weights are worse than a slow load. So the key of a region includes the file, the engine and the CPU. The
 * region records the layout of the tensors. And for each kernel, the smallest tensor is still repacked and compared.
 */
#include "llama/backend_inside.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "engine/module_lock.h"
#include "engine/weight_region.h"

enum { BUFFERS_MAX = 4, PROBES_MAX = 32, ALIGNMENT = 64, MACHINE_BYTES = 1024 };

/* ---- the engine's tables ---- */

typedef struct buffer_type {
    const char *(*name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
    void (*others[4])(void);
    ggml_backend_dev_t device;
} buffer_type;

typedef struct buffer {
    void (*free_buffer)(ggml_backend_buffer_t);
    void *(*base)(ggml_backend_buffer_t);
    enum ggml_status (*init_tensor)(ggml_backend_buffer_t, struct ggml_tensor *);
    void (*memset_tensor)(void);
    void (*set_tensor)(ggml_backend_buffer_t, struct ggml_tensor *, const void *, size_t, size_t);
    void (*others[4])(void);
    void (*clear)(ggml_backend_buffer_t, uint8_t);
    void (*reset)(void);
    ggml_backend_buffer_type_t type;
    void *context;
    size_t size;
} buffer;

static buffer *fields(ggml_backend_buffer_t of)
{
    return (buffer *)(void *)of;
}

/* ---- a load ---- */

/* The smallest tensor of a kernel: "extra" identifies the kernel. */
typedef struct probe {
    const void *kernel;
    const struct ggml_tensor *tensor;
} probe;

/* The context of one of our buffers. */
typedef struct packed {
    hth_weight_region *region;
    hth_llama_weights *load; /* NULL once it has ended */
    buffer engines;          /* the engine's entries, whose memory is a few bytes */
    hth_sha256 *layout;
    size_t n_tensors;
    size_t n_set;
    probe probes[PROBES_MAX];
    size_t n_probes;
    bool is_wrong;
} packed;

struct hth_llama_weights {
    const hth_engine_model *model;
    const hth_engine_model_params *params;
    uint8_t digest[HTH_WEIGHT_MODEL_BYTES]; /* computed before the engine opened the model */
    packed *buffers[BUFFERS_MAX];
    unsigned n_buffers; /* number of buffers made, including freed ones */
};

/* The current load on this thread. The engine passes no user data to a buffer's functions. */
static _Thread_local hth_llama_weights *current;

/* The type of repacked buffers, one per process, and the engine's own function for it. */
static struct {
    pthread_mutex_t lock;
    buffer_type *type; /* NULL: not looked for yet, or does not exist */
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER };

static packed *packed_of(ggml_backend_buffer_t of)
{
    return fields(of)->context;
}

static uint8_t *base_of(const packed *p)
{
    return hth_weight_region_memory(p->region);
}

static void *packed_base(ggml_backend_buffer_t of)
{
    return base_of(packed_of(of));
}

static void packed_free(ggml_backend_buffer_t of)
{
    packed *p = packed_of(of);

    for (unsigned i = 0; p->load && i < p->load->n_buffers; i++)
        if (p->load->buffers[i] == p)
            p->load->buffers[i] = NULL;
    fields(of)->context = p->engines.context;
    fields(of)->size = p->engines.size;
    hth_weight_region_close(p->region);
    hth_sha256_free(p->layout);
    p->engines.free_buffer(of);
    free(p);
}

static void packed_clear(ggml_backend_buffer_t of, uint8_t value)
{
    memset(packed_base(of), value, fields(of)->size);
}

static void note_probe(packed *p, const struct ggml_tensor *tensor)
{
    size_t i = 0;

    while (i < p->n_probes && p->probes[i].kernel != tensor->extra)
        i++;
    if (i == PROBES_MAX)
        p->is_wrong = true; /* more kernels than the engine has */
    else if (i == p->n_probes)
        p->probes[p->n_probes++] = (probe){ .kernel = tensor->extra, .tensor = tensor };
    else if (ggml_nbytes(tensor) < ggml_nbytes(p->probes[i].tensor))
        p->probes[i].tensor = tensor;
}

static enum ggml_status packed_init_tensor(ggml_backend_buffer_t of, struct ggml_tensor *tensor)
{
    packed *p = packed_of(of);
    enum ggml_status status = p->engines.init_tensor(of, tensor);
    uint8_t numbers[8 * (2 + GGML_MAX_DIMS)];

    hth_put_u64(numbers, (uint64_t)((uint8_t *)tensor->data - base_of(p)));
    hth_put_u64(numbers + 8, (uint64_t)tensor->type);
    for (size_t i = 0; i < GGML_MAX_DIMS; i++)
        hth_put_u64(numbers + 16 + 8 * i, (uint64_t)tensor->ne[i]);
    hth_sha256_update(p->layout, tensor->name, sizeof(tensor->name));
    hth_sha256_update(p->layout, numbers, sizeof(numbers));
    p->n_tensors++;
    note_probe(p, tensor);
    return status;
}

/* Repack a tensor elsewhere and compare: does the region have the same bytes? */
static bool is_as_repacked(const packed *p, ggml_backend_buffer_t of, const struct ggml_tensor *tensor,
                           const void *values, size_t n_bytes)
{
    struct ggml_tensor copy = *tensor;
    bool same;

    if (posix_memalign(&copy.data, ALIGNMENT, n_bytes) != 0)
        return false;
    p->engines.set_tensor(of, &copy, values, 0, n_bytes);
    same = memcmp(copy.data, tensor->data, n_bytes) == 0;
    free(copy.data);
    return same;
}

static bool is_probe(const packed *p, const struct ggml_tensor *tensor)
{
    for (size_t i = 0; i < p->n_probes; i++)
        if (p->probes[i].tensor == tensor)
            return true;
    return false;
}

static void packed_set_tensor(ggml_backend_buffer_t of, struct ggml_tensor *tensor, const void *values, size_t offset,
                              size_t n_bytes)
{
    packed *p = packed_of(of);
    uint8_t layout[HTH_SHA256_BYTES];

    if (!p->load || !hth_weight_region_is_filled(p->region)) {
        p->engines.set_tensor(of, tensor, values, offset, n_bytes);
        p->n_set++;
        return;
    }
    if (p->n_set++ == 0) { /* all tensors now have their places */
        hth_sha256_peek(p->layout, layout);
        p->is_wrong |= !hth_weight_region_has_layout(p->region, layout);
    }
    if (!p->is_wrong && is_probe(p, tensor))
        p->is_wrong = !is_as_repacked(p, of, tensor, values, n_bytes);
}

/* Are the engine's fields where we expect them? */
static bool is_known(ggml_backend_buffer_t of, ggml_backend_buffer_type_t type)
{
    const buffer *b = fields(of);

    return b->type == type && ggml_backend_buffer_get_type(of) == type && b->size == ggml_backend_buffer_get_size(of) &&
           b->base && (uintptr_t)b->context <= (uintptr_t)ggml_backend_buffer_get_base(of) &&
           (uintptr_t)ggml_backend_buffer_get_base(of) - (uintptr_t)b->context < ALIGNMENT;
}

static packed *packed_new(hth_llama_weights *load, size_t n_bytes, hearth_error *err)
{
    packed *p = calloc(1, sizeof(*p));
    char machine[MACHINE_BYTES];
    const hth_weight_region_key key = { .folder = load->params->host_weights,
                                        .model_path = load->model->path,
                                        .model = load->digest,
                                        .machine = machine,
                                        .n_bytes = n_bytes,
                                        .number =
                                            (unsigned)(load->model->n_gpu_layers + 1) * BUFFERS_MAX + load->n_buffers,
                                        .keep = load->params->keep_host_weights };

    (void)snprintf(machine, sizeof(machine), "%s %s", hth_shim_version(), hth_backend_llama_features()); /* fits */
    if (!p)
        return NULL;
    p->layout = hth_sha256_new();
    if (!p->layout || hth_weight_region_open(&key, &p->region, err) != HEARTH_OK) {
        hth_sha256_free(p->layout);
        free(p);
        return NULL;
    }
    p->load = load;
    return p;
}

/* Replaces the engine's function. */
static ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t n_bytes)
{
    hearth_error err = { .message = "there is no memory" };
    ggml_backend_buffer_t made;
    packed *p = NULL;

    if (!current || current->n_buffers == BUFFERS_MAX)
        return engine.alloc_buffer(type, n_bytes);
    made = engine.alloc_buffer(type, ALIGNMENT); /* for its functions; its memory is not used */
    if (made && is_known(made, type))
        p = packed_new(current, n_bytes, &err);
    if (!p) {
        hth_warn(current->params->log, "the repacked weights of '%s' are in memory of this process alone: %s",
                 current->model->path, err.message);
        if (made)
            ggml_backend_buffer_free(made);
        return engine.alloc_buffer(type, n_bytes);
    }
    p->engines = *fields(made);
    fields(made)->free_buffer = packed_free;
    fields(made)->base = packed_base;
    fields(made)->init_tensor = packed_init_tensor;
    fields(made)->set_tensor = packed_set_tensor;
    fields(made)->clear = packed_clear;
    fields(made)->context = p;
    fields(made)->size = n_bytes;
    current->buffers[current->n_buffers++] = p;
    return made;
}

/* Put our function into the engine's type, once per process. False: the type does not exist, or is not as expected. */
static bool replace_allocation(void)
{
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t registry = cpu ? ggml_backend_dev_backend_reg(cpu) : NULL;
    ggml_backend_dev_get_extra_bufts_t list = NULL;
    bool found;

    if (registry)
        *(void **)&list = ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts");
    hth_module_lock(&engine.lock);
    for (ggml_backend_buffer_type_t *type = list ? list(cpu) : NULL; type && *type && !engine.type; type++) {
        buffer_type *with = (buffer_type *)(void *)*type;

        if (strcmp(ggml_backend_buft_name(*type), "CPU_REPACK") != 0 || with->device != cpu ||
            ggml_backend_buft_get_device(*type) != cpu)
            continue;
        engine.alloc_buffer = with->alloc_buffer;
        with->alloc_buffer = alloc_buffer;
        engine.type = with;
    }
    found = engine.type != NULL;
    hth_module_unlock(&engine.lock);
    return found;
}

hth_llama_weights *hth_llama_weights_begin(const hth_engine_model *model, const hth_engine_model_params *params)
{
    hth_llama_weights *weights;
    uint8_t digest[HTH_WEIGHT_MODEL_BYTES];

    if (!params->host_weights)
        return NULL;
    if (!replace_allocation()) {
        hth_info(params->log, "this engine repacks no weights here, so nothing is put into '%s'", params->host_weights);
        return NULL;
    }
    if (hth_weight_model_digest(model->path, digest) != 0)
        return NULL; /* the engine reports what is missing */
    weights = calloc(1, sizeof(*weights));
    if (!weights)
        return NULL;
    memcpy(weights->digest, digest, sizeof(digest));
    weights->model = model;
    weights->params = params;
    current = weights;
    return weights;
}

/* Publish a region that was filled. Failure makes no difference to this process. */
static void publish(packed *p, const hth_log *log)
{
    uint8_t layout[HTH_SHA256_BYTES];
    hearth_error err = { .message = "" };

    if (p->n_set != p->n_tensors) {
        hth_weight_region_reject(p->region);
        return;
    }
    hth_sha256_peek(p->layout, layout);
    if (hth_weight_region_publish(p->region, layout, &err) == HEARTH_OK)
        hth_info(log, "the repacked weights are in '%s' for the next worker", hth_weight_region_path(p->region));
    else
        hth_warn(log, "the repacked weights are in memory of this process alone: %s", err.message);
}

bool hth_llama_weights_end(hth_llama_weights *weights, bool loaded)
{
    bool ok = true;

    if (!weights)
        return true;
    current = NULL;
    for (unsigned i = 0; i < weights->n_buffers; i++) {
        packed *p = weights->buffers[i];

        if (!p)
            continue;
        p->load = NULL;
        if (p->is_wrong && hth_weight_region_is_filled(p->region)) {
            hth_warn(weights->params->log, "'%s' has other weights than the model, so it is removed",
                     hth_weight_region_path(p->region));
            hth_weight_region_reject(p->region);
            ok = false;
        } else if (loaded && !hth_weight_region_is_filled(p->region)) {
            publish(p, weights->params->log);
        }
    }
    free(weights);
    return ok;
}
