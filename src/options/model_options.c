/*
 * model_options.c - the rows of the options of a model, and their readers
 *
 * There are several tables, because the commands show them in different places of their help. A command includes one in
 * its own table with a row of the kind HTH_OPTION_TABLE, at the offset of its hth_model_setup.
 */
#include "options/model_options.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "console/output.h"
#include "console/text_file.h"
#include "engine/engine_options.h"
#include "models/adapter_spec.h"
#include "models/chat_templates.h"
#include "options/values.h"

enum { LAYERS_MAX = 10000 };
static_assert(HTH_DEVICES_MAX == 16 && LAYERS_MAX == 10000, "messages below name these numbers");

/* ---- readers of single options ----------------------------------------------------------------------------------- */

static bool check_prefill_chunk(const char *shown, const char *value, hearth_error *err)
{
    static const char *const chunks[] = { "64", "128", "256", NULL };
    int i;

    return hth_value_word(shown, value, chunks, &i, err);
}

static const char *const fingerprint_modes[] = {
    [HEARTH_FINGERPRINT_SAFE] = "safe",
    [HEARTH_FINGERPRINT_GGUF_CHUNKED] = "gguf_chunked",
    [HEARTH_FINGERPRINT_FAST_UNSAFE] = "fast_unsafe",
    [HEARTH_FINGERPRINT_FAST_UNSAFE + 1] = NULL,
};

static const char *const poolings[] = {
    [HEARTH_POOLING_MODEL] = "model", [HEARTH_POOLING_NONE] = "none", [HEARTH_POOLING_MEAN] = "mean",
    [HEARTH_POOLING_CLS] = "cls",     [HEARTH_POOLING_LAST] = "last", [HEARTH_POOLING_RANK] = "rank",
    [HEARTH_POOLING_RANK + 1] = NULL,
};

static const struct policy_key {
    const char *key;
    size_t offset;
} policy_keys[] = {
    { "min_tokens", offsetof(hearth_cache_policy, min_tokens) },
    { "cold_min_tokens", offsetof(hearth_cache_policy, cold_min_tokens) },
    { "cold_max_tokens", offsetof(hearth_cache_policy, cold_max_tokens) },
    { "continued_interval", offsetof(hearth_cache_policy, continued_interval) },
    { "boundary_trim_tokens", offsetof(hearth_cache_policy, boundary_trim_tokens) },
    { "boundary_align_tokens", offsetof(hearth_cache_policy, boundary_align_tokens) },
    { "snapshot_interval", offsetof(hearth_cache_policy, snapshot_interval) },
};

enum { N_POLICY_KEYS = sizeof(policy_keys) / sizeof(policy_keys[0]) };

/* "min_tokens=64" */
static bool set_policy(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_model_setup *out = options;
    const char *equals = strchr(value, '=');

    for (size_t i = 0; equals && i < N_POLICY_KEYS; i++) {
        const char *key = policy_keys[i].key;
        long long number;

        if (strlen(key) != (size_t)(equals - value) || strncmp(value, key, strlen(key)) != 0)
            continue;
        if (!hth_value_integer(shown, equals + 1, 0, INT32_MAX, &number, err))
            return false;
        *(int64_t *)((char *)&out->policy + policy_keys[i].offset) = number;
        out->has_policy = true;
        return true;
    }
    return hth_value_wrong(shown, value, "KEY=N with a key that --help-all lists, such as min_tokens=64", err);
}

static bool write_policy(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_model_setup *setup = options;
    int64_t number;

    if (i >= N_POLICY_KEYS)
        return false;
    number = *(const int64_t *)((const char *)&setup->policy + policy_keys[i].offset);
    return (size_t)snprintf(text, capacity, "%s=%lld", policy_keys[i].key, (long long)number) < capacity;
}

/* ---- llama.cpp's options, with the names of llama-server ---- */

static const char *const flash_attentions[] = {
    [HEARTH_FLASH_ATTENTION_AUTO] = "auto",
    [HEARTH_FLASH_ATTENTION_ON] = "on",
    [HEARTH_FLASH_ATTENTION_OFF] = "off",
    [HEARTH_FLASH_ATTENTION_OFF + 1] = NULL,
};

