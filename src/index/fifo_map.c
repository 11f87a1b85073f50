/*
 * fifo_map.c - a ring of records, and chains through it
 *
 * A new record takes the next place in the ring and replaces the record there, which is the oldest. A forgotten record
 * leaves its place empty until the ring reaches it again.
 */
#include "index/fifo_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE = 0 }; /* places are counted from 1, so that fresh memory is an empty map */

typedef struct place {
    uint32_t next; /* next place of the same bucket */
    bool is_used;
} place;

struct hth_fifo_map {
    size_t key_bytes;
    size_t value_bytes;
    uint32_t capacity;
    uint32_t newest;   /* the place that was taken last */
    uint32_t *buckets; /* [capacity] */
    place *places;     /* [capacity] */
    uint8_t *records;  /* [capacity], key and value */
};

hth_fifo_map *hth_fifo_map_new(size_t key_bytes, size_t value_bytes, uint32_t capacity)
{
    hth_fifo_map *map = calloc(1, sizeof(*map));

    assert(capacity > 0);
    assert((capacity & (capacity - 1)) == 0);
    if (!map)
        return NULL;
    *map = (hth_fifo_map){ .key_bytes = key_bytes, .value_bytes = value_bytes, .capacity = capacity };
    map->buckets = calloc(capacity, sizeof(*map->buckets));
    map->places = calloc(capacity, sizeof(*map->places));
    map->records = calloc(capacity, key_bytes + value_bytes);
    if (map->buckets && map->places && map->records)
        return map;
    hth_fifo_map_free(map);
    return NULL;
}

void hth_fifo_map_free(hth_fifo_map *map)
{
    if (!map)
        return;
    free(map->buckets);
    free(map->places);
    free(map->records);
    free(map);
}

static uint8_t *record_at(const hth_fifo_map *map, uint32_t at)
{
    return map->records + (size_t)(at - 1) * (map->key_bytes + map->value_bytes);
}

static place *place_at(const hth_fifo_map *map, uint32_t at)
{
    return &map->places[at - 1];
}

static uint32_t *bucket_of(const hth_fifo_map *map, const uint8_t *key)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < map->key_bytes; i += sizeof(uint64_t)) {
        size_t n = map->key_bytes - i < sizeof(uint64_t) ? map->key_bytes - i : sizeof(uint64_t);
        uint64_t digits = 0;

        memcpy(&digits, key + i, n);
        hash = (hash ^ digits) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return &map->buckets[hash & (map->capacity - 1)];
}

/* The link to the key's place, or to NOWHERE at the end of its bucket. */
static uint32_t *link_to(const hth_fifo_map *map, const void *key)
{
    uint32_t *link = bucket_of(map, key);

    while (*link != NOWHERE && memcmp(record_at(map, *link), key, map->key_bytes) != 0)
        link = &place_at(map, *link)->next;
    return link;
}

bool hth_fifo_map_get(const hth_fifo_map *map, const void *key, void *value_out)
{
    uint32_t at = *link_to(map, key);

    if (at != NOWHERE)
        memcpy(value_out, record_at(map, at) + map->key_bytes, map->value_bytes);
    return at != NOWHERE;
}

void hth_fifo_map_forget(hth_fifo_map *map, const void *key)
{
    uint32_t *link = link_to(map, key);
    place *found;

    if (*link == NOWHERE)
        return;
    found = place_at(map, *link);
    *link = found->next;
    found->is_used = false;
}

void hth_fifo_map_put(hth_fifo_map *map, const void *key, const void *value)
{
    uint32_t at = map->newest % map->capacity + 1;
    uint32_t *bucket;

    hth_fifo_map_forget(map, key);
    if (place_at(map, at)->is_used)
        hth_fifo_map_forget(map, record_at(map, at));
    memcpy(record_at(map, at), key, map->key_bytes);
    memcpy(record_at(map, at) + map->key_bytes, value, map->value_bytes);
    bucket = bucket_of(map, key);
    *place_at(map, at) = (place){ .next = *bucket, .is_used = true };
    *bucket = at;
    map->newest = at;
}

void hth_fifo_map_visit(const hth_fifo_map *map, hth_fifo_map_visit_fn visit, void *user_data)
{
    for (uint32_t at = 1; at <= map->capacity; at++) {
        const uint8_t *record = record_at(map, at);

        if (place_at(map, at)->is_used && !visit(record, record + map->key_bytes, user_data))
            return;
    }
}
