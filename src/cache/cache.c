/*
 * cache.c - one interface to all tiers
 *
 * The RAM tier holds complete KVC files, so the writer and a restore use the same bytes. borrow.c reads rows from the
 * tiers and saves new ones.
 */
#include "cache/cache_inside.h"

#include <assert.h>
#include <stdio.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cache/upkeep.h"
#include "rows/directory.h"

/* With this many CPUs, one is free to touch memory during a restore: on 16 this made restores faster, on 2 slower. */
enum { MANY_CPUS = 8 };

/* ---- opening ---- */

/* Open the RAM tier in the given memory or, with a warning when that cannot be used, in private memory. */
static hearth_status open_ram(hth_cache *cache, const hth_cache_options *options, hearth_error *err)
{
    hth_ram_tier_options ram_options = {
        .bytes_max = options->ram_bytes_max,
        .warm = true,
        .memory_fd = options->ram_memory_fd,
        .key = options->key,
        .past = &cache->past,
    };
    hearth_error trouble = { .message = "" };

    if (ram_options.memory_fd >= 0) {
        if (hth_ram_tier_open(&ram_options, &cache->ram, &trouble) == HEARTH_OK)
            return HEARTH_OK;
        hth_warn(cache->log, "the RAM tier does not outlive this process: %s", trouble.message);
        ram_options.memory_fd = -1;
    }
    return hth_ram_tier_open(&ram_options, &cache->ram, err);
}

static void close_levels(hth_cache *cache)
{
    hth_file_levels_close(cache->levels, cache->n_levels);
    cache->n_levels = 0;
}

static void open_writer(hth_cache *cache, const hth_cache_options *options)
{
    hearth_error trouble = { .message = "" };
    hth_writer_options writer_options = {
        .ram = cache->ram,
        .n_tiers = cache->n_levels,
        .n_threads = options->n_writer_threads ? options->n_writer_threads : 1,
        .limits = options->write_limits,
        .rejected = &cache->rejected,
        .counters = cache->counters,
        .key = cache->key,
        .log = cache->log,
    };

    for (size_t i = 0; i < cache->n_levels; i++) {
        writer_options.tiers[i] = cache->levels[i].files;
        writer_options.names[i] = cache->levels[i].tier;
    }
    if (cache->n_levels == 0 || hth_writer_open(&writer_options, &cache->writer, &trouble) == HEARTH_OK)
        return;
    hth_warn(cache->log, "nothing will be cached in files: %s", trouble.message);
    close_levels(cache);
}

hearth_status hth_cache_open(const hth_cache_options *options, hth_cache **out, hearth_error *err)
{
    hth_cache *cache = calloc(1, sizeof(*cache));
    hearth_status status;

    if (!cache)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache");
    cache->fs = options->fs ? options->fs : hth_fs_system();
    cache->log = options->log;
    cache->save_on_second_use = options->save_on_second_use;
    cache->has_many_cpus = hth_os_n_cpus() >= MANY_CPUS;
    hth_rejected_init(&cache->rejected);
    hth_past_init(&cache->past);
    if (!hth_os_hostname(cache->hostname, sizeof(cache->hostname)))
        cache->hostname[0] = '\0';
    cache->key = options->key;
    cache->counters = options->counters;
    if (!cache->counters)
        cache->counters = cache->own_counters = calloc(1, sizeof(*cache->own_counters));
    if (cache->counters)
        status = open_ram(cache, options, err);
    else
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache");
    if (status != HEARTH_OK) {
        hth_rejected_deinit(&cache->rejected);
        hth_past_deinit(&cache->past);
        free(cache->own_counters);
        free(cache);
        return status;
    }
    cache->n_levels = hth_file_levels_open(options, cache->levels);
    open_writer(cache, options);
    hth_spare_rings_init(&cache->rings, cache->fs, HTH_COLD_ROWS, cache->n_levels > 0 ? HTH_SPARE_RINGS_MAX : 0);
    *out = cache;
    return HEARTH_OK;
}

bool hth_cache_close(hth_cache *cache, uint32_t timeout_ms)
{
    if (!cache)
        return true;
    if (!hth_writer_close(cache->writer, timeout_ms)) {
        hth_warn(cache->log,
                 "the last rows may not be written: another process that uses the cache is stopped while it "
                 "writes; end it or let it go on");
        return false;
    }
    hth_spare_rings_deinit(&cache->rings);
    close_levels(cache);
    hth_ram_tier_close(cache->ram);
    hth_rejected_deinit(&cache->rejected);
    hth_past_deinit(&cache->past);
    free(cache->own_counters);
    free(cache);
    return true;
}

bool hth_cache_flush(hth_cache *cache, uint32_t timeout_ms)
{
    return !cache->writer || hth_writer_flush(cache->writer, timeout_ms);
}

