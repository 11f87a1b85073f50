/*
 * blob_fuzz.c - the parser of state blobs reads inside its input, whatever the input claims
 *
 * An input is four bytes that say what is expected (bits for attention, window, recurrent, longer cells, no V; window
 * size; first position; number of positions), then the blob. What parses must parse again to the same layout, and not
 * with its last byte missing.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static hth_blob_layout layout, again;
    hth_blob_format format;
    uint32_t begin, end;
    uint8_t *blob;
    hearth_error err;

    if (n_bytes < 4)
        return 0;
    format = (hth_blob_format){
        .has_attention = bytes[0] & 1,
        .has_window = (bytes[0] & 3) == 3,
        .has_recurrent = bytes[0] & 4 || !(bytes[0] & 1),
        .has_cell_ext = bytes[0] & 8,
        .may_lack_v = bytes[0] & 16,
        .n_window = bytes[1] + 1u,
    };
    begin = bytes[2];
    end = begin + bytes[3] + 1u;
    n_bytes -= 4;
    blob = malloc(n_bytes + 1); /* of its own, so that a read past the end is seen */
    if (!blob)
        return 0;
    memcpy(blob, bytes + 4, n_bytes);
    blob = realloc(blob, n_bytes ? n_bytes : 1);
    if (blob && hth_blob_parse(&format, blob, n_bytes, begin, end, &layout, &err) == HEARTH_OK) {
        if (hth_blob_parse(&format, blob, n_bytes, begin, end, &again, NULL) != HEARTH_OK ||
            !hth_blob_layout_equal(&layout, &again))
            abort();
        if (hth_blob_parse(&format, blob, n_bytes - 1, begin, end, &again, NULL) == HEARTH_OK)
            abort();
    }
    free(blob);
    return 0;
}
