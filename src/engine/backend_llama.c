/*
 * backend_llama.c - the llama.cpp engine behind backend.h
 *
 * llama.cpp v0.5.0 aborts the process, lies or throws on many wrong arguments. Everything that was measured to do so is
 * checked here first; exceptions end in llama_shim.cpp. Three rules keep the rest simple:
 *
 *   - What every sequence holds is tracked here, and a batch must continue it exactly. The engine tells the highest
 *     position that all of its caches have, which says nothing about a sequence that is being put together.
 *   - Only plain attention is ever rewound. Sequences of other kinds are emptied whole or not at all.
 *   - A blob is parsed before the engine sees it, and after each one the sequence must end where the blob says;
 *     otherwise it is emptied, since the engine may leave cells of a refused blob behind.
 *
 * The engine copies recurrent state along with a range of cells. A state of no cells, set as the partial state, takes
 * it away again without touching the cells, so a hybrid's block is written without it, straight into its row.
 *
 * What a context's blobs look like is learned, for each part, from the first one that the engine wrote or accepted; all
 * others must equal it. If the engine writes something else than the model's kind promises, the model becomes HTH_MODEL_UNCACHED.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "cache/row.h"
#include "engine/attention.h"
#include "engine/backend.h"
#include "engine/blob.h"
#include "engine/blob_part.h"
#include "engine/backend_llama_chat.h"
#include "engine/backend_llama_sampler.h"
#include "engine/sampler.h"
#include "engine/llama_chat.h"
#include "engine/llama_devices.h"
#include "engine/llama_shim.h"
#include "engine/model_files.h"

#define N_UBATCH_MAX 512
#define N_CTX_STEP 256
#define ROW_FORMAT_PLAIN 1 /* blocks and tails of plain attention */
#define ROW_FORMAT 2       /* of the other kinds; 1 were snapshots */
#define PATH_BYTES 4096
#define IDLE_ROW_PS 400 /* docs/performance.md, "Idle sequences" */
#define IDLE_SEQUENCE_PS 3000
#define IDLE_CELLS_MAX 1024

struct hth_engine_model {
    struct llama_model *llama;
    const hth_log *log;
    hth_llama_chat *chat;   /* NULL: no template, or one that cannot be read */
    char chat_problem[256]; /* why not */
    bool chat_given;
    bool chat_is_fallback;
    bool is_mapped;  /* the weights are those of the file */
    atomic_int kind; /* hth_model_kind */
    bool has_long_rope_factors;
    hth_llama_devices devices;
    bool on_gpu;          /* there are some */
    int32_t n_gpu_layers; /* as asked for; layers elsewhere round differently */
    hth_shim_model_facts facts;
    hth_texts *texts;
    hth_grammar_memo *grammars;
};

/* What a sequence holds. All zero in an empty one. */
typedef struct holding {
    uint32_t begin; /* its positions */
    uint32_t end;
    uint32_t window_begin; /* the window's cells go from here to end without a gap; end: there are none */
    uint32_t rest_end;     /* one more than the position after which its recurrent state is; 0: it has none */
} holding;

/* Parts whose blobs differ in layout. */
enum { N_LAYOUTS = 2 };

struct hth_engine_context {
    hth_engine_model *model;
    struct llama_context *llama;
    hth_engine_context_info info;
    hth_blob_format format;

    holding *held;       /* what each sequence holds, [n_seq_max] */
    uint8_t *empty_rest; /* the partial state of an empty sequence, for HTH_MODEL_HYBRID */
    size_t empty_rest_bytes;
    uint8_t *bounce; /* a blob on its way to becoming a shorter one */
    size_t bounce_bytes;

    /* The batch, arrays of n_batch. */
    struct llama_batch batch;
    llama_seq_id *sequences;
    uint32_t *next; /* [n_seq_max], while a batch is checked */
    size_t n_rows;  /* of the last evaluation; 0 where it failed */

    bool layout_known[N_LAYOUTS]; /* of HTH_STATE_CELLS, and of HTH_STATE_REST */
    hth_blob_layout layouts[N_LAYOUTS];
    hth_blob_layout parsed; /* of the blob at hand */
};

/* ---- the engine as a whole --------------------------------------------------------------------------------------- */

/*
 * The engine has one log callback and one initialisation a process, so this is one a process, too. A line goes to the
 * log of the model on whose behalf the calling thread is in the engine; lines of the engine's own threads go to the log
 * of the model loaded last.
 */
static struct {
    pthread_mutex_t start_lock; /* held while the engine starts, so that one thread does it */
    bool started;
    char features[512]; /* of CPU and devices; fixed once started */

    pthread_mutex_t log_lock; /* held while a line is delivered to `latest`, so that model_free cannot pull it away */
    const hth_log *latest;
} engine = { .start_lock = PTHREAD_MUTEX_INITIALIZER, .log_lock = PTHREAD_MUTEX_INITIALIZER };

/* What the calling thread is doing in the engine. */
static _Thread_local struct {
    const hth_log *log;
    char line[1024]; /* being put together from continuations */
    size_t n_line;
    hearth_log_level level;
    char first_error[256]; /* since the call began; the engine's statuses say nothing, its log does */
} here;

static void deliver_line(void)
{
    const char *text = here.line;

    here.line[here.n_line] = '\0';
    here.n_line = 0;
    if (text[strspn(text, ". ")] == '\0') /* a progress bar */
        return;
    if (here.level == HEARTH_LOG_ERROR && !here.first_error[0])
        (void)snprintf(here.first_error, sizeof(here.first_error), "%.255s", text);
    if (here.log) {
        hth_log_line(here.log, here.level, "llama.cpp", "%s", text);
        return;
    }
    pthread_mutex_lock(&engine.log_lock);
    hth_log_line(engine.latest, here.level, "llama.cpp", "%s", text);
    pthread_mutex_unlock(&engine.log_lock);
}

/* Called by the engine, on any thread, with pieces of lines. */
static void receive_log(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)user_data; /* there is none */
    if (level != GGML_LOG_LEVEL_CONT) {
        if (here.n_line > 0)
            deliver_line();
        here.level = level == GGML_LOG_LEVEL_ERROR ? HEARTH_LOG_ERROR
                   : level == GGML_LOG_LEVEL_WARN  ? HEARTH_LOG_WARNING
                   : level == GGML_LOG_LEVEL_INFO  ? HEARTH_LOG_INFO
                                                   : HEARTH_LOG_DEBUG;
    }
    for (; *text; text++) {
        if (*text == '\n')
            deliver_line();
        else if (here.n_line < sizeof(here.line) - 1)
            here.line[here.n_line++] = *text;
    }
}

/* Called by the engine just before it ends the process. Not one of its own lines, which not everybody wants to see. */
static void receive_last_words(const char *message)
{
    if (here.log) {
        hth_log_line(here.log, HEARTH_LOG_ERROR, "hearth", "the engine ends this process: %s", message);
        return;
    }
    pthread_mutex_lock(&engine.log_lock);
    hth_log_line(engine.latest, HEARTH_LOG_ERROR, "hearth", "the engine ends this process: %s", message);
    pthread_mutex_unlock(&engine.log_lock);
}

/* To be called before anything that makes the engine talk. */
static void enter(const hth_log *log)
{
    here.log = log;
    here.n_line = 0;
    here.first_error[0] = '\0';
}

static void leave(void)
{
    if (here.n_line > 0)
        deliver_line();
    here.log = NULL;
}

