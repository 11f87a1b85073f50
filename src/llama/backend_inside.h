/*
 * backend_inside.h - shared by the files of the llama.cpp backend
 *
 *   backend.c           the table, and the rules for all files; models, their tokens, texts, chats and samplers
 *   backend_engine.c    the engine as a whole: its start, its log, its devices
 *   backend_settings.c  facts from its metadata; the engine's contexts, with the model's options
 *   backend_weights.c   repacked weights that processes share
 *   backend_adapter.c   LoRA adapters, and those that a context applies
 *   backend_control.c   control vectors, which all contexts apply
 *   backend_context.c   contexts: evaluation, the contents and the state of each sequence, settings
 *   backend_embedder.c  vectors of inputs, in a separate context
 *   backend_writer.c    types of model files, and writing them
 *   model_files.c       checks that a model's files are whole
 */
#ifndef HTH_LLAMA_BACKEND_INSIDE_H
#define HTH_LLAMA_BACKEND_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/vocabulary.h"
#include "grammar/grammar_memo.h"
#include "llama/llama_shim.h"

typedef struct hth_llama_applied hth_llama_applied;

struct hth_engine_model {
    struct llama_model *llama;
    const struct llama_vocab *vocabulary;
    char *path;
    const hth_log *log;
    hth_llama_chat *chat;   /* NULL: no template, or one that cannot be read */
    char chat_problem[256]; /* the reason */
    bool chat_given;
    bool chat_is_fallback;
    bool is_mapped;  /* weights are mapped from the file */
    bool no_weights; /* only the metadata was read */
    atomic_int kind; /* hth_model_kind */
    bool has_long_rope_factors;
    bool has_classifier;
    bool has_iq_experts;
    hth_llama_devices devices;
    hearth_engine_options options; /* without pointers */
    hth_llama_placement *placement;
    bool on_gpu;                /* the model has devices */
    int32_t n_gpu_layers;       /* 0 without devices; in ctx_params_hash, because devices round differently */
    hth_engine_model_info info; /* without the kind */
    hth_shim_model_facts facts;
    hth_shim_control_sum control; /* of its control vectors */
    hth_texts *texts;
    hth_llama_slices *slices; /* NULL: the model has no vocabulary */
    hth_grammar_memo *grammars;

    /*
     * Hold the turnstile only while waiting for the lock, which guards the engine's list of adapters and these fields:
     */
    pthread_mutex_t turnstile;
    pthread_rwlock_t adapters_lock;
    hth_llama_applied *applied; /* by the contexts */
    uint64_t n_adapter_pairs;   /* of all adapters in the engine's list */

    _Atomic(hth_engine_adapter *) gone; /* adapters to be freed under the lock */
};

/* The adapters that one of the engine's contexts applies, in the list of its model. */
struct hth_llama_applied {
    hth_engine_model *model;
    struct llama_context *llama;
    hth_llama_applied *next;
    size_t n;
    struct llama_adapter_lora *adapters[HTH_ADAPTERS_MAX];
    float scales[HTH_ADAPTERS_MAX];
};

/* Repacked weights of a model, in regions that processes share. */
typedef struct hth_llama_weights hth_llama_weights;

/* ---- the engine as a whole ---- */

/*
 * Call these before and after any engine call that may log. In between, the lines of this thread go to log. They must
 * not be nested.
 */
void hth_backend_llama_enter(const hth_log *log);
void hth_backend_llama_leave(void);
/* The engine's first message since enter, without its function's name, or fallback. Valid until leave. */
const char *hth_backend_llama_reason(const char *fallback);
/* Start the engine, once per process. */
hearth_status hth_backend_llama_start(hearth_error *err);
/* The features of CPU and devices, as one word. Only after the start. */
const char *hth_backend_llama_features(void);
/*
 * The first error that the engine logged when it started, such as that CUDA cannot start; "": none. Call it only after
 * the start.
 */
