/*
 * llama_shim.h - llama.cpp v0.5.0 without exceptions
 *
 * The interface of the C++ files of this room. Each function is one call of the engine, or the shortest series of calls
 * that belong together. None throws: an exception becomes HEARTH_ENGINE with its text, or HEARTH_NO_MEMORY; a null
 * result becomes HEARTH_ENGINE. None checks its arguments: the backend_*.c files keep out arguments on which the engine
 * would abort. The C files call functions of llama.h that cannot throw directly.
 */
#ifndef HTH_LLAMA_LLAMA_SHIM_H
#define HTH_LLAMA_LLAMA_SHIM_H

#include <ggml-backend.h>
#include <llama.h>

#include "hearth.h"

#ifdef __cplusplus
#include <vector>

extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"
#include "engine/backend.h"
#include "engine/engine_options.h"
#include "engine/model_writer.h"

/* ---- the engine as a whole ---- */

/* "0.5.0-<commit>". A static string; does not initialise anything. */
const char *hth_shim_version(void);

/*
 * Start the engine: log callback, tables, backends. Call it once. aborting receives the reason before the engine ends
 * the process, instead of a backtrace on standard error. directory contains the backends that are separate libraries;
 * NULL: none. features, [capacity], receives those of the CPU and other devices that this build uses, in the engine's
 * words.
 */
hearth_status hth_shim_init(ggml_log_callback log, void (*aborting)(const char *message), const char *directory,
                            char *features, size_t capacity, hearth_error *err);

/* Make the threads of the process respect NUMA nodes. Once, before the first context. False: there is only one node. */
bool hth_shim_numa_init(enum ggml_numa_strategy strategy);

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

/* ---- model ---- */

/* Facts of a model that only this room needs, in addition to hth_engine_model_info. */
typedef struct hth_shim_model_facts {
    enum llama_ftype ftype;
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
} hth_shim_model_facts;

/* Load a model, which the caller frees. Without devices the CPU computes. */
hearth_status hth_shim_model_load(const char *path, const struct llama_model_params *params, struct llama_model **out,
                                  hearth_error *err);
/*
 * Read what the engine knows of a model: in info, its names, sizes and vocabulary, and n_labels even if it has no
 * classifier.
 */
hearth_status hth_shim_model_facts_read(const struct llama_model *model, hth_engine_model_info *info,
                                        hth_shim_model_facts *facts, hearth_error *err);
/* A metadata value as text. False, with text "": missing, or it does not fit. */
bool hth_shim_model_meta(const struct llama_model *model, const char *key, char *text, size_t capacity);

/*
 * Tokenize a short text as it is, with the names of control tokens. *n_out as llama_tokenize returns it: negative when
 * capacity is too small.
 */
hearth_status hth_shim_tokenize(const struct llama_model *model, const char *text, int32_t n_bytes,
                                hearth_token *tokens, int32_t capacity, int32_t *n_out, hearth_error *err);
/* *n_out as llama_token_to_piece returns it: negative when capacity is too small. */
hearth_status hth_shim_piece(const struct llama_model *model, hearth_token token, bool special, char *bytes,
                             int32_t capacity, int32_t *n_out, hearth_error *err);

/* Metadata as new strings, which the caller frees with free(). HEARTH_NOT_FOUND: no such index or key. */
hearth_status hth_shim_metadata_key(const struct llama_model *model, size_t index, char **out, hearth_error *err);
hearth_status hth_shim_metadata(const struct llama_model *model, const char *key, char **out, hearth_error *err);

/* ---- context: the functions below are called by one thread at a time ---- */

hearth_status hth_shim_context_new(struct llama_model *model, const struct llama_context_params *params,
                                   struct llama_context **out, hearth_error *err);

/* *result as llama_decode returns it: 0 done, 1 no room, 2 ended by the abort callback, others failures. */
hearth_status hth_shim_decode(struct llama_context *context, struct llama_batch batch, int32_t *result,
                              hearth_error *err);
hearth_status hth_shim_seq_copy(struct llama_context *context, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end, hearth_error *err);
/* The bytes needed, written and read; 0 on failure. flags are LLAMA_STATE_SEQ_FLAGS_*. */
size_t hth_shim_state_size(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags);
size_t hth_shim_state_get(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags, uint8_t *bytes,
                          size_t capacity);
