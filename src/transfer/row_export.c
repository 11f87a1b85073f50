/*
 * row_export.c - a cached prefix as one plain KVC file
 *
 *   1. find the row of the key and, parent by parent, the rows that it stands on, back to token 0
 *   2. read and check each row; the key of each row must be that of all tokens up to its end
 *   3. join the states (image_join.h): once for their CRC32C, which goes into the head, once for the signature if there
 *      is a key, and once into the file
 *
 * Memory holds only the rows. The file gets its name when it is complete.
 */
#include "transfer/row_transfer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/whole_file.h"
#include "rows/kvc_signature.h"
#include "state/image_join.h"

enum { HEX_KEY_BYTES = 2 * HTH_KEY_BYTES + 1 };

/* The source of the rows. */
typedef struct row_source {
    bool (*find)(const hth_row_id *id, hth_row_meta *out, void *user_data);
    /* Reads a row into a new array, released with free. HEARTH_NOT_FOUND: the row is gone. */
    hearth_status (*read)(const hth_row_meta *meta, uint8_t **bytes_out, size_t *n_out, void *user_data,
                          hearth_error *err);
    void *user_data;
    bool is_trusted; /* its rows need no signature */
} row_source;

/* A row of the prefix. */
typedef struct part {
    hth_row_meta meta;
    uint8_t *bytes; /* once it is read */
    size_t n_bytes;
    hth_kvc_info info; /* borrows from bytes */
} part;

typedef struct exporter {
    const row_source *source;
    const hth_export_options *options;
    hth_key last; /* of the row that holds the prefix's end */
    hth_key key;  /* of the prefix */
    const char *path;

    part *parts; /* the last row first, until they are reversed */
    size_t n_parts;
    size_t capacity;
    bool has_logits;
    part logits; /* bytes is NULL if there are no logits */

    uint8_t *tokens; /* of the whole prefix, as stored in files */
    uint32_t n_tokens;
    hth_image_chain *chain; /* NULL: one snapshot, whose image is copied */
    uint64_t image_bytes;
    uint8_t *head;
    size_t n_head;
    int lock;             /* of the folder; -1: none */
    hth_whole_file *file; /* NULL: not begun */

    uint64_t bytes_done;
    uint64_t bytes_total; /* to read and write */
} exporter;

static void hex_of(const hth_key *key, char hex[HEX_KEY_BYTES])
{
    hth_hex_encode(key->bytes, HTH_KEY_BYTES, hex);
}

static hearth_status progress(exporter *e, size_t n_bytes, hearth_error *err)
{
    const hth_export_options *options = e->options;

    /* Sizes in the index may be wrong; progress never exceeds the total. */
    e->bytes_done = n_bytes < e->bytes_total - e->bytes_done ? e->bytes_done + n_bytes : e->bytes_total;
    if (options->progress && !options->progress(e->bytes_done, e->bytes_total, options->progress_user_data))
        return hth_fail(err, HEARTH_CANCELLED, "the export to '%s' was cancelled", e->path);
    return HEARTH_OK;
}

/* ---- finding ---- */

static bool find(const exporter *e, const hth_key *key, hth_row_kind kind, part *out)
{
    hth_row_id id = { .key = *key, .kind = kind };

    return e->source->find(&id, &out->meta, e->source->user_data);
}

static hearth_status find_last(exporter *e, part *out, hearth_error *err)
{
    static const hth_row_kind kinds[] = { HTH_ROW_TAIL, HTH_ROW_BLOCK, HTH_ROW_SNAPSHOT };
    char hex[HEX_KEY_BYTES];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (find(e, &e->last, kinds[i], out))
            return HEARTH_OK;
    hex_of(&e->last, hex);
    return hth_fail(err, HEARTH_NOT_FOUND,
                    "no tail, block or snapshot of the cache has the key %s; 'hearth cache ls' lists those there are",
                    hex);
}

