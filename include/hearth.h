/*
 * hearth.h - the public interface of libhearth
 *
 * Hearth runs large language models and never computes the same prompt twice. What a model works out while it reads a
 * prompt (its KV cells) is kept under the exact tokens that produced it, in memory and on disk, so that a prompt seen
 * before starts to answer in milliseconds, also after a restart.
 *
 *     hearth_runtime_options options = hearth_runtime_options_default();
 *     hearth_runtime *runtime;
 *     hearth_model *model;
 *     const hearth_result *result;
 *     hearth_error err;
 *
 *     hearth_runtime_open(&options, &runtime, &err);
 *     hearth_model_load(runtime, "model.gguf", NULL, &model, &err);
 *     hearth_request request = hearth_request_default();
 *     request.prompt = "Once upon a time there was a fox who lived near a river.";
 *     hearth_complete(model, &request, &result, &err);
 *     puts(result->text);
 *     hearth_result_unref(result);
 *     hearth_model_unref(model);
 *     hearth_runtime_close(runtime);
 *
 * Conventions, which hold unless a declaration says otherwise:
 *
 *   Structs    grow at their end only, and begin with struct_size, the size that their maker knows. So a program and a
 *              library of different versions of this header work together. Exceptions are marked "frozen".
 *              The caller makes options, requests and conversations, with the struct's _init function (or _default, its
 *              inline form in C). The library reads no further than struct_size; fields behind it have their defaults.
 *              The caller sets struct_size and zeros the rest of a turn, call, tool or trigger, and of a struct that a
 *              function fills. In an array, the first element's struct_size is the distance from each element to the
 *              next. If struct_size is larger than this library's struct, the bytes that the library does not know must
 *              be zero, else the call fails with HEARTH_UNSUPPORTED.
 *              The library makes results, statistics, rows, rendered conversations, events and deltas, and hands out
 *              pointers to constants. Read a field only if it lies within struct_size: an older library lacks it.
 *   Errors     Functions return a hearth_status. Those that take a hearth_error write one sentence for a human into it
 *              on failure: the thing, the cause and the remedy. err may be NULL. Outputs are written on success only.
 *   Ownership  _open/_close and _load/_unref make and release. Pointers handed to a function or a callback are borrowed
 *              for that call. Strings inside results belong to the result.
 *   Threads    Every function may be called from any thread at any time; objects are locked inside. A handle must not
 *              be released while another thread is inside a call on that same handle.
 *   Callbacks  run on the thread named at their type and must not block for long. They may call hearth_cancel,
 *              hearth_linger, hearth_pause, hearth_rows_came, hearth_model_ref, _unref and _unload, hearth_events_close
 *              and _wake, and nothing else of this library.
 *   Text       is UTF-8. Text given in is checked; text given out consists of whole characters.
 */
#ifndef HEARTH_H
#define HEARTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEARTH_API __attribute__((visibility("default")))
#else
#define HEARTH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HEARTH_VERSION_MAJOR 0
#define HEARTH_VERSION_MINOR 1
#define HEARTH_VERSION_PATCH 0
#define HEARTH_VERSION "0.1.0"
/* Version numbers can be compared: 0x000100 is 0.1.0. */
#define HEARTH_VERSION_NUMBER ((HEARTH_VERSION_MAJOR << 16) | (HEARTH_VERSION_MINOR << 8) | HEARTH_VERSION_PATCH)

/* The version of the library that is linked, "0.1.0". A static string. */
HEARTH_API const char *hearth_version(void);
/* The same as a number: HEARTH_VERSION_NUMBER of the header that the library was built with. */
HEARTH_API uint32_t hearth_version_number(void);

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

typedef enum hearth_status {
    HEARTH_OK = 0,
    HEARTH_FAILED = 1,        /* something failed that no other status names; the message says what */
    HEARTH_MISUSE = 2,        /* an argument breaks the function's contract; nothing was done */
    HEARTH_NO_MEMORY = 3,     /* not enough memory; nothing was done */
    HEARTH_NOT_FOUND = 4,     /* the file, model, key or request does not exist */
    HEARTH_PERMISSION = 5,    /* the system forbids it */
    HEARTH_IO = 6,            /* reading or writing failed */
    HEARTH_FULL = 7,          /* no space on the device or in a quota */
    HEARTH_CORRUPT = 8,       /* bytes are not what they should be */
    HEARTH_UNSUPPORTED = 9,   /* well-formed, but this build or model cannot do it */
    HEARTH_TOO_LONG = 10,     /* the prompt does not fit the context */
    HEARTH_CANCELLED = 11,    /* ended by hearth_cancel, by its own callback or by unloading */
    HEARTH_BUSY = 12,         /* in use, or a queue is full; try again later */
    HEARTH_TIMED_OUT = 13,    /* a time limit passed; what was asked for may still happen */
    HEARTH_ENGINE = 14,       /* the inference engine refused or failed */
    HEARTH_INVALID_TEXT = 15, /* text is not valid UTF-8 */
} hearth_status;

/* A short stable name, "not_found". A static string; "unknown" for other values. */
HEARTH_API const char *hearth_status_name(hearth_status status);

/* Why a call failed. Frozen: callers need not initialise it, so it carries no size. It has room for later fields. */
typedef struct hearth_error {
    hearth_status status;
    int system_errno;       /* errno of the failed system call, 0 where there was none */
    char message[512];      /* one line, no newline, always terminated */
    uint32_t retry_after_s; /* with HEARTH_BUSY: when it is worth trying again; 0 otherwise */
    uint32_t n_tokens;      /* with HEARTH_TOO_LONG: what the prompt has (at least, if message says so); 0: unknown */
    uint32_t n_tokens_max;  /* and what there is room for; 0 where n_tokens is 0 */
    uint32_t reserved[5];   /* zeros */
} hearth_error;

/* For bindings that declare no struct: sizeof(hearth_error), its status, and its message. err is not NULL. */
HEARTH_API size_t hearth_error_size(void);
HEARTH_API hearth_status hearth_error_status(const hearth_error *err);
HEARTH_API const char *hearth_error_message(const hearth_error *err);

/* ---- runtime: cache, counters, log ------------------------------------------------------------------------------- */

typedef struct hearth_runtime hearth_runtime;

typedef enum hearth_log_level {
    HEARTH_LOG_ERROR = 0,
    HEARTH_LOG_WARNING = 1,
    HEARTH_LOG_INFO = 2,
    HEARTH_LOG_DEBUG = 3,
} hearth_log_level;

/*
 * Receives one line of log, without a newline. Runs on whichever thread has something to say, several at once possible,
 * and perhaps with its locks held, so it calls nothing of this library. source is "hearth" or the engine's name; both
 * strings are valid during the call.
 */
typedef void (*hearth_log_fn)(hearth_log_level level, const char *source, const char *message, void *user_data);

typedef struct hearth_runtime_options {
    size_t struct_size;
    bool cache_disabled;            /* neither read nor keep any row */
    uint64_t ram_bytes_max;         /* RAM tier; 0: an eighth of the machine's memory, at most 4 GiB */
    int ram_memory_fd;              /* keep the RAM tier in this memfd and adopt what is in it; -1 (default): private */
    const char *ram_file_directory; /* memory-file tier, a folder on tmpfs; NULL: no such tier */
    uint64_t ram_file_bytes_max;    /* 0: half of what is free there */
    uint64_t ram_file_free_min;     /* leave at least this much of it free, rows go for it; default 16 MiB */
    const char *cache_directory;    /* disk tier; NULL: $HEARTH_CACHE, else hearth/kv in the user's cache folder */
    const char *const *more_directories; /* further roots of the disk tier, on other devices; [n_more_directories] */
    size_t n_more_directories;           /* at most 15 */
    const char *index_directory;     /* where the disk tier's index is; NULL: beside the rows. For NFS: a local one */
    uint64_t disk_bytes_max;         /* disk tier, an equal part for each root; 0: 32 GiB */
    uint64_t disk_free_min;          /* leave so much of each device free, rows go for it; default 1 GiB */
    uint32_t n_writer_threads;       /* that bring rows to files; 1 .. 16, default 2 */
    uint32_t write_queue_rows_max;   /* rows waiting to be written; beyond it saves are dropped; default 65536 */
    uint64_t write_queue_bytes_max;  /* likewise, in bytes; default 1 GiB */
    uint64_t disk_write_bytes_per_s; /* write no faster, to spare a device; 0 (default): no limit */
    bool save_on_second_use;         /* write a row when it is used for the first time, not when it is made */
    uint32_t session_resume_wait_ms; /* wait for a parent_key that another process writes; default 500; a
                                        tenth of it without any write ends the wait */
    const char *signing_key_file;    /* sign rows with this key, refuse those without; NULL: no signatures */
    bool keep_prompt_text;           /* write the text of a row's tokens into it; default false: prompts are private */
    const char *engine_directory;    /* of the engine module; NULL: $HEARTH_ENGINE_DIRECTORY, else beside the library */
    hearth_log_level log_level;      /* more detailed messages are not delivered; default HEARTH_LOG_WARNING */
    hearth_log_fn log;               /* NULL: no log */
    void *log_user_data;
    /*
     * Memory for the history of each model: the tokens that earlier conversations were made of. A text prompt that
     * begins with such a conversation gets its tokens, and only the rest is tokenized. With a disk tier the history is
     * also kept in files there, without texts; those of all models take about four times as much. Default 0: none.
     * Without a cache there is none. All requests of one salt share a history; replies with a logit_bias, grammar or
     * json_schema of the request are not remembered.
     */
    uint64_t history_bytes_max;
} hearth_runtime_options;

HEARTH_API void hearth_runtime_options_init(hearth_runtime_options *options, size_t struct_size);
static inline hearth_runtime_options hearth_runtime_options_default(void)
{
    hearth_runtime_options options;

    hearth_runtime_options_init(&options, sizeof(options));
    return options;
}

/*
 * Open a runtime: the cache and everything that models share. The engine is not touched until a model is loaded.
 *
 * options  NULL means the defaults. Strings are copied.
 * out      receives the runtime; release it with hearth_runtime_close.
 *
 * A cache directory that cannot be used is not an error: one warning is logged and the runtime works without that tier.
 * Returns HEARTH_OK; HEARTH_MISUSE for a bad option; HEARTH_NO_MEMORY; for signing_key_file HEARTH_NOT_FOUND,
 * HEARTH_PERMISSION, HEARTH_CORRUPT or HEARTH_IO, too.
 */
HEARTH_API hearth_status hearth_runtime_open(const hearth_runtime_options *options, hearth_runtime **out,
                                             hearth_error *err);

/*
 * Release a runtime: cancel what runs, save what the contexts hold, write the rows that wait (for at most 10 s, and
 * 10 s more for writes that have begun) and free everything. The log gets no line after the return. Models that the
 * caller still holds stay valid handles, but every request on them is HEARTH_CANCELLED. Accepts NULL. Blocks.
 */
HEARTH_API void hearth_runtime_close(hearth_runtime *runtime);

/* Block until every row saved so far is durable, or timeout_ms passed (HEARTH_TIMED_OUT; writing goes on). */
HEARTH_API hearth_status hearth_runtime_flush(hearth_runtime *runtime, uint32_t timeout_ms, hearth_error *err);

typedef struct hearth_counters {
    size_t struct_size;
    uint64_t requests;  /* finished, in any way */
    uint64_t hits_live; /* requests by kind of hit */
    uint64_t hits_exact;
    uint64_t hits_resume;
    uint64_t hits_prefix;
    uint64_t misses;
    uint64_t tokens_prompt; /* prompt tokens of all requests */
    uint64_t tokens_cached; /* those of them that needed no prefill */
    uint64_t tokens_generated;
    uint64_t rows_restored;
    uint64_t bytes_restored;
    uint64_t rows_saved; /* packed into the RAM tier */
    uint64_t bytes_saved;
    uint64_t rows_written; /* published in the disk tier */
    uint64_t bytes_written;
    uint64_t saves_dropped; /* not kept: write queue or RAM tier full */
    uint64_t writes_failed; /* not written: no space, no permission, read or write error */
    uint64_t rows_evicted;
    uint64_t rows_quarantined; /* failed their checks and were set aside */
    uint64_t ram_rows;         /* now, and so are those below */
    uint64_t ram_bytes;
    uint64_t ram_file_rows;
    uint64_t ram_file_bytes;
    uint64_t disk_rows;
    uint64_t disk_bytes;
    uint64_t write_queue_rows; /* waiting or being written */
    uint64_t write_queue_bytes;
    uint64_t hits_by_tier[6];    /* requests with a hit, by the slowest tier that served a row (hearth_tier) */
    uint64_t saves_by_reason[6]; /* rows packed, by hearth_save_reason */
    uint64_t rows_removed;       /* superseded by longer ones */
} hearth_counters;

/* Fill counters (struct_size set by the caller) with the values since the runtime was opened or last reset. */
HEARTH_API hearth_status hearth_runtime_counters(hearth_runtime *runtime, hearth_counters *out, hearth_error *err);
/* Begin to count at zero again. What is counted meanwhile by other threads is lost in neither count. */
HEARTH_API hearth_status hearth_runtime_counters_reset(hearth_runtime *runtime, hearth_error *err);

/* What the cache spends its time on. */
typedef enum hearth_path {
    HEARTH_PATH_LOOKUP = 0, /* hashing a prompt and finding its rows */
    HEARTH_PATH_READ = 1,   /* bringing a row from a file into memory, checked */
    HEARTH_PATH_UNPACK = 2, /* putting a row into the context */
    HEARTH_PATH_PACK = 3,   /* cutting a row out of the context */
    HEARTH_PATH_WRITE = 4,  /* publishing a row as a file */
} hearth_path;
enum { HEARTH_PATHS = 5 };

/* "lookup", "read". A static string. */
HEARTH_API const char *hearth_path_name(hearth_path path);

/* Times on one path, in nanoseconds. Percentiles are those of a histogram: at most a quarter too high. */
typedef struct hearth_times {
    size_t struct_size;
    uint64_t count;
    uint64_t total_ns;
    uint64_t max_ns;
    uint64_t p50_ns;
    uint64_t p90_ns;
    uint64_t p99_ns;
} hearth_times;

/* Fill times (struct_size set by the caller) with those of one path since opening or the last reset. */
HEARTH_API hearth_status hearth_runtime_times(hearth_runtime *runtime, hearth_path path, hearth_times *out,
                                              hearth_error *err);

/* A row as hearth_runtime_rows shows it. */
typedef struct hearth_row {
    size_t struct_size;
    uint8_t key[32];  /* of the prefix that the row ends */
    const char *kind; /* "block", "tail", "snapshot", "state", "logits" */
    uint32_t first_position;
    uint32_t n_tokens;
    uint64_t bytes;
    uint32_t hit_count;
    uint32_t n_pins;      /* who reads or writes it now; RAM tier only */
    int tier;             /* a hearth_tier */
    uint64_t last_used_s; /* Unix time; 0 in the RAM tier, whose order is the list's */
} hearth_row;

