/*
 * image.c - the parser of state images
 *
 * One cursor moves from the first byte to the last; every step first checks that enough bytes are left. A count is
 * trusted only once its bytes are known to be there, so the size of the image bounds work and memory.
 *
 * Cells come in the order of the buffer, not of positions: a sequence that was decoded into freed cells has them in any
 * order. The usual ascending case needs no memory. Otherwise a bit set finds duplicates: n distinct positions inside a
 * range of n are the whole range.
 */
#include "state/image.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define CELL_EXT_BYTES 12

/* After a failure, its status stays, nothing more is read, and numbers are 0. */
typedef struct cursor {
    const uint8_t *bytes;
    size_t n_left;
    size_t offset; /* of bytes in the image; for messages */
    hearth_status status;
    hearth_error *err;
} cursor;

/* The next n_bytes; NULL after a failure. */
static const uint8_t *skip(cursor *at, size_t n_bytes, const char *what)
{
    const uint8_t *bytes = at->bytes;

    if (at->status == HEARTH_OK && n_bytes > at->n_left)
        at->status =
            hth_fail(at->err, HEARTH_CORRUPT, "state image ends inside its %s: %zu bytes at offset %zu, need %zu", what,
                     at->n_left, at->offset, n_bytes);
    if (at->status != HEARTH_OK)
        return NULL;
    at->bytes += n_bytes;
    at->n_left -= n_bytes;
    at->offset += n_bytes;
    return bytes;
}

static uint32_t take_u32(cursor *at, const char *what)
{
    const uint8_t *bytes = skip(at, 4, what);

    return bytes ? hth_get_u32(bytes) : 0;
}

static uint64_t take_u64(cursor *at, const char *what)
{
    const uint8_t *bytes = skip(at, 8, what);

    return bytes ? hth_get_u64(bytes) : 0;
}

static void expect_u32(cursor *at, uint32_t wanted, const char *what)
{
    size_t offset = at->offset;
    uint32_t value = take_u32(at, what);

    if (at->status == HEARTH_OK && value != wanted)
        at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image has %s %u at offset %zu instead of %u", what, value,
                              offset, wanted);
}

/* Pass over the rows of a tensor, and add it to the layout. */
static void take_rows(cursor *at, hth_image_tensor tensor, uint32_t n_rows, hth_image_layout *layout, const char *what)
{
    size_t n_bytes = 0;

    if (at->status == HEARTH_OK &&
        (tensor.row_bytes > SIZE_MAX || !hth_mul_size((size_t)tensor.row_bytes, n_rows, &n_bytes)))
        at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image claims %s rows of %llu bytes", what,
                              (unsigned long long)tensor.row_bytes);
    (void)skip(at, n_bytes, what);
    if (at->status == HEARTH_OK && layout->n_tensors == HTH_IMAGE_TENSORS_MAX)
        at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image has more than %d tensors", HTH_IMAGE_TENSORS_MAX);
    if (at->status == HEARTH_OK)
        layout->tensors[layout->n_tensors++] = tensor;
}

static void parse_rows(cursor *at, uint32_t n_cells, hth_image_layout *layout, const char *what)
{
    hth_image_tensor tensor = { .type = take_u32(at, what) };

    tensor.row_bytes = take_u64(at, what);
    take_rows(at, tensor, n_cells, layout, what);
}

static void parse_transposed_rows(cursor *at, uint32_t n_cells, hth_image_layout *layout)
{
    hth_image_tensor tensor = { .type = take_u32(at, "V") };

    tensor.element_bytes = take_u32(at, "V");
    tensor.row_bytes = (uint64_t)tensor.element_bytes * take_u32(at, "V");
    take_rows(at, tensor, n_cells, layout, "V");
}

/* Check that n_cells cells of cell_bytes each cover the positions from begin on, each exactly once. */
static hearth_status check_positions_in_any_order(const uint8_t *cells, size_t cell_bytes, uint32_t n_cells,
                                                  uint32_t begin, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    uint8_t *seen = calloc(n_cells / 8 + 1, 1);

    if (!seen)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to check a state image of %u cells", n_cells);
    for (uint32_t i = 0; i < n_cells && status == HEARTH_OK; i++) {
        uint32_t position = hth_get_u32(cells + i * cell_bytes);
        uint32_t offset = position - begin; /* a position below begin wraps to a large number */

        if (offset >= n_cells)
            status = hth_fail(err, HEARTH_CORRUPT, "state image has position %u outside of %u .. %u", position, begin,
                              begin + n_cells - 1);
        else if (seen[offset / 8] & 1u << offset % 8)
            status = hth_fail(err, HEARTH_CORRUPT, "state image has position %u twice", position);
        else
            seen[offset / 8] |= (uint8_t)(1u << offset % 8);
    }
    free(seen);
    return status;
}