/* Find the rows from the key back to token 0. Every step goes to a lower position, so the loop ends. */
static hearth_status find_parts(exporter *e, hearth_error *err)
{
    part found = { .bytes = NULL };
    hearth_status status = find_last(e, &found, err);
    char hex[HEX_KEY_BYTES];

    while (status == HEARTH_OK) {
        hth_key parent = found.meta.parent;
        uint32_t begin = found.meta.first_position;
        part *parts, state;

        if (__builtin_add_overflow(e->bytes_total, found.meta.bytes, &e->bytes_total))
            return hth_fail(err, HEARTH_CORRUPT, "the rows of the prefix claim sizes that make no sense");
        /* Models with recurrent layers keep the state that blocks cannot hold in a separate row. */
        if (found.meta.id.kind != HTH_ROW_SNAPSHOT && find(e, &found.meta.id.key, HTH_ROW_STATE, &state))
            return hth_fail(
                err, HEARTH_UNSUPPORTED,
                "the prefix belongs to a model with recurrent layers, whose rows cannot be joined into a file");
        parts = hth_grown(e->parts, e->n_parts, &e->capacity, sizeof(*parts));
        if (!parts)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prefix of more than %zu rows", e->n_parts);
        e->parts = parts;
        e->parts[e->n_parts++] = found;
        if (begin == 0)
            break;
        found = (part){ .bytes = NULL };
        if (!find(e, &parent, HTH_ROW_BLOCK, &found)) {
            hex_of(&parent, hex);
            status = hth_fail(err, HEARTH_NOT_FOUND,
                              "the cache has not kept the block %s, which ends at token %u and which the prefix stands "
                              "on; let the model read the prompt again",
                              hex, begin);
        } else if (found.meta.n_tokens == 0 || found.meta.first_position >= begin ||
                   begin - found.meta.first_position != found.meta.n_tokens) {
            hex_of(&parent, hex);
            status = hth_fail(err, HEARTH_CORRUPT, "the block %s does not end at token %u, where the next row begins",
                              hex, begin);
        }
    }
    for (size_t i = 0; i < e->n_parts / 2; i++) {
        part other = e->parts[i];

        e->parts[i] = e->parts[e->n_parts - 1 - i];
        e->parts[e->n_parts - 1 - i] = other;
    }
    return status;
}

/* ---- reading ---- */

static hearth_status bad_row(const part *row, const char *why, hearth_error *err)
{
    char hex[HEX_KEY_BYTES];

    hex_of(&row->meta.id.key, hex);
    return hth_fail(err, HEARTH_CORRUPT, "the row %s-%s cannot be used: %s; 'hearth cache verify' sets such rows aside",
                    hex, hth_row_kind_name(row->meta.id.kind), why);
}

/* Read a row and make all checks that need no other row. */
static hearth_status read_part(exporter *e, part *row, hearth_error *err)
{
    hearth_status status = e->source->read(&row->meta, &row->bytes, &row->n_bytes, e->source->user_data, err);
    char hex[HEX_KEY_BYTES], text[256];
    hth_kvc_fault fault;
    bool sound;

    if (status == HEARTH_NOT_FOUND) {
        hex_of(&row->meta.id.key, hex);
        return hth_fail(err, status, "the file of the row %s-%s is gone; let the model read the prompt again", hex,
                        hth_row_kind_name(row->meta.id.kind));
    }
    if (status != HEARTH_OK)
        return status;
    sound = hth_kvc_parse(row->bytes, row->n_bytes, NULL, &row->info, &fault);
    if (sound && e->options->signing_key && !e->source->is_trusted)
        sound = hth_kvc_verify_signature(row->bytes, row->n_bytes, &row->info, e->options->signing_key, &fault);
    if (!sound) {
        hth_kvc_fault_text(&fault, text, sizeof(text));
        if (fault.reason == HTH_KVC_NO_MEMORY)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory to check a row");
        return bad_row(row, text, err);
    }
    if (!hth_kvc_is_row(&row->info, &row->meta.id) || row->info.first_position != row->meta.first_position ||
        hth_kvc_n_tokens(&row->info) != row->meta.n_tokens)
        return bad_row(row, "it is not the row of its name", err);
    return progress(e, row->n_bytes, err);
}

