/*
 * index_bench.c - the cost of many rows: opening the index of a file tier, asking it, and memory in the RAM tier
 *
 *   index_bench [--json|--markdown] [--verbose] [ROWS [DIRECTORY]]    100,000 rows below a new directory by default
 *
 * Fills an index with rows that have no files, opens the tier anew, and prints the times of opening and of a
 * probe, each as the median of several rounds, and the index's bytes a row.
 * As many rows of a page each then go into a RAM tier. The growth of the heap is their cost beside the arena.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/draw.h"
#include "base/hash.h"
#include "base/measure.h"
#include "base/os.h"
#include "cache/file_tier.h"
#include "cache/ram_tier.h"
#include "report.h"

enum { BATCH = 1000, PROMPT_BLOCKS = 30000 / HTH_BLOCK_TOKENS, ROUNDS = 7, PROBES = 100000 };

static hth_row_meta row_at(uint64_t number)
{
    hth_row_meta meta = {
        .id.kind = HTH_ROW_BLOCK,
        .first_position = (uint32_t)(number % PROMPT_BLOCKS) * HTH_BLOCK_TOKENS,
        .n_tokens = HTH_BLOCK_TOKENS,
        .bytes = 4 << 20,
        .last_used_time = 1700000000 + number / 10,
    };

    hth_sha256_of(&(uint64_t[2]){ 1, number }, 16, meta.id.key.bytes);
    hth_sha256_of(&(uint64_t[2]){ 1, number - 1 }, 16, meta.parent.bytes);
    return meta;
}

static void die(const char *what, const hearth_error *err)
{
    (void)fprintf(stderr, "index_bench: %s: %s\n", what, err->message);
    exit(1);
}

static hth_file_tier *open_tier(const char *directory)
{
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_MAX, .durable = true };
    hearth_error err = { .message = "" };
    hth_file_tier *tier;

    if (hth_file_tier_open(&options, &tier, &err) != HEARTH_OK)
        die("cannot open the tier", &err);
    return tier;
}

static void fill(hth_file_tier *tier, uint64_t n_rows)
{
    static hth_row_head rows[BATCH];
    hearth_error err = { .message = "" };

    for (uint64_t i = 0; i < n_rows; i += BATCH) {
        size_t n = n_rows - i < BATCH ? (size_t)(n_rows - i) : BATCH;

        for (size_t k = 0; k < n; k++) {
            rows[k] = (hth_row_head){ .meta = row_at(i + k), .has_tokens = true };
            for (size_t t = 0; t < HTH_BLOCK_TOKENS; t++)
                rows[k].tokens[t] = (hearth_token)((i + k) * HTH_BLOCK_TOKENS + t);
        }
        if (hth_index_publish(hth_file_tier_index(tier), rows, n, &err) != HEARTH_OK)
            die("cannot fill the index", &err);
    }
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(hth_os_monotonic_ns() - start_ns) * 1e-9;
}

/* Seconds a probe, one at a time. */
static double time_single(hth_file_tier *tier, const hth_row_id *ids, size_t n)
{
    uint64_t start = hth_os_monotonic_ns();

    for (size_t i = 0; i < n; i++)
        if (!hth_file_tier_has(tier, &ids[i], NULL))
            abort();
    return seconds_since(start) / (double)n;
}

static uint64_t index_bytes(const char *directory)
{
    char pattern[8192];
    uint64_t n_bytes = 0;
    struct stat st;
    glob_t found;

    (void)snprintf(pattern, sizeof(pattern), "%s/index/v*/data.mdb", directory);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    if (stat(found.gl_pathv[0], &st) == 0)
        n_bytes = (uint64_t)st.st_size;
    globfree(&found);
    return n_bytes;
}

/* ---- the RAM tier ---- */

