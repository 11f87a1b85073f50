/*
 * forest.c - tokens from the place in the tree, images from the id
 */
#include "support/forest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/row_file.h"

/* Tokens [i * 256, ...) of a prompt are those of a node that it shares with its neighbours, the fewer the later. */
static hearth_token token_at(uint32_t prompt, uint32_t position)
{
    uint32_t level = position / HTH_BLOCK_TOKENS;
    uint32_t node = level < TEST_FOREST_BLOCKS ? prompt >> (TEST_FOREST_BLOCKS - 1 - level) : prompt;

    return (hearth_token)((level * 100 + node) * 1000 + position % HTH_BLOCK_TOKENS);
}

static hth_key key_at(const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens)
{
    hth_key key;

    if (!hth_key_of(keyspace, tokens, n_tokens, &key))
        abort();
    return key;
}

/* A row of a prompt: its own tokens are [begin, end); those without tokens have begin == end. */
static int add_row(test_forest *forest, const hth_keyspace *keyspace, uint32_t prompt, hth_row_kind kind,
                   uint32_t begin, uint32_t end)
{
    const hearth_token *tokens = forest->prompts[prompt];
    test_forest_row *row = &forest->rows[forest->n_rows];

    if (forest->n_rows == TEST_FOREST_ROWS_MAX)
        abort();
    *row = (test_forest_row){
        .meta = {
            .id = { .key = key_at(keyspace, tokens, end), .kind = kind },
            .parent = key_at(keyspace, tokens, begin),
            .first_position = begin,
            .n_tokens = end - begin,
        },
        .keyspace = keyspace,
        .tokens = tokens + begin,
        .superseded = -1,
    };
    row->image_bytes = 64 + (size_t)(row->meta.id.key.bytes[1] % 40 * 160);
    return (int)forest->n_rows++;
}

static void supersede(test_forest *forest, int successor, int superseded)
{
    forest->rows[successor].superseded = superseded;
    forest->rows[superseded].is_superseded = true;
}

/* What stands at the end of the prompt's blocks, and a tail that branches off after its first. */
static void add_leaves(test_forest *forest, const hth_keyspace *keyspace, uint32_t prompt)
{
    const uint32_t end = TEST_FOREST_BLOCKS * HTH_BLOCK_TOKENS;
    int first = add_row(forest, keyspace, prompt, HTH_ROW_TAIL, end, end + 24);
    int second = add_row(forest, keyspace, prompt, HTH_ROW_TAIL, end, end + 90);
    int third = add_row(forest, keyspace, prompt, HTH_ROW_TAIL, end, end + TEST_FOREST_REST);

    supersede(forest, second, first);
    supersede(forest, third, second);
    (void)add_row(forest, keyspace, prompt, HTH_ROW_LOGITS, end + TEST_FOREST_REST, end + TEST_FOREST_REST);
    (void)add_row(forest, keyspace, prompt, HTH_ROW_LOGITS, end, end);
    (void)add_row(forest, keyspace, prompt, HTH_ROW_STATE, end, end);
    if (prompt % 2 == 0)
        (void)add_row(forest, keyspace, prompt, HTH_ROW_TAIL, HTH_BLOCK_TOKENS, HTH_BLOCK_TOKENS + 60);
}

void test_forest_init(test_forest *forest)
{
    *forest = (test_forest){ .n_rows = 0 };
    for (uint32_t p = 0; p < TEST_FOREST_PROMPTS; p++)
        for (uint32_t i = 0; i < TEST_FOREST_TOKENS; i++)
            forest->prompts[p][i] = token_at(p, i);
    for (unsigned k = 0; k < TEST_FOREST_KEYSPACES; k++) {
        hth_keyspace *keyspace = &forest->keyspaces[k];

        *keyspace = (hth_keyspace){ .fingerprint = { 9, (uint8_t)k }, .quant_byte = 7, .ctx_params_hash = { 4, 5 } };
        for (uint32_t level = 0; level < TEST_FOREST_BLOCKS; level++)
            for (uint32_t p = 0; p < TEST_FOREST_PROMPTS; p += 1u << (TEST_FOREST_BLOCKS - 1 - level))
                (void)add_row(forest, keyspace, p, HTH_ROW_BLOCK, level * HTH_BLOCK_TOKENS,
                              (level + 1) * HTH_BLOCK_TOKENS);
        for (uint32_t p = 0; p < TEST_FOREST_PROMPTS; p++)
            add_leaves(forest, keyspace, p);
    }
}

