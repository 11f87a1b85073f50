/*
 * frames.h - the frames that carry a reply from a worker to the front
 *
 * A reply that another worker can continue is sent as frames, if the request has the header Hearth-Frames. A frame is
 *
 *   0  u32  bytes of the payload, little-endian, at most HTH_FRAME_BYTES_MAX
 *   4  u8   kind
 *   5       payload
 *
 *   HEAD  u16 status, u8 1 for a stream, u8 0, u32 Retry-After in seconds (0: none), the content type, a NUL, and the
 *         ignored fields of the request (api/notes.h): before any bytes
 *   STEP  u32 reply, u8 flags (hth_step_flag), u8 log probabilities of each token, u8[2] 0, u32 n, n tokens, with
 *         HTH_STEP_STATE an f32, bytes for the client: in a stream, all bytes that these tokens released; else none. A
 *         token is an i32, then its log probabilities, each an i32 token and an f32. The f32 is the state of the
 *         sampler after the last token (hearth_token_event.sampler_state). Without tokens the bytes are whole events
 *         that no token released: keep-alives, progress of the prompt, or with HTH_STEP_BEGINS the beginning of the
 *         stream
 *   BYTES bytes for the client: in a stream, the first bytes of the next STEP; else the next bytes of the reply
 *   END   a summary (hth_frame_summary): nothing follows
 *   CACHED  u32 reply, u32 number of tokens of its prompt that needed no prefill: before its first token
 *   MODEL u8[16] of a digest of the model's file and its chat template. Before any tokens
 *   RECORD u8 flags (hth_record_flag), a piece of the stored record (dialects/response_record.h): before END; and if
 *         the client does not wait, a record of the beginning before everything else
 *   OUTCOME u32 reply, the facts of its end (hth_frame_outcome): before the STEP that ends it
 *   BROKEN  u8 1 if the worker died, u64 generation of its process: the node that sends this frame lost its worker
 *         before END, and nothing follows. Workers do not send it
 *   WORK  u32 tokens of the completed inputs of a request for embeddings: repeatedly before END, to count them for a
 *         client that leaves before END
 *
 * In a stream, the front forwards the bytes of a STEP, with the BYTES before it, when the STEP is complete, and keeps
 * its tokens. So if the worker dies, the client has exactly the bytes that the known tokens released. The next worker
 * gets these tokens, discards the bytes that they release, and continues with the next byte.
 *
 * In a reply that is not a stream, all tokens and ends come before the first byte. The next worker writes the reply
 * from its beginning, and the front discards the bytes that it has already sent. Both replies are identical, because a
 * reply depends only on the request, its tokens and these frames: log probabilities, until the bytes that show them are
 * sent, and the OUTCOME.
 *
 * The front sends the known tokens to the next worker as STEP frames without bytes, before the client's body (the
 * header Hearth-Known has their length). CACHED frames go with them, so that the number of cached tokens stays the
 * number that the client saw. HTH_STEP_BEGINS, OUTCOME and MODEL go with them, too: the MODEL frame shows whether the
 * name now means another model, for which the tokens are meaningless. Tokens that were drawn at other nodes come first,
 * and the header Hearth-Elsewhere has the length of their frames: the worker may evaluate them faster
 * (hearth_request.n_replayed_elsewhere).
 *
 * Between these frames and the client's body come records of earlier responses (Hearth-Past), and then what another
 * node knows of the prompt (Hearth-History).
 */
#ifndef HTH_WIRE_FRAMES_H
#define HTH_WIRE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/buffer.h"
#include "hearth.h"
#include "wire/figures.h"

#define HTH_FRAMES_CONTENT_TYPE "application/vnd.hearth.frames"

/* Headers from the front to a worker. The worker trusts them, because only its owner can reach its socket. */
#define HTH_HEADER_FRAMES "Hearth-Frames" /* "1" */
#define HTH_HEADER_KNOWN \
    "Hearth-Known"                  /* bytes of frames before the body, perhaps 0: a worker had the request before */