static const char *const split_modes[] = {
    [HEARTH_SPLIT_MODE_LAYER] = "layer",
    [HEARTH_SPLIT_MODE_NONE] = "none",
    [HEARTH_SPLIT_MODE_ROW] = "row",
    [HEARTH_SPLIT_MODE_ROW + 1] = NULL,
};

static const char *const numas[] = {
    [HEARTH_NUMA_OFF] = "off",         [HEARTH_NUMA_DISTRIBUTE] = "distribute", [HEARTH_NUMA_ISOLATE] = "isolate",
    [HEARTH_NUMA_NUMACTL] = "numactl", [HEARTH_NUMA_NUMACTL + 1] = NULL,
};

static const char *const rope_scalings[] = {
    [HEARTH_ROPE_SCALING_MODEL] = "model",   [HEARTH_ROPE_SCALING_NONE] = "none",
    [HEARTH_ROPE_SCALING_LINEAR] = "linear", [HEARTH_ROPE_SCALING_YARN] = "yarn",
    [HEARTH_ROPE_SCALING_YARN + 1] = NULL,
};

static bool check_split(const char *shown, const char *value, hearth_error *err)
{
    float shares[HTH_DEVICES_MAX];
    size_t n;

    return hth_tensor_split_read(value, shares, &n, NULL) == HEARTH_OK ||
           hth_value_wrong(shown, value, "the shares of 1 to 16 devices, such as 3,1", err);
}

static bool check_tensors(const char *shown, const char *value, hearth_error *err)
{
    hth_tensor_override one;
    hearth_status status;

    do
        status = hth_tensor_override_read(&value, &one, err);
    while (status == HEARTH_OK && *value);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "%s", shown);
    return status == HEARTH_OK;
}

static bool check_metadata(const char *shown, const char *value, hearth_error *err)
{
    hth_metadata_override one;
    hearth_status status;

    do
        status = hth_metadata_override_read(&value, &one, err);
    while (status == HEARTH_OK && *value);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "%s", shown);
    return status == HEARTH_OK;
}

/* Read the inverse of rope_freq_scale, which is printed instead. */
static bool read_rope_scale(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_tuning *out = options;
    double scale = NAN;

    if (value && !hth_value_number(shown, value, 0.001, 1000000, &scale, err))
        return false;
    out->engine.rope_freq_scale = 1 / scale;
    return true;
}

static bool write_nothing(const void *options, size_t i, char *text, size_t capacity)
{
    (void)options;
    (void)i;
    (void)text;
    (void)capacity;
    return false;
}

#define IN_TUNING(field) offsetof(hth_tuning, field)