const hth_signing_key *hth_cache_signing_key(const hth_cache *cache)
{
    return cache->key;
}

bool hth_cache_is_durable(const hth_cache *cache)
{
    return cache->n_levels > 0 && cache->levels[cache->n_levels - 1].tier == HEARTH_TIER_DISK;
}

hth_file_tier *hth_cache_root(const hth_cache *cache, size_t i, hearth_tier *tier_out)
{
    for (size_t level = 0; level < cache->n_levels; level++) {
        hth_file_tier_set *files = cache->levels[level].files;
        size_t n_roots = hth_file_tier_set_n_roots(files);

        if (i < n_roots) {
            if (tier_out)
                *tier_out = cache->levels[level].tier;
            return hth_file_tier_set_roots(files)[i];
        }
        i -= n_roots;
    }
    return NULL;
}

/* ---- finding ---- */

hearth_tier hth_cache_look(hth_cache *cache, const hth_row_id *id, hth_row_meta *out, unsigned *n_names)
{
    if (hth_ram_tier_has(cache->ram, id, out))
        return HEARTH_TIER_RAM;
    for (size_t i = 0; i < cache->n_levels; i++) {
        const hth_level *level = &cache->levels[i];

        if (!hth_rejected_has(&cache->rejected, id, level->tier) &&
            hth_file_tier_set_look(level->files, id, out, n_names))
            return level->tier;
    }
    return HEARTH_TIER_NONE;
}

hearth_tier hth_cache_find(hth_cache *cache, const hth_row_id *id, hth_row_meta *out)
{
    unsigned n_names = UINT_MAX;
    hth_row_meta meta;

    return hth_cache_look(cache, id, out ? out : &meta, &n_names);
}

/* The rejected rows of a level, for a search. */
typedef struct rejected_rows {
    hth_rejected *rejected;
    hearth_tier tier;
} rejected_rows;

static bool is_rejected(const hth_row_id *id, void *user_data)
{
    const rejected_rows *rows = user_data;

    return hth_rejected_has(rows->rejected, id, rows->tier);
}

void hth_cache_find_leaf(hth_cache *cache, hth_leaf_search *search)
{
    hth_ram_tier_find_leaf(cache->ram, search);
    for (size_t i = 0; i < cache->n_levels && !hth_leaf_search_is_done(search); i++) {
        rejected_rows rows = { .rejected = &cache->rejected, .tier = cache->levels[i].tier };

        search->is_out = is_rejected;
        search->user_data = &rows;
        hth_file_tier_set_find_leaf(cache->levels[i].files, search);
        search->is_out = NULL;
    }
}

size_t hth_cache_tokens(hth_cache *cache, const hth_row_id *id, hearth_token *tokens, size_t capacity)
{
    size_t n = hth_ram_tier_tokens(cache->ram, id, tokens, capacity);

    for (size_t i = 0; i < cache->n_levels && n == 0; i++)
        if (!hth_rejected_has(&cache->rejected, id, cache->levels[i].tier))
            n = hth_file_tier_set_tokens(cache->levels[i].files, id, tokens, capacity);
    return n;
}

static bool is_listed(const hth_row_meta *rows, size_t n, const hth_row_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (hth_row_id_equal(&rows[i].id, id))
            return true;
    return false;
}

size_t hth_cache_children(hth_cache *cache, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = 0;

    /* Each tier leaves an equal part of the room to the slower tiers, which may know other rows. */
    for (size_t i = 0; i <= cache->n_levels && n < capacity; i++) {
        size_t n_tiers_left = cache->n_levels - i + 1;
        size_t room = (capacity - n + n_tiers_left - 1) / n_tiers_left;
        size_t n_before = n;
        size_t n_more = i == 0 ? hth_ram_tier_children(cache->ram, parent, out, room)
                               : hth_file_tier_set_children(cache->levels[i - 1].files, parent, out + n, room);

        /* A row that a faster tier listed is skipped. The lists are short. */
        for (size_t j = n_before; j < n_before + n_more; j++)
            if (i == 0 || (!is_listed(out, n_before, &out[j].id) &&
                           !hth_rejected_has(&cache->rejected, &out[j].id, cache->levels[i - 1].tier)))
                out[n++] = out[j];
    }
    return n;
}

/* The slowest tier gets every row, so its notifier covers all rows. If it has several roots, the first is watched. */
static hth_index *listened_index(const hth_cache *cache)
{
    return hth_file_tier_index(hth_file_tier_set_roots(cache->levels[cache->n_levels - 1].files)[0]);
}

bool hth_cache_is_shared(const hth_cache *cache)
{
    return cache->n_levels > 0;
}