const test_forest_row *test_forest_find(const test_forest *forest, const hth_row_id *id)
{
    for (size_t i = 0; i < forest->n_rows; i++)
        if (hth_row_id_equal(&forest->rows[i].meta.id, id))
            return &forest->rows[i];
    return NULL;
}

/* ---- images ---- */

static uint8_t image_byte(const test_forest_row *row, size_t i)
{
    const uint8_t *key = row->meta.id.key.bytes;

    return (uint8_t)(key[i % HTH_KEY_BYTES] + i / HTH_KEY_BYTES * 7 + (unsigned)row->meta.id.kind * 41);
}

static void fill(const test_forest_row *row, uint8_t *image)
{
    for (size_t i = 0; i < row->image_bytes; i++)
        image[i] = image_byte(row, i);
}

hth_save test_forest_save_of(const test_forest *forest, const test_forest_row *row, hearth_save_reason reason)
{
    return (hth_save){
        .keyspace = row->keyspace,
        .id = row->meta.id,
        .parent = row->meta.parent,
        .first_position = row->meta.first_position,
        .tokens = row->tokens,
        .n_tokens = row->meta.n_tokens,
        .context_size = 4096,
        .reason = reason,
        .engine_build = "test",
        .image_bytes = row->image_bytes,
        .superseded = row->superseded >= 0 ? &forest->rows[row->superseded].meta.id : NULL,
    };
}

bool test_forest_save(const test_forest *forest, const test_forest_row *row, hearth_save_reason reason,
                      hth_cache *cache)
{
    hth_save save = test_forest_save_of(forest, row, reason);
    hth_slab *slab = hth_cache_save_begin(cache, &save);

    if (!slab)
        return false;
    fill(row, hth_slab_image(slab));
    hth_cache_save_commit(cache, slab);
    return true;
}

/* ---- checks ---- */

static const char *difference(const test_forest_row *row, const hth_kvc_info *info, const uint8_t *image,
                              size_t image_bytes)
{
    uint32_t first_position = info->has_first_position ? info->first_position : 0;

    if (!info->has_kind || info->kind != (uint8_t)row->meta.id.kind)
        return "its kind";
    if (!info->has_own_key || !hth_key_equal(&info->own_key, &row->meta.id.key))
        return "its key";
    if (first_position != row->meta.first_position)
        return "its position";
    if (first_position > 0 && (!info->has_parent || !hth_key_equal(&info->parent, &row->meta.parent)))
        return "its parent";
    if (memcmp(info->keyspace.fingerprint, row->keyspace->fingerprint, sizeof(row->keyspace->fingerprint)) != 0)
        return "its keyspace";
    if (hth_kvc_n_tokens(info) != row->meta.n_tokens)
        return "how many tokens it has";
    for (size_t i = 0; i < row->meta.n_tokens; i++)
        if (hth_kvc_token(info, i) != row->tokens[i])
            return "its tokens";
    if (image_bytes != row->image_bytes)
        return "its size";
    for (size_t i = 0; i < image_bytes; i++)
        if (image[i] != image_byte(row, i))
            return "its image";
    return NULL;
}

const char *test_forest_difference(const test_forest_row *row, const hth_borrowed_row *borrowed)
{
    return difference(row, &borrowed->info, borrowed->image, borrowed->image_bytes);
}

const char *test_forest_file_difference(const test_forest_row *row, const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    if (!hth_kvc_parse(bytes, n_bytes, NULL, &info, &fault))
        return hth_kvc_reason_name(fault.reason);
    return difference(row, &info, bytes + info.image_offset, (size_t)info.image_byte_count);
}

void test_forest_path(const char *directory, const hth_row_id *id, char *path, size_t capacity)
{
    char rows[4096];

    (void)snprintf(rows, sizeof(rows), "%s/rows", directory);
    if (!hth_row_file_path(rows, id, path, capacity))
        abort();
}
