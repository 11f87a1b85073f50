/*
 * image_join_test.c - what is joined and split is what the engine would have written at once
 *
 * A made-up state gives every byte of every tensor of every position a value of its own, and can be written as the
 * image of any range, in the way that image.h describes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "state/image_join.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_POSITIONS_MAX = 200, N_PIECES_MAX = 40, IMAGE_BYTES_MAX = 1 << 18 };

typedef struct shape {
    uint32_t n_layers;
    uint32_t k_row_bytes;
    uint32_t v_row_bytes;     /* 0: V is part of K */
    uint32_t v_element_bytes; /* of transposed V, 0 otherwise */
    bool has_ext;
} shape;

static const shape shapes[] = {
    { .n_layers = 3, .k_row_bytes = 16, .v_row_bytes = 24 },
    { .n_layers = 3, .k_row_bytes = 16, .v_row_bytes = 24, .v_element_bytes = 2 },
    { .n_layers = 2, .k_row_bytes = 34, .v_row_bytes = 12, .v_element_bytes = 4, .has_ext = true },
    { .n_layers = 1, .k_row_bytes = 1, .v_row_bytes = 1, .has_ext = true },
    { .n_layers = 4, .k_row_bytes = 18, .v_row_bytes = 0 },
};

enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

typedef struct image {
    uint8_t *bytes;
    size_t n_bytes;
} image;

static void put_u32(image *out, uint32_t value)
{
    hth_put_u32(out->bytes + out->n_bytes, value);
    out->n_bytes += 4;
}

static void put_byte(image *out, uint32_t tensor, uint32_t position, uint32_t i)
{
    assert_true(out->n_bytes < IMAGE_BYTES_MAX - 64);
    out->bytes[out->n_bytes++] = (uint8_t)((tensor * 101 + position) * 31 + i * 7 + (position >> 5));
}

static void put_tensor(image *out, uint32_t tensor, uint32_t row_bytes, const uint32_t *positions, uint32_t n)
{
    put_u32(out, 1);
    put_u32(out, row_bytes);
    put_u32(out, 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < row_bytes; j++)
            put_byte(out, tensor, positions[i], j);
}

static void put_transposed(image *out, uint32_t tensor, const shape *s, const uint32_t *positions, uint32_t n)
{
    put_u32(out, 1);
    put_u32(out, s->v_element_bytes);
    put_u32(out, s->v_row_bytes / s->v_element_bytes);
    for (uint32_t i = 0; i < s->v_row_bytes; i += s->v_element_bytes)
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t k = 0; k < s->v_element_bytes; k++)
                put_byte(out, tensor, positions[j], i + k);
}

/* The image of n cells that hold these positions, in that order. */
static image image_of(const shape *s, const uint32_t *positions, uint32_t n)
{
    image out = { .bytes = malloc(IMAGE_BYTES_MAX) };

    assert_non_null(out.bytes);
    put_u32(&out, HTH_IMAGE_MAGIC);
    put_u32(&out, 1);
    put_u32(&out, 1);
    put_u32(&out, n);
    for (uint32_t i = 0; i < n; i++) {
        put_u32(&out, positions[i]);
        put_u32(&out, 1);
        for (uint32_t j = 0; s->has_ext && j < 12; j++)
            put_byte(&out, 77, positions[i], j);
        put_u32(&out, 1);
    }
    put_u32(&out, s->v_element_bytes > 0);
    put_u32(&out, s->n_layers);
    for (uint32_t i = 0; i < s->n_layers; i++)
        put_tensor(&out, i, s->k_row_bytes, positions, n);
    for (uint32_t i = s->n_layers; s->v_row_bytes > 0 && i < 2 * s->n_layers; i++) {
        if (s->v_element_bytes > 0)
            put_transposed(&out, i, s, positions, n);
        else
            put_tensor(&out, i, s->v_row_bytes, positions, n);
    }
    /* Of the exact size, so that the sanitizer sees a read past it. */
    out.bytes = realloc(out.bytes, out.n_bytes);
    assert_non_null(out.bytes);
    return out;
}

static image image_of_range(const shape *s, uint32_t begin, uint32_t end)
{
    uint32_t positions[N_POSITIONS_MAX];

    for (uint32_t i = begin; i < end; i++)
        positions[i - begin] = i;
    return image_of(s, positions, end - begin);
}

