/*
 * blob.h - what a state blob must look like before the engine may see it
 *
 * llama.cpp v0.5.0 trusts the state it is given: it allocates as many cells as a blob claims, takes positions as they
 * come and aborts on some counts. So every blob, whether from a disk, a network or our own memory, is parsed here
 * first. The parser reads inside the given bytes only, and allocates nothing but one bit a cell that is really there.
 *
 * The format, as the engine writes it; all integers little-endian, no padding:
 *
 *   u32 magic af143cd8, u32 sequence id of the source
 *   attention section, where the model has attention      the whole of [begin, end)
 *   attention section, where the model has a window       the last n_window of [begin, end)
 *   recurrent section, where the model has recurrent layers   the state after end - 1
 *
 * A blob of a part of the state (blob_part.h) lacks the first section, or has a window or recurrent section of no cells.
 *
 *   attention section
 *     u32 streams (1: the unified buffer), u32 cells; nothing more where there are no cells
 *     cells x { u32 position, u32 sequences (1), 12 bytes for M-RoPE models, u32 sequence id }
 *     u32 V transposed (0 or 1), u32 layers
 *     layers x { u32 type, u64 row bytes, cells rows }                                       K
 *     layers x { u32 type, u64 row bytes, cells rows }                                       V as it is, or none at all
 *     layers x { u32 type, u32 element bytes, u32 elements, elements x cells elements }      V transposed
 *
 *   recurrent section
 *     u32 cells (1, or 0), cells x { u32 position, u32 sequences (0) }, u32 0, u32 layers
 *     { u32 type, u64 row bytes, cells rows } up to the blob's end: R and S of the layers that have them
 */
#ifndef HTH_ENGINE_BLOB_H
#define HTH_ENGINE_BLOB_H

#include "base/status.h"

#define HTH_BLOB_MAGIC UINT32_C(0xaf143cd8)

/* Bytes before the first section. */
#define HTH_BLOB_HEADER_BYTES 8

/* The engine's own limit of layers (LLAMA_MAX_LAYERS in v0.5.0); base and window layers together stay below it. */
#define HTH_BLOB_LAYERS_MAX 512
#define HTH_BLOB_TENSORS_MAX (4 * HTH_BLOB_LAYERS_MAX)

/* What is known about a model's blobs beforehand. */
typedef struct hth_blob_format {
    bool has_attention;
    bool has_window; /* an attention section of its own */
    bool has_recurrent;
    bool window_is_empty;    /* that section has no cells, and ends there */
    bool recurrent_is_empty; /* that section has no cells, but names its tensors */
    bool has_cell_ext;       /* M-RoPE: 12 more bytes a cell */
    bool may_lack_v;         /* multi-head latent attention: V may be part of K, and the blob does not say so */
    uint32_t n_window;       /* positions that the window section keeps */
} hth_blob_format;

/* One tensor's rows in a blob. */
typedef struct hth_blob_tensor {
    uint32_t type;          /* ggml's number */
    uint32_t element_bytes; /* of transposed V; 0 otherwise */
    uint64_t row_bytes;     /* of one cell */
} hth_blob_tensor;

/*
 * Everything in a blob that is the same for every blob of one context. A context learns it from a blob that the engine
 * wrote or took, and compares afterwards.
 */
typedef struct hth_blob_layout {
    uint32_t n_layers[3];     /* of the base, window and recurrent section */
    uint32_t v_transposed[2]; /* of the base and window section */
    uint32_t n_tensors;
    size_t section_offsets[3]; /* where the sections of this very blob begin, or would: not compared */
    hth_blob_tensor tensors[HTH_BLOB_TENSORS_MAX]; /* in the blob's order */
} hth_blob_layout;

/*
 * Check that bytes are one whole blob of this format, holding exactly the positions [begin, end), and say how it is
 * laid out. Where the format leaves open which tensors there are (may_lack_v, recurrent layers), a blob that lacks
 * whole tensors at its end passes, with another layout. Thread-safe.
 *
 * Returns HEARTH_OK; HEARTH_CORRUPT, saying what is wrong; HEARTH_NO_MEMORY. *layout_out may be half-written on
 * failure: it is too large to build aside.
 */
hearth_status hth_blob_parse(const hth_blob_format *format, const uint8_t *bytes, size_t n_bytes, uint32_t begin,
                             uint32_t end, hth_blob_layout *layout_out, hearth_error *err);

bool hth_blob_layout_equal(const hth_blob_layout *a, const hth_blob_layout *b);

#endif