/* Bytes of the heap, without memory that is mapped for the arena. 0 where the allocator does not tell. */
static size_t heap_bytes(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

/* The heap's bytes a row of the RAM tier; 0 where that cannot be known. */
static double ram_bytes_a_row(uint64_t n_rows)
{
    enum { ROW_BYTES = 4096 };
    hth_ram_tier_options options = { .bytes_max = n_rows * ROW_BYTES, .memory_fd = -1 };
    hearth_error err = { .message = "" };
    size_t before = heap_bytes();
    hth_ram_tier *tier;
    double bytes;

    if (hth_ram_tier_open(&options, &tier, &err) != HEARTH_OK)
        die("cannot open the RAM tier", &err);
    for (uint64_t i = 0; i < n_rows; i++) {
        hth_row_meta meta = row_at(i);
        hth_ram_row *row = hth_ram_tier_reserve(tier, ROW_BYTES);

        if (!row)
            abort();
        meta.bytes = ROW_BYTES;
        hth_ram_tier_unpin(tier, hth_ram_tier_insert(tier, row, &meta));
    }
    bytes = (double)(heap_bytes() - before) / (double)n_rows;
    hth_ram_tier_close(tier);
    return bytes;
}

/* ---- all of it ---- */

static void report_all(const hth_report *report, uint64_t n_rows, const hth_samples *opened, const hth_samples *single,
                       const char *directory)
{
    double bytes = ram_bytes_a_row(n_rows);
    char name[128];

    (void)snprintf(name, sizeof(name), "opening an index of %llu rows", (unsigned long long)n_rows);
    hth_report_number(report, name, hth_samples_median(opened) * 1e3, "ms", HTH_AT_MOST, 50);
    hth_report_number(report, "likewise, a probe of the index alone", hth_samples_median(single) * 1e6, "µs",
                      HTH_NO_BOUND, 0);
    hth_report_number(report, "likewise, the index's file, a row", (double)index_bytes(directory) / (double)n_rows,
                      "bytes", HTH_NO_BOUND, 0);
    if (bytes > 0) {
        (void)snprintf(name, sizeof(name), "memory of %llu rows in RAM beside the arena, a row",
                       (unsigned long long)n_rows);
        hth_report_number(report, name, bytes, "bytes", HTH_AT_MOST, 300);
    }
}

int main(int n_arguments, char **arguments)
{
    static hth_samples opened, single;
    hth_report report;
    uint64_t n_rows;
    const char *base = getenv("TMPDIR");
    hth_row_id *ids = malloc(PROBES * sizeof(*ids));
    char directory[4096];
    hth_file_tier *tier;

    n_arguments = hth_report_options(&report, n_arguments, arguments);
    n_rows = n_arguments > 1 ? strtoull(arguments[1], NULL, 10) : 100000;
    (void)snprintf(directory, sizeof(directory), "%s/hearth-index-bench-XXXXXX", base ? base : "/tmp");
    if (n_arguments > 2)
        (void)snprintf(directory, sizeof(directory), "%s", arguments[2]);
    if (n_rows == 0 || !ids || n_arguments > 3 || (n_arguments <= 2 && !mkdtemp(directory))) {
        (void)fprintf(stderr, "usage: index_bench [--json|--markdown] [--verbose] [ROWS [DIRECTORY]]\n");
        return 2;
    }
    tier = open_tier(directory);
    hth_file_tier_settle(tier);
    fill(tier, n_rows);
    hth_file_tier_close(tier);
    for (size_t i = 0; i < PROBES; i++)
        ids[i] = row_at((uint64_t)(hth_draw_uniform(0, i) * (double)n_rows)).id;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = hth_os_monotonic_ns();

        tier = open_tier(directory);
        hth_samples_add(&opened, seconds_since(start));
        hth_file_tier_settle(tier);
        hth_samples_add(&single, time_single(tier, ids, PROBES));
        hth_file_tier_close(tier);
    }
    report_all(&report, n_rows, &opened, &single, directory);
    free(ids);
    return 0;
}