static const hth_option tuning_rows[] = {
    { "ubatch", 0, HTH_OPTION_U32, "N",
      "limit of tokens that the engine computes at once (default: --batch, at most 512; more only where GPUs compute "
      "all)",
      .offset = IN_TUNING(engine.n_ubatch), .low = 1, .high = 65536, .key = "ubatch" },
    { "threads-batch", 0, HTH_OPTION_U32, "N", "threads where several tokens are computed (default: --threads)",
      .offset = IN_TUNING(engine.n_threads_batch), .low = 1, .high = 1024, .key = "threads_batch" },
    { "flash-attn", 0, HTH_OPTION_WORD, "WHEN",
      "flash attention: on, off, or auto (where the model and the device have it)",
      .offset = IN_TUNING(engine.flash_attention), .words = flash_attentions, .key = "flash_attn" },
    { "mlock", 0, HTH_OPTION_FLAG, NULL, "keep the weights in memory, as far as the process may lock memory",
      .offset = IN_TUNING(engine.mlock), .key = "mlock" },
    { "numa", 0, HTH_OPTION_WORD, "HOW",
      "threads on machines with several nodes: distribute (over all), isolate (on the node of the start), numactl (as "
      "numactl says), off",
      .offset = IN_TUNING(engine.numa), .words = numas, .key = "numa" },
    { "device", 0, HTH_OPTION_TEXT, "NAME,...",
      "devices for layers besides those of --rpc, such as CUDA0,CUDA1, or none (default: all; 'hearth version' lists "
      "them)",
      .offset = IN_TUNING(engine.devices), .key = "device" },
    { "split-mode", 0, HTH_OPTION_WORD, "MODE",
      "parts of the model on several GPUs: layer, row (of the matrices, where GPUs can), none (one GPU takes all)",
      .offset = IN_TUNING(engine.split_mode), .words = split_modes, .key = "split_mode" },
    { "tensor-split", 0, HTH_OPTION_TEXT, "N,...", "shares of the GPUs, such as 3,1 (default: by their free memory)",
      .offset = IN_TUNING(engine.tensor_split), .check = check_split, .key = "tensor_split" },
    { "main-gpu", 0, HTH_OPTION_U32, "INDEX", "the GPU for --split-mode none; counts from 0",
      .offset = IN_TUNING(engine.main_gpu), .low = 0, .high = HTH_DEVICES_MAX - 1, .key = "main_gpu" },
    { "override-tensor", 0, HTH_OPTION_TEXTS, "PATTERN=BUFFER",
      "put the tensors whose names match PATTERN into this buffer, such as CPU or CUDA0; several with commas, or "
      "repeated",
      .offset = IN_TUNING(tensor_overrides), .n_offset = IN_TUNING(engine.n_tensor_overrides),
      .n_max = HEARTH_TENSOR_OVERRIDES_MAX, .check = check_tensors, .repeats = true, .key = "override_tensor" },
    { "cpu-moe", 0, HTH_OPTION_FLAG, NULL, "the experts of all layers stay on the CPU",
      .offset = IN_TUNING(engine.cpu_moe), .key = "cpu_moe" },
    { "n-cpu-moe", 0, HTH_OPTION_U32, "N", "the experts of the first N layers stay on the CPU",
      .offset = IN_TUNING(engine.n_cpu_moe), .low = 0, .high = LAYERS_MAX, .key = "n_cpu_moe" },
    { "no-kv-offload", 0, HTH_OPTION_FLAG, NULL, "K and V stay in the memory of the machine, not on GPUs",
      .offset = IN_TUNING(engine.no_kv_offload), .key = "no_kv_offload" },
    { "rope-scaling", 0, HTH_OPTION_WORD, "KIND",
      "stretching of positions for longer contexts: none, linear, yarn; model: as the file says",
      .offset = IN_TUNING(engine.rope_scaling), .words = rope_scalings, .key = "rope_scaling" },
    { "rope-scale", 0, HTH_OPTION_OWN, "N", "the context grows by this factor; the same as --rope-freq-scale 1/N",
      .read = read_rope_scale, .key = "rope_scale", .write = write_nothing },
    { "rope-freq-base", 0, HTH_OPTION_NUMBER, "X", "base of the positions' angles (default: the model's)",
      .offset = IN_TUNING(engine.rope_freq_base), .low = 1e-6, .high = 1e9, .key = "rope_freq_base" },
    { "rope-freq-scale", 0, HTH_OPTION_NUMBER, "X",
      "factor of the positions' angles, such as 0.5 for twice the context", .offset = IN_TUNING(engine.rope_freq_scale),
      .low = 1e-6, .high = 1e9, .key = "rope_freq_scale" },
    { "yarn-orig-ctx", 0, HTH_OPTION_U32, "N", "YaRN: tokens of the training (default: as the model says)",
      .offset = IN_TUNING(engine.yarn_orig_ctx), .low = 1, .high = INT32_MAX, .key = "yarn_orig_ctx" },
    { "yarn-ext-factor", 0, HTH_OPTION_NUMBER, "X", "YaRN: mix of extrapolation; 0: interpolation alone",
      .offset = IN_TUNING(engine.yarn_ext_factor), .low = 0, .high = 1e9, .key = "yarn_ext_factor" },
    { "yarn-attn-factor", 0, HTH_OPTION_NUMBER, "X", "YaRN: scale of the attention magnitude (attn_factor)",
      .offset = IN_TUNING(engine.yarn_attn_factor), .low = 0, .high = 1e9, .key = "yarn_attn_factor" },
    { "yarn-beta-slow", 0, HTH_OPTION_NUMBER, "X", "YaRN: high correction dimension (beta_slow)",
      .offset = IN_TUNING(engine.yarn_beta_slow), .low = 0, .high = 1e9, .key = "yarn_beta_slow" },
    { "yarn-beta-fast", 0, HTH_OPTION_NUMBER, "X", "YaRN: low correction dimension (beta_fast)",
      .offset = IN_TUNING(engine.yarn_beta_fast), .low = 0, .high = 1e9, .key = "yarn_beta_fast" },
    { "override-kv", 0, HTH_OPTION_TEXTS, "KEY=TYPE:VALUE",
      "metadata of the model in place of the file's, with a type int, float, bool or str; several with commas, or "
      "repeated",
      .offset = IN_TUNING(metadata_overrides), .n_offset = IN_TUNING(engine.n_metadata_overrides),
      .n_max = HEARTH_METADATA_OVERRIDES_MAX, .check = check_metadata, .repeats = true, .key = "override_kv" },
};

