/*
 * image_join.c - assembles the bytes of one image from several
 *
 * Once parsed, an image of plain attention (image.h) is fully described by its layout and number of cells:
 *
 *   header, u32 streams, u32 cells | cells | u32 V transposed, u32 layers | tensors
 *
 * Each tensor consists of 12 bytes of description, the same in all pieces, and its rows. So the row sizes give the
 * offset of tensor t in a piece of n cells. An assembled image contains, section by section and tensor by tensor, the
 * part of each piece in turn. Rows are stored cell by cell; transposed V is stored element by element, each with all
 * cells.
 */
#include "state/image_join.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/smaller.h"

enum {
    COUNTS_BYTES = 8, /* before the cells: streams, cells; after them: V transposed, layers */
    TENSOR_HEAD_BYTES = 12,
    CELL_BYTES = 12,
    CELL_EXT_BYTES = 12,
    STAGED_BYTES = 16 << 10,
};

typedef struct chain_link {
    hth_image_piece piece;
    uint32_t *cell_at; /* [end - begin]: the cell of a position; NULL if they lie in order */
} chain_link;

struct hth_image_chain {
    hth_image_layout layout;
    size_t cell_bytes;
    size_t n_links;
    chain_link links[];
};

/* ---- making a chain ---- */

bool hth_image_plain_format(const hth_image_piece *piece, hth_image_format *out)
{
    hth_image_layout *layout;
    bool found = false;

    if (piece->begin >= piece->end)
        return false;
    layout = malloc(sizeof(*layout));
    for (int has_ext = 0; layout && has_ext < 2 && !found; has_ext++) {
        hth_image_format format = { .has_attention = true, .has_cell_ext = has_ext == 1, .may_lack_v = true };

        found =
            hth_image_parse(&format, piece->bytes, piece->n_bytes, piece->begin, piece->end, layout, NULL) == HEARTH_OK;
        if (found)
            *out = format;
    }
    free(layout);
    return found;
}

static const uint8_t *cells_of(const chain_link *from)
{
    return from->piece.bytes + HTH_IMAGE_HEADER_BYTES + COUNTS_BYTES;
}

/* Find the cell of each position, for an image whose cells lie in another order. */
static hearth_status find_cells(hth_image_chain *chain, chain_link *of, hearth_error *err)
{
    uint32_t begin = of->piece.begin, n_cells = of->piece.end - begin;
    const uint8_t *cells = cells_of(of);
    uint32_t n_in_order = 0;

    while (n_in_order < n_cells && hth_get_u32(cells + n_in_order * chain->cell_bytes) == begin + n_in_order)
        n_in_order++;
    if (n_in_order == n_cells)
        return HEARTH_OK;
    of->cell_at = malloc(n_cells * sizeof(*of->cell_at));
    if (!of->cell_at)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the order of the %u cells of a state image", n_cells);
    for (uint32_t i = 0; i < n_cells; i++)
        of->cell_at[hth_get_u32(cells + i * chain->cell_bytes) - begin] = i; /* the parser saw each position once */
    return HEARTH_OK;
}

static hearth_status add_piece(hth_image_chain *chain, const hth_image_format *format, const hth_image_piece *piece,
                               hth_image_layout *layout, hearth_error *err)
{
    hearth_status status;

    if (piece->begin >= piece->end || piece->end > INT32_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "a state of positions %u .. %u cannot be joined", piece->begin,
                        piece->end);
    if (chain->n_links > 0 && chain->links[chain->n_links - 1].piece.end != piece->begin)
        return hth_fail(err, HEARTH_CORRUPT, "the state of positions %u .. %u does not continue the one before it",
                        piece->begin, piece->end);
    status = hth_image_parse(format, piece->bytes, piece->n_bytes, piece->begin, piece->end, layout, err);
    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "positions %u .. %u", piece->begin, piece->end);
        return status;
    }
    if (chain->n_links == 0)
        chain->layout = *layout;
    else if (!hth_image_layout_equal(layout, &chain->layout))
        return hth_fail(err, HEARTH_CORRUPT, "the state of positions %u .. %u has other layers than those before it",
                        piece->begin, piece->end);
    chain->links[chain->n_links] = (chain_link){ .piece = *piece };
    return find_cells(chain, &chain->links[chain->n_links++], err);
}