size_t hth_shim_state_set(struct llama_context *context, llama_seq_id id, llama_state_seq_flags flags,
                          const uint8_t *bytes, size_t n_bytes);

/* ---- devices: the backends of llama.cpp, here and on RPC servers ---- */

/* The devices besides the CPU that can take layers of a model. */
typedef struct hth_llama_devices {
    ggml_backend_dev_t all[HTH_DEVICES_MAX + 1]; /* ending with NULL; they live as long as the process */
    size_t n;
    /* The devices as one word for ctx_params_hash: "Vulkan:llvmpipe(LLVM15.0.6)", "RPC:host:port". "": none. */
    char word[2048];
    hth_rpc_addresses servers;
    unsigned n_servers; /* servers in use */
} hth_llama_devices;

/*
 * Pick the devices for a model: first those of the RPC servers ("host:port,host:port"; NULL: none), then those of this
 * machine that names lists ("CUDA0,CUDA1", or "none"; NULL: those that the engine itself would pick). The engine must
 * be started. HEARTH_MISUSE: rpc_servers is not a list of addresses, or no device has such a name. HEARTH_ENGINE: a
 * server does not answer. HEARTH_UNSUPPORTED: the engine was built without RPC.
 */
hearth_status hth_llama_devices_pick(const char *rpc_servers, const char *names, hth_llama_devices *out,
                                     hearth_error *err);
/* Keep only the device at an index. HEARTH_MISUSE: there are fewer devices. */
hearth_status hth_llama_devices_keep(hth_llama_devices *devices, uint32_t index, hearth_error *err);
/* Can every device take rows of a matrix, for HEARTH_SPLIT_MODE_ROW? */
bool hth_llama_devices_split_rows(const hth_llama_devices *devices);
/* Release the devices after the model is gone. Accepts the result of a failed pick, and a zeroed struct. */
void hth_llama_devices_release(hth_llama_devices *devices);

/* The free and the total bytes of all devices together; 0: unknown. */
void hth_llama_devices_memory(const hth_llama_devices *devices, uint64_t *free_bytes_out, uint64_t *total_bytes_out);

/* All backends and devices of this machine, as returned by hth_backend.devices. The engine must be started. */
hearth_status hth_llama_devices_list(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);

/*
 * Connect, greet and read the server's version, as the engine will. The check comes first, because the engine ends the
 * process when this fails. address is one of hth_rpc_addresses. HEARTH_ENGINE: no server listens there, the name is
 * unknown, or the answer is missing, late (a server serves one client at a time) or of another version. Blocks for at
 * most ten seconds, plus the time that the system takes to resolve the name. Any thread.
 */
hearth_status hth_rpc_server_check(const char *address, hearth_error *err);

/* ---- the parameters of a model: devices, buffers of tensors, overridden metadata ---- */

typedef struct hth_llama_placement {
    struct llama_model_params params; /* without a progress callback, and with the engine's default way of loading */
    const char *added; /* overridden keys that the file lacks, separated by commas: the engine may not know them */
    /*
     * The part for ctx_params_hash, " experts=cpu", because another placement on devices rounds differently. "":
     * nothing was chosen.
     */
    const char *words;
} hth_llama_placement;

/*
 * Make the parameters from options that hth_engine_options_read accepted. path is the model's file, whose metadata is
 * read if any is overridden. devices must not move while the parameters exist. HEARTH_MISUSE for a pattern that is not
 * a regular expression, a buffer that the model does not have, more shares than devices, and metadata that cannot be
 * overridden.
 */
hearth_status hth_llama_placement_new(const char *path, const hearth_engine_options *options,
                                      hth_llama_devices *devices, int32_t n_gpu_layers, hth_llama_placement **out,
                                      hearth_error *err);
void hth_llama_placement_free(hth_llama_placement *made); /* after freeing the model; accepts NULL */

/* An overridden value as text; false: missing, or it does not fit. */
bool hth_llama_placement_meta(const hth_llama_placement *made, const char *key, char *text, size_t capacity);

/*
 * Write the sizes for the host and the devices. weight_bytes: of the file. Reads the metadata again, and changes the
 * engine's log while it runs: no other thread may be in the engine. HEARTH_ENGINE.
 */
hearth_status hth_llama_needs(const char *path, const struct llama_model_params *model, uint64_t weight_bytes,
                              const struct llama_context_params *context, hth_engine_needs *out, hearth_error *err);

