/*
 * backend_inside.h - shared by the files of the llama.cpp backend
 *
 *   backend.c            the table, and the rules for all files
 *   backend_engine.c     the engine as a whole: its start, its log, its devices
 *   backend_model.c      loading a model; its tokens, texts and chats
 *   backend_facts.c      facts from its metadata
 *   backend_settings.c   the engine's contexts, with the model's options
 *   backend_weights.c    repacked weights that processes share; has its own header
 *   backend_adapter.c    LoRA adapters, and those that a context applies
 *   backend_control.c    control vectors, which all contexts apply
 *   backend_context.c    making a context; the text that is hashed into ctx_params_hash
 *   backend_sequences.c  evaluation, and the contents of each sequence; deterministic contexts
 *   backend_state.c      reading and writing parts of a sequence's state
 *   backend_embedder.c   vectors of inputs, in a separate context
 *   backend_needs.c      the memory that a model would take
 *   backend_writer.c     model files
 *   backend_sampler.c    has its own header
 */
#ifndef HTH_LLAMA_BACKEND_INSIDE_H
#define HTH_LLAMA_BACKEND_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/vocabulary.h"
#include "grammar/grammar_memo.h"
#include "kernels/attention_order.h"
#include "llama/llama_chat.h"
#include "llama/llama_control.h"
#include "llama/llama_devices.h"
#include "llama/llama_placement.h"
#include "llama/llama_shim.h"
#include "llama/llama_slices.h"
#include "state/image.h"

typedef struct hth_llama_applied hth_llama_applied;

/* The sum of a model's control vectors. */
typedef struct hth_llama_control {
    hth_shim_control_sum sum;
    uint32_t first, last; /* layers that it changes; 0: none, and no sum */
    uint8_t digest[32];   /* of these layers */
} hth_llama_control;

struct hth_engine_model {
    struct llama_model *llama;
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
    bool on_gpu;          /* the model has devices */
    int32_t n_gpu_layers; /* 0 without devices; in ctx_params_hash, because devices round differently */
    hth_shim_model_facts facts;
    hth_llama_control control;
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

/* The contents of a sequence; zeroed when it is empty. */
typedef struct hth_llama_holding {
    uint32_t begin; /* its positions: [begin, end) */
    uint32_t end;
    uint32_t window_begin; /* the window's cells are [window_begin, end), without a gap; end: none */
    uint32_t rest_end;     /* it has the recurrent state after position rest_end - 1; 0: none */
} hth_llama_holding;

/* Number of parts whose images differ in layout. */
enum { HTH_LLAMA_LAYOUTS = 2 };

/* The adapters that one of the engine's contexts applies, in the list of its model. */
struct hth_llama_applied {
    hth_engine_model *model;
    struct llama_context *llama;
    hth_llama_applied *next;
    size_t n;
    struct llama_adapter_lora *adapters[HTH_ADAPTERS_MAX];
    float scales[HTH_ADAPTERS_MAX];
};

struct hth_engine_context {
    hth_engine_model *model;
    struct llama_context *llama;
    hth_engine_context_info info;
    hth_image_format format;

    hth_llama_holding *held; /* [n_seq_max] */
    uint8_t *empty_rest;     /* the partial state of an empty sequence, for HTH_MODEL_HYBRID */
    size_t empty_rest_bytes;
    uint8_t *bounce; /* an image that is being cut down */
    size_t bounce_bytes;

    /* The batch, arrays of n_batch_rows. */
    struct llama_batch batch;
    llama_seq_id *sequences;
    uint32_t n_batch_rows;
    uint32_t n_ubatch;  /* rows that the engine evaluates at once */
    uint32_t *next;     /* [n_seq_max], used while a batch is checked */
    size_t n_rows;      /* of the last evaluation; 0: it failed */
    bool has_vectors;   /* its rows have vectors */
    bool makes_vectors; /* the engine is set to make vectors */

    hth_cell_order *order; /* NULL: not deterministic */
    int32_t *coming;       /* cell positions of an image that is being restored */
    size_t coming_capacity;
    bool has_added_rows; /* the extra sequence has cells */
    bool is_checked;     /* the deterministic context has passed its check */

    hth_llama_applied applied;

    bool layout_known[HTH_LLAMA_LAYOUTS]; /* of HTH_STATE_CELLS, and of HTH_STATE_REST */
    hth_image_layout layouts[HTH_LLAMA_LAYOUTS];
    hth_image_layout parsed; /* of the current image */
};

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

/* ---- models, sequences ---- */

/* A number in the model's metadata under its architecture's name; fallback if missing. */
uint32_t hth_backend_llama_number(const hth_engine_model *model, const char *key, uint32_t fallback);
/* A metadata value as text, as the options override it. False: missing, or it does not fit. */
bool hth_backend_llama_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity);

/* Does the architecture support flash attention? As in llama.cpp v0.5.0. */
static inline bool hth_backend_llama_has_flash(const hth_engine_model *model)
{
    return strcmp(model->facts.architecture, "grok") != 0;
}

static inline bool hth_backend_llama_is_token(const hth_engine_model *model, hearth_token token)
{
    return token >= 0 && token < model->facts.n_vocab;
}

