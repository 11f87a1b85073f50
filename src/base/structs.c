/*
 * structs.c - structs of any version, and the default values of those that callers fill in, except hearth_sampling
 * (sampling/numbers.h)
 */
#include "base/structs.h"

#include <math.h>
#include <string.h>

#include "base/smaller.h"

static size_t size_of(const void *a_struct)
{
    size_t size;

    memcpy(&size, a_struct, sizeof(size));
    return size;
}

static void set_size(void *a_struct, size_t size)
{
    memcpy(a_struct, &size, sizeof(size));
}

void hth_struct_init(void *to, size_t struct_size, const void *defaults, size_t size)
{
    if (!to || struct_size < sizeof(size_t))
        return;
    memset(to, 0, struct_size);
    memcpy(to, defaults, hth_smaller(struct_size, size));
    set_size(to, struct_size);
}

static bool is_zero(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

hearth_status hth_struct_read(void *to, size_t size, const void *from, const char *name, hearth_error *err)
{
    return hth_structs_read(to, size, from, 1, name, err);
}

hearth_status hth_structs_read(void *to, size_t size, const void *from, size_t n, const char *name, hearth_error *err)
{
    enum { STRUCT_BYTES_MAX = 2048 };
    size_t stride = n > 0 ? size_of(from) : size;

    if (stride < sizeof(size_t) ||
        stride > STRUCT_BYTES_MAX) /* no version has such a struct: the caller never set it */
        return hth_fail(err, HEARTH_MISUSE, "%s.struct_size is %zu; set it to sizeof(%s)", name, stride, name);
    for (size_t i = 0; i < n; i++) {
        char *own = (char *)to + i * size;
        const char *theirs = (const char *)from + i * stride;

        if (stride > size && !is_zero(theirs + size, stride - size))
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "%s has fields that this library, version " HEARTH_VERSION
                            ", does not know; leave them zero, or "
                            "use the library that hearth.h belongs to",
                            name);
        memcpy(own, theirs, hth_smaller(stride, size));
        set_size(own, size);
    }
    return HEARTH_OK;
}

void hth_struct_write(void *to, const void *from, size_t size)
{
    size_t struct_size = size_of(to);

    memcpy(to, from, hth_smaller(struct_size, size));
    set_size(to, struct_size);
}

/* ---- defaults ---- */

void hearth_runtime_options_init(hearth_runtime_options *options, size_t struct_size)
{
    const hearth_runtime_options defaults = {
        .ram_memory_fd = -1,
        .ram_file_free_min = UINT64_C(16) << 20,
        .disk_free_min = UINT64_C(1) << 30,
        .n_writer_threads = 2,
        .write_queue_rows_max = 65536,
        .write_queue_bytes_max = UINT64_C(1) << 30,
        .session_resume_wait_ms = 500,
        .log_level = HEARTH_LOG_WARNING,
    };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_cache_policy_init(hearth_cache_policy *policy, size_t struct_size)
{
    const hearth_cache_policy defaults = {
        .min_tokens = 8,
        .continued_interval = 256,
        .boundary_align_tokens = 256,
        .snapshot_interval = 1024,
    };

    hth_struct_init(policy, struct_size, &defaults, sizeof(defaults));
}

void hearth_engine_options_init(hearth_engine_options *options, size_t struct_size)
{
    const hearth_engine_options defaults = {
        .rope_freq_base = NAN,
        .rope_freq_scale = NAN,
        .yarn_ext_factor = NAN,
        .yarn_attn_factor = NAN,
        .yarn_beta_slow = NAN,
        .yarn_beta_fast = NAN,
    };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_model_options_init(hearth_model_options *options, size_t struct_size)
{
    const hearth_model_options defaults = {
        .n_batch = 512,
        .n_gpu_layers = -1,
        .draft_n_gpu_layers = -1,
        .n_parallel = 8,
        .queue_max = 1024,
        .prefill_chunk = 256,
        .max_tick_ms = 250,
        .session_idle_ms = 300000,
        .stalled_ms = 30000,
        .aging_ms = 10000,
    };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_request_init(hearth_request *request, size_t struct_size)
{
    const hearth_request defaults = {
        .tokenize_flags = HEARTH_TOKENIZE_BOS,
        .n_predict = -1,
        .n = 1,
        .replayed_state = NAN,
        .draft_max = -1,
        .draft_min = -1,
    };

    hth_struct_init(request, struct_size, &defaults, sizeof(defaults));
}

void hearth_conversation_init(hearth_conversation *conversation, size_t struct_size)
{
    const hearth_conversation defaults = {
        .parallel_calls = true,
    };

    hth_struct_init(conversation, struct_size, &defaults, sizeof(defaults));
}

void hearth_adapter_options_init(hearth_adapter_options *options, size_t struct_size)
{
    const hearth_adapter_options defaults = { .scale = 1 };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_events_options_init(hearth_events_options *options, size_t struct_size)
{
    const hearth_events_options defaults = {
        .n_events_max = 65536,
        .n_bytes_max = (size_t)16 << 20,
    };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_embed_request_init(hearth_embed_request *request, size_t struct_size)
{
    const hearth_embed_request defaults = {
        .norm = 2,
        .tokenize_flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL,
    };

    hth_struct_init(request, struct_size, &defaults, sizeof(defaults));
}
