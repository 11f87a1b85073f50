/*
 * row_import.c - a plain KVC file as rows of a cache
 *
 *   1. read the file and check all of it, with the key of its tokens and its signature
 *   2. find the kind of its state: that of plain attention can be cut; any other must be a snapshot made by Hearth
 *   3. publish block after block, then the tail or the snapshot, then the logits
 *
 * Parents come before rows that stand on them, so after a failure or a crash the rows so far are the beginning of the
 * prefix.
 */
#include "transfer/row_transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/os.h"
#include "rows/kvc_signature.h"
#include "rows/row_file.h"
#include "state/image_join.h"

enum { FLUSH_MS = 60000 }; /* longest wait for room in RAM: rows can be evicted once written */

/* *published_out: the row is new. */
typedef hearth_status (*publish_fn)(const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes, bool *published_out,
                                    void *user_data, hearth_error *err);

typedef struct importer {
    publish_fn publish;
    void *destination; /* its user_data */
    const hth_import_options *options;
    const char *path;

    uint8_t *bytes; /* the whole file */
    size_t n_bytes;
    hth_kvc_info info; /* borrows from bytes */
    uint32_t n_tokens;
    hth_image_chain *chain; /* NULL: the state cannot be cut */
    hth_key_stream *stream;
    hth_key key; /* of the tokens in the stream */

    /* The current row. */
    hth_row_meta meta;
    hth_kvc_info head;
    size_t n_head;
    uint8_t *file; /* reused for the next */
    size_t capacity;

    hth_imported done;
    uint64_t bytes_done;
    uint64_t bytes_total;
} importer;

static hearth_status progress(importer *in, uint64_t n_bytes, hearth_error *err)
{
    const hth_import_options *options = in->options;

    in->bytes_done = n_bytes < in->bytes_total - in->bytes_done ? in->bytes_done + n_bytes : in->bytes_total;
    if (options->progress && !options->progress(in->bytes_done, in->bytes_total, options->progress_user_data))
        return hth_fail(err, HEARTH_CANCELLED, "the import of '%s' was cancelled", in->path);
    return HEARTH_OK;
}

/* ---- the file ---- */

static hearth_status read_open_file(importer *in, const hth_fs *fs, int fd, hearth_error *err)
{
    hth_fs_stat st = { .bytes = 0 };
    size_t n_read = 0;
    int rc = hth_fs_stat_open(fs, fd, &st);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot look at '%s'", in->path);
    if (!st.is_regular)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no regular file; give one that 'hearth cache export' wrote",
                        in->path);
    in->n_bytes = (size_t)st.bytes;
    in->bytes = malloc(in->n_bytes + 1); /* so that an empty file also has an address */
    if (!in->bytes)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the %zu bytes of '%s'", in->n_bytes, in->path);
    rc = hth_fs_read_full(fs, fd, in->bytes, in->n_bytes, 0, &n_read);
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot read '%s'", in->path);
    if (n_read != in->n_bytes)
        return hth_fail(err, HEARTH_IO, "'%s' became shorter while it was read; try again", in->path);
    return HEARTH_OK;
}

static hearth_status read_file(importer *in, hearth_error *err)
{
    const hth_fs *fs = in->options->fs ? in->options->fs : hth_fs_system();
    int fd = hth_fs_open(fs, in->path, HTH_FS_READ);
    hearth_status status;

    if (fd == -ELOOP)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is a symbolic link; give the file itself", in->path);
    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot open '%s'", in->path);
    status = read_open_file(in, fs, fd, err);
    hth_fs_close(fs, fd);
    return status;
}

static hearth_status check_file(importer *in, hearth_error *err)
{
    const hth_signing_key *signing_key = in->options->signing_key;
    hth_kvc_fault fault;
    char text[256];
    bool sound = hth_kvc_parse(in->bytes, in->n_bytes, NULL, &in->info, &fault);

    if (sound && signing_key)
        sound = hth_kvc_verify_signature(in->bytes, in->n_bytes, &in->info, signing_key, &fault);
    if (sound)
        return HEARTH_OK;
    if (fault.reason == HTH_KVC_NO_MEMORY)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to check '%s'", in->path);
    hth_kvc_fault_text(&fault, text, sizeof(text));
    return hth_fail(err, HEARTH_CORRUPT, "'%s' cannot be imported: %s; export it again", in->path, text);
}

/* Does the file hold a prefix from token 0, and one that the options allow? */
static hearth_status check_kind(importer *in, hearth_error *err)
{
    const hth_keyspace *wanted = in->options->keyspace;

    if (in->info.first_position > 0 || hth_kvc_n_tokens(&in->info) == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'%s' is a row from the middle of a prefix or without tokens; export the whole prefix",
                        in->path);
    if (hth_kvc_n_tokens(&in->info) > INT32_MAX / 2)
        return hth_fail(err, HEARTH_UNSUPPORTED, "'%s' has more tokens than any context", in->path);
    if (wanted && !hth_keyspace_equal(&in->info.keyspace, wanted))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'%s' is of another model, or was made with other context parameters or by another build",
                        in->path);
    in->n_tokens = (uint32_t)hth_kvc_n_tokens(&in->info);
    if (in->options->n_tokens_max > 0 && in->n_tokens > in->options->n_tokens_max)
        return hth_fail(err, HEARTH_UNSUPPORTED, "'%s' has %u tokens, and there is room for %u", in->path, in->n_tokens,
                        in->options->n_tokens_max);
    return HEARTH_OK;
}

