/*
 * hit_bench.c - the cost of an exact hit from each tier, against memcpy of the same bytes and against the device
 *
 *   hit_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY RAM_FILE_DIRECTORY TIERS [ROUNDS [N_PROMPTS]]
 *
 * TIERS is a list of ram, ram_file, disk and cold (the disk, with the rows out of the page cache), with commas.
 *
 * One process makes a few prompts known (known.h) and asks for them in turn, emptying the context before each request.
 * For the slower tiers the RAM tier has room for one and a half prompts. So a row of three prompts in turn is never in
 * RAM when it is asked for, and slabs are reused as in a cache that has been full for a while.
 *
 * After each request the same bytes are copied with memcpy, and the medians are compared. The copy goes to the places
 * of a restore: out of each block's slab into its place in the buffer of each layer's K and V. One memcpy of as many
 * bytes is reported beside it, without a target: from the size on where the C library writes past the processor's
 * caches, it is faster than any copy into places. A hit's time is that of its lookup and restore: hashing, finding,
 * reading, checking, unpacking, logits. Every request is checked to be an exact hit from the measured tier, with all
 * rows read from there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "rows/row_file.h"
#include "cold_files.h"
#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { ROUNDS = 15, N_PROMPTS = 3, WARM_UP_ROUNDS = 2, FLUSH_MS = 600000, PATH_BYTES = 8192 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    size_t n_tokens;
    const char *directory;
    const char *ram_file_directory;
    const char *tiers;
    unsigned n_rounds;
    unsigned n_prompts;

    hearth_runtime *runtime;
    hearth_model *model;
    hth_known known;
    hearth_token *tokens;  /* [n_tokens] */
    uint64_t prompt_bytes; /* of a prompt's rows in RAM */
    hth_copy copy;
} bench;

/* What was measured in one tier. */
typedef struct hit_times {
    hth_samples own;
    hth_samples memcpy; /* into the same places */
    hth_samples plain;  /* in one piece */
    hth_samples lookup;
    hth_samples first_token;
    hth_samples beside;  /* the part of the first token's time outside of the restore */
    hth_samples in_turn; /* device alone, MB/s */
    hth_samples at_once;
    hth_samples own_rate; /* MB/s of files */
} hit_times;

/* ---- runtimes ---- */

static void open_runtime(bench *b, uint64_t ram_bytes_max, bool with_ram_files)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.ram_bytes_max = ram_bytes_max;
    options.cache_directory = b->directory;
    options.ram_file_directory = with_ram_files ? b->ram_file_directory : NULL;
    options.disk_free_min = 0;
    options.ram_file_free_min = 0;
    options.write_queue_bytes_max = UINT64_MAX / 2;
    options.log = hth_report_log;
    model_options.n_ctx = b->n_tokens < 2 * HTH_BLOCK_TOKENS ? (uint32_t)(2 * HTH_BLOCK_TOKENS) : (uint32_t)b->n_tokens;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->model, &err), &err);
}

static void close_runtime(bench *b)
{
    hearth_model_unref(b->model);
    hearth_runtime_close(b->runtime);
    b->model = NULL;
    b->runtime = NULL;
}

static uint64_t ram_bytes(const bench *b)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };
    hearth_error err = { .message = "" };

    hth_report_check(hearth_runtime_counters(b->runtime, &counters, &err), &err);
    return counters.ram_bytes;
}

/* Make the prompts known to every tier. */
static void fill(bench *b)
{
    hth_cache *cache = hth_runtime_cache(b->runtime);
    hearth_error err = { .message = "" };
    uint64_t before;

    hth_report_check(hth_known_learn(b->runtime, b->model, &b->known, &err), &err);
    before = ram_bytes(b);
    for (unsigned i = 0; i < b->n_prompts; i++)
        hth_report_check(hth_known_add(cache, &b->known, i, b->n_tokens, &err), &err);
    b->prompt_bytes = (ram_bytes(b) - before) / b->n_prompts;
    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
}

/* ---- one request ---- */

static uint64_t rows_read(const bench *b)
{
    hearth_times times = { .struct_size = sizeof(times) };
    hearth_error err = { .message = "" };

    hth_report_check(hearth_runtime_times(b->runtime, HEARTH_PATH_READ, &times, &err), &err);
    return times.count;
}

