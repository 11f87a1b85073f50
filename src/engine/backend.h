/*
 * backend.h - what the layers above know of an inference engine
 *
 * An engine is a table of functions over two opaque objects: a model (weights and vocabulary, shared by any number of
 * contexts) and a context (KV cells, used by one thread at a time). An engine is a module that is loaded only where a
 * model is: Hearth brings the one of llama.cpp, and the tests have a deterministic one without a model (tests/stub).
 * Nothing above this header includes llama.h.
 *
 * Rules for implementations: no function aborts, throws or writes to a stream, whatever the arguments; a precondition
 * that the caller broke is HEARTH_MISUSE, a failure of the engine HEARTH_ENGINE with the cause. Log lines go to the
 * sink.
 *
 * Sequences: ids 0 .. n_seq_max-1. Positions count from 0. A sequence holds the cells [0, n) of its n tokens.
 *
 * The state of a sequence falls into parts. Its cells are what attention keeps of each token; layers with a window keep
 * the last n_window positions only. The rest is what exists "as of now" alone: recurrent state. A sequence is whole
 * when it has everything that its next token depends on; one that is put together from rows is not until the last of
 * them. Evaluating one that is not whole is HEARTH_MISUSE.
 */
#ifndef HTH_ENGINE_BACKEND_H
#define HTH_ENGINE_BACKEND_H

#include "base/log.h"
#include "base/status.h"
#include "engine/chat_reply.h"

/* Raised when anything in this header changes; a module with another number is refused. */
#define HTH_BACKEND_ABI 11u

/* The symbol that an engine module exports: const hth_backend *hearth_backend(void). */
#define HTH_BACKEND_SYMBOL "hearth_backend"

typedef struct hth_engine_model hth_engine_model;
typedef struct hth_engine_context hth_engine_context;
typedef struct hth_engine_sampler hth_engine_sampler;
typedef struct hth_engine_chat_reader hth_engine_chat_reader;

/* How a model's state can be cut; docs/engine.md says how each was measured. */
typedef enum hth_model_kind {
    HTH_MODEL_PLAIN,     /* attention over everything: blocks and tails */
    HTH_MODEL_WINDOW,    /* some layers see a window only: blocks and tails, cut as soon as they are evaluated */
    HTH_MODEL_RECURRENT, /* state "as of now" only: the whole state at some boundaries */
    HTH_MODEL_HYBRID,    /* attention and recurrent layers, perhaps a window too: blocks, tails, and states */
    HTH_MODEL_UNCACHED,  /* not measured and not trusted: rows are neither cut nor restored */
} hth_model_kind;

/* What of a sequence's state a blob holds. */
typedef enum hth_state_part {
    /*
     * The cells of a range. HTH_MODEL_WINDOW: with the window's cells of the range's last n_window positions. Not for
     * HTH_MODEL_RECURRENT.
     */
    HTH_STATE_CELLS,
    /* Such a blob, of which the window's cells are left out. For state_set of HTH_MODEL_WINDOW only. */
    HTH_STATE_CELLS_BARE,
    /* Everything that HTH_STATE_CELLS lacks, after the last token. For HTH_MODEL_RECURRENT and HTH_MODEL_HYBRID. */
    HTH_STATE_REST,
} hth_state_part;

typedef struct hth_engine_model_params {
    int32_t n_gpu_layers; /* layers on devices other than the CPU; -1: all that fit */
    /* "host:port,host:port": servers of the engine on other machines, whose devices are used before this one's; or NULL. */
    const char *rpc_servers;
    bool no_mmap;
    const char *chat_template;        /* Jinja source, or NULL for the model's own */
    hearth_load_progress_fn progress; /* may be NULL */
    void *progress_user_data;
    const hth_log *log;            /* outlives the model; never NULL */
    const char *fallback_template; /* Jinja source for a model that has none; NULL: conversations are refused */
} hth_engine_model_params;

/* Something that the engine can compute on. */
typedef struct hth_engine_device {
    char backend[32];      /* the part of the engine that drives it: "CPU", "CUDA", "Vulkan", "RPC" */
    char name[64];         /* "CUDA0"; "": this back end has no device here */
    char description[128]; /* "NVIDIA H100" */
    uint64_t memory_bytes; /* all there is; 0: unknown */
} hth_engine_device;

