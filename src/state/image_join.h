/*
 * image_join.h - joins state images of consecutive positions, and cuts any range out of them as a separate image
 *
 * A chain is made of images (block, block, ..., tail; or one image of a whole prefix) and copies none of them. Any
 * range of its positions can be written as the image that the engine would write for such a sequence in contiguous
 * cells. Joining writes the whole range; splitting writes parts of a chain of one. Cells are written in the order of
 * their positions, whatever their order in the pieces.
 *
 * Only for models of plain attention: window and recurrent sections cannot be joined from parts.
 */
#ifndef HTH_STATE_IMAGE_JOIN_H
#define HTH_STATE_IMAGE_JOIN_H

#include "state/image.h"

/* One image, and the positions [begin, end) that it must hold. */
typedef struct hth_image_piece {
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t begin;
    uint32_t end;
} hth_image_piece;

/* Immutable: any number of threads may write from it at once. */
typedef struct hth_image_chain hth_image_chain;

/*
 * Find the format of an image of plain attention, for callers that have rows but no model: with or without the M-RoPE
 * part of cells, V as it is, transposed or part of K. False if the bytes are not such an image (for example because of
 * another section), or without memory.
 */
bool hth_image_plain_format(const hth_image_piece *piece, hth_image_format *out);

/*
 * Make a chain of n_pieces >= 1 pieces, each of which continues the previous one. Every image is parsed in full. The
 * bytes are borrowed and must stay unchanged as long as the chain exists; the array of pieces is copied. The caller
 * owns *out and frees it with hth_image_chain_free.
 *
 * Memory in addition to the images: a few bytes for each piece, and four for each cell of an image whose cells do not
 * lie in the order of their positions.
 *
 * HEARTH_UNSUPPORTED if the format is not that of plain attention; HEARTH_CORRUPT, naming the piece by its positions,
 * if an image does not match its piece, pieces do not follow one another or their layers differ; HEARTH_NO_MEMORY.
 */
hearth_status hth_image_chain_new(const hth_image_format *format, const hth_image_piece *pieces, size_t n_pieces,
                                  hth_image_chain **out, hearth_error *err);
void hth_image_chain_free(hth_image_chain *chain); /* accepts NULL */

uint32_t hth_image_chain_begin(const hth_image_chain *chain);
uint32_t hth_image_chain_end(const hth_image_chain *chain);

/* Bytes of the image of [begin, end), a range inside the chain's with begin < end (asserted, here and below). */
size_t hth_image_chain_bytes(const hth_image_chain *chain, uint32_t begin, uint32_t end);

/*
 * Receives the next n_bytes > 0 bytes of an image, which are valid only during the call; small pieces are combined. Any
 * status other than HEARTH_OK ends the writing. Called on the writing thread; must not free the chain.
 */
typedef hearth_status (*hth_image_write_fn)(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err);

/*
 * Write the image of [begin, end), hth_image_chain_bytes in all. Needs no memory except 16 KiB of stack, so even for a
 * long prefix only the pieces are held. Returns the status of write.
 */
hearth_status hth_image_chain_write(const hth_image_chain *chain, uint32_t begin, uint32_t end,
                                    hth_image_write_fn write, void *user_data, hearth_error *err);

/* The same into bytes[hth_image_chain_bytes(chain, begin, end)]. */
void hth_image_chain_get(const hth_image_chain *chain, uint32_t begin, uint32_t end, uint8_t *bytes);

#endif