static void empty_context(bench *b)
{
    hearth_error err = { .message = "" };

    hth_report_check(hearth_model_save(b->model, HEARTH_SAVE_EVICT, FLUSH_MS, &err), &err);
    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
}

/* Ask for prompt n, and check the tier that it came from. */
static hearth_stats hit(bench *b, unsigned n, hearth_tier tier, bool must_fit)
{
    const hearth_request request = hth_known_request(b->tokens, b->n_tokens, 1);
    uint64_t n_rows = b->n_tokens / HTH_BLOCK_TOKENS + 1;
    uint64_t n_read = rows_read(b);
    hearth_error err = { .message = "" };
    const hearth_result *result;
    hearth_stats stats;

    hth_known_tokens(n, b->tokens, b->n_tokens);
    hth_report_check(hearth_complete(b->model, &request, &result, &err), &err);
    stats = *result->stats;
    hearth_result_unref(result);
    n_read = rows_read(b) - n_read;
    if (stats.hit != HEARTH_HIT_EXACT || stats.cached_tokens != b->n_tokens)
        hth_report_die("prompt %u was no exact hit: %s, %u of %zu tokens", n, hearth_hit_name(stats.hit),
                       stats.cached_tokens, b->n_tokens);
    if (must_fit && (stats.tier != tier || n_read != (tier == HEARTH_TIER_RAM ? 0 : n_rows)))
        hth_report_die("prompt %u came from %s with %" PRIu64 " of %" PRIu64 " rows read; it should be %s", n,
                       hearth_tier_name(stats.tier), n_read, n_rows, hearth_tier_name(tier));
    return stats;
}

static void measure_hit(bench *b, unsigned n, hearth_tier tier, hit_times *times)
{
    hearth_stats stats = hit(b, n, tier, true);

    if (b->copy.n_bytes != stats.restored_bytes) {
        hth_copy_deinit(&b->copy);
        if (!hth_copy_init(&b->copy, (size_t)stats.restored_bytes))
            hth_report_die("no memory to copy %" PRIu64 " bytes", stats.restored_bytes);
    }
    hth_samples_add(&times->own, stats.lookup_ms + stats.restore_ms);
    hth_samples_add(&times->lookup, stats.lookup_ms);
    hth_samples_add(&times->first_token, stats.ttft_ms);
    hth_samples_add(&times->beside, stats.ttft_ms - stats.restore_ms);
    hth_samples_add(&times->memcpy,
                    hth_copy_pieces_ms(&b->copy, b->n_tokens / HTH_BLOCK_TOKENS, b->known.n_tensors,
                                       b->known.kv_bytes_a_token * HTH_BLOCK_TOKENS / b->known.n_tensors));
    hth_samples_add(&times->plain, hth_copy_ms(&b->copy));
}

/* ---- the device ---- */

typedef struct row_paths {
    char **paths;
    size_t n;
    uint64_t n_bytes;
} row_paths;

static void add_path(row_paths *files, const char *directory, const hth_key *key, hth_row_kind kind)
{
    hth_row_id id = { .key = *key, .kind = kind };
    char rows[PATH_BYTES / 2], *path = malloc(PATH_BYTES);
    struct stat st;

    (void)snprintf(rows, sizeof(rows), "%s/rows", directory);
    if (!path || !hth_row_file_path(rows, &id, path, PATH_BYTES))
        hth_report_die("no room for the path of a row");
    files->paths[files->n++] = path;
    if (stat(path, &st) == 0)
        files->n_bytes += (uint64_t)st.st_size;
}

/* The files of prompt n. */
static row_paths paths_of(bench *b, unsigned n)
{
    hth_key_stream *stream = hth_key_stream_new(&b->known.keyspace);
    row_paths files = { .paths = calloc(b->n_tokens / HTH_BLOCK_TOKENS + 1, sizeof(char *)) };
    hth_key key;

    if (!stream || !files.paths)
        hth_report_die("no memory for the paths of a prompt");
    hth_known_tokens(n, b->tokens, b->n_tokens);
    for (size_t i = 0; i < b->n_tokens; i += HTH_BLOCK_TOKENS) {
        hth_key_stream_push(stream, b->tokens + i, HTH_BLOCK_TOKENS);
        hth_key_stream_key(stream, &key);
        add_path(&files, b->directory, &key, HTH_ROW_BLOCK);
    }
    add_path(&files, b->directory, &key, HTH_ROW_LOGITS);
    hth_key_stream_free(stream);
    return files;
}