/* What the engine said first since enter(), without its function's name; fallback when it said nothing. */
static const char *engine_reason(const char *fallback)
{
    const char *text = here.first_error;
    const char *colon = strchr(text, ':');

    if (!text[0])
        return fallback;
    for (const char *c = text; colon && c < colon; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            colon = NULL;
    if (colon) {
        text = colon + 1;
        text += strspn(text, " ");
    }
    if (strncmp(text, "error loading model: ", 21) == 0)
        text += 21;
    return text;
}

/* "CPU : SSE3 = 1 | AVX = 1 | " as "CPU:SSE3=1,AVX=1", without spaces since it becomes one word of the parameters. */
static void compact_features(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from == ' ')
            continue;
        if (*from == '|') {
            if (from[1] == ' ' && from[2])
                *to++ = ',';
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* The folder of this module, where engine libraries lie if they are separate. */
static void own_folder(char *folder, size_t capacity)
{
    static const char marker;
    Dl_info info;
    char *slash;

    folder[0] = '\0';
    if (!dladdr(&marker, &info) || !info.dli_fname || strlen(info.dli_fname) >= capacity)
        return;
    memcpy(folder, info.dli_fname, strlen(info.dli_fname) + 1);
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        folder[0] = '\0';
}

static hearth_status start_engine(hearth_error *err)
{
    char folder[PATH_BYTES];
    hearth_status status = HEARTH_OK;

    pthread_mutex_lock(&engine.start_lock);
    if (!engine.started) {
        own_folder(folder, sizeof(folder));
        status = hth_shim_init(receive_log, receive_last_words, folder[0] ? folder : NULL, err);
        if (status == HEARTH_OK)
            status = hth_shim_system_info(engine.features, sizeof(engine.features), err);
        compact_features(engine.features);
        hth_attention_start();
        engine.started = status == HEARTH_OK;
    }
    pthread_mutex_unlock(&engine.start_lock);
    return status;
}

static const char *build(void)
{
    return hth_shim_version();
}

static hearth_status devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    hearth_status status;

    if ((!out && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "devices need room");
    enter(NULL);
    status = start_engine(err);
    if (status == HEARTH_OK)
        status = hth_llama_devices_list(out, capacity, n_out, err);
    leave();
    return status;
}

/* ---- model ------------------------------------------------------------------------------------------------------- */

static hearth_status check_memory(uint64_t needed_bytes, const char *what, hearth_error *err)
{
    uint64_t available_bytes = hth_os_memory_available_bytes();

    if (available_bytes == 0 || needed_bytes <= available_bytes)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_NO_MEMORY, "%s needs %llu MiB of memory, %llu MiB are available", what,
                    (unsigned long long)(needed_bytes >> 20), (unsigned long long)(available_bytes >> 20));
}

/* Architectures of v0.5.0 whose cache has parts of its own kind: indexers, shared cells, chunked windows. */
static const char *const uncached_architectures[] = {
    "deepseek32",       "deepseek4", "dflash", "dots3note",  "eagle3",
    "gemma4-assistant", "glm-dsa",   "hy_v4",  "minimax-m3", "qwen4exp",
};

static hth_model_kind kind_of(const hth_shim_model_facts *facts)
{
    if (facts->has_encoder || !facts->has_decoder || facts->is_diffusion)
        return HTH_MODEL_UNCACHED;
    for (size_t i = 0; i < sizeof(uncached_architectures) / sizeof(uncached_architectures[0]); i++)
        if (strcmp(facts->architecture, uncached_architectures[i]) == 0)
            return HTH_MODEL_UNCACHED;
    if (facts->n_swa > 0 && strcmp(facts->architecture, "llama4") == 0) /* its windows are chunks */
        return HTH_MODEL_UNCACHED;
    if (facts->is_recurrent)
        return HTH_MODEL_RECURRENT;
    if (facts->is_hybrid)
        return HTH_MODEL_HYBRID;
    return facts->n_swa > 0 ? HTH_MODEL_WINDOW : HTH_MODEL_PLAIN;
}

/* Names as in the cache key's table of types. */
static const char *quant_type_name(enum llama_ftype ftype)
{
    switch ((int)ftype & ~(int)LLAMA_FTYPE_GUESSED) {
    case LLAMA_FTYPE_ALL_F32: return "f32";
    case LLAMA_FTYPE_MOSTLY_F16: return "f16";
    case LLAMA_FTYPE_MOSTLY_BF16: return "bf16";
    case LLAMA_FTYPE_MOSTLY_Q4_0: return "q4_0";
    case LLAMA_FTYPE_MOSTLY_Q4_1: return "q4_1";
    case LLAMA_FTYPE_MOSTLY_Q5_0: return "q5_0";
    case LLAMA_FTYPE_MOSTLY_Q5_1: return "q5_1";
    case LLAMA_FTYPE_MOSTLY_Q8_0: return "q8_0";
    case LLAMA_FTYPE_MOSTLY_Q2_K: return "q2_k";
    case LLAMA_FTYPE_MOSTLY_Q3_K_S: return "q3_k_s";
    case LLAMA_FTYPE_MOSTLY_Q3_K_M: return "q3_k_m";
    case LLAMA_FTYPE_MOSTLY_Q3_K_L: return "q3_k_l";
    case LLAMA_FTYPE_MOSTLY_Q4_K_S: return "q4_k_s";
    case LLAMA_FTYPE_MOSTLY_Q4_K_M: return "q4_k_m";
    case LLAMA_FTYPE_MOSTLY_Q5_K_S: return "q5_k_s";
    case LLAMA_FTYPE_MOSTLY_Q5_K_M: return "q5_k_m";
    case LLAMA_FTYPE_MOSTLY_Q6_K: return "q6_k";
    case LLAMA_FTYPE_MOSTLY_IQ1_S: return "iq1_s";
    case LLAMA_FTYPE_MOSTLY_IQ1_M: return "iq1_m";
    case LLAMA_FTYPE_MOSTLY_IQ2_XXS: return "iq2_xxs";
    case LLAMA_FTYPE_MOSTLY_IQ2_XS: return "iq2_xs";
    case LLAMA_FTYPE_MOSTLY_IQ2_S: return "iq2_s";
    case LLAMA_FTYPE_MOSTLY_IQ2_M: return "iq2_m";
    case LLAMA_FTYPE_MOSTLY_IQ3_XXS: return "iq3_xxs";
    case LLAMA_FTYPE_MOSTLY_IQ3_XS: return "iq3_xs";
    case LLAMA_FTYPE_MOSTLY_IQ3_S: return "iq3_s";
    case LLAMA_FTYPE_MOSTLY_IQ3_M: return "iq3_m";
    case LLAMA_FTYPE_MOSTLY_IQ4_NL: return "iq4_nl";
    case LLAMA_FTYPE_MOSTLY_IQ4_XS: return "iq4_xs";
    default: return "unknown";
    }
}

static void model_free(hth_engine_model *model)
{
    if (!model)
        return;
    enter(model->log);
    hth_texts_free(model->texts);
    hth_grammar_memo_free(model->grammars);
    hth_llama_chat_free(model->chat);
    if (model->llama)
        hth_shim_model_free(model->llama);
    hth_llama_devices_release(&model->devices);
    leave();
    pthread_mutex_lock(&engine.log_lock);
    if (engine.latest == model->log)
        engine.latest = NULL;
    pthread_mutex_unlock(&engine.log_lock);
    free(model);
}

typedef struct load_progress {
    const hth_engine_model_params *params;
    bool cancelled;
} load_progress;

static bool report_progress(float fraction, void *user_data)
{
    load_progress *progress = user_data;

    if (progress->params->progress && !progress->params->progress(fraction, progress->params->progress_user_data))
        progress->cancelled = true;
    return !progress->cancelled;
}

/*
 * Where its layers go. Without layers the engine would still give devices large batches; here it then has none, so that
 * what the key says of them is true. Where there is nothing to put layers on, it says nothing.
 */
static hearth_status pick_devices(hth_engine_model *model, const hth_engine_model_params *params, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (params->n_gpu_layers != 0)
        status = hth_llama_devices_pick(params->rpc_servers, &model->devices, err);
    if (status != HEARTH_OK)
        return status;
    model->on_gpu = model->devices.n > 0;
    model->n_gpu_layers = model->on_gpu ? params->n_gpu_layers : 0;
    model->is_mapped = !params->no_mmap;
    if (params->n_gpu_layers > 0 && !model->on_gpu)
        hth_warn(
            model->log,
            "there is no GPU for %d layers: the CPU computes them; an engine for GPUs is built with HEARTH_CUDA=1, "
            "HEARTH_VULKAN=1 or HEARTH_METAL=1 (`hearth version` shows what this one finds)",
            params->n_gpu_layers);
    return HEARTH_OK;
}

static hearth_status load_weights(hth_engine_model *model, const char *path, const hth_engine_model_params *params,
                                  hearth_error *err)
{
    load_progress progress = { .params = params };
    hearth_status status = hth_shim_model_load(path, model->devices.all, model->n_gpu_layers, params->no_mmap,
                                               report_progress, &progress, &model->llama, err);

    if (status == HEARTH_OK)
        return HEARTH_OK;
    if (progress.cancelled)
        return hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", path);
    if (status == HEARTH_ENGINE) {
        const char *reason = engine_reason("it does not say why");

        status = strstr(reason, "alloc")                      ? HEARTH_NO_MEMORY
               : strstr(reason, "unknown model architecture") ? HEARTH_UNSUPPORTED
                                                              : HEARTH_ENGINE;
        return hth_fail(err, status, "the engine cannot load '%s': %s", path, reason);
    }
    return status;
}

/* A template that the user gave must work; a broken one in the model only spoils chat. */
static hearth_status read_chat_template(hth_engine_model *model, const hth_engine_model_params *params,
                                        hearth_error *err)
{
    hearth_error problem = { .message = "" };
    hearth_status status = hth_llama_chat_new(model->llama, params->chat_template, &model->chat, &problem);

    model->chat_given = params->chat_template != NULL;
    if (status == HEARTH_OK && !model->chat && params->fallback_template && model->facts.has_vocabulary)
        model->chat_is_fallback =
            hth_llama_chat_new(model->llama, params->fallback_template, &model->chat, NULL) == HEARTH_OK;
    if (status == HEARTH_OK)
        return HEARTH_OK;
    if (model->chat_given)
        return hth_fail(err, HEARTH_MISUSE, "the given chat template cannot be used: %s", problem.message);
    (void)snprintf(model->chat_problem, sizeof(model->chat_problem), "%.255s", problem.message);
    hth_warn(model->log, "the model's chat template cannot be used: %s", problem.message);
    return HEARTH_OK;
}

static hearth_status text_of_token(const void *of, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    const hth_engine_model *model = of;
    int32_t n = -1;

    if (!model->facts.has_vocabulary ||
        hth_shim_piece(model->llama, token, false, bytes, (int32_t)capacity, &n, NULL) != HEARTH_OK || n < 0)
        return HEARTH_UNSUPPORTED;
    *n_out = (size_t)n;
    return HEARTH_OK;
}

static bool ends_reply(const void *of, hearth_token token)
{
    const hth_engine_model *model = of;

    return model->facts.has_vocabulary && hth_shim_is_end(model->llama, token);
}

static hearth_status prepare_texts(hth_engine_model *model, hearth_error *err)
{
    model->texts = hth_texts_new(&(hth_vocabulary_source){
        .n_tokens = (uint32_t)model->facts.n_vocab, .piece = text_of_token, .is_end = ends_reply, .model = model });
    model->grammars = hth_grammar_memo_new();
    return model->texts && model->grammars ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
}

static hearth_status model_load(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                hearth_error *err)
{
    hth_engine_model *model = NULL;
    hth_shim_file file = { 0 };
    hearth_status status;

    if (!path || !params || !params->log || !out)
        return hth_fail(err, HEARTH_MISUSE, "a model needs a path, parameters and a log");

    enter(params->log);
    status = start_engine(err);
    if (status == HEARTH_OK)
        status = hth_model_files_check(path, &file, err);
    if (status != HEARTH_OK)
        goto out;

    model = calloc(1, sizeof(*model));
    if (!model) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
        goto out;
    }
    model->log = params->log;
    model->has_long_rope_factors = file.has_long_rope_factors;
    status = pick_devices(model, params, err);
    if (status == HEARTH_OK && params->no_mmap && !model->on_gpu)
        status = check_memory(file.weight_bytes, "the model", err);
    if (status == HEARTH_OK)
        status = load_weights(model, path, params, err);
    if (status == HEARTH_OK)
        status = hth_shim_model_facts_read(model->llama, &model->facts, err);
    if (status == HEARTH_OK)
        status = prepare_texts(model, err);
    if (status == HEARTH_OK)
        status = read_chat_template(model, params, err);
    if (status != HEARTH_OK)
        goto out;
    /* Only its first file is fingerprinted, so two models that differ in another one would share rows. */
    atomic_init(&model->kind, (int)(file.split_count > 1 ? HTH_MODEL_UNCACHED : kind_of(&model->facts)));

    pthread_mutex_lock(&engine.log_lock);
    engine.latest = model->log;
    pthread_mutex_unlock(&engine.log_lock);
    *out = model;
    model = NULL;
out:
    leave();
    model_free(model);
    return status;
}