static void parse_cells(cursor *at, uint32_t n_cells, uint32_t begin, bool has_ext)
{
    size_t cell_bytes = has_ext ? 12 + CELL_EXT_BYTES : 12;
    const uint8_t *cells;
    bool ascending = true;
    size_t n_bytes;

    if (!hth_mul_size(n_cells, cell_bytes, &n_bytes))
        n_bytes = SIZE_MAX; /* more than any image has */
    cells = skip(at, n_bytes, "cells");
    for (uint32_t i = 0; at->status == HEARTH_OK && i < n_cells; i++) {
        uint32_t n_sequences = hth_get_u32(cells + i * cell_bytes + 4);

        if (n_sequences != 1)
            at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image has a cell of %u sequences", n_sequences);
        ascending = ascending && hth_get_u32(cells + i * cell_bytes) == begin + i;
    }
    if (at->status == HEARTH_OK && !ascending)
        at->status = check_positions_in_any_order(cells, cell_bytes, n_cells, begin, at->err);
}

/*
 * Parse K and V. keeps_v is false for models whose V is part of K (multi-head latent attention). If there are two
 * attention sections, one may have all layers while the other has cells without layers.
 */
static void parse_layers(cursor *at, uint32_t n_cells, const hth_image_format *format, bool keeps_v,
                         hth_image_layout *layout, int section)
{
    uint32_t v_transposed = take_u32(at, "V layout"), n_layers;

    if (at->status == HEARTH_OK && v_transposed > 1)
        at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image has V layout %u", v_transposed);
    n_layers = take_u32(at, "layer count");
    if (at->status == HEARTH_OK && ((n_layers == 0 && !format->has_window) || n_layers > HTH_IMAGE_LAYERS_MAX))
        at->status = hth_fail(at->err, HEARTH_CORRUPT, "state image has %u layers", n_layers);
    for (uint32_t i = 0; i < n_layers && at->status == HEARTH_OK; i++)
        parse_rows(at, n_cells, layout, "K");
    for (uint32_t i = 0; keeps_v && i < n_layers && at->status == HEARTH_OK; i++) {
        if (v_transposed)
            parse_transposed_rows(at, n_cells, layout);
        else
            parse_rows(at, n_cells, layout, "V");
    }
    layout->n_layers[section] = n_layers;
    layout->v_transposed[section] = v_transposed;
}

static void parse_attention(cursor *at, uint32_t begin, uint32_t end, const hth_image_format *format, bool keeps_v,
                            hth_image_layout *layout, int section)
{
    expect_u32(at, 1, "stream count");
    expect_u32(at, end - begin, "cell count");
    parse_cells(at, end - begin, begin, format->has_cell_ext);
    parse_layers(at, end - begin, format, keeps_v, layout, section);
}

/* The section gives the number of all layers, not of recurrent ones: tensors follow to the end. */
static void parse_recurrent(cursor *at, uint32_t end, uint32_t n_cells, hth_image_layout *layout)
{
    uint32_t n_layers;

    expect_u32(at, n_cells, "recurrent cell count");
    if (n_cells > 0) {
        expect_u32(at, end - 1, "recurrent position");
        expect_u32(at, 0, "recurrent sequence count");
    }
    expect_u32(at, 0, "recurrent layout");
    n_layers = take_u32(at, "recurrent layer count");
    if (at->status == HEARTH_OK && (n_layers == 0 || n_layers > HTH_IMAGE_LAYERS_MAX || at->n_left == 0))
        at->status =
            hth_fail(at->err, HEARTH_CORRUPT, "state image has %u recurrent layers in %zu bytes", n_layers, at->n_left);
    for (uint32_t i = 0; i < 2 * n_layers && at->n_left > 0 && at->status == HEARTH_OK; i++)
        parse_rows(at, n_cells, layout, "recurrent state");
    layout->n_layers[2] = n_layers;
}