/* row is borrowed for the call. Return false to end the list. Runs on the calling thread. */
typedef bool (*hearth_row_fn)(const hearth_row *row, void *user_data);

/* List every row of every tier, as it was at some moment of the call: RAM first, least recently used first. Blocks. */
HEARTH_API hearth_status hearth_runtime_rows(hearth_runtime *runtime, hearth_row_fn on_row, void *user_data,
                                             hearth_error *err);

/* Tiers, as a set. */
enum { HEARTH_EVICT_RAM = 1, HEARTH_EVICT_RAM_FILE = 2, HEARTH_EVICT_DISK = 4 };

/*
 * Evict least recently used rows that are not held until n_bytes were freed in each of the tiers (a set of
 * HEARTH_EVICT_...); UINT64_MAX: all. *bytes_out (may be NULL) how many were. Blocks while files are removed.
 */
HEARTH_API hearth_status hearth_runtime_evict(hearth_runtime *runtime, uint64_t n_bytes, unsigned tiers,
                                              uint64_t *bytes_out, hearth_error *err);

/*
 * Collect garbage in the file tiers: remove what processes that died left behind, and evict down to the quotas, should
 * another process have gone beyond them. *rows_out (may be NULL) how many rows were evicted. Blocks while files are
 * removed. HEARTH_IO when a tier's index cannot be used; the others are done.
 */
HEARTH_API hearth_status hearth_runtime_gc(hearth_runtime *runtime, uint64_t *rows_out, hearth_error *err);

/*
 * Set aside every row of that key in every tier, whatever its checks say: out of memory, its files into quarantine. For
 * rows that a process may have died of (hearth_work). That there is none is HEARTH_OK. What reads such a row already
 * keeps it. Blocks while files are moved. HEARTH_IO when a file stays where it was.
 */
HEARTH_API hearth_status hearth_runtime_quarantine(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err);

/* Change the writers' bounds from now on; 0 leaves a bound as it is, UINT64_MAX bytes_per_s takes that limit away. */
HEARTH_API hearth_status hearth_runtime_write_limits(hearth_runtime *runtime, uint32_t queue_rows_max,
                                                     uint64_t queue_bytes_max, uint64_t bytes_per_s, hearth_error *err);

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct hearth_model hearth_model;

/*
 * What distinguishes a model file from every other: made while it is loaded, and kept in a memo by (device, inode,
 * size, times), so each is paid once. All parts of a split model are read.
 */
typedef enum hearth_fingerprint_mode {
    HEARTH_FINGERPRINT_SAFE = 0,         /* SHA-256 of every byte */
    HEARTH_FINGERPRINT_GGUF_CHUNKED = 1, /* of size, GGUF header and 64 KiB samples across the tensors */
    HEARTH_FINGERPRINT_FAST_UNSAFE = 2,  /* of path, size and mtime: for models that never change in place */
} hearth_fingerprint_mode;

/*
 * Loading progress, 0..1: of what the engine has loaded and of what is hashed of the file, the smaller part. Return
 * false to stop loading (HEARTH_CANCELLED). Runs on the loading thread.
 */
typedef bool (*hearth_load_progress_fn)(float fraction, void *user_data);

/*
 * Which prefixes of a model are saved, in tokens. The defaults keep nearly everything: a row costs only its own tokens.
 */
typedef struct hearth_cache_policy {
    size_t struct_size;
    int64_t min_tokens;            /* a shorter prefix is not saved at all; default 8 */
    int64_t cold_min_tokens;       /* nor a shorter prompt; at least min_tokens; 0 (default): min_tokens */
    int64_t cold_max_tokens;       /* nor a longer one; 0 (default): the context */
    int64_t continued_interval;    /* save a growing reply every so many tokens, and each full block; default 256 */
    int64_t boundary_trim_tokens;  /* leave out that many at the end of a prompt; default 0 */
    int64_t boundary_align_tokens; /* and cut the rest to a multiple of this; default 256 */
    int64_t snapshot_interval;     /* state rows of recurrent models, a multiple of 256; default 1024 */
} hearth_cache_policy;

HEARTH_API void hearth_cache_policy_init(hearth_cache_policy *policy, size_t struct_size);
static inline hearth_cache_policy hearth_cache_policy_default(void)
{
    hearth_cache_policy policy;

    hearth_cache_policy_init(&policy, sizeof(policy));
    return policy;
}

/* How the vectors of an input's tokens become its embedding. */
typedef enum hearth_pooling {
    HEARTH_POOLING_MODEL = 0, /* in a request: that of the model's options; there: that of the model's file. If the
                                 file names none: LAST for a model that generates, MEAN for an encoder */
    HEARTH_POOLING_NONE = 1,  /* one vector for each token */
    HEARTH_POOLING_MEAN = 2,  /* the mean of all */
    HEARTH_POOLING_CLS = 3,   /* the first token's */
    HEARTH_POOLING_LAST = 4,  /* the last token's */
    HEARTH_POOLING_RANK = 5,  /* the scores of the model's classifier, one for each of its labels */
} hearth_pooling;

/* "mean"; HEARTH_POOLING_MODEL is "model". A static string. */
HEARTH_API const char *hearth_pooling_name(hearth_pooling pooling);

/* What a model's scheduler thread is doing. */
typedef enum hearth_work_kind {
    HEARTH_WORK_BEGINS = 0,     /* something that has to end: a round of its work, or a save */
    HEARTH_WORK_ENDS = 1,       /* it has ended; what follows may be a wait for requests */
    HEARTH_WORK_DELIVERED = 2,  /* in between: callbacks know all drawn tokens, and longer work follows */
    HEARTH_WORK_ROWS_BEGIN = 3, /* in between: the rows of keys are being copied into the context */
    HEARTH_WORK_ROWS_END = 4,   /* they are in the context, or were given up */
} hearth_work_kind;

typedef struct hearth_work {
    size_t struct_size;
    hearth_work_kind kind;
    const uint8_t (*keys)
        [32]; /* [n_keys], of HEARTH_WORK_ROWS_BEGIN: names of prefixes, as hearth_runtime_quarantine takes them */
    size_t n_keys;
} hearth_work;

/*
 * For a supervisor of a model. Work that begins and does not end means that the model hangs. Rows that were coming in
 * when the process died are not to be trusted. At TOLD, callbacks of a round have run, so a program can pass on what
 * they have queued. work is borrowed. The function must be quick, and calls nothing of this library. It runs on the
 * scheduler thread. While a model is loaded it runs on the loading threads: each piece of the file that is read for the
 * fingerprint is work of its own.
 */
typedef void (*hearth_work_fn)(const hearth_work *work, void *user_data);

/* Longest draft: more rows of a sequence in one evaluation would be computed with other bits. */
enum { HEARTH_DRAFT_MAX = 14 };

enum { HEARTH_CONTROL_VECTORS_MAX = 16 };

/* ---- options of the engine --------------------------------------------------------------------------------------- */

/* "AUTO" takes it where the model and the device have it. */
typedef enum hearth_flash_attention {
    HEARTH_FLASH_ATTENTION_AUTO = 0,
    HEARTH_FLASH_ATTENTION_ON = 1,
    HEARTH_FLASH_ATTENTION_OFF = 2,
} hearth_flash_attention;

/* The parts of a model that GPUs take. */
typedef enum hearth_split_mode {
    HEARTH_SPLIT_MODE_LAYER = 0, /* each takes layers */
    HEARTH_SPLIT_MODE_NONE = 1,  /* one takes all */
    HEARTH_SPLIT_MODE_ROW = 2,   /* each takes rows of the matrices where all can, not with CUDA, Vulkan, Metal and RPC;
                                    otherwise layers, with a warning */
} hearth_split_mode;

typedef enum hearth_numa {
    HEARTH_NUMA_OFF = 0,
    HEARTH_NUMA_DISTRIBUTE = 1, /* threads on all nodes */
    HEARTH_NUMA_ISOLATE = 2,    /* threads on the node that the process started on */
    HEARTH_NUMA_NUMACTL = 3,    /* threads on the CPUs that numactl gave the process */
} hearth_numa;

/* The stretching of positions for contexts that are longer than those of the training. */
typedef enum hearth_rope_scaling {
    HEARTH_ROPE_SCALING_MODEL = 0, /* as the model's file says */
    HEARTH_ROPE_SCALING_NONE = 1,
    HEARTH_ROPE_SCALING_LINEAR = 2,
    HEARTH_ROPE_SCALING_YARN = 3,
} hearth_rope_scaling;

enum { HEARTH_TENSOR_OVERRIDES_MAX = 64, HEARTH_METADATA_OVERRIDES_MAX = 64 };

/*
 * Options that llama.cpp's own programs have under the same names. Rows are shared only between models whose positions
 * (rope and yarn) and metadata are given alike. On GPUs this holds for the placement of the weights and the cells, too,
 * because other devices round differently. An engine other than llama.cpp may ignore all of them.
 */
typedef struct hearth_engine_options {
    size_t struct_size;
    uint32_t n_ubatch; /* most tokens that the engine computes at once, at least one for each sequence; 0 (default):
                          n_batch, at most 512. 512 is the most unless all layers and cells are on GPUs */
    uint32_t n_threads_batch;               /* threads of evaluations of several tokens; 0 (default): n_threads */
    hearth_flash_attention flash_attention; /* ON: HEARTH_UNSUPPORTED for architectures without it, HEARTH_ENGINE when
                                               the engine refuses it */
    hearth_numa numa;    /* of the whole process: the first model that asks decides, and the log tells the others */
    const char *devices; /* names of GPUs, "CUDA0,CUDA1", or "none", besides the devices of rpc_servers; NULL (default):
                            all. HEARTH_MISUSE lists them */
    hearth_split_mode split_mode;
    uint32_t main_gpu;        /* the GPU of HEARTH_SPLIT_MODE_NONE, without effect otherwise; counts from 0 */
    const char *tensor_split; /* shares of the GPUs, "3,1", not more than there are; NULL (default): by free memory */
    /* [n_tensor_overrides], each "PATTERN=BUFFER": tensors whose name has a match of the pattern, a regular expression
     * of C++, lie in this buffer, the CPU's or that of a device of the model: "CPU", "CUDA0". The first match counts.
     * Several may stand in one text, with commas */
    const char *const *tensor_overrides;
    size_t n_tensor_overrides;
    uint32_t n_cpu_moe; /* the experts of so many first layers stay on the CPU; default 0 */
    hearth_rope_scaling rope_scaling;
    uint32_t yarn_orig_ctx; /* tokens of the training; 0 (default): as the model says */
    double rope_freq_base;  /* NAN (default), here and below: as the model says */
    double rope_freq_scale; /* 0.5: twice the context */
    double yarn_ext_factor;
    double yarn_attn_factor;
    double yarn_beta_slow;
    double yarn_beta_fast;
    /* [n_metadata_overrides], each "KEY=TYPE:VALUE" with a type int, float, bool or str, in place of the value in the
     * file. Several may stand in one text, with commas. A value that does not fit the model can make it useless. */
    const char *const *metadata_overrides;
    size_t n_metadata_overrides;
    bool cpu_moe;       /* the experts of all layers stay on the CPU */
    bool no_kv_offload; /* the cells stay in host memory */
    bool mlock;         /* keep the weights in memory, as far as the process may lock memory */
} hearth_engine_options;

HEARTH_API void hearth_engine_options_init(hearth_engine_options *options, size_t struct_size);
static inline hearth_engine_options hearth_engine_options_default(void)
{
    hearth_engine_options options;

    hearth_engine_options_init(&options, sizeof(options));
    return options;
}

enum {
    HEARTH_GPU_LAYERS_ALL = -1,
    /*
     * As many as fit into the GPUs' memory (fit_device_bytes) with n_ctx as it is; n_ctx and the memory of the host are
     * as they are. Chosen as with fit; the same holds for time, engines and other models.
     */
    HEARTH_GPU_LAYERS_AUTO = -2,
};