/* ---- the tables -------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(hth_model_setup, field)

static const hth_option template_rows[] = {
    { "chat-template", 0, HTH_OPTION_TEXT, "TEMPLATE",
      "a template for conversations instead of the model's: alpaca, chatml, gemma, llama2, llama3, mistral, phi3, "
      "vicuna, zephyr or another built-in one, a text of Jinja, or a file of it (default for a model without one: "
      "chatml, with a warning)",
      .offset = AT(chat_template), .key = "chat_template", .is_path = true, .is_word = hth_chat_template_is_given },
    { "chat-template-file", 0, HTH_OPTION_TEXT, "FILE", "the same, always a file", .offset = AT(chat_template_file),
      .key = "chat_template_file", .is_path = true },
    { "special-in-messages", 0, HTH_OPTION_FLAG, NULL,
      "read control tokens in the texts of messages, too, so that a message can end its turn and begin others",
      .offset = AT(model.special_in_messages), .key = "special_in_messages" },
};

const hth_option_table hth_model_template_options = HTH_OPTION_TABLE_OF(template_rows);

static const hth_option reply_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_template_options },
    { "lora-dir", 0, HTH_OPTION_TEXT, "DIR",
      "the folder of the LoRA adapters that operators may load while the server runs (POST "
      "/admin/models/NAME/adapters/load); without it, none",
      .offset = AT(adapters.directory), .key = "lora_dir", .is_path = true },
    { "stalled-ms", 0, HTH_OPTION_MS, "MS", "a reply that its client does not read is cancelled after this time",
      .offset = AT(model.stalled_ms), .low = 1, .high = UINT32_MAX, .key = "stalled_ms" },
    { "draft-max", 0, HTH_OPTION_U32, "N",
      "guess up to N next tokens of a reply, and verify them together, 0 (none; 14 with --draft-model) to 14; requests "
      "may ask for others",
      .offset = AT(model.draft_max), .low = 0, .high = HEARTH_DRAFT_MAX, .key = "draft_max" },
    { "draft-min", 0, HTH_OPTION_U32, "N", "leave out a draft of fewer tokens", .offset = AT(model.draft_min), .low = 0,
      .high = HEARTH_DRAFT_MAX, .key = "draft_min" },
};

const hth_option_table hth_model_reply_options = HTH_OPTION_TABLE_OF(reply_rows);

static const hth_option serving_rows[] = {
    { "model", 'm', HTH_OPTION_TEXT, "FILE", "the model, a GGUF file", .offset = AT(path), .is_common = true,
      .is_path = true },
    { "name", 0, HTH_OPTION_TEXT, "NAME", "name for clients (default: the file's name without .gguf)",
      .offset = AT(model.name), .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_model_reply_options },
};

static const hth_option scheduling_rows[] = {
    { "n-parallel", 0, HTH_OPTION_U32, "N",
      "requests that the model runs at once, 1 to 128 (with 'hearth run': as many as --parallel, or as --n)",
      .offset = AT(model.n_parallel), .low = 1, .high = HTH_MODEL_PARALLEL_MAX, .key = "n_parallel" },
    { "queue-max", 0, HTH_OPTION_U32, "N", "requests that may wait, 1 to 65536", .offset = AT(model.queue_max),
      .low = 1, .high = 65536, .key = "queue_max" },
    { "strategy", 0, HTH_OPTION_TEXT, "NAME",
      "choice of tokens for a batch: decode_maximal (default), prefill_priority, balanced",
      .offset = AT(model.strategy), .key = "strategy" },
    { "prefill-chunk", 0, HTH_OPTION_U32, "N", "prompt tokens that a request evaluates at once: 64, 128 or 256",
      .offset = AT(model.prefill_chunk), .low = 64, .high = 256, .check = check_prefill_chunk, .key = "prefill_chunk" },
    { "max-tick-ms", 0, HTH_OPTION_MS, "MS", "longest evaluation while a reply is being generated",
      .offset = AT(model.max_tick_ms), .low = 1, .high = 60000, .key = "max_tick_ms" },
    { "session-idle-ms", 0, HTH_OPTION_MS, "MS", "a session gives up its cells after this time without use",
      .offset = AT(model.session_idle_ms), .low = 1, .high = UINT32_MAX, .key = "session_idle_ms" },
    { "aging-ms", 0, HTH_OPTION_MS, "MS", "a waiting request rises by one priority after each such interval",
      .offset = AT(model.aging_ms), .low = 1, .high = UINT32_MAX, .key = "aging_ms" },
};

static const hth_option cache_rows[] = {
    { "cache", 0, HTH_OPTION_TEXT, "DIR", "cache directory (default: $HEARTH_CACHE or ~/.cache/hearth/kv)",
      .offset = AT(runtime.cache_directory), .is_common = true, .key = "directory", .is_path = true },
    { "no-cache", 0, HTH_OPTION_FLAG, NULL, "neither read nor write the cache", .offset = AT(runtime.cache_disabled),
      .is_common = true, .key = "disabled" },
    { "cache-salt", 0, HTH_OPTION_TEXT, "TEXT", "share rows only with runs of the same salt",
      .offset = AT(model.cache_salt), .key = "salt" },
    { "ram", 0, HTH_OPTION_SIZE, "SIZE", "memory for rows (default: an eighth of the machine's, at most 4G)",
      .offset = AT(runtime.ram_bytes_max), .low = 1 << 20, .key = "ram" },
    { "ram-files", 0, HTH_OPTION_TEXT, "DIR",
      "a folder on tmpfs, such as /dev/shm/hearth, for rows that outlive this process",
      .offset = AT(runtime.ram_file_directory), .key = "ram_file_directory", .is_path = true },
    { "ram-files-size", 0, HTH_OPTION_SIZE, "SIZE", "space for rows there (default: half of the free space)",
      .offset = AT(runtime.ram_file_bytes_max), .low = 1 << 20, .key = "ram_file_bytes_max" },
    { "disk", 0, HTH_OPTION_SIZE, "SIZE", "disk space for rows, of all processes on this directory (default 32G)",
      .offset = AT(runtime.disk_bytes_max), .low = 1 << 20, .key = "disk_bytes_max" },
    { "disk-free", 0, HTH_OPTION_SIZE, "SIZE", "space of the device to leave free; rows are evicted for it",
      .offset = AT(runtime.disk_free_min), .low = 1 << 20, .key = "disk_free_min" },
    { "more-cache", 0, HTH_OPTION_TEXTS, "DIR",
      "one more directory for rows, on another device; may be repeated up to 15 times", .offset = AT(more_directories),
      .n_offset = AT(runtime.n_more_directories), .n_max = HTH_MODEL_DIRECTORIES_MAX, .repeats = true,
      .key = "more_directories", .is_path = true },
    { "index", 0, HTH_OPTION_TEXT, "DIR", "directory of the index; for a --cache on NFS, a local directory",
      .offset = AT(runtime.index_directory), .key = "index_directory", .is_path = true },
    { "writers", 0, HTH_OPTION_U32, "N", "threads that write rows to files", .offset = AT(runtime.n_writer_threads),
      .low = 1, .high = 16, .key = "writer_threads" },
    { "write-speed", 0, HTH_OPTION_SIZE, "SIZE",
      "limit of bytes written per second, to spare a device (default: no limit)",
      .offset = AT(runtime.disk_write_bytes_per_s), .low = 1 << 10, .key = "write_bytes_per_s" },
    { "second-use", 0, HTH_OPTION_FLAG, NULL,
      "write a row to disk when it is used for the first time, not when it is made",
      .offset = AT(runtime.save_on_second_use), .key = "save_on_second_use" },
    { "resume-wait", 0, HTH_OPTION_MS, "MS", "wait for a --parent-key that another process is writing",
      .offset = AT(runtime.session_resume_wait_ms), .low = 0, .high = 600000, .key = "resume_wait_ms" },
    { "signing-key", 0, HTH_OPTION_TEXT, "FILE",
      "sign rows with this key (32 bytes or more), and use only rows signed with it",
      .offset = AT(runtime.signing_key_file), .key = "signing_key_file", .is_path = true },
    { "keep-prompt-text", 0, HTH_OPTION_FLAG, NULL,
      "write the text of a row's tokens into it (default: prompts are private)", .offset = AT(runtime.keep_prompt_text),
      .key = "keep_prompt_text" },
    { "history", 0, HTH_OPTION_SIZE, "SIZE", "memory for the tokens of earlier conversations, per model; 0: none",
      .offset = AT(runtime.history_bytes_max), .key = "history" },
    { "policy", 0, HTH_OPTION_OWN, "KEY=N",
      "choice of rows to save; KEY is min_tokens, cold_min_tokens, cold_max_tokens, continued_interval, "
      "boundary_trim_tokens, "
      "boundary_align_tokens or snapshot_interval; may be repeated",
      .read = set_policy, .key = "policy", .write = write_policy, .is_pairs = true },
    { "fingerprint", 0, HTH_OPTION_WORD, "MODE", "identification of the model file: safe, gguf_chunked, fast_unsafe",
      .offset = AT(model.fingerprint_mode), .words = fingerprint_modes, .key = "fingerprint" },
    { "trust-digests", 0, HTH_OPTION_FLAG, NULL,
      "with mode safe: believe the SHA-256 in FILE.sha256 beside the model file, or the file's name in a hub's cache, "
      "instead of hashing the file",
      .offset = AT(model.trust_digests), .key = "trust_digests" },
    { "cache-portable", 0, HTH_OPTION_FLAG, NULL,
      "share rows with machines of other CPUs and builds, which round differently: replies may differ from those "
      "without the cache",
      .offset = AT(model.portable), .key = "portable" },
};

static bool check_adapter(const char *shown, const char *value, hearth_error *err)
{
    hth_adapter_spec spec;

    (void)shown; /* the message has the value */
    return hth_adapter_spec_read(value, &spec, err) == HEARTH_OK;
}

