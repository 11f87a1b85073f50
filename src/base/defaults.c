/*
 * defaults.c - the default values of the public structs that callers fill in, except hearth_sampling
 * (sampling/numbers.h)
 */
#include <math.h>

#include "base/structs.h"

void hearth_runtime_options_init(hearth_runtime_options *options, size_t struct_size)
{
    const hearth_runtime_options defaults = {
        .struct_size = sizeof(defaults),
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
        .struct_size = sizeof(defaults),
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
        .struct_size = sizeof(defaults),
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
        .struct_size = sizeof(defaults),
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
        .struct_size = sizeof(defaults),
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
        .struct_size = sizeof(defaults),
        .parallel_calls = true,
    };

    hth_struct_init(conversation, struct_size, &defaults, sizeof(defaults));
}

void hearth_adapter_options_init(hearth_adapter_options *options, size_t struct_size)
{
    const hearth_adapter_options defaults = { .struct_size = sizeof(defaults), .scale = 1 };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_events_options_init(hearth_events_options *options, size_t struct_size)
{
    const hearth_events_options defaults = {
        .struct_size = sizeof(defaults),
        .n_events_max = 65536,
        .n_bytes_max = (size_t)16 << 20,
    };

    hth_struct_init(options, struct_size, &defaults, sizeof(defaults));
}

void hearth_embed_request_init(hearth_embed_request *request, size_t struct_size)
{
    const hearth_embed_request defaults = {
        .struct_size = sizeof(defaults),
        .norm = 2,
        .tokenize_flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL,
    };

    hth_struct_init(request, struct_size, &defaults, sizeof(defaults));
}