uint32_t hth_cache_changes(hth_cache *cache)
{
    return cache->n_levels > 0 ? hth_index_changes(listened_index(cache)) : 0;
}

void hth_cache_touch(hth_cache *cache, const hth_row_id *ids, size_t n)
{
    hth_ram_tier_count_uses(cache->ram, ids, n);
    for (size_t i = 0; i < cache->n_levels; i++)
        hth_file_tier_set_touch(cache->levels[i].files, ids, n);
}

/* ---- pins ---- */

static hearth_status no_files(hearth_error *err)
{
    return hth_fail(err, HEARTH_UNSUPPORTED, "the cache has no directory, and a pin is kept in one");
}

hearth_status hth_cache_pin(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    return cache->n_levels > 0 ? hth_file_tier_set_pin(cache->levels[cache->n_levels - 1].files, key, err)
                               : no_files(err);
}

/* The pin may be in any level: an operator put it there, or the cache did when it had no slower level. */
hearth_status hth_cache_unpin(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    hearth_status status = cache->n_levels > 0 ? HEARTH_NOT_FOUND : no_files(err);

    for (size_t i = 0; i < cache->n_levels; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_set_unpin(cache->levels[i].files, key, &why);

        status = hth_status_merge(status, result, &why, err);
    }
    return status;
}

hearth_status hth_cache_unpin_to_remove(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    hearth_error why = { .message = "" };
    hearth_status status = hth_cache_unpin(cache, key, &why);

    if (status == HEARTH_NOT_FOUND || status == HEARTH_UNSUPPORTED)
        return HEARTH_OK;
    if (err && status != HEARTH_OK)
        *err = why;
    return status;
}

bool hth_cache_is_pinned(hth_cache *cache, const hth_key *key)
{
    for (size_t i = 0; i < cache->n_levels; i++)
        if (hth_file_tier_set_is_pinned(cache->levels[i].files, key))
            return true;
    return false;
}

/* ---- monitoring and control ---- */

void hth_cache_write_limits_get(hth_cache *cache, hth_writer_limits *out)
{
    if (cache->writer)
        hth_writer_limits_get(cache->writer, out);
    else
        *out = (hth_writer_limits){ .queue_rows_max = 0 };
}

void hth_cache_write_limits_set(hth_cache *cache, const hth_writer_limits *limits)
{
    if (cache->writer)
        hth_writer_limits_set(cache->writer, limits);
}

/* Rows evicted from all tiers since they were opened. */
static uint64_t rows_evicted(hth_cache *cache)
{
    hth_ram_tier_totals ram;
    uint64_t n;

    hth_ram_tier_totals_get(cache->ram, &ram);
    n = ram.rows_evicted;
    for (size_t i = 0; i < cache->n_levels; i++) {
        hth_file_tier_counts files;

        hth_file_tier_set_counts_get(cache->levels[i].files, &files);
        n += files.rows_evicted;
    }
    return n;
}

void hth_cache_counters(hth_cache *cache, hearth_counters *out)
{
    hth_ram_tier_totals ram;

    hth_ram_tier_totals_get(cache->ram, &ram);
    out->ram_rows = ram.rows;
    out->ram_bytes = ram.bytes;
    if (cache->writer) {
        size_t rows;

        hth_writer_backlog(cache->writer, &rows, &out->write_queue_bytes);
        out->write_queue_rows = rows;
    }
    for (size_t i = 0; i < cache->n_levels; i++) {
        bool is_disk = cache->levels[i].tier == HEARTH_TIER_DISK;
        hth_index_totals totals;

        if (hth_file_tier_set_totals(cache->levels[i].files, &totals, NULL) != HEARTH_OK)
            continue;
        *(is_disk ? &out->disk_rows : &out->ram_file_rows) = totals.rows;
        *(is_disk ? &out->disk_bytes : &out->ram_file_bytes) = totals.bytes;
    }
    out->rows_evicted = rows_evicted(cache) - atomic_load(&cache->evicted_noted);
}

/* Rows of an index are collected first, so that no callback runs inside a transaction. */
static bool collect_row(const hth_row_meta *meta, void *user_data)
{
    return hth_row_list_add(user_data, meta);
}

