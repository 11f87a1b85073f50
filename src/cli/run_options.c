/*
 * run_options.c - reading and checking of the options of `hearth run`
 */
#include "cli/run_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/commands.h"
#include "cli/values.h"

static const char help[] =
    "usage: hearth run MODEL [-p TEXT | -f FILE] [OPTIONS]\n"
    "\n"
    "Generates text from a prompt and streams it to standard output. What the model works out while it reads the\n"
    "prompt is kept on disk, so that the same prompt, or one that begins like it, starts to answer at once.\n"
    "Without -p and -f the prompt is read from standard input, unless that is a terminal. From 32 tokens on, the same\n"
    "prompt again needs no evaluation before its first token; a shorter one needs one.\n"
    "\n"
    "Prompt\n"
    "  -p, --prompt TEXT         the prompt\n"
    "  -f, --file FILE           read the prompt from a file, without its last line end; '-' is standard input\n"
    "      --chat                the prompt is a user's message; use the model's chat template\n"
    "      --system TEXT         with --chat: a system message before it\n"
    "      --chat-template FILE  with --chat: a Jinja template instead of the model's\n"
    "Reply\n"
    "  -n, --predict N           at most N tokens (default: until the model ends or the context is full)\n"
    "      --temp T              temperature; 0 takes the likeliest token, always (default 0.8)\n"
    "      --top-k K             keep the K likeliest tokens; 0 keeps all (default 40)\n"
    "      --top-p P             keep the likeliest tokens that sum to P (default 0.95)\n"
    "      --min-p P             keep tokens at least P times as likely as the likeliest (default 0.05)\n"
    "      --repeat-penalty X    divide the logits of the last 64 tokens by X (default 1: off)\n"
    "      --seed S              draws depend on S and the position only (default: a new one each run)\n"
    "      --stop TEXT           end before TEXT; may be given 16 times\n"
    "      --ignore-eos          go on after the model ended its reply\n"
    "      --json                print one JSON object at the end instead of streaming text\n"
    "Cache\n"
    "      --cache DIR           cache directory (default: $HEARTH_CACHE or ~/.cache/hearth/kv)\n"
    "      --no-cache            neither read nor keep anything\n"
    "      --no-cache-read       compute everything anew, but keep it\n"
    "      --cache-salt TEXT     share rows only with runs of the same salt\n"
    "      --parent-key HEX      finish key of an earlier run; the prompt holds that whole conversation and more\n"
    "      --ram SIZE            memory for rows (default: an eighth of the machine's, at most 4G)\n"
    "      --ram-files DIR       a folder on tmpfs, such as /dev/shm/hearth, for rows that outlive this process\n"
    "      --ram-files-size SIZE space for rows there (default: half of what is free)\n"
    "      --disk SIZE           disk space for rows, of all processes on this directory (default 32G)\n"
    "      --disk-free SIZE      leave so much of the device free (default 1G)\n"
    "      --more-cache DIR      one more directory for rows, on another device; may be given 15 times\n"
    "      --index DIR           where the index is; for a --cache on NFS, a local directory\n"
    "      --writers N           threads that write rows to files (default 2)\n"
    "      --write-speed SIZE    write at most so many bytes a second, to spare a device (default: no limit)\n"
    "      --second-use          write a row to disk when it is used for the first time, not when it is made\n"
    "      --resume-wait MS      wait for a --parent-key that another process is writing (default 500)\n"
    "      --signing-key FILE    sign rows with this key (32 bytes or more), and use no others\n"
    "      --keep-prompt-text    write the text of a row's tokens into it (default: prompts are private)\n"
    "      --policy KEY=N        what is saved; KEY is min_tokens, cold_min_tokens, cold_max_tokens,\n"
    "                            continued_interval, boundary_trim_tokens, boundary_align_tokens or\n"
    "                            snapshot_interval; may be repeated\n"
    "      --fingerprint MODE    how the model file is identified: safe, gguf_chunked, fast_unsafe (default safe)\n"
    "Engine\n"
    "  -c, --ctx N               context in tokens, rounded up to 256 (default: the model's own, at most 8192)\n"
    "  -b, --batch N             most tokens of one evaluation (default 512)\n"
    "  -t, --threads N           threads (default: the machine's CPUs)\n"
    "      --gpu-layers N        layers on the GPU; -1: all that fit (default)\n"
    "      --type-k T, --type-v T   types of K and V in the cache: f16 (default), bf16, f32, q8_0, ...\n"
    "      --no-mmap             read the weights into memory instead of mapping the file\n"
    "Output\n"
    "  -q, --quiet               no progress, no statistics, no warnings\n"
    "  -v, --verbose             show the log, the engine's too\n"
    "  -h, --help\n"
    "\n"
    "SIZE is a number of bytes with an optional K, M, G or T. Exit codes: 0 done, 1 failed, 2 wrong usage,\n"
    "130 interrupted (once: what was computed is kept; twice: at once).\n";