static bool check_control_vector(const char *shown, const char *value, hearth_error *err)
{
    hth_control_vector vector;

    (void)shown; /* the message has the value */
    return hth_control_vector_read(value, &vector, err) == HEARTH_OK;
}

/* "10-20" */
static bool set_control_layers(void *options, const char *shown, const char *value, hearth_error *err)
{
    hearth_model_options *model = &((hth_model_setup *)options)->model;
    static const char digits[] = "0123456789";
    const size_t n_first = value ? strspn(value, digits) : 0;
    const char *second = value && value[n_first] == '-' ? value + n_first + 1 : "";
    const size_t n_second = strspn(second, digits);
    const bool is_range = n_first > 0 && n_first < 6 && n_second > 0 && n_second < 6 && !second[n_second];
    const uint32_t first = is_range ? (uint32_t)strtoul(value, NULL, 10) : 0;
    const uint32_t last = is_range ? (uint32_t)strtoul(second, NULL, 10) : 0;

    if (value && (first < 1 || last < first))
        return hth_value_wrong(shown, value, "START-END, two layers from 1 on, such as 10-20", err);
    model->control_layer_first = first;
    model->control_layer_last = last;
    return true;
}

static bool write_control_layers(const void *options, size_t i, char *text, size_t capacity)
{
    const hearth_model_options *model = &((const hth_model_setup *)options)->model;

    return i == 0 && model->control_layer_first > 0 &&
           snprintf(text, capacity, "%u-%u", model->control_layer_first, model->control_layer_last) < (int)capacity;
}