typedef struct hearth_model_options {
    size_t struct_size;
    const char *name; /* shown in lists; NULL: the file's name without .gguf */
    uint32_t n_ctx;   /* context in tokens; 0: what the model was trained with, as far as its cells take no more than a
                             quarter of the memory that is free, or half of the GPUs' */
    uint32_t n_batch; /* most tokens of one evaluation; default 512 */
    uint32_t n_threads;   /* 0: the machine's CPUs */
    int32_t n_gpu_layers; /* layers on GPUs and RPC servers; HEARTH_GPU_LAYERS_ALL (default), HEARTH_GPU_LAYERS_AUTO;
                             0: none. Without such a device they are the CPU's, and the log warns of a number that was
                             asked for */
    const char *type_k;   /* type of K and V in the cache: "f16" (default), "bf16", "f32", "q8_0", "q4_0", ... */
    const char *type_v;
    bool no_mmap;                             /* read the weights into memory instead of mapping the file */
    hearth_fingerprint_mode fingerprint_mode; /* default HEARTH_FINGERPRINT_SAFE */
    const char *cache_salt; /* rows are shared only between models loaded with the same salt; NULL: none */
    const hearth_cache_policy *cache_policy; /* NULL: the defaults. HEARTH_MISUSE names what is out of range */
    /*
     * What to use instead of the model's own: Jinja source, or the name of a template of ours: alpaca, chatml, gemma,
     * llama2, llama3, mistral, phi3, vicuna or zephyr. NULL: the model's; for one that has none chatml, with a warning.
     */
    const char *chat_template;
    hearth_load_progress_fn progress;
    void *progress_user_data;
    uint32_t n_parallel; /* requests that run at once, in one context; 1 .. 128, default 8 */
    /*
     * Requests that may wait for their turn, 1 .. 65536, default 1024. More are HEARTH_BUSY, but for replies that were
     * broken off elsewhere (replayed).
     */
    uint32_t queue_max;
    const char *strategy; /* what goes into a batch: "decode_maximal" (NULL), "prefill_priority", "balanced", or one of
                             hearth_runtime_add_strategy */
    uint32_t prefill_chunk;   /* prompt tokens that a request evaluates at once: 64, 128 or 256 (default) */
    uint32_t max_tick_ms;     /* how long an evaluation may take while a reply is being generated; chunks of prompts are
                               made shorter for it, down to 64 tokens; 1 .. 60000, default 250 */
    uint32_t session_idle_ms; /* a session that was not used for so long gives its cells up; default 300000 */
    uint32_t stalled_ms;      /* a reply whose text is not taken is cancelled after this time; default 30000 */
    uint32_t aging_ms;        /* a waiting request rises by one priority each so often; default 10000 */
    hearth_work_fn on_work;   /* NULL: not called */
    void *work_user_data;
    /*
     * "host:port,host:port": llama.cpp's RPC servers (ggml-rpc-server of the same version), whose devices take layers,
     * before this machine's GPUs; NULL (default): none. Neither encrypted nor authenticated: whoever can reach such a
     * server, or stands in between, can read and change all that the model computes. A server serves one process at a
     * time, and one that goes away ends this process (with SIGPIPE, where that is not ignored).
     */
    const char *rpc_servers;
    hearth_pooling pooling; /* of embeddings whose request names none; default HEARTH_POOLING_MODEL */
    uint32_t draft_max;     /* longest draft of a reply's next tokens, for requests that say nothing of it: 0 (default:
                           none) .. HEARTH_DRAFT_MAX; see hearth_request */
    uint32_t draft_min;     /* a shorter draft is left out; 0 (default) .. HEARTH_DRAFT_MAX; at most draft_max counts */
    /*
     * A smaller model of the same vocabulary that guesses the next tokens of replies; a path as hearth_model_load takes
     * it, NULL (default): none. With it, a draft_max of 0 counts as HEARTH_DRAFT_MAX. HEARTH_UNSUPPORTED, with the
     * first token that differs, for another vocabulary, and for models with a window or with recurrent state.
     */
    const char *draft_model;
    uint32_t draft_n_ctx; /* its context in tokens; 0 (default): as the model's. Longer requests get no drafts of it */
    int32_t draft_n_gpu_layers; /* its layers on GPUs; -1: all (default), 0: none */
    /*
     * A reply depends on model, prompt, options of the request and seed alone, bit for bit: not on the cache, other
     * requests, n_parallel, n_ctx, n_threads, preemption or a restart. HEARTH_UNSUPPORTED names the reason when the
     * engine cannot promise it; it can for models with plain attention on a CPU. Such a model has no history, and a
     * request runs with one adapter at most. Its rows are shared with deterministic models only.
     */
    bool deterministic;
    bool no_embeddings; /* refuse requests for embeddings */
    bool no_reranking;  /* refuse requests for scores */
    /*
     * Control vectors, [n_control_vectors], at most HEARTH_CONTROL_VECTORS_MAX: each "FILE" or "FILE:SCALE", a GGUF
     * file and a finite number (1 without one). A layer adds the sum of its directions, times their scales, to its
     * output. Rows are shared only with models of the same sum. A draft model gets none. Loading fails with
     * HEARTH_MISUSE when a file does not fit the model, and with HEARTH_UNSUPPORTED for architectures that the engine
     * applies no control vectors to.
     */
    const char *const *control_vectors;
    size_t n_control_vectors;
    /*
     * The first and the last layer that they change. Layers count from 0, which is never changed; at most the number of
     * layers. 0 (default): layer 1, and the last one.
     */
    uint32_t control_layer_first;
    uint32_t control_layer_last;
    /*
     * A folder for weights that the engine repacks for the CPU: the first process writes them into a file, others map
     * it, and load several times as fast. The folder should be in memory (below /dev/shm); it is made if it is missing,
     * with mode 0700. NULL (default): each process repacks, into memory of its own. So it does, with a warning, when
     * the folder is full or unusable, or when everybody may write to it. The last process removes the file.
     */
    const char *host_weights;
    bool keep_host_weights; /* the file stays when the last process ends; false (default) */
    /*
     * With HEARTH_FINGERPRINT_SAFE, the SHA-256 that came with a file is believed, and the file is not hashed: that in
     * "FILE.sha256" beside it, or the name of the file in the cache of a hub, if path is a link to it. Two files
     * with the same wrong digest would share rows. A digest that others may write, in its folder or itself, or that is
     * not younger than the file, does not count.
     */
    bool trust_digests;
    /*
     * Choose context and layers on GPUs so that the model fits into memory: first the most layers with which a context
     * of fit_n_ctx tokens fits, then the largest context. n_ctx (0: that of its training) and n_gpu_layers are the most
     * then. The log tells the choice. HEARTH_NO_MEMORY with the sizes if nothing fits. Loading takes up to a few
     * seconds longer, and loads of other models may wait meanwhile. No effect, with a warning, for engines that do not
     * tell their needs, with rpc_servers, and while the process has or loads other models.
     */
    bool fit;
    uint32_t fit_n_ctx;        /* the least context; 0 (default): 4096, or n_ctx if that is less */
    uint64_t fit_bytes;        /* memory of the host that this process may take; 0 (default): what is free */
    uint64_t fit_device_bytes; /* memory of each GPU for the model; 0 (default): what is free, without a margin */
    /*
     * NULL (default): those of hearth_engine_options_default. HEARTH_MISUSE names the option that is wrong. A draft
     * model has the same, without rope, yarn, experts and overrides.
     */
    const hearth_engine_options *engine;
    /*
     * The name of a control token in a conversation's texts is that token, so a message can end its turn and begin
     * others. false (default): it is text.
     */
    bool special_in_messages;
    /*
     * Rows are shared with models of other builds of the engine and on other CPUs, which round differently: a reply may
     * then differ from one without the cache. HEARTH_MISUSE with deterministic. false (default): only with the same
     * build on CPUs with the same features. Rows of one kind are not shared with the other.
     */
    bool portable;
} hearth_model_options;

HEARTH_API void hearth_model_options_init(hearth_model_options *options, size_t struct_size);
static inline hearth_model_options hearth_model_options_default(void)
{
    hearth_model_options options;

    hearth_model_options_init(&options, sizeof(options));
    return options;
}

/* ---- batch strategies -------------------------------------------------------------------------------------------- */

/* What a strategy sees of one running request. In arrays: see hearth_plan_item_at. */
typedef struct hearth_plan_item {
    size_t struct_size;
    bool is_decode;    /* its next token is to be evaluated for its reply; otherwise it reads what it begins with */
    uint32_t n_ready;  /* tokens that could be evaluated: 1, or what is left of the prompt, or of a replayed reply */
    uint32_t position; /* of the first of them */
} hearth_plan_item;

/* Item i of an array that this library made. It may be of a newer version, whose items are longer. */
static inline const hearth_plan_item *hearth_plan_item_at(const hearth_plan_item *items, size_t i)
{
    return (const hearth_plan_item *)(const void *)((const char *)items + i * items->struct_size);
}

/*
 * Fill a batch: how many tokens of each item are evaluated now, n_tokens_out[n], zeros to begin with. A pure function:
 * the same arguments give the same plan, whenever it is called. items are ordered by who waits longest; n_batch is how
 * many tokens there is room for; chunk how many of one prompt may go at once. What goes beyond n_ready, n_batch or the
 * chunk is cut; prompts are cut at multiples of chunk, where the cache cuts its rows. A plan of zeros is made up for
 * with the first item, so that no strategy can stop the model.
 */
typedef void (*hearth_strategy_fn)(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk,
                                   uint32_t *n_tokens_out, void *user_data);

/*
 * Give a strategy of your own a name, for models loaded from now on. plan runs on the scheduler threads of those
 * models, perhaps several at once. HEARTH_MISUSE for a name that is empty, longer than 63 bytes, or taken; HEARTH_FULL
 * beyond 16.
 */
HEARTH_API hearth_status hearth_runtime_add_strategy(hearth_runtime *runtime, const char *name, hearth_strategy_fn plan,
                                                     void *user_data, hearth_error *err);

/*
 * Load a model and start its scheduler thread.
 *
 * path     a GGUF file; or "NAME:arguments" for another engine than llama.cpp, whose module hearth-NAME.so somebody put
 *          into the engine directory (NAME: up to 16 of a-z).
 * options  NULL means the defaults. Strings are copied.
 * out      receives a reference; release it with hearth_model_unref.
 *
 * Returns HEARTH_OK; HEARTH_NOT_FOUND, HEARTH_PERMISSION or HEARTH_IO for a file that cannot be read; HEARTH_CORRUPT
 * for one that is no whole GGUF; HEARTH_NO_MEMORY when it cannot fit; HEARTH_UNSUPPORTED; HEARTH_CANCELLED by the
 * progress callback; HEARTH_ENGINE otherwise. Blocks while loading. The runtime must stay open, and the file as it is:
 * HEARTH_IO when it changes meanwhile.
 */
HEARTH_API hearth_status hearth_model_load(hearth_runtime *runtime, const char *path,
                                           const hearth_model_options *options, hearth_model **out, hearth_error *err);

/* Take another reference, for another owner. Returns model. */
HEARTH_API hearth_model *hearth_model_ref(hearth_model *model);

/*
 * Give a reference back. The last one cancels what runs. Saving what the context holds and freeing follow on a thread
 * of the library, which hearth_runtime_close waits for; until then on_work is called, and hearth_runtime_models with
 * capacity 0 counts the model. Does not block; legal in a callback, also for the reference that a request uses. Accepts
 * NULL.
 */
HEARTH_API void hearth_model_unref(hearth_model *model);

/*
 * Unload: no new request is accepted (HEARTH_CANCELLED); those running go on, and the memory is given back when the
 * last of them has ended. The caller's reference must still be given back. Does not block; legal in a callback.
 */
HEARTH_API void hearth_model_unload(hearth_model *model);

typedef enum hearth_activity {
    HEARTH_IDLE = 0,
    HEARTH_PREFILLING = 1,
    HEARTH_GENERATING = 2,
    HEARTH_UNLOADED = 3,
} hearth_activity;

/* How a model cuts text into tokens. The names are those of llama.cpp. */
typedef enum hearth_vocabulary_type {
    HEARTH_VOCABULARY_NONE = 0, /* there is none: the model takes and gives token ids only */
    HEARTH_VOCABULARY_SPM = 1,  /* SentencePiece, byte-level BPE with byte fallback */
    HEARTH_VOCABULARY_BPE = 2,  /* byte-level BPE */
    HEARTH_VOCABULARY_WPM = 3,  /* WordPiece */
    HEARTH_VOCABULARY_UGM = 4,  /* SentencePiece, Unigram */
    HEARTH_VOCABULARY_RWKV = 5, /* greedy */
    HEARTH_VOCABULARY_OTHER = 6,
} hearth_vocabulary_type;

typedef struct hearth_model_info {
    size_t struct_size;
    char name[128];
    char architecture[64];
    char description[128];
    char chat_template_kind[32]; /* "model", "given", or "fallback": the model has none, and gets chatml */
    uint64_t file_bytes;
    uint64_t n_params;
    uint32_t n_ctx; /* of the context that was made */
    uint32_t n_ctx_train;
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t block_tokens;
    bool rows_are_blocks;    /* prefixes are cached block by block; otherwise as whole states, or not at all */
    uint8_t fingerprint[32]; /* effective: with the salt */
    uint8_t ctx_params_hash[32];
    char quant_type[16];      /* "q4_k_m", "unknown" */
    hearth_activity activity; /* of the request that has run longest */
    uint64_t request_id;      /* its id, 0 where none runs */
    uint32_t n_done;          /* tokens it has prefilled or generated so far in this activity */
    uint32_t n_total;         /* of so many */
    uint32_t n_waiting;       /* requests in the queue */
    uint32_t n_running;
    uint32_t n_parallel;       /* requests that can run at once */
    uint32_t n_idle_sequences; /* finished ones whose cells are still in the context */
    uint32_t n_cells_used;     /* of n_ctx; one that sequences share counts once */
    uint64_t n_ticks;          /* evaluations since loading */
    uint64_t n_preempted;      /* requests that made room for others, since loading */
    char strategy[64];
    bool generates;            /* false: the model is an encoder; it makes embeddings only */
    bool embeds;               /* hearth_embed makes embeddings */
    bool ranks;                /* it makes scores: HEARTH_POOLING_RANK works */
    hearth_pooling pooling;    /* of embeddings whose request names none; not HEARTH_POOLING_MODEL */
    uint32_t n_embedding;      /* values of an embedding */
    uint32_t embed_tokens_max; /* of one input */
    uint32_t n_embed_waiting;  /* requests of hearth_embed that have not ended */
    uint64_t n_embed_inputs;   /* embedded since loading */
    uint64_t n_embed_ticks;    /* evaluations for them */
    bool deterministic;        /* as in the options */
    hearth_vocabulary_type vocabulary_type;
    uint64_t n_prompt_left;   /* tokens of the prompts of running requests that are not computed yet */
    uint64_t prompt_token_ns; /* recent time for a token of a prompt; 0: not measured yet */
    uint64_t reply_token_ns;  /* recent time from a token of a reply to its next one; 0: not measured yet */
    /*
     * A digest of everything that the keys of rows depend on besides tokens, salts and the adapters of a request.
     * Models with the same salt share rows if and only if it is equal. Zeros until the fingerprint is known.
     */
    uint8_t keyspace[32];
} hearth_model_info;

/* Fill info (struct_size set by the caller). Never blocks behind a running request. */
HEARTH_API hearth_status hearth_model_info_get(hearth_model *model, hearth_model_info *info, hearth_error *err);

/*
 * List the loaded models: one new reference each into models[0 .. capacity), *n_out how many there are in all. With
 * capacity 0, models may be NULL. The caller gives each reference back.
 */
HEARTH_API hearth_status hearth_runtime_models(hearth_runtime *runtime, hearth_model **models, size_t capacity,
                                               size_t *n_out, hearth_error *err);

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

/*
 * LoRA adapters change a loaded model. Each request runs with a set of them, each with a scale: those that it names
 * (hearth_request.adapters), or else all that are loaded, with their own scales. A request keeps the set that it was
 * submitted with, whatever is loaded, scaled or unloaded meanwhile. Requests with different sets run beside each other,
 * taking turns, and share neither rows nor cells: the fingerprint in their keys has the SHA-256 and the scale of each
 * adapter.
 */
typedef struct hearth_adapter_options {
    size_t struct_size;
    const char *name; /* at most 127 bytes, unlike those of the model's others; NULL: the file's name without .gguf */
    float scale;      /* of requests that name no adapters; default 1; 0: it changes only requests that name it */
} hearth_adapter_options;

HEARTH_API void hearth_adapter_options_init(hearth_adapter_options *options, size_t struct_size);
static inline hearth_adapter_options hearth_adapter_options_default(void)
{
    hearth_adapter_options options;

    hearth_adapter_options_init(&options, sizeof(options));
    return options;
}

typedef struct hearth_adapter {
    size_t struct_size;
    uint32_t id; /* counted from 0 in the order of loading; no id is given twice while the model is loaded */
    float scale;
    char name[128];
    char path[1024]; /* cut when it is longer */
    uint8_t sha256[32];
} hearth_adapter;