const char *hth_backend_llama_start_error(void);
/* Send the lines of the engine's own threads to this log; forget ends that, if it is still this log. */
void hth_backend_llama_log_latest(const hth_log *log);
void hth_backend_llama_log_forget(const hth_log *log);
/*
 * Make threads respect the NUMA nodes of the machine. The first model of the process that asks decides; other models
 * get a log line.
 */
void hth_backend_llama_use_numa(hearth_numa wanted, const hth_log *log);
/* HEARTH_NO_MEMORY if the machine reports that it has less memory. */
hearth_status hth_backend_llama_check_memory(uint64_t needed_bytes, const char *what, hearth_error *err);

/* ---- models ---- */

/* A number in the model's metadata under its architecture's name; fallback if missing. */
uint32_t hth_backend_llama_number(const hth_engine_model *model, const char *key, uint32_t fallback);
/* A metadata value as text, as the options override it. False: missing, or it does not fit. */
bool hth_backend_llama_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity);
/* The same under the name of the model's architecture: key is the rest of the key. */
bool hth_backend_llama_own_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity);

/* Does the architecture support flash attention? As in llama.cpp v0.5.0. */
static inline bool hth_backend_llama_has_flash(const hth_engine_model *model)
{
    return strcmp(model->info.architecture, "grok") != 0;
}

static inline bool hth_backend_llama_is_token(const hth_engine_model *model, hearth_token token)
{
    return token >= 0 && (uint32_t)token < model->info.n_vocab;
}

/*
 * Called at the start and end of a model's life. Its contexts must be freed before deinit, which frees the adapters
 * that are gone.
 */
void hth_backend_llama_adapters_init(hth_engine_model *model);
void hth_backend_llama_adapters_deinit(hth_engine_model *model);
/* Prevent changes to the model's adapters until the release: held while a context is made, and during an evaluation. */
void hth_backend_llama_adapters_hold(hth_engine_model *model);
void hth_backend_llama_adapters_release(hth_engine_model *model);
/* Add a context of the engine, without adapters, to its model's list, or remove it if it is there. */
void hth_backend_llama_adapters_join(hth_llama_applied *applied, hth_engine_model *model, struct llama_context *llama);
void hth_backend_llama_adapters_part(hth_llama_applied *applied);
/* As hth_backend.adapters_apply. */
hearth_status hth_backend_llama_applied_set(hth_llama_applied *applied, const hth_engine_adapter_use *uses, size_t n,
                                            hearth_error *err);
/* Read the control vectors of a model that is otherwise loaded. Between enter and leave. */
hearth_status hth_backend_llama_control_load(hth_engine_model *model, const hth_engine_model_params *params,
                                             hearth_error *err);
/* Apply the model's options to the parameters of any context: positions, location of the cells, flash attention. */
void hth_backend_llama_apply_options(const hth_engine_model *model, struct llama_context_params *params);
/*
 * A context with the model's options and control vectors. It has flash attention unless the engine refuses it, the
 * architecture does not support it, or the options switch it off; params says so afterwards. Between enter and leave.
 */
hearth_status hth_backend_llama_make_context(hth_engine_model *model, struct llama_context_params *params,
                                             struct llama_context **out, hearth_error *err);
/*
 * A batch for n rows, each of one sequence. Returns the sequences of its rows, [n]; NULL without memory. deinit frees
 * both, and accepts a zeroed batch.
 */
llama_seq_id *hth_backend_llama_batch_init(struct llama_batch *batch, size_t n);
void hth_backend_llama_batch_deinit(struct llama_batch *batch, llama_seq_id *sequences);
/* As hth_engine_model_info.embeds and .n_ctx_short. */
bool hth_backend_llama_embeds(const hth_engine_model *model);
uint32_t hth_backend_llama_n_ctx_short(const hth_engine_model *model);
/* As hth_engine_model_info.quant_type. */
const char *hth_backend_llama_type_name(enum llama_ftype ftype);

/* ---- files ---- */

/*
 * Check a model's file, or all parts of a split model, given the first part; *total is their sum. The messages of
 * HEARTH_CORRUPT and HEARTH_IO name the file and its fault. HEARTH_MISUSE when path is another part.
 */