static image shuffled_image(const shape *s, uint32_t begin, uint32_t end, uint64_t *random)
{
    uint32_t positions[N_POSITIONS_MAX], n = end - begin;

    for (uint32_t i = 0; i < n; i++)
        positions[i] = begin + i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)hth_test_random(random, i), other = positions[j];

        positions[j] = positions[i - 1];
        positions[i - 1] = other;
    }
    return image_of(s, positions, n);
}

static hth_image_format format_of(const shape *s)
{
    return (hth_image_format){ .has_attention = true, .has_cell_ext = s->has_ext, .may_lack_v = true };
}

static hth_image_chain *chain_of(const shape *s, const hth_image_piece *pieces, size_t n_pieces)
{
    hth_image_format format = format_of(s);
    hth_image_chain *chain = NULL;
    hearth_error err = { .message = "" };

    assert_ok(hth_image_chain_new(&format, pieces, n_pieces, &chain, &err), err);
    return chain;
}

static void assert_range_is(const hth_image_chain *chain, const shape *s, uint32_t begin, uint32_t end)
{
    image expected = image_of_range(s, begin, end);
    size_t n_bytes = hth_image_chain_bytes(chain, begin, end);
    uint8_t *bytes = malloc(n_bytes);

    assert_non_null(bytes);
    assert_int_equal(n_bytes, expected.n_bytes);
    hth_image_chain_get(chain, begin, end, bytes);
    assert_memory_equal(bytes, expected.bytes, n_bytes);
    free(bytes);
    free(expected.bytes);
}

TEST(any_range_of_any_pieces_is_the_image_of_that_range)
{
    uint64_t random = hth_test_seed();

    for (int round = 0; round < 400; round++) {
        const shape *s = &shapes[hth_test_random(&random, N_SHAPES)];
        size_t n_pieces = 1 + hth_test_random(&random, N_PIECES_MAX);
        hth_image_piece pieces[N_PIECES_MAX];
        uint32_t first = (uint32_t)hth_test_random(&random, 1000), at = first;
        hth_image_chain *chain;

        for (size_t i = 0; i < n_pieces; i++) {
            uint32_t n = 1 + (uint32_t)hth_test_random(&random, N_POSITIONS_MAX / n_pieces);
            image made = hth_test_random(&random, 3) == 0 ? shuffled_image(s, at, at + n, &random)
                                                          : image_of_range(s, at, at + n);

            pieces[i] = (hth_image_piece){ .bytes = made.bytes, .n_bytes = made.n_bytes, .begin = at, .end = at + n };
            at += n;
        }
        chain = chain_of(s, pieces, n_pieces);
        assert_int_equal(hth_image_chain_begin(chain), first);
        assert_int_equal(hth_image_chain_end(chain), at);
        assert_range_is(chain, s, first, at);
        for (int i = 0; i < 5; i++) {
            uint32_t begin = first + (uint32_t)hth_test_random(&random, at - first);

            assert_range_is(chain, s, begin, begin + 1 + (uint32_t)hth_test_random(&random, at - begin));
        }
        hth_image_chain_free(chain);
        for (size_t i = 0; i < n_pieces; i++)
            free((uint8_t *)(uintptr_t)pieces[i].bytes);
    }
}

TEST(the_format_is_told_from_the_image)
{
    for (size_t i = 0; i < N_SHAPES; i++) {
        image made = image_of_range(&shapes[i], 5, 105);
        hth_image_piece piece = { .bytes = made.bytes, .n_bytes = made.n_bytes, .begin = 5, .end = 105 };
        hth_image_format format;

        assert_true(hth_image_plain_format(&piece, &format));
        assert_int_equal(format.has_cell_ext, shapes[i].has_ext);
        assert_false(format.has_window);
        assert_false(format.has_recurrent);
        piece.n_bytes--;
        assert_false(hth_image_plain_format(&piece, &format));
        piece.n_bytes++;
        piece.end++;
        assert_false(hth_image_plain_format(&piece, &format));
        piece.end = piece.begin;
        assert_false(hth_image_plain_format(&piece, &format));
        free(made.bytes);
    }
}

static void assert_refused(const hth_image_format *format, const hth_image_piece *pieces, size_t n_pieces,
                           hearth_status expected, const char *said)
{
    hth_image_chain *chain = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(hth_image_chain_new(format, pieces, n_pieces, &chain, &err), expected);
    assert_null(chain);
    if (!strstr(err.message, said))
        fail_msg("the message is: %s", err.message);
}