/* Frozen: it never grows, so that arrays of it can be indexed. */
typedef struct hearth_adapter_scale {
    uint32_t id;
    float scale; /* finite, below 2^31 in magnitude; 0: not applied */
} hearth_adapter_scale;

/*
 * Load an adapter (GGUF) for the model, at most 64. Blocks while the file is read, and requests wait for a part of that
 * time. id_out may be NULL. options NULL: the defaults. HEARTH_MISUSE names the way in which the file is no adapter of
 * this model (architecture, tensor, shape), or the option; HEARTH_UNSUPPORTED the kind of adapter that cannot be used,
 * or a second one whose scale is not 0 in a deterministic model; HEARTH_BUSY when too many are loaded.
 */
HEARTH_API hearth_status hearth_adapter_load(hearth_model *model, const char *path,
                                             const hearth_adapter_options *options, uint32_t *id_out,
                                             hearth_error *err);
/* Unload an adapter. Its memory is returned when no request runs with it any more. HEARTH_NOT_FOUND. */
HEARTH_API hearth_status hearth_adapter_unload(hearth_model *model, uint32_t id, hearth_error *err);
/*
 * Set the scales of requests that name no adapters, [n]; adapters that are not among them get 0. All or nothing:
 * HEARTH_NOT_FOUND for an id that is not loaded, HEARTH_MISUSE for a scale that is no number and for an id that comes
 * twice, HEARTH_UNSUPPORTED for two that are not 0 in a deterministic model.
 */
HEARTH_API hearth_status hearth_adapters_scale(hearth_model *model, const hearth_adapter_scale *scales, size_t n,
                                               hearth_error *err);
/*
 * List the adapters by id: adapters[0 .. capacity), whose first element's struct_size is set, and *n_out how many there
 * are in all. With capacity 0, adapters may be NULL.
 */
HEARTH_API hearth_status hearth_adapters_list(hearth_model *model, hearth_adapter *adapters, size_t capacity,
                                              size_t *n_out, hearth_error *err);

/* ---- text and tokens --------------------------------------------------------------------------------------------- */

/* An id of the vocabulary, from 0. Frozen: its width never changes. */
typedef int32_t hearth_token;

typedef enum hearth_tokenize_flags {
    HEARTH_TOKENIZE_BOS = 1,     /* add the tokens that the model wants at the beginning of a text */
    HEARTH_TOKENIZE_SPECIAL = 2, /* read the names of control tokens in the text as those tokens */
} hearth_tokenize_flags;

/*
 * Text to tokens.
 *
 * text    n_bytes bytes of UTF-8.
 * tokens  receives up to capacity ids. With a capacity of 0, tokens may be NULL, and the call counts the tokens.
 * n_out   receives the number of tokens of the whole text, also when it exceeds a capacity above 0: then the status is
 *         HEARTH_TOO_LONG and nothing is written to tokens.
 */
HEARTH_API hearth_status hearth_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                         hearth_token *tokens, size_t capacity, size_t *n_out, hearth_error *err);

/*
 * Tokens to text. A new string, terminated and n_out bytes long, released with hearth_free. Bytes of incomplete
 * characters become U+FFFD. special: write control tokens by name instead of leaving them out.
 */
HEARTH_API hearth_status hearth_detokenize(hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                                           bool special, char **text_out, size_t *n_out, hearth_error *err);

/*
 * Tokens to text, a few at a time, as a model draws them: characters that are spread over several tokens come out
 * whole. One thread at a time. It holds a reference of its model.
 */
typedef struct hearth_detokenizer hearth_detokenizer;

/* special: write control tokens by name instead of leaving them out. Release it with hearth_detokenizer_free. */
HEARTH_API hearth_status hearth_detokenizer_new(hearth_model *model, bool special, hearth_detokenizer **out,
                                                hearth_error *err);
/*
 * Feed tokens, [n_tokens], and receive the text that they complete: whole characters, terminated, *n_out bytes,
 * borrowed until the next call; "" if there is none. Up to three bytes of an incomplete character are held back. Bytes
 * that cannot become a character are replaced by U+FFFD.
 *
 * HEARTH_MISUSE if a token is not in the vocabulary, HEARTH_UNSUPPORTED if the model has none, HEARTH_CANCELLED after
 * unloading, HEARTH_NO_MEMORY: none of the tokens was read, and the call can be repeated.
 */
HEARTH_API hearth_status hearth_detokenizer_feed(hearth_detokenizer *detokenizer, const hearth_token *tokens,
                                                 size_t n_tokens, const char **text_out, size_t *n_out,
                                                 hearth_error *err);
/*
 * The text ends here: receive U+FFFD for an incomplete character that was held back, else "". Borrowed as above. The
 * next token begins a new text. Works after unloading, too.
 */
HEARTH_API hearth_status hearth_detokenizer_finish(hearth_detokenizer *detokenizer, const char **text_out,
                                                   size_t *n_out, hearth_error *err);
/* Accepts NULL. Gives the model's reference back. */
HEARTH_API void hearth_detokenizer_free(hearth_detokenizer *detokenizer);

/* ---- the vocabulary ---------------------------------------------------------------------------------------------- */

/* "bpe". A static string. */
HEARTH_API const char *hearth_vocabulary_type_name(hearth_vocabulary_type type);

typedef struct hearth_vocabulary {
    size_t struct_size;
    hearth_vocabulary_type type;
    uint32_t n_tokens; /* ids are 0 .. n_tokens - 1 */
    bool adds_bos;     /* HEARTH_TOKENIZE_BOS puts HEARTH_SPECIAL_BOS before a text */
    bool adds_eos;     /* and HEARTH_SPECIAL_EOS after it */
} hearth_vocabulary;

/* Fill vocabulary (struct_size set by the caller). Works after unloading, too. */
HEARTH_API hearth_status hearth_model_vocabulary(hearth_model *model, hearth_vocabulary *out, hearth_error *err);

/* More bytes than any token has. */
#define HEARTH_TOKEN_BYTES_MAX 4096

/*
 * The bytes that a token stands for; control tokens give their name. They need not be whole characters.
 *
 * bytes  receives *n_out bytes, which are not terminated. NULL with capacity 0: only *n_out is written.
 *
 * HEARTH_TOO_LONG if they exceed capacity (HEARTH_TOKEN_BYTES_MAX is enough); HEARTH_MISUSE if the token is not in the
 * vocabulary; HEARTH_UNSUPPORTED if the model has no vocabulary; HEARTH_CANCELLED after unloading.
 */
HEARTH_API hearth_status hearth_token_bytes(hearth_model *model, hearth_token token, char *bytes, size_t capacity,
                                            size_t *n_out, hearth_error *err);

/* Properties of a token, as a set. */
enum {
    HEARTH_TOKEN_NORMAL = 1,
    HEARTH_TOKEN_CONTROL = 2,      /* structure, not text: hearth_detokenize leaves it out */
    HEARTH_TOKEN_USER_DEFINED = 4, /* added to the vocabulary as one piece of text */
    HEARTH_TOKEN_UNKNOWN = 8,      /* stands for text that the vocabulary has no tokens for */
    HEARTH_TOKEN_UNUSED = 16,      /* a place that was kept free */
    HEARTH_TOKEN_BYTE = 32,        /* stands for one byte, perhaps a part of a character */
    HEARTH_TOKEN_END = 64,         /* a model that draws it ends its reply */
};

/* Write a token's HEARTH_TOKEN_... to *flags_out; 0: its file says nothing of it. Statuses as hearth_token_bytes. */
HEARTH_API hearth_status hearth_token_flags(hearth_model *model, hearth_token token, unsigned *flags_out,
                                            hearth_error *err);

/* Tokens that have a role of their own. */
typedef enum hearth_special {
    HEARTH_SPECIAL_BOS = 0,        /* beginning of a text */
    HEARTH_SPECIAL_EOS = 1,        /* end of a text */
    HEARTH_SPECIAL_EOT = 2,        /* end of a turn */
    HEARTH_SPECIAL_SEP = 3,        /* between two texts */
    HEARTH_SPECIAL_NEWLINE = 4,    /* a line's end */
    HEARTH_SPECIAL_PAD = 5,        /* nothing */
    HEARTH_SPECIAL_MASK = 6,       /* a token to be guessed */
    HEARTH_SPECIAL_FIM_PREFIX = 7, /* fill in the middle: the text before the gap follows */
    HEARTH_SPECIAL_FIM_SUFFIX = 8, /* the text after the gap follows */
    HEARTH_SPECIAL_FIM_MIDDLE = 9, /* the text in the gap follows */
    HEARTH_SPECIAL_FIM_PAD = 10,
    HEARTH_SPECIAL_FIM_REPOSITORY = 11, /* a repository's name follows */
    HEARTH_SPECIAL_FIM_FILE = 12,       /* a file's name follows */
} hearth_special;
enum { HEARTH_SPECIALS = 13 };

/* "bos", "fim_prefix". A static string. */
HEARTH_API const char *hearth_special_name(hearth_special role);

/*
 * Write the token of that role to *out; -1: the model has none. Several roles may have the same token. HEARTH_MISUSE
 * for a value that is no role. Works after unloading, too.
 */
HEARTH_API hearth_status hearth_special_token(hearth_model *model, hearth_special role, hearth_token *out,
                                              hearth_error *err);

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

/*
 * What a model's file says of itself: GGUF's key-value pairs with their values as text ("llama", "4096", "true"), but
 * for those whose values are arrays. Bytes that are not UTF-8 are replaced by U+FFFD. HEARTH_CANCELLED after unloading.
 */

/* How many pairs there are. */
HEARTH_API hearth_status hearth_model_metadata_count(hearth_model *model, size_t *n_out, hearth_error *err);
/*
 * The value of a key such as "general.architecture": a new string, terminated and *n_out bytes long (n_out may be
 * NULL), released with hearth_free. HEARTH_NOT_FOUND if there is none.
 */
HEARTH_API hearth_status hearth_model_metadata(hearth_model *model, const char *key, char **value_out, size_t *n_out,
                                               hearth_error *err);
/*
 * The key of pair number index: a new string, released with hearth_free. The order is the same as long as the model is
 * loaded. HEARTH_NOT_FOUND if index is not below hearth_model_metadata_count.
 */
HEARTH_API hearth_status hearth_model_metadata_key(hearth_model *model, size_t index, char **key_out,
                                                   hearth_error *err);

/* Release memory that a function of this header gave. Accepts NULL. */
HEARTH_API void hearth_free(void *memory);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef enum hearth_hit {
    HEARTH_HIT_NONE = 0,
    HEARTH_HIT_LIVE = 1,   /* cells still in the context */
    HEARTH_HIT_EXACT = 2,  /* the whole prompt, with its logits */
    HEARTH_HIT_RESUME = 3, /* the given parent key */
    HEARTH_HIT_PREFIX = 4, /* the longest prefix found */
} hearth_hit;

typedef enum hearth_tier {
    HEARTH_TIER_NONE = 0,
    HEARTH_TIER_LIVE = 1,
    HEARTH_TIER_RAM = 2,
    HEARTH_TIER_RAM_FILE = 3,
    HEARTH_TIER_DISK = 4,
    HEARTH_TIER_REMOTE = 5,
} hearth_tier;

typedef enum hearth_finish_reason {
    HEARTH_FINISH_NONE = 0,      /* it did not finish: see status */
    HEARTH_FINISH_STOP = 1,      /* the model ended its reply */
    HEARTH_FINISH_LENGTH = 2,    /* n_predict tokens, or the context is full */
    HEARTH_FINISH_CANCELLED = 3, /* hearth_cancel; what was computed is kept */
    HEARTH_FINISH_TIMED_OUT = 4, /* a time limit of the request passed; likewise */
} hearth_finish_reason;

/* Why a part of a prompt had to be computed. */
typedef enum hearth_miss {
    HEARTH_MISS_NONE = 0,             /* nothing had to be, or but for the last token */
    HEARTH_MISS_NEVER_SEEN = 1,       /* as far as is remembered */
    HEARTH_MISS_EVICTED = 2,          /* it was known and made room for others */
    HEARTH_MISS_OTHER_MODEL = 3,      /* known of another model file */
    HEARTH_MISS_OTHER_ADAPTER = 4,    /* known with other adapters */
    HEARTH_MISS_OTHER_PARAMETERS = 5, /* known under other context parameters, or of another engine build */
    HEARTH_MISS_OTHER_TENANT = 6,     /* known under another cache_salt; only hearth_explain says so, never a request */
    HEARTH_MISS_BELOW_POLICY = 7,     /* too short, or too long, to be kept */
    HEARTH_MISS_DAMAGED = 8,          /* a row failed its checks */
    HEARTH_MISS_IN_FLIGHT = 9,        /* another process was still writing it when the wait ended */
    HEARTH_MISS_NOT_READ = 10,        /* the cache is off, or no_cache_read is set */
    HEARTH_MISS_REFUSED = 11,         /* it was found, but memory or the engine refused it */
    HEARTH_MISS_NO_LOGITS = 12,       /* all tokens are known, but not as a prompt's end: its last part is evaluated for
                                         the scores of the first token */
} hearth_miss;

/* Lower-case names of the above: "exact", "disk", "length". Static strings. */
HEARTH_API const char *hearth_hit_name(hearth_hit hit);
HEARTH_API const char *hearth_tier_name(hearth_tier tier);
HEARTH_API const char *hearth_finish_reason_name(hearth_finish_reason reason);
HEARTH_API const char *hearth_miss_name(hearth_miss miss);

/* Frozen: it never grows, so that arrays of it can be indexed. */
typedef struct hearth_logit_bias {
    hearth_token token;
    float bias; /* added to its logit; -INFINITY: never, +INFINITY: nothing else, where the grammar allows */
} hearth_logit_bias;

/* When a lazy grammar begins to bind. */
typedef enum hearth_trigger_kind {
    HEARTH_TRIGGER_WORD = 0,    /* the reply contains this text; the grammar begins with it */
    HEARTH_TRIGGER_TOKEN = 1,   /* this token was drawn; likewise */
    HEARTH_TRIGGER_PATTERN = 2, /* the reply matches this regular expression; it begins with the first group */
} hearth_trigger_kind;

typedef struct hearth_trigger {
    size_t struct_size;
    hearth_trigger_kind kind;
    const char *text; /* the word or the pattern; NULL for a token */
    hearth_token token;
} hearth_trigger;