enum { HTH_NO_TOKEN = -1 };
enum { HTH_CONTEXT_STEP = 256 }; /* the engine rounds the tokens of a context up to a multiple of it */
/* What a model's file recommends for sampling, as it stands there; NAN where it says nothing. */
typedef struct hth_sampling_advice {
    float temperature;
    float top_k;
    float top_p;
    float min_p;
    float repeat_penalty;
    float repeat_last_n;
    float xtc_probability;
    float xtc_threshold;
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
    uint32_t
        n_ctx_short; /* a larger context is computed with other RoPE factors, and shares no rows; 0: with the same */
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_window;         /* positions that layers with a window see; 0 where there are none */
    const char *chat_template; /* its source, as long as the model is loaded; NULL: none */
    hearth_vocabulary_type vocabulary_type;
    bool adds_bos; /* the tokenizer does, when it is asked for what begins and ends a text */
    bool adds_eos;
    hearth_token special[HEARTH_SPECIALS]; /* by hearth_special; HTH_NO_TOKEN: it has none */
    hth_sampling_advice advice;
} hth_engine_model_info;

/* The memory that cells may take; 0: not known. */
typedef struct hth_cell_room {
    uint64_t cell_bytes;  /* about what one takes, rather more than less */
    uint64_t free_bytes;  /* now, where cells would lie, once the weights are there */
    uint64_t total_bytes; /* likewise if nothing else were there: the same at each start */
    bool is_device;       /* on devices other than the CPU */
} hth_cell_room;

typedef struct hth_engine_context_params {
    uint32_t n_ctx;     /* cells, for all sequences together */
    uint32_t n_batch;   /* most tokens of one decode call */
    uint32_t n_seq_max; /* sequences, scratch ones included; 1..256 */
    uint32_t n_threads; /* 0: the machine's CPUs */
    const char *type_k; /* NULL: f16 */
    const char *type_v;
    /* Asked between graph nodes while a decode runs; true ends it. Called on the decoding thread; may be NULL. */
    bool (*abort)(void *user_data);
    void *abort_user_data;
} hth_engine_context_params;

/*
 * What a cell of a sequence that has no rows in an evaluation costs it: picoseconds for each row, and for each sequence
 * with rows. cells_max is how many of them there should be where that is not known (both 0), or not yet what an
 * evaluation costs without them.
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
    /*
     * Everything that changes the layout or the bits of the state, as one canonical text ("k=f16 v=f16 fa=1 ..."),
     * terminated. ctx_params_hash is its SHA-256. See docs/engine.md, "ctx_params_hash".
     */
    char params_text[1024];
} hth_engine_context_info;

/* One row of a batch: one token of one sequence. */
typedef struct hth_batch_row {
    hearth_token token;
    uint32_t position; /* must be the sequence's next one */
    uint32_t sequence;
    bool wants_logits;
} hth_batch_row;

typedef enum hth_decode_result {
    HTH_DECODE_OK,
    HTH_DECODE_NO_ROOM, /* not enough free cells; the state is unchanged */
    HTH_DECODE_ABORTED, /* the abort callback ended it; the sequences of the batch must be emptied */
} hth_decode_result;

typedef enum hth_tokenize_result { HTH_TOKENIZE_OK, HTH_TOKENIZE_MORE_ROOM } hth_tokenize_result;

/* A candidate token after sampling's filters. */
typedef struct hth_candidate {
    hearth_token token;
    float probability; /* over the candidates that are left; they sum to 1 */
} hth_candidate;

/* What a draw depends on besides logits and what was accepted. */
typedef struct hth_sample_at {
    uint64_t position; /* of the token to draw, counted from the prompt's first */
    bool forbids_end;  /* tokens that end a reply are not candidates, unless a grammar allows nothing else */
} hth_sample_at;

enum {
    HTH_PIECE_BYTES_MAX = HEARTH_TOKEN_BYTES_MAX
}; /* room for the text of one token, here and in all layers above */