#define HTH_HEADER_AGE "Hearth-Age" /* with Hearth-Known: microseconds since the front got the request */
#define HTH_HEADER_ELSEWHERE "Hearth-Elsewhere" /* bytes of the first of those frames: of tokens of other nodes */
#define HTH_HEADER_PAST "Hearth-Past"           /* bytes of records between those frames and the body */
#define HTH_HEADER_HISTORY "Hearth-History"     /* bytes of true tokens after the records (history_part.h) */
#define HTH_HEADER_ID "Hearth-Id"               /* the reply's id: letters and digits */
#define HTH_HEADER_CREATED "Hearth-Created"     /* Unix time in seconds */
#define HTH_HEADER_SEED "Hearth-Seed"           /* if the client sent none */
#define HTH_HEADER_SALT "Hearth-Salt"           /* of the client's key; combined with the request's own salt */
#define HTH_HEADER_ADAPTER "Hearth-Adapter"     /* "1": the model that the body names is an adapter */
#define HTH_HEADER_LOST "Hearth-Lost"           /* "1": the list of adapters includes lost ones */
#define HTH_HEADER_ROWS "Hearth-Rows"           /* the node that probably has more of the prompt than this one */
#define HTH_HEADER_ASK "Hearth-Ask"          /* HTH_ASK_HISTORY: no reply is wanted, but what is known of the prompt */
#define HTH_ASK_HISTORY "history"            /* its answer has the form of history_part.h, or is empty */
#define HTH_HEADER_REQUEST_ID "X-Request-Id" /* for logs */

/*
 * The number of the form in which tokens become the bytes of a reply, in every API. Raise it when any of these bytes
 * change: then workers of the old and the new version, on nodes that are upgraded one by one, do not continue each
 * other's replies.
 */
enum { HTH_REPLY_FORMAT = 1 };

enum {
    HTH_FRAME_BYTES_MAX = 1 << 20, /* bounds the front's memory for a partial frame */
    HTH_FRAME_HEAD_BYTES = 5,
    HTH_FRAME_MODEL_BYTES = 16,
    HTH_FRAME_KEY_BYTES = 32,
    HTH_FRAME_LOGPROBS_MAX = 65,                        /* of a token: its own and those of the most likely tokens */
    HTH_STEP_TOKEN_BYTES_MAX = HTH_FRAME_BYTES_MAX / 2, /* of a STEP's tokens, including log probabilities */
    /* Of the known part of a request: 4 million tokens, or 32,000 with 64 log probabilities each. */
    HTH_KNOWN_BYTES_MAX = 16 << 20,
    HTH_PAST_BYTES_MAX = 32 << 20,         /* of all records that a request names */
    HTH_HISTORY_PART_BYTES_MAX = 16 << 20, /* of true tokens and their text: about 2 million tokens */
};

typedef enum hth_frame_kind {
    HTH_FRAME_HEAD = 1,
    HTH_FRAME_STEP = 2,
    HTH_FRAME_END = 3,
    HTH_FRAME_CACHED = 4,
    HTH_FRAME_MODEL = 5,
    HTH_FRAME_BYTES = 6,
    HTH_FRAME_OUTCOME = 7,
    HTH_FRAME_RECORD = 8,
    HTH_FRAME_WORK = 9,
    HTH_FRAME_BROKEN = 10,
} hth_frame_kind;

typedef enum hth_record_flag {
    HTH_RECORD_LAST = 1,  /* its last piece */
    HTH_RECORD_BEGUN = 2, /* the response has just begun */
} hth_record_flag;

typedef enum hth_step_flag {
    HTH_STEP_ENDS = 1,   /* the reply has ended */
    HTH_STEP_FAILS = 2,  /* the bytes end in the error that ends all replies of the request */
    HTH_STEP_STATE = 8,  /* the state of the sampler follows the tokens */
    HTH_STEP_BEGINS = 4, /* before any tokens: the beginning of the reply's stream, which must not be repeated */
} hth_step_flag;

/* The result of a request with all its replies, for logs and metrics. */
typedef struct hth_frame_summary {
    uint32_t status;           /* HTTP status, also of a stream that failed later */
    uint32_t finish;           /* hearth_finish_reason of the first reply */
    hth_frame_figures figures; /* tokens of all replies, each prompt once; the rest from the first reply */
} hth_frame_summary;

/*
 * The facts about the end of a reply that its last bytes show and its tokens do not determine. Numbers as in
 * hearth_stats and hearth_result.
 */
typedef struct hth_frame_outcome {
    uint32_t finish;
    uint32_t stop_number;
    uint32_t n_finish_tokens;
    hth_frame_figures figures;
    uint8_t finish_key[HTH_FRAME_KEY_BYTES];
} hth_frame_outcome;

/* Sampled tokens to write. */
typedef struct hth_frame_tokens {
    const hearth_token *ids; /* [n] */
    uint32_t n;
    uint32_t n_logprobs;            /* of each, at most HTH_FRAME_LOGPROBS_MAX; 0: none */
    const hearth_logprob *logprobs; /* [n * n_logprobs] */
    bool has_state;
    float state; /* of the sampler, after the last token */
} hth_frame_tokens;

