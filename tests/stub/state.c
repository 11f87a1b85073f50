/*
 * state.c - the state of the stub's sequences as images of the llama.cpp engine's format, written and read back
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "state/image.h"
#include "stub/inside.h"

#define TYPE_F16 1              /* ggml's number */
#define RECURRENT_HEAD_BYTES 32 /* of its section, before the state: five u32, then type and row size */

/* Bytes at a cursor; with bytes NULL only the size is counted. */
typedef struct writer {
    uint8_t *bytes;
    size_t n_bytes;
} writer;

static void put(writer *to, const uint8_t *bytes, size_t n_bytes)
{
    if (to->bytes)
        memcpy(to->bytes + to->n_bytes, bytes, n_bytes);
    to->n_bytes += n_bytes;
}

static void put_u32(writer *to, uint32_t value)
{
    uint8_t bytes[4];

    hth_put_u32(bytes, value);
    put(to, bytes, sizeof(bytes));
}

static void put_row_header(writer *to, uint32_t row_bytes)
{
    put_u32(to, TYPE_F16);
    put_u32(to, row_bytes); /* 64 bits, low half first */
    put_u32(to, 0);
}

/* The cells of a sequence from a position on that have the layer. */
static bool is_written(const hth_engine_context *context, uint32_t cell, uint32_t id, uint32_t from, int layer)
{
    return hth_stub_owns(context, cell, id) && context->positions[cell] >= from &&
           (layer == 0 || !context->format.has_window || context->in_window[cell]);
}

/* The layers [layer_begin, layer_end) of these cells. */
static void write_attention(const hth_engine_context *context, uint32_t id, uint32_t from, int layer_begin,
                            int layer_end, writer *to)
{
    uint32_t n_cells = 0;

    for (uint32_t i = 0; i < context->n_high; i++)
        n_cells += is_written(context, i, id, from, layer_begin);
    put_u32(to, 1);
    put_u32(to, n_cells);
    if (n_cells == 0)
        return;
    for (uint32_t i = 0; i < context->n_high; i++) {
        if (!is_written(context, i, id, from, layer_begin))
            continue;
        put_u32(to, context->positions[i]);
        put_u32(to, 1);
        put_u32(to, id);
    }
    put_u32(to, 0);
    put_u32(to, (uint32_t)(layer_end - layer_begin));
    for (int half = 0; half < 2; half++) {
        for (int layer = layer_begin; layer < layer_end; layer++) {
            put_row_header(to, ROW_BYTES);
            for (uint32_t i = 0; i < context->n_high; i++)
                if (is_written(context, i, id, from, layer_begin))
                    put(to, context->cells[i] + layer * LAYER_BYTES + half * ROW_BYTES, ROW_BYTES);
        }
    }
}

static uint32_t window_begin(const hth_engine_context *context, uint32_t n_tokens)
{
    return n_tokens > context->format.n_window ? n_tokens - context->format.n_window : 0;
}

static void write_recurrent(const sequence *seq, bool is_empty, writer *to)
{
    put_u32(to, !is_empty);
    if (!is_empty) {
        put_u32(to, seq->n_tokens - 1);
        put_u32(to, 0);
    }
    put_u32(to, 0);
    put_u32(to, N_LAYERS);
    put_row_header(to, STATE_BYTES);
    if (!is_empty)
        put(to, seq->state, STATE_BYTES);
}

static void write_image(const hth_engine_context *context, uint32_t id, hth_state_part part, writer *to)
{
    hth_image_format format = hth_image_part_format(&context->format, part);
    const sequence *seq = &context->sequences[id];

    put_u32(to, HTH_IMAGE_MAGIC);
    put_u32(to, id);
    if (format.has_attention)
        write_attention(context, id, 0, 0, format.has_window ? 1 : N_LAYERS, to);
    if (format.has_window)
        write_attention(context, id, format.window_is_empty ? UINT32_MAX : window_begin(context, seq->n_tokens), 1,
                        N_LAYERS, to);
    if (format.has_recurrent)
        write_recurrent(seq, format.recurrent_is_empty, to);
}

