/*
 * blob_join.h - state blobs of consecutive positions as one, and any range of them as a blob of its own
 *
 * A chain is made of blobs (block, block, ..., tail; or one blob of a whole prefix) and copies none of them. Any range of
 * its positions can be written out as the blob that the engine itself gives for such a sequence in contiguous cells:
 * joining is writing the whole range, splitting is writing parts of a chain of one. Cells come out in the order of their
 * positions, whatever order they lie in.
 *
 * Models of plain attention only: what a window or a recurrent section holds cannot be put together from parts.
 */
#ifndef HTH_ENGINE_BLOB_JOIN_H
#define HTH_ENGINE_BLOB_JOIN_H

#include "engine/blob.h"

/* One blob, and the positions [begin, end) that it must hold. */
typedef struct hth_blob_piece {
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t begin;
    uint32_t end;
} hth_blob_piece;

/* Immutable once made: any number of threads may write from it at once. */
typedef struct hth_blob_chain hth_blob_chain;

/*
 * Tell the format of a blob of plain attention, for those who have rows and no model: with or without the cells' M-RoPE
 * part, V as it is, transposed or part of K. False when the bytes are nothing of the kind, which another section makes
 * them, or when there is no memory to find out.
 */
bool hth_blob_plain_format(const hth_blob_piece *piece, hth_blob_format *out);

/*
 * Make a chain of n_pieces >= 1 pieces, each of which continues the one before. Every blob is parsed in full. The bytes
 * are borrowed and must stay unchanged as long as the chain; the array of pieces is copied. The caller owns *out; free
 * it with hth_blob_chain_free.
 *
 * Work and memory beside the blobs: a few bytes a piece, and four a cell of blobs whose cells lie in another order than
 * their positions.
 *
 * HEARTH_UNSUPPORTED when the format is not that of plain attention; HEARTH_CORRUPT when a blob is not what its piece
 * says, pieces do not follow one another or their layers differ, naming the piece by its positions; HEARTH_NO_MEMORY.
 */
hearth_status hth_blob_chain_new(const hth_blob_format *format, const hth_blob_piece *pieces, size_t n_pieces,
                                 hth_blob_chain **out, hearth_error *err);
void hth_blob_chain_free(hth_blob_chain *chain); /* accepts NULL */

uint32_t hth_blob_chain_begin(const hth_blob_chain *chain);
uint32_t hth_blob_chain_end(const hth_blob_chain *chain);

/* Bytes of the blob of [begin, end), a range inside the chain's with begin < end (asserted, here and below). */
size_t hth_blob_chain_bytes(const hth_blob_chain *chain, uint32_t begin, uint32_t end);

/*
 * Takes the next n_bytes > 0 bytes of a blob, which are valid during the call; small pieces come gathered. Any status but
 * HEARTH_OK ends the writing. On the writing thread; may not free the chain.
 */
typedef hearth_status (*hth_blob_write_fn)(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err);

/*
 * Write the blob of [begin, end), hth_blob_chain_bytes in all. Needs no memory but 16 KiB of stack, so that the pieces
 * are all that has to be held of a long prefix. Returns what write returned.
 */
hearth_status hth_blob_chain_write(const hth_blob_chain *chain, uint32_t begin, uint32_t end, hth_blob_write_fn write,
                                   void *user_data, hearth_error *err);

/* The same into bytes[hth_blob_chain_bytes(chain, begin, end)]. */
void hth_blob_chain_get(const hth_blob_chain *chain, uint32_t begin, uint32_t end, uint8_t *bytes);

#endif
