/*
 * backend.h - the interface of an inference engine
 *
 * An engine is a table of functions over two opaque objects: a model (weights and vocabulary, shared by any number of
 * contexts) and a context (KV cells, used by one thread at a time). The engine is a module, and the process loads it
 * with its first model. Hearth ships a module for llama.cpp; the tests have a deterministic one without a model
 * (tests/stub). Nothing above this header includes llama.h.
 *
 * Rules for implementations: no function aborts, throws or writes to a stream, whatever its arguments. A precondition
 * that the caller violated is HEARTH_MISUSE. A failure of the engine is HEARTH_ENGINE with the cause. Log lines go to
 * the sink.
 *
 * Sequences have the ids 0 .. n_seq_max-1. Positions count from 0. A sequence of n tokens holds the cells [0, n).
 *
 * The state of a sequence has two parts. The cells are the part that attention keeps of each token; layers with a
 * window keep only the cells of the last n_window positions. The rest is recurrent state, which exists for the last
 * position only. A sequence is whole when it has all state that its next token depends on. A sequence that is restored
 * from rows becomes whole with the last row. Evaluating a sequence that is not whole is HEARTH_MISUSE.
 */
#ifndef HTH_ENGINE_BACKEND_H
#define HTH_ENGINE_BACKEND_H

#include "base/log.h"
#include "base/status.h"

/* Increases with every change of this header. A module with another number is refused. */
#define HTH_BACKEND_ABI 17u

/* The symbol that an engine module exports: const hth_backend *hearth_backend(void). */
#define HTH_BACKEND_SYMBOL "hearth_backend"

typedef struct hth_engine_model hth_engine_model;
typedef struct hth_engine_context hth_engine_context;
typedef struct hth_engine_adapter hth_engine_adapter;
typedef struct hth_engine_sampler hth_engine_sampler;
typedef struct hth_engine_chat_reader hth_engine_chat_reader;
typedef struct hth_engine_embedder hth_engine_embedder;

/* How the state of a model can be cut. docs/engine.md describes how each kind was measured. */
typedef enum hth_model_kind {
    HTH_MODEL_PLAIN,  /* all layers keep all cells: blocks and tails */
    HTH_MODEL_WINDOW, /* some layers see only a window: blocks and tails, which are cut as soon as they are evaluated */
    HTH_MODEL_RECURRENT, /* state of the last position only: the whole state at some boundaries */
    HTH_MODEL_HYBRID,    /* attention and recurrent layers, perhaps a window too: blocks, tails, and states */
    HTH_MODEL_UNCACHED,  /* not measured, so not trusted: rows are neither cut nor restored */
} hth_model_kind;

/* The part of a sequence's state that an image holds. */
typedef enum hth_state_part {
    /*
     * The cells of a range. With HTH_MODEL_WINDOW, the window's cells of the range's last n_window positions are
     * included. Not for HTH_MODEL_RECURRENT.
     */
    HTH_STATE_CELLS,
    /* The same image, but its window's cells are not restored. Only for state_set with HTH_MODEL_WINDOW. */
    HTH_STATE_CELLS_BARE,
    /*
     * All state after the last token that HTH_STATE_CELLS does not include. For HTH_MODEL_RECURRENT and
     * HTH_MODEL_HYBRID.
     */
    HTH_STATE_REST,
} hth_state_part;

typedef struct hth_control_vector {
    char path[4096];
    float scale; /* finite */
} hth_control_vector;

typedef struct hth_engine_model_params {
    int32_t n_gpu_layers; /* number of layers on devices other than the CPU; -1: all */
    /*
     * "host:port,host:port": RPC servers on other machines, or NULL. Their devices are used before those of this
     * machine.
     */
    const char *rpc_servers;
    bool no_mmap;
    const char *chat_template;        /* Jinja source; NULL: the model's own */
    hearth_load_progress_fn progress; /* may be NULL */
    void *progress_user_data;
    const hth_log *log;            /* outlives the model; never NULL */
    const char *fallback_template; /* Jinja source for a model that has none; NULL: conversations are refused */
    /*
     * Their sum is added to the layers first .. last in all contexts and embedders of the model (0: the first layer
     * that can be changed; the last one).
     */
    const hth_control_vector *control_vectors; /* [n_control_vectors] */
    size_t n_control_vectors;
    uint32_t control_layer_first;
    uint32_t control_layer_last;
    const char *host_weights; /* the folder of regions of repacked weights (weight_region.h); NULL: none */
    bool keep_host_weights;   /* they stay when no process has the model loaded any more */
    /* As returned by hth_engine_options_read; only read during the call. NULL: the defaults. */
    const hearth_engine_options *options;
    bool special_in_messages; /* control tokens are also recognised in the texts of conversations */
    /* Read only the metadata. Only model_info, cell_room, needs and model_free may then be called for the model. */
    bool no_weights;
} hth_engine_model_params;

