/*
 * llama_flag_table.c - every flag and environment variable of llama-server, with its meaning in Hearth; docs/flags.md
 * has the same table for readers
 */
#include "options/llama_flags.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
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

/* ---- the flags; those of one reason are in one row ---- */

const hth_llama_flag hth_llama_flags[] = {
    { "--hf-repo -hf -hfr", VALUE, RENAMED, .to = "--model" },
    { "--ctx-size -c", VALUE, RENAMED, .to = "--ctx", .map = map_count },
    { "--batch-size", VALUE, RENAMED, .to = "--batch" },
    { "--parallel -np", VALUE, RENAMED, .to = "--n-parallel", .map = map_count },
    { "--threads -t", VALUE, RENAMED, .to = "--threads", .map = map_count },
    { "--n-gpu-layers --gpu-layers -ngl", VALUE, RENAMED, .to = "--gpu-layers", .map = map_layers },
    { "--cache-type-k -ctk", VALUE, RENAMED, .to = "--type-k" },
    { "--cache-type-v -ctv", VALUE, RENAMED, .to = "--type-v" },
    { "--ubatch-size -ub", VALUE, RENAMED, .to = "--ubatch" },
    { "--threads-batch -tb", VALUE, RENAMED, .to = "--threads-batch", .map = map_count },
    { "--flash-attn -fa", PERHAPS, RENAMED, .to = "--flash-attn", .map = map_switch },
    { "--device -dev", VALUE, RENAMED, .to = "--device" },
    { "--split-mode -sm", VALUE, RENAMED, .to = "--split-mode" },
    { "--tensor-split -ts", VALUE, RENAMED, .to = "--tensor-split" },
    { "--main-gpu -mg", VALUE, RENAMED, .to = "--main-gpu" },
    { "--override-tensor -ot", VALUE, RENAMED, .to = "--override-tensor" },
    { "--cpu-moe -cmoe", NOTHING, RENAMED, .to = "--cpu-moe" },
    { "--n-cpu-moe -ncmoe", VALUE, RENAMED, .to = "--n-cpu-moe" },
    { "--no-kv-offload -nkvo", NOTHING, RENAMED, .to = "--no-kv-offload" },
    { "--rope-freq-base", VALUE, RENAMED, .to = "--rope-freq-base", .map = map_count },
    { "--rope-freq-scale", VALUE, RENAMED, .to = "--rope-freq-scale", .map = map_count },
    { "--yarn-orig-ctx", VALUE, RENAMED, .to = "--yarn-orig-ctx", .map = map_count },
    { "--yarn-ext-factor", VALUE, RENAMED, .to = "--yarn-ext-factor", .map = map_given },
    { "--yarn-attn-factor", VALUE, RENAMED, .to = "--yarn-attn-factor", .map = map_given },
    { "--yarn-beta-slow", VALUE, RENAMED, .to = "--yarn-beta-slow", .map = map_given },
    { "--yarn-beta-fast", VALUE, RENAMED, .to = "--yarn-beta-fast", .map = map_given },
    { "--cache-ram -cram", VALUE, RENAMED, .to = "--ram", .map = map_mib },
    { "--ssl-key-file", VALUE, RENAMED, .to = "--tls-key" },
    { "--ssl-cert-file", VALUE, RENAMED, .to = "--tls-certificate" },
    { "--cors-origins", VALUE, RENAMED, .to = "--cors-origin", .is_list = true },
    { "--no-webui", NOTHING, RENAMED, .to = "--no-ui" },
    { "--alias -a", VALUE, RENAMED, .to = "--alias", .is_list = true },
    { "--lora --lora-scaled", VALUE, RENAMED, .to = "--lora", .is_list = true },
    { "--control-vector", VALUE, RENAMED, .to = "--control-vector", .is_list = true },
    { "--control-vector-scaled", TWO, RENAMED, .to = "--control-vector", .join = ':', .is_list = true },
    { "--control-vector-layer-range", TWO, RENAMED, .to = "--control-vector-layer-range", .join = '-' },
    { "--temperature", VALUE, RENAMED, .to = "--temp" },
    { "--typical", VALUE, RENAMED, .to = "--typical-p" },
    { "--dry-penalty-last-n", VALUE, RENAMED, .to = "--dry-last-n" },
    { "--top-nsigma --top-n-sigma", VALUE, RENAMED, .to = "--top-n-sigma", .map = map_off },
    { "--adaptive-target", VALUE, RENAMED, .to = "--adaptive-target", .map = map_off },
    { "--dynatemp-exp", VALUE, RENAMED, .to = "--dynatemp-exponent" },
    { "--mirostat-ent", VALUE, RENAMED, .to = "--mirostat-tau" },
    { "--mirostat-lr", VALUE, RENAMED, .to = "--mirostat-eta" },
    { "--sampling-seq --sampler-seq", VALUE, RENAMED, .to = "--samplers" },
    { "--n-predict", VALUE, RENAMED, .to = "--predict" },
    { "--reranking --rerank", NOTHING, RENAMED, .to = "--pooling=rank" },
    { "--spec-draft-n-max --draft --draft-n", VALUE, RENAMED, .to = "--draft-max", .map = map_draft },
    { "--spec-draft-n-min --draft-n-min", VALUE, RENAMED, .to = "--draft-min", .map = map_draft },
    { "--model-draft -md --spec-draft-model", VALUE, RENAMED, .to = "--draft-model" },
    { "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft", VALUE, RENAMED, .to = "--draft-gpu-layers",
      .map = map_draft_layers },
    { "--verbose -v --log-verbose", NOTHING, RENAMED, .to = "--log-level=debug" },
    { "--seed -s", VALUE, RENAMED, .to = "--seed", .map = map_seed },
    { "--tags", VALUE, RENAMED, .to = "--tag", .is_list = true },
    { "--reverse-prompt -r", VALUE, RENAMED, .to = "--stop" },
    { "--reasoning -rea", VALUE, RENAMED, .to = "--reasoning", .map = map_switch },
    { "--timeout -to", VALUE, RENAMED, .to = "--write-timeout-ms", .map = map_seconds },
    { "--sse-ping-interval", VALUE, RENAMED, .to = "--keep-alive-ms", .map = map_ping },
    { "--sleep-idle-seconds", VALUE, RENAMED, .to = "--unload-after-ms", .map = map_seconds },
    { "--verbosity -lv --log-verbosity", VALUE, RENAMED, .to = "--log-level", .map = map_verbosity },
    { "--log-jsonl", NOTHING, RENAMED, .to = "--log-format=json" },
    { "--log-disable", NOTHING, RENAMED, .to = "--log-level=error" },
    { "--no-cache-prompt", NOTHING, RENAMED, .to = "--no-cache" },
    { "--usage", NOTHING, RENAMED, .to = "--help" },
    { "--load-mode -lm", VALUE, CHOICE,
      .to = "weights are mapped or read by the system; leave it out, or give auto, mmap, none, mlock or mmap+mlock",
      .choices = load_modes },
    { "--reasoning-format", VALUE, CHOICE,
      .to = "replies have reasoning in a field of its own; leave it out: "
            "a request says \"reasoning_format\": \"none\" to have it in the text",
      .choices = reasoning_formats },
    { "--reasoning-effort", VALUE, TEMPLATE_VALUE, .to = "reasoning_effort", .map = map_effort },
    { "--reasoning-preserve", NOTHING, TEMPLATE_VALUE, .to = "preserve_reasoning", .map = map_true },
    { "--no-reasoning-preserve", NOTHING, TEMPLATE_VALUE, .to = "preserve_reasoning", .map = map_false },
    { "--fit -fit", PERHAPS, RENAMED, .to = "--fit", .map = map_presence },
    { "-fitc", VALUE, RENAMED, .to = "--fit-ctx" },

    { "--fit-target -fitt", VALUE, WITHOUT_EFFECT,
      .to = "a sixteenth of a GPU stays free, at most 1 GiB; --fit-device-memory sets a limit" },
    { "--kv-offload -kvo", NOTHING, WITHOUT_EFFECT, .to = "K and V lie on GPUs; --no-kv-offload prevents it" },
    { "--swa-full", NOTHING, WITHOUT_EFFECT, .to = "cells that a window has left are in the cache" },
    { "--prio --prio-batch --spec-draft-prio --prio-draft --spec-draft-prio-batch --prio-batch-draft", VALUE,
      WITHOUT_EFFECT, .to = "threads have the priority of the process" },
    { "--threads-http", VALUE, WITHOUT_EFFECT, .to = "connections need no threads" },
    { "--kv-unified -kvu --no-kv-unified -no-kvu", NOTHING, WITHOUT_EFFECT,
      .to = "one context is always shared by all requests" },
    { "--cont-batching -cb --no-cont-batching -nocb", NOTHING, WITHOUT_EFFECT,
      .to = "requests are always batched together" },
    { "--cache-prompt", NOTHING, WITHOUT_EFFECT, .to = "prompts are always cached; --no-cache turns it off" },
    { "--cache-reuse", VALUE, WITHOUT_EFFECT,
      .to = "equal prefixes are always reused; other reuse would not be exact" },
    { "--slot-prompt-similarity -sps", VALUE, WITHOUT_EFFECT, .to = "every slot can use every cached prefix" },
    { "--no-context-shift --no-warmup --no-ui-mcp-proxy --no-webui-mcp-proxy --no-agent -no-ag", NOTHING,
      WITHOUT_EFFECT, .to = "there is none" },
    { "--metrics", NOTHING, WITHOUT_EFFECT, .to = "they are always there; --admin gives them an address" },
    { "--slots", NOTHING, WITHOUT_EFFECT, .to = "they are always there" },
    { "--jinja --no-jinja", NOTHING, WITHOUT_EFFECT, .to = "templates are always Jinja's" },
    { "--ui --webui", NOTHING, WITHOUT_EFFECT, .to = "the page is there without --no-ui" },
    { "--embeddings --embedding", NOTHING, WITHOUT_EFFECT,
      .to = "every model that can make embeddings makes them; --no-embeddings turns it off" },
    { "--warmup", NOTHING, WITHOUT_EFFECT, .to = "a model that reports ready needs no warm-up" },
    { "--log-colors", PERHAPS, WITHOUT_EFFECT, .to = "the log has none" },
    { "--log-timestamps", NOTHING, WITHOUT_EFFECT, .to = "every line has its time" },
    { "--log-prefix", NOTHING, WITHOUT_EFFECT, .to = "every line has its level" },
    { "--cpu-mask -C --cpu-range -Cr", VALUE, WITHOUT_EFFECT,
      .to = "the system chooses the processors; taskset and groups bound them" },
    { "--cpu-mask-batch -Cb --cpu-range-batch -Crb --spec-draft-cpu-mask -Cd --cpu-mask-draft "
      "--spec-draft-cpu-range -Crd --cpu-range-draft --spec-draft-cpu-mask-batch -Cbd "
      "--cpu-mask-batch-draft",
      VALUE, WITHOUT_EFFECT, .to = "as --cpu-mask" },
    { "--cpu-strict --cpu-strict-batch --poll --poll-batch", VALUE, WITHOUT_EFFECT,
      .to = "threads wait as the engine sees fit" },
    { "--lookup-cache-static -lcs --lookup-cache-dynamic -lcd --spec-type --spec-ngram-size-n "
      "--spec-ngram-size-m --spec-ngram-min-hits",
      VALUE, WITHOUT_EFFECT, .to = "drafts come from the prompt or from --draft-model" },
    { "--kv-unified-per-slot", VALUE, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { "--keep", VALUE, WITHOUT_EFFECT, .to = "there is no context shift" },
    { "--ctx-checkpoints -ctxcp --swa-checkpoints --checkpoint-min-step -cms", VALUE, WITHOUT_EFFECT,
      .to = "rows of the cache take their place" },
    { "--cache-idle-slots --no-cache-idle-slots", NOTHING, WITHOUT_EFFECT,
      .to = "the cache keeps what requests leave" },
    { "--perf --no-perf", NOTHING, WITHOUT_EFFECT, .to = "times are always measured" },
    { "--escape -e --no-escape", NOTHING, WITHOUT_EFFECT, .to = "requests bring their prompts" },
    { "--backend-sampling -bs --spec-draft-backend-sampling --no-spec-draft-backend-sampling", NOTHING, WITHOUT_EFFECT,
      .to = "tokens are sampled on the processor" },
    { "--repack --no-repack -nr --no-host", NOTHING, WITHOUT_EFFECT,
      .to = "the engine chooses the buffers of weights" },
    { "--defrag-thold -dt", VALUE, WITHOUT_EFFECT, .to = "cells need no defragmentation" },
    { "--mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload", NOTHING, WITHOUT_EFFECT,
      .to = "pictures and sound are not read" },
    { "--mmproj-device -mmdev --video-fps --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens "
      "--video-timestamp-interval --video-ffmpeg-dir",
      VALUE, WITHOUT_EFFECT, .to = "pictures and sound are not read" },
    { "--lazy-mode -lzm", VALUE, WITHOUT_EFFECT,
      .to = "weights are mapped, and the system reads their pages when they are needed" },
    { "--op-offload --no-op-offload", NOTHING, WITHOUT_EFFECT, .to = "the engine places operations" },
    { "--reuse-port", NOTHING, WITHOUT_EFFECT, .to = "an address belongs to one server" },
    { "--cors-methods --cors-headers", VALUE, WITHOUT_EFFECT, .to = "allowed origins may use those of the API" },
    { "--no-cors-credentials", NOTHING, WITHOUT_EFFECT, .to = "credentials are never allowed" },
    { "--ui-config --webui-config --ui-config-file --webui-config-file", VALUE, WITHOUT_EFFECT,
      .to = "the page has its own settings" },
    { "--models-autoload", NOTHING, WITHOUT_EFFECT, .to = "a model loads when a request names it" },
    { "--no-skip-chat-parsing --prefill-assistant", NOTHING, WITHOUT_EFFECT, .to = "always so" },
    { "--no-log-jsonl --no-log-prefix --no-log-timestamps", NOTHING, WITHOUT_EFFECT,
      .to = "--log-format chooses the form of lines" },
    { "--spec-draft-threads -td --threads-draft --spec-draft-threads-batch -tbd --threads-batch-draft", VALUE,
      WITHOUT_EFFECT, .to = "a draft model has the threads of its model" },
    { "--spec-draft-cpu-strict --cpu-strict-draft --spec-draft-cpu-strict-batch --cpu-strict-batch-draft", VALUE,
      WITHOUT_EFFECT, .to = "as --cpu-strict" },
    { "--spec-draft-poll --poll-draft --spec-draft-poll-batch --poll-batch-draft", VALUE, WITHOUT_EFFECT,
      .to = "as --poll" },
    { "--spec-draft-type-k -ctkd --cache-type-k-draft --spec-draft-type-v -ctvd --cache-type-v-draft", VALUE,
      WITHOUT_EFFECT, .to = "the types of the model count" },
    { "--spec-draft-p-split --draft-p-split --spec-draft-p-min --draft-p-min", VALUE, WITHOUT_EFFECT,
      .to = "drafts are as long as they pay" },
    { "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match --spec-ngram-simple-size-n "
      "--spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n "
      "--spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n "
      "--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits",
      VALUE, WITHOUT_EFFECT, .to = "as --spec-type" },
    { "--spec-default", NOTHING, WITHOUT_EFFECT, .to = "as --spec-type" },

    { "--context-shift", NOTHING, REFUSED,
      .to = "a shifted context differs from the one that the model computes; leave it out: "
            "a reply ends when the context is full" },
    { "--cors-credentials", NOTHING, REFUSED,
      .to = "pages send keys, not cookies; --cors-origin lists the origins that may" },
    { "--api-prefix", VALUE, REFUSED, .to = "a proxy in front can remove a prefix" },
    { "--path", VALUE, REFUSED, .to = "no files are served; --cors-origin lists the origins of pages elsewhere" },
    { "--mmproj -mm --mmproj-url -mmu --media-path", VALUE, REFUSED,
      .to = "pictures and sound are not read; leave it out" },
    { "--version", NOTHING, REFUSED, .to = "'hearth version' prints it" },
    { "--cache-list -cl", NOTHING, REFUSED, .to = "'hearth models ls' lists them" },
    { "--completion-bash", NOTHING, REFUSED, .to = "'hearth completion bash' prints it" },
    { "--list-devices", NOTHING, REFUSED, .to = "'hearth version' lists them" },
    { "--logit-bias -l", VALUE, REFUSED, .to = "requests bring their own 'logit_bias'" },
    { "--ignore-eos", NOTHING, REFUSED, .to = "a request says \"ignore_eos\": true" },
    { "--grammar --grammar-file", VALUE, REFUSED, .to = "requests bring their own 'grammar'" },
    { "--json-schema -j --json-schema-file -jf", VALUE, REFUSED,
      .to = "requests bring their own 'json_schema' or 'response_format'" },
    { "--dry-sequence-breaker", VALUE, REFUSED, .to = "requests bring their own 'dry_sequence_breakers'" },
    { "--special -sp", NOTHING, REFUSED, .to = "replies have no control tokens; leave it out" },
    { "--spm-infill", NOTHING, REFUSED, .to = "prefix, suffix and middle come in this order; leave it out" },
    { "--n-cpu-ffn -ncffn", VALUE, REFUSED, .to = "--override-tensor places tensors by their names" },
    { "--check-tensors", NOTHING, REFUSED, .to = "weights are not searched for wrong values; leave it out" },
    { "--model-url -mu --docker-repo -dr", VALUE, REFUSED,
      .to = "-hf OWNER/REPO[:QUANT] or 'hearth pull' downloads a model" },
    { "--hf-file -hff", VALUE, REFUSED, .to = "name the quantization, -hf OWNER/REPO:QUANT" },
    { "--hf-token -hft", VALUE, REFUSED, .to = "other accounts see command lines; set HF_TOKEN in the environment" },
    { "--embd-normalize", VALUE, REFUSED, .to = "requests bring their own 'embd_normalize'" },
    { "--ui-mcp-proxy --webui-mcp-proxy --agent -ag", NOTHING, REFUSED,
      .to = "the server runs no tools and reaches no other server; clients do" },
    { "--tools --tools-runtime --mcp-servers-config --mcp-servers-json", VALUE, REFUSED,
      .to = "the server runs no tools and reaches no other server; clients do" },
    { "--models-preset", VALUE, REFUSED, .to = "the file of --config has sections of models and presets" },
    { "--skip-chat-parsing", NOTHING, REFUSED,
      .to = "a request says \"reasoning_format\": \"none\" and \"parse_tool_calls\": false" },
    { "--no-prefill-assistant", NOTHING, REFUSED,
      .to = "a request says \"add_generation_prompt\": true to have a new message" },
    { "--no-models-autoload", NOTHING, REFUSED,
      .to = "a request loads its model; with --residency external, operators alone load models" },
    { "--log-prompts-dir", VALUE, REFUSED, .to = "--log-prompts writes them into the log" },
    { "--spec-draft-hf -hfd -hfrd --hf-repo-draft", VALUE, REFUSED,
      .to = "'hearth pull' downloads a model; give its file with --draft-model" },
    { "--spec-draft-override-tensor -otd --override-tensor-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe "
      "-ncmoed --n-cpu-moe-draft",
      VALUE, REFUSED, .to = "--draft-gpu-layers places a draft model" },
    { "--spec-draft-cpu-moe -cmoed --cpu-moe-draft", NOTHING, REFUSED,
      .to = "--draft-gpu-layers places a draft model" },
    { "--spec-draft-device -devd --device-draft", VALUE, REFUSED,
      .to = "a draft model has the devices of its model; leave it out" },
    { "--spec-synth-len --spec-synth-rates", VALUE, REFUSED, .to = "the model itself accepts drafts; leave it out" },
    { "--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default "
      "--fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default "
      "--gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default",
      NOTHING, REFUSED, .to = "name the model, -hf OWNER/REPO[:QUANT]" },
};

const size_t hth_llama_n_flags = sizeof(hth_llama_flags) / sizeof(hth_llama_flags[0]);

/* ---- the environment variables ---- */

/*
 * The variables of the environment: "--ctx-size" is that of LLAMA_ARG_CTX_SIZE. Those with other names, or with a flag
 * for a false value, are written as NAME=FLAG or NAME=FLAG=FLAG_OFF.
 */
static const char variables[] =
    "--threads --ctx-size --kv-unified-per-slot LLAMA_ARG_N_PREDICT=--predict LLAMA_ARG_BATCH=--batch-size "
    "LLAMA_ARG_UBATCH=--ubatch-size --swa-full --ctx-checkpoints "
    "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT=--checkpoint-min-step --cache-ram "
    "LLAMA_ARG_KV_UNIFIED=--kv-unified=--no-kv-unified "
    "LLAMA_ARG_CACHE_IDLE_SLOTS=--cache-idle-slots=--no-cache-idle-slots "
    "LLAMA_ARG_CONTEXT_SHIFT=--context-shift=--no-context-shift --flash-attn LLAMA_ARG_PERF=--perf=--no-perf "
    "LLAMA_ARG_TEMPERATURE=--temp --top-k --top-p --min-p --repeat-penalty --presence-penalty "
    "--frequency-penalty --backend-sampling --pooling LLAMA_ARG_ROPE_SCALING_TYPE=--rope-scaling --rope-scale "
    "--rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow "
    "--yarn-beta-fast LLAMA_ARG_KV_OFFLOAD=--kv-offload=--no-kv-offload LLAMA_ARG_REPACK=--repack=--no-repack "
    "--no-host --cache-type-k --cache-type-v --defrag-thold LLAMA_ARG_N_PARALLEL=--parallel "
    "LLAMA_ARG_CONT_BATCHING=--cont-batching=--no-cont-batching --mmproj --mmproj-url "
    "LLAMA_ARG_MMPROJ_AUTO=--mmproj-auto=--no-mmproj "
    "LLAMA_ARG_MMPROJ_OFFLOAD=--mmproj-offload=--no-mmproj-offload MTMD_BACKEND_DEVICE=--mmproj-device "
    "--image-min-tokens --image-max-tokens --mtmd-batch-max-tokens --video-fps --video-timestamp-interval "
    "--video-ffmpeg-dir --rpc --load-mode --lazy-mode --numa --device --override-tensor --cpu-moe --n-cpu-moe "
    "--n-cpu-ffn LLAMA_ARG_N_GPU_LAYERS=--gpu-layers --split-mode --tensor-split --main-gpu --fit --fit-target "
    "--fit-ctx --alias --tags --model --model-url --docker-repo --hf-repo --hf-file --host --port --reuse-port "
    "LLAMA_ARG_STATIC_PATH=--path --cors-origins --cors-methods --cors-headers "
    "LLAMA_ARG_CORS_CREDENTIALS=--cors-credentials=--no-cors-credentials --api-prefix --ui-config "
    "--ui-config-file LLAMA_ARG_UI_MCP_PROXY=--ui-mcp-proxy=--no-ui-mcp-proxy --tools --tools-runtime "
    "--mcp-servers-config --mcp-servers-json LLAMA_ARG_AGENT=--agent=--no-agent LLAMA_ARG_UI=--ui=--no-ui "
    "LLAMA_ARG_EMBEDDINGS=--embedding LLAMA_ARG_RERANKING=--rerank LLAMA_API_KEY=--api-key --api-key-file "
    "--ssl-key-file --ssl-cert-file --chat-template-kwargs --timeout --sse-ping-interval --threads-http "
    "LLAMA_ARG_CACHE_PROMPT=--cache-prompt=--no-cache-prompt --cache-reuse LLAMA_ARG_ENDPOINT_METRICS=--metrics "
    "LLAMA_ARG_ENDPOINT_PROPS=--props LLAMA_ARG_ENDPOINT_SLOTS=--slots=--no-slots --models-dir --models-preset "
    "--models-max LLAMA_ARG_MODELS_AUTOLOAD=--models-autoload=--no-models-autoload "
    "LLAMA_ARG_JINJA=--jinja=--no-jinja LLAMA_ARG_THINK=--reasoning-format --reasoning --reasoning-effort "
    "LLAMA_ARG_THINK_BUDGET=--reasoning-budget LLAMA_ARG_THINK_BUDGET_MESSAGE=--reasoning-budget-message "
    "LLAMA_ARG_REASONING_PRESERVE=--reasoning-preserve=--no-reasoning-preserve --chat-template "
    "--chat-template-file LLAMA_ARG_SKIP_CHAT_PARSING=--skip-chat-parsing=--no-skip-chat-parsing "
    "LLAMA_ARG_PREFILL_ASSISTANT=--prefill-assistant=--no-prefill-assistant --log-file "
    "LLAMA_ARG_LOG_JSONL=--log-jsonl=--no-log-jsonl --log-colors --offline LLAMA_ARG_LOG_VERBOSITY=--verbosity "
    "LLAMA_ARG_LOG_PREFIX=--log-prefix=--no-log-prefix "
    "LLAMA_ARG_LOG_TIMESTAMPS=--log-timestamps=--no-log-timestamps LLAMA_ARG_SPEC_DRAFT_HF_REPO=--spec-draft-hf "
    "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K=--spec-draft-type-k LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V=--spec-draft-type-v "
    "--spec-draft-cpu-moe --spec-draft-n-cpu-moe --spec-draft-n-max --spec-draft-n-min --spec-synth-len "
    "--spec-synth-rates --spec-draft-p-split --spec-draft-p-min "
    "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING=--spec-draft-backend-sampling=--no-spec-draft-backend-sampling "
    "LLAMA_ARG_N_GPU_LAYERS_DRAFT=--spec-draft-ngl --spec-draft-model --spec-type LLAMA_ARG_DRAFT_MAX=--draft "
    "--draft-min";

static void copy_word(const char *word, size_t n, char out[HTH_LLAMA_NAME_BYTES])
{
    assert(n < HTH_LLAMA_NAME_BYTES);
    memcpy(out, word, n);
    out[n] = '\0';
}

bool hth_llama_variable_at(size_t i, hth_llama_variable *out)
{
    const char *at = variables;
    size_t n_name, n_flag;

    for (; i > 0 && at; i--) {
        at = strchr(at, ' ');
        at += at != NULL;
    }
    if (!at)
        return false;
    *out = (hth_llama_variable){ .name = "" };
    n_name = *at == '-' ? 0 : strcspn(at, "=");
    copy_word(at, n_name, out->name);
    at += n_name + (n_name > 0);
    n_flag = strcspn(at, "= ");
    copy_word(at, n_flag, out->flag);
    if (at[n_flag] == '=')
        copy_word(at + n_flag + 1, strcspn(at + n_flag + 1, " "), out->flag_off);
    if (n_name > 0)
        return true;
    (void)snprintf(out->name, sizeof(out->name), HTH_LLAMA_VARIABLE_PREFIX "%.40s", out->flag + 2); /* sized for it */
    for (char *c = out->name; *c; c++)
        *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    return true;
}