enum {
    OPTION_CHAT = 256,
    OPTION_SYSTEM,
    OPTION_CHAT_TEMPLATE,
    OPTION_TEMP,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_REPEAT_PENALTY,
    OPTION_SEED,
    OPTION_STOP,
    OPTION_IGNORE_EOS,
    OPTION_JSON,
    OPTION_CACHE,
    OPTION_NO_CACHE,
    OPTION_NO_CACHE_READ,
    OPTION_CACHE_SALT,
    OPTION_PARENT_KEY,
    OPTION_RAM,
    OPTION_DISK,
    OPTION_DISK_FREE,
    OPTION_RAM_FILES,
    OPTION_RAM_FILES_SIZE,
    OPTION_MORE_CACHE,
    OPTION_INDEX,
    OPTION_WRITERS,
    OPTION_WRITE_SPEED,
    OPTION_SECOND_USE,
    OPTION_RESUME_WAIT,
    OPTION_SIGNING_KEY,
    OPTION_KEEP_PROMPT_TEXT,
    OPTION_POLICY,
    OPTION_FINGERPRINT,
    OPTION_GPU_LAYERS,
    OPTION_TYPE_K,
    OPTION_TYPE_V,
    OPTION_NO_MMAP,
};

static const struct option long_options[] = {
    { "prompt", required_argument, NULL, 'p' },
    { "file", required_argument, NULL, 'f' },
    { "chat", no_argument, NULL, OPTION_CHAT },
    { "system", required_argument, NULL, OPTION_SYSTEM },
    { "chat-template", required_argument, NULL, OPTION_CHAT_TEMPLATE },
    { "predict", required_argument, NULL, 'n' },
    { "temp", required_argument, NULL, OPTION_TEMP },
    { "top-k", required_argument, NULL, OPTION_TOP_K },
    { "top-p", required_argument, NULL, OPTION_TOP_P },
    { "min-p", required_argument, NULL, OPTION_MIN_P },
    { "repeat-penalty", required_argument, NULL, OPTION_REPEAT_PENALTY },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "stop", required_argument, NULL, OPTION_STOP },
    { "ignore-eos", no_argument, NULL, OPTION_IGNORE_EOS },
    { "json", no_argument, NULL, OPTION_JSON },
    { "cache", required_argument, NULL, OPTION_CACHE },
    { "no-cache", no_argument, NULL, OPTION_NO_CACHE },
    { "no-cache-read", no_argument, NULL, OPTION_NO_CACHE_READ },
    { "cache-salt", required_argument, NULL, OPTION_CACHE_SALT },
    { "parent-key", required_argument, NULL, OPTION_PARENT_KEY },
    { "ram", required_argument, NULL, OPTION_RAM },
    { "disk", required_argument, NULL, OPTION_DISK },
    { "disk-free", required_argument, NULL, OPTION_DISK_FREE },
    { "ram-files", required_argument, NULL, OPTION_RAM_FILES },
    { "ram-files-size", required_argument, NULL, OPTION_RAM_FILES_SIZE },
    { "more-cache", required_argument, NULL, OPTION_MORE_CACHE },
    { "index", required_argument, NULL, OPTION_INDEX },
    { "writers", required_argument, NULL, OPTION_WRITERS },
    { "write-speed", required_argument, NULL, OPTION_WRITE_SPEED },
    { "second-use", no_argument, NULL, OPTION_SECOND_USE },
    { "resume-wait", required_argument, NULL, OPTION_RESUME_WAIT },
    { "signing-key", required_argument, NULL, OPTION_SIGNING_KEY },
    { "keep-prompt-text", no_argument, NULL, OPTION_KEEP_PROMPT_TEXT },
    { "policy", required_argument, NULL, OPTION_POLICY },
    { "fingerprint", required_argument, NULL, OPTION_FINGERPRINT },
    { "ctx", required_argument, NULL, 'c' },
    { "batch", required_argument, NULL, 'b' },
    { "threads", required_argument, NULL, 't' },
    { "gpu-layers", required_argument, NULL, OPTION_GPU_LAYERS },
    { "type-k", required_argument, NULL, OPTION_TYPE_K },
    { "type-v", required_argument, NULL, OPTION_TYPE_V },
    { "no-mmap", no_argument, NULL, OPTION_NO_MMAP },
    { "quiet", no_argument, NULL, 'q' },
    { "verbose", no_argument, NULL, 'v' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static bool read_seed(const char *value, uint64_t *out)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(value, &end, 10);
    if (end == value || *end || errno || value[0] == '-' || number > HTH_RUN_SEED_MAX)
        return hth_value_wrong("seed", value, "a whole number from 0 to 9007199254740991");
    *out = number;
    return true;
}

