/*
 * known.c - one block's state under many keys
 */
#include "known.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/os.h"
#include "state/image_join.h"

/* state/image.h: the cells' positions follow the header and the counts of streams and cells, 12 bytes a cell. */
enum { POSITIONS_OFFSET = HTH_IMAGE_HEADER_BYTES + 8, CELL_BYTES = 12, PROMPT_OF_THE_BLOCK = 1000 };

hearth_token hth_known_token(unsigned n, size_t i)
{
    return (hearth_token)(300 + (n * 101 + i * 7919) % 1700); /* the smallest vocabulary here has 2048 tokens */
}

void hth_known_tokens(unsigned n, hearth_token *tokens, size_t n_tokens)
{
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = hth_known_token(n, i);
}

hearth_request hth_known_request(const hearth_token *tokens, size_t n_tokens, int32_t n_predict)
{
    static hearth_sampling greedy;
    hearth_request request = hearth_request_default();

    greedy = hearth_sampling_default();
    greedy.temperature = 0;
    request.tokens = tokens;
    request.n_tokens = n_tokens;
    request.n_predict = n_predict;
    request.ignore_eos = true;
    request.sampling = &greedy;
    return request;
}

static hearth_token *tokens_of(unsigned n, size_t n_tokens)
{
    hearth_token *tokens = malloc(n_tokens * sizeof(*tokens));

    if (tokens)
        hth_known_tokens(n, tokens, n_tokens);
    return tokens;
}

/* ---- learning ---- */

static hearth_status compute_block(hearth_model *model, const hearth_token *tokens, hearth_error *err)
{
    const hearth_request request = hth_known_request(tokens, HTH_BLOCK_TOKENS, 1);
    const hearth_result *result;
    hearth_status status = hearth_complete(model, &request, &result, err);

    hearth_result_unref(result);
    return status;
}

static hearth_status copy_row(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *meta,
                              uint8_t **bytes_out, size_t *n_out, hearth_error *err)
{
    hth_borrowed_row row;
    hearth_status status = hth_cache_borrow(cache, keyspace, meta, &row, err);

    if (status != HEARTH_OK)
        return status;
    *bytes_out = malloc(row.image_bytes);
    if (*bytes_out) {
        memcpy(*bytes_out, row.image, row.image_bytes);
        *n_out = row.image_bytes;
    }
    hth_cache_return(cache, &row);
    return *bytes_out ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a row");
}

static hearth_status keyspace_of(hearth_model *model, hth_keyspace *out, hearth_error *err)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_status status = hearth_model_info_get(model, &info, err);

    if (status != HEARTH_OK)
        return status;
    *out = (hth_keyspace){ .quant_byte = hth_quant_byte(info.quant_type) };
    if (out->quant_byte == HTH_QUANT_UNKNOWN)
        out->quant_byte = hth_quant_byte("f32");
    memcpy(out->fingerprint, info.fingerprint, sizeof(out->fingerprint));
    memcpy(out->ctx_params_hash, info.ctx_params_hash, sizeof(out->ctx_params_hash));
    return HEARTH_OK;
}

/* Bytes of K and V in all layers, which is what a cell in the context takes. */
static hearth_status measure_cell(hth_known *known, hearth_error *err)
{
    hth_image_piece piece = { .bytes = known->block, .n_bytes = known->block_bytes, .end = HTH_BLOCK_TOKENS };
    hth_image_layout *layout = malloc(sizeof(*layout));
    hth_image_format format;
    hearth_status status = HEARTH_UNSUPPORTED;

    if (layout && hth_image_plain_format(&piece, &format) && !format.has_cell_ext)
        status = hth_image_parse(&format, known->block, known->block_bytes, 0, HTH_BLOCK_TOKENS, layout, err);
    else
        (void)hth_fail(err, status, "the model is not one of plain attention"); /* the status is set already */
    for (uint32_t i = 0; status == HEARTH_OK && i < layout->n_tensors; i++)
        known->kv_bytes_a_token += layout->tensors[i].row_bytes;
    known->n_tensors = status == HEARTH_OK ? layout->n_tensors : 0;
    free(layout);
    return status;
}

hearth_status hth_known_learn(hearth_runtime *runtime, hearth_model *model, hth_known *out, hearth_error *err)
{
    hth_cache *cache = hth_runtime_cache(runtime);
    hearth_token *tokens = tokens_of(PROMPT_OF_THE_BLOCK, HTH_BLOCK_TOKENS);
    hth_row_meta meta = { .id.kind = HTH_ROW_BLOCK, .n_tokens = HTH_BLOCK_TOKENS };
    hth_known known = { .block_bytes = 0 };
    hearth_status status = tokens ? keyspace_of(model, &known.keyspace, err) : HEARTH_NO_MEMORY;

    if (status == HEARTH_OK)
        status = compute_block(model, tokens, err);
    if (status == HEARTH_OK && !hth_key_of(&known.keyspace, tokens, HTH_BLOCK_TOKENS, &meta.id.key))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a key");
    if (status == HEARTH_OK)
        status = copy_row(cache, &known.keyspace, &meta, &known.block, &known.block_bytes, err);
    meta = (hth_row_meta){ .id = { .key = meta.id.key, .kind = HTH_ROW_LOGITS },
                           .parent = meta.id.key,
                           .first_position = HTH_BLOCK_TOKENS };
    if (status == HEARTH_OK)
        status = copy_row(cache, &known.keyspace, &meta, &known.logits, &known.logits_bytes, err);
    if (status == HEARTH_OK)
        status = measure_cell(&known, err);
    if (status == HEARTH_OK)
        *out = known;
    else
        hth_known_deinit(&known);
    free(tokens);
    return status;
}