/* A number of the metadata, of any type; NAN: there is none. */
static float advised(const hth_engine_model *model, const char *key)
{
    char text[64], *end;
    double value;

    if (!hth_shim_model_meta(model->llama, key, text, sizeof(text)))
        return NAN;
    value = strtod(text, &end);
    return end == text || *end ? NAN : (float)value;
}

static hth_sampling_advice advice_of(const hth_engine_model *model)
{
    return (hth_sampling_advice){
        .temperature = advised(model, "general.sampling.temp"),
        .top_k = advised(model, "general.sampling.top_k"),
        .top_p = advised(model, "general.sampling.top_p"),
        .min_p = advised(model, "general.sampling.min_p"),
        .repeat_penalty = advised(model, "general.sampling.penalty_repeat"),
        .repeat_last_n = advised(model, "general.sampling.penalty_last_n"),
        .xtc_probability = advised(model, "general.sampling.xtc_probability"),
        .xtc_threshold = advised(model, "general.sampling.xtc_threshold"),
    };
}

static void model_info(const hth_engine_model *model, hth_engine_model_info *out)
{
    const hth_shim_model_facts *facts = &model->facts;
    const char *template_kind = model->chat_given                     ? "given"
                              : model->chat_is_fallback               ? "fallback"
                              : model->chat || model->chat_problem[0] ? "model"
                                                                      : "none";

    *out = (hth_engine_model_info){
        .kind = (hth_model_kind)atomic_load(&model->kind),
        .n_params = facts->n_params,
        .weight_bytes = facts->weight_bytes,
        .n_ctx_train = facts->n_ctx_train > 0 ? (uint32_t)facts->n_ctx_train : 0,
        .n_vocab = (uint32_t)facts->n_vocab,
        .n_layers = (uint32_t)facts->n_layers,
        .n_window = facts->n_swa > 0 && !facts->is_recurrent ? (uint32_t)facts->n_swa : 0,
        .advice = advice_of(model),
    };
    memcpy(out->architecture, facts->architecture, sizeof(out->architecture));
    memcpy(out->description, facts->description, sizeof(out->description));
    (void)snprintf(out->chat_template_kind, sizeof(out->chat_template_kind), "%s", template_kind); /* fits */
    (void)snprintf(out->quant_type, sizeof(out->quant_type), "%s", quant_type_name(facts->ftype)); /* fits */
}

static bool is_token(const hth_engine_model *model, hearth_token token)
{
    return token >= 0 && token < model->facts.n_vocab;
}

