/*
 * borrow.c - rows out of the cache, verified
 *
 * A row from a file is checked in full once. Then it lives in the RAM tier, where it is trusted: only this process can
 * write there. A read has three parts, so that many reads can be under way at once (read_ahead.c): open the file and
 * reserve a slab; read the bytes; check them and make the row visible.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"
#include "cache/cache_inside.h"
#include "rows/kvc_signature.h"

/* ---- rows of the RAM tier ---- */

/*
 * Reserve a row of the RAM tier for a row that is being computed or read. Blocks come in series, so memory is touched
 * ahead of them.
 */
static hth_ram_row *reserve_row(hth_cache *cache, const hth_row_id *id, size_t n_bytes, bool is_computed)
{
    return hth_ram_tier_reserve_in(cache->ram, n_bytes,
                                   id->kind == HTH_ROW_BLOCK && (is_computed || cache->has_many_cpus));
}

/* Queue a row for the slowest file tier, if any: rows last longest there. If the queue is full, that is counted. */
static void store_row(hth_cache *cache, hth_ram_row *row)
{
    if (cache->writer)
        (void)hth_writer_publish(cache->writer, cache->n_levels - 1, row);
}

/* Queue a row for every file tier faster than level. If the queue is full, that is counted. */
static void fill_faster(hth_cache *cache, size_t level, hth_ram_row *row)
{
    for (size_t i = 0; i < level; i++)
        (void)hth_writer_publish(cache->writer, i, row);
}

/* ---- wrong rows ---- */

/* The reason why a file is not the row of that name; NULL if it is. Static strings. */
static const char *misfit(const hth_kvc_info *info, const hth_keyspace *keyspace, const hth_row_meta *expected)
{
    if (!info->has_kind || info->kind != (uint8_t)expected->id.kind)
        return "it is of another kind than its name says";
    if (!info->has_own_key || !hth_key_equal(&info->own_key, &expected->id.key))
        return "its key is not that of its name";
    if (!info->has_head_crc)
        return "it has no checksum of its head";
    if (!keyspace)
        keyspace = &info->keyspace;
    if (memcmp(info->keyspace.fingerprint, keyspace->fingerprint, sizeof(keyspace->fingerprint)) != 0)
        return "it belongs to another model";
    if (!hth_keyspace_equal(&info->keyspace, keyspace))
        return "it was made with other context parameters or by another build";
    return NULL;
}

/* Does the row have the position and size that an index reported? */
static bool is_as_expected(const hth_kvc_info *info, const hth_row_meta *expected)
{
    return info->first_position == expected->first_position && hth_kvc_n_tokens(info) == expected->n_tokens &&
           (info->first_position == 0 || (info->has_parent && hth_key_equal(&info->parent, &expected->parent)));
}

void hth_cache_note_gone(hth_cache *cache, const hth_row_id *id)
{
    for (size_t i = 0; i < cache->n_levels; i++) {
        size_t n_bytes;
        int fd = -1;

        if (hth_file_tier_set_open_file(cache->levels[i].files, id, &fd, &n_bytes, NULL) == HEARTH_NOT_FOUND)
            hth_rejected_add(&cache->rejected, id, cache->levels[i].tier);
        if (fd >= 0)
            hth_fs_close(cache->fs, fd);
    }
}

/* Remember why a row is gone, with its position if that is known. by: the row that holds its content; NULL: none. */
static void note_gone(hth_cache *cache, const hth_row_id *id, hth_gone_reason reason, const hth_row_id *by)
{
    hth_row_meta meta = { .id = *id };

    (void)hth_cache_find(cache, id, &meta); /* if not found, its name alone is remembered */
    hth_past_note_gone(&cache->past, &meta, reason, by);
}

static void say_rejected(hth_cache *cache, const hth_row_id *id, const char *reason)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    note_gone(cache, id, HTH_GONE_DAMAGED, NULL);
    hth_count(cache->counters, HTH_COUNT_ROWS_QUARANTINED, 1);
    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, hex);
    hth_warn(cache->log, "cache row %s-%s is set aside, the prompt is computed instead: %s", hex,
             hth_row_kind_name(id->kind), reason);
}

static void reject_file(hth_cache *cache, size_t i, const hth_row_id *id, const char *reason)
{
    hth_rejected_add(&cache->rejected, id, cache->levels[i].tier);
    hth_writer_quarantine(cache->writer, i, id, reason);
}

