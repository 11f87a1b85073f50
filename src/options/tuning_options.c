/*
 * tuning_options.c - see tuning_options.h
 */
#include "options/tuning_options.h"

#include <math.h>

#include "base/status.h"
#include "engine/engine_options.h"
#include "options/values.h"

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

#define AT(field) offsetof(hth_tuning, field)

static const hth_option rows[] = {
    { "ubatch", 0, HTH_OPTION_U32, "N",
      "limit of tokens that the engine computes at once (default: --batch, at most 512; more only where GPUs compute "
      "all)",
      .offset = AT(engine.n_ubatch), .low = 1, .high = 65536, .key = "ubatch" },
    { "threads-batch", 0, HTH_OPTION_U32, "N", "threads where several tokens are computed (default: --threads)",
      .offset = AT(engine.n_threads_batch), .low = 1, .high = 1024, .key = "threads_batch" },
    { "flash-attn", 0, HTH_OPTION_WORD, "WHEN",
      "flash attention: on, off, or auto (where the model and the device have it)",
      .offset = AT(engine.flash_attention), .words = flash_attentions, .key = "flash_attn" },
    { "mlock", 0, HTH_OPTION_FLAG, NULL, "keep the weights in memory, as far as the process may lock memory",
      .offset = AT(engine.mlock), .key = "mlock" },
    { "numa", 0, HTH_OPTION_WORD, "HOW",
      "threads on machines with several nodes: distribute (over all), isolate (on the node of the start), numactl (as "
      "numactl says), off",
      .offset = AT(engine.numa), .words = numas, .key = "numa" },
    { "device", 0, HTH_OPTION_TEXT, "NAME,...",
      "devices for layers besides those of --rpc, such as CUDA0,CUDA1, or none (default: all; 'hearth version' lists "
      "them)",
      .offset = AT(engine.devices), .key = "device" },
    { "split-mode", 0, HTH_OPTION_WORD, "MODE",
      "parts of the model on several GPUs: layer, row (of the matrices, where GPUs can), none (one GPU takes all)",
      .offset = AT(engine.split_mode), .words = split_modes, .key = "split_mode" },
    { "tensor-split", 0, HTH_OPTION_TEXT, "N,...", "shares of the GPUs, such as 3,1 (default: by their free memory)",
      .offset = AT(engine.tensor_split), .check = check_split, .key = "tensor_split" },
    { "main-gpu", 0, HTH_OPTION_U32, "INDEX", "the GPU for --split-mode none; counts from 0",
      .offset = AT(engine.main_gpu), .low = 0, .high = HTH_DEVICES_MAX - 1, .key = "main_gpu" },
    { "override-tensor", 0, HTH_OPTION_TEXTS, "PATTERN=BUFFER",
      "tensors whose names match the regular expression lie there: CPU, CUDA0; several with commas, or repeated",
      .offset = AT(tensor_overrides), .n_offset = AT(engine.n_tensor_overrides), .n_max = HEARTH_TENSOR_OVERRIDES_MAX,
      .check = check_tensors, .repeats = true, .key = "override_tensor" },
    { "cpu-moe", 0, HTH_OPTION_FLAG, NULL, "the experts of all layers stay on the CPU", .offset = AT(engine.cpu_moe),
      .key = "cpu_moe" },
    { "n-cpu-moe", 0, HTH_OPTION_U32, "N", "the experts of the first N layers stay on the CPU",
      .offset = AT(engine.n_cpu_moe), .low = 0, .high = 10000, .key = "n_cpu_moe" },
    { "no-kv-offload", 0, HTH_OPTION_FLAG, NULL, "K and V stay in the memory of the machine, not on GPUs",
      .offset = AT(engine.no_kv_offload), .key = "no_kv_offload" },
    { "rope-scaling", 0, HTH_OPTION_WORD, "KIND",
      "stretching of positions for longer contexts: none, linear, yarn; model: as the file says",
      .offset = AT(engine.rope_scaling), .words = rope_scalings, .key = "rope_scaling" },
    { "rope-scale", 0, HTH_OPTION_OWN, "N", "the context grows by this factor; the same as --rope-freq-scale 1/N",
      .read = read_rope_scale, .key = "rope_scale", .write = write_nothing },
    { "rope-freq-base", 0, HTH_OPTION_NUMBER, "X", "base of the positions' angles (default: the model's)",
      .offset = AT(engine.rope_freq_base), .low = 1e-6, .high = 1e9, .key = "rope_freq_base" },
    { "rope-freq-scale", 0, HTH_OPTION_NUMBER, "X",
      "factor of the positions' angles, such as 0.5 for twice the context", .offset = AT(engine.rope_freq_scale),
      .low = 1e-6, .high = 1e9, .key = "rope_freq_scale" },
    { "yarn-orig-ctx", 0, HTH_OPTION_U32, "N", "YaRN: tokens of the training (default: as the model says)",
      .offset = AT(engine.yarn_orig_ctx), .low = 1, .high = INT32_MAX, .key = "yarn_orig_ctx" },
    { "yarn-ext-factor", 0, HTH_OPTION_NUMBER, "X", "YaRN: mix of extrapolation; 0: interpolation alone",
      .offset = AT(engine.yarn_ext_factor), .low = 0, .high = 1e9, .key = "yarn_ext_factor" },
    { "yarn-attn-factor", 0, HTH_OPTION_NUMBER, "X", "YaRN: factor of attention", .offset = AT(engine.yarn_attn_factor),
      .low = 0, .high = 1e9, .key = "yarn_attn_factor" },
    { "yarn-beta-slow", 0, HTH_OPTION_NUMBER, "X", "YaRN: bound of slow dimensions",
      .offset = AT(engine.yarn_beta_slow), .low = 0, .high = 1e9, .key = "yarn_beta_slow" },
    { "yarn-beta-fast", 0, HTH_OPTION_NUMBER, "X", "YaRN: bound of fast dimensions",
      .offset = AT(engine.yarn_beta_fast), .low = 0, .high = 1e9, .key = "yarn_beta_fast" },
    { "override-kv", 0, HTH_OPTION_TEXTS, "KEY=TYPE:VALUE",
      "metadata of the model in place of the file's, with a type int, float, bool or str; several with commas, or "
      "repeated",
      .offset = AT(metadata_overrides), .n_offset = AT(engine.n_metadata_overrides),
      .n_max = HEARTH_METADATA_OVERRIDES_MAX, .check = check_metadata, .repeats = true, .key = "override_kv" },
};

const hth_option_table hth_tuning_options = HTH_OPTION_TABLE_OF(rows);
