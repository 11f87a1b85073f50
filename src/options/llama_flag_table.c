/*
 * llama_flag_table.c - see llama_flag_table.h
 */
#include "options/llama_flag_table.h"

#include <stdlib.h>
#include <string.h>

#include "hearth.h"

#define NOTHING HTH_LLAMA_NOTHING
#define VALUE HTH_LLAMA_VALUE
#define PERHAPS HTH_LLAMA_PERHAPS
#define TWO HTH_LLAMA_TWO
#define RENAMED HTH_LLAMA_RENAMED
#define TEMPLATE_VALUE HTH_LLAMA_TEMPLATE_VALUE
#define CHOICE HTH_LLAMA_CHOICE
#define WITHOUT_EFFECT HTH_LLAMA_WITHOUT_EFFECT
#define REFUSED HTH_LLAMA_REFUSED

/* ---- values ---- */

static bool is_number(const char *value, long number)
{
    char *end;

    return *value && strtol(value, &end, 10) == number && *end == '\0';
}

static const char *map_layers(hth_pool *pool, const char *value)
{
    (void)pool;
    return strcmp(value, "all") == 0 ? "-1" : value;
}

static const char *map_draft_layers(hth_pool *pool, const char *value)
{
    return strcmp(value, "auto") == 0 ? NULL : map_layers(pool, value);
}

/* llama-server's words for on, off and auto. */
static const char *const switch_words[][2] = {
    { "on", "on" },        { "enabled", "on" }, { "true", "on" }, { "1", "on" },      { "off", "off" },
    { "disabled", "off" }, { "false", "off" },  { "0", "off" },   { "auto", "auto" }, { "-1", "auto" },
};

const char *hth_llama_switch(const char *word)
{
    for (size_t i = 0; word && i < sizeof(switch_words) / sizeof(switch_words[0]); i++)
        if (strcmp(word, switch_words[i][0]) == 0)
            return switch_words[i][1];
    return NULL;
}

/* Hearth's option has no value. */
static const char *map_presence(hth_pool *pool, const char *value)
{
    const char *known = hth_llama_switch(value);

    (void)pool;
    return known && strcmp(known, "off") == 0 ? NULL : "";
}

/* 0 or less lets llama-server choose. */
static const char *map_count(hth_pool *pool, const char *value)
{
    (void)pool;
    return is_number(value, 0) || is_number(value, -1) ? NULL : value;
}

/* A number of MiB. In llama-server 0 means none; here it becomes the smallest value. */
static const char *map_mib(hth_pool *pool, const char *value)
{
    if (is_number(value, -1))
        return NULL;
    return is_number(value, 0) ? "1M" : hth_pool_format(pool, "%sM", value);
}

/* A negative number switches a sampler off, as 0 does here. */
static const char *map_off(hth_pool *pool, const char *value)
{
    (void)pool;
    return *value == '-' ? "0" : value;
}

/* Without a value it is on. */
static const char *map_switch(hth_pool *pool, const char *value)
{
    const char *known = hth_llama_switch(*value ? value : "on");

    (void)pool;
    return known ? known : value;
}

/* A negative number means the model's own value. */
static const char *map_given(hth_pool *pool, const char *value)
{
    (void)pool;
    return *value == '-' ? NULL : value;
}

/* llama-server's default is longer than the longest draft here. */
static const char *map_draft(hth_pool *pool, const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    return *value && *end == '\0' && n > HEARTH_DRAFT_MAX ? hth_pool_format(pool, "%d", HEARTH_DRAFT_MAX) : value;
}

/* A number of seconds; a negative one means the default. */
static const char *map_seconds(hth_pool *pool, const char *value)
{
    return *value == '-' ? NULL : hth_pool_format(pool, "%ss", value);
}

/* A negative number switches keep-alives off. */
static const char *map_ping(hth_pool *pool, const char *value)
{
    return *value == '-' ? "0" : map_seconds(pool, value);
}

/* A negative number, or -1 as an unsigned one, means a random seed, which is the default. */
static const char *map_seed(hth_pool *pool, const char *value)
{
    (void)pool;
    return *value == '-' || strcmp(value, "4294967295") == 0 ? NULL : value;
}

/* llama-server's levels: 0 and 1: errors, 2: warnings, 3: information, above: more. */
static const char *map_verbosity(hth_pool *pool, const char *value)
{
    const long level = strtol(value, NULL, 10);

    (void)pool;
    return level <= 1 ? "error" : level == 2 ? "warning" : level == 3 ? "info" : "debug";
}

static const char *map_true(hth_pool *pool, const char *value)
{
    (void)pool;
    (void)value;
    return "true";
}

static const char *map_false(hth_pool *pool, const char *value)
{
    (void)pool;
    (void)value;
    return "false";
}

/* "default" leaves the choice to the template. */
static const char *map_effort(hth_pool *pool, const char *value)
{
    return strcmp(value, "default") == 0 ? NULL : hth_pool_format(pool, "\"%s\"", value);
}

static const hth_llama_choice load_modes[] = {
    { "auto", { NULL } },
    { "mmap", { NULL } },
    { "none", { "--no-mmap" } },
    { "mlock", { "--no-mmap", "--mlock" } },
    { "mmap+mlock", { "--mlock" } },
    { NULL, { NULL } },
};

