/*
 * safetensors_fuzz.c - any bytes as a safetensors file
 *
 * Nothing outside the bytes is read (a sanitizer sees it). The tensors of an accepted file lie in its data, fill them
 * without overlap, and are as long as their shapes say.
 */
#include <assert.h>
#include <stdlib.h>

#include "convert/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check_accepted(const hth_safetensors *file)
{
    uint64_t n_filled = 0, begin = file->n_bytes;

    for (size_t i = 0; i < file->n_tensors; i++) {
        const hth_safetensors_tensor *tensor = &file->tensors[i];
        uint64_t n_elements = 1, n = tensor->end - tensor->begin;

        assert(tensor->begin <= tensor->end);
        assert(tensor->end <= file->n_bytes);
        for (uint32_t k = 0; k < tensor->n_dims; k++)
            n_elements *= tensor->shape[k];
        assert(n_elements == 0 ? n == 0 : n % n_elements == 0 && n / n_elements <= 8);
        n_filled += n;
        begin = tensor->begin < begin ? tensor->begin : begin;
    }
    assert(n_filled == file->n_bytes - begin || file->n_tensors == 0);
}

/* The length of the header is put right, so that most inputs get beyond it. */
static void try_with_length(const uint8_t *bytes, size_t n_bytes)
{
    size_t n_header = n_bytes > 8 ? n_bytes - 8 : 0;
    uint8_t *copy = malloc(n_bytes + 1);
    hth_safetensors file;

    if (!copy)
        return;
    for (size_t i = 0; i < n_bytes; i++)
        copy[i] = i < 8 ? (uint8_t)((uint64_t)n_header >> (8 * i)) : bytes[i];
    if (hth_safetensors_parse("fuzz", copy, n_bytes, &file, NULL) == HEARTH_OK) {
        check_accepted(&file);
        hth_safetensors_close(&file);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_safetensors file;

    if (hth_safetensors_parse("fuzz", bytes, n_bytes, &file, NULL) == HEARTH_OK) {
        check_accepted(&file);
        hth_safetensors_close(&file);
    }
    try_with_length(bytes, n_bytes);
    return 0;
}