static inline bool hth_backend_llama_is_sequence(const hth_engine_context *context, uint32_t id)
{
    return id < context->info.n_seq_max;
}

static inline hth_model_kind hth_backend_llama_kind(const hth_engine_context *context)
{
    return (hth_model_kind)atomic_load(&context->model->kind);
}

/* The first position before end that a layer with a window keeps. */
static inline uint32_t hth_backend_llama_window_begin(const hth_engine_context *context, uint32_t end)
{
    return end > context->format.n_window ? end - context->format.n_window : 0;
}

/* Does the sequence have all state that its next token depends on? True for an empty one. */
bool hth_backend_llama_is_whole(const hth_engine_context *context, uint32_t id);
/* Remove all state of a sequence, which always succeeds. */
void hth_backend_llama_seq_empty(hth_engine_context *context, uint32_t id);

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
/* Let a context apply them. */
hearth_status hth_backend_llama_control_apply(const hth_engine_model *model, struct llama_context *llama,
                                              hearth_error *err);
/* The engine's parameters for a context, except flash attention. Statuses as context_new. */
hearth_status hth_backend_llama_fill_params(const hth_engine_model *model, const hth_engine_context_params *params,
                                            struct llama_context_params *out, hearth_error *err);
/* Apply the model's options to the parameters of any context: positions, location of the cells, flash attention. */
void hth_backend_llama_apply_options(const hth_engine_model *model, struct llama_context_params *params);
/*
 * A context with the model's options and control vectors. It has flash attention unless the engine refuses it, the
 * architecture does not support it, or the options switch it off; params says so afterwards. Between enter and leave.
 */
hearth_status hth_backend_llama_make_context(hth_engine_model *model, struct llama_context_params *params,
                                             struct llama_context **out, hearth_error *err);
/* As hth_engine_model_info.embeds and .pooling. */
bool hth_backend_llama_embeds(const hth_engine_model *model);
hearth_pooling hth_backend_llama_pooling(const hth_engine_model *model);

/* ---- deterministic contexts: all except the first may be called for every context ---- */

enum { HTH_EXACT_ROWS_STEP = 4 }; /* the engine computes rows in multiples of this */

/*
 * Change the parameters of a new context to make it deterministic. HEARTH_UNSUPPORTED, with the reason, if that is not
 * possible.
 */
hearth_status hth_backend_llama_exact_prepare(const hth_engine_model *model, struct llama_context_params *params,
                                              hearth_error *err);
/* Set up what a context with prepared parameters reserves for itself, once its sizes are known. */
hearth_status hth_backend_llama_exact_begin(hth_engine_context *context, hearth_error *err);
/* Is the context really deterministic? Evaluates some tokens, and leaves it empty. */
hearth_status hth_backend_llama_exact_check(hth_engine_context *context, hearth_error *err);
/* Add rows and logits requests to the batch of n_rows rows, until the engine computes all of its rows the same way. */
void hth_backend_llama_exact_fill(hth_engine_context *context, size_t n_rows);
/* Called before and after the evaluation of a batch, and before and after restoring the image in context->parsed. */
void hth_backend_llama_exact_evaluates(hth_engine_context *context);
hearth_status hth_backend_llama_exact_restores(hth_engine_context *context, const uint8_t *bytes, uint32_t n_cells,
                                               hearth_error *err);
hearth_status hth_backend_llama_exact_done(hth_engine_context *context, hearth_error *err);
void hth_backend_llama_exact_end(hth_engine_context *context);

/* ---- the table: see backend.h ---- */

const char *hth_backend_llama_build(void);
hearth_status hth_backend_llama_devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);
hearth_status hth_backend_llama_model_load(const char *path, const hth_engine_model_params *params,
                                           hth_engine_model **out, hearth_error *err);
void hth_backend_llama_model_free(hth_engine_model *model);
void hth_backend_llama_model_info(const hth_engine_model *model, hth_engine_model_info *out);
void hth_backend_llama_cell_room(const hth_engine_model *model, const char *type_k, const char *type_v,
                                 hth_cell_room *out);
/* As hth_engine_model_info.n_ctx_short. */
uint32_t hth_backend_llama_n_ctx_short(const hth_engine_model *model);
hearth_status hth_backend_llama_tokenize(const hth_engine_model *model, const char *text, size_t n_bytes,
                                         unsigned flags, hearth_token *tokens, size_t capacity, size_t *n_out,
                                         hth_tokenize_result *result, const hth_tokenize_stop *stop, hearth_error *err);
hearth_status hth_backend_llama_token_flags(const hth_engine_model *model, hearth_token token, unsigned *out,
                                            hearth_error *err);
size_t hth_backend_llama_metadata_count(const hth_engine_model *model);
hearth_status hth_backend_llama_metadata_key(const hth_engine_model *model, size_t index, char **out,
                                             hearth_error *err);
hearth_status hth_backend_llama_metadata(const hth_engine_model *model, const char *key, char **out, hearth_error *err);
hearth_status hth_backend_llama_piece(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                                      size_t capacity, size_t *n_out, hearth_error *err);
bool hth_backend_llama_is_end(const hth_engine_model *model, hearth_token token);
hearth_status hth_backend_llama_chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
                                            hearth_chat_prompt *out, hearth_error *err);
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