/* Both mean what Hearth's replies have. */
static const hth_llama_choice reasoning_formats[] = { { "auto", { NULL } },
                                                      { "deepseek", { NULL } },
                                                      { NULL, { NULL } } };

/* ---- the flags, in the order of docs/flags.md ---- */

const hth_llama_flag hth_llama_flags[] = {
    { { "--hf-repo", "-hf", "-hfr" }, VALUE, RENAMED, .to = "--model" },
    { { "--ctx-size", "-c" }, VALUE, RENAMED, .to = "--ctx", .map = map_count },
    { { "--batch-size" }, VALUE, RENAMED, .to = "--batch" },
    { { "--parallel", "-np" }, VALUE, RENAMED, .to = "--n-parallel", .map = map_count },
    { { "--threads", "-t" }, VALUE, RENAMED, .to = "--threads", .map = map_count },
    { { "--n-gpu-layers", "--gpu-layers", "-ngl" }, VALUE, RENAMED, .to = "--gpu-layers", .map = map_layers },
    { { "--cache-type-k", "-ctk" }, VALUE, RENAMED, .to = "--type-k" },
    { { "--cache-type-v", "-ctv" }, VALUE, RENAMED, .to = "--type-v" },
    { { "--ubatch-size", "-ub" }, VALUE, RENAMED, .to = "--ubatch" },
    { { "--threads-batch", "-tb" }, VALUE, RENAMED, .to = "--threads-batch", .map = map_count },
    { { "--flash-attn", "-fa" }, PERHAPS, RENAMED, .to = "--flash-attn", .map = map_switch },
    { { "--device", "-dev" }, VALUE, RENAMED, .to = "--device" },
    { { "--split-mode", "-sm" }, VALUE, RENAMED, .to = "--split-mode" },
    { { "--tensor-split", "-ts" }, VALUE, RENAMED, .to = "--tensor-split" },
    { { "--main-gpu", "-mg" }, VALUE, RENAMED, .to = "--main-gpu" },
    { { "--override-tensor", "-ot" }, VALUE, RENAMED, .to = "--override-tensor" },
    { { "--cpu-moe", "-cmoe" }, NOTHING, RENAMED, .to = "--cpu-moe" },
    { { "--n-cpu-moe", "-ncmoe" }, VALUE, RENAMED, .to = "--n-cpu-moe" },
    { { "--no-kv-offload", "-nkvo" }, NOTHING, RENAMED, .to = "--no-kv-offload" },
    { { "--rope-freq-base" }, VALUE, RENAMED, .to = "--rope-freq-base", .map = map_count },
    { { "--rope-freq-scale" }, VALUE, RENAMED, .to = "--rope-freq-scale", .map = map_count },
    { { "--yarn-orig-ctx" }, VALUE, RENAMED, .to = "--yarn-orig-ctx", .map = map_count },
    { { "--yarn-ext-factor" }, VALUE, RENAMED, .to = "--yarn-ext-factor", .map = map_given },
    { { "--yarn-attn-factor" }, VALUE, RENAMED, .to = "--yarn-attn-factor", .map = map_given },
    { { "--yarn-beta-slow" }, VALUE, RENAMED, .to = "--yarn-beta-slow", .map = map_given },
    { { "--yarn-beta-fast" }, VALUE, RENAMED, .to = "--yarn-beta-fast", .map = map_given },
    { { "--cache-ram", "-cram" }, VALUE, RENAMED, .to = "--ram", .map = map_mib },
    { { "--ssl-key-file" }, VALUE, RENAMED, .to = "--tls-key" },
    { { "--ssl-cert-file" }, VALUE, RENAMED, .to = "--tls-certificate" },
    { { "--cors-origins" }, VALUE, RENAMED, .to = "--cors-origin", .is_list = true },
    { { "--no-webui" }, NOTHING, RENAMED, .to = "--no-ui" },
    { { "--alias", "-a" }, VALUE, RENAMED, .to = "--alias", .is_list = true },
    { { "--lora", "--lora-scaled" }, VALUE, RENAMED, .to = "--lora", .is_list = true },
    { { "--control-vector" }, VALUE, RENAMED, .to = "--control-vector", .is_list = true },
    { { "--control-vector-scaled" }, TWO, RENAMED, .to = "--control-vector", .join = ':', .is_list = true },
    { { "--control-vector-layer-range" }, TWO, RENAMED, .to = "--control-vector-layer-range", .join = '-' },
    { { "--temperature" }, VALUE, RENAMED, .to = "--temp" },
    { { "--typical" }, VALUE, RENAMED, .to = "--typical-p" },
    { { "--dry-penalty-last-n" }, VALUE, RENAMED, .to = "--dry-last-n" },
    { { "--top-nsigma", "--top-n-sigma" }, VALUE, RENAMED, .to = "--top-n-sigma", .map = map_off },
    { { "--adaptive-target" }, VALUE, RENAMED, .to = "--adaptive-target", .map = map_off },
    { { "--dynatemp-exp" }, VALUE, RENAMED, .to = "--dynatemp-exponent" },
    { { "--mirostat-ent" }, VALUE, RENAMED, .to = "--mirostat-tau" },
    { { "--mirostat-lr" }, VALUE, RENAMED, .to = "--mirostat-eta" },
    { { "--sampling-seq", "--sampler-seq" }, VALUE, RENAMED, .to = "--samplers" },
    { { "--n-predict" }, VALUE, RENAMED, .to = "--predict" },
    { { "--reranking", "--rerank" }, NOTHING, RENAMED, .to = "--pooling=rank" },
    { { "--spec-draft-n-max", "--draft", "--draft-n" }, VALUE, RENAMED, .to = "--draft-max", .map = map_draft },
    { { "--spec-draft-n-min", "--draft-n-min" }, VALUE, RENAMED, .to = "--draft-min", .map = map_draft },
    { { "--model-draft", "-md", "--spec-draft-model" }, VALUE, RENAMED, .to = "--draft-model" },
    { { "--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft" },
      VALUE,
      RENAMED,
      .to = "--draft-gpu-layers",
      .map = map_draft_layers },
    { { "--verbose", "-v", "--log-verbose" }, NOTHING, RENAMED, .to = "--log-level=debug" },

    { { "--seed", "-s" }, VALUE, RENAMED, .to = "--seed", .map = map_seed },
    { { "--tags" }, VALUE, RENAMED, .to = "--tag", .is_list = true },
    { { "--reverse-prompt", "-r" }, VALUE, RENAMED, .to = "--stop" },
    { { "--reasoning", "-rea" }, VALUE, RENAMED, .to = "--reasoning", .map = map_switch },
    { { "--timeout", "-to" }, VALUE, RENAMED, .to = "--write-timeout-ms", .map = map_seconds },
    { { "--sse-ping-interval" }, VALUE, RENAMED, .to = "--keep-alive-ms", .map = map_ping },
    { { "--sleep-idle-seconds" }, VALUE, RENAMED, .to = "--unload-after-ms", .map = map_seconds },
    { { "--verbosity", "-lv", "--log-verbosity" }, VALUE, RENAMED, .to = "--log-level", .map = map_verbosity },
    { { "--log-jsonl" }, NOTHING, RENAMED, .to = "--log-format=json" },
    { { "--log-disable" }, NOTHING, RENAMED, .to = "--log-level=error" },
    { { "--no-cache-prompt" }, NOTHING, RENAMED, .to = "--no-cache" },
    { { "--usage" }, NOTHING, RENAMED, .to = "--help" },
    { { "--load-mode", "-lm" },
      VALUE,
      CHOICE,
      .choices = load_modes,
      .to = "weights are mapped or read by the system; leave it out, or give auto, mmap, none, mlock or mmap+mlock" },
    { { "--reasoning-format" },
      VALUE,
      CHOICE,
      .choices = reasoning_formats,
      .to = "replies have reasoning in a field of its own; leave it out: a request says \"reasoning_format\": \"none\" "
            "to have it in the text" },
    { { "--reasoning-effort" }, VALUE, TEMPLATE_VALUE, .to = "reasoning_effort", .map = map_effort },
    { { "--reasoning-preserve" }, NOTHING, TEMPLATE_VALUE, .to = "preserve_reasoning", .map = map_true },
    { { "--no-reasoning-preserve" }, NOTHING, TEMPLATE_VALUE, .to = "preserve_reasoning", .map = map_false },

    { { "--fit", "-fit" }, PERHAPS, RENAMED, .to = "--fit", .map = map_presence },
    { { "-fitc" }, VALUE, RENAMED, .to = "--fit-ctx" },
    { { "--fit-target", "-fitt" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "a sixteenth of a GPU stays free, at most 1 GiB; --fit-device-memory sets a limit" },
    { { "--kv-offload", "-kvo" }, NOTHING, WITHOUT_EFFECT, .to = "K and V lie on GPUs; --no-kv-offload prevents it" },
    { { "--swa-full" }, NOTHING, WITHOUT_EFFECT, .to = "cells that a window has left are in the cache" },
    { { "--prio", "--prio-batch" }, VALUE, WITHOUT_EFFECT, .to = "threads have the priority of the process" },
    { { "--threads-http" }, VALUE, WITHOUT_EFFECT, .to = "connections need no threads" },
    { { "--kv-unified", "-kvu" }, NOTHING, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { { "--cont-batching", "-cb" }, NOTHING, WITHOUT_EFFECT, .to = "requests are always batched together" },
    { { "--cache-prompt" }, NOTHING, WITHOUT_EFFECT, .to = "prompts are always cached; --no-cache turns it off" },
    { { "--cache-reuse" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "equal prefixes are always reused; other reuse would not be exact" },
    { { "--slot-prompt-similarity", "-sps" }, VALUE, WITHOUT_EFFECT, .to = "every slot can use every cached prefix" },
    { { "--no-context-shift" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--metrics" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there; --admin gives them an address" },
    { { "--slots" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there" },
    { { "--jinja" }, NOTHING, WITHOUT_EFFECT, .to = "templates are always Jinja's" },
    { { "--ui", "--webui" }, NOTHING, WITHOUT_EFFECT, .to = "the page is there without --no-ui" },
    { { "--embeddings", "--embedding" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "every model that can make embeddings makes them; --no-embeddings turns it off" },
    { { "--warmup" }, NOTHING, WITHOUT_EFFECT, .to = "a model that reports ready needs no warm-up" },
    { { "--no-warmup" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--log-colors" }, PERHAPS, WITHOUT_EFFECT, .to = "the log has none" },
    { { "--log-timestamps" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its time" },
    { { "--log-prefix" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its level" },

    { { "--cpu-mask", "-C", "--cpu-range", "-Cr" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "the system chooses the processors; taskset and groups bound them" },
    { { "--cpu-mask-batch", "-Cb", "--cpu-range-batch", "-Crb" }, VALUE, WITHOUT_EFFECT, .to = "as --cpu-mask" },
    { { "--cpu-strict", "--cpu-strict-batch", "--poll", "--poll-batch" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "threads wait as the engine sees fit" },
    { { "--lookup-cache-static", "-lcs", "--lookup-cache-dynamic", "-lcd" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "drafts come from the prompt or from --draft-model" },
    { { "--kv-unified-per-slot" }, VALUE, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { { "--no-kv-unified", "-no-kvu" }, NOTHING, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { { "--keep" }, VALUE, WITHOUT_EFFECT, .to = "there is no context shift" },
    { { "--ctx-checkpoints", "-ctxcp", "--swa-checkpoints" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "rows of the cache take their place" },
    { { "--checkpoint-min-step", "-cms" }, VALUE, WITHOUT_EFFECT, .to = "rows of the cache take their place" },
    { { "--cache-idle-slots", "--no-cache-idle-slots" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "the cache keeps what requests leave" },
    { { "--perf", "--no-perf" }, NOTHING, WITHOUT_EFFECT, .to = "times are always measured" },
    { { "--escape", "-e", "--no-escape" }, NOTHING, WITHOUT_EFFECT, .to = "requests bring their prompts" },
    { { "--backend-sampling", "-bs" }, NOTHING, WITHOUT_EFFECT, .to = "tokens are sampled on the processor" },
    { { "--repack", "--no-repack", "-nr", "--no-host" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "the engine chooses the buffers of weights" },
    { { "--defrag-thold", "-dt" }, VALUE, WITHOUT_EFFECT, .to = "cells need no defragmentation" },
    { { "--no-cont-batching", "-nocb" }, NOTHING, WITHOUT_EFFECT, .to = "requests are always batched together" },
    { { "--mmproj-auto", "--no-mmproj", "--no-mmproj-auto" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "pictures and sound are not read" },
    { { "--mmproj-offload", "--no-mmproj-offload" }, NOTHING, WITHOUT_EFFECT, .to = "pictures and sound are not read" },
    { { "--mmproj-device", "-mmdev", "--video-fps" }, VALUE, WITHOUT_EFFECT, .to = "pictures and sound are not read" },
    { { "--image-min-tokens", "--image-max-tokens", "--mtmd-batch-max-tokens" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "pictures and sound are not read" },
    { { "--video-timestamp-interval", "--video-ffmpeg-dir" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "pictures and sound are not read" },
    { { "--lazy-mode", "-lzm" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "weights are mapped, and the system reads their pages when they are needed" },
    { { "--op-offload", "--no-op-offload" }, NOTHING, WITHOUT_EFFECT, .to = "the engine places operations" },
    { { "--reuse-port" }, NOTHING, WITHOUT_EFFECT, .to = "an address belongs to one server" },
    { { "--cors-methods", "--cors-headers" }, VALUE, WITHOUT_EFFECT, .to = "allowed origins may use those of the API" },
    { { "--no-cors-credentials" }, NOTHING, WITHOUT_EFFECT, .to = "credentials are never allowed" },
    { { "--ui-config", "--webui-config", "--ui-config-file", "--webui-config-file" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "the page has its own settings" },
    { { "--no-ui-mcp-proxy", "--no-webui-mcp-proxy", "--no-agent", "-no-ag" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "there is none" },
    { { "--models-autoload" }, NOTHING, WITHOUT_EFFECT, .to = "a model loads when a request names it" },
    { { "--no-jinja" }, NOTHING, WITHOUT_EFFECT, .to = "templates are always Jinja's" },
    { { "--no-skip-chat-parsing", "--prefill-assistant" }, NOTHING, WITHOUT_EFFECT, .to = "always so" },
    { { "--no-log-jsonl", "--no-log-prefix", "--no-log-timestamps" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "--log-format chooses the form of lines" },
    { { "--spec-draft-threads", "-td", "--threads-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "a draft model has the threads of its model" },
    { { "--spec-draft-threads-batch", "-tbd", "--threads-batch-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "a draft model has the threads of its model" },
    { { "--spec-draft-cpu-mask", "-Cd", "--cpu-mask-draft" }, VALUE, WITHOUT_EFFECT, .to = "as --cpu-mask" },
    { { "--spec-draft-cpu-range", "-Crd", "--cpu-range-draft" }, VALUE, WITHOUT_EFFECT, .to = "as --cpu-mask" },
    { { "--spec-draft-cpu-mask-batch", "-Cbd", "--cpu-mask-batch-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --cpu-mask" },
    { { "--spec-draft-cpu-strict", "--cpu-strict-draft" }, VALUE, WITHOUT_EFFECT, .to = "as --cpu-strict" },
    { { "--spec-draft-cpu-strict-batch", "--cpu-strict-batch-draft" }, VALUE, WITHOUT_EFFECT, .to = "as --cpu-strict" },
    { { "--spec-draft-prio", "--prio-draft", "--spec-draft-prio-batch", "--prio-batch-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "threads have the priority of the process" },
    { { "--spec-draft-poll", "--poll-draft", "--spec-draft-poll-batch", "--poll-batch-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --poll" },
    { { "--spec-draft-type-k", "-ctkd", "--cache-type-k-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "the types of the model count" },
    { { "--spec-draft-type-v", "-ctvd", "--cache-type-v-draft" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "the types of the model count" },
    { { "--spec-draft-p-split", "--draft-p-split", "--spec-draft-p-min", "--draft-p-min" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "drafts are as long as they pay" },
    { { "--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "tokens are sampled on the processor" },
    { { "--spec-type", "--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "drafts come from the prompt or from --draft-model" },
    { { "--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max", "--spec-ngram-mod-n-match" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --spec-type" },
    { { "--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m", "--spec-ngram-simple-min-hits" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --spec-type" },
    { { "--spec-ngram-map-k-size-n", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k-min-hits" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --spec-type" },
    { { "--spec-ngram-map-k4v-size-n", "--spec-ngram-map-k4v-size-m", "--spec-ngram-map-k4v-min-hits" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "as --spec-type" },
    { { "--spec-default" }, NOTHING, WITHOUT_EFFECT, .to = "as --spec-type" },

    { { "--context-shift" },
      NOTHING,
      REFUSED,
      .to = "a shifted context differs from the one that the model computes; leave it out: a reply ends when the "
            "context is full" },
    { { "--cors-credentials" },
      NOTHING,
      REFUSED,
      .to = "pages send keys, not cookies; --cors-origin lists the origins that may" },
    { { "--api-prefix" }, VALUE, REFUSED, .to = "a proxy in front can remove a prefix" },
    { { "--path" }, VALUE, REFUSED, .to = "no files are served; --cors-origin lists the origins of pages elsewhere" },
    { { "--mmproj", "-mm" }, VALUE, REFUSED, .to = "pictures and sound are not read; leave it out" },
    { { "--version" }, NOTHING, REFUSED, .to = "'hearth version' prints it" },
    { { "--cache-list", "-cl" }, NOTHING, REFUSED, .to = "'hearth models ls' lists them" },
    { { "--completion-bash" }, NOTHING, REFUSED, .to = "'hearth completion bash' prints it" },
    { { "--list-devices" }, NOTHING, REFUSED, .to = "'hearth version' lists them" },
    { { "--logit-bias", "-l" }, VALUE, REFUSED, .to = "requests bring their own 'logit_bias'" },
    { { "--ignore-eos" }, NOTHING, REFUSED, .to = "a request says \"ignore_eos\": true" },
    { { "--grammar", "--grammar-file" }, VALUE, REFUSED, .to = "requests bring their own 'grammar'" },
    { { "--json-schema", "-j", "--json-schema-file", "-jf" },
      VALUE,
      REFUSED,
      .to = "requests bring their own 'json_schema' or 'response_format'" },
    { { "--dry-sequence-breaker" }, VALUE, REFUSED, .to = "requests bring their own 'dry_sequence_breakers'" },
    { { "--special", "-sp" }, NOTHING, REFUSED, .to = "replies have no control tokens; leave it out" },
    { { "--spm-infill" }, NOTHING, REFUSED, .to = "prefix, suffix and middle come in this order; leave it out" },
    { { "--mmproj-url", "-mmu", "--media-path" },
      VALUE,
      REFUSED,
      .to = "pictures and sound are not read; leave it out" },
    { { "--n-cpu-ffn", "-ncffn" }, VALUE, REFUSED, .to = "--override-tensor places tensors by their names" },
    { { "--check-tensors" }, NOTHING, REFUSED, .to = "weights are not searched for wrong values; leave it out" },
    { { "--model-url", "-mu", "--docker-repo", "-dr" },
      VALUE,
      REFUSED,
      .to = "-hf OWNER/REPO[:QUANT] or 'hearth pull' downloads a model" },
    { { "--hf-file", "-hff" }, VALUE, REFUSED, .to = "name the quantization, -hf OWNER/REPO:QUANT" },
    { { "--hf-token", "-hft" },
      VALUE,
      REFUSED,
      .to = "other accounts see command lines; set HF_TOKEN in the environment" },
    { { "--embd-normalize" }, VALUE, REFUSED, .to = "requests bring their own 'embd_normalize'" },
    { { "--ui-mcp-proxy", "--webui-mcp-proxy", "--agent", "-ag" },
      NOTHING,
      REFUSED,
      .to = "the server runs no tools and reaches no other server; clients do" },
    { { "--tools", "--tools-runtime", "--mcp-servers-config", "--mcp-servers-json" },
      VALUE,
      REFUSED,
      .to = "the server runs no tools and reaches no other server; clients do" },
    { { "--models-preset" }, VALUE, REFUSED, .to = "the file of --config has sections of models and presets" },
    { { "--skip-chat-parsing" },
      NOTHING,
      REFUSED,
      .to = "a request says \"reasoning_format\": \"none\" and \"parse_tool_calls\": false" },
    { { "--no-prefill-assistant" },
      NOTHING,
      REFUSED,
      .to = "a request says \"add_generation_prompt\": true to have a new message" },
    { { "--no-models-autoload" },
      NOTHING,
      REFUSED,
      .to = "a request loads its model; with --residency external, operators alone load models" },
    { { "--log-prompts-dir" }, VALUE, REFUSED, .to = "--log-prompts writes them into the log" },
    { { "--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft" },
      VALUE,
      REFUSED,
      .to = "'hearth pull' downloads a model; give its file with --draft-model" },
    { { "--spec-draft-override-tensor", "-otd", "--override-tensor-draft" },
      VALUE,
      REFUSED,
      .to = "--draft-gpu-layers places a draft model" },
    { { "--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft" },
      NOTHING,
      REFUSED,
      .to = "--draft-gpu-layers places a draft model" },
    { { "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "-ncmoed", "--n-cpu-moe-draft" },
      VALUE,
      REFUSED,
      .to = "--draft-gpu-layers places a draft model" },
    { { "--spec-draft-device", "-devd", "--device-draft" },
      VALUE,
      REFUSED,
      .to = "a draft model has the devices of its model; leave it out" },
    { { "--spec-synth-len", "--spec-synth-rates" },
      VALUE,
      REFUSED,
      .to = "the model itself accepts drafts; leave it out" },
    { { "--embd-gemma-default", "--fim-qwen-1.5b-default", "--fim-qwen-3b-default" },
      NOTHING,
      REFUSED,
      .to = "name the model, -hf OWNER/REPO[:QUANT]" },
    { { "--fim-qwen-7b-default", "--fim-qwen-7b-spec", "--fim-qwen-14b-spec" },
      NOTHING,
      REFUSED,
      .to = "name the model, -hf OWNER/REPO[:QUANT]" },
    { { "--fim-qwen-30b-default", "--gpt-oss-20b-default", "--gpt-oss-120b-default" },
      NOTHING,
      REFUSED,
      .to = "name the model, -hf OWNER/REPO[:QUANT]" },
    { { "--vision-gemma-4b-default", "--vision-gemma-12b-default" },
      NOTHING,
      REFUSED,
      .to = "name the model, -hf OWNER/REPO[:QUANT]" },
};

const size_t hth_llama_n_flags = sizeof(hth_llama_flags) / sizeof(hth_llama_flags[0]);

/* ---- the environment variables, in llama-server's order ---- */

const hth_llama_variable hth_llama_variables[] = {
    { "LLAMA_ARG_THREADS", "--threads", NULL },
    { "LLAMA_ARG_CTX_SIZE", "--ctx-size", NULL },
    { "LLAMA_ARG_KV_UNIFIED_PER_SLOT", "--kv-unified-per-slot", NULL },
    { "LLAMA_ARG_N_PREDICT", "--predict", NULL },
    { "LLAMA_ARG_BATCH", "--batch-size", NULL },
    { "LLAMA_ARG_UBATCH", "--ubatch-size", NULL },
    { "LLAMA_ARG_SWA_FULL", "--swa-full", NULL },
    { "LLAMA_ARG_CTX_CHECKPOINTS", "--ctx-checkpoints", NULL },
    { "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT", "--checkpoint-min-step", NULL },
    { "LLAMA_ARG_CACHE_RAM", "--cache-ram", NULL },
    { "LLAMA_ARG_KV_UNIFIED", "--kv-unified", "--no-kv-unified" },
    { "LLAMA_ARG_CACHE_IDLE_SLOTS", "--cache-idle-slots", "--no-cache-idle-slots" },
    { "LLAMA_ARG_CONTEXT_SHIFT", "--context-shift", "--no-context-shift" },
    { "LLAMA_ARG_FLASH_ATTN", "--flash-attn", NULL },
    { "LLAMA_ARG_PERF", "--perf", "--no-perf" },
    { "LLAMA_ARG_TEMPERATURE", "--temp", NULL },
    { "LLAMA_ARG_TOP_K", "--top-k", NULL },
    { "LLAMA_ARG_TOP_P", "--top-p", NULL },
    { "LLAMA_ARG_MIN_P", "--min-p", NULL },
    { "LLAMA_ARG_REPEAT_PENALTY", "--repeat-penalty", NULL },
    { "LLAMA_ARG_PRESENCE_PENALTY", "--presence-penalty", NULL },
    { "LLAMA_ARG_FREQUENCY_PENALTY", "--frequency-penalty", NULL },
    { "LLAMA_ARG_BACKEND_SAMPLING", "--backend-sampling", NULL },
    { "LLAMA_ARG_POOLING", "--pooling", NULL },
    { "LLAMA_ARG_ROPE_SCALING_TYPE", "--rope-scaling", NULL },
    { "LLAMA_ARG_ROPE_SCALE", "--rope-scale", NULL },
    { "LLAMA_ARG_ROPE_FREQ_BASE", "--rope-freq-base", NULL },
    { "LLAMA_ARG_ROPE_FREQ_SCALE", "--rope-freq-scale", NULL },
    { "LLAMA_ARG_YARN_ORIG_CTX", "--yarn-orig-ctx", NULL },
    { "LLAMA_ARG_YARN_EXT_FACTOR", "--yarn-ext-factor", NULL },
    { "LLAMA_ARG_YARN_ATTN_FACTOR", "--yarn-attn-factor", NULL },
    { "LLAMA_ARG_YARN_BETA_SLOW", "--yarn-beta-slow", NULL },
    { "LLAMA_ARG_YARN_BETA_FAST", "--yarn-beta-fast", NULL },
    { "LLAMA_ARG_KV_OFFLOAD", "--kv-offload", "--no-kv-offload" },
    { "LLAMA_ARG_REPACK", "--repack", "--no-repack" },
    { "LLAMA_ARG_NO_HOST", "--no-host", NULL },
    { "LLAMA_ARG_CACHE_TYPE_K", "--cache-type-k", NULL },
    { "LLAMA_ARG_CACHE_TYPE_V", "--cache-type-v", NULL },
    { "LLAMA_ARG_DEFRAG_THOLD", "--defrag-thold", NULL },
    { "LLAMA_ARG_N_PARALLEL", "--parallel", NULL },
    { "LLAMA_ARG_CONT_BATCHING", "--cont-batching", "--no-cont-batching" },
    { "LLAMA_ARG_MMPROJ", "--mmproj", NULL },
    { "LLAMA_ARG_MMPROJ_URL", "--mmproj-url", NULL },
    { "LLAMA_ARG_MMPROJ_AUTO", "--mmproj-auto", "--no-mmproj" },
    { "LLAMA_ARG_MMPROJ_OFFLOAD", "--mmproj-offload", "--no-mmproj-offload" },
    { "MTMD_BACKEND_DEVICE", "--mmproj-device", NULL },
    { "LLAMA_ARG_IMAGE_MIN_TOKENS", "--image-min-tokens", NULL },
    { "LLAMA_ARG_IMAGE_MAX_TOKENS", "--image-max-tokens", NULL },
    { "LLAMA_ARG_MTMD_BATCH_MAX_TOKENS", "--mtmd-batch-max-tokens", NULL },
    { "LLAMA_ARG_VIDEO_FPS", "--video-fps", NULL },
    { "LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL", "--video-timestamp-interval", NULL },
    { "LLAMA_ARG_VIDEO_FFMPEG_DIR", "--video-ffmpeg-dir", NULL },
    { "LLAMA_ARG_RPC", "--rpc", NULL },
    { "LLAMA_ARG_LOAD_MODE", "--load-mode", NULL },
    { "LLAMA_ARG_LAZY_MODE", "--lazy-mode", NULL },
    { "LLAMA_ARG_NUMA", "--numa", NULL },
    { "LLAMA_ARG_DEVICE", "--device", NULL },
    { "LLAMA_ARG_OVERRIDE_TENSOR", "--override-tensor", NULL },
    { "LLAMA_ARG_CPU_MOE", "--cpu-moe", NULL },
    { "LLAMA_ARG_N_CPU_MOE", "--n-cpu-moe", NULL },
    { "LLAMA_ARG_N_CPU_FFN", "--n-cpu-ffn", NULL },
    { "LLAMA_ARG_N_GPU_LAYERS", "--gpu-layers", NULL },
    { "LLAMA_ARG_SPLIT_MODE", "--split-mode", NULL },
    { "LLAMA_ARG_TENSOR_SPLIT", "--tensor-split", NULL },
    { "LLAMA_ARG_MAIN_GPU", "--main-gpu", NULL },
    { "LLAMA_ARG_FIT", "--fit", NULL },
    { "LLAMA_ARG_FIT_TARGET", "--fit-target", NULL },
    { "LLAMA_ARG_FIT_CTX", "--fit-ctx", NULL },
    { "LLAMA_ARG_ALIAS", "--alias", NULL },
    { "LLAMA_ARG_TAGS", "--tags", NULL },
    { "LLAMA_ARG_MODEL", "--model", NULL },
    { "LLAMA_ARG_MODEL_URL", "--model-url", NULL },
    { "LLAMA_ARG_DOCKER_REPO", "--docker-repo", NULL },
    { "LLAMA_ARG_HF_REPO", "--hf-repo", NULL },
    { "LLAMA_ARG_HF_FILE", "--hf-file", NULL },
    { "LLAMA_ARG_HOST", "--host", NULL },
    { "LLAMA_ARG_PORT", "--port", NULL },
    { "LLAMA_ARG_REUSE_PORT", "--reuse-port", NULL },
    { "LLAMA_ARG_STATIC_PATH", "--path", NULL },
    { "LLAMA_ARG_CORS_ORIGINS", "--cors-origins", NULL },
    { "LLAMA_ARG_CORS_METHODS", "--cors-methods", NULL },
    { "LLAMA_ARG_CORS_HEADERS", "--cors-headers", NULL },
    { "LLAMA_ARG_CORS_CREDENTIALS", "--cors-credentials", "--no-cors-credentials" },
    { "LLAMA_ARG_API_PREFIX", "--api-prefix", NULL },
    { "LLAMA_ARG_UI_CONFIG", "--ui-config", NULL },
    { "LLAMA_ARG_UI_CONFIG_FILE", "--ui-config-file", NULL },
    { "LLAMA_ARG_UI_MCP_PROXY", "--ui-mcp-proxy", "--no-ui-mcp-proxy" },
    { "LLAMA_ARG_TOOLS", "--tools", NULL },
    { "LLAMA_ARG_TOOLS_RUNTIME", "--tools-runtime", NULL },
    { "LLAMA_ARG_MCP_SERVERS_CONFIG", "--mcp-servers-config", NULL },
    { "LLAMA_ARG_MCP_SERVERS_JSON", "--mcp-servers-json", NULL },
    { "LLAMA_ARG_AGENT", "--agent", "--no-agent" },
    { "LLAMA_ARG_UI", "--ui", "--no-ui" },
    { "LLAMA_ARG_EMBEDDINGS", "--embedding", NULL },
    { "LLAMA_ARG_RERANKING", "--rerank", NULL },
    { "LLAMA_API_KEY", "--api-key", NULL },
    { "LLAMA_ARG_API_KEY_FILE", "--api-key-file", NULL },
    { "LLAMA_ARG_SSL_KEY_FILE", "--ssl-key-file", NULL },
    { "LLAMA_ARG_SSL_CERT_FILE", "--ssl-cert-file", NULL },
    { "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "--chat-template-kwargs", NULL },
    { "LLAMA_ARG_TIMEOUT", "--timeout", NULL },
    { "LLAMA_ARG_SSE_PING_INTERVAL", "--sse-ping-interval", NULL },
    { "LLAMA_ARG_THREADS_HTTP", "--threads-http", NULL },
    { "LLAMA_ARG_CACHE_PROMPT", "--cache-prompt", "--no-cache-prompt" },
    { "LLAMA_ARG_CACHE_REUSE", "--cache-reuse", NULL },
    { "LLAMA_ARG_ENDPOINT_METRICS", "--metrics", NULL },
    { "LLAMA_ARG_ENDPOINT_PROPS", "--props", NULL },
    { "LLAMA_ARG_ENDPOINT_SLOTS", "--slots", "--no-slots" },
    { "LLAMA_ARG_MODELS_DIR", "--models-dir", NULL },
    { "LLAMA_ARG_MODELS_PRESET", "--models-preset", NULL },
    { "LLAMA_ARG_MODELS_MAX", "--models-max", NULL },
    { "LLAMA_ARG_MODELS_AUTOLOAD", "--models-autoload", "--no-models-autoload" },
    { "LLAMA_ARG_JINJA", "--jinja", "--no-jinja" },
    { "LLAMA_ARG_THINK", "--reasoning-format", NULL },
    { "LLAMA_ARG_REASONING", "--reasoning", NULL },
    { "LLAMA_ARG_REASONING_EFFORT", "--reasoning-effort", NULL },
    { "LLAMA_ARG_THINK_BUDGET", "--reasoning-budget", NULL },
    { "LLAMA_ARG_THINK_BUDGET_MESSAGE", "--reasoning-budget-message", NULL },
    { "LLAMA_ARG_REASONING_PRESERVE", "--reasoning-preserve", "--no-reasoning-preserve" },
    { "LLAMA_ARG_CHAT_TEMPLATE", "--chat-template", NULL },
    { "LLAMA_ARG_CHAT_TEMPLATE_FILE", "--chat-template-file", NULL },
    { "LLAMA_ARG_SKIP_CHAT_PARSING", "--skip-chat-parsing", "--no-skip-chat-parsing" },
    { "LLAMA_ARG_PREFILL_ASSISTANT", "--prefill-assistant", "--no-prefill-assistant" },
    { "LLAMA_ARG_LOG_FILE", "--log-file", NULL },
    { "LLAMA_ARG_LOG_JSONL", "--log-jsonl", "--no-log-jsonl" },
    { "LLAMA_ARG_LOG_COLORS", "--log-colors", NULL },
    { "LLAMA_ARG_OFFLINE", "--offline", NULL },
    { "LLAMA_ARG_LOG_VERBOSITY", "--verbosity", NULL },
    { "LLAMA_ARG_LOG_PREFIX", "--log-prefix", "--no-log-prefix" },
    { "LLAMA_ARG_LOG_TIMESTAMPS", "--log-timestamps", "--no-log-timestamps" },
    { "LLAMA_ARG_SPEC_DRAFT_HF_REPO", "--spec-draft-hf", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K", "--spec-draft-type-k", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V", "--spec-draft-type-v", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_CPU_MOE", "--spec-draft-cpu-moe", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE", "--spec-draft-n-cpu-moe", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_N_MAX", "--spec-draft-n-max", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_N_MIN", "--spec-draft-n-min", NULL },
    { "LLAMA_ARG_SPEC_SYNTH_LEN", "--spec-synth-len", NULL },
    { "LLAMA_ARG_SPEC_SYNTH_RATES", "--spec-synth-rates", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_P_SPLIT", "--spec-draft-p-split", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_P_MIN", "--spec-draft-p-min", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING", "--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling" },
    { "LLAMA_ARG_N_GPU_LAYERS_DRAFT", "--spec-draft-ngl", NULL },
    { "LLAMA_ARG_SPEC_DRAFT_MODEL", "--spec-draft-model", NULL },
    { "LLAMA_ARG_SPEC_TYPE", "--spec-type", NULL },
    { "LLAMA_ARG_DRAFT_MAX", "--draft", NULL },
    { "LLAMA_ARG_DRAFT_MIN", "--draft-min", NULL },
};

const size_t hth_llama_n_variables = sizeof(hth_llama_variables) / sizeof(hth_llama_variables[0]);
