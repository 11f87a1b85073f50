/*
 * blob_part.h - blobs of a part of a sequence's state
 *
 * The engine writes the state of a whole sequence, or what PARTIAL_ONLY selects of it. Rows hold other parts: cells
 * without recurrent state, because a chain of rows needs that at its end only, and cells without a window's, because
 * only the last rows of a chain may bring them. What such blobs look like is said here, for the parser, and a blob is
 * cut down to one.
 */
#ifndef HTH_ENGINE_BLOB_PART_H
#define HTH_ENGINE_BLOB_PART_H

#include "engine/backend.h"
#include "engine/blob.h"

/*
 * The format of a part's blobs, from that of whole ones. Of HTH_STATE_CELLS the window's section is kept where there is
 * no recurrent one: there the rest brings the window. The model's kind has such a part (asserted).
 */
hth_blob_format hth_blob_part_format(const hth_blob_format *whole, hth_state_part part);

/* Bytes of a section without cells that stands for the window's. */
#define HTH_BLOB_EMPTY_SECTION_BYTES 8

/* The size of a blob once its window section is emptied. layout is what hth_blob_parse said of this very blob. */
size_t hth_blob_bare_bytes(const hth_blob_layout *layout, size_t n_bytes);
/* Write it so to out, [hth_blob_bare_bytes]; does not overlap bytes. */
void hth_blob_write_bare(const hth_blob_layout *layout, const uint8_t *bytes, size_t n_bytes, uint8_t *out);

#endif
