/*
 * image_fuzz.c - the parser of state images reads inside its input, whatever the input claims
 *
 * An input is four bytes that say what is expected (bits for attention, window, recurrent, longer cells, no V, and two
 * for the part of the state; window size; first position; number of positions), then the image. What parses must parse
 * again to the same layout, and not with its last byte missing; laid bare it must parse, too.
 */
#include <stdlib.h>
#include <string.h>

#include "state/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Which part the input is said to be; the whole where the format has no such part. */
static hth_image_format part_of(const hth_image_format *whole, uint8_t which)
{
    if (which == 1 && whole->has_attention)
        return hth_image_part_format(whole, HTH_STATE_CELLS);
    if (which == 2 && whole->has_attention && whole->has_window)
        return hth_image_part_format(whole, HTH_STATE_CELLS_BARE);
    if (which == 3 && whole->has_recurrent)
        return hth_image_part_format(whole, HTH_STATE_REST);
    return *whole;
}

static void lay_bare(hth_image_format format, const hth_image_layout *layout, const uint8_t *image, size_t n_bytes,
                     uint32_t begin, uint32_t end)
{
    static hth_image_layout bare_layout;
    size_t n_bare = hth_image_bare_bytes(layout, n_bytes);
    uint8_t *bare = malloc(n_bare);

    format.window_is_empty = true;
    if (bare) {
        hth_image_write_bare(layout, image, n_bytes, bare);
        if (hth_image_parse(&format, bare, n_bare, begin, end, &bare_layout, NULL) != HEARTH_OK)
            abort();
    }
    free(bare);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static hth_image_layout layout, again;
    hth_image_format format;
    uint32_t begin, end;
    uint8_t *image;
    hearth_error err;

    if (n_bytes < 4)
        return 0;
    format = (hth_image_format){
        .has_attention = bytes[0] & 1,
        .has_window = (bytes[0] & 3) == 3,
        .has_recurrent = bytes[0] & 4 || !(bytes[0] & 1),
        .has_cell_ext = bytes[0] & 8,
        .may_lack_v = bytes[0] & 16,
        .n_window = bytes[1] + 1u,
    };
    format = part_of(&format, bytes[0] >> 5 & 3);
    begin = bytes[2];
    end = begin + bytes[3] + 1u;
    n_bytes -= 4;
    image = malloc(n_bytes + 1); /* of its own, so that a read past the end is seen */
    if (!image)
        return 0;
    memcpy(image, bytes + 4, n_bytes);
    image = realloc(image, n_bytes ? n_bytes : 1);
    if (image && hth_image_parse(&format, image, n_bytes, begin, end, &layout, &err) == HEARTH_OK) {
        if (hth_image_parse(&format, image, n_bytes, begin, end, &again, NULL) != HEARTH_OK ||
            !hth_image_layout_equal(&layout, &again))
            abort();
        if (hth_image_parse(&format, image, n_bytes - 1, begin, end, &again, NULL) == HEARTH_OK)
            abort();
        if (format.has_window && !format.may_lack_v)
            lay_bare(format, &layout, image, n_bytes, begin, end);
    }
    free(image);
    return 0;
}
