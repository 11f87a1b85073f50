/*
 * nearest.c - edit distance
 *
 * An inserted, missing or changed letter counts one, as does a swap of neighbours (optimal string alignment). A name is
 * near if at most a third of its letters differ. '-' and '_' count as equal.
 */
#include "console/nearest.h"

#include <string.h>

#include "base/smaller.h"

enum { NAME_BYTES_MAX = 64 };

static char plain(char c)
{
    return c == '_' ? '-' : c;
}

static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    /* Three rows of the table: swaps need the row before the previous one. */
    size_t rows[3][NAME_BYTES_MAX + 1];

    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above_that = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            char x = plain(a[i - 1]), y = plain(b[j - 1]);

            row[j] = hth_smaller(hth_smaller(above[j] + 1, row[j - 1] + 1), above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == plain(b[j - 2]) && plain(a[i - 2]) == y)
                row[j] = hth_smaller(row[j], above_that[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

void hth_nearest_init(hth_nearest *nearest, const char *wanted)
{
    *nearest = (hth_nearest){ .wanted = wanted };
}

void hth_nearest_try(hth_nearest *nearest, const char *name)
{
    size_t n_wanted = strlen(nearest->wanted), n_name = strlen(name), d;

    if (n_wanted == 0 || n_wanted > NAME_BYTES_MAX || n_name > NAME_BYTES_MAX)
        return;
    d = distance(nearest->wanted, n_wanted, name, n_name);
    if (3 * d > n_name || d >= n_name || (nearest->name && d >= nearest->distance))
        return;
    nearest->name = name;
    nearest->distance = d;
}