/* A device that the engine can compute on. */
typedef struct hth_engine_device {
    char backend[32];      /* the part of the engine that drives it: "CPU", "CUDA", "Vulkan", "RPC" */
    char name[64];         /* "CUDA0"; "": the backend has no device here */
    char description[128]; /* "NVIDIA H100" */
    uint64_t memory_bytes; /* total; 0: unknown */
} hth_engine_device;

enum { HTH_NO_TOKEN = -1 };
#define HTH_PLAIN_MARK ((char)0xFF) /* see tokenize; a byte that never occurs in UTF-8, so no client can send it */
enum { HTH_CONTEXT_STEP = 256 };    /* the engine rounds the tokens of a context up to a multiple of it */

/* The sampling options that a model's file may recommend: field, and the end of its key in the metadata. */
#define HTH_SAMPLING_ADVICE_EACH(ROW)       \
    ROW(temperature, "temp")                \
    ROW(top_k, "top_k")                     \
    ROW(top_p, "top_p")                     \
    ROW(min_p, "min_p")                     \
    ROW(repeat_penalty, "penalty_repeat")   \
    ROW(repeat_last_n, "penalty_last_n")    \
    ROW(xtc_probability, "xtc_probability") \
    ROW(xtc_threshold, "xtc_threshold")
#define HTH_SAMPLING_ADVICE_FIELD(field, key) float field;
/* Unchecked. NAN: the file does not name the option. */
typedef struct hth_sampling_advice {
    HTH_SAMPLING_ADVICE_EACH(HTH_SAMPLING_ADVICE_FIELD)
} hth_sampling_advice;

typedef struct hth_engine_model_info {
    hth_model_kind kind;
    char architecture[64];
    char description[128];
    char chat_template_kind[32]; /* "model", "given", "fallback" or "none" */
    char quant_type[16];         /* name as in the key's quant table, "unknown" otherwise */
    uint64_t n_params;
    uint64_t weight_bytes;
    uint32_t n_ctx_train;
    uint32_t n_ctx_short; /* a larger context uses different RoPE factors and shares no rows; 0: no such limit */
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_window;          /* number of positions that layers with a window see; 0: no such layers */
    const char *chat_template;  /* its source, valid while the model is loaded; NULL: none */
    const char *chat_abilities; /* of the template, likewise: a JSON object of booleans with the engine's names */
    hearth_vocabulary_type vocabulary_type;
    bool adds_bos; /* the tokenizer adds BOS when asked for the tokens that begin and end a text */
    bool adds_eos;
    uint32_t token_bytes_max;              /* no token stands for more bytes of a text than this; 0: unknown */
    hearth_token special[HEARTH_SPECIALS]; /* by hearth_special; HTH_NO_TOKEN: none */
    hth_sampling_advice advice;
    bool embeds;                /* embedder_new works */
    hearth_pooling pooling;     /* the one that the file names; HEARTH_POOLING_MODEL: none */
    uint32_t n_embedding;       /* number of values in a vector */
    uint32_t n_labels;          /* number of scores of HEARTH_POOLING_RANK; 0: the model has no classifier */
    const char *rank_template;  /* joins "{query}" and "{document}", valid while the model is loaded; NULL: none */
    bool adds_sep;              /* the tokenizer puts HEARTH_SPECIAL_SEP between two texts */
    bool has_control;           /* control vectors are in effect */
    uint8_t control_digest[32]; /* of everything that they change */
} hth_engine_model_info;

/* The memory for cells; 0: unknown. */
typedef struct hth_cell_room {
    uint64_t cell_bytes;  /* of one cell; an upper bound rather than a lower one */
    uint64_t free_bytes;  /* on the device of the cells, now, with the weights loaded */
    uint64_t total_bytes; /* the same with nothing else in memory: equal at every start */
    bool is_device;       /* on devices other than the CPU */
} hth_cell_room;