hearth_status hth_model_files_check(const char *path, hth_shim_file *total, hearth_error *err);
/*
 * Check a file whose tensors must all be in it. kind names its content for the error, "an adapter". HEARTH_CORRUPT and
 * HEARTH_IO as above. HEARTH_UNSUPPORTED when the file is part of a split one, because the rest would be missing.
 */
hearth_status hth_whole_file_check(const char *path, const char *kind, hth_shim_file *out, hearth_error *err);

/*
 * ---- repacked weights ----
 *
 *   hth_llama_weights *weights = hth_llama_weights_begin(...);
 *   load the model on this thread
 *   hth_llama_weights_end(weights, loaded)
 */

/*
 * From now on, engine calls on this thread put repacked weights into regions. NULL: they do not; if the options ask for
 * regions, the log has the reason. model and params must live until the end.
 */
hth_llama_weights *hth_llama_weights_begin(const hth_engine_model *model, const hth_engine_model_params *params);
/*
 * After the load, before anything is computed with the model. Publishes the regions that were filled. False: a region
 * turned out to be wrong and was rejected, so the model must be freed and loaded again. Accepts NULL.
 */
bool hth_llama_weights_end(hth_llama_weights *weights, bool loaded);

/* ---- the table: see backend.h ---- */

hearth_status hth_backend_llama_devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);
void hth_backend_llama_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v,
                                 hth_cell_room *out);
hearth_status hth_backend_llama_context_new(hth_engine_model *model, const hth_engine_context_params *params,
                                            hth_engine_context **out, hearth_error *err);
void hth_backend_llama_context_free(hth_engine_context *context);
void hth_backend_llama_context_info(const hth_engine_context *context, hth_engine_context_info *out);
hearth_status hth_backend_llama_adapter_load(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                             hearth_error *err);
void hth_backend_llama_adapter_free(hth_engine_adapter *adapter);
hearth_status hth_backend_llama_adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses,
                                               size_t n, hearth_error *err);
hearth_status hth_backend_llama_embedder_adapters(hth_engine_embedder *embedder, const hth_engine_adapter_use *uses,
                                                  size_t n, hearth_error *err);
hearth_status hth_backend_llama_decode(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                                       hth_decode_result *result, hearth_error *err);
const float *hth_backend_llama_logits(hth_engine_context *context, size_t row);
const float *hth_backend_llama_vector(hth_engine_context *context, size_t row);
bool hth_backend_llama_seq_remove(hth_engine_context *context, uint32_t id, uint32_t begin, uint32_t end);
hearth_status hth_backend_llama_seq_copy(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin,
                                         uint32_t end, hearth_error *err);
uint32_t hth_backend_llama_seq_end(hth_engine_context *context, uint32_t id);
size_t hth_backend_llama_state_size(hth_engine_context *context, uint32_t id, hth_state_part part);
hearth_status hth_backend_llama_state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                                          size_t capacity, size_t *n_out, hearth_error *err);
hearth_status hth_backend_llama_state_set(hth_engine_context *context, uint32_t id, hth_state_part part,
                                          const uint8_t *bytes, size_t n_bytes, uint32_t begin, uint32_t end,
                                          hearth_error *err);

hearth_status hth_backend_llama_embedder_new(hth_engine_model *model, const hth_embedder_params *params,
                                             hth_engine_embedder **out, hearth_error *err);
void hth_backend_llama_embedder_free(hth_engine_embedder *embedder);
uint32_t hth_backend_llama_embedder_inputs(const hth_engine_embedder *embedder);
hearth_status hth_backend_llama_embed(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                                      hth_decode_result *result, hearth_error *err);
const float *hth_backend_llama_embedding(hth_engine_embedder *embedder, size_t input, uint32_t token);
hearth_status hth_backend_llama_needs(const hth_engine_model *model, const hth_engine_context_params *params,
                                      hth_engine_needs *out, hearth_error *err);

#endif
