/*
 * image.h - checks a state image before the engine sees it
 *
 * llama.cpp v0.5.0 trusts the state it is given: it allocates as many cells as an image claims, accepts any positions
 * and aborts on some counts. So every image, whether from a disk, a network or our own memory, is parsed here first.
 * The parser reads inside the given bytes only, and allocates only one bit for each cell that is really there.
 *
 * The engine's format; all integers are little-endian, without padding:
 *
 *   u32 magic af143cd8, u32 sequence id of the source
 *   attention section, if the model has attention         the whole of [begin, end)
 *   attention section, if the model has a window          the last n_window of [begin, end)
 *   recurrent section, if the model has recurrent layers   the state after end - 1
 *
 * An image of part of the state lacks the first section, or has a window or recurrent section without cells.
 *
 *   attention section
 *     u32 streams (1: the unified buffer), u32 cells; nothing more if there are no cells
 *     cells x { u32 position, u32 sequences (1), 12 bytes for M-RoPE models, u32 sequence id }
 *     u32 V transposed (0 or 1), u32 layers
 *     layers x { u32 type, u64 row bytes, cells rows }                                       K
 *     layers x { u32 type, u64 row bytes, cells rows }                                       V as it is, or none at all
 *     layers x { u32 type, u32 element bytes, u32 elements, elements x cells elements }      V transposed
 *
 *   recurrent section
 *     u32 cells (1, or 0), cells x { u32 position, u32 sequences (0) }, u32 0, u32 layers
 *     { u32 type, u64 row bytes, cells rows } up to the end of the image: R and S of the layers that have them
 */
#ifndef HTH_STATE_IMAGE_H
#define HTH_STATE_IMAGE_H

#include "engine/backend.h"

#define HTH_IMAGE_MAGIC UINT32_C(0xaf143cd8)

/* Bytes before the first section. */
#define HTH_IMAGE_HEADER_BYTES 8

/* The engine's limit on layers (LLAMA_MAX_LAYERS in v0.5.0); base and window layers together stay below it. */
#define HTH_IMAGE_LAYERS_MAX 512
#define HTH_IMAGE_TENSORS_MAX (4 * HTH_IMAGE_LAYERS_MAX)

/* The facts about the images of a model that are known beforehand. */
typedef struct hth_image_format {
    bool has_attention;
    bool has_window; /* there is a separate attention section for it */
    bool has_recurrent;
    bool window_is_empty;    /* that section has no cells, and ends there */
    bool recurrent_is_empty; /* that section has no cells, but still lists its tensors */
    bool has_cell_ext;       /* M-RoPE: 12 more bytes per cell */
    bool may_lack_v;         /* multi-head latent attention: V may be part of K, and the image does not say so */
    uint32_t n_window;       /* positions that the window section keeps */
} hth_image_format;

/* The rows of one tensor in an image. */
typedef struct hth_image_tensor {
    uint32_t type;          /* ggml's number */
    uint32_t element_bytes; /* of transposed V; 0 otherwise */
    uint64_t row_bytes;     /* of one cell */
} hth_image_tensor;

/*
 * The facts that all images of one context share. A context learns them from an image that the engine wrote or
 * accepted, and compares later images with them.
 */
typedef struct hth_image_layout {
    uint32_t n_layers[3];     /* of the base, window and recurrent section */
    uint32_t v_transposed[2]; /* of the base and window section */
    uint32_t n_tensors;
    size_t section_offsets[3]; /* where the sections of this image begin, or would begin: not compared */
    hth_image_tensor tensors[HTH_IMAGE_TENSORS_MAX]; /* in the image's order */
} hth_image_layout;

/*
 * Check that bytes are one complete image of this format with exactly the positions [begin, end), and describe its
 * layout. If the format leaves the list of tensors open (may_lack_v, recurrent layers), an image that lacks whole
 * tensors at its end passes, with another layout. Thread-safe.
 *
 * Returns HEARTH_OK; HEARTH_CORRUPT with a message that names the fault; HEARTH_NO_MEMORY. *layout_out may be
 * half-written on failure, because it is too large for a second copy.
 */
hearth_status hth_image_parse(const hth_image_format *format, const uint8_t *bytes, size_t n_bytes, uint32_t begin,
                              uint32_t end, hth_image_layout *layout_out, hearth_error *err);

/* Are the layouts equal in all but the offsets of sections? */
bool hth_image_layout_equal(const hth_image_layout *a, const hth_image_layout *b);

/*
 * ---- images of part of the state of a sequence ----
 *
 * The engine writes the state of a whole sequence, or the part that PARTIAL_ONLY selects. Rows hold other parts: cells
 * without recurrent state, because a chain of rows needs that only at its end; and cells without window cells, because
 * only the last rows of a chain may provide them.
 */

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