static hearth_status tokenize(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                              hearth_error *err)
{
    int32_t n = 0;
    hearth_status status;

    if (!model || (!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out || !result)
        return hth_fail(err, HEARTH_MISUSE, "tokenize needs a model, a text and room");
    if (n_bytes > INT32_MAX / 2)
        return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes is too long to tokenize", n_bytes);
    if (!model->facts.has_vocabulary)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; give it token ids");
    enter(model->log);
    status = hth_shim_tokenize(model->llama, text ? text : "", (int32_t)n_bytes, flags & HEARTH_TOKENIZE_BOS,
                               flags & HEARTH_TOKENIZE_SPECIAL, tokens,
                               capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity, &n, err);
    leave();
    if (status != HEARTH_OK)
        return status;
    if (n == INT32_MIN)
        return hth_fail(err, HEARTH_TOO_LONG, "a text of %zu bytes has too many tokens", n_bytes);
    *n_out = n < 0 ? (size_t)-n : (size_t)n;
    *result = n < 0 ? HTH_TOKENIZE_MORE_ROOM : HTH_TOKENIZE_OK;
    return HEARTH_OK;
}

static hearth_status piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                           size_t capacity, size_t *n_out, hearth_error *err)
{
    int32_t n = 0;
    hearth_status status;

    if (!model || (!bytes && capacity > 0) || !n_out || !is_token(model, token))
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (!model->facts.has_vocabulary)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; its tokens have no text");
    status = hth_shim_piece(model->llama, token, special, bytes, capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity,
                            &n, err);
    if (status != HEARTH_OK)
        return status;
    if (n < 0)
        return hth_fail(err, HEARTH_MISUSE, "the text of token %d needs %d bytes, not %zu", token, -n, capacity);
    *n_out = (size_t)n;
    return HEARTH_OK;
}

static bool is_end(const hth_engine_model *model, hearth_token token)
{
    return model && is_token(model, token) && hth_shim_is_end(model->llama, token);
}

static hearth_status check_template(const hth_engine_model *model, hearth_error *err)
{
    if (!model->chat && model->chat_problem[0])
        return hth_fail(err, HEARTH_ENGINE, "the model's chat template cannot be used: %s; give another one",
                        model->chat_problem);
    if (!model->chat)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no chat template; give one or use plain completion");
    return HEARTH_OK;
}

static hearth_status chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
                                 hearth_chat_prompt *out, hearth_error *err)
{
    hearth_status status;

    if (!model || !conversation || !out)
        return hth_fail(err, HEARTH_MISUSE, "a prompt needs a conversation");
    status = check_template(model, err);
    if (status != HEARTH_OK)
        return status;
    enter(model->log);
    status = hth_llama_chat_prompt(model->chat, conversation, out, err);
    leave();
    return status;
}

static hearth_status chat_render(const hth_engine_model *model, const hearth_chat_message *messages, size_t n_messages,
                                 char **text_out, hearth_error *err)
{
    hearth_status status;

    if (!model || !messages || n_messages == 0 || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "a chat needs at least one message");
    for (size_t i = 0; i < n_messages; i++)
        if (!messages[i].role || !messages[i].content)
            return hth_fail(err, HEARTH_MISUSE, "chat message %zu has no role or no content", i);
    status = check_template(model, err);
    if (status != HEARTH_OK)
        return status;
    enter(model->log);
    status = hth_llama_chat_render(model->chat, messages, n_messages, text_out, err);
    leave();
    return status;
}

/* ---- making a context -------------------------------------------------------------------------------------------- */

static bool type_by_name(const char *name, enum ggml_type *out)
{
    static const struct {
        const char *name;
        enum ggml_type type;
    } types[] = {
        { "f16", GGML_TYPE_F16 },   { "f32", GGML_TYPE_F32 },   { "bf16", GGML_TYPE_BF16 },
        { "q8_0", GGML_TYPE_Q8_0 }, { "q4_0", GGML_TYPE_Q4_0 }, { "q4_1", GGML_TYPE_Q4_1 },
        { "q5_0", GGML_TYPE_Q5_0 }, { "q5_1", GGML_TYPE_Q5_1 }, { "iq4_nl", GGML_TYPE_IQ4_NL },
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *out = types[i].type;
            return true;
        }
    }
    return false;
}

/* A number in the model's metadata under its architecture's name; fallback when there is none. */
static uint32_t model_number(const hth_engine_model *model, const char *key, uint32_t fallback)
{
    char full_key[128];
    char text[64];
    char *rest;
    unsigned long value;

    (void)snprintf(full_key, sizeof(full_key), "%s.%s", model->facts.architecture, key); /* fits */
    if (!hth_shim_model_meta(model->llama, full_key, text, sizeof(text)))
        return fallback;
    value = strtoul(text, &rest, 10);
    return rest == text || *rest || value > UINT32_MAX ? fallback : (uint32_t)value;
}

/* Of all layers, where each keeps keys and values of every cell. */
static double cell_bytes(const hth_engine_model *model, enum ggml_type type_k, enum ggml_type type_v)
{
    const hth_shim_model_facts *facts = &model->facts;
    uint32_t head_bytes_default = facts->n_head > 0 ? (uint32_t)(facts->n_embd / facts->n_head) : 0;
    double values_k = model_number(model, "attention.key_length", head_bytes_default);
    double values_v = model_number(model, "attention.value_length", head_bytes_default);

    return (values_k * (double)ggml_type_size(type_k) / (double)ggml_blck_size(type_k) +
            values_v * (double)ggml_type_size(type_v) / (double)ggml_blck_size(type_v)) *
           facts->n_head_kv * facts->n_layers;
}

/*
 * About how much memory the KV buffer takes, or 0 where that cannot be told from outside: some layers keep less, or the
 * buffer is not in this machine's main memory.
 */
static uint64_t kv_bytes(const hth_engine_model *model, const struct llama_context_params *params)
{
    if (atomic_load(&model->kind) != HTH_MODEL_PLAIN || model->on_gpu ||
        model_number(model, "attention.kv_lora_rank", 0) > 0)
        return 0;
    return (uint64_t)(cell_bytes(model, params->type_k, params->type_v) * params->n_ctx);
}

/* Of all layers, as if each kept every cell; types that are none count as f16. */
static void cell_room(const hth_engine_model *model, const char *type_k, const char *type_v, uint64_t *cell_bytes_out,
                      uint64_t *free_bytes_out, bool *is_device_out)
{
    enum ggml_type k = GGML_TYPE_F16, v = GGML_TYPE_F16;
    uint64_t weight_bytes = model->is_mapped ? model->facts.weight_bytes : 0, free_bytes;

    if (type_k)
        (void)type_by_name(type_k, &k);
    if (type_v)
        (void)type_by_name(type_v, &v);
    *cell_bytes_out = (uint64_t)cell_bytes(model, k, v);
    *is_device_out = model->on_gpu;
    if (model->on_gpu) {
        *free_bytes_out = hth_llama_devices_free_bytes(&model->devices);
        return;
    }
    /* Mapped weights are in the page cache, which counts as free; they are needed all the same. */
    free_bytes = hth_os_memory_available_bytes();
    *free_bytes_out = free_bytes > weight_bytes ? free_bytes - weight_bytes : 0;
}