typedef struct hth_frame {
    hth_frame_kind kind;
    /* HEAD */
    int status;
    bool is_stream;
    uint32_t retry_after_s;
    char content_type[64];
    const char *notes; /* [n_notes], borrowed likewise: the ignored fields, as a list */
    size_t n_notes;
    /* STEP, CACHED, OUTCOME */
    uint32_t reply;
    /* STEP */
    bool reply_has_ended;
    bool has_failed;
    bool reply_has_begun;
    uint32_t n_tokens;
    uint32_t n_logprobs;   /* of each */
    const uint8_t *tokens; /* [n_tokens], not aligned: hth_frame_token, hth_frame_logprob */
    bool has_state;
    float state;
    /* RECORD */
    bool is_last;
    bool has_begun;
    /* STEP, BYTES, RECORD */
    const char *bytes; /* [n_bytes], borrowed from the input */
    size_t n_bytes;
    /* CACHED */
    uint32_t n_cached;
    /* WORK */
    uint32_t n_worked;
    /* BROKEN */
    bool has_died;
    uint64_t generation;
    /* MODEL */
    const uint8_t *model; /* [HTH_FRAME_MODEL_BYTES], borrowed likewise */
    /* END */
    hth_frame_summary summary;
    /* OUTCOME */
    hth_frame_outcome outcome;
} hth_frame;

hearth_token hth_frame_token(const hth_frame *frame, uint32_t i);
/* Log probability k of token i. */
hearth_logprob hth_frame_logprob(const hth_frame *frame, uint32_t i, uint32_t k);

/* Append a frame to out (out->failed without memory). content_type is cut at 63 bytes; notes: NULL or "" for none. */
void hth_frame_add_head(hth_buffer *out, int status, bool is_stream, uint32_t retry_after_s, const char *content_type,
                        const char *notes);
/*
 * tokens: at most HTH_STEP_TOKEN_BYTES_MAX bytes; NULL: none. Bytes that do not fit are written before the STEP as
 * BYTES.
 */
void hth_frame_add_step(hth_buffer *out, uint32_t reply, unsigned flags, const hth_frame_tokens *tokens,
                        const void *bytes, size_t n_bytes);
/* Writes as many frames as needed. */
void hth_frame_add_bytes(hth_buffer *out, const void *bytes, size_t n_bytes);
void hth_frame_add_cached(hth_buffer *out, uint32_t reply, uint32_t n_cached);
/* Writes as many frames as needed. flags: HTH_RECORD_BEGUN or 0. */
void hth_frame_add_record(hth_buffer *out, unsigned flags, const void *bytes, size_t n_bytes);
void hth_frame_add_model(hth_buffer *out, const uint8_t model[HTH_FRAME_MODEL_BYTES]);
void hth_frame_add_outcome(hth_buffer *out, uint32_t reply, const hth_frame_outcome *outcome);
void hth_frame_add_work(hth_buffer *out, uint32_t n_tokens);
void hth_frame_add_broken(hth_buffer *out, bool has_died, uint64_t generation);
void hth_frame_add_end(hth_buffer *out, const hth_frame_summary *summary);

/* Bytes of n tokens in a STEP. */
size_t hth_frame_token_bytes(uint32_t n, uint32_t n_logprobs);

/*
 * Append the part of a frame that a new worker needs to out, which holds only such frames. Of a STEP: its tokens and
 * whether its reply has ended, without bytes. CACHED, MODEL and OUTCOME are copied unchanged; other kinds are skipped.
 * *last is the offset of the last frame. If that is a STEP of the same reply, the tokens are added to it, so that a
 * reply of many steps has one frame.
 */
void hth_frame_add_known(hth_buffer *out, size_t *last, const hth_frame *frame);

typedef enum hth_frame_result { HTH_FRAME_OK, HTH_FRAME_PART, HTH_FRAME_BAD } hth_frame_result;

/*
 * How many of the bytes, [n], are whole frames, by the lengths in their heads. HTH_FRAME_BAD_BYTES: a frame is too
 * long. A pure function.
 */
#define HTH_FRAME_BAD_BYTES SIZE_MAX
size_t hth_frame_whole_bytes(const void *bytes, size_t n);

/*
 * Read the frame that begins at bytes, [n]. OK: it has *used_out bytes. PART: more bytes are needed. BAD: it is
 * malformed. Never reads beyond n. A pure function.
 */
hth_frame_result hth_frame_read(const void *bytes, size_t n, hth_frame *out, size_t *used_out);

#endif