static hearth_status list_root(hth_file_tier *root, hearth_tier tier, hth_cache_row_fn on_row, void *user_data,
                               bool *ended, hearth_error *err)
{
    hth_row_list list = { .n = 0 };
    hearth_status status = hth_index_visit(hth_file_tier_index(root), true, collect_row, &list, err);

    if (status == HEARTH_OK && list.out_of_memory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to list the cache's rows");
    for (size_t i = 0; status == HEARTH_OK && i < list.n && !*ended; i++)
        *ended = !on_row(&(hth_cache_row){ .meta = list.rows[i], .tier = tier }, user_data);
    free(list.rows);
    return status;
}

hearth_status hth_cache_rows(hth_cache *cache, hth_cache_row_fn on_row, void *user_data, hearth_error *err)
{
    hth_ram_row_state *rows = NULL;
    hth_file_tier *root;
    hearth_tier tier = HEARTH_TIER_NONE;
    size_t n = 0;
    bool ended = false;
    hearth_status status = hth_ram_tier_dump(cache->ram, &rows, &n, err);

    for (size_t i = n; i-- > 0 && !ended;) {
        hth_cache_row row = { .meta = rows[i].meta, .tier = HEARTH_TIER_RAM, .n_pins = rows[i].pins };

        ended = !on_row(&row, user_data);
    }
    free(rows);
    for (size_t i = 0; status == HEARTH_OK && !ended && (root = hth_cache_root(cache, i, &tier)); i++)
        status = list_root(root, tier, on_row, user_data, &ended, err);
    return status;
}

static hearth_status evict_level(const hth_level *level, uint64_t n_bytes, uint64_t *freed_out, hearth_error *err)
{
    hth_index_totals before, after;
    hearth_status status = hth_file_tier_set_totals(level->files, &before, err);

    if (status == HEARTH_OK)
        status =
            hth_file_tier_set_evict_to(level->files, before.bytes > n_bytes ? before.bytes - n_bytes : 0, NULL, err);
    if (status == HEARTH_OK)
        status = hth_file_tier_set_totals(level->files, &after, err);
    if (status == HEARTH_OK)
        *freed_out =
            before.bytes > after.bytes ? before.bytes - after.bytes : 0; /* others may have written in the meantime */
    return status;
}

hearth_status hth_cache_evict(hth_cache *cache, uint64_t n_bytes, unsigned tiers, uint64_t *bytes_out,
                              hearth_error *err)
{
    uint64_t freed = 0;
    hearth_status status = HEARTH_OK;

    if (tiers & HEARTH_EVICT_RAM)
        freed += hth_ram_tier_evict_bytes(cache->ram, n_bytes);
    for (size_t i = 0; status == HEARTH_OK && i < cache->n_levels; i++) {
        unsigned bit = cache->levels[i].tier == HEARTH_TIER_DISK ? HEARTH_EVICT_DISK : HEARTH_EVICT_RAM_FILE;
        uint64_t n = 0;

        if (tiers & bit)
            status = evict_level(&cache->levels[i], n_bytes, &n, err);
        freed += n;
    }
    if (status == HEARTH_OK)
        *bytes_out = freed;
    return status;
}

void hth_cache_ram_totals(hth_cache *cache, hth_ram_tier_totals *out)
{
    hth_ram_tier_totals_get(cache->ram, out);
}

void hth_cache_set_ram_bytes_max(hth_cache *cache, uint64_t bytes_max)
{
    hth_ram_tier_set_bytes_max(cache->ram, bytes_max);
}

hearth_status hth_cache_gc(hth_cache *cache, uint64_t *rows_out, hearth_error *err)
{
    hearth_status first = HEARTH_OK;
    hth_file_tier *root;
    uint64_t n_rows = 0;

    for (size_t i = 0; (root = hth_cache_root(cache, i, NULL)); i++) {
        uint64_t n = 0;
        hearth_status status = hth_file_tier_gc(root, UINT64_MAX, &n, first == HEARTH_OK ? err : NULL);

        n_rows += n;
        if (first == HEARTH_OK)
            first = status;
    }
    if (first == HEARTH_OK)
        *rows_out = n_rows;
    return first;
}

void hth_cache_counters_reset(hth_cache *cache)
{
    atomic_store(&cache->evicted_noted, rows_evicted(cache));
}

/* The sum over all roots; 0 if one of them has no quota. */
static uint64_t quota_of(const hth_file_tier_set *files)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(files); i++) {
        const uint64_t bytes_max = hth_file_tier_bytes_max(hth_file_tier_set_roots(files)[i]);

        if (bytes_max == UINT64_MAX)
            return 0;
        sum += bytes_max;
    }
    return sum;
}

hth_tier_quotas hth_tier_quotas_of(hth_cache *cache)
{
    hth_tier_quotas quotas = { .ram = 0 };
    hth_ram_tier_totals ram;

    if (!cache)
        return quotas;
    hth_ram_tier_totals_get(cache->ram, &ram);
    quotas.ram = ram.bytes_max;
    for (size_t i = 0; i < cache->n_levels; i++)
        *(cache->levels[i].tier == HEARTH_TIER_DISK ? &quotas.disk : &quotas.ram_file) =
            quota_of(cache->levels[i].files);
    return quotas;
}