/* Everything that decides what a cell's bytes mean. Models carry their own RoPE values; those are named as they are. */
static void write_params_text(hth_engine_context *context, const struct llama_context_params *params)
{
    static const char *const rope_keys[] = {
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scale_linear",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_log_multiplier",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    };
    const hth_engine_model *model = context->model;
    const char *rotation_off = getenv("LLAMA_ATTN_ROT_DISABLE");
    bool has_flash_attention = params->flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
    uint32_t n_ctx_original =
        model_number(model, "rope.scaling.original_context_length", (uint32_t)model->facts.n_ctx_train);
    const char *long_rope = !model->has_long_rope_factors        ? "none"
                          : context->info.n_ctx > n_ctx_original ? "long"
                                                                 : "short";
    char text[4096];
    size_t n;

    n = (size_t)snprintf(
        text, sizeof(text),
        "backend=llama.cpp build=%s features=%s gpu=%d%s%s rows=%d block=%u k=%s v=%s fa=%d%s unified=1 "
        "repack=%d panel=%d rotate=%d longrope=%s rope_type=%d freq_scale=%a",
        hth_shim_version(), engine.features, model->n_gpu_layers, model->on_gpu ? " devices=" : "", model->devices.word,
        atomic_load(&model->kind) == HTH_MODEL_PLAIN ? ROW_FORMAT_PLAIN : ROW_FORMAT, HTH_BLOCK_TOKENS,
        ggml_type_name(params->type_k), ggml_type_name(params->type_v), has_flash_attention,
        has_flash_attention && hth_attention_is_on() ? " attn=own" : "", !model->on_gpu,
        getenv("GGML_NO_IQ_PANEL") == NULL, !(rotation_off && strtol(rotation_off, NULL, 10) != 0), long_rope,
        model->facts.rope_type, (double)model->facts.rope_freq_scale);
    for (size_t i = 0; i < sizeof(rope_keys) / sizeof(rope_keys[0]) && n < sizeof(text); i++) {
        char key[128];
        char value[128];

        (void)snprintf(key, sizeof(key), "%s.%s", model->facts.architecture, rope_keys[i]); /* fits */
        if (hth_shim_model_meta(model->llama, key, value, sizeof(value)))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %s=%s", rope_keys[i], value);
    }
    if (n < sizeof(context->info.params_text)) {
        memcpy(context->info.params_text, text, n + 1);
    } else {
        uint8_t digest[HTH_SHA256_BYTES];
        char hex[2 * HTH_SHA256_BYTES + 1];

        hth_sha256_of(text, n < sizeof(text) ? n : sizeof(text) - 1, digest);
        hth_hex_encode(digest, sizeof(digest), hex);
        (void)snprintf(context->info.params_text, sizeof(context->info.params_text),
                       "backend=llama.cpp build=%s sha256=%s", hth_shim_version(), hex); /* fits */
    }
}

static hth_blob_format format_of(const hth_engine_model *model)
{
    hth_model_kind kind = (hth_model_kind)atomic_load(&model->kind);
    int32_t rope_type = model->facts.rope_type;

    return (hth_blob_format){
        .has_attention = kind != HTH_MODEL_RECURRENT,
        .has_window = kind != HTH_MODEL_RECURRENT && model->facts.n_swa > 0,
        .has_recurrent = kind == HTH_MODEL_RECURRENT || kind == HTH_MODEL_HYBRID,
        .has_cell_ext = rope_type == LLAMA_ROPE_TYPE_MROPE || rope_type == LLAMA_ROPE_TYPE_IMROPE,
        .may_lack_v = model_number(model, "attention.key_length_mla", 0) > 0,
        .n_window = model->facts.n_swa > 0 ? (uint32_t)model->facts.n_swa : 0,
    };
}

static void context_free(hth_engine_context *context)
{
    if (!context)
        return;
    if (context->llama) {
        enter(context->model->log);
        hth_shim_context_free(context->llama);
        leave();
    }
    free(context->held);
    free(context->empty_rest);
    free(context->bounce);
    free(context->next);
    free(context->sequences);
    free(context->batch.token);
    free(context->batch.pos);
    free(context->batch.n_seq_id);
    free(context->batch.seq_id);
    free(context->batch.logits);
    free(context);
}

static hearth_status allocate_arrays(hth_engine_context *context, hearth_error *err)
{
    size_t n = context->info.n_batch;
    struct llama_batch *batch = &context->batch;

    context->held = calloc(context->info.n_seq_max, sizeof(context->held[0]));
    context->next = calloc(context->info.n_seq_max, sizeof(context->next[0]));
    context->sequences = calloc(n, sizeof(context->sequences[0]));
    batch->token = calloc(n, sizeof(batch->token[0]));
    batch->pos = calloc(n, sizeof(batch->pos[0]));
    batch->n_seq_id = calloc(n, sizeof(batch->n_seq_id[0]));
    batch->seq_id = calloc(n, sizeof(batch->seq_id[0]));
    batch->logits = calloc(n, sizeof(batch->logits[0]));
    if (!context->held || !context->next || !context->sequences || !batch->token || !batch->pos || !batch->n_seq_id ||
        !batch->seq_id || !batch->logits)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for batches of %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        batch->n_seq_id[i] = 1;
        batch->seq_id[i] = &context->sequences[i];
    }
    return HEARTH_OK;
}

static hearth_status fill_params(const hth_engine_model *model, const hth_engine_context_params *params,
                                 struct llama_context_params *out, hearth_error *err)
{
    const char *type_k = params->type_k ? params->type_k : "f16";
    const char *type_v = params->type_v ? params->type_v : "f16";
    uint32_t n_ctx = params->n_ctx ? params->n_ctx : (uint32_t)model->facts.n_ctx_train;
    uint32_t n_threads = params->n_threads ? params->n_threads : hth_os_n_cpus();
    hearth_status status = hth_shim_context_defaults(out, err);

    if (status != HEARTH_OK)
        return status;
    if (n_ctx < 1 || n_ctx > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "n_ctx is %u; it must be 1 to %d", n_ctx, INT32_MAX / 2);
    if (params->n_batch < 1 || params->n_batch > 1u << 16)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be 1 to %u", params->n_batch, 1u << 16);
    if (params->n_seq_max < 1 || params->n_seq_max > 256)
        return hth_fail(err, HEARTH_MISUSE, "n_seq_max is %u; it must be 1 to 256", params->n_seq_max);
    if (n_threads > 1024)
        return hth_fail(err, HEARTH_MISUSE, "n_threads is %u; it must be at most 1024", n_threads);
    if (!type_by_name(type_k, &out->type_k) || !type_by_name(type_v, &out->type_v))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%s' is no type for the KV cache: f16, f32, bf16, q8_0, q5_0, q5_1, q4_0, q4_1 and iq4_nl are",
                        type_by_name(type_k, &out->type_k) ? type_v : type_k);
    /* The engine rounds up to that anyway, but only after it has bounded the batch by what was asked for. */
    out->n_ctx = (n_ctx + N_CTX_STEP - 1) / N_CTX_STEP * N_CTX_STEP;
    /* It aborts where a batch has no place for one row of every sequence; decode() keeps to what was asked for. */
    out->n_batch = params->n_batch > params->n_seq_max ? params->n_batch : params->n_seq_max;
    out->n_ubatch = out->n_batch < N_UBATCH_MAX ? out->n_batch : N_UBATCH_MAX;
    out->n_seq_max = params->n_seq_max;
    out->n_threads = (int32_t)n_threads;
    out->n_threads_batch = (int32_t)n_threads;
    /* Not "auto": what it resolves to cannot be asked for, and it belongs into the parameters' hash. */
    out->flash_attn_type =
        strcmp(model->facts.architecture, "grok") == 0 ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
    out->abort_callback = params->abort;
    out->abort_callback_data = params->abort_user_data;
    out->embeddings = false;
    out->no_perf = true;
    out->swa_full = false;
    out->kv_unified = true;
    return HEARTH_OK;
}

/* With flash attention, or without where the engine refuses that. */
static hearth_status make_context(hth_engine_context *context, struct llama_context_params *params, hearth_error *err)
{
    hearth_status status = hth_shim_context_new(context->model->llama, params, &context->llama, err);
    char reason[256];

    if (status != HEARTH_ENGINE)
        return status;
    (void)snprintf(reason, sizeof(reason), "%s", engine_reason("it does not say why")); /* cut when too long */
    if (params->flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED && !strstr(reason, "alloc")) {
        params->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        status = hth_shim_context_new(context->model->llama, params, &context->llama, NULL);
        if (status == HEARTH_OK)
            hth_warn(context->model->log, "flash attention is off, the engine refused it: %s", reason);
    }
    if (status == HEARTH_ENGINE)
        status = hth_fail(err, strstr(reason, "alloc") ? HEARTH_NO_MEMORY : HEARTH_ENGINE,
                          "the engine cannot make a context of %u tokens: %s", params->n_ctx, reason);
    return status;
}