static bool has_part(const hth_engine_context *context, hth_state_part part)
{
    switch (part) {
    case HTH_STATE_CELLS: return hth_stub_has_cells(context);
    case HTH_STATE_CELLS_BARE: return context->model->kind == HTH_MODEL_WINDOW;
    case HTH_STATE_REST: return context->format.has_recurrent;
    }
    return false;
}

size_t hth_stub_state_size(hth_engine_context *context, uint32_t id, hth_state_part part)
{
    writer count = { 0 };

    if (!context || id >= context->params.n_seq_max || context->sequences[id].n_tokens == 0 ||
        !has_part(context, part) || part == HTH_STATE_CELLS_BARE)
        return 0;
    write_image(context, id, part, &count);
    return count.n_bytes;
}

hearth_status hth_stub_state_get(hth_engine_context *context, uint32_t id, hth_state_part part, uint8_t *bytes,
                                 size_t capacity, size_t *n_out, hearth_error *err)
{
    size_t n_bytes = hth_stub_state_size(context, id, part);
    writer to = { .bytes = bytes };

    if (!bytes || !n_out || n_bytes == 0)
        return hth_fail(err, HEARTH_MISUSE, "sequence %u has no state to get", id);
    if (n_bytes > capacity)
        return hth_fail(err, HEARTH_MISUSE, "the state of sequence %u needs %zu bytes, not %zu", id, n_bytes, capacity);
    write_image(context, id, part, &to);
    assert(to.n_bytes == n_bytes);
    *n_out = n_bytes;
    return HEARTH_OK;
}

static const uint8_t *read_rows(hth_engine_context *context, const uint8_t *at, const uint32_t *places,
                                uint32_t n_cells, int layer, int half)
{
    at += 12;
    for (uint32_t i = 0; i < n_cells; i++, at += ROW_BYTES)
        memcpy(context->cells[places[i]] + layer * LAYER_BYTES + half * ROW_BYTES, at, ROW_BYTES);
    return at;
}

/* Read an attention section of a checked image. places gives the cell for each position from begin on. */
static void read_attention(hth_engine_context *context, const uint8_t *at, const uint32_t *places, uint32_t begin,
                           uint32_t *order, int layer_begin, int layer_end)
{
    uint32_t n_cells = hth_get_u32(at + 4);

    at += 8;
    for (uint32_t i = 0; i < n_cells; i++, at += 12)
        order[i] = places[hth_get_u32(at) - begin];
    at += 8;
    for (int half = 0; half < 2; half++)
        for (int layer = layer_begin; layer < layer_end; layer++)
            at = read_rows(context, at, order, n_cells, layer, half);
}

/* Whether a parsed image of that format has this context's layers. */
static bool layout_fits(const hth_image_layout *layout, const hth_image_format *format)
{
    uint32_t n_base = format->has_attention ? format->has_window ? 1 : N_LAYERS : 0;
    uint32_t n_window = format->has_window && !format->window_is_empty ? 1 : 0;
    uint32_t n_tensors = 2 * (n_base + n_window);

    if (layout->n_layers[0] != n_base || layout->v_transposed[0] || layout->n_layers[1] != n_window ||
        layout->v_transposed[1])
        return false;
    for (uint32_t i = 0; i < layout->n_tensors; i++)
        if (layout->tensors[i].type != TYPE_F16 ||
            layout->tensors[i].row_bytes != (i < n_tensors ? ROW_BYTES : STATE_BYTES))
            return false;
    return layout->n_tensors == n_tensors + format->has_recurrent;
}

