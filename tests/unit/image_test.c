/*
 * image_test.c - a state image passes only when it is exactly what was asked for
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "state/image.h"
#include "support/cmocka_all.h"

/* An image being written. */
typedef struct writer {
    uint8_t bytes[1 << 16];
    size_t n_bytes;
} writer;

static writer out;
static hth_image_layout layout;

static void put_u32(uint32_t value)
{
    hth_put_u32(out.bytes + out.n_bytes, value);
    out.n_bytes += 4;
}

static void put_u64(uint64_t value)
{
    hth_put_u64(out.bytes + out.n_bytes, value);
    out.n_bytes += 8;
}

static void put_fill(size_t n_bytes)
{
    memset(out.bytes + out.n_bytes, 0x5a, n_bytes);
    out.n_bytes += n_bytes;
}

static void begin_image(void)
{
    out.n_bytes = 0;
    put_u32(HTH_IMAGE_MAGIC);
    put_u32(1);
}

static void put_cells(uint32_t begin, uint32_t end, size_t n_ext_bytes)
{
    put_u32(1);
    put_u32(end - begin);
    for (uint32_t i = begin; i < end; i++) {
        put_u32(i);
        put_u32(1);
        put_fill(n_ext_bytes);
        put_u32(1);
    }
}

static void put_rows(uint32_t n_layers, uint32_t type, uint64_t row_bytes, uint32_t n_cells)
{
    for (uint32_t i = 0; i < n_layers; i++) {
        put_u32(type);
        put_u64(row_bytes);
        put_fill(row_bytes * n_cells);
    }
}

static void put_attention(uint32_t begin, uint32_t end, uint32_t n_layers)
{
    put_cells(begin, end, 0);
    put_u32(0);
    put_u32(n_layers);
    put_rows(n_layers, 1, 16, end - begin);
    put_rows(n_layers, 1, 24, end - begin);
}

static void put_recurrent(uint32_t n_cells, uint32_t position)
{
    put_u32(n_cells);
    put_u32(position);
    put_u32(0);
    put_u32(0);
    put_u32(4);
    put_rows(2, 0, 40, n_cells);
    put_rows(2, 0, 0, n_cells);
}

static const hth_image_format plain = { .has_attention = true };
static const hth_image_format window = { .has_attention = true, .has_window = true, .n_window = 8 };
static const hth_image_format recurrent = { .has_recurrent = true };
static const hth_image_format hybrid = { .has_attention = true, .has_recurrent = true };
static const hth_image_format hybrid_window = {
    .has_attention = true, .has_window = true, .has_recurrent = true, .n_window = 8
};

static hearth_status parse(const hth_image_format *format, uint32_t begin, uint32_t end)
{
    /* A buffer of the exact size, so that the sanitizer sees a read past it. */
    uint8_t *bytes = malloc(out.n_bytes);
    hearth_error err = { .message = "" };
    hearth_status status;

    assert_non_null(bytes);
    memcpy(bytes, out.bytes, out.n_bytes);
    status = hth_image_parse(format, bytes, out.n_bytes, begin, end, &layout, &err);
    free(bytes);
    if (status != HEARTH_OK)
        assert_true(strlen(err.message) > 10);
    return status;
}

/* Every shorter piece is refused; where the format leaves the tensors open, by its layout. */
static void assert_no_prefix_passes(const hth_image_format *format, uint32_t begin, uint32_t end)
{
    static hth_image_layout whole;
    size_t n_bytes = out.n_bytes;

    assert_int_equal(parse(format, begin, end), HEARTH_OK);
    whole = layout;
    for (out.n_bytes = 0; out.n_bytes < n_bytes; out.n_bytes++) {
        hearth_status status = parse(format, begin, end);

        if (format->may_lack_v || format->has_recurrent)
            assert_true(status == HEARTH_CORRUPT || !hth_image_layout_equal(&layout, &whole));
        else
            assert_int_equal(status, HEARTH_CORRUPT);
    }
    put_fill(1);
    assert_int_equal(parse(format, begin, end), HEARTH_CORRUPT);
    out.n_bytes = n_bytes;
    assert_int_equal(parse(format, begin, end), HEARTH_OK);
}