hearth_status hth_image_chain_new(const hth_image_format *format, const hth_image_piece *pieces, size_t n_pieces,
                                  hth_image_chain **out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    hth_image_layout *layout = NULL;
    hth_image_chain *chain = NULL;
    size_t n_bytes;

    assert(n_pieces > 0);
    if (!format->has_attention || format->has_window || format->has_recurrent)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "states of models with a window or recurrent layers can be neither joined nor split");
    if (hth_mul_size(n_pieces, sizeof(chain_link), &n_bytes) && hth_add_size(n_bytes, sizeof(*chain), &n_bytes))
        chain = calloc(1, n_bytes);
    layout = malloc(sizeof(*layout));
    if (!chain || !layout) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to join %zu states", n_pieces);
        goto out;
    }
    chain->cell_bytes = CELL_BYTES + (format->has_cell_ext ? CELL_EXT_BYTES : 0);
    for (size_t i = 0; i < n_pieces && status == HEARTH_OK; i++)
        status = add_piece(chain, format, &pieces[i], layout, err);
    if (status != HEARTH_OK)
        goto out;

    *out = chain;
    chain = NULL;
out:
    free(layout);
    hth_image_chain_free(chain);
    return status;
}

void hth_image_chain_free(hth_image_chain *chain)
{
    if (!chain)
        return;
    for (size_t i = 0; i < chain->n_links; i++)
        free(chain->links[i].cell_at);
    free(chain);
}

uint32_t hth_image_chain_begin(const hth_image_chain *chain)
{
    return chain->links[0].piece.begin;
}

uint32_t hth_image_chain_end(const hth_image_chain *chain)
{
    return chain->links[chain->n_links - 1].piece.end;
}

/* ---- writing ---- */

static void check_range(const hth_image_chain *chain, uint32_t begin, uint32_t end)
{
    assert(begin < end);
    assert(begin >= hth_image_chain_begin(chain));
    assert(end <= hth_image_chain_end(chain));
}

size_t hth_image_chain_bytes(const hth_image_chain *chain, uint32_t begin, uint32_t end)
{
    size_t n_cells = end - begin, n_bytes;

    check_range(chain, begin, end);
    /* No sum or product exceeds the bytes that the pieces have in memory. */
    n_bytes = HTH_IMAGE_HEADER_BYTES + COUNTS_BYTES + n_cells * chain->cell_bytes + COUNTS_BYTES;
    for (uint32_t i = 0; i < chain->layout.n_tensors; i++)
        n_bytes += TENSOR_HEAD_BYTES + n_cells * (size_t)chain->layout.tensors[i].row_bytes;
    return n_bytes;
}

/* The destination of bytes. Small pieces are staged, so that the receiver gets few, large ones. */
typedef struct gatherer {
    const hth_image_chain *chain;
    uint32_t begin;
    uint32_t end;
    hth_image_write_fn write;
    void *user_data;
    hearth_error *err;
    hearth_status status; /* after a failure nothing more is written */
    size_t n_staged;
    uint8_t staged[STAGED_BYTES];
} gatherer;

static void flush(gatherer *g)
{
    if (g->n_staged > 0 && g->status == HEARTH_OK)
        g->status = g->write(g->staged, g->n_staged, g->user_data, g->err);
    g->n_staged = 0;
}

static void put(gatherer *g, const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes >= STAGED_BYTES) {
        flush(g);
        if (g->status == HEARTH_OK)
            g->status = g->write(bytes, n_bytes, g->user_data, g->err);
        return;
    }
    while (n_bytes > 0) {
        size_t room = STAGED_BYTES - g->n_staged;
        size_t n = n_bytes < room ? n_bytes : room;

        memcpy(g->staged + g->n_staged, bytes, n);
        g->n_staged += n;
        bytes += n;
        n_bytes -= n;
        if (g->n_staged == STAGED_BYTES)
            flush(g);
    }
}

static void put_u32(gatherer *g, uint32_t value)
{
    uint8_t bytes[4];

    hth_put_u32(bytes, value);
    put(g, bytes, sizeof(bytes));
}