void hth_cache_reject(hth_cache *cache, const hth_row_id *id, const char *reason)
{
    say_rejected(cache, id, reason);
    hth_ram_tier_remove(cache->ram, id);
    for (size_t i = 0; i < cache->n_levels; i++)
        reject_file(cache, i, id, reason);
}

void hth_cache_review(hth_cache *cache, const hth_row_id *id)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, hex);
    hth_info(cache->log, "the index describes cache row %s-%s wrongly; its file is looked at again", hex,
             hth_row_kind_name(id->kind));
    hth_ram_tier_remove(cache->ram, id);
    for (size_t i = 0; i < cache->n_levels; i++) {
        hth_rejected_add(&cache->rejected, id, cache->levels[i].tier);
        hth_writer_review(cache->writer, i, id);
    }
}

static bool is_bad(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    (void)id;
    (void)bytes;
    (void)n_bytes;
    (void)user_data;
    return true; /* whatever its bytes are */
}

/* Does any tier have the row, even if only a file name shows it? */
static bool is_there(hth_cache *cache, const hth_row_id *id)
{
    bool found = hth_ram_tier_has(cache->ram, id, NULL);

    for (size_t i = 0; i < cache->n_levels && !found; i++)
        found = !hth_rejected_has(&cache->rejected, id, cache->levels[i].tier) &&
                hth_file_tier_set_has(cache->levels[i].files, id, NULL);
    return found;
}

bool hth_cache_quarantine(hth_cache *cache, const hth_row_id *id, const char *reason)
{
    if (!is_there(cache, id))
        return true;
    say_rejected(cache, id, reason);
    hth_ram_tier_remove(cache->ram, id);
    for (size_t i = 0; i < cache->n_levels; i++)
        hth_file_tier_set_quarantine_if(cache->levels[i].files, id, is_bad, NULL, reason);
    return !is_there(cache, id);
}

void hth_cache_forget(hth_cache *cache, const hth_row_id *id)
{
    hth_ram_tier_remove(cache->ram, id);
    for (size_t i = 0; i < cache->n_levels; i++) /* hidden until the writer removes it */
        hth_rejected_add(&cache->rejected, id, cache->levels[i].tier);
    if (cache->writer)
        hth_writer_remove(cache->writer, id, NULL);
}

/* ---- one row from a file ---- */

hearth_status hth_cache_file_open(hth_cache *cache, const hth_row_meta *expected, hth_row_read *out, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND, first = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < cache->n_levels; i++) {
        const hth_level *level = &cache->levels[i];
        size_t n_bytes = 0;
        int fd = -1;

        if (hth_rejected_has(&cache->rejected, &expected->id, level->tier))
            continue;
        status = hth_file_tier_set_open_file(level->files, &expected->id, &fd, &n_bytes, err);
        if (status == HEARTH_CORRUPT) {
            say_rejected(cache, &expected->id, "its size makes no sense");
            reject_file(cache, i, &expected->id, "its size makes no sense");
        }
        if (status != HEARTH_OK) {
            first = first == HEARTH_NOT_FOUND ? status : first;
            continue;
        }
        *out = (hth_row_read){
            .ring = { .fd = fd, .n_bytes = n_bytes },
            .row = reserve_row(cache, &expected->id, n_bytes, false),
            .level = i,
            .begun_ns = hth_os_monotonic_ns(),
        };
        if (!out->row) {
            hth_fs_close(cache->fs, fd);
            return hth_fail(err, HEARTH_NO_MEMORY, "no room in the RAM tier for a row of %zu bytes", n_bytes);
        }
        out->ring.bytes = hth_ram_row_slab(out->row);
        return HEARTH_OK;
    }
    return first == HEARTH_NOT_FOUND ? hth_fail(err, first, "no tier holds the row") : first;
}

static void abort_read(hth_cache *cache, hth_row_read *read)
{
    hth_fs_close(cache->fs, read->ring.fd);
    hth_ram_tier_unpin(cache->ram, read->row);
}

/*
 * The reason why the bytes that were read are not the row; NULL if they are. *is_as_expected_out: the result of
 * is_as_expected.
 */
static const char *check_file(const hth_cache *cache, const hth_row_read *read, const hth_keyspace *keyspace,
                              const hth_row_meta *expected, bool *is_as_expected_out)
{
    hth_kvc_info info;
    hth_kvc_fault fault;

    if (read->ring.n_done < read->ring.n_bytes)
        return "it became shorter while it was read";
    if (!hth_kvc_parse(read->ring.bytes, read->ring.n_bytes, NULL, &info, &fault))
        return hth_kvc_reason_name(fault.reason);
    if (cache->key && !hth_kvc_verify_signature(read->ring.bytes, read->ring.n_bytes, &info, cache->key, &fault))
        return hth_kvc_reason_name(fault.reason);
    *is_as_expected_out = is_as_expected(&info, expected);
    return misfit(&info, keyspace, expected);
}