/*
 * ---- LoRA adapters ----
 *
 * The engine trusts an adapter's file: a value of another type, a shape that no matrix product can take or a type that
 * it cannot multiply ends the process. So the file is compared with that of the model before the engine sees it.
 */

typedef struct hth_shim_adapter_size {
    uint64_t n_pairs; /* number of matrices that it changes */
    uint64_t n_model_tensors;
} hth_shim_adapter_size;

/*
 * Check that the file at path, which is known to be whole, is an adapter for the model in the file at model_path. The
 * messages of HEARTH_MISUSE and HEARTH_UNSUPPORTED name the difference.
 */
hearth_status hth_shim_adapter_check(const char *path, const char *model_path, const char *architecture,
                                     hth_shim_adapter_size *out, hearth_error *err);
/*
 * For HEARTH_ENGINE, the engine's log has the reason. No context of the model may evaluate meanwhile; likewise below.
 */
hearth_status hth_shim_adapter_load(struct llama_model *model, const char *path, struct llama_adapter_lora **out,
                                    hearth_error *err);
void hth_shim_adapter_free(struct llama_adapter_lora *adapter);
/* Set the adapters of the next evaluations, [n]. */
hearth_status hth_shim_adapters_apply(struct llama_context *context, struct llama_adapter_lora **adapters,
                                      float *scales, size_t n, hearth_error *err);

/* ---- control vectors ---- */

/*
 * The sum of control vectors. Layer i (from 1) has the values from (i - 1) * n_embd on, which is the layout that the
 * engine expects. Layers are counted from 0, and the engine never changes layer 0.
 */
typedef struct hth_shim_control_sum {
    float *values; /* [(n_layers - 1) * n_embd] */
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t first, last; /* layers that it changes; 0: none */
} hth_shim_control_sum;

/*
 * Add the directions of a GGUF file that is known to be whole, times the scale. hint, [capacity], receives the
 * architecture that the file names; "": none. HEARTH_MISUSE if the file is not a control vector for this shape; the
 * message says why.
 */
hearth_status hth_shim_control_add(const char *path, float scale, const hth_shim_control_sum *sum, char *hint,
                                   size_t capacity, hearth_error *err);
/* Make a context add the values of the layers first .. last to the outputs of these layers. */
hearth_status hth_shim_control_apply(struct llama_context *context, const hth_shim_control_sum *sum, hearth_error *err);

/* ---- writing model files ---- */

/* See hth_model_writer. type is that of the matrices, ftype that of the file. */
hearth_status hth_shim_model_write(const hth_new_model *model, enum ggml_type type, enum llama_ftype ftype,
                                   hth_put_fn put, void *put_user_data, uint64_t *bytes_out, hearth_error *err);
/* False: the engine refuses, and its log says why. */
hearth_status hth_shim_model_quantize(const char *from, const char *to, enum llama_ftype ftype, bool *done,
                                      hearth_error *err);

/*
 * ---- tokenizing a long text, slice by slice ----
 *
 * The time of the engine's tokenizer grows with the square of the number of control tokens in a text, and of characters
 * that it writes as bytes. So a long text is cut where the tokens are certain to be the same:
 *
 *   - after the text of a control token that no other such text overlaps: the engine also cuts there and starts afresh;
 *   - in vocabularies of merged pieces (SPM) between two characters that no piece has side by side: no merge crosses
 *     such a place. The next slice begins with the last character before the cut, whose tokens are dropped, because the
 *     engine may put a space before a text.
 *
 * If tokens absorb spaces, no cut is next to a space. A text without such a place is one slice.
 */

typedef struct hth_llama_slices hth_llama_slices; /* any number of threads may use it */

/* The model must have a vocabulary, and outlives the result. NULL without memory. */
hth_llama_slices *hth_llama_slices_new(const struct llama_model *model);
void hth_llama_slices_free(hth_llama_slices *slices); /* accepts NULL */

/* As hth_engine_model_info.token_bytes_max. */
uint32_t hth_llama_slices_token_bytes_max(const hth_llama_slices *slices);

/*
 * As llama_tokenize, in slices of n_slice bytes or a little more; 0: of the usual size. stop (may be NULL) is called
 * before each slice; if it returns true, the status is HEARTH_CANCELLED.
 */
hearth_status hth_llama_slices_tokenize(const hth_llama_slices *slices, const char *text, int32_t n_bytes,
                                        int32_t n_slice, bool add_special, bool parse_special, hearth_token *tokens,
                                        int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                        hearth_error *err);