static bool read_fingerprint_mode(const char *value, hearth_fingerprint_mode *out)
{
    if (strcmp(value, "safe") == 0)
        *out = HEARTH_FINGERPRINT_SAFE;
    else if (strcmp(value, "gguf_chunked") == 0)
        *out = HEARTH_FINGERPRINT_GGUF_CHUNKED;
    else if (strcmp(value, "fast_unsafe") == 0)
        *out = HEARTH_FINGERPRINT_FAST_UNSAFE;
    else
        return hth_value_wrong("fingerprint", value, "safe, gguf_chunked or fast_unsafe");
    return true;
}

static bool add_stop(hth_run_options *out, const char *value)
{
    if (!*value)
        return hth_value_wrong("stop", value, "a text of at least one character");
    if (out->request.n_stop == HTH_RUN_STOPS_MAX) {
        (void)fprintf(stderr, "hearth: --stop '%s' is one too many; at most %d are allowed\n", value,
                      HTH_RUN_STOPS_MAX);
        return false;
    }
    out->stop[out->request.n_stop++] = value;
    return true;
}

static bool add_directory(hth_run_options *out, const char *value)
{
    if (out->runtime.n_more_directories == HTH_RUN_DIRECTORIES_MAX) {
        (void)fprintf(stderr, "hearth: --more-cache '%s' is one too many; at most %d are allowed\n", value,
                      HTH_RUN_DIRECTORIES_MAX);
        return false;
    }
    out->more_directories[out->runtime.n_more_directories++] = value;
    out->runtime.more_directories = out->more_directories;
    return true;
}

/* "min_tokens=64" */
static bool set_policy(hth_run_options *out, const char *value)
{
    const struct {
        const char *key;
        int64_t *into;
    } keys[] = {
        { "min_tokens", &out->policy.min_tokens },
        { "cold_min_tokens", &out->policy.cold_min_tokens },
        { "cold_max_tokens", &out->policy.cold_max_tokens },
        { "continued_interval", &out->policy.continued_interval },
        { "boundary_trim_tokens", &out->policy.boundary_trim_tokens },
        { "boundary_align_tokens", &out->policy.boundary_align_tokens },
        { "snapshot_interval", &out->policy.snapshot_interval },
    };
    const char *equals = strchr(value, '=');

    for (size_t i = 0; equals && i < sizeof(keys) / sizeof(keys[0]); i++) {
        long long number;

        if (strlen(keys[i].key) != (size_t)(equals - value) || strncmp(value, keys[i].key, strlen(keys[i].key)) != 0)
            continue;
        if (!hth_value_integer("policy", equals + 1, 0, INT32_MAX, &number))
            return false;
        *keys[i].into = number;
        out->model_options.cache_policy = &out->policy;
        return true;
    }
    return hth_value_wrong("policy", value, "KEY=N with a key that --help lists, such as min_tokens=64");
}