typedef struct hth_engine_context_params {
    uint32_t n_ctx;     /* number of cells, for all sequences together */
    uint32_t n_batch;   /* maximum number of tokens in one evaluation */
    uint32_t n_seq_max; /* sequences, including scratch ones; 1..256 */
    uint32_t n_threads; /* 0: the machine's CPUs */
    const char *type_k; /* NULL: f16 */
    const char *type_v;
    /*
     * The cells and the logits of a token must be bit-identical regardless of what else is evaluated with it, in which
     * batches its sequence was evaluated or restored, where its cells lie, and the values of n_ctx, n_batch, n_seq_max
     * and n_threads. HEARTH_UNSUPPORTED with the reason: the engine cannot promise that for this model and these
     * parameters.
     */
    bool deterministic;
    /*
     * Leave the build of the engine and the features of the CPU out of params_text: cells that others computed count as
     * equal.
     */
    bool portable;
    /*
     * Called between graph nodes during an evaluation, on its thread; returning true ends the evaluation. May be NULL.
     */
    bool (*abort)(void *user_data);
    void *abort_user_data;
} hth_engine_context_params;

/* ---- memory that a model would take ---- */

enum { HTH_DEVICES_MAX = 16 }; /* per model; llama_max_devices() of llama.cpp v0.5.0 */

/* The memory of a model and one of its contexts in one place, in bytes. */
typedef struct hth_engine_share {
    uint64_t weight_bytes;
    uint64_t cell_bytes;    /* cells and recurrent state */
    uint64_t compute_bytes; /* buffers for evaluations */
} hth_engine_share;

static inline uint64_t hth_engine_share_bytes(const hth_engine_share *share)
{
    return share->weight_bytes + share->cell_bytes + share->compute_bytes;
}

/* The same on a device with its own memory. */
typedef struct hth_engine_device_share {
    char name[64];        /* "CUDA0" */
    uint64_t free_bytes;  /* of the device, now; 0: unknown, also below */
    uint64_t total_bytes; /* of the device */
    hth_engine_share share;
} hth_engine_device_share;

typedef struct hth_engine_needs {
    hth_engine_share host;
    uint64_t repacked_bytes; /* of the host's weights: a process that maps the file also has a copy of these */
    hth_engine_device_share devices[HTH_DEVICES_MAX];
    size_t n_devices;
} hth_engine_needs;

/*
 * The cost of one idle cell: a cell of a sequence that has no rows in an evaluation. It slows the evaluation by row_ps
 * picoseconds for each row, and by sequence_ps for each sequence with rows. cells_max is the most idle cells to keep
 * while the cost is unknown (both 0), or while the cost of an evaluation without idle cells is unknown.
 */
typedef struct hth_idle_cost {
    uint32_t row_ps;
    uint32_t sequence_ps;
    uint32_t cells_max;
} hth_idle_cost;

typedef struct hth_engine_context_info {
    uint32_t n_ctx;
    uint32_t n_batch;
    uint32_t n_seq_max;
    hth_idle_cost idle_cost;
    bool is_deterministic; /* the guarantee of hth_engine_context_params.deterministic holds */
    /*
     * All settings that change the layout or the bits of the state, as one canonical, terminated text ("k=f16 v=f16
     * fa=1 ..."). ctx_params_hash is its SHA-256; see docs/engine.md, "ctx_params_hash".
     */
    char params_text[1024];
} hth_engine_context_info;

/* One row of a batch: one token of one sequence. */
typedef struct hth_batch_row {
    hearth_token token;
    uint32_t position; /* must be the next one of the sequence */
    uint32_t sequence;
    bool wants_logits;
    bool wants_vector; /* an embedding; must be false if the model's info says that it makes none */
} hth_batch_row;

enum { HTH_ADAPTERS_MAX = 64 };            /* per evaluation */
#define HTH_ADAPTER_SCALE_MAX 2147483520.0 /* the largest float below 2^31 */

/* An adapter, and the factor by which its change is scaled. */
typedef struct hth_engine_adapter_use {
    hth_engine_adapter *adapter;
    float scale; /* finite, not 0 */
} hth_engine_adapter_use;