/* Cut the tokens after the end of the prefix from the last row. */
static hearth_status cut_tokens(exporter *e, hearth_error *err)
{
    const hth_keyspace *keyspace = &e->parts[0].info.keyspace;
    uint32_t n_tokens = e->options->n_tokens > 0 ? e->options->n_tokens : e->n_tokens;
    hth_key key;

    if (n_tokens > e->n_tokens || n_tokens <= e->parts[e->n_parts - 1].meta.first_position)
        return hth_fail(err, HEARTH_MISUSE, "the prefix's last row ends at token %u; token %u is not in it",
                        e->n_tokens, n_tokens);
    e->n_tokens = n_tokens;
    if (!hth_key_of_bytes(keyspace, e->tokens, (size_t)4 * n_tokens, &key))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a key");
    if (!hth_key_equal(&key, &e->key))
        return bad_row(&e->parts[e->n_parts - 1], "its tokens are not those of the prefix", err);
    return HEARTH_OK;
}

/* Join the tokens of the rows, and check that the key of each row is that of all tokens up to its end. */
static hearth_status collect_tokens(exporter *e, hearth_error *err)
{
    const hth_keyspace *keyspace = &e->parts[0].info.keyspace;
    hth_key_stream *stream = NULL;
    hearth_status status = HEARTH_OK;
    size_t n_bytes = 0;

    for (size_t i = 0; i < e->n_parts; i++)
        n_bytes += e->parts[i].info.tokens.n;
    if (n_bytes == 0 || n_bytes > INT32_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "a prefix of %zu tokens cannot be exported", n_bytes / 4);
    e->tokens = malloc(n_bytes);
    stream = hth_key_stream_new(keyspace);
    if (!e->tokens || !stream) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the %zu tokens of the prefix", n_bytes / 4);
        goto out;
    }
    for (size_t i = 0; i < e->n_parts; i++) {
        const part *row = &e->parts[i];
        hth_key key;

        for (size_t j = 0; j < hth_kvc_n_tokens(&row->info); j++) {
            hearth_token token = hth_kvc_token(&row->info, j);

            hth_put_u32(e->tokens + (size_t)4 * e->n_tokens++, (uint32_t)token);
            hth_key_stream_push(stream, &token, 1);
        }
        hth_key_stream_key(stream, &key);
        if (!hth_keyspace_equal(&row->info.keyspace, keyspace) || !hth_key_equal(&key, &row->meta.id.key)) {
            status = bad_row(row, "its key is not that of its tokens and those before them", err);
            goto out;
        }
    }
    status = cut_tokens(e, err);
out:
    hth_key_stream_free(stream);
    return status;
}

static hearth_status read_logits(exporter *e, hearth_error *err)
{
    part *logits = &e->logits;
    hearth_status status = read_part(e, logits, err);

    if (status == HEARTH_NOT_FOUND) { /* evicted in the meantime: the file is valid without them */
        free(logits->bytes);
        *logits = (part){ .bytes = NULL };
        return HEARTH_OK;
    }
    if (status != HEARTH_OK)
        return status;
    if (!hth_keyspace_equal(&logits->info.keyspace, &e->parts[0].info.keyspace))
        return bad_row(logits, "it belongs to another model", err);
    if (logits->info.image_byte_count == 0 || logits->info.image_byte_count % 4 != 0 ||
        logits->info.image_byte_count > INT32_MAX)
        return bad_row(logits, "its size is not that of logits", err);
    return HEARTH_OK;
}

/* ---- joining ---- */