hearth_status hth_cache_file_finish(hth_cache *cache, hth_row_read *read, const hth_keyspace *keyspace,
                                    const hth_row_meta *expected, hth_ram_row **row_out, hearth_error *err)
{
    hth_row_meta meta = *expected;
    bool as_expected = false;
    const char *wrong;

    if (read->ring.result != 0) {
        abort_read(cache, read);
        return hth_fail_errno(err, -read->ring.result, "cannot read a cache row");
    }
    wrong = check_file(cache, read, keyspace, expected, &as_expected);
    if (wrong) {
        say_rejected(cache, &expected->id, wrong);
        reject_file(cache, read->level, &expected->id, wrong);
        abort_read(cache, read);
        return hth_fail(err, HEARTH_CORRUPT, "cache row damaged: %s", wrong);
    }
    if (!as_expected) {
        abort_read(cache, read);
        hth_cache_review(cache, &expected->id);
        return hth_fail(err, HEARTH_CORRUPT, "the index describes the cache row wrongly");
    }
    hth_fs_close(cache->fs, read->ring.fd);
    meta.bytes = read->ring.n_bytes;
    hth_ram_row_set_stored(read->row, read->level + 1 == cache->n_levels);
    hth_histogram_add(cache->counters, HTH_PATH_READ, hth_os_monotonic_ns() - read->begun_ns);
    *row_out = hth_ram_tier_insert(cache->ram, read->row, &meta);
    fill_faster(cache, read->level, *row_out);
    return HEARTH_OK;
}

/* Read from the fastest file tier that can. A tier with a damaged copy rejects it, and the next tier is asked. */
static hearth_status borrow_file(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                                 hth_ram_row **row_out, hearth_tier *tier_out, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;
    bool damaged = false;

    for (size_t i = 0; i <= cache->n_levels; i++) {
        hth_row_read read;

        status = hth_cache_file_open(cache, expected, &read, err);
        if (status != HEARTH_OK)
            break;
        if (!hth_read_now(cache->fs, &read.ring))
            hth_read_rest(cache->fs, &read.ring);
        *tier_out = cache->levels[read.level].tier;
        status = hth_cache_file_finish(cache, &read, keyspace, expected, row_out, err);
        if (status != HEARTH_CORRUPT)
            break;
        damaged = true;
    }
    if (damaged && status == HEARTH_NOT_FOUND)
        return hth_fail(err, HEARTH_CORRUPT, "the cache row is damaged");
    return status;
}

/* ---- borrowing ---- */

hearth_status hth_cache_borrow_pinned(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                                      hth_ram_row *row, hearth_tier tier, hth_borrowed_row *out, hearth_error *err)
{
    hth_kvc_info info;
    hth_kvc_fault fault;
    bool sound =
        hth_kvc_parse_meta(hth_ram_row_slab(row), hth_ram_row_bytes(row), hth_ram_row_bytes(row), &info, &fault, NULL);

    if (sound && !misfit(&info, keyspace, expected) && !is_as_expected(&info, expected)) {
        hth_ram_tier_unpin(cache->ram, row);
        hth_cache_review(cache, &expected->id);
        return hth_fail(err, HEARTH_CORRUPT, "the index describes the cache row wrongly");
    }
    if (!sound || misfit(&info, keyspace, expected)) {
        hth_ram_tier_unpin(cache->ram, row);
        hth_cache_reject(cache, &expected->id, "its bytes in memory changed");
        return hth_fail(err, HEARTH_CORRUPT, "cache row in memory is damaged");
    }
    if (cache->save_on_second_use && !hth_ram_row_is_stored(row))
        store_row(cache, row);
    *out = (hth_borrowed_row){
        .pin = row,
        .tier = tier,
        .info = info,
        .image = hth_ram_row_slab(row) + info.image_offset,
        .image_bytes = (size_t)info.image_byte_count,
        .begin_ns = hth_os_monotonic_ns(),
    };
    return HEARTH_OK;
}

hearth_status hth_cache_borrow(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                               hth_borrowed_row *out, hearth_error *err)
{
    hth_ram_row *row = hth_ram_tier_pin(cache->ram, &expected->id);
    hearth_tier tier = HEARTH_TIER_RAM;

    if (!row) {
        hearth_status status = borrow_file(cache, keyspace, expected, &row, &tier, err);

        if (status != HEARTH_OK)
            return status;
    }
    return hth_cache_borrow_pinned(cache, keyspace, expected, row, tier, out, err);
}