typedef enum hth_decode_result {
    HTH_DECODE_OK,
    HTH_DECODE_NO_ROOM, /* not enough free cells; the state is unchanged */
    HTH_DECODE_ABORTED, /* the abort callback ended the evaluation; the caller must empty the sequences of the batch */
} hth_decode_result;

typedef enum hth_tokenize_result { HTH_TOKENIZE_OK, HTH_TOKENIZE_MORE_ROOM } hth_tokenize_result;

/* Called from time to time while a long text is tokenized, on that thread. True: the tokens are no longer needed. */
typedef struct hth_tokenize_stop {
    bool (*is_asked)(void *user_data);
    void *user_data;
} hth_tokenize_stop;

/* A candidate token after sampling's filters. */
typedef struct hth_candidate {
    hearth_token token;
    float probability; /* the probabilities of all candidates sum to 1 */
} hth_candidate;

/* The inputs of a draw besides the logits and the accepted tokens. */
typedef struct hth_sample_at {
    uint64_t position; /* of the token to draw, counted from the prompt's first */
    bool forbids_end;  /* tokens that end a reply are not candidates, unless a grammar allows nothing else */
} hth_sample_at;

enum {
    HTH_PIECE_BYTES_MAX = HEARTH_TOKEN_BYTES_MAX
}; /* buffer size for the text of one token, here and in all layers above */

/*
 * ---- conversations: the parts of a prompt and of a reply ----
 *
 * All memory comes from malloc, so that the library can free the results of an engine module.
 */

typedef struct hth_chat_reply_call {
    char *id; /* "" if there is none */
    char *name;
    char *arguments; /* n_arguments bytes */
    size_t n_arguments;
} hth_chat_reply_call;

/* Strings are terminated and not NULL, except in a zeroed reply. Strings with a length may contain NUL bytes. */
typedef struct hth_chat_reply {
    char *reasoning; /* n_reasoning bytes */
    char *content;   /* n_content bytes */
    size_t n_reasoning;
    size_t n_content;
    hth_chat_reply_call *calls; /* [n_calls] */
    size_t n_calls;
} hth_chat_reply;

/* Free the triggers and leave none. */
void hth_chat_prompt_clear_triggers(hearth_chat_prompt *prompt);
/* Free everything in it and zero it. */
void hth_chat_prompt_clear(hearth_chat_prompt *prompt);
/* Likewise. */
void hth_chat_reply_clear(hth_chat_reply *reply);

/* ---- embeddings ---- */

typedef struct hth_embedder_params {
    hearth_pooling pooling; /* not HEARTH_POOLING_MODEL */
    uint32_t n_tokens_max;  /* per evaluation */
    uint32_t n_inputs_max;  /* likewise; 1 .. 256. If each needs a lot of memory, the engine accepts fewer */
    uint32_t n_threads;     /* 0: the machine's CPUs */
    /* As hth_engine_context_params. */
    bool (*abort)(void *user_data);
    void *abort_user_data;
} hth_embedder_params;

/* One input of an evaluation. */
typedef struct hth_embedder_input {
    const hearth_token *tokens; /* [n_tokens], at least one */
    uint32_t n_tokens;
} hth_embedder_input;