/* The part of a link in the range, cell by cell: entry_bytes each, in an array that begins at entries. */
static void put_entries(gatherer *g, const chain_link *from, const uint8_t *entries, size_t entry_bytes)
{
    const hth_image_piece *piece = &from->piece;
    size_t begin = hth_larger(g->begin, piece->begin) - piece->begin;
    size_t end = hth_smaller(hth_larger(g->end, piece->begin), piece->end) - piece->begin;

    if (!from->cell_at && begin < end)
        put(g, entries + begin * entry_bytes, (end - begin) * entry_bytes);
    for (size_t i = begin; from->cell_at && i < end; i++)
        put(g, entries + from->cell_at[i] * entry_bytes, entry_bytes);
}

/* The description and the rows of tensor i. row_bytes_before: bytes of one cell in all earlier tensors. */
static void put_tensor(gatherer *g, uint32_t i, size_t row_bytes_before)
{
    const hth_image_chain *chain = g->chain;
    const hth_image_tensor *tensor = &chain->layout.tensors[i];
    bool is_transposed = chain->layout.v_transposed[0] == 1 && i >= chain->layout.n_layers[0];
    /* Transposed V has one array of cells per element; other tensors have a single array. */
    size_t entry_bytes = is_transposed ? tensor->element_bytes : (size_t)tensor->row_bytes;
    size_t n_arrays = !is_transposed ? 1 : entry_bytes > 0 ? (size_t)tensor->row_bytes / entry_bytes : 0;

    for (size_t array = 0; array < n_arrays || array == 0; array++) {
        for (size_t j = 0; j < chain->n_links && g->status == HEARTH_OK; j++) {
            const chain_link *from = &chain->links[j];
            size_t n_cells = from->piece.end - from->piece.begin;
            const uint8_t *head = cells_of(from) + n_cells * chain->cell_bytes + COUNTS_BYTES +
                                  (size_t)i * TENSOR_HEAD_BYTES + row_bytes_before * n_cells;

            if (array == 0 && j == 0)
                put(g, head, TENSOR_HEAD_BYTES);
            if (n_arrays > 0)
                put_entries(g, from, head + TENSOR_HEAD_BYTES + array * n_cells * entry_bytes, entry_bytes);
        }
    }
}

hearth_status hth_image_chain_write(const hth_image_chain *chain, uint32_t begin, uint32_t end,
                                    hth_image_write_fn write, void *user_data, hearth_error *err)
{
    size_t row_bytes_before = 0;
    gatherer g;

    check_range(chain, begin, end);
    /* No initialiser, because the staging buffer need not be zeroed. */
    g.chain = chain;
    g.begin = begin;
    g.end = end;
    g.write = write;
    g.user_data = user_data;
    g.err = err;
    g.status = HEARTH_OK;
    g.n_staged = 0;

    put(&g, chain->links[0].piece.bytes, HTH_IMAGE_HEADER_BYTES);
    put_u32(&g, 1);
    put_u32(&g, end - begin);
    for (size_t i = 0; i < chain->n_links; i++)
        put_entries(&g, &chain->links[i], cells_of(&chain->links[i]), chain->cell_bytes);
    put_u32(&g, chain->layout.v_transposed[0]);
    put_u32(&g, chain->layout.n_layers[0]);
    for (uint32_t i = 0; i < chain->layout.n_tensors && g.status == HEARTH_OK; i++) {
        put_tensor(&g, i, row_bytes_before);
        row_bytes_before += (size_t)chain->layout.tensors[i].row_bytes;
    }
    flush(&g);
    return g.status;
}

static hearth_status append(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err)
{
    uint8_t **at = user_data;

    (void)err; /* writing to memory cannot fail */
    memcpy(*at, bytes, n_bytes);
    *at += n_bytes;
    return HEARTH_OK;
}

void hth_image_chain_get(const hth_image_chain *chain, uint32_t begin, uint32_t end, uint8_t *bytes)
{
    uint8_t *at = bytes;

    (void)hth_image_chain_write(chain, begin, end, append, &at, NULL); /* append does not fail */
    assert((size_t)(at - bytes) == hth_image_chain_bytes(chain, begin, end));
}