/* Names of -2 and -1. */
static const char *const layer_words[] = { "auto", "all", NULL };
static const char *const draft_layer_words[] = { "all", NULL };

static bool check_layers(const char *shown, const char *value, hearth_error *err)
{
    int32_t number;

    return strcmp(value, "auto") == 0 || strcmp(value, "all") == 0 ||
           hth_value_i32(shown, value, HEARTH_GPU_LAYERS_ALL, LAYERS_MAX, &number, NULL) ||
           hth_value_wrong(shown, value, "a number of layers from 0 to 10000, all (-1), or auto", err);
}

static const hth_option engine_rows[] = {
    { "ctx", 'c', HTH_OPTION_U32, "N",
      "context in tokens, for all requests together, rounded up to 256 (default: the training length of the model, as "
      "far as memory allows)",
      .offset = AT(model.n_ctx), .low = 1, .high = 1 << 24, .is_common = true, .key = "context" },
    { "batch", 'b', HTH_OPTION_U32, "N", "the most tokens in one evaluation", .offset = AT(model.n_batch), .low = 1,
      .high = 65536, .key = "batch" },
    { "threads", 't', HTH_OPTION_U32, "N", "threads (default: the machine's CPUs)", .offset = AT(model.n_threads),
      .low = 1, .high = 1024, .is_common = true, .key = "threads" },
    { "deterministic", 0, HTH_OPTION_FLAG, NULL,
      "replies depend on prompt, options and seed alone, bit for bit; on CPUs, for models with plain attention",
      .offset = AT(model.deterministic), .key = "deterministic" },
    { "gpu-layers", 0, HTH_OPTION_I32, "N",
      "layers on GPUs and RPC servers: a number, 'all' (-1), or 'auto': as many as fit there beside the context",
      .offset = AT(model.n_gpu_layers), .low = HEARTH_GPU_LAYERS_AUTO, .high = LAYERS_MAX, .is_common = true,
      .key = "gpu_layers", .words = layer_words, .check = check_layers },
    { "fit", 0, HTH_OPTION_FLAG, NULL,
      "choose context and layers on GPUs so that the model fits into memory; --ctx and --gpu-layers are then upper "
      "limits",
      .offset = AT(model.fit), .is_common = true, .key = "fit" },
    { "fit-ctx", 0, HTH_OPTION_U32, "N",
      "the smallest context that --fit may choose; layers leave the GPUs before it gets smaller (default 4096)",
      .offset = AT(model.fit_n_ctx), .low = 1, .high = 1 << 24, .key = "fit_context" },
    { "fit-memory", 0, HTH_OPTION_SIZE, "SIZE",
      "memory of the host for --fit (default: that of residency.memory, or what is free)",
      .offset = AT(model.fit_bytes), .low = 1 << 20, .key = "fit_memory" },
    { "fit-device-memory", 0, HTH_OPTION_SIZE, "SIZE",
      "memory of each GPU for --fit (default: that of residency.device_memory, or what is free)",
      .offset = AT(model.fit_device_bytes), .low = 1 << 20, .key = "fit_device_memory" },
    { "rpc", 0, HTH_OPTION_TEXT, "HOST:PORT,...",
      "use the devices of these RPC servers of llama.cpp; not encrypted, for networks of your own only",
      .offset = AT(model.rpc_servers), .key = "rpc" },
    { "type-k", 0, HTH_OPTION_TEXT, "T", "type of K in the cache: f16 (default), bf16, f32, q8_0, ...",
      .offset = AT(model.type_k), .key = "type_k" },
    { "type-v", 0, HTH_OPTION_TEXT, "T", "type of V", .offset = AT(model.type_v), .key = "type_v" },
    { "draft-model", 0, HTH_OPTION_TEXT, "FILE",
      "a smaller model of the same vocabulary that guesses the next tokens of replies", .offset = AT(model.draft_model),
      .key = "draft_model", .is_path = true },
    { "draft-ctx", 0, HTH_OPTION_U32, "N", "its context in tokens (default: as the model's)",
      .offset = AT(model.draft_n_ctx), .low = 1, .high = 1 << 24, .key = "draft_context" },
    { "draft-gpu-layers", 0, HTH_OPTION_I32, "N", "its layers on GPUs: a number or 'all' (-1)",
      .offset = AT(model.draft_n_gpu_layers), .low = HEARTH_GPU_LAYERS_ALL, .high = LAYERS_MAX,
      .key = "draft_gpu_layers", .words = draft_layer_words },
    { "no-mmap", 0, HTH_OPTION_FLAG, NULL, "read the weights into memory instead of mapping the file",
      .offset = AT(model.no_mmap), .key = "no_mmap" },
    { .kind = HTH_OPTION_TABLE, .table = HTH_OPTION_ROWS(tuning_rows), .offset = AT(tuning) },
    { "host-weights", 0, HTH_OPTION_TEXT, "DIR",
      "a folder, best below /dev/shm, for weights that are repacked for the CPU, so that the next worker can map them",
      .offset = AT(model.host_weights), .key = "host_weights", .is_path = true },
    { "keep-host-weights", 0, HTH_OPTION_FLAG, NULL, "they stay in the folder when the last worker of the model ends",
      .offset = AT(model.keep_host_weights), .key = "keep_host_weights" },
    { "lora", 0, HTH_OPTION_TEXTS, "ADAPTER", "a LoRA adapter for the model, [NAME=]FILE[:SCALE]; may be repeated",
      .offset = AT(adapters.list), .n_offset = AT(adapters.n), .n_max = HTH_ADAPTERS_MAX, .check = check_adapter,
      .repeats = true, .key = "lora", .is_path = true, .is_named = true },
    { "lora-init-without-apply", 0, HTH_OPTION_FLAG, NULL,
      "load the adapters, and apply them only to requests that name them", .offset = AT(adapters.wait),
      .key = "lora_init_without_apply" },
    { "control-vector", 0, HTH_OPTION_TEXTS, "FILE[:SCALE]",
      "a control vector that changes the model in all requests; several are added up; may be repeated",
      .offset = AT(control_vectors), .n_offset = AT(model.n_control_vectors), .n_max = HEARTH_CONTROL_VECTORS_MAX,
      .check = check_control_vector, .repeats = true, .key = "control_vector", .is_path = true },
    { "control-vector-layer-range", 0, HTH_OPTION_OWN, "START-END",
      "the layers that control vectors change, both included (default: all but the first)", .read = set_control_layers,
      .key = "control_vector_layer_range", .write = write_control_layers },
    { "pooling", 0, HTH_OPTION_WORD, "POOLING",
      "what becomes an embedding: none (the vector of each token), mean, cls (the first), last, rank (scores); model: "
      "as the model's file says",
      .offset = AT(model.pooling), .words = poolings, .key = "pooling" },
    { "no-embeddings", 0, HTH_OPTION_FLAG, NULL, "refuse requests for embeddings", .offset = AT(model.no_embeddings),
      .key = "no_embeddings" },
    { "no-reranking", 0, HTH_OPTION_FLAG, NULL, "refuse requests for scores", .offset = AT(model.no_reranking),
      .key = "no_reranking" },
};