/* Make a chain if the state can be cut; a snapshot of ours that cannot be cut stays whole. */
static hearth_status open_state(importer *in, hearth_error *err)
{
    hth_image_piece piece = {
        .bytes = in->bytes + in->info.image_offset,
        .n_bytes = (size_t)in->info.image_byte_count,
        .end = in->n_tokens,
    };
    hth_image_format format;

    if (hth_image_plain_format(&piece, &format))
        return hth_image_chain_new(&format, &piece, 1, &in->chain, err);
    if (in->info.has_kind && in->info.kind == HTH_ROW_SNAPSHOT && in->info.has_own_key)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_UNSUPPORTED,
                    "the state in '%s' is not one of plain attention over its %u tokens, and no snapshot that hearth "
                    "made; it cannot be cut into rows",
                    in->path, in->n_tokens);
}

/* ---- rows ---- */

/* Append tokens to the stream; in->key is then the key of all tokens so far. */
static void push_tokens(importer *in, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        hearth_token token = hth_kvc_token(&in->info, i);

        hth_key_stream_push(in->stream, &token, 1);
    }
    hth_key_stream_key(in->stream, &in->key);
}

/*
 * Describe the current row, whose key is in->key, and make room for its file. The head is as in the model's own saves,
 * but the time and origin of the save come from the file. Returns the place of the image; NULL if out of memory.
 */