TEST(a_whole_attention_image_passes_and_no_piece_of_it)
{
    begin_image();
    put_attention(32, 48, 3);
    assert_no_prefix_passes(&plain, 32, 48);
    assert_int_equal(layout.n_layers[0], 3);
    assert_int_equal(layout.n_tensors, 6);
    assert_int_equal(layout.tensors[0].row_bytes, 16);
    assert_int_equal(layout.tensors[5].row_bytes, 24);
}

TEST(every_other_range_is_refused)
{
    begin_image();
    put_attention(32, 48, 1);
    assert_int_equal(parse(&plain, 32, 47), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, 32, 49), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, 31, 47), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, 33, 49), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, 0, 16), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, 0, UINT32_MAX), HEARTH_CORRUPT);
    assert_int_equal(parse(&plain, UINT32_MAX - 16, UINT32_MAX), HEARTH_CORRUPT);
}

TEST(cells_may_come_in_any_order_but_each_position_once)
{
    uint8_t *cells = out.bytes + 16;

    begin_image();
    put_attention(32, 48, 1);
    for (uint32_t i = 0; i < 16; i++)
        hth_put_u32(cells + i * 12, 32 + (i * 7 + 5) % 16);
    assert_int_equal(parse(&plain, 32, 48), HEARTH_OK);
    hth_put_u32(cells, hth_get_u32(cells + 12));
    assert_int_equal(parse(&plain, 32, 48), HEARTH_CORRUPT);
    hth_put_u32(cells, 31);
    assert_int_equal(parse(&plain, 32, 48), HEARTH_CORRUPT);
    hth_put_u32(cells, 48);
    assert_int_equal(parse(&plain, 32, 48), HEARTH_CORRUPT);
    hth_put_u32(cells, UINT32_MAX);
    assert_int_equal(parse(&plain, 32, 48), HEARTH_CORRUPT);
}

TEST(cells_of_m_rope_models_are_longer)
{
    hth_image_format format = plain;

    begin_image();
    put_cells(0, 4, 12);
    put_u32(0);
    put_u32(1);
    put_rows(2, 1, 16, 4);
    assert_int_equal(parse(&plain, 0, 4), HEARTH_CORRUPT);
    format.has_cell_ext = true;
    assert_no_prefix_passes(&format, 0, 4);
}

TEST(transposed_values_pass)
{
    begin_image();
    put_cells(0, 4, 0);
    put_u32(1);
    put_u32(2);
    put_rows(2, 1, 16, 4);
    for (int i = 0; i < 2; i++) {
        put_u32(1);
        put_u32(2); /* bytes an element */
        put_u32(8); /* elements */
        put_fill(2 * 8 * 4);
    }
    assert_no_prefix_passes(&plain, 0, 4);
    assert_int_equal(layout.v_transposed[0], 1);
    assert_int_equal(layout.tensors[3].element_bytes, 2);
    assert_int_equal(layout.tensors[3].row_bytes, 16);
}

TEST(values_may_be_missing_only_where_the_model_may_lack_them)
{
    hth_image_format format = plain;

    begin_image();
    put_cells(0, 4, 0);
    put_u32(0);
    put_u32(3);
    put_rows(3, 1, 16, 4);
    assert_int_equal(parse(&plain, 0, 4), HEARTH_CORRUPT);
    format.may_lack_v = true;
    assert_no_prefix_passes(&format, 0, 4);
    assert_int_equal(layout.n_tensors, 3);
    put_rows(3, 1, 16, 4);
    assert_no_prefix_passes(&format, 0, 4);
    assert_int_equal(layout.n_tensors, 6);
}