void hth_known_deinit(hth_known *known)
{
    free(known->block);
    free(known->logits);
    *known = (hth_known){ .block_bytes = 0 };
}

/* ---- saving ---- */

void hth_known_move_block(uint8_t *image, uint32_t first_position)
{
    for (uint32_t i = 0; i < HTH_BLOCK_TOKENS; i++)
        hth_put_u32(image + POSITIONS_OFFSET + (size_t)i * CELL_BYTES, first_position + i);
}

static hearth_status save(hth_cache *cache, const hth_save *row, const uint8_t *image, hearth_error *err)
{
    hth_slab *slab = hth_cache_save_begin(cache, row);

    if (!slab)
        return hth_fail(err, HEARTH_FULL, "no room in the RAM tier for a row of %zu bytes", row->image_bytes);
    memcpy(hth_slab_image(slab), image, row->image_bytes);
    if (row->id.kind == HTH_ROW_BLOCK)
        hth_known_move_block(hth_slab_image(slab), row->first_position);
    hth_cache_save_commit(cache, slab);
    return HEARTH_OK;
}

static hth_save block_at(const hth_known *known, const hearth_token *tokens, uint32_t first_position)
{
    return (hth_save){
        .keyspace = &known->keyspace,
        .id.kind = HTH_ROW_BLOCK,
        .first_position = first_position,
        .tokens = tokens + first_position,
        .n_tokens = HTH_BLOCK_TOKENS,
        .context_size = first_position + HTH_BLOCK_TOKENS,
        .reason = HEARTH_SAVE_COLD,
        .engine_build = "bench",
        .image_bytes = known->block_bytes,
    };
}

static hearth_status add_logits(hth_cache *cache, const hth_known *known, const hth_key *key, uint32_t n_tokens,
                                hearth_error *err)
{
    hth_save row = {
        .keyspace = &known->keyspace,
        .id = { .key = *key, .kind = HTH_ROW_LOGITS },
        .parent = *key,
        .first_position = n_tokens,
        .context_size = n_tokens,
        .reason = HEARTH_SAVE_COLD,
        .engine_build = "bench",
        .image_bytes = known->logits_bytes,
    };

    return save(cache, &row, known->logits, err);
}

hearth_status hth_known_add(hth_cache *cache, hth_known *known, unsigned n, size_t n_tokens, hearth_error *err)
{
    hearth_token *tokens = tokens_of(n, n_tokens);
    hth_key_stream *stream = hth_key_stream_new(&known->keyspace);
    hearth_status status = HEARTH_OK;
    hth_key key;

    if (!tokens || !stream) {
        free(tokens);
        hth_key_stream_free(stream);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt");
    }
    hth_key_stream_key(stream, &key);
    for (uint32_t begin = 0; status == HEARTH_OK && begin < n_tokens; begin += HTH_BLOCK_TOKENS) {
        hth_save row = block_at(known, tokens, begin);

        row.parent = key;
        hth_key_stream_push(stream, tokens + begin, HTH_BLOCK_TOKENS);
        hth_key_stream_key(stream, &key);
        row.id.key = key;
        status = save(cache, &row, known->block, err);
    }
    if (status == HEARTH_OK)
        status = add_logits(cache, known, &key, (uint32_t)n_tokens, err);
    hth_key_stream_free(stream);
    free(tokens);
    return status;
}

hearth_status hth_known_add_block(hth_cache *cache, hth_known *known, hearth_error *err)
{
    hearth_token tokens[HTH_BLOCK_TOKENS];
    uint64_t number = ++known->n_made_up;
    hth_save row;

    for (size_t i = 0; i < HTH_BLOCK_TOKENS; i++)
        tokens[i] = hth_known_token(PROMPT_OF_THE_BLOCK + 1, i);
    for (size_t i = 0; i < 2 * sizeof(number); i++)
        tokens[i] = (hearth_token)(300 + ((number >> (4 * i)) & 15)); /* another prefix each time */
    row = block_at(known, tokens, 0);
    if (!hth_key_of(&known->keyspace, tokens, HTH_BLOCK_TOKENS, &row.id.key))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a key");
    return save(cache, &row, known->block, err);
}

double hth_copy_pieces_ms(hth_copy *copy, size_t n_blocks, size_t n_tensors, size_t piece_bytes)
{
    uint64_t begin = hth_os_monotonic_ns();

    for (size_t i = 0; i < n_blocks; i++)
        for (size_t k = 0; k < n_tensors; k++)
            memcpy(copy->cells + (k * n_blocks + i) * piece_bytes, copy->slabs + (i * n_tensors + k) * piece_bytes,
                   piece_bytes);
    __asm__ volatile("" : : "r"(copy->cells) : "memory"); /* the copies must happen */
    return hth_ms_since(begin);
}