static uint8_t *begin_row(importer *in, hth_row_kind kind, const hth_key *parent, uint32_t begin, uint32_t n_tokens,
                          size_t image_bytes, hearth_error *err)
{
    bool has_parent = begin > 0 || kind == HTH_ROW_SNAPSHOT;
    hth_kvc_info *head = &in->head;
    size_t n_bytes;
    uint8_t *file = in->file;

    in->meta = (hth_row_meta){
        .id = { .key = in->key, .kind = kind },
        .parent = *parent,
        .first_position = begin,
        .n_tokens = n_tokens,
        .last_used_time = hth_os_unix_seconds(),
        .save_reason = in->info.save_reason,
    };
    *head = in->info;
    head->cached_token_count = n_tokens;
    head->hit_count = 0;
    head->last_used_time = in->meta.last_used_time;
    head->prompt = (hth_kvc_bytes){ .data = NULL };
    head->tokens.data = in->info.tokens.data + (n_tokens > 0 ? (size_t)4 * begin : 0);
    head->tokens.n = 4 * n_tokens;
    head->has_parent = has_parent;
    head->parent = *parent;
    head->has_first_position = has_parent;
    head->first_position = begin;
    head->has_kind = true;
    head->kind = (uint8_t)kind;
    head->logits = (hth_kvc_bytes){ .data = NULL };
    head->has_own_key = true;
    head->own_key = in->key;
    head->hmac = in->options->signing_key ? hth_kvc_signature_room() : (hth_kvc_bytes){ .data = NULL };
    head->has_head_crc = true;

    in->n_head = hth_kvc_head_bytes(head);
    if (in->n_head == SIZE_MAX || !hth_add_size(in->n_head, image_bytes, &n_bytes))
        file = NULL;
    else if (n_bytes > in->capacity)
        file = realloc(in->file, n_bytes);
    if (!file) {
        (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory for a row of '%s'", in->path);
        return NULL;
    }
    in->capacity = n_bytes > in->capacity ? n_bytes : in->capacity;
    in->file = file;
    in->meta.bytes = n_bytes;
    return file + in->n_head;
}

/* Publish the current row, whose image is in its place. */
static hearth_status publish(importer *in, hearth_error *err)
{
    size_t image_bytes = (size_t)in->meta.bytes - in->n_head;
    bool published = false;
    hearth_status status;

    hth_kvc_encode_head(&in->head, image_bytes, hth_crc32c(0, in->file + in->n_head, image_bytes), in->file);
    if (in->options->signing_key && !hth_kvc_sign(in->file, (size_t)in->meta.bytes, in->options->signing_key))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to sign a row of '%s'", in->path);
    if (in->meta.bytes > HTH_ROW_FILE_BYTES_MAX)
        return hth_fail(err, HEARTH_UNSUPPORTED, "a row of '%s' would have %" PRIu64 " bytes, more than a row may have",
                        in->path, in->meta.bytes);
    status = in->publish(&in->meta, in->file, (size_t)in->meta.bytes, &published, in->destination, err);
    if (status != HEARTH_OK)
        return status;
    in->done.n_rows++;
    in->done.n_published += published;
    return progress(in, image_bytes, err);
}

/* Block after block, then the tail. */
static hearth_status publish_ranges(importer *in, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (uint32_t begin = 0, end; begin < in->n_tokens && status == HEARTH_OK; begin = end) {
        hth_key parent = in->key;
        uint8_t *image;

        end = in->n_tokens - begin < HTH_BLOCK_TOKENS ? in->n_tokens : begin + HTH_BLOCK_TOKENS;
        push_tokens(in, begin, end);
        image = begin_row(in, end - begin == HTH_BLOCK_TOKENS ? HTH_ROW_BLOCK : HTH_ROW_TAIL, &parent, begin,
                          end - begin, hth_image_chain_bytes(in->chain, begin, end), err);
        if (!image)
            return HEARTH_NO_MEMORY;
        hth_image_chain_get(in->chain, begin, end, image);
        status = publish(in, err);
    }
    return status;
}

/* One row of the whole state, listed under the last block boundary before its end. */
static hearth_status publish_snapshot(importer *in, hearth_error *err)
{
    uint32_t boundary = (in->n_tokens - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    size_t image_bytes = (size_t)in->info.image_byte_count;
    hth_key parent;
    uint8_t *image;

    push_tokens(in, 0, boundary);
    parent = in->key;
    push_tokens(in, boundary, in->n_tokens);
    image = begin_row(in, HTH_ROW_SNAPSHOT, &parent, 0, in->n_tokens, image_bytes, err);
    if (!image)
        return HEARTH_NO_MEMORY;
    memcpy(image, in->bytes + in->info.image_offset, image_bytes);
    return publish(in, err);
}

static hearth_status publish_logits(importer *in, hearth_error *err)
{
    uint8_t *image = begin_row(in, HTH_ROW_LOGITS, &in->key, in->n_tokens, 0, in->info.logits.n, err);

    if (!image)
        return HEARTH_NO_MEMORY;
    memcpy(image, in->info.logits.data, in->info.logits.n);
    in->done.has_logits = true;
    return publish(in, err);
}

static hearth_status run(importer *in, hearth_error *err)
{
    hearth_status status = read_file(in, err);

    if (status == HEARTH_OK)
        status = check_file(in, err);
    if (status == HEARTH_OK)
        status = check_kind(in, err);
    if (status == HEARTH_OK)
        status = open_state(in, err);
    if (status != HEARTH_OK)
        return status;
    in->stream = hth_key_stream_new(&in->info.keyspace);
    if (!in->stream)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the keys of '%s'", in->path);
    hth_key_stream_key(in->stream, &in->key);

    in->bytes_total = in->n_bytes;
    status = in->chain ? publish_ranges(in, err) : publish_snapshot(in, err);
    if (status == HEARTH_OK && in->info.logits.n > 0)
        status = publish_logits(in, err);
    return status == HEARTH_OK ? progress(in, UINT64_MAX, err) : status; /* everything is done */
}

static hearth_status keep_tokens(importer *in, hearth_error *err)
{
    hearth_token *tokens = malloc(in->n_tokens * sizeof(*tokens));

    if (!tokens)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the %u tokens of '%s'", in->n_tokens, in->path);
    for (uint32_t i = 0; i < in->n_tokens; i++)
        tokens[i] = hth_kvc_token(&in->info, i);
    in->done.tokens = tokens;
    return HEARTH_OK;
}

static hearth_status import_into(publish_fn publish_row, void *destination, const char *path,
                                 const hth_import_options *options, hth_imported *out, hearth_error *err)
{
    importer in = { .publish = publish_row, .destination = destination, .options = options, .path = path };
    hearth_status status = run(&in, err);

    if (status == HEARTH_OK && options->keeps_tokens)
        status = keep_tokens(&in, err);
    if (status == HEARTH_OK) {
        in.done.key = in.key;
        in.done.n_tokens = in.n_tokens;
        in.done.bytes = in.n_bytes;
        *out = in.done;
    }
    hth_key_stream_free(in.stream);
    hth_image_chain_free(in.chain);
    free(in.file);
    free(in.bytes);
    return status;
}

static hearth_status publish_to_tier(const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                     bool *published_out, void *user_data, hearth_error *err)
{
    return hth_file_tier_publish(user_data, meta, bytes, n_bytes, published_out, err);
}

hearth_status hth_row_import(hth_file_tier *tier, const char *path, const hth_import_options *options,
                             hth_imported *out, hearth_error *err)
{
    return import_into(publish_to_tier, tier, path, options, out, err);
}

static hearth_status publish_to_cache(const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                                      bool *published_out, void *user_data, hearth_error *err)
{
    hth_cache *cache = user_data;
    hearth_status status = hth_cache_put(cache, meta, bytes, n_bytes, published_out, err);

    if (status == HEARTH_FULL && hth_cache_flush(cache, FLUSH_MS))
        status = hth_cache_put(cache, meta, bytes, n_bytes, published_out, err);
    return status;
}

hearth_status hth_row_import_cached(hth_cache *cache, const char *path, const hth_import_options *options,
                                    hth_imported *out, hearth_error *err)
{
    return import_into(publish_to_cache, cache, path, options, out, err);
}
