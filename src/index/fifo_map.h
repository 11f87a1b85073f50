/*
 * It remembers facts that are useful but not essential, in bounded memory. All keys have one size, and all values have
 * one size. The memory is allocated up front and touched as the map fills. One thread at a time.
 */
#ifndef HTH_INDEX_FIFO_MAP_H
#define HTH_INDEX_FIFO_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_fifo_map hth_fifo_map;

/* capacity is a power of two (asserted). NULL without memory. */
hth_fifo_map *hth_fifo_map_new(size_t key_bytes, size_t value_bytes, uint32_t capacity);
void hth_fifo_map_free(hth_fifo_map *map); /* accepts NULL */

/* Get the value of key; false when it is absent. */
bool hth_fifo_map_get(const hth_fifo_map *map, const void *key, void *value_out);
/* Add or replace a value, which becomes the newest; the oldest is dropped when there is no room. */
void hth_fifo_map_put(hth_fifo_map *map, const void *key, const void *value);
void hth_fifo_map_forget(hth_fifo_map *map, const void *key);

/* Visit every record, in no particular order, until visit returns false. */
typedef bool (*hth_fifo_map_visit_fn)(const void *key, const void *value, void *user_data);
void hth_fifo_map_visit(const hth_fifo_map *map, hth_fifo_map_visit_fn visit, void *user_data);

#endif
