/*
 * cache.c - the tiers behind one door
 *
 * A row that is read from a file is verified once, then lives in the RAM tier and is trusted there: only this process
 * can write to it. The RAM tier holds complete KVC images, so the writer writes and a restore reads the same bytes.
 */
#include "cache/cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"
#include "cache/writer.h"

enum { REJECTED_MAX = 256 };

/*
 * Rows of the file tier that failed their checks and wait for the writer to set them aside. Until then they count as not
 * there, so that what is computed instead is saved: the writer's queue keeps the order. A full list forgets its oldest,
 * which is then found bad once more.
 */
typedef struct rejected_rows {
    pthread_mutex_t lock; /* innermost */
    _Atomic size_t n;     /* read without the lock to see that there is none, which is nearly always so */
    hth_row_id ids[REJECTED_MAX];
} rejected_rows;

struct hth_cache {
    hth_ram_tier *ram;
    hth_file_tier *files; /* NULL: no file tier */
    hth_writer *writer;   /* NULL without files */
    hth_counters counters;
    rejected_rows rejected;
    const hth_log *log;
    char hostname[256];
};

struct hth_save_slot {
    hth_ram_row *row;
    hth_row_meta meta;
    hth_kvc_info info; /* borrows from the hth_save until the commit */
    size_t head_bytes;
    size_t payload_bytes;
};

hearth_status hth_cache_open(const hth_cache_options *options, hth_cache **out, hearth_error *err)
{
    hth_cache *cache = calloc(1, sizeof(*cache));
    hearth_error trouble = { .message = "" };
    hearth_status status;

    if (!cache)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache");
    cache->log = options->log;
    pthread_mutex_init(&cache->rejected.lock, NULL);
    if (!hth_os_hostname(cache->hostname, sizeof(cache->hostname)))
        cache->hostname[0] = '\0';
    status = hth_ram_tier_open(options->ram_bytes_max, true, &cache->ram, err);
    if (status != HEARTH_OK) {
        pthread_mutex_destroy(&cache->rejected.lock);
        free(cache);
        return status;
    }

    if (options->directory) {
        hth_file_tier_options file_options = {
            .directory = options->directory,
            .bytes_max = options->disk_bytes_max,
            .free_min = options->disk_free_min,
            .durable = true,
            .fs = options->fs,
            .log = options->log,
        };

        status = hth_file_tier_open(&file_options, &cache->files, &trouble);
        if (status == HEARTH_OK)
            status = hth_writer_open(cache->ram, cache->files, options->write_queue_bytes_max, &cache->counters,
                                     cache->log, &cache->writer, &trouble);
        if (status != HEARTH_OK) {
            hth_warn(cache->log, "nothing will be cached on disk: %s", trouble.message);
            hth_file_tier_close(cache->files);
            cache->files = NULL;
        }
    }
    *out = cache;
    return HEARTH_OK;
}

void hth_cache_close(hth_cache *cache, uint32_t timeout_ms)
{
    if (!cache)
        return;
    hth_writer_close(cache->writer, timeout_ms);
    hth_file_tier_close(cache->files);
    hth_ram_tier_close(cache->ram);
    pthread_mutex_destroy(&cache->rejected.lock);
    free(cache);
}

bool hth_cache_flush(hth_cache *cache, uint32_t timeout_ms)
{
    return !cache->writer || hth_writer_flush(cache->writer, timeout_ms);
}

bool hth_cache_is_durable(const hth_cache *cache)
{
    return cache->files != NULL;
}

/* ---- rejected rows ---- */

static size_t find_rejected_locked(const rejected_rows *rejected, const hth_row_id *id)
{
    size_t n = atomic_load_explicit(&rejected->n, memory_order_relaxed);
    size_t i = 0;

    while (i < n && !hth_row_id_equal(&rejected->ids[i], id))
        i++;
    return i;
}

