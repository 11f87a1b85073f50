/*
 * save.c - rows into the cache
 *
 * The image is packed straight into a slab of the RAM tier, behind the room for its head. The commit writes the head,
 * makes the row visible and hands it to the writer. So from the engine to the file, a row is in memory once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cache/cache_inside.h"
#include "rows/kvc_signature.h"

struct hth_slab {
    hth_ram_row *row;
    hth_row_meta meta;
    hth_save save;     /* its pointers are valid until the commit */
    hth_kvc_info info; /* borrows from it */
    size_t head_bytes;
    size_t image_bytes;
    bool has_superseded;
    hth_row_id superseded;
    uint64_t begun_ns;
};

bool hth_cache_is_saved(hth_cache *cache, const hth_row_id *id)
{
    bool is_stored = false;
    hth_ram_row *row;

    if (hth_ram_tier_is_stored(cache->ram, id, &is_stored) && is_stored)
        return true;
    row = hth_ram_tier_pin(cache->ram, id);
    if (!row)
        return hth_cache_find(cache, id, NULL) != HEARTH_TIER_NONE;
    hth_cache_store(cache, row);
    hth_ram_tier_unpin(cache->ram, row);
    return true;
}

/* Remember the row that holds the content of the superseded one, in case it goes, too. */
static void note_superseded(hth_cache *cache, const hth_row_id *superseded, const hth_row_id *by)
{
    hth_row_meta meta = { .id = *superseded };

    (void)hth_cache_find(cache, superseded, &meta); /* if not found, its name alone is remembered */
    hth_past_note_gone(&cache->past, &meta, HTH_GONE_SUPERSEDED, by);
}

void hth_cache_supersede(hth_cache *cache, const hth_row_id *id, const hth_row_id *superseded)
{
    hth_ram_row *row = cache->writer ? hth_ram_tier_pin(cache->ram, id) : NULL;

    note_superseded(cache, superseded, id);
    if (!row) {
        hth_cache_forget(cache, superseded); /* id is in a file */
        return;
    }
    hth_ram_tier_remove(cache->ram, superseded);
    (void)hth_writer_supersede(cache->writer, row, superseded); /* the writer counts a full queue */
    hth_ram_tier_unpin(cache->ram, row);
}

uint64_t hth_cache_n_lost(hth_cache *cache)
{
    return hth_counted(cache->counters, HTH_COUNT_SAVES_DROPPED) +
           hth_counted(cache->counters, HTH_COUNT_WRITES_FAILED);
}

/* Bits a weight, from the name of the quant type: "q4_k_m" 4, "bf16" 16. Only for display. */
static uint8_t quant_bits(uint8_t quant_byte)
{
    const char *name = hth_quant_name(quant_byte);
    unsigned bits = 0;

    for (; name && *name; name++) {
        if (*name >= '0' && *name <= '9')
            bits = 10 * bits + (unsigned)(*name - '0');
        else if (bits)
            break;
    }
    return (uint8_t)bits;
}

static hth_kvc_bytes text_bytes(const char *text)
{
    return (hth_kvc_bytes){ .data = (const uint8_t *)text, .n = text ? (uint32_t)strlen(text) : 0 };
}

hth_ram_row *hth_cache_reserve(hth_cache *cache, const hth_row_id *id, size_t n_bytes, bool is_computed)
{
    return hth_ram_tier_reserve_in(cache->ram, n_bytes,
                                   id->kind == HTH_ROW_BLOCK && (is_computed || cache->has_many_cpus));
}

hth_slab *hth_cache_save_begin(hth_cache *cache, const hth_save *save)
{
    hth_slab *slab = calloc(1, sizeof(*slab));
    uint64_t now = hth_os_unix_seconds();
    size_t file_bytes;

    if (!slab)
        goto dropped;
    slab->info = (hth_kvc_info){
        .quant_bits = quant_bits(save->keyspace->quant_byte),
        .save_reason = (uint8_t)save->reason,
        .cached_token_count = save->n_tokens,
        .context_size = save->context_size,
        .creation_time = now,
        .last_used_time = now,
        .keyspace = *save->keyspace,
        .tokens = { .data = (const uint8_t *)save->tokens, .n = save->n_tokens * 4 },
        .hostname = text_bytes(cache->hostname),
        .writer_version = text_bytes("hearth " HEARTH_VERSION),
        .has_parent = save->first_position > 0 || save->id.kind == HTH_ROW_SNAPSHOT,
        .parent = save->parent,
        .has_first_position = save->first_position > 0 || save->id.kind == HTH_ROW_SNAPSHOT,
        .first_position = save->first_position,
        .has_kind = true,
        .kind = (uint8_t)save->id.kind,
        .has_own_key = true,
        .own_key = save->id.key,
        .engine_build = text_bytes(save->engine_build),
        .model = text_bytes(save->model),
        .has_head_crc = true,
    };
    if (save->text)
        slab->info.prompt = (hth_kvc_bytes){ .data = (const uint8_t *)save->text, .n = (uint32_t)save->n_text_bytes };
    if (cache->key)
        slab->info.hmac = hth_kvc_signature_room(); /* the writer signs: the thread of the scheduler must not hash */
    slab->save = *save;
    slab->begun_ns = hth_os_monotonic_ns();
    slab->meta = (hth_row_meta){
        .id = save->id,
        .parent = save->parent,
        .first_position = save->first_position,
        .n_tokens = save->n_tokens,
        .last_used_time = now,
        .save_reason = (uint8_t)save->reason,
    };
    if (save->superseded) {
        slab->superseded = *save->superseded;
        slab->has_superseded = true;
    }
    slab->head_bytes = hth_kvc_head_bytes(&slab->info);
    slab->image_bytes = save->image_bytes;
    if (slab->head_bytes == SIZE_MAX || __builtin_add_overflow(slab->head_bytes, save->image_bytes, &file_bytes))
        goto dropped;
    slab->meta.bytes = file_bytes;
    slab->row = hth_cache_reserve(cache, &save->id, file_bytes, true);
    if (!slab->row)
        goto dropped;
    return slab;

dropped:
    hth_count(cache->counters, HTH_COUNT_SAVES_DROPPED, 1);
    free(slab);
    return NULL;
}