/* Sequence 0 is empty: keep what its partial state looks like. */
static hearth_status learn_empty_rest(hth_engine_context *context, hearth_error *err)
{
    size_t n_bytes = hth_shim_state_size(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);

    context->empty_rest = malloc(n_bytes ? n_bytes : 1);
    if (!context->empty_rest)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of state", n_bytes);
    if (n_bytes == 0 || hth_shim_state_get(context->llama, 0, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, context->empty_rest,
                                           n_bytes) != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine does not write the state of an empty sequence");
    context->empty_rest_bytes = n_bytes;
    return HEARTH_OK;
}

static hearth_status context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                 hth_engine_context **out, hearth_error *err)
{
    struct llama_context_params llama_params;
    hth_engine_context *context;
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "a context needs a model and parameters");
    if (model->facts.has_encoder || !model->facts.has_decoder || model->facts.is_diffusion)
        return hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                        model->facts.architecture);
    context = calloc(1, sizeof(*context));
    if (!context)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a context");
    context->model = model;
    context->format = format_of(model);

    enter(model->log);
    status = fill_params(model, params, &llama_params, err);
    if (status == HEARTH_OK)
        status = check_memory(kv_bytes(model, &llama_params), "the context", err);
    if (status == HEARTH_OK)
        status = make_context(context, &llama_params, err);
    leave();
    if (status == HEARTH_OK && !hth_shim_has_memory(context->llama))
        status = hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' do not generate text token by token",
                          model->facts.architecture);
    if (status == HEARTH_OK) {
        hth_shim_context_sizes(context->llama, &context->info.n_ctx, &context->info.n_batch, &context->info.n_seq_max);
        if (context->info.n_batch > params->n_batch)
            context->info.n_batch = params->n_batch;
        status = allocate_arrays(context, err);
    }
    if (status == HEARTH_OK && atomic_load(&model->kind) == HTH_MODEL_HYBRID)
        status = learn_empty_rest(context, err);
    if (status != HEARTH_OK) {
        context_free(context);
        return status;
    }
    write_params_text(context, &llama_params);
    *out = context;
    return HEARTH_OK;
}

/*
 * With our own attention a row pays for the mask that the engine fills, a copy of the row before, and that is read once;
 * a sequence's first row for the cells that the engine looks at one by one. Elsewhere attention itself may look at all
 * cells, and its rows cost too little on a fast device to tell: few idle cells are right there, whatever they cost.
 */
static hth_idle_cost idle_cost(const hth_engine_model *model)
{
    bool is_ours = hth_attention_is_on() && !model->on_gpu;

    return (hth_idle_cost){
        .row_ps = is_ours ? IDLE_ROW_PS : 0,
        .sequence_ps = is_ours ? IDLE_SEQUENCE_PS : 0,
        .cells_max = IDLE_CELLS_MAX,
    };
}

static void context_info(const hth_engine_context *context, hth_engine_context_info *out)
{
    *out = context->info;
    out->idle_cost = idle_cost(context->model);
}

/* ---- evaluating -------------------------------------------------------------------------------------------------- */

static bool is_sequence(const hth_engine_context *context, uint32_t id)
{
    return id < context->info.n_seq_max;
}

static hth_model_kind kind(const hth_engine_context *context)
{
    return (hth_model_kind)atomic_load(&context->model->kind);
}

/* The first of the positions before end that a layer with a window keeps. */
static uint32_t window_begin(const hth_engine_context *context, uint32_t end)
{
    return end > context->format.n_window ? end - context->format.n_window : 0;
}

/* Has the sequence all that its next token depends on? An empty one has. */
static bool is_whole(const hth_engine_context *context, uint32_t id)
{
    const holding *held = &context->held[id];

    if (kind(context) == HTH_MODEL_PLAIN)
        return true; /* its blocks are complete as they are */
    return held->begin == 0 && (!context->format.has_recurrent || held->rest_end == held->end) &&
           (!context->format.has_window || held->window_begin <= window_begin(context, held->end));
}

/* Ask the engine what a sequence holds, after something that is not exact about it. */
static void refresh(hth_engine_context *context, uint32_t id)
{
    llama_pos last = hth_shim_seq_pos_max(context->llama, (llama_seq_id)id);
    llama_pos first = hth_shim_seq_pos_min(context->llama, (llama_seq_id)id);

    context->held[id].end = last < 0 ? 0 : (uint32_t)last + 1;
    context->held[id].begin = last < 0 || first < 0 ? 0 : (uint32_t)first;
}

static void empty(hth_engine_context *context, uint32_t id)
{
    (void)hth_shim_seq_remove(context->llama, (llama_seq_id)id, -1, -1); /* whole sequences can always be removed */
    context->held[id] = (holding){ .end = 0 };
}

static hearth_status fill_batch(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                hearth_error *err)
{
    for (uint32_t i = 0; i < context->info.n_seq_max; i++)
        context->next[i] = context->held[i].end;
    for (size_t i = 0; i < n_rows; i++) {
        const hth_batch_row *row = &rows[i];

        if (!is_token(context->model, row->token))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has token %d, which is not in the vocabulary of %d", i,
                            row->token, context->model->facts.n_vocab);
        if (!is_sequence(context, row->sequence))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u; there are %u", i, row->sequence,
                            context->info.n_seq_max);
        if (!is_whole(context, row->sequence))
            return hth_fail(err, HEARTH_MISUSE, "row %zu has sequence %u, a part of whose state is missing", i,
                            row->sequence);
        if (row->position != context->next[row->sequence])
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u of sequence %u, whose next one is %u", i,
                            row->position, row->sequence, context->next[row->sequence]);
        if (row->position >= INT32_MAX - 1)
            return hth_fail(err, HEARTH_MISUSE, "row %zu has position %u, which is too high", i, row->position);
        context->next[row->sequence]++;
        context->batch.token[i] = row->token;
        context->batch.pos[i] = (llama_pos)row->position;
        context->batch.logits[i] = row->wants_logits;
        context->sequences[i] = (llama_seq_id)row->sequence;
    }
    context->batch.n_tokens = (int32_t)n_rows;
    return HEARTH_OK;
}

static hearth_status decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                            hth_decode_result *result, hearth_error *err)
{
    int32_t answer = 0;
    hearth_status status;

    if (!context || !rows || !result)
        return hth_fail(err, HEARTH_MISUSE, "decode needs a context and rows");
    context->n_rows = 0;
    if (n_rows < 1 || n_rows > context->info.n_batch)
        return hth_fail(err, HEARTH_MISUSE, "a batch of %zu rows; 1 to %u can be evaluated at once", n_rows,
                        context->info.n_batch);
    status = fill_batch(context, rows, n_rows, err);
    if (status != HEARTH_OK)
        return status;

    enter(context->model->log);
    status = hth_shim_decode(context->llama, context->batch, &answer, err);
    if (status == HEARTH_OK && (answer < 0 || answer > 2))
        status = hth_fail(err, HEARTH_ENGINE, "the engine failed to evaluate %zu tokens (%d): %s", n_rows, answer,
                          engine_reason("it does not say why"));
    leave();
    if (status == HEARTH_OK && answer == 0) {
        for (size_t i = 0; i < n_rows; i++) {
            holding *grown = &context->held[rows[i].sequence];

            grown->end = context->next[rows[i].sequence];
            grown->rest_end = context->format.has_recurrent ? grown->end : 0;
        }
        context->n_rows = n_rows;
        *result = HTH_DECODE_OK;
        return HEARTH_OK;
    }
    for (size_t i = 0; i < n_rows && (status != HEARTH_OK || answer != 1); i++) {
        if (kind(context) == HTH_MODEL_PLAIN)
            refresh(context, rows[i].sequence);
        else
            empty(context, rows[i].sequence); /* what it would be continued from is nowhere any more */
    }
    if (status == HEARTH_OK)
        *result = answer == 1 ? HTH_DECODE_NO_ROOM : HTH_DECODE_ABORTED;
    return status;
}