typedef struct hth_backend {
    uint32_t abi;
    const char *name; /* "llama.cpp" */

    /* One line naming version, build and CPU features; static string. Does not initialise the engine. */
    const char *(*build)(void);
    /*
     * What the engine can compute on in this machine, at most capacity entries, *n_out of them. Any thread; starts the
     * engine, which takes a moment where there are GPUs.
     */
    hearth_status (*devices)(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err);

    /* ---- model: any thread; the functions below that take only a model may run at once on one model ---- */

    /*
     * HEARTH_MISUSE when rpc_servers is no list of addresses, HEARTH_ENGINE when one of them does not answer. A server
     * that goes away later ends the process; so do other failures of devices.
     */
    hearth_status (*model_load)(const char *path, const hth_engine_model_params *params, hth_engine_model **out,
                                hearth_error *err);
    void (*model_free)(hth_engine_model *model); /* after its contexts; accepts NULL */
    /* kind can change to HTH_MODEL_UNCACHED, when a context finds the model's state in an unexpected form. */
    void (*model_info)(const hth_engine_model *model, hth_engine_model_info *out);

    /* *n_out is the number of tokens, also beyond capacity (then HTH_TOKENIZE_MORE_ROOM and tokens are undefined). */
    hearth_status (*tokenize)(const hth_engine_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hth_tokenize_result *result,
                              hearth_error *err);
    /*
     * The bytes of one token, at most capacity, *n_out how many; control tokens give none unless special. Bytes need
     * not be whole characters. HEARTH_MISUSE for ids outside the vocabulary or a piece longer than capacity.
     */
    hearth_status (*piece)(const hth_engine_model *model, hearth_token token, bool special, char *bytes,
                           size_t capacity, size_t *n_out, hearth_error *err);
    bool (*is_end)(const hth_engine_model *model, hearth_token token); /* ends a reply */
    /* A token's HEARTH_TOKEN_... in *out. HEARTH_MISUSE for ids outside the vocabulary. */
    hearth_status (*token_flags)(const hth_engine_model *model, hearth_token token, unsigned *out, hearth_error *err);

    /* What the file says of itself, as hearth_model_metadata. The strings are malloc'ed and may be any bytes but NUL. */
    size_t (*metadata_count)(const hth_engine_model *model);
    hearth_status (*metadata_key)(const hth_engine_model *model, size_t index, char **out, hearth_error *err);
    hearth_status (*metadata)(const hth_engine_model *model, const char *key, char **out, hearth_error *err);

    /* A malloc'ed terminated string in *text_out. */
    hearth_status (*chat_render)(const hth_engine_model *model, const hearth_chat_message *messages, size_t n_messages,
                                 char **text_out, hearth_error *err);

    /* ---- context: one thread at a time ---- */

    hearth_status (*context_new)(hth_engine_model *model, const hth_engine_context_params *params,
                                 hth_engine_context **out, hearth_error *err);
    void (*context_free)(hth_engine_context *context); /* accepts NULL */
    void (*context_info)(const hth_engine_context *context, hth_engine_context_info *out);

    /* Evaluate 1 .. n_batch rows. Rows of one sequence follow one another with increasing positions. */
    hearth_status (*decode)(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows,
                            hth_decode_result *result, hearth_error *err);
    /* Logits of row i of the last decode, [n_vocab], valid until the next call; NULL where none were asked for. */
    const float *(*logits)(hth_engine_context *context, size_t row);

    /*
     * Positions [begin, end) of a sequence; end UINT32_MAX: to its end. false: the engine cannot, nothing changed. A
     * whole sequence can always be removed; a part of one only with HTH_MODEL_PLAIN.
     */
    bool (*seq_remove)(hth_engine_context *context, uint32_t sequence, uint32_t begin, uint32_t end);
    /*
     * Share the cells [begin, end) of from, which has them, with to, which has none of them; where the model is not
     * HTH_MODEL_PLAIN, to is empty or ends at begin, and has no rest afterwards. Not for HTH_MODEL_RECURRENT. Window
     * cells that two sequences share are not reclaimed: empty one of the two at once.
     */
    hearth_status (*seq_copy)(hth_engine_context *context, uint32_t from, uint32_t to, uint32_t begin, uint32_t end,
                              hearth_error *err);
    /* One more than the highest position of the sequence; 0 when it is empty, or not whole. */
    uint32_t (*seq_end)(hth_engine_context *context, uint32_t sequence);

    /*
     * A part of a sequence's state as a blob. Cells are got from, and set into, a sequence that is shared with by
     * seq_copy; the rest from a whole sequence, and into one that ends at end (cells) or any (HTH_MODEL_RECURRENT, which
     * has no cells). size: bytes that get would write, 0 when there is no such part. get and set are HEARTH_UNSUPPORTED
     * for HTH_MODEL_UNCACHED and HEARTH_MISUSE for a part that the model's kind does not have.
     * get: writes exactly *n_out <= capacity bytes. set: checks the blob (magic, streams, cell count, exact positions
     * [begin, end), types, layers, recurrent count) before the engine sees it, then requires that the engine took all
     * of it and that the sequence ends at end; on any failure the sequence is left empty and the status is
     * HEARTH_CORRUPT (the blob is bad) or HEARTH_ENGINE (no room, or the engine refused). For HTH_STATE_REST begin is 0.
     */
    size_t (*state_size)(hth_engine_context *context, uint32_t sequence, hth_state_part part);
    hearth_status (*state_get)(hth_engine_context *context, uint32_t sequence, hth_state_part part, uint8_t *bytes,
                               size_t capacity, size_t *n_out, hearth_error *err);
    hearth_status (*state_set)(hth_engine_context *context, uint32_t sequence, hth_state_part part,
                               const uint8_t *bytes, size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err);

    /* ---- sampling: one thread at a time, not always the same ---- */

    /*
     * The chain of hearth_sampling for one request; sampling is copied. Reads grammars and schemas, so it may take long
     * and is not for the scheduler's thread. HEARTH_MISUSE names the option that is out of range, or why a grammar, a
     * schema, a trigger or a pattern cannot be honoured.
     */
    hearth_status (*sampler_new)(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err);
    /*
     * Another one of the same options but for the seed; where those name a grammar or a schema it is like's, which is not
     * read again. like is not used by anybody meanwhile, and may be freed afterwards.
     */
    hearth_status (*sampler_new_like)(const hth_engine_sampler *like, const hearth_sampling *sampling,
                                      hth_engine_sampler **out, hearth_error *err);
    void (*sampler_free)(hth_engine_sampler *sampler); /* accepts NULL */
    /*
     * A token has come: of the prompt (penalties see it, the grammar does not) or of the reply. HEARTH_MISUSE when the
     * grammar forbids it; the sampler is of no use afterwards.
     */
    hearth_status (*sampler_accept)(hth_engine_sampler *sampler, hearth_token token, bool is_reply, hearth_error *err);
    /*
     * Filter logits [n_vocab] (not changed) down to candidates, likeliest first; the array belongs to the sampler and
     * is valid until its next call. At least one candidate. Temperature 0 gives exactly one. HEARTH_ENGINE when nothing
     * is left, as where a grammar has come to a dead end, and where it is so ambiguous that choosing would take too
     * long. Without a grammar nothing is allocated.
     */
    hearth_status (*sampler_apply)(hth_engine_sampler *sampler, const float *logits, const hth_sample_at *at,
                                   const hth_candidate **out, size_t *n_out, hearth_error *err);

    /* ---- conversations: any thread, several at once on one model ---- */

    /*
     * Render a conversation, whose texts are UTF-8 and within the limits of hearth.h, and fill *out (zeros before). What
     * can be wrong with JSON in it is found here. Statuses as hearth_conversation_render.
     */
    hearth_status (*chat_prompt)(const hth_engine_model *model, const hearth_conversation *conversation,
                                 hearth_chat_prompt *out, hearth_error *err);
    /* A reader of replies from hearth_chat_prompt.parser. It does not need the model; reading changes nothing in it. */
    hearth_status (*chat_reader_new)(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
    void (*chat_reader_free)(hth_engine_chat_reader *reader); /* accepts NULL */
    /*
     * What a text says, the whole reply or the beginning of one. *out is to be cleared with hth_chat_reply_clear.
     * HEARTH_CORRUPT when the text does not have the form of a reply.
     */
    hearth_status (*chat_read)(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                               hth_chat_reply *out, hearth_error *err);

    /* ---- memory: any thread ---- */

    /* Of a context whose types are these (NULL: f16). */
    void (*cell_room)(const hth_engine_model *model, const char *type_k, const char *type_v, hth_cell_room *out);
} hth_backend;

typedef const hth_backend *(*hth_backend_entry)(void);

/*
 * The llama.cpp engine: loads the module on first use and keeps it for the life of the process. directory NULL means
 * $HEARTH_ENGINE_DIRECTORY, else the "hearth" folder or the folder beside the running library. Thread-safe.
 * HEARTH_NOT_FOUND when there is no module, naming the places looked at.
 */
hearth_status hth_backend_llama(const char *directory, const hth_backend **out, hearth_error *err);

/*
 * The engine of a model. The path "NAME:arguments" is served by the module hearth-NAME where the engine directory has
 * one (NAME: 1 to 16 of a-z, not "llama"), and every other path, a file's, by llama.cpp. Otherwise as hth_backend_llama;
 * HEARTH_UNSUPPORTED for a fifth engine in one process. A path comes from whoever starts the process, never from a
 * request.
 */
hearth_status hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                   hearth_error *err);
/* Is the path that of a file, and not for another engine's module? Looks into the engine directory; loads nothing. */
bool hth_model_path_is_file(const char *directory, const char *model_path);

#endif