/* The cell of each position from begin to end: new ones for cells, the sequence's own for what is added to them. */
static uint32_t *find_places(hth_engine_context *context, uint32_t id, hth_state_part part, uint32_t begin,
                             uint32_t end, hearth_error *err)
{
    uint32_t n_cells = hth_stub_has_cells(context) ? end - begin : 0;
    uint32_t *places = calloc((size_t)n_cells * 2 + 1, sizeof(*places)); /* by position, then in a section's order */

    if (!places) {
        (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory to restore %u cells", n_cells);
        return NULL;
    }
    if (part == HTH_STATE_REST) {
        for (uint32_t i = 0; hth_stub_has_cells(context) && i < context->n_high; i++)
            if (hth_stub_owns(context, i, id))
                places[context->positions[i] - begin] = i;
        return places;
    }
    for (uint32_t i = 0; i < n_cells; i++) {
        places[i] = hth_stub_take_free_cell(context, begin + i);
        memset(context->cells[places[i]], 0, CELL_BYTES);
        context->in_window[places[i]] = false;
    }
    return places;
}

/* Put a checked image into its place. */
static hearth_status read_image(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                                uint32_t begin, uint32_t end, hearth_error *err)
{
    hth_image_format format = hth_image_part_format(&context->format, part);
    uint32_t n_cells = hth_stub_has_cells(context) ? end - begin : 0;
    uint32_t *places = find_places(context, id, part, begin, end, err);
    const size_t *offsets = context->layout.section_offsets;

    if (!places)
        return HEARTH_NO_MEMORY;
    if (format.has_attention)
        read_attention(context, bytes + offsets[0], places, begin, places + n_cells, 0,
                       format.has_window ? 1 : N_LAYERS);
    if (format.has_window && !format.window_is_empty) {
        read_attention(context, bytes + offsets[1], places, begin, places + n_cells, 1, N_LAYERS);
        for (uint32_t i = window_begin(context, end) > begin ? window_begin(context, end) - begin : 0; i < n_cells; i++)
            context->in_window[places[i]] = true;
    }
    for (uint32_t i = 0; part != HTH_STATE_REST && i < n_cells; i++)
        hth_stub_own(context, places[i], id);
    free(places);
    if (part == HTH_STATE_REST) {
        memcpy(context->sequences[id].state, bytes + offsets[2] + RECURRENT_HEAD_BYTES, STATE_BYTES);
        context->sequences[id].rest_end = end;
    }
    context->sequences[id].n_tokens = end;
    return HEARTH_OK;
}

/* Has the sequence the cells of all positions before end, and no others? */
static bool has_all_cells(const hth_engine_context *context, uint32_t id, uint32_t end)
{
    uint32_t n_cells = 0;

    for (uint32_t i = 0; i < context->n_high; i++)
        n_cells += hth_stub_owns(context, i, id);
    return n_cells == end && context->sequences[id].n_tokens == end;
}

hearth_status hth_stub_state_set(hth_engine_context *context, uint32_t id, hth_state_part part, const uint8_t *bytes,
                                 size_t n_bytes, uint32_t begin, uint32_t end, hearth_error *err)
{
    bool is_added = part == HTH_STATE_REST && context && hth_stub_has_cells(context);
    hth_image_format format;
    hearth_status status;

    if (!context || !bytes || id >= context->params.n_seq_max || begin >= end || end > INT32_MAX)
        return hth_fail(err, HEARTH_MISUSE, "cannot set positions %u .. %u of sequence %u", begin, end, id);
    if (!has_part(context, part) || (part == HTH_STATE_REST && begin > 0) ||
        (is_added && !has_all_cells(context, id, end))) {
        hth_stub_seq_remove(context, id, 0, UINT32_MAX);
        return hth_fail(err, HEARTH_MISUSE, "sequence %u cannot take that part of a state of %u .. %u", id, begin, end);
    }
    if (!is_added)
        hth_stub_seq_remove(context, id, 0, UINT32_MAX);
    /* Bare is what is taken of an image, not how it looks. */
    format = hth_image_part_format(&context->format, part == HTH_STATE_CELLS_BARE ? HTH_STATE_CELLS : part);
    status = hth_image_parse(&format, bytes, n_bytes, begin, end, &context->layout, err);
    if (status == HEARTH_OK && !layout_fits(&context->layout, &format))
        status = hth_fail(err, HEARTH_CORRUPT, "state image has other layers than this context");
    if (status == HEARTH_OK && hth_stub_has_cells(context) && !is_added &&
        end - begin > context->params.n_ctx - context->n_used)
        status = hth_fail(err, HEARTH_ENGINE, "no room to restore %u cells: %u of %u are free", end - begin,
                          context->params.n_ctx - context->n_used, context->params.n_ctx);
    if (status == HEARTH_OK)
        status = read_image(context, id, part, bytes, begin, end, err);
    if (status != HEARTH_OK)
        hth_stub_seq_remove(context, id, 0, UINT32_MAX);
    return status;
}
