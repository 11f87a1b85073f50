/*
 * journal_pieces.h - what a journal (fleet/journals.h) says about a reply
 *
 * The first piece is the request, as the worker got it:
 *
 *    0  u32     bytes of the facts
 *    4          the facts, a JSON object (below)
 *       u32     bytes of the body, and the body
 *       u32     bytes of the records of earlier responses (HTH_HEADER_PAST), and these
 *       u32     bytes of the record of a response that has begun, and this
 *
 * Every other piece is a list of { u8 kind, u32 bytes, the bytes }, with numbers in little-endian order:
 *
 *   TOKENS  frames that the next worker gets (hth_frame_add_known)
 *   EVENTS  bytes of the stream that the client got with them
 *   END     nothing: the stream is whole
 *
 * So whatever prefix of the pieces another node finds, its tokens released exactly its bytes. Pure functions.
 */
#ifndef HTH_FRONT_JOURNAL_PIECES_H
#define HTH_FRONT_JOURNAL_PIECES_H

#include <stdint.h>

#include "api/buffer.h"

typedef enum hth_piece_kind { HTH_PIECE_TOKENS = 1, HTH_PIECE_EVENTS = 2, HTH_PIECE_END = 3 } hth_piece_kind;

enum { HTH_JOURNALED_KEY_BYTES = 32 };

/* A request. Texts are never NULL; "": none. Bytes are borrowed. */
typedef struct hth_journaled {
    const char *model;  /* as configured at its node */
    const char *target; /* path and query for the worker */
    const char *body_type;
    const char *id;
    const char *request_id;
    const char *traceparent;
    const char *salt;
    const char *adapter;
    bool names_adapter;
    const char *digest;   /* of the model where it ran, as in hth_place_seeker */
    const char *keyspace; /* likewise */
    uint64_t seed;
    uint64_t created_s;
    uint8_t key[HTH_JOURNALED_KEY_BYTES]; /* that its readers must have */
    /* Of a stream that has begun; content_type "": a response that runs without a client. */
    int status;
    const char *content_type;
    const void *body; /* [n_body] */
    size_t n_body;
    const void *past; /* [n_past] */
    size_t n_past;
    const void *begun; /* [n_begun]: the record of a response that runs without a client */
    size_t n_begun;
    json_t *facts; /* has the texts, once it was read */
} hth_journaled;

/* Append the first piece. */
void hth_journaled_write(const hth_journaled *request, hth_buffer *out);
/* Read it; the result borrows from bytes until hth_journaled_deinit. False: it is none, and nothing is to be freed. */
bool hth_journaled_read(const void *bytes, size_t n, hth_journaled *out);
void hth_journaled_deinit(hth_journaled *request);

/* Write the head of bytes, [n], that are to follow. */
enum { HTH_PIECE_HEAD_BYTES = 5 };
void hth_piece_head(hth_piece_kind kind, size_t n, uint8_t out[HTH_PIECE_HEAD_BYTES]);

/* What all other pieces together say. Bytes are the caller's, who frees them with hth_journal_rest_deinit. */
typedef struct hth_journal_rest {
    hth_buffer known; /* frames, as they are sent to the next worker */
    hth_buffer events;
    uint32_t n_tokens; /* of known */
    bool is_whole;     /* the stream has ended */
} hth_journal_rest;

/* False: they are no such pieces, or there is no memory; nothing is to be freed. */
bool hth_journal_rest_read(const void *bytes, size_t n, hth_journal_rest *out);
void hth_journal_rest_deinit(hth_journal_rest *rest);

#endif
