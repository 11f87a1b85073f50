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

typedef struct cursor {
    const uint8_t *bytes;
    size_t n_left;
    size_t offset; /* of bytes in the image; for messages */
    hearth_error *err;
} cursor;

static hearth_status skip(cursor *at, size_t n_bytes, const char *what)
{
    if (n_bytes > at->n_left)
        return hth_fail(at->err, HEARTH_CORRUPT, "state image ends inside its %s: %zu bytes at offset %zu, need %zu",
                        what, at->n_left, at->offset, n_bytes);
    at->bytes += n_bytes;
    at->n_left -= n_bytes;
    at->offset += n_bytes;
    return HEARTH_OK;
}

static hearth_status take_u32(cursor *at, uint32_t *out, const char *what)
{
    const uint8_t *bytes = at->bytes;
    hearth_status status = skip(at, 4, what);

    if (status == HEARTH_OK)
        *out = hth_get_u32(bytes);
    return status;
}

static hearth_status take_u64(cursor *at, uint64_t *out, const char *what)
{
    const uint8_t *bytes = at->bytes;
    hearth_status status = skip(at, 8, what);

    if (status == HEARTH_OK)
        *out = hth_get_u64(bytes);
    return status;
}

static hearth_status expect_u32(cursor *at, uint32_t wanted, const char *what)
{
    size_t offset = at->offset;
    uint32_t value = 0;
    hearth_status status = take_u32(at, &value, what);

    if (status == HEARTH_OK && value != wanted)
        return hth_fail(at->err, HEARTH_CORRUPT, "state image has %s %u at offset %zu instead of %u", what, value,
                        offset, wanted);
    return status;
}

static hearth_status skip_rows(cursor *at, uint64_t row_bytes, uint32_t n_rows, const char *what)
{
    size_t n_bytes;

    if (row_bytes > SIZE_MAX || !hth_mul_size((size_t)row_bytes, n_rows, &n_bytes))
        return hth_fail(at->err, HEARTH_CORRUPT, "state image claims %s rows of %llu bytes", what,
                        (unsigned long long)row_bytes);
    return skip(at, n_bytes, what);
}

static hearth_status add_tensor(cursor *at, hth_image_layout *layout, hth_image_tensor tensor)
{
    if (layout->n_tensors == HTH_IMAGE_TENSORS_MAX)
        return hth_fail(at->err, HEARTH_CORRUPT, "state image has more than %d tensors", HTH_IMAGE_TENSORS_MAX);
    layout->tensors[layout->n_tensors++] = tensor;
    return HEARTH_OK;
}

static hearth_status parse_rows(cursor *at, uint32_t n_cells, hth_image_layout *layout, const char *what)
{
    hth_image_tensor tensor = { 0 };
    hearth_status status = take_u32(at, &tensor.type, what);

    if (status == HEARTH_OK)
        status = take_u64(at, &tensor.row_bytes, what);
    if (status == HEARTH_OK)
        status = skip_rows(at, tensor.row_bytes, n_cells, what);
    if (status == HEARTH_OK)
        status = add_tensor(at, layout, tensor);
    return status;
}

