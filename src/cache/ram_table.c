/*
 * ram_table.c - two chained hash tables that double when there are twice as many rows as buckets
 *
 * A family is the list of rows of one parent. Only its first row is in the chain of a bucket. A new first row takes its
 * place.
 */
#include "cache/ram_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MIN = 64, ROWS_A_BUCKET = 2 };

bool hth_ram_table_init(hth_ram_table *table)
{
    *table = (hth_ram_table){ .n_buckets = BUCKETS_MIN };
    table->by_id = calloc(BUCKETS_MIN, sizeof(hth_ram_row *));
    table->families = calloc(BUCKETS_MIN, sizeof(hth_ram_row *));
    return table->by_id && table->families;
}

void hth_ram_table_deinit(hth_ram_table *table)
{
    free(table->by_id);
    free(table->families);
    *table = (hth_ram_table){ .by_id = NULL };
}

static size_t bucket_of(const hth_ram_table *table, const hth_key *key)
{
    uint64_t digits;

    memcpy(&digits, key->bytes, sizeof(digits));
    return (size_t)(digits ^ digits >> 32) & (table->n_buckets - 1); /* in tests, keys count from 0 */
}

hth_ram_row *hth_ram_table_find(const hth_ram_table *table, const hth_row_id *id)
{
    hth_ram_row *row = table->by_id[bucket_of(table, &id->key)];

    while (row && !hth_row_id_equal(&row->meta.id, id))
        row = row->next_id;
    return row;
}

/* The pointer to the first row of a family, or to NULL at the end of its chain. */
static hth_ram_row **family_of(const hth_ram_table *table, const hth_key *parent)
{
    hth_ram_row **link = &table->families[bucket_of(table, parent)];

    while (*link && !hth_key_equal(&(*link)->meta.parent, parent))
        link = &(*link)->next_family;
    return link;
}

hth_ram_row *hth_ram_table_children(const hth_ram_table *table, const hth_key *parent)
{
    return *family_of(table, parent);
}

/* Put all rows into tables of twice the size; without memory the old tables stay. */
static void grow(hth_ram_table *table)
{
    hth_ram_table larger = { .n_buckets = 2 * table->n_buckets };

    larger.by_id = calloc(larger.n_buckets, sizeof(hth_ram_row *));
    larger.families = calloc(larger.n_buckets, sizeof(hth_ram_row *));
    if (!larger.by_id || !larger.families) {
        hth_ram_table_deinit(&larger);
        return;
    }
    for (size_t i = 0; i < table->n_buckets; i++) {
        for (hth_ram_row *row = table->by_id[i], *next; row; row = next) {
            hth_ram_row **bucket = &larger.by_id[bucket_of(&larger, &row->meta.id.key)];

            next = row->next_id;
            row->next_id = *bucket;
            *bucket = row;
        }
        for (hth_ram_row *row = table->families[i], *next; row; row = next) {
            hth_ram_row **bucket = &larger.families[bucket_of(&larger, &row->meta.parent)];

            next = row->next_family;
            row->next_family = *bucket;
            *bucket = row;
        }
    }
    free(table->by_id);
    free(table->families);
    table->by_id = larger.by_id;
    table->families = larger.families;
    table->n_buckets = larger.n_buckets;
}

void hth_ram_table_add(hth_ram_table *table, hth_ram_row *row)
{
    hth_ram_row **link;

    if (table->n_rows >= ROWS_A_BUCKET * table->n_buckets)
        grow(table);
    link = &table->by_id[bucket_of(table, &row->meta.id.key)];
    row->next_id = *link;
    *link = row;

    link = family_of(table, &row->meta.parent);
    row->older = *link;
    row->younger = NULL;
    row->next_family = NULL;
    if (row->older) {
        row->older->younger = row;
        row->next_family = row->older->next_family;
    }
    *link = row;
    table->n_rows++;
}

void hth_ram_table_remove(hth_ram_table *table, hth_ram_row *row)
{
    hth_ram_row **link = &table->by_id[bucket_of(table, &row->meta.id.key)];

    while (*link != row) {
        assert(*link);
        link = &(*link)->next_id;
    }
    *link = row->next_id;

    if (row->younger) {
        row->younger->older = row->older;
    } else {
        link = family_of(table, &row->meta.parent);
        assert(*link == row);
        if (row->older)
            row->older->next_family = row->next_family;
        *link = row->older ? row->older : row->next_family;
    }
    if (row->older)
        row->older->younger = row->younger;
    row->older = row->younger = NULL;
    table->n_rows--;
}