/* A step of the chain, for the order of hearth_sampling.samplers. */
typedef enum hearth_sampler {
    HEARTH_SAMPLER_PENALTIES = 0,
    HEARTH_SAMPLER_DRY = 1,
    HEARTH_SAMPLER_TOP_N_SIGMA = 2,
    HEARTH_SAMPLER_TOP_K = 3,
    HEARTH_SAMPLER_TYPICAL_P = 4,
    HEARTH_SAMPLER_TOP_P = 5,
    HEARTH_SAMPLER_MIN_P = 6,
    HEARTH_SAMPLER_XTC = 7,
    HEARTH_SAMPLER_TEMPERATURE = 8,
    HEARTH_SAMPLER_ADAPTIVE_P = 9, /* chooses, so it is always the last one, wherever it stands */
} hearth_sampler;
/* Its name, "top_k" ("typ_p", "penalties", ...); NULL for any other number. A static string. */
HEARTH_API const char *hearth_sampler_name(hearth_sampler sampler);

/* A new seed, below 2^52, is drawn when the request is submitted. To repeat the reply, set hearth_result.seed. */
#define HEARTH_SEED_RANDOM UINT64_MAX

/*
 * How a token is chosen. logit_bias and grammar come first. Then comes the chain: penalties (repetition, frequency,
 * presence), DRY, top_n_sigma, top_k, typical_p, top_p, min_p, XTC, temperature, adaptive-p; samplers gives it another
 * order. Then comes the draw. The draw, and XTC's, are functions of (seed, position) only.
 *
 * Mirostat and adaptive-p have a state, one float, that follows the probabilities of the drawn tokens. The state comes
 * with each token (hearth_token_event.sampler_state), and hearth_request.replayed_state takes it.
 */
typedef struct hearth_sampling {
    size_t struct_size;
    float temperature;       /* 0 .. 1000; 0: the likeliest token, always (default 0.8) */
    int32_t top_k;           /* keep the k likeliest; 0: all (default 40) */
    float top_p;             /* keep the likeliest that sum to p, 0 .. 1; 1: all (default 0.95) */
    float min_p;             /* keep those at least p times as likely as the likeliest, 0 .. 1; 0: all (default 0.05) */
    float repeat_penalty;    /* divide logits of recent tokens, 0.01 .. 1000; 1: off (default 1) */
    uint32_t repeat_last_n;  /* how many tokens count as recent, 0 .. 65536 (default 64) */
    uint64_t seed;           /* draws are a function of (seed, position) only (default HEARTH_SEED_RANDOM) */
    float typical_p;         /* keep the locally typical that sum to p, 0 .. 1; 1: all (default 1) */
    float frequency_penalty; /* subtract for each time a token is among the recent ones; -2 .. 2, 0: off (default 0) */
    float presence_penalty;  /* subtract once for a token among the recent ones; -2 .. 2, 0: off (default 0) */
    float dry_multiplier;    /* DRY, against repeated phrases, 0 .. 1000; 0: off (default 0) */
    float dry_base;          /* growth with the length of a phrase, 1 .. 1000; without DRY also less (default 1.75) */
    uint32_t dry_allowed_length;     /* repetitions up to that length are free, 0 .. 65536 (default 2) */
    uint32_t dry_last_n;             /* tokens to look back, 0 .. 65536 (default 64) */
    const char *const *dry_breakers; /* texts that end a phrase; NULL: newline, colon, quote and asterisk */
    size_t n_dry_breakers;           /* at most 64 */
    float xtc_probability;           /* XTC, exclude top choices: how often, 0 .. 1; 0: off (default 0) */
    float xtc_threshold; /* of those at least that likely all but the least likely go, 0 .. 1 (default 0.1) */
    const hearth_logit_bias *logit_bias; /* [n_logit_bias], at most 4096 */
    size_t n_logit_bias;
    const char *grammar;            /* GBNF that the reply must follow; NULL: none. At most 256 KiB */
    const char *json_schema;        /* JSON schema that it must follow; NULL: none. Not together with grammar */
    bool grammar_is_lazy;           /* the grammar (or schema) binds from a trigger on; it needs at least one */
    const hearth_trigger *triggers; /* [n_triggers], at most 64 */
    size_t n_triggers;
    const char *grammar_prefix; /* text that a grammar (not a lazy one) has read before the reply begins; NULL: none */
    /* Control tokens that stand for their names: in the reply's text, to stops, to the grammar; [n_shown_tokens]. */
    const hearth_token *shown_tokens;
    size_t n_shown_tokens; /* at most 64 */
    float top_n_sigma;     /* keep logits within n standard deviations of the highest, 0 .. 1000; 0: off (default 0) */
    float dynatemp_range;  /* 0 .. 1000; temperature - range to temperature + range, by the entropy (default 0) */
    float dynatemp_exponent; /* of the entropy's share, 0 .. 10 (default 1) */
    /*
     * 1 and 2: Mirostat and Mirostat 2.0 take the place of every step of the chain but penalties, DRY and temperature.
     * Not together with a grammar or a schema, unless it is lazy: a grammar leaves no surprise to steer. While a lazy
     * grammar binds, the state rests.
     */
    int32_t mirostat;      /* 0 .. 2; 0: off (default 0) */
    float mirostat_tau;    /* the wanted surprise of a token in bits, 0 .. 100 (default 5) */
    float mirostat_eta;    /* the rate of learning, 0 .. 1 (default 0.1) */
    float adaptive_target; /* adaptive-p: prefer tokens of about this probability, 0 .. 1; 0: off (default 0) */
    float adaptive_decay;  /* how slowly it forgets the drawn tokens, 0 .. 0.99 (default 0.9) */
    const hearth_sampler *samplers; /* the chain's steps in order, [n_samplers]; NULL: those above, in that order */
    size_t n_samplers;              /* at most 32; a step that is not among them is off, a repeated one runs once */
    /*
     * Most tokens of a piece of reasoning; -1: as many as the model wants (default). Then thinking_message (NULL: none,
     * at most 1024 bytes) and thinking_end are forced, and the model goes on to its answer. The texts around reasoning,
     * 1 to 64 bytes each, are those of request.chat if thinking_end is NULL; without any, there is no bound.
     */
    int32_t thinking_budget;
    const char *thinking_message;
    const char *thinking_begin;
    const char *thinking_end;
    bool starts_thinking; /* the prompt ends in reasoning */
} hearth_sampling;

HEARTH_API void hearth_sampling_init(hearth_sampling *sampling, size_t struct_size);
static inline hearth_sampling hearth_sampling_default(void)
{
    hearth_sampling sampling;

    hearth_sampling_init(&sampling, sizeof(sampling));
    return sampling;
}

/*
 * Natural logarithm of a token's probability, of the model's own distribution before sampling changed it. Frozen: it
 * never grows, so that arrays of it can be indexed.
 */
typedef struct hearth_logprob {
    hearth_token token;
    float logprob;
} hearth_logprob;

/* What a request did. Times in milliseconds, monotonic clock. */
typedef struct hearth_stats {
    size_t struct_size;
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* leading prompt tokens that needed no prefill; all of them on an exact hit */
    uint32_t completion_tokens;
    hearth_hit hit;
    hearth_tier tier;  /* the slowest tier that served a row */
    double queue_ms;   /* waiting for the scheduler */
    double lookup_ms;  /* hashing and finding rows */
    double restore_ms; /* reading, checking and unpacking rows */
    double prefill_ms;
    double ttft_ms;         /* from submit to the first token */
    double second_token_ms; /* from submit to the second token; 0 where there was none */
    double decode_ms;       /* generating, from the first token to the last */
    double decode_tps;      /* tokens a second in decode_ms; 0 below two tokens */
    uint64_t restored_bytes;
    uint32_t rows_restored;
    uint32_t n_prefill_evaluations;
    uint32_t n_decode_evaluations;
    uint8_t prompt_key[32];  /* names the prompt's prefix */
    uint8_t finish_key[32];  /* names everything that was evaluated: prompt and reply */
    uint32_t finish_tokens;  /* tokens that finish_key covers */
    hearth_miss miss;        /* why the tokens after cached_tokens were computed */
    uint32_t left_at;        /* position at which the prompt left the longest prefix known; prompt_tokens: nowhere */
    char left_text[64];      /* text of the prompt's token there, whole characters; "" where left_at is prompt_tokens */
    uint32_t shared_tokens;  /* of cached_tokens, those whose cells were in the context */
    uint32_t n_preempted;    /* times that it made room for another request and went on later */
    uint32_t history_tokens; /* leading prompt tokens that were taken from the history, not made by the tokenizer */
    uint32_t draft_tokens;   /* guessed tokens that were evaluated; see hearth_request.draft_max */
    uint32_t draft_accepted_tokens; /* of them, those that are in the reply */
} hearth_stats;

/*
 * How a request ended, and its reply. The library makes it and never changes it afterwards: any thread may read it.
 * Everything in it belongs to it and is released with its last reference.
 */
typedef struct hearth_result {
    size_t struct_size;
    hearth_status status; /* HEARTH_OK, or why the request failed */
    hearth_finish_reason finish_reason;
    const char *text; /* the reply, terminated */
    size_t n_bytes;
    const hearth_token *tokens; /* the reply's tokens, [stats->completion_tokens] */
    const hearth_stats *stats;
    hearth_error error; /* message where status is not HEARTH_OK */
    /*
     * If the request asked for logprobs: 1 + n_top_logprobs for each token of the reply, first the token itself, then
     * the likeliest ones in order. NULL otherwise.
     */
    const hearth_logprob *logprobs;
    uint32_t n_top_logprobs;
    uint32_t stop_number; /* one more than the index of the request's stop text that ended the reply; 0: none did */
    /*
     * If the request asked for prompt_logprobs: the same for the prompt's tokens, [stats->prompt_tokens]. Those of the
     * first token, which has no predecessor, are NaN. NULL otherwise, and if the request ended before its prompt was
     * read.
     */
    const hearth_logprob *prompt_logprobs;
    const hearth_token *prompt; /* the prompt's tokens, [stats->prompt_tokens] */
    uint64_t seed;              /* of its draws: that of the request, or the new one; reply i of n has i more */
    float sampler_state;        /* of Mirostat or adaptive-p, after the last token; NaN: there is none */
} hearth_result;

/*
 * Take another reference, for example in on_done to keep the result. Costs one atomic addition, copies nothing. Returns
 * result. Only for results that this library handed out.
 */
HEARTH_API const hearth_result *hearth_result_ref(const hearth_result *result);
/* Give a reference back; the last one frees the result. Accepts NULL. */
HEARTH_API void hearth_result_unref(const hearth_result *result);

/* A queue of events: see hearth_events_open. */
typedef struct hearth_events hearth_events;
/* A rendered conversation: see hearth_conversation_render. */
typedef struct hearth_chat_prompt hearth_chat_prompt;

typedef enum hearth_phase { HEARTH_PHASE_RESTORE = 0, HEARTH_PHASE_PREFILL = 1 } hearth_phase;

/*
 * A piece of the reply, whole characters, n_bytes >= 1, terminated. Each piece is delivered once: text that a token
 * released goes to on_token where that is set, all other text here. Return false to cancel. On the scheduler thread.
 */
typedef bool (*hearth_text_fn)(uint64_t request_id, const char *text, size_t n_bytes, void *user_data);
/* A token of the reply, as it was drawn. */
typedef struct hearth_token_event {
    size_t struct_size;
    hearth_token token;
    uint32_t index;   /* in the reply, from 0 */
    const char *text; /* what it released of the text, whole characters, terminated; "" where it is held back */
    size_t n_bytes;   /* of text */
    const hearth_logprob *logprobs; /* as in hearth_result, of this token; NULL where not asked for */
    uint32_t n_top_logprobs;
    bool
        is_replayed; /* one of the request's replayed tokens, reported because of tell_replayed; its logprobs are NaN */
    /* The statistics so far, without decode_tps and the values of the end. Borrowed; NULL in events of a caller. */
    const hearth_stats *stats;
    float sampler_state; /* of Mirostat or adaptive-p, after this token; NaN: there is none, or it was replayed */
} hearth_token_event;
/* A token was drawn. event is borrowed. Return false to cancel. On the scheduler thread. */
typedef bool (*hearth_token_fn)(uint64_t request_id, const hearth_token_event *event, void *user_data);
/*
 * n_done of n_total prompt tokens are in the context. HEARTH_PHASE_RESTORE: while rows are restored; the last n_done
 * before the first token equals cached_tokens of the statistics. Without cached tokens there may be no such call.
 * HEARTH_PHASE_PREFILL: when prefill begins, with the tokens that are there already, and after each evaluation. Runs on
 * the scheduler thread.
 */
typedef void (*hearth_progress_fn)(uint64_t request_id, hearth_phase phase, uint32_t n_done, uint32_t n_total,
                                   void *user_data);
/*
 * The request has ended. result is borrowed for the call; hearth_result_ref keeps it. Called exactly once for each
 * submitted request, on the scheduler thread.
 */
typedef void (*hearth_done_fn)(uint64_t request_id, const hearth_result *result, void *user_data);
/*
 * Blocks of a prompt, of 256 tokens, that would have to be computed. Another machine may have their rows. The key of a
 * block boundary names all tokens before it; the row that ends there has this key.
 */
typedef struct hearth_missing {
    size_t struct_size;
    uint64_t request_id;
    uint32_t n_prompt;
    uint32_t n_known;    /* first tokens of the prompt that are here, whole blocks */
    const uint8_t *keys; /* [n_keys * 32], of the block boundaries after n_known, in order */
    uint32_t n_keys;     /* 1 or more */
    uint64_t compute_ns; /* the time that computing the tokens after n_known would take; 0: unknown */
} hearth_missing;
/*
 * At least one block is missing. missing is borrowed. Return true to fetch rows, which must go into the cache as if
 * another process put them there: the request waits for hearth_rows_came, but not longer than compute_ns (0: a minute).
 * Return false to compute. On the scheduler thread: it must return soon.
 */
typedef bool (*hearth_missing_fn)(const hearth_missing *missing, void *user_data);