static hearth_status parse_transposed_rows(cursor *at, uint32_t n_cells, hth_image_layout *layout)
{
    hth_image_tensor tensor = { 0 };
    uint32_t n_elements = 0;
    hearth_status status = take_u32(at, &tensor.type, "V");

    if (status == HEARTH_OK)
        status = take_u32(at, &tensor.element_bytes, "V");
    if (status == HEARTH_OK)
        status = take_u32(at, &n_elements, "V");
    tensor.row_bytes = (uint64_t)tensor.element_bytes * n_elements;
    if (status == HEARTH_OK)
        status = skip_rows(at, tensor.row_bytes, n_cells, "V");
    if (status == HEARTH_OK)
        status = add_tensor(at, layout, tensor);
    return status;
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

static hearth_status parse_cells(cursor *at, uint32_t n_cells, uint32_t begin, bool has_ext)
{
    size_t cell_bytes = has_ext ? 12 + CELL_EXT_BYTES : 12;
    const uint8_t *cells = at->bytes;
    bool ascending = true;
    size_t n_bytes;
    hearth_status status;

    if (!hth_mul_size(n_cells, cell_bytes, &n_bytes))
        return hth_fail(at->err, HEARTH_CORRUPT, "state image claims %u cells", n_cells);
    status = skip(at, n_bytes, "cells");
    if (status != HEARTH_OK)
        return status;
    for (uint32_t i = 0; i < n_cells; i++) {
        uint32_t n_sequences = hth_get_u32(cells + i * cell_bytes + 4);

        if (n_sequences != 1)
            return hth_fail(at->err, HEARTH_CORRUPT, "state image has a cell of %u sequences", n_sequences);
        ascending = ascending && hth_get_u32(cells + i * cell_bytes) == begin + i;
    }
    if (ascending)
        return HEARTH_OK;
    return check_positions_in_any_order(cells, cell_bytes, n_cells, begin, at->err);
}

/*
 * Parse K and V. keeps_v is false for models whose V is part of K (multi-head latent attention). If there are two
 * attention sections, one may have all layers while the other has cells without layers.
 */
static hearth_status parse_layers(cursor *at, uint32_t n_cells, const hth_image_format *format, bool keeps_v,
                                  hth_image_layout *layout, int section)
{
    uint32_t n_layers = 0;
    uint32_t v_transposed = 0;
    hearth_status status = take_u32(at, &v_transposed, "V layout");

    if (status == HEARTH_OK && v_transposed > 1)
        status = hth_fail(at->err, HEARTH_CORRUPT, "state image has V layout %u", v_transposed);
    if (status == HEARTH_OK)
        status = take_u32(at, &n_layers, "layer count");
    if (status == HEARTH_OK && ((n_layers == 0 && !format->has_window) || n_layers > HTH_IMAGE_LAYERS_MAX))
        status = hth_fail(at->err, HEARTH_CORRUPT, "state image has %u layers", n_layers);
    for (uint32_t i = 0; i < n_layers && status == HEARTH_OK; i++)
        status = parse_rows(at, n_cells, layout, "K");
    for (uint32_t i = 0; keeps_v && i < n_layers && status == HEARTH_OK; i++)
        status = v_transposed ? parse_transposed_rows(at, n_cells, layout) : parse_rows(at, n_cells, layout, "V");
    layout->n_layers[section] = n_layers;
    layout->v_transposed[section] = v_transposed;
    return status;
}

static hearth_status parse_attention(cursor *at, uint32_t begin, uint32_t end, const hth_image_format *format,
                                     bool keeps_v, hth_image_layout *layout, int section)
{
    hearth_status status = expect_u32(at, 1, "stream count");

    if (status == HEARTH_OK)
        status = expect_u32(at, end - begin, "cell count");
    if (status == HEARTH_OK)
        status = parse_cells(at, end - begin, begin, format->has_cell_ext);
    if (status == HEARTH_OK)
        status = parse_layers(at, end - begin, format, keeps_v, layout, section);
    return status;
}

/* The section gives the number of all layers, not of recurrent ones: tensors follow to the end. */
static hearth_status parse_recurrent(cursor *at, uint32_t end, uint32_t n_cells, hth_image_layout *layout)
{
    uint32_t n_layers = 0;
    hearth_status status = expect_u32(at, n_cells, "recurrent cell count");

    if (status == HEARTH_OK && n_cells > 0)
        status = expect_u32(at, end - 1, "recurrent position");
    if (status == HEARTH_OK && n_cells > 0)
        status = expect_u32(at, 0, "recurrent sequence count");
    if (status == HEARTH_OK)
        status = expect_u32(at, 0, "recurrent layout");
    if (status == HEARTH_OK)
        status = take_u32(at, &n_layers, "recurrent layer count");
    if (status == HEARTH_OK && (n_layers == 0 || n_layers > HTH_IMAGE_LAYERS_MAX || at->n_left == 0))
        status =
            hth_fail(at->err, HEARTH_CORRUPT, "state image has %u recurrent layers in %zu bytes", n_layers, at->n_left);
    for (uint32_t i = 0; at->n_left > 0 && status == HEARTH_OK; i++)
        status = i < 2 * n_layers ? parse_rows(at, n_cells, layout, "recurrent state")
                                  : hth_fail(at->err, HEARTH_CORRUPT, "state image has %zu bytes too many", at->n_left);
    layout->n_layers[2] = n_layers;
    return status;
}

static hearth_status parse_empty_attention(cursor *at)
{
    hearth_status status = expect_u32(at, 1, "stream count");

    return status == HEARTH_OK ? expect_u32(at, 0, "cell count") : status;
}

static hearth_status parse_sections(const hth_image_format *format, cursor at, uint32_t begin, uint32_t end,
                                    bool keeps_v, hth_image_layout *layout)
{
    hearth_status status = HEARTH_OK;

    memset(layout, 0, offsetof(hth_image_layout, tensors));
    layout->section_offsets[0] = at.offset;
    if (format->has_attention)
        status = parse_attention(&at, begin, end, format, keeps_v, layout, 0);
    layout->section_offsets[1] = at.offset;
    if (format->has_window && format->window_is_empty && status == HEARTH_OK) {
        status = parse_empty_attention(&at);
    } else if (format->has_window && status == HEARTH_OK) {
        uint32_t n_kept = end - begin < format->n_window ? end - begin : format->n_window;

        status = parse_attention(&at, end - n_kept, end, format, keeps_v, layout, 1);
    }
    layout->section_offsets[2] = at.offset;
    if (format->has_recurrent && status == HEARTH_OK)
        status = parse_recurrent(&at, end, format->recurrent_is_empty ? 0 : 1, layout);
    if (status == HEARTH_OK && at.n_left > 0)
        status = hth_fail(at.err, HEARTH_CORRUPT, "state image has %zu bytes too many", at.n_left);
    return status;
}

hearth_status hth_image_parse(const hth_image_format *format, const uint8_t *bytes, size_t n_bytes, uint32_t begin,
                              uint32_t end, hth_image_layout *layout_out, hearth_error *err)
{
    cursor at = { .bytes = bytes, .n_left = n_bytes, .err = err };
    uint32_t source = 0;
    hearth_status status;

    assert(format->has_attention || format->has_recurrent);
    assert(!format->has_window || format->n_window > 0);
    assert(begin < end);

    status = expect_u32(&at, HTH_IMAGE_MAGIC, "magic");
    if (status == HEARTH_OK)
        status = take_u32(&at, &source, "sequence id");
    if (status != HEARTH_OK)
        return status;
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