/* Write the bytes of the image, in order. */
static hearth_status write_image(const exporter *e, hth_image_write_fn write, void *user_data, hearth_error *err)
{
    const part *only = &e->parts[0];

    if (e->chain)
        return hth_image_chain_write(e->chain, 0, e->n_tokens, write, user_data, err);
    return write(only->bytes + only->info.image_offset, (size_t)e->image_bytes, user_data, err);
}

static hearth_status join_states(exporter *e, hearth_error *err)
{
    hth_image_piece *pieces;
    hth_image_format format;
    hearth_status status;

    if (e->n_parts == 1 && e->parts[0].meta.id.kind == HTH_ROW_SNAPSHOT && e->n_tokens == e->parts[0].meta.n_tokens) {
        e->image_bytes = e->parts[0].info.image_byte_count;
        return HEARTH_OK;
    }
    assert(e->n_parts > 0);
    pieces = calloc(e->n_parts, sizeof(*pieces));
    if (!pieces)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to join %zu rows", e->n_parts);
    for (size_t i = 0; i < e->n_parts; i++)
        pieces[i] = (hth_image_piece){
            .bytes = e->parts[i].bytes + e->parts[i].info.image_offset,
            .n_bytes = (size_t)e->parts[i].info.image_byte_count,
            .begin = e->parts[i].meta.first_position,
            .end = e->parts[i].meta.first_position + e->parts[i].meta.n_tokens,
        };
    if (hth_image_plain_format(&pieces[0], &format))
        status = hth_image_chain_new(&format, pieces, e->n_parts, &e->chain, err);
    else
        status =
            hth_fail(err, HEARTH_UNSUPPORTED,
                     "the rows of this model cannot be joined into a file: their states are not of plain attention");
    free(pieces);
    if (status == HEARTH_OK)
        e->image_bytes = hth_image_chain_bytes(e->chain, 0, e->n_tokens);
    return status;
}

static hearth_status add_to_crc(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err)
{
    uint32_t *crc = user_data;

    (void)err; /* cannot fail */
    *crc = hth_crc32c(*crc, bytes, n_bytes);
    return HEARTH_OK;
}

static hearth_status add_to_signature(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err)
{
    (void)err; /* cannot fail */
    hth_hmac_update(user_data, bytes, n_bytes);
    return HEARTH_OK;
}