static hearth_status parse_sections(const hth_image_format *format, cursor at, uint32_t begin, uint32_t end,
                                    bool keeps_v, hth_image_layout *layout)
{
    uint32_t n_kept = end - begin < format->n_window ? end - begin : format->n_window;

    memset(layout, 0, offsetof(hth_image_layout, tensors));
    layout->section_offsets[0] = at.offset;
    if (format->has_attention)
        parse_attention(&at, begin, end, format, keeps_v, layout, 0);
    layout->section_offsets[1] = at.offset;
    if (format->has_window && format->window_is_empty) {
        expect_u32(&at, 1, "stream count");
        expect_u32(&at, 0, "cell count");
    } else if (format->has_window) {
        parse_attention(&at, end - n_kept, end, format, keeps_v, layout, 1);
    }
    layout->section_offsets[2] = at.offset;
    if (format->has_recurrent)
        parse_recurrent(&at, end, format->recurrent_is_empty ? 0 : 1, layout);
    if (at.status == HEARTH_OK && at.n_left > 0)
        at.status = hth_fail(at.err, HEARTH_CORRUPT, "state image has %zu bytes too many", at.n_left);
    return at.status;
}

hearth_status hth_image_parse(const hth_image_format *format, const uint8_t *bytes, size_t n_bytes, uint32_t begin,
                              uint32_t end, hth_image_layout *layout_out, hearth_error *err)
{
    cursor at = { .bytes = bytes, .n_left = n_bytes, .status = HEARTH_OK, .err = err };
    hearth_status status;

    assert(format->has_attention || format->has_recurrent);
    assert(!format->has_window || format->n_window > 0);
    assert(begin < end);

    expect_u32(&at, HTH_IMAGE_MAGIC, "magic");
    (void)take_u32(&at, "sequence id");
    if (at.status != HEARTH_OK)
        return at.status;
    status = parse_sections(format, at, begin, end, /* keeps_v= */ true, layout_out);
    if (status == HEARTH_CORRUPT && format->may_lack_v) {
        /* Keep the error message of the common form. */
        at.err = NULL;
        if (parse_sections(format, at, begin, end, /* keeps_v= */ false, layout_out) == HEARTH_OK)
            return HEARTH_OK;
    }
    return status;
}

bool hth_image_layout_equal(const hth_image_layout *a, const hth_image_layout *b)
{
    if (memcmp(a->n_layers, b->n_layers, sizeof(a->n_layers)) != 0 ||
        memcmp(a->v_transposed, b->v_transposed, sizeof(a->v_transposed)) != 0 || a->n_tensors != b->n_tensors)
        return false;
    for (uint32_t i = 0; i < a->n_tensors; i++)
        if (a->tensors[i].type != b->tensors[i].type || a->tensors[i].element_bytes != b->tensors[i].element_bytes ||
            a->tensors[i].row_bytes != b->tensors[i].row_bytes)
            return false;
    return true;
}

/* ---- parts ---- */

hth_image_format hth_image_part_format(const hth_image_format *whole, hth_state_part part)
{
    hth_image_format format = *whole;

    switch (part) {
    case HTH_STATE_CELLS:
        assert(whole->has_attention);
        format.window_is_empty = whole->has_window && whole->has_recurrent;
        format.recurrent_is_empty = whole->has_recurrent;
        break;
    case HTH_STATE_CELLS_BARE:
        assert(whole->has_attention);
        format.window_is_empty = whole->has_window;
        format.recurrent_is_empty = whole->has_recurrent;
        break;
    case HTH_STATE_REST:
        assert(whole->has_recurrent);
        format.has_attention = false;
        break;
    }
    return format;
}

size_t hth_image_bare_bytes(const hth_image_layout *layout, size_t n_bytes)
{
    assert(layout->section_offsets[2] <= n_bytes);
    return layout->section_offsets[1] + HTH_IMAGE_EMPTY_SECTION_BYTES + (n_bytes - layout->section_offsets[2]);
}

void hth_image_write_bare(const hth_image_layout *layout, const uint8_t *bytes, size_t n_bytes, uint8_t *out)
{
    size_t n_before = layout->section_offsets[1];

    memcpy(out, bytes, n_before);
    hth_put_u32(out + n_before, 1); /* streams */
    hth_put_u32(out + n_before + 4, 0);
    memcpy(out + n_before + HTH_IMAGE_EMPTY_SECTION_BYTES, bytes + layout->section_offsets[2],
           n_bytes - layout->section_offsets[2]);
}
