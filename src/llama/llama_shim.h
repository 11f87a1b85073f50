/*
 * llama_shim.h - llama.cpp v0.5.0 without exceptions
 *
 * Each function is one call of the engine, or the shortest series of calls that belong together. None throws: an
 * exception becomes HEARTH_ENGINE with its text, or HEARTH_NO_MEMORY; a null result becomes HEARTH_ENGINE. None checks
 * its arguments: the backend_*.c files keep out arguments on which the engine would abort.
 */
#ifndef HTH_LLAMA_LLAMA_SHIM_H
#define HTH_LLAMA_LLAMA_SHIM_H

#include <llama.h>

#include "hearth.h"

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"

/* ---- the engine as a whole ---- */

/* "0.5.0-<commit>". A static string; does not initialise anything. */
const char *hth_shim_version(void);

/*
 * Start the engine: log callback, tables, backends. Call it once. aborting receives the reason before the engine ends
 * the process, instead of a backtrace on standard error. directory contains the backends that are separate libraries;
 * NULL: none.
 */
hearth_status hth_shim_init(ggml_log_callback log, void (*aborting)(const char *message), const char *directory,
                            hearth_error *err);

/* Make the threads of the process respect NUMA nodes. Once, before the first context. False: there is only one node. */
bool hth_shim_numa_init(enum ggml_numa_strategy strategy);

/*
 * The features of the CPU and other devices that this build uses, in the engine's words. After init; not thread-safe.
 */
hearth_status hth_shim_system_info(char *text, size_t capacity, hearth_error *err);

/* ---- model files ---- */

/* The header of a GGUF file. */
typedef struct hth_shim_file {
    uint64_t bytes_needed; /* up to the end of the last tensor */
    uint64_t weight_bytes;
    uint32_t split_no;
    uint32_t split_count; /* 0 or 1: one file */
    bool has_long_rope_factors;
    bool has_classifier; /* weights that compute scores from a vector */
    bool has_iq_experts; /* expert weights in one of the types IQ1 to IQ4_XS */
} hth_shim_file;

/* Read the header of a GGUF file. HEARTH_CORRUPT when the engine cannot read it. */
hearth_status hth_shim_file_read(const char *path, hth_shim_file *out, hearth_error *err);

/*
 * The path of part split_no of a split model, from the path of part 0. HEARTH_CORRUPT when path is not named like a
 * part.
 */
hearth_status hth_shim_split_path(const char *path, uint32_t split_no, uint32_t split_count, char *out, size_t capacity,
                                  hearth_error *err);

/* ---- model ---- */

typedef struct hth_shim_model_facts {
    char architecture[64];
    char description[128];
    enum llama_ftype ftype;
    uint64_t n_params;
    uint64_t weight_bytes;
    int32_t n_ctx_train;
    int32_t n_vocab;
    int32_t n_layers;
    int32_t n_head;
    int32_t n_head_kv;
    int32_t n_embd;
    int32_t n_swa;
    int32_t rope_type;
    float rope_freq_scale;
    bool is_recurrent;
    bool is_hybrid;
    bool is_diffusion;
    bool has_encoder;
    bool has_decoder;
    bool has_vocabulary; /* text can be tokenized; the engine aborts otherwise */
    enum llama_vocab_type vocabulary_type;
    bool adds_bos;
    bool adds_eos;
    hearth_token special[HEARTH_SPECIALS]; /* by hearth_special; -1: none */
    bool adds_sep;
    uint32_t n_embd_out; /* number of values in an output vector */
    uint32_t n_labels;   /* of its classifier, if it has one */
} hth_shim_model_facts;

/* Load a model, which the caller frees. Without devices the CPU computes. */
hearth_status hth_shim_model_load(const char *path, const struct llama_model_params *params, struct llama_model **out,
                                  hearth_error *err);