/* The head of the file: that of a snapshot row, with model, engine and save of its last row. */
static hearth_status make_head(exporter *e, hearth_error *err)
{
    const hth_kvc_info *last = &e->parts[e->n_parts - 1].info;
    uint32_t n_before = (e->n_tokens - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    uint32_t crc = 0;
    hth_hmac *signing;
    hth_kvc_info info = {
        .quant_bits = last->quant_bits,
        .save_reason = last->save_reason,
        .cached_token_count = e->n_tokens,
        .context_size = last->context_size,
        .creation_time = last->creation_time,
        .last_used_time = hth_os_unix_seconds(),
        .keyspace = last->keyspace,
        .tokens = { .data = e->tokens, .n = 4 * e->n_tokens },
        .hostname = last->hostname,
        .writer_version = last->writer_version,
        .has_parent = true,
        .has_first_position = true,
        .has_kind = true,
        .kind = HTH_ROW_SNAPSHOT,
        .has_own_key = true,
        .own_key = e->key,
        .engine_build = last->engine_build,
        .model = last->model,
        .hmac = e->options->signing_key ? hth_kvc_signature_room() : (hth_kvc_bytes){ .data = NULL },
        .has_head_crc = true,
    };

    if (e->logits.bytes)
        info.logits = (hth_kvc_bytes){ .data = e->logits.bytes + e->logits.info.image_offset,
                                       .n = (uint32_t)e->logits.info.image_byte_count };
    if (!hth_key_of_bytes(&info.keyspace, e->tokens, (size_t)4 * n_before, &info.parent))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a key");
    e->n_head = hth_kvc_head_bytes(&info);
    if (e->n_head == SIZE_MAX)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the prefix has too many tokens or logits for one file");
    e->head = malloc(e->n_head);
    if (!e->head)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a head of %zu bytes", e->n_head);
    (void)write_image(e, add_to_crc, &crc, NULL); /* add_to_crc does not fail */
    hth_kvc_encode_head(&info, e->image_bytes, crc, e->head);
    if (!e->options->signing_key)
        return HEARTH_OK;
    signing = hth_kvc_sign_begin(e->head, e->n_head, e->options->signing_key);
    if (!signing)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to sign '%s'", e->path);
    (void)write_image(e, add_to_signature, signing, NULL); /* add_to_signature does not fail */
    hth_kvc_sign_end(signing, e->head, e->n_head);
    return HEARTH_OK;
}

/* ---- writing ---- */

static hearth_status write_to_file(const uint8_t *bytes, size_t n_bytes, void *user_data, hearth_error *err)
{
    exporter *e = user_data;
    hearth_status status = hth_whole_file_write(e->file, bytes, n_bytes, err);

    return status == HEARTH_OK ? progress(e, n_bytes, err) : status;
}

static const hth_fs *fs_of(const exporter *e)
{
    return e->options->fs ? e->options->fs : hth_fs_system();
}

/* The size of the file is now known. The lock is held until the file has its name. */
static hearth_status check_room(exporter *e, hearth_error *err)
{
    hearth_status status;

    if (!e->options->limits)
        return HEARTH_OK;
    status = hth_folder_lock(fs_of(e), e->path, &e->lock, err);
    return status == HEARTH_OK
             ? hth_folder_has_room(fs_of(e), e->path, e->n_head + e->image_bytes, e->options->limits, err)
             : status;
}

/*
 * The file is nearly as large as the rows: it has all states and tokens, but not the heads and descriptions of every
 * row. So the total of the progress is twice the bytes read.
 */
static hearth_status run(exporter *e, hearth_error *err)
{
    hearth_status status = find_parts(e, err);

    if (status != HEARTH_OK)
        return status;
    e->has_logits = !e->options->without_logits && find(e, &e->key, HTH_ROW_LOGITS, &e->logits);
    if (e->has_logits)
        e->bytes_total += e->logits.meta.bytes;
    e->bytes_total = e->bytes_total < UINT64_MAX / 2 ? 2 * e->bytes_total : UINT64_MAX;
    status = hth_whole_file_begin(fs_of(e), e->path, e->options->replace ? HTH_WHOLE_FILE_REPLACE : HTH_WHOLE_FILE_NEW,
                                  &e->file, err);
    for (size_t i = 0; i < e->n_parts && status == HEARTH_OK; i++)
        status = read_part(e, &e->parts[i], err);
    if (status == HEARTH_OK)
        status = collect_tokens(e, err);
    if (status == HEARTH_OK && e->has_logits)
        status = read_logits(e, err);
    if (status == HEARTH_OK)
        status = join_states(e, err);
    if (status == HEARTH_OK)
        status = make_head(e, err);
    if (status == HEARTH_OK)
        status = check_room(e, err);
    if (status == HEARTH_OK)
        status = write_to_file(e->head, e->n_head, e, err);
    if (status == HEARTH_OK)
        status = write_image(e, write_to_file, e, err);
    return status == HEARTH_OK ? progress(e, SIZE_MAX, err) : status; /* everything is done */
}

static hearth_status export_from(const row_source *source, const hth_key *last, const hth_key *key, const char *path,
                                 const hth_export_options *options, hth_exported *out, hearth_error *err)
{
    exporter e = { .source = source, .options = options, .last = *last, .key = *key, .path = path, .lock = -1 };
    hearth_status status = run(&e, err);

    status = hth_whole_file_end(e.file, status, err);
    hth_folder_unlock(fs_of(&e), e.lock);
    if (status == HEARTH_OK)
        *out = (hth_exported){
            .n_tokens = e.n_tokens,
            .n_rows = e.n_parts,
            .has_logits = e.logits.bytes != NULL,
            .bytes = e.n_head + e.image_bytes,
        };

    free(e.head);
    hth_image_chain_free(e.chain);
    free(e.tokens);
    free(e.logits.bytes);
    for (size_t i = 0; i < e.n_parts; i++)
        free(e.parts[i].bytes);
    free(e.parts);
    return status;
}

/* ---- from file tiers ---- */

typedef struct tier_list {
    hth_file_tier *const *list;
    size_t n;
} tier_list;

static bool find_in_tiers(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    const tier_list *t = user_data;

    for (size_t i = 0; i < t->n; i++)
        if (hth_file_tier_has(t->list[i], id, out))
            return true;
    return false;
}

static uint8_t *buffer_for(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    free(*bytes); /* of a read that failed */
    *bytes = malloc(n_bytes);
    return *bytes;
}

/* A tier may know a row whose file is gone; then the next tier is tried. */
static hearth_status read_from_tiers(const hth_row_meta *meta, uint8_t **bytes_out, size_t *n_out, void *user_data,
                                     hearth_error *err)
{
    const tier_list *t = user_data;
    hearth_status status = HEARTH_NOT_FOUND;
    uint8_t *bytes = NULL;

    for (size_t i = 0; i < t->n && status == HEARTH_NOT_FOUND; i++)
        status = hth_file_tier_read(t->list[i], &meta->id, buffer_for, &bytes, n_out, err);
    if (status == HEARTH_OK)
        *bytes_out = bytes;
    else
        free(bytes);
    return status;
}

hearth_status hth_row_export(hth_file_tier *const *tiers, size_t n_tiers, const hth_key *key, const char *path,
                             const hth_export_options *options, hth_exported *out, hearth_error *err)
{
    tier_list t = { .list = tiers, .n = n_tiers };
    const row_source source = { .find = find_in_tiers, .read = read_from_tiers, .user_data = &t };

    assert(n_tiers > 0);
    return export_from(&source, key, key, path, options, out, err);
}

/* ---- from an open cache ---- */

typedef struct open_cache {
    hth_cache *cache;
    const hth_keyspace *keyspace;
} open_cache;

static bool find_in_cache(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    const open_cache *p = user_data;

    return hth_cache_find(p->cache, id, out) != HEARTH_TIER_NONE;
}

static hearth_status read_from_cache(const hth_row_meta *meta, uint8_t **bytes_out, size_t *n_out, void *user_data,
                                     hearth_error *err)
{
    const open_cache *p = user_data;
    hth_borrowed_row row;
    hearth_status status = hth_cache_borrow(p->cache, p->keyspace, meta, &row, err);
    size_t n_bytes;
    uint8_t *bytes;

    if (status == HEARTH_NOT_FOUND)
        hth_cache_note_gone(p->cache, &meta->id); /* so the next lookup finds another row */
    if (status != HEARTH_OK)
        return status;
    n_bytes = hth_ram_row_bytes(row.pin);
    bytes = malloc(n_bytes);
    if (bytes)
        memcpy(bytes, hth_ram_row_slab(row.pin), n_bytes);
    hth_cache_return_unused(p->cache, &row);
    if (!bytes)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a row of %zu bytes", n_bytes);
    *bytes_out = bytes;
    *n_out = n_bytes;
    return HEARTH_OK;
}

hearth_status hth_row_export_cached(hth_cache *cache, const hth_keyspace *keyspace, const hth_key *last,
                                    const hth_key *key, const char *path, const hth_export_options *options,
                                    hth_exported *out, hearth_error *err)
{
    open_cache p = { .cache = cache, .keyspace = keyspace };
    const row_source source = { .find = find_in_cache, .read = read_from_cache, .user_data = &p, .is_trusted = true };

    return export_from(&source, last, key, path, options, out, err);
}