uint8_t *hth_slab_image(hth_slab *slab)
{
    return hth_ram_row_slab(slab->row) + slab->head_bytes;
}

/*
 * Hand a new row to the file tiers: at once or, if rows are written at their second use only, later. Rows that are
 * saved because memory or the process is about to go have no second use here.
 */
static void store(hth_cache *cache, hth_ram_row *row, const hth_slab *slab)
{
    bool is_last_chance = slab->meta.save_reason == HEARTH_SAVE_EVICT || slab->meta.save_reason == HEARTH_SAVE_SHUTDOWN;

    if (!cache->writer || (cache->save_on_second_use && !is_last_chance))
        return;
    hth_cache_fill_faster(cache, cache->n_levels - 1, row);
    if (slab->has_superseded)
        (void)hth_writer_supersede(cache->writer, row, &slab->superseded);
    else
        hth_cache_store(cache, row);
}

/* Remember the keyspace that keeps the beginning of a prompt. */
static void note_beginning(hth_cache *cache, const hth_slab *slab)
{
    const hth_save *save = &slab->save;
    hth_index_sighting sighting;

    if (save->first_position > 0 || save->n_tokens == 0 || save->n_tokens > HTH_BLOCK_TOKENS ||
        !hth_keyspace_has_tenancy(save->keyspace))
        return;
    hth_beginning_name_of(save->keyspace, save->tokens, save->n_tokens, &sighting.name);
    hth_beginning_space_of(save->keyspace, &save->id, &sighting.space);
    hth_past_note_beginning(&cache->past, &sighting.name, &sighting.space);
    if (cache->n_levels > 0)
        hth_file_tier_set_note_beginning(cache->levels[cache->n_levels - 1].files, &sighting);
}

/* Makes the row visible and returns it, pinned. */
static hth_ram_row *make_visible(hth_cache *cache, hth_ram_row *slab, const hth_row_meta *meta)
{
    hth_ram_row *row = hth_ram_tier_insert(cache->ram, slab, meta);

    hth_rejected_forget(&cache->rejected, &meta->id); /* a quarantine of the old file comes first in the queue */
    hth_past_forget_gone(&cache->past, &meta->id);
    return row;
}

void hth_cache_save_commit(hth_cache *cache, hth_slab *slab)
{
    uint8_t *bytes = hth_ram_row_slab(slab->row);
    uint32_t crc = hth_crc32c(0, bytes + slab->head_bytes, slab->image_bytes);
    hth_ram_row *row;

    hth_kvc_encode_head(&slab->info, slab->image_bytes, crc, bytes);
    row = make_visible(cache, slab->row, &slab->meta);
    hth_count(cache->counters, HTH_COUNT_ROWS_SAVED, 1);
    hth_count(cache->counters, HTH_COUNT_BYTES_SAVED, hth_ram_row_bytes(row));
    hth_count_save(cache->counters, (hearth_save_reason)slab->meta.save_reason);
    hth_histogram_add(cache->counters, HTH_PATH_PACK, hth_os_monotonic_ns() - slab->begun_ns);
    note_beginning(cache, slab);
    store(cache, row, slab);
    if (slab->has_superseded) {
        note_superseded(cache, &slab->superseded, &slab->meta.id);
        hth_ram_tier_remove(cache->ram, &slab->superseded);
    }
    hth_ram_tier_unpin(cache->ram, row);
    free(slab);
}

void hth_cache_save_abort(hth_cache *cache, hth_slab *slab)
{
    if (!slab)
        return;
    hth_ram_tier_unpin(cache->ram, slab->row);
    free(slab);
}

hearth_status hth_cache_put(hth_cache *cache, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                            bool *is_new_out, hearth_error *err)
{
    hth_ram_row *row;

    if (hth_cache_is_saved(cache, &meta->id)) {
        *is_new_out = false;
        return HEARTH_OK;
    }
    row = hth_ram_tier_reserve(cache->ram, n_bytes);
    if (!row)
        return hth_fail(err, HEARTH_FULL, "no room in the RAM tier for a row of %zu bytes", n_bytes);
    memcpy(hth_ram_row_slab(row), bytes, n_bytes);
    row = make_visible(cache, row, meta);
    if (cache->writer) {
        hth_cache_fill_faster(cache, cache->n_levels - 1, row);
        hth_cache_store(cache, row);
    }
    hth_ram_tier_unpin(cache->ram, row);
    *is_new_out = true;
    return HEARTH_OK;
}
