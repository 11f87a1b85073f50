/*
 * attention_mask.c - which cells a row of an attention mask leaves open
 *
 * Masks are read 64 cells at a time as bits, since of the cells of a shared buffer most belong to other sequences: what
 * is closed must cost next to nothing.
 */
#include "engine/attention_mask.h"

#include <string.h>

typedef uint16_t halves __attribute__((vector_size(32)));

#define N_HALVES ((size_t)16)
#define N_BITS ((size_t)64)

/* Bit i: cell i of up to 64 is open. */
static uint64_t open_bits(const uint16_t *mask)
{
    static const halves weights = { 1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                    1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15 };
    uint64_t bits = 0;

    for (size_t i = 0; i < N_BITS / N_HALVES; i++) {
        halves values;
        uint64_t folded[4];

        memcpy(&values, mask + i * N_HALVES, sizeof(values));
        values = (halves)(values != HTH_MASK_CLOSED) & weights;
        memcpy(folded, &values, sizeof(folded));
        folded[0] |= folded[1] | folded[2] | folded[3];
        folded[0] |= folded[0] >> 32;
        folded[0] |= folded[0] >> 16;
        bits |= (folded[0] & 0xffff) << (i * N_HALVES);
    }
    return bits;
}

static uint64_t open_bits_at(const uint16_t *mask, size_t n_cells, size_t block)
{
    uint64_t bits = 0;

    if (block + N_BITS <= n_cells)
        return open_bits(mask + block);
    for (size_t i = block; i < n_cells; i++)
        bits |= (uint64_t)(mask[i] != HTH_MASK_CLOSED) << (i - block);
    return bits;
}

size_t hth_open_cells_count(const uint16_t *mask, size_t n_cells)
{
    size_t n = 0;

    for (size_t block = 0; block < n_cells; block += N_BITS)
        n += (size_t)__builtin_popcountll(open_bits_at(mask, n_cells, block));
    return n;
}

/* Until some are at hand; false at the end. */
static bool look_further(hth_open_cells *walk)
{
    while (walk->open == 0 && walk->block < walk->n_cells) {
        walk->open = open_bits_at(walk->mask, walk->n_cells, walk->block);
        walk->block += N_BITS;
    }
    return walk->open != 0;
}

size_t hth_open_cells_next(hth_open_cells *walk, uint32_t *cells, size_t n_max)
{
    size_t n = 0;

    while (n < n_max && look_further(walk)) {
        uint32_t first = (uint32_t)(walk->block - N_BITS);

        for (; walk->open != 0 && n < n_max; walk->open &= walk->open - 1)
            cells[n++] = first + (uint32_t)__builtin_ctzll(walk->open);
    }
    return n;
}

void hth_open_cells_skip(hth_open_cells *walk, size_t n)
{
    while (n > 0 && look_further(walk)) {
        size_t n_here = (size_t)__builtin_popcountll(walk->open);

        if (n_here <= n) {
            walk->open = 0;
            n -= n_here;
            continue;
        }
        for (; n > 0; n--)
            walk->open &= walk->open - 1;
    }
}

bool hth_mask_row_follows(const uint16_t *row, const uint16_t *before, const uint16_t *two_before, size_t n_cells)
{
    int n_gained = 0;
    int n_lost = 0;

    for (size_t block = 0; block < n_cells; block += N_BITS) {
        size_t n_bytes = (n_cells - block < N_BITS ? n_cells - block : N_BITS) * sizeof(row[0]);
        uint64_t now, then, lost;

        if (memcmp(row + block, before + block, n_bytes) == 0)
            continue;
        now = open_bits_at(row, n_cells, block);
        then = open_bits_at(before, n_cells, block);
        lost = then & ~now;
        n_gained += __builtin_popcountll(now & ~then);
        n_lost += __builtin_popcountll(lost);
        if (n_gained > 1 || n_lost > 1)
            return false;
        if (lost != 0 && (!two_before || (open_bits_at(two_before, n_cells, block) & lost) == 0))
            return false;
    }
    return n_gained == 1;
}