const hth_option_table hth_model_serving_options = HTH_OPTION_TABLE_OF(serving_rows);
const hth_option_table hth_model_scheduling_options = HTH_OPTION_TABLE_OF(scheduling_rows);
const hth_option_table hth_model_cache_options = HTH_OPTION_TABLE_OF(cache_rows);
const hth_option_table hth_model_engine_options = HTH_OPTION_TABLE_OF(engine_rows);

/* ---- the result ------------------------------------------------------------------------------------------------- */

void hth_model_setup_init(hth_model_setup *out)
{
    *out = (hth_model_setup){
        .runtime = hearth_runtime_options_default(),
        .model = hearth_model_options_default(),
        .tuning = { .engine = hearth_engine_options_default() },
        .policy = hearth_cache_policy_default(),
        .defaults = hth_api_defaults_none(),
    };
}

bool hth_model_setup_template(const hth_model_setup *setup, char **out)
{
    const char *given = setup->chat_template, *file = setup->chat_template_file;
    char *text = NULL;

    if (given && file)
        return hth_say("--chat-template and --chat-template-file exclude each other; give one", false);
    if (given && hth_chat_template_is_given(given)) {
        text = strdup(given);
        if (!text)
            return hth_say("no memory for the chat template", false);
    } else if (given || file) {
        text = hth_text_file_read(given ? given : file);
        if (!text)
            return false;
    }
    *out = text;
    return true;
}

hearth_runtime_options hth_model_setup_runtime(const hth_model_setup *setup)
{
    hearth_runtime_options runtime = setup->runtime;

    runtime.more_directories = setup->more_directories;
    return runtime;
}

hearth_model_options hth_model_setup_model(const hth_model_setup *setup, hearth_engine_options *engine)
{
    hearth_model_options model = setup->model;

    model.cache_policy = setup->has_policy ? &setup->policy : NULL;
    model.control_vectors = setup->control_vectors;
    *engine = setup->tuning.engine;
    engine->tensor_overrides = setup->tuning.tensor_overrides;
    engine->metadata_overrides = setup->tuning.metadata_overrides;
    model.engine = engine;
    return model;
}