static const float *logits(hth_engine_context *context, size_t row)
{
    if (!context || row >= context->n_rows || !context->batch.logits[row])
        return NULL;
    return hth_shim_logits(context->llama, (int32_t)row);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static bool seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    if (!context || !is_sequence(context, id))
        return false;
    if (begin == 0 && end >= context->held[id].end) {
        empty(context, id);
        return true;
    }
    if (begin >= end || begin >= context->held[id].end)
        return true;
    /* The engine would say true and be silently wrong, or leave the recurrent state as it is. */
    if (kind(context) != HTH_MODEL_PLAIN)
        return false;
    if (end > context->held[id].end)
        end = context->held[id].end;
    if (!hth_shim_seq_remove(context->llama, (llama_seq_id)id, (llama_pos)begin, (llama_pos)end))
        return false;
    refresh(context, id);
    return true;
}

/* Take the recurrent state away that came with a range of cells. */
static hearth_status drop_rest(hth_engine_context *context, uint32_t id, hearth_error *err)
{
    if (hth_shim_state_set(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY, context->empty_rest,
                           context->empty_rest_bytes) == context->empty_rest_bytes)
        return HEARTH_OK;
    empty(context, id);
    return hth_fail(err, HEARTH_ENGINE, "the engine does not give up the recurrent state of sequence %u", id);
}

/* What to holds once it has the cells [begin, end) of from. The window's older cells count as gone: they may be. */
static void note_copied(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end)
{
    uint32_t first = window_begin(context, context->held[from].end);
    holding *held = &context->held[to];

    if (first < context->held[from].window_begin)
        first = context->held[from].window_begin;
    if (first > end)
        first = end;
    if (held->end == 0) {
        held->begin = begin;
        held->window_begin = first > begin ? first : begin;
    } else if (first > begin) {
        held->window_begin = first; /* a gap: what came before it does not count any more */
    }
    held->end = end;
    held->rest_end = 0;
}

static hearth_status seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                              hearth_error *err)
{
    const holding *source, *target;
    hearth_status status;

    if (!context || !is_sequence(context, from) || !is_sequence(context, to) || from == to)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy sequence %u to %u", from, to);
    if (kind(context) == HTH_MODEL_RECURRENT || kind(context) == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_MISUSE, "sequences of this kind of model have no cells to share");
    source = &context->held[from];
    target = &context->held[to];
    if (begin >= end || begin < source->begin || end > source->end)
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u of sequence %u, which holds %u .. %u",
                        begin, end, from, source->begin, source->end);
    if ((target->end > begin && target->begin < end) ||
        (kind(context) != HTH_MODEL_PLAIN && target->end != 0 && target->end != begin))
        return hth_fail(err, HEARTH_MISUSE, "cannot copy positions %u .. %u to sequence %u, which holds %u .. %u",
                        begin, end, to, target->begin, target->end);
    status =
        hth_shim_seq_copy(context->llama, (llama_seq_id)from, (llama_seq_id)to, (llama_pos)begin, (llama_pos)end, err);
    if (kind(context) == HTH_MODEL_PLAIN) {
        refresh(context, to);
    } else if (status != HEARTH_OK) {
        empty(context, to);
    } else {
        note_copied(context, from, to, begin, end);
        if (context->format.has_recurrent)
            status = drop_rest(context, to, err);
    }
    return status;
}

static uint32_t seq_end(hth_engine_context *context, uint32_t id)
{
    return context && is_sequence(context, id) && is_whole(context, id) ? context->held[id].end : 0;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

static bool has_part(const hth_engine_context *context, hth_state_part part)
{
    switch (part) {
    case HTH_STATE_CELLS: return context->format.has_attention;
    case HTH_STATE_CELLS_BARE: return context->format.has_window && !context->format.has_recurrent;
    case HTH_STATE_REST: return context->format.has_recurrent;
    }
    return false;
}

/* Does the sequence hold the part, and hold it so that the engine writes nothing else? */
static bool can_get(const hth_engine_context *context, uint32_t id, hth_state_part part)
{
    const holding *held;

    if (!is_sequence(context, id) || context->held[id].end == 0 || part == HTH_STATE_CELLS_BARE ||
        !has_part(context, part) || kind(context) == HTH_MODEL_UNCACHED)
        return false;
    held = &context->held[id];
    if (part == HTH_STATE_REST)
        return is_whole(context, id);
    if (context->format.has_recurrent)
        return held->rest_end == 0;
    return !context->format.has_window || held->window_begin <= held->begin ||
           held->window_begin <= window_begin(context, held->end);
}

static size_t state_size(hth_engine_context *context, uint32_t id, hth_state_part part)
{
    size_t whole, partial;

    if (!context || !can_get(context, id, part))
        return 0;
    if (part == HTH_STATE_REST)
        return hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    whole = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE);
    if (!context->format.has_window || !context->format.has_recurrent || whole == 0)
        return whole;
    /* The window's cells go: the partial state has them, and that of an empty sequence has the same without them. */
    partial = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    return partial == 0 || partial > whole ? 0 : whole - partial + context->empty_rest_bytes;
}

static hearth_status grow_bounce(hth_engine_context *context, size_t n_bytes, hearth_error *err)
{
    uint8_t *grown;

    if (n_bytes <= context->bounce_bytes)
        return HEARTH_OK;
    grown = realloc(context->bounce, n_bytes);
    if (!grown)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of state", n_bytes);
    context->bounce = grown;
    context->bounce_bytes = n_bytes;
    return HEARTH_OK;
}

/* What the engine wrote must be what it would be given back. */
static hearth_status check_own_blob(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                                    size_t n_bytes, hearth_error *err)
{
    hth_blob_format format = hth_blob_part_format(&context->format, part);
    uint32_t begin = part == HTH_STATE_REST ? 0 : context->held[id].begin;
    bool *known = &context->layout_known[part == HTH_STATE_REST];
    hth_blob_layout *layout = &context->layouts[part == HTH_STATE_REST];
    hearth_error problem = { .message = "" };
    hearth_status status =
        hth_blob_parse(&format, bytes, n_bytes, begin, context->held[id].end, &context->parsed, &problem);

    if (status == HEARTH_NO_MEMORY)
        return hth_fail(err, status, "%s", problem.message);
    if (status == HEARTH_OK && *known && !hth_blob_layout_equal(&context->parsed, layout))
        return hth_fail(err, HEARTH_ENGINE, "the engine wrote sequence %u with other layers than before", id);
    if (status == HEARTH_OK) {
        *layout = context->parsed;
        *known = true;
        return HEARTH_OK;
    }
    if (!*known) {
        atomic_store(&context->model->kind, (int)HTH_MODEL_UNCACHED);
        hth_warn(context->model->log, "nothing is cached for architecture '%s': its state has an unknown form (%s)",
                 context->model->facts.architecture, problem.message);
    }
    return hth_fail(err, HEARTH_ENGINE, "the engine wrote sequence %u in an unexpected form: %s", id, problem.message);
}

/* The cells of a model with a window and recurrent layers: the engine writes the window's along with them. */
static size_t get_bare(hth_engine_context *context, uint32_t id, uint8_t *bytes, size_t n_bytes)
{
    size_t n_whole = hth_shim_state_size(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE);
    hth_blob_format format = hth_blob_part_format(&context->format, HTH_STATE_CELLS);

    format.window_is_empty = false;
    if (n_whole == 0 || grow_bounce(context, n_whole, NULL) != HEARTH_OK ||
        hth_shim_state_get(context->llama, (llama_seq_id)id, LLAMA_STATE_SEQ_FLAGS_NONE, context->bounce, n_whole) !=
            n_whole ||
        hth_blob_parse(&format, context->bounce, n_whole, context->held[id].begin, context->held[id].end,
                       &context->parsed, NULL) != HEARTH_OK ||
        hth_blob_bare_bytes(&context->parsed, n_whole) != n_bytes)
        return 0;
    hth_blob_write_bare(&context->parsed, context->bounce, n_whole, bytes);
    return n_bytes;
}