static void paths_free(row_paths *files)
{
    for (size_t i = 0; i < files->n; i++)
        free(files->paths[i]);
    free(files->paths);
}

/* Where the device cannot be read this way there is no sample. */
static void read_device(const row_paths *files, hth_direct_way way, hth_samples *rates)
{
    uint64_t n_bytes;
    double ms;

    if (hth_files_read_direct(files->paths, files->n, way, &n_bytes, &ms))
        hth_samples_add(rates, (double)n_bytes / 1e3 / ms);
}

static void drop_pages(const row_paths *files)
{
    int64_t left = hth_files_drop(files->paths, files->n);

    if (left != 0)
        (void)fprintf(stderr, "bench: %" PRId64 " bytes of the rows stay in the page cache (-1: unknown)\n", left);
}

/* A hit from a cold page cache and the device alone, in alternating order. */
static void measure_cold(bench *b, unsigned n, unsigned round, hit_times *times)
{
    row_paths files = paths_of(b, n);

    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned what = (turn + round) % 3;

        drop_pages(&files);
        if (what == 0)
            measure_hit(b, n, HEARTH_TIER_DISK, times);
        else if (what == 1)
            read_device(&files, HTH_DIRECT_IN_TURN, &times->in_turn);
        else
            read_device(&files, HTH_DIRECT_AT_ONCE, &times->at_once);
    }
    hth_samples_add(&times->own_rate, (double)files.n_bytes / 1e3 / times->own.values[times->own.n - 1]);
    paths_free(&files);
}

/* ---- tiers ---- */

typedef struct tier_case {
    const char *name; /* in the list of tiers */
    const char *title;
    hearth_tier tier;
    bool is_cold;
    double ratio_max;
} tier_case;

static const tier_case cases[] = {
    { .name = "ram", .title = "RAM", .tier = HEARTH_TIER_RAM, .ratio_max = 1.5 },
    { .name = "ram_file", .title = "ram_file", .tier = HEARTH_TIER_RAM_FILE, .ratio_max = 3 },
    { .name = "disk", .title = "disk, warm page cache", .tier = HEARTH_TIER_DISK, .ratio_max = 3.5 },
    { .name = "cold", .title = "disk, cold page cache", .tier = HEARTH_TIER_DISK, .is_cold = true },
};