TEST(a_window_section_holds_the_last_positions_only)
{
    begin_image();
    put_attention(0, 20, 1);
    put_attention(12, 20, 2);
    assert_no_prefix_passes(&window, 0, 20);
    assert_int_equal(layout.n_layers[0], 1);
    assert_int_equal(layout.n_layers[1], 2);

    begin_image();
    put_attention(0, 20, 1);
    put_attention(11, 20, 2);
    assert_int_equal(parse(&window, 0, 20), HEARTH_CORRUPT);

    begin_image();
    put_attention(16, 20, 1);
    put_attention(16, 20, 2);
    assert_int_equal(parse(&window, 16, 20), HEARTH_OK);
}

TEST(a_recurrent_section_holds_the_last_position_once)
{
    begin_image();
    put_recurrent(1, 19);
    assert_no_prefix_passes(&recurrent, 0, 20);
    assert_int_equal(parse(&recurrent, 0, 19), HEARTH_CORRUPT);
    assert_int_equal(parse(&recurrent, 0, 21), HEARTH_CORRUPT);

    begin_image();
    put_recurrent(2, 19);
    assert_int_equal(parse(&recurrent, 0, 20), HEARTH_CORRUPT);
    begin_image();
    put_u32(0);
    assert_int_equal(parse(&recurrent, 0, 20), HEARTH_CORRUPT);
}

TEST(a_hybrid_image_has_all_its_sections)
{
    begin_image();
    put_attention(0, 20, 1);
    assert_int_equal(parse(&hybrid, 0, 20), HEARTH_CORRUPT);
    put_recurrent(1, 19);
    assert_int_equal(parse(&hybrid, 0, 20), HEARTH_OK);
    assert_int_equal(parse(&plain, 0, 20), HEARTH_CORRUPT);

    begin_image();
    put_attention(0, 20, 1);
    put_attention(12, 20, 1);
    put_recurrent(1, 19);
    assert_int_equal(parse(&hybrid_window, 0, 20), HEARTH_OK);
}

static void put_empty_attention(void)
{
    put_u32(1);
    put_u32(0);
}

static void put_empty_recurrent(void)
{
    put_u32(0);
    put_u32(0);
    put_u32(4);
    put_rows(2, 0, 40, 0);
    put_rows(2, 0, 0, 0);
}

TEST(cells_of_a_hybrid_have_neither_window_nor_state)
{
    hth_image_format format = hth_image_part_format(&hybrid_window, HTH_STATE_CELLS);

    begin_image();
    put_attention(256, 276, 2);
    put_empty_attention();
    put_empty_recurrent();
    assert_no_prefix_passes(&format, 256, 276);
    assert_int_equal(parse(&hybrid_window, 256, 276), HEARTH_CORRUPT);

    begin_image();
    put_attention(256, 276, 2);
    put_attention(268, 276, 1);
    put_empty_recurrent();
    assert_int_equal(parse(&format, 256, 276), HEARTH_CORRUPT);
    begin_image();
    put_attention(256, 276, 2);
    put_empty_attention();
    put_recurrent(1, 275);
    assert_int_equal(parse(&format, 256, 276), HEARTH_CORRUPT);

    format = hth_image_part_format(&hybrid, HTH_STATE_CELLS);
    begin_image();
    put_attention(256, 276, 2);
    put_empty_recurrent();
    assert_no_prefix_passes(&format, 256, 276);
}

TEST(the_rest_of_a_hybrid_has_its_window_and_its_state)
{
    hth_image_format format = hth_image_part_format(&hybrid_window, HTH_STATE_REST);

    begin_image();
    put_attention(12, 20, 1);
    put_recurrent(1, 19);
    assert_no_prefix_passes(&format, 0, 20);
    assert_int_equal(parse(&format, 0, 21), HEARTH_CORRUPT);
    begin_image();
    put_empty_attention();
    put_recurrent(1, 19);
    assert_int_equal(parse(&format, 0, 20), HEARTH_CORRUPT);

    format = hth_image_part_format(&hybrid, HTH_STATE_REST);
    begin_image();
    put_recurrent(1, 19);
    assert_no_prefix_passes(&format, 0, 20);
    begin_image();
    put_empty_recurrent();
    assert_int_equal(parse(&format, 0, 20), HEARTH_CORRUPT);
}