static bool is_rejected(rejected_rows *rejected, const hth_row_id *id)
{
    bool found;

    if (atomic_load_explicit(&rejected->n, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&rejected->lock);
    found = find_rejected_locked(rejected, id) < atomic_load_explicit(&rejected->n, memory_order_relaxed);
    pthread_mutex_unlock(&rejected->lock);
    return found;
}

static void forget_rejected_locked(rejected_rows *rejected, size_t i)
{
    size_t n = atomic_load_explicit(&rejected->n, memory_order_relaxed) - 1;

    memmove(&rejected->ids[i], &rejected->ids[i + 1], (n - i) * sizeof(rejected->ids[0]));
    atomic_store_explicit(&rejected->n, n, memory_order_relaxed);
}

static void note_rejected(rejected_rows *rejected, const hth_row_id *id)
{
    pthread_mutex_lock(&rejected->lock);
    size_t n = atomic_load_explicit(&rejected->n, memory_order_relaxed);

    if (find_rejected_locked(rejected, id) == n) {
        if (n == REJECTED_MAX) {
            forget_rejected_locked(rejected, 0);
            n--;
        }
        rejected->ids[n] = *id;
        atomic_store_explicit(&rejected->n, n + 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&rejected->lock);
}

static void forget_rejected(rejected_rows *rejected, const hth_row_id *id)
{
    size_t i;

    if (atomic_load_explicit(&rejected->n, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&rejected->lock);
    i = find_rejected_locked(rejected, id);
    if (i < atomic_load_explicit(&rejected->n, memory_order_relaxed))
        forget_rejected_locked(rejected, i);
    pthread_mutex_unlock(&rejected->lock);
}

/* ---- finding ---- */

hearth_tier hth_cache_find(hth_cache *cache, const hth_row_id *id, hth_row_meta *out)
{
    hth_ram_row *row = hth_ram_tier_pin(cache->ram, id);
    hth_row_meta meta;

    if (row) {
        if (out)
            *out = *hth_ram_row_meta(row);
        hth_ram_tier_unpin(cache->ram, row);
        return HEARTH_TIER_RAM;
    }
    if (cache->files && !is_rejected(&cache->rejected, id) && hth_file_tier_has(cache->files, id, &meta)) {
        if (out)
            *out = meta;
        return HEARTH_TIER_DISK;
    }
    return HEARTH_TIER_NONE;
}

size_t hth_cache_children(hth_cache *cache, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    /* Half of the room is kept for the rows that only the disk has. */
    size_t n_ram = hth_ram_tier_children(cache->ram, parent, out, cache->files ? (capacity + 1) / 2 : capacity);
    size_t n = n_ram;

    if (!cache->files || n == capacity)
        return n;
    n += hth_file_tier_children(cache->files, parent, out + n, capacity - n);
    /* A row that was found in RAM is not listed again: both lists are short. */
    for (size_t i = n_ram; i < n;) {
        bool drop = is_rejected(&cache->rejected, &out[i].id);

        for (size_t j = 0; j < n_ram && !drop; j++)
            drop = hth_row_id_equal(&out[i].id, &out[j].id);
        if (drop)
            out[i] = out[--n];
        else
            i++;
    }
    return n;
}

/* ---- borrowing ---- */

/* Why an image is not the row that was asked for; NULL when it is. Static strings. */
static const char *misfit(const hth_kvc_info *info, const hth_keyspace *keyspace, const hth_row_meta *expected)
{
    uint32_t first_position = info->has_first_position ? info->first_position : 0;

    if (!info->has_kind || info->kind != (uint8_t)expected->id.kind)
        return "it is of another kind than its name says";
    if (!info->has_own_key || !hth_key_equal(&info->own_key, &expected->id.key))
        return "its key is not that of its name";
    if (!info->has_head_crc)
        return "it has no checksum of its head";
    if (memcmp(info->keyspace.fingerprint, keyspace->fingerprint, sizeof(keyspace->fingerprint)) != 0)
        return "it belongs to another model";
    if (info->keyspace.quant_byte != keyspace->quant_byte ||
        memcmp(info->keyspace.ctx_params_hash, keyspace->ctx_params_hash, sizeof(keyspace->ctx_params_hash)) != 0)
        return "it was made with other context parameters or by another build";
    if (first_position != expected->first_position || hth_kvc_n_tokens(info) != expected->n_tokens)
        return "it covers other positions than expected";
    if (first_position > 0 && (!info->has_parent || !hth_key_equal(&info->parent, &expected->parent)))
        return "it continues another prefix";
    return NULL;
}

void hth_cache_note_gone(hth_cache *cache, const hth_row_id *id)
{
    if (cache->writer)
        note_rejected(&cache->rejected, id);
}

void hth_cache_reject(hth_cache *cache, const hth_row_id *id, const char *reason)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    hth_ram_tier_remove(cache->ram, id);
    hth_count(&cache->counters, HTH_COUNT_ROWS_QUARANTINED, 1);
    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, hex);
    hth_warn(cache->log, "cache row %s-%s is set aside, the prompt is computed instead: %s", hex,
             hth_row_kind_name(id->kind), reason);
    if (cache->writer) {
        note_rejected(&cache->rejected, id);
        hth_writer_quarantine(cache->writer, id, reason);
    }
}

void hth_cache_forget(hth_cache *cache, const hth_row_id *id)
{
    hth_ram_tier_remove(cache->ram, id);
    if (!cache->writer)
        return;
    note_rejected(&cache->rejected, id); /* until the writer has come to it */
    hth_writer_remove(cache->writer, id);
}

/* Read a row's file into a slab of the RAM tier. */
typedef struct slab_request {
    hth_ram_tier *ram;
    hth_ram_row *row;
} slab_request;

static uint8_t *slab_for_file(size_t n_bytes, void *user_data)
{
    slab_request *request = user_data;

    request->row = hth_ram_tier_reserve(request->ram, n_bytes);
    return request->row ? hth_ram_row_image(request->row) : NULL;
}

static hearth_status borrow_file(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                                 hth_ram_row **row_out, hearth_error *err)
{
    slab_request request = { .ram = cache->ram };
    hth_row_meta meta = *expected;
    hth_kvc_info info;
    hth_kvc_fault fault;
    const char *wrong;
    size_t n_bytes = 0;
    hearth_status status = hth_file_tier_read(cache->files, &expected->id, slab_for_file, &request, &n_bytes, err);

    if (status != HEARTH_OK) {
        hth_ram_tier_unpin(cache->ram, request.row);
        if (status == HEARTH_CORRUPT)
            hth_cache_reject(cache, &expected->id, "its size makes no sense");
        return status;
    }
    if (!hth_kvc_parse(hth_ram_row_image(request.row), n_bytes, NULL, &info, &fault)) {
        wrong = hth_kvc_reason_name(fault.reason);
    } else {
        wrong = misfit(&info, keyspace, expected);
    }
    if (wrong) {
        hth_ram_tier_unpin(cache->ram, request.row);
        hth_cache_reject(cache, &expected->id, wrong);
        return hth_fail(err, HEARTH_CORRUPT, "cache row damaged: %s", wrong);
    }
    meta.bytes = n_bytes;
    hth_ram_row_set_stored(request.row, true);
    *row_out = hth_ram_tier_insert(cache->ram, request.row, &meta);
    return HEARTH_OK;
}

hearth_status hth_cache_borrow(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                               hth_borrowed_row *out, hearth_error *err)
{
    hth_ram_row *row = hth_ram_tier_pin(cache->ram, &expected->id);
    hearth_tier tier = HEARTH_TIER_RAM;
    hth_kvc_info info;
    hth_kvc_fault fault;
    bool sound;

    if (!row) {
        hearth_status status;

        if (!cache->files)
            return hth_fail(err, HEARTH_NOT_FOUND, "no tier holds the row");
        status = borrow_file(cache, keyspace, expected, &row, err);
        if (status != HEARTH_OK)
            return status;
        tier = HEARTH_TIER_DISK;
    }
    sound =
        hth_kvc_parse_meta(hth_ram_row_image(row), hth_ram_row_bytes(row), hth_ram_row_bytes(row), &info, &fault, NULL);
    if (!sound || misfit(&info, keyspace, expected)) {
        hth_ram_tier_unpin(cache->ram, row);
        hth_cache_reject(cache, &expected->id, "its image in memory changed");
        return hth_fail(err, HEARTH_CORRUPT, "cache row in memory is damaged");
    }
    *out = (hth_borrowed_row){
        .pin = row,
        .tier = tier,
        .info = info,
        .payload = hth_ram_row_image(row) + info.payload_offset,
        .payload_bytes = (size_t)info.payload_byte_count,
    };
    hth_count(&cache->counters, HTH_COUNT_ROWS_RESTORED, 1);
    hth_count(&cache->counters, HTH_COUNT_BYTES_RESTORED, out->payload_bytes);
    return HEARTH_OK;
}

void hth_cache_return(hth_cache *cache, hth_borrowed_row *row)
{
    hth_ram_tier_unpin(cache->ram, row->pin);
    *row = (hth_borrowed_row){ .pin = NULL };
}

/* The head of a block row is a little over 1 KiB; rows with more before their payload are not worth peeking into. */
enum { PEEK_BYTES = 8192 };

size_t hth_cache_peek_tokens(hth_cache *cache, const hth_row_id *id, hearth_token *tokens, size_t capacity)
{
    hth_ram_row *row = hth_ram_tier_pin(cache->ram, id);
    uint8_t head[PEEK_BYTES];
    const uint8_t *bytes = head;
    size_t n_head = 0, n_tokens = 0;
    uint64_t file_bytes = 0;
    hth_kvc_info info;
    hth_kvc_fault fault;
    size_t need;

    if (row) {
        bytes = hth_ram_row_image(row);
        n_head = hth_ram_row_bytes(row);
        file_bytes = n_head;
    } else if (!cache->files ||
               hth_file_tier_read_head(cache->files, id, head, sizeof(head), &n_head, &file_bytes, NULL) != HEARTH_OK) {
        return 0;
    }
    if (hth_kvc_parse_meta(bytes, n_head, file_bytes, &info, &fault, &need) && info.has_own_key &&
        hth_key_equal(&info.own_key, &id->key)) {
        n_tokens = hth_kvc_n_tokens(&info);
        for (size_t i = 0; i < n_tokens && i < capacity; i++)
            tokens[i] = hth_kvc_token(&info, i);
    }
    hth_ram_tier_unpin(cache->ram, row);
    return n_tokens < capacity ? n_tokens : capacity;
}

void hth_cache_touch(hth_cache *cache, const hth_row_id *ids, size_t n)
{
    if (cache->files)
        hth_file_tier_touch(cache->files, ids, n);
}

/* ---- saving ---- */

bool hth_cache_is_saved(hth_cache *cache, const hth_row_id *id)
{
    hth_ram_row *row = hth_ram_tier_pin(cache->ram, id);

    if (!row)
        return hth_cache_find(cache, id, NULL) != HEARTH_TIER_NONE;
    if (cache->writer && !hth_ram_row_is_stored(row))
        (void)hth_writer_publish(cache->writer, row); /* a full queue is counted there */
    hth_ram_tier_unpin(cache->ram, row);
    return true;
}

uint64_t hth_cache_n_lost(hth_cache *cache)
{
    return hth_counted(&cache->counters, HTH_COUNT_SAVES_DROPPED) +
           hth_counted(&cache->counters, HTH_COUNT_WRITES_FAILED);
}

/* Bits a weight, as far as the quant type's name tells: "q4_k_m" 4, "bf16" 16. Only shown to people. */
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

hth_save_slot *hth_cache_save_begin(hth_cache *cache, const hth_save *save)
{
    hth_save_slot *slot = calloc(1, sizeof(*slot));
    uint64_t now = hth_os_unix_seconds();
    size_t image_bytes;

    if (!slot)
        goto dropped;
    slot->info = (hth_kvc_info){
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
        .has_head_crc = true,
    };
    slot->meta = (hth_row_meta){
        .id = save->id,
        .parent = save->parent,
        .first_position = save->first_position,
        .n_tokens = save->n_tokens,
        .last_used_time = now,
        .save_reason = (uint8_t)save->reason,
    };
    slot->head_bytes = hth_kvc_head_bytes(&slot->info);
    slot->payload_bytes = save->payload_bytes;
    if (slot->head_bytes == SIZE_MAX || __builtin_add_overflow(slot->head_bytes, save->payload_bytes, &image_bytes))
        goto dropped;
    slot->meta.bytes = image_bytes;
    slot->row = hth_ram_tier_reserve(cache->ram, image_bytes);
    if (!slot->row)
        goto dropped;
    return slot;

dropped:
    hth_count(&cache->counters, HTH_COUNT_SAVES_DROPPED, 1);
    free(slot);
    return NULL;
}

uint8_t *hth_save_slot_payload(hth_save_slot *slot)
{
    return hth_ram_row_image(slot->row) + slot->head_bytes;
}

void hth_cache_save_commit(hth_cache *cache, hth_save_slot *slot)
{
    uint8_t *image = hth_ram_row_image(slot->row);
    uint32_t crc = hth_crc32c(0, image + slot->head_bytes, slot->payload_bytes);
    hth_ram_row *row;

    hth_kvc_encode_head(&slot->info, slot->payload_bytes, crc, image);
    row = hth_ram_tier_insert(cache->ram, slot->row, &slot->meta);
    hth_count(&cache->counters, HTH_COUNT_ROWS_SAVED, 1);
    hth_count(&cache->counters, HTH_COUNT_BYTES_SAVED, hth_ram_row_bytes(row));
    forget_rejected(&cache->rejected, &slot->meta.id); /* a quarantine of the old one is before us in the queue */
    if (cache->writer)
        (void)hth_writer_publish(cache->writer, row); /* a full queue is counted there */
    hth_ram_tier_unpin(cache->ram, row);
    free(slot);
}

void hth_cache_save_abort(hth_cache *cache, hth_save_slot *slot)
{
    if (!slot)
        return;
    hth_ram_tier_unpin(cache->ram, slot->row);
    free(slot);
}

/* ---- watching ---- */

void hth_cache_counters(hth_cache *cache, hearth_counters *out)
{
    hth_ram_tier_totals ram;

    hth_ram_tier_totals_get(cache->ram, &ram);
    out->rows_restored = hth_counted(&cache->counters, HTH_COUNT_ROWS_RESTORED);
    out->bytes_restored = hth_counted(&cache->counters, HTH_COUNT_BYTES_RESTORED);
    out->rows_saved = hth_counted(&cache->counters, HTH_COUNT_ROWS_SAVED);
    out->bytes_saved = hth_counted(&cache->counters, HTH_COUNT_BYTES_SAVED);
    out->rows_written = hth_counted(&cache->counters, HTH_COUNT_ROWS_WRITTEN);
    out->bytes_written = hth_counted(&cache->counters, HTH_COUNT_BYTES_WRITTEN);
    out->saves_dropped = hth_counted(&cache->counters, HTH_COUNT_SAVES_DROPPED);
    out->writes_failed = hth_counted(&cache->counters, HTH_COUNT_WRITES_FAILED);
    out->rows_quarantined = hth_counted(&cache->counters, HTH_COUNT_ROWS_QUARANTINED);
    out->rows_evicted = ram.rows_evicted;
    out->ram_rows = ram.rows;
    out->ram_bytes = ram.bytes;
    if (cache->files) {
        hth_index_totals totals;
        hth_file_tier_counts files;

        hth_file_tier_counts_get(cache->files, &files);
        out->rows_evicted += files.rows_evicted;
        if (hth_index_totals_get(hth_file_tier_index(cache->files), &totals, NULL) == HEARTH_OK) {
            out->disk_rows = totals.rows;
            out->disk_bytes = totals.bytes;
        }
    }
}