typedef struct hearth_request {
    size_t struct_size;
    const char *prompt;         /* text, terminated; or NULL with tokens */
    const hearth_token *tokens; /* token ids, [n_tokens]; or NULL with prompt */
    size_t n_tokens;
    unsigned tokenize_flags;         /* for prompt; default HEARTH_TOKENIZE_BOS */
    int32_t n_predict;               /* most tokens of the reply; -1: until the context is full (default) */
    bool ignore_eos;                 /* go on after the model ended its reply */
    bool no_cache_read;              /* compute the prompt anew, but keep what comes of it */
    const hearth_sampling *sampling; /* NULL: the defaults */
    const char *const *stop;         /* texts that end the reply and are not part of it; [n_stop]; may be NULL */
    size_t n_stop;
    const uint8_t *parent_key;      /* finish_key of an earlier request to go on from, 32 bytes, or NULL */
    const char *cache_salt;         /* share rows and cells only with requests of the same salt; NULL: the model's */
    hearth_text_fn on_text;         /* may be NULL */
    hearth_progress_fn on_progress; /* may be NULL */
    hearth_done_fn on_done;         /* may be NULL */
    void *user_data;
    hearth_token_fn on_token; /* may be NULL */
    uint32_t n;               /* replies to this one prompt, 1 (default) .. 128: see hearth_submit */
    int32_t priority;         /* -100 .. 100, default 0; a higher one goes first, also past running requests */
    const char *session_id;   /* keep the sequence for the next request of this name, at most 128 bytes; NULL: none */
    bool prefill_only;        /* read the prompt, keep what came of it, and end */
    bool echo;                /* the text begins with the prompt's */
    uint32_t min_tokens;      /* the model cannot end its reply before so many */
    const hearth_token *stop_tokens; /* tokens that end the reply and are not part of its text; [n_stop_tokens] */
    size_t n_stop_tokens;            /* at most 64 */
    bool logprobs;                   /* report the logarithms of probabilities */
    uint32_t n_top_logprobs;         /* and those of so many likeliest tokens, 0 .. 64 */
    uint32_t queue_timeout_ms;       /* HEARTH_TIMED_OUT when it does not run by then; 0: no limit */
    uint32_t run_timeout_ms;         /* likewise when it has run for so long; times of waiting do not count */
    uint32_t deadline_ms;            /* likewise when it has not ended so long after hearth_submit */
    /*
     * The known tokens of an interrupted reply, [n_replayed]: the reply continues behind them. They pass through
     * grammar, penalties and held-back text as if they had just been drawn, and count in n_predict, min_tokens and the
     * result. Callbacks do not hear of them. Tokens that are in no row are evaluated one by one, as at first, so that
     * the rest of the reply comes out as it would have; a deterministic model evaluates them in chunks, which are
     * faster and give it the same. HEARTH_MISUSE if they cannot be a reply to this request.
     */
    const hearth_token *replayed;
    size_t n_replayed;
    /*
     * on_token and on_text hear of replayed tokens before any new token is drawn, in the same pieces as when they were
     * drawn, with the echo. If the last replayed token ended the reply, the reply ends again in the same way, and
     * nothing is computed.
     */
    bool tell_replayed;
    /*
     * The request was accepted before, by another process, and interrupted. It keeps its place: a full queue takes as
     * many of these again as it takes requests. n_replayed > 0 has the same effect.
     */
    bool is_resumed;
    /*
     * Report the logarithms of probabilities of the prompt's tokens, too. The whole prompt is computed for this: no
     * cells come from the cache or from other sequences, and each token costs a pass over the vocabulary. n must
     * be 1.
     */
    bool prompt_logprobs;
    /* Tell this queue, instead of callbacks, which must be NULL. Every event has user_data. NULL: callbacks. */
    hearth_events *events;
    unsigned event_flags; /* further events: a set of HEARTH_EVENTS_... */
    /*
     * The sampler_state of the last replayed token. Mirostat and adaptive-p follow probabilities, which tokens alone do
     * not tell: with one of them, replayed tokens without it are HEARTH_MISUSE. NaN: none (default).
     */
    float replayed_state;
    /*
     * A rendered conversation. Its text is the prompt, so prompt is NULL and tokenize_flags are not read; if tokens are
     * given, they are the prompt, for example the text's with others before them. Its grammar with prefix and triggers,
     * its shown_tokens, and its stop texts (behind those of stop) hold for the reply. sampling sets no shown_tokens
     * then, and no grammar or schema if the rendering has a grammar: HEARTH_MISUSE. NULL: none.
     */
    const hearth_chat_prompt *chat;
    /*
     * The adapters of the request, [n_adapters]; others are not applied. NULL: those of the model, with their scales.
     * HEARTH_NOT_FOUND for an id that is not loaded; HEARTH_MISUSE for a scale that is no number, and for an id that
     * comes twice.
     */
    const hearth_adapter_scale *adapters;
    size_t n_adapters;
    /*
     * Drafts: the next tokens are guessed, at most draft_max of them, where the text repeats itself, or by the draft
     * model if there is one, and one evaluation verifies all. Tokens are drawn as without a draft, from logits that
     * differ in rounding at most. -1 (default): as the model was loaded; with draft_tokens, HEARTH_DRAFT_MAX where that
     * is 0. 0: none. Models with a window or with recurrent state draft nothing, because their sequences cannot be cut.
     */
    int32_t draft_max;
    int32_t draft_min; /* a shorter draft is left out; -1 (default): as the model was loaded */
    /*
     * The expected reply, [n_draft_tokens]: a draft from elsewhere. Drafts come from these tokens as well as from
     * prompt and reply.
     */
    const hearth_token *draft_tokens;
    size_t n_draft_tokens;
    /*
     * End behind the first token that is not the one of draft_tokens, with HEARTH_FINISH_LENGTH. If all are right, one
     * more token follows them. So the reply is the accepted part of a draft and the token behind it.
     */
    bool verify;
    /*
     * logprobs are those after sampling: of the candidates that the chain left. Others have minus infinity, and in the
     * list of the likeliest, the token -1. prompt_logprobs stay the model's own.
     */
    bool logprobs_after_sampling;
    /*
     * Only so many first hex digits of parent_key are given, 1 to 64; 0: all. HEARTH_MISUSE where the keys of several
     * beginnings of the prompt have them.
     */
    uint32_t n_parent_digits;
    /*
     * So many of the first replayed tokens were drawn on other machines. The rest of the reply may come out otherwise
     * here than there anyway, so they are evaluated in chunks, like a prompt. At most n_replayed, otherwise
     * HEARTH_MISUSE. 0 (default): none.
     */
    size_t n_replayed_elsewhere;
    /*
     * The request was accepted so many microseconds ago, by another process, and interrupted: of equal priority, it
     * comes before requests that were accepted since then. 0 (default): it is new.
     */
    uint64_t age_us;
    /*
     * Called at most once, before the first evaluation, if blocks of the prompt are missing, the cache is shared with
     * other processes, and the request may read it. Also allowed with events. With n > 1, one call for all. NULL
     * (default): they are computed.
     */
    hearth_missing_fn on_missing;
} hearth_request;

HEARTH_API void hearth_request_init(hearth_request *request, size_t struct_size);
static inline hearth_request hearth_request_default(void)
{
    hearth_request request;

    hearth_request_init(&request, sizeof(request));
    return request;
}

/*
 * Put a request into the model's queue; everything in request is copied. id_out (may be NULL) receives its id, unique
 * in the runtime and never 0; it is there before the first callback runs, and may have changed where the queue refuses
 * the request, too. The callbacks run on the model's scheduler thread, on_done last and always.
 *
 * With request->n > 1 the one prompt gets so many replies, computed together: they are requests of their own with the
 * ids *id_out .. *id_out + n-1, the seeds seed .. seed + n-1, and a result each. All are accepted, or none.
 *
 * Requests wait in the order of their arrival within a priority. One runs when the context has room for its prompt and
 * for the reply that it asks for; where a running one of lower priority is in the way, that one is saved to the cache,
 * goes back to its place in the queue, and goes on later where it was.
 *
 * Returns HEARTH_OK; HEARTH_MISUSE, HEARTH_INVALID_TEXT, HEARTH_TOO_LONG for a request that cannot run;
 * HEARTH_NOT_FOUND where parent_key names no beginning of the prompt; HEARTH_BUSY when the queue is full or the session
 * has a request already; HEARTH_CANCELLED after unloading; HEARTH_NO_MEMORY, HEARTH_UNSUPPORTED, HEARTH_ENGINE. on_done
 * is not called unless the status is HEARTH_OK.
 */
HEARTH_API hearth_status hearth_submit(hearth_model *model, const hearth_request *request, uint64_t *id_out,
                                       hearth_error *err);

/*
 * Run a request and wait for it. results, [request->n], receives references, to be given back with hearth_result_unref;
 * each is NULL if the request was not accepted (of an n that is out of range, the first one). A request that fails
 * after it was accepted has results, too: the first status that is not HEARTH_OK is returned, and the text is the reply
 * so far.
 */
HEARTH_API hearth_status hearth_complete(hearth_model *model, const hearth_request *request,
                                         const hearth_result **results, hearth_error *err);

/* End a waiting or running request at the next evaluation. HEARTH_NOT_FOUND if it has ended or never was. */
HEARTH_API hearth_status hearth_cancel(hearth_model *model, uint64_t request_id, hearth_error *err);

/*
 * End a request whose client has gone, but finish its prefill for a client that asks again. Prefill goes on for at most
 * ms milliseconds, and only while no other request waits for a slot. Then the request ends as by hearth_cancel. It ends
 * at once if it still waits in the queue, or if its prefill is done. HEARTH_NOT_FOUND if it has ended or never was.
 */
HEARTH_API hearth_status hearth_linger(hearth_model *model, uint64_t request_id, uint32_t ms, hearth_error *err);

/*
 * Rows that the request's on_missing has promised are in the cache now, or will not come: the request goes on with what
 * is there. Also allowed before on_missing has returned, and again. HEARTH_NOT_FOUND if it has ended or never was.
 */
HEARTH_API hearth_status hearth_rows_came(hearth_model *model, uint64_t request_id, hearth_error *err);

/*
 * Pause a request whose reader is slow, or let it continue. Other requests are not affected. Tokens that were drawn
 * before the pause may still arrive. A request that stays paused for the model's stalled_ms ends with HEARTH_TIMED_OUT;
 * pausing it again restarts that time. HEARTH_NOT_FOUND if it has ended or never was.
 */
HEARTH_API hearth_status hearth_pause(hearth_model *model, uint64_t request_id, bool paused, hearth_error *err);

/*
 * Wait until a request has ended, and its on_done has returned or its last event is in the queue. HEARTH_OK, also for a
 * request that ended long ago; HEARTH_TIMED_OUT after timeout_ms (UINT32_MAX: no limit); HEARTH_MISUSE in a callback,
 * which would wait for itself; HEARTH_NOT_FOUND for an id that was never given.
 */
HEARTH_API hearth_status hearth_wait(hearth_model *model, uint64_t request_id, uint32_t timeout_ms, hearth_error *err);

/*
 * End a session: its sequence becomes an ordinary finished one, whose cells go when they are needed. cache_salt is that
 * of its requests (NULL: none); sessions of different salts have nothing to do with each other. A session ends with
 * all sets of adapters that its requests had. HEARTH_NOT_FOUND when no cells are kept for it (its rows may still be in
 * the cache); HEARTH_BUSY when a request of it waits or runs.
 */
HEARTH_API hearth_status hearth_session_end(hearth_model *model, const char *session_id, const char *cache_salt,
                                            hearth_error *err);

/* What the cache knows of a prompt. */
typedef struct hearth_explanation {
    size_t struct_size;
    uint32_t prompt_tokens;
    uint32_t known_tokens; /* leading ones that would need no prefill */
    bool knows_logits;     /* nor an evaluation for the first token */
    hearth_tier tier;      /* the slowest that a row would come from */
    hearth_miss miss;      /* why the rest is not known */
    uint32_t left_at;      /* position at which the prompt leaves the longest prefix known; prompt_tokens: nowhere */
    char left_text[64];    /* text of the prompt's token there */
    char detail[256];      /* one sentence for a human */
    /*
     * What the text there is part of, by its form: "a date", "a time", "a UUID", "a temporary path", "a hexadecimal
     * digest", "a version", "a path", "a number"; "": none of these.
     */
    char left_kind[24];
    uint32_t history_tokens; /* leading ones that were taken from the history, instead of tokenizing the text */
} hearth_explanation;

/*
 * Why is this prompt cold? Look a request's prompt up without running it, and fill explanation (struct_size set by the
 * caller). Unlike a request's statistics it may speak of other tenants: whoever opens the cache can read it. Blocks
 * while the cache is searched. HEARTH_MISUSE, HEARTH_INVALID_TEXT, HEARTH_TOO_LONG as hearth_submit.
 */
HEARTH_API hearth_status hearth_explain(hearth_model *model, const hearth_request *request,
                                        hearth_explanation *explanation, hearth_error *err);

/*
 * The tokens of a request's prompt, as hearth_submit would take them now: those of the history first, then those of the
 * rest of the text. tokens, capacity and n_out as in hearth_tokenize. The other statuses as hearth_submit.
 */
HEARTH_API hearth_status hearth_prompt_tokenize(hearth_model *model, const hearth_request *request,
                                                hearth_token *tokens, size_t capacity, size_t *n_out,
                                                hearth_error *err);

/* ---- embeddings and scores --------------------------------------------------------------------------------------- */

/* One input: a text, or tokens, to which nothing is added. It has at least one token. */
typedef struct hearth_embed_input {
    size_t struct_size;
    const char *text;           /* UTF-8, terminated; or NULL with tokens */
    const hearth_token *tokens; /* [n_tokens]; or NULL with text */
    size_t n_tokens;            /* 1 .. hearth_model_info.embed_tokens_max, or more with truncate */
} hearth_embed_input;

typedef struct hearth_embeddings hearth_embeddings;
/*
 * The request has ended. embeddings is borrowed for the call; hearth_embeddings_ref keeps it. Called exactly once for
 * each submitted request, on a thread of the model that evaluates inputs: no further input is evaluated before it
 * returns. It may submit and cancel requests. It must not wait for one (HEARTH_MISUSE).
 */
typedef void (*hearth_embedded_fn)(uint64_t request_id, const hearth_embeddings *embeddings, void *user_data);

/* All that it points to is borrowed for the call that takes it. */
typedef struct hearth_embed_request {
    size_t struct_size;
    const hearth_embed_input *inputs; /* [n_inputs] */
    size_t n_inputs;                  /* 1 .. 65536 */
    /*
     * Score each input, which is a text, as an answer to this text. The model's file says how the two are joined.
     * pooling is HEARTH_POOLING_RANK then, or HEARTH_POOLING_MODEL, which means the same. NULL: none.
     */
    const char *query;
    hearth_pooling pooling; /* default HEARTH_POOLING_MODEL */
    /*
     * Each vector, unless it has scores, is divided by its norm: 2 (default) Euclidean; p of 1 .. 64:
     * (sum |x|^p)^(1/p); 0: multiplied so that its largest value is 32760; -1: not changed.
     */
    int32_t norm;
    uint32_t dimensions;        /* keep so many leading values of each vector, before the norm; 0: all */
    bool truncate;              /* cut inputs that are too long at their end; otherwise they are HEARTH_TOO_LONG */
    unsigned tokenize_flags;    /* for texts; default HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL */
    hearth_embedded_fn on_done; /* may be NULL */
    void *user_data;
    const hearth_adapter_scale *adapters; /* [n_adapters], as in hearth_request */
    size_t n_adapters;
    const char *cache_salt; /* as in hearth_request; likewise the next one */
    bool no_cache_read;
} hearth_embed_request;

