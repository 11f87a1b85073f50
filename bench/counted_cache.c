/*
 * counted_cache.c - hot paths of the cache: keys, lookups, saves, loans, and the reason of a miss
 */
#include <stdlib.h>
#include <string.h>

#include "cache/why.h"
#include "counted.h"
#include "report.h"

enum { N_TOKENS = 8192, N_BLOCKS = N_TOKENS / HTH_BLOCK_TOKENS, IMAGE_BYTES = 64 << 10, FLUSH_MS = 600000 };

typedef struct scene {
    hth_cache *cache;
    hth_keyspace keyspace;
    hth_key_stream *stream;
    hearth_token tokens[N_TOKENS];
} scene;

static void open_scene(scene *s, const char *directory)
{
    hth_cache_options options = {
        .ram_bytes_max = UINT64_C(16) << 20,
        .ram_memory_fd = -1,
        .directory = directory,
        .disk_bytes_max = UINT64_C(1) << 30,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = UINT64_C(1) << 30 },
    };
    hearth_error err = { .message = "" };

    s->keyspace = (hth_keyspace){ .quant_byte = 1 };
    hth_keyspace_set_fingerprint(&s->keyspace, (uint8_t[32]){ 7 });
    s->stream = hth_key_stream_new(&s->keyspace);
    if (!s->stream)
        hth_report_die("no memory for keys");
    for (size_t i = 0; i < N_TOKENS; i++)
        s->tokens[i] = (hearth_token)(i * 7919 % 32000);
    hth_report_check(hth_cache_open(&options, &s->cache, &err), &err);
}

static void close_scene(scene *s)
{
    (void)hth_cache_close(s->cache, FLUSH_MS); /* the process ends anyway */
    hth_key_stream_free(s->stream);
}

static void save(scene *s, hth_save *row)
{
    hth_slab *slab;

    row->keyspace = &s->keyspace;
    row->reason = HEARTH_SAVE_COLD;
    row->engine_build = "counted";
    row->image_bytes = IMAGE_BYTES;
    slab = hth_cache_save_begin(s->cache, row);
    if (!slab)
        hth_report_die("no room for a row");
    memset(hth_slab_image(slab), 7, IMAGE_BYTES);
    hth_cache_save_commit(s->cache, slab);
}

static void save_prompt(scene *s)
{
    hth_key key;

    hth_key_stream_reset(s->stream);
    hth_key_stream_key(s->stream, &key);
    for (size_t begin = 0; begin < N_TOKENS; begin += HTH_BLOCK_TOKENS) {
        hth_save row = {
            .id.kind = HTH_ROW_BLOCK,
            .parent = key,
            .first_position = (uint32_t)begin,
            .tokens = s->tokens + begin,
            .n_tokens = HTH_BLOCK_TOKENS,
        };

        hth_key_stream_push(s->stream, s->tokens + begin, HTH_BLOCK_TOKENS);
        hth_key_stream_key(s->stream, &key);
        row.id.key = key;
        save(s, &row);
    }
    if (!hth_cache_flush(s->cache, FLUSH_MS))
        hth_report_die("the rows were not written in time");
}

/* *out is released by the caller. */
static void look_up(scene *s, hth_lookup_way way, size_t n_found, hth_lookup *out)
{
    hth_lookup_options options = { .way = way, .n_limit = N_TOKENS };
    hearth_error err = { .message = "" };

    hth_report_check(hth_lookup_init(out, s->cache, &s->keyspace, s->stream, &options, s->tokens, N_TOKENS, &err),
                     &err);
    if (out->n_rows != n_found)
        hth_report_die("the lookup found %zu of %zu rows", out->n_rows, n_found);
}

static void count_lookup(scene *s, hth_lookup_way way, size_t n_found, const char *path)
{
    hth_lookup lookup;

    look_up(s, way, n_found, &lookup);
    hth_lookup_deinit(&lookup);
    hth_count_begin();
    look_up(s, way, n_found, &lookup);
    hth_count_end(path);
    hth_lookup_deinit(&lookup);
}

static void borrow(scene *s, const hth_lookup *lookup)
{
    hth_borrowed_row row;
    hearth_error err = { .message = "" };

    for (size_t i = 0; i < lookup->n_rows; i++) {
        hth_report_check(hth_cache_borrow(s->cache, &s->keyspace, &lookup->rows[i].meta, &row, &err), &err);
        hth_cache_return(s->cache, &row);
    }
}

static void count_loans(scene *s)
{
    hth_lookup lookup;

    look_up(s, HTH_LOOKUP_CELLS, N_BLOCKS, &lookup);
    borrow(s, &lookup);
    hth_count_begin();
    borrow(s, &lookup);
    hth_count_end("borrow 32 rows in RAM");
    hth_lookup_deinit(&lookup);
}

static void count_why(scene *s)
{
    hth_policy policy = hth_policy_default(N_TOKENS);
    hth_why_answer answer;
    hth_lookup lookup;

    look_up(s, HTH_LOOKUP_CELLS, 0, &lookup);
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            hth_count_begin();
        hth_why(s->cache, &s->keyspace, &lookup, &policy, s->tokens, N_TOKENS, 0, &answer);
    }
    hth_count_end("why 8192 tokens are not known");
    if (answer.miss != HEARTH_MISS_EVICTED)
        hth_report_die("the answer is %s", hearth_miss_name(answer.miss));
    hth_lookup_deinit(&lookup);
}

/* In RAM alone, so that no thread writes files meanwhile. */
static void count_saves(scene *s)
{
    open_scene(s, NULL);
    for (unsigned i = 0; i < 4; i++) {
        if (i == 3)
            hth_count_begin();
        save(s, &(hth_save){ .id = { .key.bytes = { (uint8_t)i }, .kind = HTH_ROW_BLOCK },
                             .tokens = s->tokens,
                             .n_tokens = HTH_BLOCK_TOKENS });
    }
    hth_count_end("save a row of 64 KiB in RAM");
    close_scene(s);
}

void hth_count_cache(const char *directory)
{
    static scene s;
    hearth_error err = { .message = "" };
    uint64_t freed;

    count_saves(&s);
    open_scene(&s, directory);
    count_lookup(&s, HTH_LOOKUP_KEYS, 0, "keys of 8192 tokens");
    save_prompt(&s);
    count_lookup(&s, HTH_LOOKUP_CELLS, N_BLOCKS, "lookup of 8192 tokens in RAM");
    count_loans(&s);
    hth_report_check(hth_cache_evict(s.cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, &err), &err);
    count_lookup(&s, HTH_LOOKUP_CELLS, N_BLOCKS, "lookup of 8192 tokens in files");
    hth_report_check(hth_cache_evict(s.cache, UINT64_MAX, HEARTH_EVICT_DISK, &freed, &err), &err);
    count_why(&s);
    close_scene(&s);
}
