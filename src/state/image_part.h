/*
 * image_part.h - images of part of the state of a sequence
 *
 * The engine writes the state of a whole sequence, or the part that PARTIAL_ONLY selects. Rows hold other parts: cells
 * without recurrent state, because a chain of rows needs that only at its end; and cells without window cells, because
 * only the last rows of a chain may provide them. This file describes such images for the parser, and cuts an image
 * down to one.
 */
#ifndef HTH_STATE_IMAGE_PART_H
#define HTH_STATE_IMAGE_PART_H

#include "engine/backend.h"
#include "state/image.h"

/*
 * The format of images of a part, from the format of whole images. HTH_STATE_CELLS keeps the window section if there is
 * no recurrent section; otherwise the image of HTH_STATE_REST contains the window. The state of the model must have
 * such a part (asserted).
 */
hth_image_format hth_image_part_format(const hth_image_format *whole, hth_state_part part);

/* Size of an empty section that replaces the window section. */
#define HTH_IMAGE_EMPTY_SECTION_BYTES 8

/* The size of an image with an empty window section. layout is the result of hth_image_parse for this image. */
size_t hth_image_bare_bytes(const hth_image_layout *layout, size_t n_bytes);
/* Write the image with an empty window section to out, [hth_image_bare_bytes]; out does not overlap bytes. */
void hth_image_write_bare(const hth_image_layout *layout, const uint8_t *bytes, size_t n_bytes, uint8_t *out);

#endif