/* Fill it with the defaults: no inputs yet, norm 2. */
HEARTH_API void hearth_embed_request_init(hearth_embed_request *request, size_t struct_size);
static inline hearth_embed_request hearth_embed_request_default(void)
{
    hearth_embed_request request;

    hearth_embed_request_init(&request, sizeof(request));
    return request;
}

/*
 * The embeddings of a request's inputs, in their order. The library makes it and never changes it afterwards: any
 * thread may read it. All pointers belong to it, and are valid while the reader holds a reference. It may outlive its
 * model.
 */
struct hearth_embeddings {
    size_t struct_size;
    hearth_status status;        /* HEARTH_OK, or why the request failed; there are no vectors then */
    hearth_pooling pooling;      /* not HEARTH_POOLING_MODEL */
    size_t n_inputs;             /* 0 if the request failed */
    uint32_t n_values;           /* of a vector; with HEARTH_POOLING_RANK its scores */
    const float *const *vectors; /* [n_inputs]; vectors[i] is n_vectors[i] vectors of n_values floats, without gaps */
    const uint32_t *n_vectors;   /* [n_inputs]; 1, or n_tokens[i] with HEARTH_POOLING_NONE */
    const uint32_t *n_tokens;    /* [n_inputs]; of each input, after truncation */
    uint64_t n_tokens_total;
    uint32_t n_evaluations;      /* that inputs of this request took part in */
    double queue_ms;             /* before the first of them */
    double compute_ms;           /* from then on */
    hearth_error error;          /* message where status is not HEARTH_OK */
    uint64_t n_tokens_cached;    /* of n_tokens_total, that came from the cache or from other inputs */
    uint64_t n_tokens_evaluated; /* also if the request failed or was cancelled */
};

/* One holder more, and its argument back; one holder less: the last one frees it. unref accepts NULL. Any thread. */
HEARTH_API const hearth_embeddings *hearth_embeddings_ref(const hearth_embeddings *embeddings);
HEARTH_API void hearth_embeddings_unref(const hearth_embeddings *embeddings);

/*
 * Embed inputs, or score them. Everything in request is copied. Inputs of all waiting requests are evaluated together,
 * as many as fit, in turn: a request with many inputs does not delay one with few. This happens in a context of its
 * own, which the first request makes, and on a thread of its own: beside the generation of the same model. With
 * HEARTH_POOLING_LAST, the known prefix of an input comes from the cache, and its rows are kept there, if the model
 * generates. An embedding depends on its own input; inputs beside it may change its last bits.
 *
 * *id_out (may be NULL) is unique among all requests, and hearth_cancel and hearth_wait take it. It is written before
 * on_done can run. Texts are tokenized on the calling thread. No evaluation is waited for.
 *
 * Returns HEARTH_OK; HEARTH_MISUSE and HEARTH_INVALID_TEXT for a request that is wrong, has more than 4 Mi tokens in
 * all (the query counts with each input), or would get vectors of more than 1 GiB; HEARTH_NOT_FOUND for an adapter that
 * is not loaded; HEARTH_TOO_LONG for an input of more tokens than hearth_model_info.embed_tokens_max, or a query that
 * does not have fewer; HEARTH_UNSUPPORTED if the model makes no embeddings, or has no classifier for
 * HEARTH_POOLING_RANK; HEARTH_BUSY (with retry_after_s) when queue_max requests for embeddings have not ended, or when
 * their tokens and vectors would take more than 1 GiB together; HEARTH_CANCELLED after unloading; HEARTH_NO_MEMORY.
 * on_done is not called unless the status is HEARTH_OK.
 */
HEARTH_API hearth_status hearth_embed_submit(hearth_model *model, const hearth_embed_request *request, uint64_t *id_out,
                                             hearth_error *err);
/*
 * The same, and wait until on_done, if there is one, has returned. *out receives a reference, to be given back with
 * hearth_embeddings_unref; with HEARTH_OK only. Besides the statuses above, that of the request: HEARTH_ENGINE,
 * HEARTH_CANCELLED, HEARTH_NO_MEMORY. Not in a callback.
 */
HEARTH_API hearth_status hearth_embed(hearth_model *model, const hearth_embed_request *request,
                                      const hearth_embeddings **out, hearth_error *err);

/* ---- rows by hand ------------------------------------------------------------------------------------------------ */

/*
 * A prefix is the beginning of a prompt or of a conversation. Its name is a key of 32 bytes: hearth_row.key,
 * hearth_stats.prompt_key and finish_key. The functions below take a key (hearth_runtime_...) or a request
 * (hearth_prompt_...). Of a request they read only the prompt or tokens, tokenize_flags, cache_salt, adapters and
 * no_cache_read, with which the history gives no tokens. They work while requests run.
 * They block, on files and some on the scheduler, so they are not for callbacks. Without a cache they are
 * HEARTH_UNSUPPORTED; those of a model are so, too, if nothing of that kind of model is cached, and HEARTH_CANCELLED
 * after unloading.
 */

/* What an export wrote or an import read. */
typedef struct hearth_transfer {
    size_t struct_size;
    uint8_t key[32];   /* of the prefix in the file */
    uint32_t n_tokens; /* of that prefix */
    uint32_t n_rows;   /* that it was joined from, or cut into; without that of the logits when it was exported */
    uint32_t n_new;    /* those of an import that the cache did not have */
    bool has_logits;   /* after the last token */
    uint64_t bytes;    /* of the file */
} hearth_transfer;

/*
 * Write the prefix of that key into a file at path: one plain KVC file, which hearth_runtime_import and any reader of
 * that format can load (docs/format.md). A file of that name is replaced, whole or not at all; the mode is 0600. With a
 * signing key it is signed. *out (struct_size set by the caller; out may be NULL) says what it holds.
 *
 * HEARTH_NOT_FOUND if no row ends the prefix, or a row is missing before it; HEARTH_UNSUPPORTED if its rows cannot be
 * joined: those of models whose attention has a window, or with recurrent layers; HEARTH_CORRUPT for a damaged row,
 * which is set aside; HEARTH_MISUSE if path is no name for a file; HEARTH_FULL, HEARTH_PERMISSION, HEARTH_IO,
 * HEARTH_NO_MEMORY.
 */
HEARTH_API hearth_status hearth_runtime_export(hearth_runtime *runtime, const uint8_t key[32], const char *path,
                                               hearth_transfer *out, hearth_error *err);
/*
 * The same with the longest prefix of a request's prompt that is cached, which out->n_tokens tells. If cells of the
 * prompt are in the context only, all finished sequences of the model are saved and given up first (at most 60 s).
 */
HEARTH_API hearth_status hearth_prompt_export(hearth_model *model, const hearth_request *request, const char *path,
                                              hearth_transfer *out, hearth_error *err);

/*
 * Put the prefix of such a file into the cache, where a prompt that begins with its tokens hits, by the model and under
 * the context parameters and the salt that it was made with. Rows that are there already stay. With a signing key the
 * file must carry its signature. *out as above.
 *
 * HEARTH_NOT_FOUND, HEARTH_PERMISSION or HEARTH_IO for a file that cannot be read; HEARTH_CORRUPT for one that is
 * damaged or not signed; HEARTH_UNSUPPORTED for one that does not begin at token 0 or has no state; HEARTH_FULL if RAM
 * has no room for a row; HEARTH_NO_MEMORY. After a failure the beginning of the prefix may be there.
 */
HEARTH_API hearth_status hearth_runtime_import(hearth_runtime *runtime, const char *path, hearth_transfer *out,
                                               hearth_error *err);

/*
 * Remove the rows that end the prefix of that key from all tiers. Rows that stand on them are not found any more
 * and age out; rows that they stand on stay. *n_rows_out (may be NULL): how many there were. Requests that read such a
 * row keep it. HEARTH_NOT_FOUND if there are none; HEARTH_TIMED_OUT if a device takes no work for 60 s, and some rows
 * may be gone.
 */
HEARTH_API hearth_status hearth_runtime_remove(hearth_runtime *runtime, const uint8_t key[32], uint32_t *n_rows_out,
                                               hearth_error *err);
/*
 * Remove a request's prompt from all tiers and from finished sequences: all rows that end at any of its tokens.
 * *n_tokens_out (may be NULL): how many leading tokens were cached before and are not now, 0 if none were. A running
 * request, or input of embeddings, with this prompt keeps it and saves it again. HEARTH_BUSY, HEARTH_TIMED_OUT,
 * HEARTH_NO_MEMORY: some rows may be gone.
 */
HEARTH_API hearth_status hearth_prompt_remove(hearth_model *model, const hearth_request *request,
                                              uint32_t *n_tokens_out, hearth_error *err);

/*
 * Bring the rows of the prefix of that key from files into RAM, ahead of use, and check them. *n_rows_out (may be
 * NULL): how many of its rows are in RAM now, those that were there before included. They leave RAM as others do: least
 * recently used first.
 *
 * HEARTH_NOT_FOUND if no row ends the prefix, or a row is missing before it; HEARTH_CORRUPT for a damaged row, which is
 * set aside; HEARTH_NO_MEMORY if what is in use leaves no room in RAM; HEARTH_IO. Rows before the one that failed are
 * in RAM.
 */
HEARTH_API hearth_status hearth_runtime_warm(hearth_runtime *runtime, const uint8_t key[32], uint32_t *n_rows_out,
                                             hearth_error *err);
/*
 * The same with the rows that a request with this prompt would use now. *n_tokens_out (may be NULL): how many leading
 * tokens they cover, 0 if none are cached, which is HEARTH_OK.
 */
HEARTH_API hearth_status hearth_prompt_warm(hearth_model *model, const hearth_request *request, uint32_t *n_tokens_out,
                                            hearth_error *err);

/*
 * Pin the prefix of that key: its rows stay on disk, whatever else goes for room, until it is unpinned. That outlives
 * this process and the machine's boots, and holds for every process that uses the cache directory.
 *
 * A pin is kept in the disk tier (in the memory-file tier, if there is no disk tier; it then lasts until the next
 * boot). There, eviction, hearth_runtime_evict, hearth_runtime_gc and `hearth cache gc` pass over the rows that end the
 * prefix and all rows before them, and a longer row that holds the same tokens does not replace them. In RAM, and in a
 * memory-file tier above the disk tier, these rows give way as others do. Removing the rows (hearth_..._remove) or
 * setting them aside as damaged is not prevented; removing them takes the pin away.
 *
 * At most half of the tier's quota can be pinned, rows that several prefixes share counted once, and at most 1024
 * prefixes. A quota that is made smaller later takes no pin away. Rows that are being written are waited for (at most
 * 60 s).
 *
 * HEARTH_NOT_FOUND if no row ends the prefix, or a row is missing before it, in the files; HEARTH_FULL beyond the
 * bounds; HEARTH_BUSY if another process is removing a row of it; HEARTH_UNSUPPORTED if the cache has no directory;
 * HEARTH_TIMED_OUT, HEARTH_PERMISSION, HEARTH_IO, HEARTH_NO_MEMORY. A prefix that is pinned already is HEARTH_OK.
 */
HEARTH_API hearth_status hearth_runtime_pin(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err);
/* Take the pin away; the rows stay and age as others. HEARTH_NOT_FOUND if the prefix is not pinned. */
HEARTH_API hearth_status hearth_runtime_unpin(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err);
/*
 * Pin the longest prefix of a request's prompt at whose end a row is. *n_tokens_out (may be NULL): its length; key_out
 * (may be NULL): its key. To pin a prompt to its last token, run it alone first, with prefill_only: in a longer
 * conversation a row may end behind it. HEARTH_NOT_FOUND if no row ends inside the prompt.
 */
HEARTH_API hearth_status hearth_prompt_pin(hearth_model *model, const hearth_request *request, uint8_t key_out[32],
                                           uint32_t *n_tokens_out, hearth_error *err);
/*
 * Unpin the longest prefix of a request's prompt that is pinned; *n_tokens_out (may be NULL): its length.
 * HEARTH_NOT_FOUND.
 */
HEARTH_API hearth_status hearth_prompt_unpin(hearth_model *model, const hearth_request *request, uint32_t *n_tokens_out,
                                             hearth_error *err);

/* ---- conversations: templates with tools, and replies taken apart ------------------------------------------------ */

/* A call of a tool, as a model wrote it. */
typedef struct hearth_chat_call {
    size_t struct_size;
    const char *id; /* NULL: none */
    const char *name;
    const char *arguments; /* a JSON object as text */
} hearth_chat_call;

/* One message of a conversation. */
typedef struct hearth_chat_turn {
    size_t struct_size;
    const char *role;         /* "system", "developer", "user", "assistant", "tool", or what the template knows */
    const char *content;      /* NULL: none, or parts */
    const char *const *parts; /* [n_parts], pieces of text; where content is NULL */
    size_t n_parts;
    const char *reasoning;         /* what an assistant thought before its content; NULL: nothing */
    const hearth_chat_call *calls; /* [n_calls], of an assistant */
    size_t n_calls;
    const char *call_id; /* of a tool's turn: the call that it answers; NULL: unknown */
    const char *name;    /* of who speaks, or of the tool; NULL: none */
} hearth_chat_turn;

/* A function that the model may call. */
typedef struct hearth_chat_tool {
    size_t struct_size;
    const char *name;        /* 1 to 128 letters, digits, '_' and '-' */
    const char *description; /* NULL: none */
    const char *parameters;  /* JSON schema of an object; NULL: it takes none. At most 256 KiB */
} hearth_chat_tool;

typedef enum hearth_tool_choice {
    HEARTH_TOOL_AUTO = 0,     /* the model decides */
    HEARTH_TOOL_NONE = 1,     /* it sees the tools, but what it says is content */
    HEARTH_TOOL_REQUIRED = 2, /* it calls at least one */
} hearth_tool_choice;

/*
 * A conversation to go on with. Limits: 16384 turns, 4096 tools; JSON nested 64 deep, 4096 values a schema, 200 members
 * an object of it, names of 256 bytes.
 */
typedef struct hearth_conversation {
    size_t struct_size;
    const hearth_chat_turn *turns; /* [n_turns], at least one */
    size_t n_turns;
    const hearth_chat_tool *tools; /* [n_tools] */
    size_t n_tools;
    hearth_tool_choice tool_choice;
    bool parallel_calls;         /* more than one call in a reply (default true) */
    const char *json_schema;     /* the content has to follow it; NULL: none. Not with tools that must be called */
    bool no_thinking;            /* where the template can tell the model not to think, do */
    bool reasoning_in_content;   /* leave what the model thinks where it writes it */
    bool continue_last;          /* the last turn is the beginning of the reply, which goes on */
    bool no_reply;               /* end the text after the last turn; the reply's beginning is left out */
    const char *template_values; /* a JSON object of further variables for the template; NULL: none. At most 64 KiB */
    bool any_parameters; /* a tool whose parameters make no grammar may be called with any; else it is HEARTH_MISUSE */
} hearth_conversation;

