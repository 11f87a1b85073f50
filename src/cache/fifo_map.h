/*
 * fifo_map.h - a bounded map of small fixed-size records that forgets the oldest ones
 *
 * For what is nice to remember and must not grow: keys and values are bytes of one size each, the memory is taken at the
 * beginning and touched as it fills. One thread at a time.
 */
#ifndef HTH_CACHE_FIFO_MAP_H
#define HTH_CACHE_FIFO_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_fifo_map hth_fifo_map;

/* capacity is a power of two (asserted). NULL without memory. */
hth_fifo_map *hth_fifo_map_new(size_t key_bytes, size_t value_bytes, uint32_t capacity);
void hth_fifo_map_free(hth_fifo_map *map); /* accepts NULL */

/* The value of key; false when it is not there. */
bool hth_fifo_map_get(const hth_fifo_map *map, const void *key, void *value_out);
/* Put a value in, in the place of the one that is there, as the newest; the oldest goes when there is no room. */
void hth_fifo_map_put(hth_fifo_map *map, const void *key, const void *value);
void hth_fifo_map_forget(hth_fifo_map *map, const void *key);

/* Every record, in no order, until visit says false. */
typedef bool (*hth_fifo_map_visit_fn)(const void *key, const void *value, void *user_data);
void hth_fifo_map_visit(const hth_fifo_map *map, hth_fifo_map_visit_fn visit, void *user_data);

#endif