/*
 * ---- chat templates of llama-common: from conversations to prompts, and from replies to their parts ----
 *
 * Templates come with models, and are trusted less than the user who runs them. So their size, their nesting and their
 * inputs are limited, and they run within bounds of memory, stack and time (llama_bounds.h).
 */

typedef struct hth_llama_chat hth_llama_chat;

/*
 * Parse the given template or, if that is NULL, the model's own. The caller owns *out; it is NULL, with HEARTH_OK, when
 * there is no template. special_in_messages: texts of conversations may contain control tokens. model may be NULL if
 * given is not; otherwise it outlives *out. HEARTH_MISUSE: the template is too large or too deeply nested.
 * HEARTH_ENGINE: it cannot be parsed.
 */
hearth_status hth_llama_chat_new(const struct llama_model *model, const char *given, bool special_in_messages,
                                 hth_llama_chat **out, hearth_error *err);
void hth_llama_chat_free(hth_llama_chat *chat);
/* The text of the template, valid as long as chat exists. */
const char *hth_llama_chat_source(const hth_llama_chat *chat);

/* What the template can render, as a JSON object of booleans with the engine's names, valid as long as chat exists. */
const char *hth_llama_chat_abilities(const hth_llama_chat *chat);

/* As hth_backend.chat_prompt. Any thread; *out is zeroed on failure. */
hearth_status hth_llama_chat_prompt(hth_llama_chat *chat, const hearth_conversation *conversation,
                                    hearth_chat_prompt *out, hearth_error *err);

/*
 * As hth_backend.tokenize with HEARTH_TOKENIZE_SPECIAL, for a text with HTH_PLAIN_MARK; *n_out as in llama_tokenize,
 * and n_slice and stop as in hth_llama_slices_tokenize.
 */
hearth_status hth_llama_chat_tokenize(const hth_llama_chat *chat, const hth_llama_slices *slices, const char *text,
                                      size_t n_bytes, int32_t n_slice, bool add_special, hearth_token *tokens,
                                      int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                      hearth_error *err);

/* As the functions of hth_backend. Nesting of brackets beyond 256 in a reply is HEARTH_CORRUPT. */
typedef struct hth_engine_chat_reader hth_engine_chat_reader;

hearth_status hth_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
void hth_llama_chat_reader_free(hth_engine_chat_reader *reader);
hearth_status hth_llama_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                  hth_chat_reply *out, hearth_error *err);

/* ---- C for the C++ files, which cannot read gbnf.h, because it uses C's atomics. schema.h tells of schemas. ---- */

/* The steps for all schemas of one conversation or one grammar together: the first value of *steps. */
enum { HTH_CHECK_STEPS_MAX = 1 << 24 };

/*
 * Can the schema be used after %json? The steps spent are subtracted from *steps, also on failure. HEARTH_MISUSE with a
 * message that names the keyword that is not supported, and its place; HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_check(const char *schema, size_t n_bytes, uint64_t *steps, hearth_error *err);

/*
 * Is the text a grammar that a sampler accepts? The caller checks its length (HTH_GRAMMAR_BYTES_MAX). token finds a
 * token by its name; NULL: tokens have no names. Errors as hth_gbnf_new.
 */
hearth_status hth_grammar_check(const char *text, size_t n_bytes, uint32_t n_tokens,
                                bool (*token)(const void *data, const char *text, size_t n_bytes, hearth_token *out),
                                const void *data, hearth_error *err);

#ifdef __cplusplus
}

/* ---- for C++ ---- */

/* As hth_llama_slices_tokenize, for a text of any length: appends the tokens. HEARTH_TOO_LONG: there are too many. */
hearth_status hth_llama_slices_append(const hth_llama_slices *slices, const char *text, size_t n, int32_t n_slice,
                                      bool add_special, bool parse_special, std::vector<hearth_token> &out,
                                      const hth_tokenize_stop *stop, hearth_error *err);
/* Copy the tokens of a text of n_bytes bytes if there is room for all. *n_out likewise. HEARTH_TOO_LONG. */
hearth_status hth_llama_slices_give(const std::vector<hearth_token> &made, size_t n_bytes, hearth_token *tokens,
                                    int32_t capacity, int32_t *n_out, hearth_error *err);
#endif

#endif