HEARTH_API void hearth_conversation_init(hearth_conversation *conversation, size_t struct_size);
static inline hearth_conversation hearth_conversation_default(void)
{
    hearth_conversation conversation;

    hearth_conversation_init(&conversation, sizeof(conversation));
    return conversation;
}

/*
 * A conversation as a prompt, with everything that a request needs of it. hearth_request.chat takes all of it at once;
 * the fields are there to be looked at. The library makes it and never changes it afterwards: any thread may read it.
 */
struct hearth_chat_prompt {
    size_t struct_size;
    const char *text; /* terminated; to be tokenized with HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS */
    size_t n_bytes;
    const char *grammar;        /* for the reply; NULL: none */
    const char *grammar_prefix; /* text that the grammar has read before the reply begins; NULL: none */
    bool grammar_is_lazy;
    const hearth_trigger *triggers; /* [n_triggers], of a lazy grammar */
    size_t n_triggers;
    const char *const *stop; /* [n_stop], texts that end the reply */
    size_t n_stop;
    const hearth_token *shown_tokens; /* [n_shown_tokens], control tokens that the reply's text names */
    size_t n_shown_tokens;
    bool can_think;             /* the template knows of reasoning */
    const char *parser;         /* the form of the reply, for hearth_chat_parser_new only */
    const char *thinking_begin; /* the texts around reasoning; NULL: there is none, or it has no such texts */
    const char *thinking_end;
    bool starts_thinking; /* text ends in reasoning */
    /*
     * Places in text, [n_plain], ascending, where a client's text has the name of a control token. It is text there:
     * requests with chat read it so. Whoever tokenizes text without chat has to see to it.
     */
    const size_t *plain;
    size_t n_plain;
};

/*
 * Render a conversation through the model's chat template.
 *
 * out  receives the prompt; release it with hearth_chat_prompt_free.
 *
 *     hearth_conversation_render(model, &conversation, &prompt, &err);
 *     request.chat = prompt;
 *     hearth_submit(model, &request, NULL, &err);
 *     hearth_chat_parser_new(model, prompt, &parser, &err);
 *     hearth_chat_prompt_free(prompt);
 *
 * Returns HEARTH_OK; HEARTH_MISUSE names the error in the conversation, or the limit that it exceeds;
 * HEARTH_INVALID_TEXT; HEARTH_TOO_LONG; HEARTH_UNSUPPORTED when the model has no template; HEARTH_ENGINE when the
 * template refuses this conversation; HEARTH_CANCELLED after unloading; HEARTH_NO_MEMORY. If the template has no place
 * for tools, they are left out, or, if one must be called, described in the system's message. May take milliseconds:
 * not for a callback.
 */
HEARTH_API hearth_status hearth_conversation_render(hearth_model *model, const hearth_conversation *conversation,
                                                    const hearth_chat_prompt **out, hearth_error *err);
/*
 * Requests and parsers copy what they need of a prompt, so it can go once hearth_submit and hearth_chat_parser_new have
 * returned. Accepts NULL.
 */
HEARTH_API void hearth_chat_prompt_free(const hearth_chat_prompt *prompt);

/* The kinds of the pieces of a reply. */
typedef enum hearth_chat_delta_kind {
    HEARTH_DELTA_REASONING = 0, /* text, of what the model thinks */
    HEARTH_DELTA_CONTENT = 1,   /* text, of its answer */
    HEARTH_DELTA_CALL = 2,      /* a call begins: its id and name */
    HEARTH_DELTA_ARGUMENTS = 3, /* text, of the arguments of the call that began last */
} hearth_chat_delta_kind;

typedef struct hearth_chat_delta {
    size_t struct_size;
    hearth_chat_delta_kind kind;
    uint32_t call;    /* which call, from 0 */
    const char *text; /* terminated, n_bytes long, NUL bytes perhaps among them; the name of a call */
    size_t n_bytes;
    const char *id; /* of a call; "" where the model gave none, or gives it behind the arguments */
} hearth_chat_delta;

/* Delta i of an array that this library made. It may be of a newer version, whose deltas are longer. */
static inline const hearth_chat_delta *hearth_chat_delta_at(const hearth_chat_delta *deltas, size_t i)
{
    return (const hearth_chat_delta *)(const void *)((const char *)deltas + i * deltas->struct_size);
}

typedef struct hearth_chat_parser hearth_chat_parser;

/*
 * A parser for one reply to a prompt, which is needed during the call only. One thread at a time; it lives as long as
 * the model.
 */
HEARTH_API hearth_status hearth_chat_parser_new(hearth_model *model, const hearth_chat_prompt *prompt,
                                                hearth_chat_parser **out, hearth_error *err);
/*
 * A parser for another reply to the same prompt. It shares the work of hearth_chat_parser_new, so it is much cheaper.
 * Either parser may be freed first. Several threads may call this with one parser while it is not fed.
 */
HEARTH_API hearth_status hearth_chat_parser_like(const hearth_chat_parser *parser, hearth_chat_parser **out,
                                                 hearth_error *err);
/* Accepts NULL. */
HEARTH_API void hearth_chat_parser_free(hearth_chat_parser *parser);

/*
 * Feed text of the reply, n_bytes of whole characters (0 is allowed), and receive the new deltas, [*n_out], borrowed
 * until the next call. A delta is never taken back, also if later text changes the meaning of earlier text. is_last:
 * the reply has ended. If a reply without calls does not have the form of its template, the rest of its text becomes
 * content.
 *
 * The parser reads the reply from its beginning at each call; a long reply only after each 64th of its length. So the
 * work for a whole reply is proportional to its length. The same pieces give the same deltas.
 *
 * Returns HEARTH_OK; HEARTH_MISUSE after the last piece; HEARTH_TOO_LONG beyond 16 MiB; HEARTH_NO_MEMORY.
 */
HEARTH_API hearth_status hearth_chat_parser_feed(hearth_chat_parser *parser, const char *text, size_t n_bytes,
                                                 bool is_last, const hearth_chat_delta **deltas_out, size_t *n_out,
                                                 hearth_error *err);

/* ---- events: to be taken by the caller's own threads or event loop ---------------------------------------------- */

/*
 * A queue receives the events of requests and loads instead of callbacks, so that no code of the caller runs on a
 * thread of the library. Any number of requests and loads, of any models, may share one queue:
 *
 *     hearth_events_open(NULL, &queue, &err);
 *     request.events = queue;
 *     request.user_data = connection;
 *     hearth_submit(model, &request, NULL, &err);
 *     while (hearth_events_take(queue, events, 64, UINT32_MAX, &n, &err) == HEARTH_OK)
 *         for (size_t i = 0; i < n; i++)
 *             ... events[i]->kind ...
 *
 * Order        Events come in the order in which they happened. The last one of a reply is HEARTH_EVENT_DONE, the last
 *              one of a load HEARTH_EVENT_LOADED; each comes exactly once.
 * Memory       Events belong to the queue. An event and all that it points to are valid until the next
 *              hearth_events_take on the queue; their memory is used again then.
 * Wake-ups     A taker is woken once for a round of the scheduler, in which each running request may have got a token.
 * Back-pressure  When the waiting events exceed a bound of the queue, each request that adds an event is paused. It
 *              continues when half of the bound is left. Tokens that were drawn before the pause are still added, so
 *              one round may exceed the bound. When no event is taken for the model's stalled_ms, the paused requests
 *              end with HEARTH_TIMED_OUT. This pause is independent of hearth_pause: a request runs when neither holds
 *              it.
 * Memory ends  Nothing is lost silently. A request whose event finds no memory ends, and its HEARTH_EVENT_DONE has the
 *              status HEARTH_NO_MEMORY; the memory for it was set aside at submission.
 */

/* Further events of a request, as a set. */
enum {
    HEARTH_EVENTS_RESTORE = 1, /* HEARTH_EVENT_PROGRESS of HEARTH_PHASE_RESTORE */
    HEARTH_EVENTS_PREFILL = 2, /* and of HEARTH_PHASE_PREFILL */
    HEARTH_EVENTS_STATS = 4,   /* a HEARTH_EVENT_TOKEN has statistics */
};

typedef enum hearth_event_kind {
    HEARTH_EVENT_PROGRESS = 1, /* n_done of n_total prompt tokens are in the context, in phase: as hearth_progress_fn */
    HEARTH_EVENT_TEXT = 2,     /* text that no token released: of an echoed prompt, or held back until the end */
    HEARTH_EVENT_TOKEN = 3,    /* a token of the reply, with the text that it released */
    HEARTH_EVENT_DONE = 4,     /* the reply has ended */
    HEARTH_EVENT_LOADING = 5,  /* a model is loaded as far as fraction says */
    HEARTH_EVENT_LOADED = 6,   /* it is loaded, or that failed */
} hearth_event_kind;

/* Fields that do not belong to kind are zeros. The texts of a reply's events, joined, are the text of its result. */
typedef struct hearth_event {
    size_t struct_size;
    hearth_event_kind kind;
    uint32_t reply;  /* of the request's n, from 0 */
    uint64_t id;     /* of that reply: the request's and reply more; or of the load */
    void *user_data; /* of hearth_request or hearth_model_load_start */

    /* TEXT, TOKEN */
    const char *text; /* whole characters, terminated; "" where a token's is held back */
    size_t n_bytes;

    /* TOKEN: as in hearth_token_event */
    hearth_token token;
    uint32_t index;
    bool is_replayed;
    uint32_t n_top_logprobs;
    const hearth_logprob *logprobs; /* [1 + n_top_logprobs]; NULL where not asked for */
    const hearth_stats *stats;      /* NULL without HEARTH_EVENTS_STATS */

    /* PROGRESS */
    hearth_phase phase;
    uint32_t n_done;
    uint32_t n_total;

    /* LOADING */
    float fraction; /* 0 .. 1 */

    /* DONE, LOADED */
    hearth_status status;      /* HEARTH_OK, or why it failed */
    const hearth_error *error; /* the message then; NULL with HEARTH_OK */

    /* DONE */
    const hearth_result *result; /* with the status HEARTH_NO_MEMORY perhaps NULL */

    /* LOADED */
    hearth_model *model; /* with HEARTH_OK: a reference, which is the taker's from now on */

    /* TOKEN: as in hearth_token_event */
    float sampler_state;
} hearth_event;

typedef struct hearth_events_options {
    size_t struct_size;
    size_t n_events_max; /* that wait; default 65536 */
    size_t n_bytes_max;  /* of memory that they take; default 16 MiB */
} hearth_events_options;

HEARTH_API void hearth_events_options_init(hearth_events_options *options, size_t struct_size);
static inline hearth_events_options hearth_events_options_default(void)
{
    hearth_events_options options;

    hearth_events_options_init(&options, sizeof(options));
    return options;
}

/*
 * Open a queue.
 *
 * options  NULL means the defaults.
 * out      receives the queue; release it with hearth_events_close. It may outlive models and runtimes that tell it.
 *
 * Returns HEARTH_OK; HEARTH_MISUSE for a bound of 0; HEARTH_NO_MEMORY.
 */
HEARTH_API hearth_status hearth_events_open(const hearth_events_options *options, hearth_events **out,
                                            hearth_error *err);
/*
 * Close a queue: cancel the requests and loads that tell it, and drop what waits. Does not block; legal in callbacks.
 * Events that were taken are not valid any more. Accepts NULL.
 */
HEARTH_API void hearth_events_close(hearth_events *queue);
/*
 * Take up to n events out, at least 1. One thread at a time.
 *
 * events      receives *n_out pointers: see "Memory" above.
 * timeout_ms  how long to wait for the first event; 0: not at all; UINT32_MAX: for as long as it takes.
 *
 * HEARTH_OK with *n_out 0: none came in time, or hearth_events_wake was called. HEARTH_MISUSE.
 */
HEARTH_API hearth_status hearth_events_take(hearth_events *queue, const hearth_event **events, size_t n,
                                            uint32_t timeout_ms, size_t *n_out, hearth_error *err);
/* Have the take that waits, or the next one, return. Any thread, a signal handler excepted. */
HEARTH_API void hearth_events_wake(hearth_events *queue);
/*
 * A descriptor for poll, epoll, kqueue or an event loop: readable while events wait, and after hearth_events_wake,
 * until hearth_events_take has taken all of them. Never read it and never close it; it belongs to the queue. -1 when
 * the system has none left.
 */
HEARTH_API int hearth_events_fd(hearth_events *queue);

/*
 * Load a model as hearth_model_load does, on a thread of the library. Returns at once. The queue then receives
 * HEARTH_EVENT_LOADING now and then, and at the end HEARTH_EVENT_LOADED with the model or with the error.
 *
 * options   as for hearth_model_load; copied. progress must be NULL.
 * user_data given back in each event.
 * id_out    (may be NULL) receives the id of the load, unique among those of requests and loads of the runtime.
 *
 * hearth_runtime_close cancels a load and waits for the end of its thread. HEARTH_MISUSE for options out of range,
 * HEARTH_NO_MEMORY. Other errors come with the event.
 */
HEARTH_API hearth_status hearth_model_load_start(hearth_runtime *runtime, const char *path,
                                                 const hearth_model_options *options, hearth_events *queue,
                                                 void *user_data, uint64_t *id_out, hearth_error *err);
/* Have a load end soon (HEARTH_CANCELLED in its last event). HEARTH_NOT_FOUND when it has ended. */
HEARTH_API hearth_status hearth_model_load_cancel(hearth_runtime *runtime, uint64_t load_id, hearth_error *err);

typedef enum hearth_save_reason {
    HEARTH_SAVE_UNKNOWN = 0,
    HEARTH_SAVE_COLD = 1,
    HEARTH_SAVE_CONTINUED = 2,
    HEARTH_SAVE_EVICT = 3,
    HEARTH_SAVE_SHUTDOWN = 4,
    HEARTH_SAVE_FINISH = 5,
} hearth_save_reason;

/* "cold", "finish". A static string. */
HEARTH_API const char *hearth_save_reason_name(hearth_save_reason reason);

/*
 * Save every sequence that the context holds and wait until the rows are durable. reason is HEARTH_SAVE_EVICT (the
 * context is emptied afterwards, but for what runs) or HEARTH_SAVE_SHUTDOWN (it is kept). HEARTH_TIMED_OUT after
 * timeout_ms: what was not durable by then may still become so. Takes effect between two evaluations of a running
 * request.
 */
HEARTH_API hearth_status hearth_model_save(hearth_model *model, hearth_save_reason reason, uint32_t timeout_ms,
                                           hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