TEST(pieces_that_do_not_fit_together_are_refused)
{
    const shape *s = &shapes[0];
    shape other_layers = *s;
    hth_image_format format = format_of(s), window = { .has_attention = true, .has_window = true, .n_window = 8 },
                     recurrent = { .has_recurrent = true }, hybrid = { .has_attention = true, .has_recurrent = true };
    image first = image_of_range(s, 0, 16), second = image_of_range(s, 16, 32), wider;
    hth_image_piece a = { first.bytes, first.n_bytes, 0, 16 }, b = { second.bytes, second.n_bytes, 16, 32 }, c;

    other_layers.k_row_bytes = 20;
    wider = image_of_range(&other_layers, 16, 32);
    c = (hth_image_piece){ wider.bytes, wider.n_bytes, 16, 32 };
    assert_refused(&format, (hth_image_piece[]){ b, a }, 2, HEARTH_CORRUPT, "does not continue");
    assert_refused(&format, (hth_image_piece[]){ a, a }, 2, HEARTH_CORRUPT, "does not continue");
    assert_refused(&format, (hth_image_piece[]){ a, c }, 2, HEARTH_CORRUPT, "other layers");
    c = b;
    c.n_bytes--;
    assert_refused(&format, (hth_image_piece[]){ a, c }, 2, HEARTH_CORRUPT, "positions 16 .. 32");
    c = b;
    c.end = 16;
    assert_refused(&format, (hth_image_piece[]){ a, c }, 2, HEARTH_CORRUPT, "16 .. 16");
    c.begin = c.end = UINT32_MAX;
    assert_refused(&format, &c, 1, HEARTH_CORRUPT, "cannot be joined");
    assert_refused(&window, &a, 1, HEARTH_UNSUPPORTED, "window");
    assert_refused(&recurrent, &a, 1, HEARTH_UNSUPPORTED, "recurrent");
    assert_refused(&hybrid, &a, 1, HEARTH_UNSUPPORTED, "recurrent");
    hth_image_chain_free(NULL);
    free(first.bytes);
    free(second.bytes);
    free(wider.bytes);
}

/* Takes so many bytes and then says no. */
static hearth_status take(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err)
{
    size_t *room = user_data;

    (void)bytes;
    assert_true(n_bytes > 0);
    if (n_bytes > *room)
        return hth_fail(err, HEARTH_FULL, "full");
    *room -= n_bytes;
    return HEARTH_OK;
}

TEST(a_writer_that_fails_is_not_asked_again_and_its_status_is_the_answer)
{
    const shape *s = &shapes[1];
    image made = image_of_range(s, 0, N_POSITIONS_MAX);
    hth_image_piece piece = { made.bytes, made.n_bytes, 0, N_POSITIONS_MAX };
    hth_image_chain *chain = chain_of(s, &piece, 1);
    hearth_error err = { .message = "" };

    for (size_t n = 0; n < made.n_bytes; n += 97) {
        size_t room = n;

        assert_int_equal(hth_image_chain_write(chain, 0, N_POSITIONS_MAX, take, &room, &err), HEARTH_FULL);
        assert_string_equal(err.message, "full");
    }
    hth_image_chain_free(chain);
    free(made.bytes);
}

TEST(a_mutated_image_is_refused_or_gathered_without_reading_past_it)
{
    uint64_t random = hth_test_seed();
    size_t n_accepted = 0;

    for (int round = 0; round < 20000; round++) {
        const shape *s = &shapes[hth_test_random(&random, N_SHAPES)];
        image made = image_of_range(s, 3, 12);
        hth_image_piece piece = { made.bytes, made.n_bytes, 3, 12 };
        hth_image_chain *chain;
        hth_image_format format;

        for (uint64_t n = 1 + hth_test_random(&random, 3); n > 0; n--) {
            /* Mostly where the counts and descriptions are. */
            size_t at = hth_test_random(&random, hth_test_random(&random, 2) ? made.n_bytes : 32);

            made.bytes[at] = hth_test_random(&random, 2) ? (uint8_t)hth_test_random(&random, 256)
                                                         : (uint8_t)hth_test_random(&random, 4);
        }
        if (hth_image_plain_format(&piece, &format) &&
            hth_image_chain_new(&format, &piece, 1, &chain, NULL) == HEARTH_OK) {
            for (uint32_t begin = 3; begin < 12; begin += 4) {
                size_t n_bytes = hth_image_chain_bytes(chain, begin, 12);
                uint8_t *bytes = malloc(n_bytes);

                assert_non_null(bytes);
                hth_image_chain_get(chain, begin, 12, bytes);
                free(bytes);
            }
            hth_image_chain_free(chain);
            n_accepted++;
        }
        free(made.bytes);
    }
    assert_true(n_accepted > 100);
}
