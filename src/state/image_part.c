/* image_part.c - formats of parts, and images without their window section */
#include "state/image_part.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

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