static hearth_status state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                               size_t capacity, size_t *n_out, hearth_error *err)
{
    size_t n_bytes, n_written;
    hearth_status status;

    if (!context || !bytes || !n_out || !is_sequence(context, id) || context->held[id].end == 0)
        return hth_fail(err, HEARTH_MISUSE, "sequence %u has no state to get", id);
    if (kind(context) == HTH_MODEL_UNCACHED)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the state of this kind of model cannot be cut");
    if (!can_get(context, id, part))
        return hth_fail(err, HEARTH_MISUSE, "sequence %u does not hold that part of its state alone", id);
    enter(context->model->log);
    n_bytes = state_size(context, id, part);
    if (n_bytes > capacity)
        n_written = 0;
    else if (part == HTH_STATE_CELLS && context->format.has_window && context->format.has_recurrent)
        n_written = get_bare(context, id, bytes, n_bytes);
    else
        n_written = hth_shim_state_get(
            context->llama, (llama_seq_id)id,
            part == HTH_STATE_REST ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE, bytes, n_bytes);
    if (n_bytes > capacity)
        status =
            hth_fail(err, HEARTH_MISUSE, "the state of sequence %u needs %zu bytes, not %zu", id, n_bytes, capacity);
    else if (n_written == 0 || n_written != n_bytes)
        status = hth_fail(err, HEARTH_ENGINE, "the engine wrote %zu of %zu bytes of sequence %u: %s", n_written,
                          n_bytes, id, engine_reason("it does not say why"));
    else
        status = check_own_blob(context, id, part, bytes, n_bytes, err);
    leave();
    if (status == HEARTH_OK)
        *n_out = n_bytes;
    return status;
}

/* Give the engine a checked blob. Of HTH_MODEL_HYBRID it cannot tell where cells alone end. */
static hearth_status give_blob(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                               size_t n_bytes, uint32_t end, hearth_error *err)
{
    llama_state_seq_flags flags =
        part == HTH_STATE_REST ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
    bool is_told = part == HTH_STATE_REST || (part == HTH_STATE_CELLS && !context->format.has_recurrent);
    size_t n_taken = hth_shim_state_set(context->llama, (llama_seq_id)id, flags, bytes, n_bytes);

    if (n_taken != n_bytes)
        return hth_fail(err, HEARTH_ENGINE, "the engine took %zu of %zu bytes of state: %s", n_taken, n_bytes,
                        engine_reason("it does not say why"));
    if (is_told && hth_shim_seq_pos_max(context->llama, (llama_seq_id)id) != (llama_pos)(end - 1))
        return hth_fail(err, HEARTH_ENGINE, "sequence %u ends at %d after restoring up to %u", id,
                        hth_shim_seq_pos_max(context->llama, (llama_seq_id)id), end);
    return HEARTH_OK;
}

/* Is there something that the rest can be added to? */
static bool can_take_rest(const hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end)
{
    const holding *held = &context->held[id];

    return begin == 0 && (!context->format.has_attention || (held->begin == 0 && held->end == end));
}

static void note_set(hth_engine_context *context, uint32_t id, hth_state_part part, uint32_t begin, uint32_t end)
{
    uint32_t first = window_begin(context, end);
    holding *held = &context->held[id];

    held->begin = begin;
    held->end = end;
    held->rest_end = part == HTH_STATE_REST ? end : 0;
    if (part == HTH_STATE_CELLS_BARE || (part == HTH_STATE_CELLS && context->format.has_recurrent))
        held->window_begin = end;
    else
        held->window_begin = first > begin ? first : begin;
}

static hearth_status state_set(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                               size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err)
{
    hth_state_part stored = part == HTH_STATE_CELLS_BARE ? HTH_STATE_CELLS : part;
    bool is_rest = part == HTH_STATE_REST;
    hth_blob_format format;
    hearth_status status;

    if (!context || !bytes || !is_sequence(context, id) || begin >= end || end > INT32_MAX / 2)
        return hth_fail(err, HEARTH_MISUSE, "cannot set positions %u .. %u of sequence %u", begin, end, id);
    if (kind(context) == HTH_MODEL_UNCACHED) {
        empty(context, id);
        return hth_fail(err, HEARTH_UNSUPPORTED, "the state of this kind of model cannot be restored");
    }
    if (!has_part(context, part) || (is_rest && !can_take_rest(context, id, begin, end))) {
        empty(context, id);
        return hth_fail(err, HEARTH_MISUSE, "sequence %u cannot take that part of a state of %u .. %u", id, begin, end);
    }
    if (!is_rest || !context->format.has_attention)
        empty(context, id);
    format = hth_blob_part_format(&context->format, stored);
    status = hth_blob_parse(&format, bytes, n_bytes, begin, end, &context->parsed, err);
    if (status == HEARTH_OK && context->layout_known[is_rest] &&
        !hth_blob_layout_equal(&context->parsed, &context->layouts[is_rest]))
        status = hth_fail(err, HEARTH_CORRUPT, "state blob has other layers than this context");
    if (status == HEARTH_OK && part == HTH_STATE_CELLS_BARE) {
        size_t n_bare = hth_blob_bare_bytes(&context->parsed, n_bytes);

        status = grow_bounce(context, n_bare, err);
        if (status == HEARTH_OK) {
            hth_blob_write_bare(&context->parsed, bytes, n_bytes, context->bounce);
            bytes = context->bounce;
            n_bytes = n_bare;
        }
    }
    if (status == HEARTH_OK) {
        enter(context->model->log);
        status = give_blob(context, id, part, bytes, n_bytes, end, err);
        leave();
    }
    if (status != HEARTH_OK) {
        empty(context, id);
        return status;
    }
    note_set(context, id, part, begin, end);
    if (part == stored) { /* the engine took it, so its layers are this context's */
        context->layouts[is_rest] = context->parsed;
        context->layout_known[is_rest] = true;
    }
    return HEARTH_OK;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

static hearth_status sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err)
{
    hearth_status status;

    if (!model || !sampling || !out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs a model and options");
    if (!model->facts.has_vocabulary && hth_sampler_needs_text(sampling))
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; it cannot follow a grammar or use DRY");
    enter(model->log);
    status = hth_llama_sampler_new(model->llama, model->texts, model->grammars, sampling, out, err);
    leave();
    return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

HEARTH_API const hth_backend *hearth_backend(void);

const hth_backend *hearth_backend(void)
{
    static const hth_backend llama = {
        .abi = HTH_BACKEND_ABI,
        .name = "llama.cpp",
        .build = build,
        .devices = devices,
        .model_load = model_load,
        .model_free = model_free,
        .model_info = model_info,
        .cell_room = cell_room,
        .tokenize = tokenize,
        .piece = piece,
        .is_end = is_end,
        .chat_render = chat_render,
        .chat_prompt = chat_prompt,
        .chat_reader_new = hth_backend_llama_chat_reader_new,
        .chat_reader_free = hth_backend_llama_chat_reader_free,
        .chat_read = hth_backend_llama_chat_read,
        .context_new = context_new,
        .context_free = context_free,
        .context_info = context_info,
        .decode = decode,
        .logits = logits,
        .seq_remove = seq_remove,
        .seq_copy = seq_copy,
        .seq_end = seq_end,
        .state_size = state_size,
        .state_get = state_get,
        .state_set = state_set,
        .sampler_new = sampler_new,
        .sampler_new_like = hth_sampler_new_like,
        .sampler_free = hth_sampler_free,
        .sampler_accept = hth_sampler_accept,
        .sampler_apply = hth_sampler_apply,
    };

    return &llama;
}