void hth_cache_return_unused(hth_cache *cache, hth_borrowed_row *row)
{
    hth_ram_tier_unpin(cache->ram, row->pin);
    *row = (hth_borrowed_row){ .pin = NULL };
}

void hth_cache_return(hth_cache *cache, hth_borrowed_row *row)
{
    hth_count(cache->counters, HTH_COUNT_ROWS_RESTORED, 1);
    hth_count(cache->counters, HTH_COUNT_BYTES_RESTORED, row->image_bytes);
    hth_count(cache->counters, HTH_COUNT_TOKENS_RESTORED, hth_kvc_n_tokens(&row->info));
    hth_histogram_add(cache->counters, HTH_PATH_UNPACK, hth_os_monotonic_ns() - row->begin_ns);
    hth_cache_return_unused(cache, row);
}

/*
 * ---- rows into the cache ----
 *
 * The image is packed straight into a slab of the RAM tier, after the space for its head. The commit writes the head,
 * makes the row visible and hands it to the writer. So between the engine and the file, a row is in memory only once.
 */

struct hth_slab {
    hth_ram_row *row;
    hth_row_meta meta;
    hth_save save;     /* its pointers are valid until the commit */
    hth_kvc_info info; /* borrows from it */
    size_t head_bytes;
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
    store_row(cache, row);
    hth_ram_tier_unpin(cache->ram, row);
    return true;
}

void hth_cache_supersede(hth_cache *cache, const hth_row_id *id, const hth_row_id *superseded)
{
    hth_ram_row *row = cache->writer ? hth_ram_tier_pin(cache->ram, id) : NULL;

    note_gone(cache, superseded, HTH_GONE_SUPERSEDED, id); /* in case id is removed, too */
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

/* Bits per weight, from the name of the quant type: "q4_k_m" 4, "bf16" 16. Only for display. */
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
        slab->info.hmac = hth_kvc_signature_room(); /* the writer signs, because the scheduler's thread must not hash */
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
    slab->head_bytes = hth_kvc_head_bytes(&slab->info);
    if (slab->head_bytes == SIZE_MAX || __builtin_add_overflow(slab->head_bytes, save->image_bytes, &file_bytes))
        goto dropped;
    slab->meta.bytes = file_bytes;
    slab->row = reserve_row(cache, &save->id, file_bytes, true);
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
 * Hand a new row to the file tiers: at once, or later if rows are written only at their second use. Rows that are saved
 * because the context is being emptied or the process is about to end have no second use here.
 */
static void store(hth_cache *cache, hth_ram_row *row, const hth_slab *slab)
{
    bool is_last_chance = slab->meta.save_reason == HEARTH_SAVE_EVICT || slab->meta.save_reason == HEARTH_SAVE_SHUTDOWN;

    if (!cache->writer || (cache->save_on_second_use && !is_last_chance))
        return;
    fill_faster(cache, cache->n_levels - 1, row);
    if (slab->save.superseded)
        (void)hth_writer_supersede(cache->writer, row, slab->save.superseded);
    else
        store_row(cache, row);
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
    uint32_t crc = hth_crc32c(0, bytes + slab->head_bytes, slab->save.image_bytes);
    hth_ram_row *row;

    hth_kvc_encode_head(&slab->info, slab->save.image_bytes, crc, bytes);
    row = make_visible(cache, slab->row, &slab->meta);
    hth_count(cache->counters, HTH_COUNT_ROWS_SAVED, 1);
    hth_count(cache->counters, HTH_COUNT_BYTES_SAVED, hth_ram_row_bytes(row));
    hth_count_save(cache->counters, (hearth_save_reason)slab->meta.save_reason);
    hth_histogram_add(cache->counters, HTH_PATH_PACK, hth_os_monotonic_ns() - slab->begun_ns);
    note_beginning(cache, slab);
    store(cache, row, slab);
    if (slab->save.superseded) {
        note_gone(cache, slab->save.superseded, HTH_GONE_SUPERSEDED, &slab->meta.id);
        hth_ram_tier_remove(cache->ram, slab->save.superseded);
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
        fill_faster(cache, cache->n_levels - 1, row);
        store_row(cache, row);
    }
    hth_ram_tier_unpin(cache->ram, row);
    *is_new_out = true;
    return HEARTH_OK;
}