typedef struct hth_backend {
    uint32_t abi;
    const char *name; /* "llama.cpp" */

    /* One line with version, build and CPU features; a static string. Does not start the engine. */
    const char *(*build)(void);
    /*
     * The devices of this machine: *n_out entries, at most capacity. Any thread. Starts the engine, which takes some
     * time on a machine with GPUs.
     */
    hearth_status (*devices)(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);

    /* ---- model: any thread; functions that take only a model may run at the same time on one model ---- */

    /*
     * HEARTH_MISUSE when rpc_servers is not a list of addresses, or when a control vector does not fit the model; the
     * message says how. HEARTH_UNSUPPORTED for control vectors with an architecture that supports none. HEARTH_ENGINE
     * when a server does not answer. If a server goes away later, or a device fails, the process ends.
     */
    hearth_status (*model_load)(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                hearth_error *err);
    void (*model_free)(hth_engine_model *model); /* after freeing its contexts; accepts NULL */
    /* kind becomes HTH_MODEL_UNCACHED when a context finds the model's state in an unexpected form. */
    void (*model_info)(const hth_engine_model *model, hth_engine_model_info *out);

    /*
     * *n_out is the number of tokens of the text. The name of a control token preceded by HTH_PLAIN_MARK is plain text;
     * only the text of a rendered conversation has such marks. If there are more tokens than capacity, *result is
     * HTH_TOKENIZE_MORE_ROOM and tokens is undefined. HEARTH_CANCELLED: stop (may be NULL) returned true.
     */
    hearth_status (*tokenize)(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                              const hth_tokenize_stop *stop, hearth_error *err);
    /*
     * The bytes of one token: *n_out bytes, at most capacity. A control token has bytes only if special is set. The
     * bytes need not be whole characters. HEARTH_MISUSE for an id outside the vocabulary, or a piece longer than
     * capacity.
     */
    hearth_status (*piece)(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                           size_t capacity, size_t *n_out, hearth_error *err);
    bool (*is_end)(const hth_engine_model *model, hearth_token token); /* ends a reply */
    /* *out receives the HEARTH_TOKEN_... flags of the token. HEARTH_MISUSE for an id outside the vocabulary. */
    hearth_status (*token_flags)(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err);

    /*
     * The metadata of the file, as hearth_model_metadata. The caller frees the strings. They may contain any bytes
     * except NUL.
     */
    size_t (*metadata_count)(const hth_engine_model *model);
    hearth_status (*metadata_key)(const hth_engine_model *model, size_t index, char **out, hearth_error *err);
    hearth_status (*metadata)(const hth_engine_model *model, const char *key, char **out, hearth_error *err);

    /* ---- adapters: any thread, also while contexts of the model evaluate ---- */

    /*
     * Load a LoRA adapter for the model from a file. Waits for running evaluations. HEARTH_MISUSE if the file is not an
     * adapter for this model, with a message that says why; HEARTH_UNSUPPORTED, with its kind, for an adapter that
     * cannot be used; HEARTH_CORRUPT, HEARTH_NO_MEMORY, HEARTH_IO.
     */
    hearth_status (*adapter_load)(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                  hearth_error *err);
    /* Contexts that apply it apply no adapters from then on. Call it before freeing the model; accepts NULL. */
    void (*adapter_free)(hth_engine_adapter *adapter);

    /* ---- context: one thread at a time ---- */

    hearth_status (*context_new)(hth_engine_model *model, const hth_engine_context_params *params,
                                 hth_engine_context **out, hearth_error *err);
    void (*context_free)(hth_engine_context *context); /* accepts NULL */
    void (*context_info)(const hth_engine_context *context, hth_engine_context_info *out);

    /*
     * Set the adapters of all evaluations from now on, [n], n at most HTH_ADAPTERS_MAX; a new context has none.
     * Applying the same ones again costs nothing; a change makes the next evaluation slower (docs/engine.md). After a
     * failure none is applied. The cells of a sequence depend on the adapters that were applied; the caller must not
     * mix them.
     */
    hearth_status (*adapters_apply)(hth_engine_context *context, const hth_engine_adapter_use *uses, size_t n,
                                    hearth_error *err);
    /* Evaluate 1 .. n_batch rows. The rows of one sequence have consecutive positions. */
    hearth_status (*decode)(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                            hth_decode_result *result, hearth_error *err);
    /*
     * The logits of a row of the last evaluation, [n_vocab], valid until the next call; NULL if they were not
     * requested.
     */
    const float *(*logits)(hth_engine_context *context, size_t row);
    /*
     * The vector of a row of the last evaluation, [n_embedding], likewise: that of HEARTH_POOLING_LAST for the tokens
     * of its sequence up to this one. An evaluation with such a row also computes the logits of all its rows.
     */
    const float *(*vector)(hth_engine_context *context, size_t row);

    /*
     * Remove the positions [begin, end) of a sequence; end UINT32_MAX: to its end. False: the engine cannot do it, and
     * nothing changed. A whole sequence can always be removed; part of one only with HTH_MODEL_PLAIN.
     */
    bool (*seq_remove)(hth_engine_context *context, uint32_t sequence, uint32_t begin, uint32_t end);
    /*
     * Share the cells [begin, end) of from with to. from has all of these cells, and to has none of them. If the model
     * is not HTH_MODEL_PLAIN, to must be empty or end at begin, and afterwards it has no recurrent state. Not for
     * HTH_MODEL_RECURRENT. Window cells that two sequences share are not reclaimed, so empty one of the two at once.
     */
    hearth_status (*seq_copy)(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                              hearth_error *err);
    /* The highest position of the sequence plus 1; 0 if it is empty or not whole. */
    uint32_t (*seq_end)(hth_engine_context *context, uint32_t sequence);

    /*
     * Part of a sequence's state as an image.
     *
     * Cells are read from, and written to, a sequence that shares them through seq_copy. The rest is read from a whole
     * sequence. It is written to a sequence whose cells end at end or, with HTH_MODEL_RECURRENT (no cells), to any
     * sequence. For HTH_STATE_REST begin is 0.
     *
     * state_size: the number of bytes that state_get would write; 0: there is no such part.
     * state_get: writes exactly *n_out <= capacity bytes.
     * state_set: checks the image (magic, streams, cell count, exact positions [begin, end), types, layers, recurrent
     * count) before the engine sees it. Then the engine must accept the whole image, and the sequence must end at end.
     * After any failure the sequence is empty; the status is HEARTH_CORRUPT for a bad image, and HEARTH_ENGINE when
     * there is no room or the engine refuses.
     * state_get and state_set: HEARTH_UNSUPPORTED for HTH_MODEL_UNCACHED, HEARTH_MISUSE for a part that the model's
     * kind does not have.
     */
    size_t (*state_size)(hth_engine_context *context, uint32_t sequence, hth_state_part part);
    hearth_status (*state_get)(hth_engine_context *context, uint32_t sequence, hth_state_part part, uint8_t *bytes,
                               size_t capacity, size_t *n_out, hearth_error *err);
    hearth_status (*state_set)(hth_engine_context *context, uint32_t sequence, hth_state_part part,
                               const uint8_t *bytes, size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err);

    /* ---- sampling: one thread at a time, any one ---- */

    /*
     * The sampling chain of one request; sampling is copied. Reading a grammar or a schema may take long, so the
     * scheduler's thread does not call this. The message of HEARTH_MISUSE names the option that is out of range, or the
     * reason why a grammar, a schema, a trigger or a pattern cannot be used.
     */
    hearth_status (*sampler_new)(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err);
    /*
     * A new sampler with the options of like, except the seed. It shares the grammar or schema of like, so nothing is
     * read again. No other thread may use like during the call. like may be freed afterwards.
     */
    hearth_status (*sampler_new_like)(const hth_engine_sampler *like, const hearth_sampling *sampling,
                                      hth_engine_sampler **out, hearth_error *err);
    void (*sampler_free)(hth_engine_sampler *sampler); /* accepts NULL */
    /*
     * Accept a token of the prompt (seen by penalties but not by the grammar) or of the reply. HEARTH_MISUSE when the
     * grammar forbids the token; the sampler cannot be used afterwards.
     */
    hearth_status (*sampler_accept)(hth_engine_sampler *sampler, hearth_token token, bool is_reply, hearth_error *err);
    /*
     * Filter logits [n_vocab], which are not changed, down to at least one candidate, likeliest first. Temperature 0
     * gives exactly one. The array belongs to the sampler and is valid until its next call. HEARTH_ENGINE when no
     * candidate is left, for example at a dead end of a grammar; HEARTH_MISUSE when the grammar is so ambiguous here
     * that the choice would take too long. Without a grammar nothing is allocated.
     */
    hearth_status (*sampler_apply)(hth_engine_sampler *sampler, const float *logits, const hth_sample_at *at,
                                   const hth_candidate **out, size_t *n_out, hearth_error *err);
    /*
     * The state of Mirostat or adaptive-p: *out. It changes only when a token is accepted after sampler_apply, because
     * then the probability of the token is known. False: the sampler has no such state. set_state continues an earlier
     * sampler.
     */
    bool (*sampler_state)(const hth_engine_sampler *sampler, float *out);
    void (*sampler_set_state)(hth_engine_sampler *sampler, float state);

    /* ---- conversations: any thread, several at once on one model ---- */

    /*
     * Render a conversation, whose texts are UTF-8 and within the limits of hearth.h. *out must be zeroed before, and
     * hth_chat_prompt_clear releases it. Errors in the conversation's JSON are found here. Statuses as
     * hearth_conversation_render.
     */
    hearth_status (*chat_prompt)(const hth_engine_model *model, const hearth_conversation *conversation,
                                 hearth_chat_prompt *out, hearth_error *err);
    /*
     * A reader of replies, made from hearth_chat_prompt.parser. It does not need the model, and reading does not change
     * it.
     */
    hearth_status (*chat_reader_new)(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
    void (*chat_reader_free)(hth_engine_chat_reader *reader); /* accepts NULL */
    /*
     * Parse a whole reply, or the beginning of one. hth_chat_reply_clear releases *out. HEARTH_CORRUPT when the text
     * does not have the form of a reply.
     */
    hearth_status (*chat_read)(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                               hth_chat_reply *out, hearth_error *err);

    /* ---- embeddings: one thread at a time for each embedder, alongside the model's contexts ---- */

    /*
     * HEARTH_UNSUPPORTED if the model makes no embeddings, or not with this pooling. An embedder keeps no state between
     * evaluations.
     */
    hearth_status (*embedder_new)(hth_engine_model *model, const hth_embedder_params *params, hth_engine_embedder **out,
                                  hearth_error *err);
    void (*embedder_free)(hth_engine_embedder *embedder);             /* before freeing the model; accepts NULL */
    uint32_t (*embedder_inputs)(const hth_engine_embedder *embedder); /* maximum number in one evaluation */
    /* As adapters_apply. */
    hearth_status (*embedder_adapters)(hth_engine_embedder *embedder, const hth_engine_adapter_use *uses, size_t n,
                                       hearth_error *err);
    /*
     * Evaluate 1 .. embedder_inputs inputs of 1 .. n_tokens_max tokens in total. *result is never HTH_DECODE_NO_ROOM.
     */
    hearth_status (*embed)(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                           hth_decode_result *result, hearth_error *err);
    /*
     * A vector of the last evaluation, [n_embedding], valid until the next one: of an input, or with
     * HEARTH_POOLING_NONE of one of its tokens. With HEARTH_POOLING_RANK the scores, [n_labels]. NULL: none.
     */
    const float *(*embedding)(hth_engine_embedder *embedder, size_t input, uint32_t token);

    /* ---- memory: any thread ---- */

    /* The memory for the cells of a context with these types (NULL: f16). */
    void (*cell_room)(const hth_engine_model *model, const char *type_k, const char *type_v, hth_cell_room *out);
    /*
     * The memory of a model that was loaded with no_weights, and of a context with these parameters. No other thread
     * may be in the engine. Statuses as context_new; HEARTH_ENGINE. The entry is NULL if the engine cannot compute
     * this.
     */
    hearth_status (*needs)(const hth_engine_model *model, const hth_engine_context_params *params,
                           hth_engine_needs *out, hearth_error *err);
} hth_backend;

typedef const hth_backend *(*hth_backend_entry)(void);

/*
 * The llama.cpp engine. The first call loads the module, which stays until the process ends. directory NULL means
 * $HEARTH_ENGINE_DIRECTORY, otherwise the "hearth" folder or the folder next to the running library. Thread-safe. The
 * message of HEARTH_NOT_FOUND names the places that were searched. HEARTH_UNSUPPORTED when the module found is not the
 * file that this process has already loaded under that name.
 */
hearth_status hth_backend_llama(const char *directory, const hth_backend **out, hearth_error *err);

/*
 * The engine of a model. A path "NAME:arguments" (NAME: 1 to 16 of a-z, not "llama") belongs to the module hearth-NAME,
 * if the engine directory has it. Every other path is that of a file and belongs to llama.cpp. Otherwise as
 * hth_backend_llama. HEARTH_UNSUPPORTED for a fifth engine in one process. The path comes from the user who starts the
 * process, never from a request.
 */
hearth_status hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                   hearth_error *err);
/*
 * Is the path that of a file, and not for the module of another engine? Looks into the engine directory; loads nothing.
 */
bool hth_model_path_is_file(const char *directory, const char *model_path);
/*
 * The fingerprint of a model "NAME:arguments" whose module is loaded: SHA-256("hearth-module-v1\0" || SHA-256 of the
 * module's file at loading || SHA-256 of model_path). So replacing a module in place makes its models different ones. A
 * module that is linked into the program has no file: 32 zero bytes replace its digest. Thread-safe.
 */
void hth_module_fingerprint(const char *model_path, uint8_t out[32]);

#endif