void hth_shim_model_free(struct llama_model *model);
/* The template that joins a query and a document, a string owned by the model; NULL: none. */
const char *hth_shim_rank_template(const struct llama_model *model);
hearth_status hth_shim_model_facts_read(const struct llama_model *model, hth_shim_model_facts *out, hearth_error *err);
/* A metadata value as text. False, with text "": missing, or it does not fit. */
bool hth_shim_model_meta(const struct llama_model *model, const char *key, char *text, size_t capacity);

/* *n_out as llama_tokenize returns it: negative when capacity is too small. */
hearth_status hth_shim_tokenize(const struct llama_model *model, const char *text, int32_t n_bytes, bool add_special,
                                bool parse_special, hearth_token *tokens, int32_t capacity, int32_t *n_out,
                                hearth_error *err);
/* *n_out as llama_token_to_piece returns it: negative when capacity is too small. */
hearth_status hth_shim_piece(const struct llama_model *model, hearth_token token, bool special, char *bytes,
                             int32_t capacity, int32_t *n_out, hearth_error *err);
bool hth_shim_is_end(const struct llama_model *model, hearth_token token);
/* The LLAMA_TOKEN_ATTR_... of a token that is in the vocabulary. */
enum llama_token_attr hth_shim_token_attr(const struct llama_model *model, hearth_token token);

/* Metadata as new strings, which the caller frees with free(). HEARTH_NOT_FOUND: no such index or key. */
size_t hth_shim_metadata_count(const struct llama_model *model);
hearth_status hth_shim_metadata_key(const struct llama_model *model, size_t index, char **out, hearth_error *err);
hearth_status hth_shim_metadata(const struct llama_model *model, const char *key, char **out, hearth_error *err);

/* ---- context: the functions below are called by one thread at a time ---- */

hearth_status hth_shim_context_defaults(struct llama_context_params *out, hearth_error *err);
hearth_status hth_shim_context_new(struct llama_model *model, const struct llama_context_params *params,
                                   struct llama_context **out, hearth_error *err);
void hth_shim_context_free(struct llama_context *context);
/* False for models that keep no state between evaluations. */
bool hth_shim_has_memory(const struct llama_context *context);
void hth_shim_context_sizes(const struct llama_context *context, uint32_t *n_ctx, uint32_t *n_batch,
                            uint32_t *n_seq_max);

/* *result as llama_decode returns it: 0 done, 1 no room, 2 ended by the abort callback, others failures. */
hearth_status hth_shim_decode(struct llama_context *context, struct llama_batch batch, int32_t *result,
                              hearth_error *err);
/* The logits of a row, [n_vocab], valid until the next decode; NULL: none. */
const float *hth_shim_logits(struct llama_context *context, int32_t row);

/* Set whether the context computes vectors from the next evaluation on. */
void hth_shim_set_embeddings(struct llama_context *context, bool value);
/* For a context that does: the vector of a row, or that of a sequence. NULL: none. */
const float *hth_shim_embedding_of_row(struct llama_context *context, int32_t row);
const float *hth_shim_embedding_of_sequence(struct llama_context *context, llama_seq_id id);
/* Empty all sequences. Also works for a context without memory. */
void hth_shim_memory_clear(struct llama_context *context);

/* begin -1: from the first position; end -1: to the last. False: the engine refuses. */
bool hth_shim_seq_remove(struct llama_context *context, llama_seq_id id, llama_pos begin, llama_pos end);
hearth_status hth_shim_seq_copy(struct llama_context *context, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end, hearth_error *err);
/* The lowest and highest position of all caches; -1 when the sequence is empty. */
llama_pos hth_shim_seq_pos_min(struct llama_context *context, llama_seq_id id);
llama_pos hth_shim_seq_pos_max(struct llama_context *context, llama_seq_id id);

/* The bytes needed, written and read; 0 on failure. flags are LLAMA_STATE_SEQ_FLAGS_*. */
size_t hth_shim_state_size(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags);
size_t hth_shim_state_get(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags, uint8_t *bytes,
                          size_t capacity);
size_t hth_shim_state_set(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags,
                          const uint8_t *bytes, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