TEST(a_image_is_laid_bare_by_emptying_its_window)
{
    const hth_image_format *whole[] = { &window, &hybrid_window };

    for (size_t i = 0; i < 2; i++) {
        hth_image_format format = hth_image_part_format(whole[i], HTH_STATE_CELLS_BARE);
        hth_image_format full = *whole[i];
        uint8_t bare[sizeof(out.bytes)];
        size_t n_bare;

        full.recurrent_is_empty = true;
        begin_image();
        put_attention(256, 276, 2);
        put_attention(268, 276, 1);
        if (full.has_recurrent)
            put_empty_recurrent();
        assert_int_equal(parse(&full, 256, 276), HEARTH_OK);
        n_bare = hth_image_bare_bytes(&layout, out.n_bytes);
        hth_image_write_bare(&layout, out.bytes, out.n_bytes, bare);

        begin_image();
        put_attention(256, 276, 2);
        put_empty_attention();
        if (full.has_recurrent)
            put_empty_recurrent();
        assert_int_equal(n_bare, out.n_bytes);
        assert_memory_equal(bare, out.bytes, n_bare);
        assert_int_equal(parse(&format, 256, 276), HEARTH_OK);
    }
}

TEST(claims_beyond_the_bytes_are_refused_at_once)
{
    begin_image();
    put_u32(1);
    put_u32(UINT32_MAX);
    assert_int_equal(parse(&plain, 0, UINT32_MAX), HEARTH_CORRUPT);

    for (uint64_t row_bytes = 17; row_bytes != 0; row_bytes <<= 1) {
        begin_image();
        put_cells(0, 16, 0);
        put_u32(0);
        put_u32(1);
        put_u32(1);
        put_u64(row_bytes);
        put_fill(16 * 16);
        assert_int_equal(parse(&plain, 0, 16), HEARTH_CORRUPT);
    }
    begin_image();
    put_cells(0, 16, 0);
    put_u32(1);
    put_u32(1);
    put_rows(1, 1, 16, 16);
    put_u32(1);
    put_u32(UINT32_MAX);
    put_u32(UINT32_MAX);
    assert_int_equal(parse(&plain, 0, 16), HEARTH_CORRUPT);
}

TEST(layers_are_bounded)
{
    begin_image();
    put_cells(0, 1, 0);
    put_u32(0);
    put_u32(HTH_IMAGE_LAYERS_MAX + 1);
    put_rows(2 * (HTH_IMAGE_LAYERS_MAX + 1), 1, 1, 1);
    assert_int_equal(parse(&plain, 0, 1), HEARTH_CORRUPT);

    begin_image();
    put_cells(0, 1, 0);
    put_u32(0);
    put_u32(HTH_IMAGE_LAYERS_MAX);
    put_rows(2 * HTH_IMAGE_LAYERS_MAX, 1, 1, 1);
    assert_int_equal(parse(&plain, 0, 1), HEARTH_OK);

    begin_image();
    put_u32(1);
    put_u32(0);
    put_u32(0);
    put_u32(0);
    put_u32(1);
    put_rows(3, 0, 8, 1); /* one layer has at most two tensors */
    assert_int_equal(parse(&recurrent, 0, 1), HEARTH_CORRUPT);
}

TEST(layouts_differ_where_any_tensor_does)
{
    static hth_image_layout first;

    begin_image();
    put_attention(0, 4, 2);
    assert_int_equal(parse(&plain, 0, 4), HEARTH_OK);
    first = layout;
    begin_image();
    put_attention(4, 9, 2);
    assert_int_equal(parse(&plain, 4, 9), HEARTH_OK);
    assert_true(hth_image_layout_equal(&first, &layout));
    layout.tensors[3].type = 8;
    assert_false(hth_image_layout_equal(&first, &layout));
    begin_image();
    put_attention(0, 4, 3);
    assert_int_equal(parse(&plain, 0, 4), HEARTH_OK);
    assert_false(hth_image_layout_equal(&first, &layout));
}