static bool is_wanted(const bench *b, const tier_case *c)
{
    size_t n = strlen(c->name);

    for (const char *at = b->tiers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, c->name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

/* The parts of the time, by the runtime's own counters. */
static void show_paths(const bench *b, unsigned n_hits)
{
    static const hearth_path paths[] = { HEARTH_PATH_LOOKUP, HEARTH_PATH_READ, HEARTH_PATH_UNPACK };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        hearth_times times = { .struct_size = sizeof(times) };
        hearth_error err = { .message = "" };

        hth_report_check(hearth_runtime_times(b->runtime, paths[i], &times, &err), &err);
        hth_report_detail(&b->report, "%-6s %8.3f ms a hit in all, %5" PRIu64 " times, p50 %.3f ms, p99 %.3f ms",
                          hearth_path_name(paths[i]), (double)times.total_ns * 1e-6 / n_hits, times.count,
                          (double)times.p50_ns * 1e-6, (double)times.p99_ns * 1e-6);
    }
}

static void report_cold(const bench *b, const char *name, const char *peer, const hth_samples *own,
                        const hth_samples *device)
{
    if (device->n > 0)
        hth_report_medians(&b->report, name, "MB/s", own, peer, device, HTH_AT_LEAST, 0.8);
    else
        (void)fprintf(stderr, "bench: the rows cannot be read with %s here; that is not measured\n", peer);
}

static void report_case(const bench *b, const tier_case *c, const hit_times *times)
{
    /* A long restore has a target of its own. */
    double ratio_max = b->n_tokens >= 32768 && c->tier == HEARTH_TIER_RAM ? 2 : c->ratio_max;
    char name[128], peer[64];

    (void)snprintf(name, sizeof(name), "exact hit, %zu tokens, %s", b->n_tokens, c->title);
    if (c->is_cold) {
        report_cold(b, name, "O_DIRECT as dd, 1 MiB", &times->own_rate, &times->in_turn);
        report_cold(b, name, "O_DIRECT as fio, depth 64", &times->own_rate, &times->at_once);
    } else {
        (void)snprintf(peer, sizeof(peer), "memcpy of %.1f MB into the same places", (double)b->copy.n_bytes * 1e-6);
        hth_report_medians(&b->report, name, "ms", &times->own, peer, &times->memcpy, HTH_AT_MOST, ratio_max);
        hth_report_medians(&b->report, name, "ms", &times->own, "in one piece", &times->plain, HTH_NO_BOUND, 0);
        hth_report_number(&b->report, "likewise, the first token after the restore", hth_samples_median(&times->beside),
                          "ms", HTH_AT_MOST, 1);
    }
    hth_report_detail(&b->report, "lookup %.3f ms, first token %.3f ms", hth_samples_median(&times->lookup),
                      hth_samples_median(&times->first_token));
}

static void measure_case(bench *b, const tier_case *c)
{
    hit_times *times = calloc(1, sizeof(*times));
    hearth_error err = { .message = "" };

    if (!times)
        hth_report_die("no memory for samples");
    for (unsigned i = 0; i < WARM_UP_ROUNDS * b->n_prompts; i++) {
        (void)hit(b, i % b->n_prompts, c->tier, false);
        empty_context(b);
    }
    hth_report_check(hearth_runtime_counters_reset(b->runtime, &err), &err);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        if (c->is_cold)
            measure_cold(b, i % b->n_prompts, i, times);
        else
            measure_hit(b, i % b->n_prompts, c->tier, times);
        empty_context(b);
    }
    report_case(b, c, times);
    show_paths(b, b->n_rounds);
    free(times);
}

/* ---- all of it ---- */

static bool read_arguments(bench *b, int n_arguments, char **arguments)
{
    n_arguments = hth_report_options(&b->report, n_arguments, arguments);
    if (n_arguments < 6 || n_arguments > 8)
        return false;
    b->model_path = arguments[1];
    b->n_tokens = strtoul(arguments[2], NULL, 10);
    b->directory = arguments[3];
    b->ram_file_directory = arguments[4];
    b->tiers = arguments[5];
    b->n_rounds = n_arguments > 6 ? (unsigned)strtoul(arguments[6], NULL, 10) : ROUNDS;
    b->n_prompts = n_arguments > 7 ? (unsigned)strtoul(arguments[7], NULL, 10) : N_PROMPTS;
    b->tokens = malloc(b->n_tokens * sizeof(*b->tokens));
    return b->n_tokens > 0 && b->n_tokens % HTH_BLOCK_TOKENS == 0 && b->n_rounds > 0 && b->n_prompts > 0 && b->tokens;
}

int main(int n_arguments, char **arguments)
{
    bench b = { .n_tokens = 0 };

    if (!read_arguments(&b, n_arguments, arguments)) {
        (void)fprintf(stderr, "usage: hit_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY "
                              "RAM_FILE_DIRECTORY ram,ram_file,disk,cold [ROUNDS [N_PROMPTS]]\n"
                              "N_TOKENS is a multiple of 256. From files, three prompts are needed.\n");
        return 2;
    }
    open_runtime(&b, UINT64_C(16) << 30, is_wanted(&b, &cases[1]));
    fill(&b);
    if (is_wanted(&b, &cases[0]))
        measure_case(&b, &cases[0]);
    close_runtime(&b);
    for (size_t i = 1; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!is_wanted(&b, &cases[i]))
            continue;
        open_runtime(&b, b.prompt_bytes * 3 / 2, cases[i].tier == HEARTH_TIER_RAM_FILE);
        measure_case(&b, &cases[i]);
        close_runtime(&b);
    }
    hth_known_deinit(&b.known);
    hth_copy_deinit(&b.copy);
    free(b.tokens);
    return 0;
}