/* One option; false when it is wrong and was reported. */
static bool read_option(int option, const char *value, hth_run_options *out)
{
    hearth_sampling *sampling = &out->request.sampling;
    hearth_model_options *model = &out->model_options;

    switch (option) {
    case 'p': out->prompt = value; return true;
    case 'f': out->prompt_file = value; return true;
    case OPTION_CHAT: out->chat = true; return true;
    case OPTION_SYSTEM: out->system = value; return true;
    case OPTION_CHAT_TEMPLATE: model->chat_template = value; return true; /* a path still; run reads the file */
    case 'n': return hth_value_i32("predict", value, -1, INT32_MAX, &out->request.n_predict);
    case OPTION_TEMP: return hth_value_float("temp", value, 0, 100, &sampling->temperature);
    case OPTION_TOP_K: return hth_value_i32("top-k", value, 0, INT32_MAX, &sampling->top_k);
    case OPTION_TOP_P: return hth_value_float("top-p", value, 0, 1, &sampling->top_p);
    case OPTION_MIN_P: return hth_value_float("min-p", value, 0, 1, &sampling->min_p);
    case OPTION_REPEAT_PENALTY: return hth_value_float("repeat-penalty", value, 0.01, 100, &sampling->repeat_penalty);
    case OPTION_SEED: out->has_seed = true; return read_seed(value, &sampling->seed);
    case OPTION_STOP: return add_stop(out, value);
    case OPTION_IGNORE_EOS: out->request.ignore_eos = true; return true;
    case OPTION_JSON: out->json = true; return true;
    case OPTION_CACHE: out->runtime.cache_directory = value; return true;
    case OPTION_NO_CACHE: out->runtime.cache_disabled = true; return true;
    case OPTION_NO_CACHE_READ: out->request.no_cache_read = true; return true;
    case OPTION_CACHE_SALT: model->cache_salt = value; return true;
    case OPTION_PARENT_KEY:
        out->has_parent_key = true;
        return hth_hex_decode(value, out->parent_key, sizeof(out->parent_key)) ||
               hth_value_wrong("parent-key", value,
                               "64 hex digits, as 'finish key' in the statistics of an earlier run");
    case OPTION_RAM: return hth_value_size("ram", value, 1 << 20, &out->runtime.ram_bytes_max);
    case OPTION_DISK: return hth_value_size("disk", value, 1 << 20, &out->runtime.disk_bytes_max);
    case OPTION_DISK_FREE: return hth_value_size("disk-free", value, 1 << 20, &out->runtime.disk_free_min);
    case OPTION_RAM_FILES: out->runtime.ram_file_directory = value; return true;
    case OPTION_RAM_FILES_SIZE:
        return hth_value_size("ram-files-size", value, 1 << 20, &out->runtime.ram_file_bytes_max);
    case OPTION_MORE_CACHE: return add_directory(out, value);
    case OPTION_INDEX: out->runtime.index_directory = value; return true;
    case OPTION_WRITERS: return hth_value_u32("writers", value, 1, 16, &out->runtime.n_writer_threads);
    case OPTION_WRITE_SPEED: return hth_value_size("write-speed", value, 1 << 10, &out->runtime.disk_write_bytes_per_s);
    case OPTION_SECOND_USE: out->runtime.save_on_second_use = true; return true;
    case OPTION_RESUME_WAIT:
        return hth_value_u32("resume-wait", value, 0, 600000, &out->runtime.session_resume_wait_ms);
    case OPTION_SIGNING_KEY: out->runtime.signing_key_file = value; return true;
    case OPTION_KEEP_PROMPT_TEXT: out->runtime.keep_prompt_text = true; return true;
    case OPTION_POLICY: return set_policy(out, value);
    case OPTION_FINGERPRINT: return read_fingerprint_mode(value, &model->fingerprint_mode);
    case 'c': return hth_value_u32("ctx", value, 1, 1 << 24, &model->n_ctx);
    case 'b': return hth_value_u32("batch", value, 1, 65536, &model->n_batch);
    case 't': return hth_value_u32("threads", value, 1, 1024, &model->n_threads);
    case OPTION_GPU_LAYERS: return hth_value_i32("gpu-layers", value, -1, 10000, &model->n_gpu_layers);
    case OPTION_TYPE_K: model->type_k = value; return true;
    case OPTION_TYPE_V: model->type_v = value; return true;
    case OPTION_NO_MMAP: model->no_mmap = true; return true;
    case 'q': out->quiet = true; return true;
    case 'v': out->verbose = true; return true;
    default: return false; /* getopt has said what is wrong */
    }
}

/* What fits together and what is missing. */
static bool check(int argc, char **argv, hth_run_options *out)
{
    if (optind >= argc) {
        (void)fputs("hearth: run needs a MODEL, the path of a GGUF file; 'hearth run --help' shows an example\n",
                    stderr);
        return false;
    }
    out->model = argv[optind++];
    if (optind < argc) {
        (void)fprintf(stderr, "hearth: unexpected argument '%s'; a prompt is given with -p\n", argv[optind]);
        return false;
    }
    if (out->prompt && out->prompt_file) {
        (void)fputs("hearth: -p and -f exclude each other; give the prompt once\n", stderr);
        return false;
    }
    if ((out->system || out->model_options.chat_template) && !out->chat) {
        (void)fputs("hearth: --system and --chat-template need --chat\n", stderr);
        return false;
    }
    if (!out->prompt && !out->prompt_file) {
        if (isatty(STDIN_FILENO)) {
            (void)fputs("hearth: no prompt; give it with -p TEXT, -f FILE, or on standard input\n", stderr);
            return false;
        }
        out->prompt_file = "-";
    }
    return true;
}

bool hth_run_options_parse(int argc, char **argv, hth_run_options *out, int *exit_out)
{
    int option;

    memset(out, 0, sizeof(*out));
    out->runtime = hearth_runtime_options_default();
    out->model_options = hearth_model_options_default();
    out->request = hearth_request_default();
    out->policy = hearth_cache_policy_default();
    *exit_out = HTH_EXIT_USAGE;
    argv[0] = "hearth run"; /* getopt begins its messages with it */
    while ((option = getopt_long(argc, argv, "p:f:n:c:b:t:qvh", long_options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(help, stdout);
            *exit_out = HTH_EXIT_OK;
            return false;
        }
        if (!read_option(option, optarg, out))
            return false;
    }
    return check(argc, argv, out);
}
