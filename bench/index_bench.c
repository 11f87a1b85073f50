/*
 * index_bench.c - what the index of a file tier costs: opening it, and asking it
 *
 *   index_bench [ROWS [DIRECTORY]]    100,000 rows below a new directory in $TMPDIR by default
 *
 * Fills an index with rows that have no files, opens the tier anew, and prints the times of opening, of one probe alone
 * and of one in a lookup of a 30,000-token prompt, each as the best of several rounds, and the index's bytes a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "cache/file_tier.h"

enum { BATCH = 1000, PROMPT_BLOCKS = 30000 / HTH_BLOCK_TOKENS, ROUNDS = 5, PROBES = 100000 };

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
    static hth_row_meta rows[BATCH];
    hearth_error err = { .message = "" };

    for (uint64_t i = 0; i < n_rows; i += BATCH) {
        size_t n = n_rows - i < BATCH ? (size_t)(n_rows - i) : BATCH;

        for (size_t k = 0; k < n; k++)
            rows[k] = row_at(i + k);
        if (hth_index_publish(hth_file_tier_index(tier), rows, n, &err) != HEARTH_OK)
            die("cannot fill the index", &err);
    }
}

static double best(double seconds, double so_far)
{
    return so_far == 0 || seconds < so_far ? seconds : so_far;
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

/* Seconds a probe, as many at a time as the prompt has blocks. */
static double time_prompt(hth_file_tier *tier, const hth_row_id *ids, size_t n)
{
    hth_row_meta metas[PROMPT_BLOCKS];
    bool found[PROMPT_BLOCKS];
    uint64_t start = hth_os_monotonic_ns();
    size_t n_done = 0;

    for (; n_done + PROMPT_BLOCKS <= n; n_done += PROMPT_BLOCKS)
        if (hth_file_tier_has_many(tier, ids + n_done, PROMPT_BLOCKS, metas, found) != PROMPT_BLOCKS)
            abort();
    return seconds_since(start) / (double)n_done;
}

static uint64_t index_bytes(const char *directory)
{
    char boot[64], path[8192];
    struct stat st;

    if (!hth_os_boot_id(boot, sizeof(boot)))
        return 0;
    (void)snprintf(path, sizeof(path), "%s/index/v1-%s/data.mdb", directory, boot);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int main(int n_arguments, char **arguments)
{
    uint64_t n_rows = n_arguments > 1 ? strtoull(arguments[1], NULL, 10) : 100000;
    const char *base = getenv("TMPDIR");
    hth_row_id *ids = malloc(PROBES * sizeof(*ids));
    double open_s = 0, single_s = 0, prompt_s = 0;
    char directory[4096];
    hth_file_tier *tier;
    uint64_t seed = 1;

    (void)snprintf(directory, sizeof(directory), "%s/hearth-index-bench-XXXXXX", base ? base : "/tmp");
    if (n_arguments > 2)
        (void)snprintf(directory, sizeof(directory), "%s", arguments[2]);
    if (n_rows == 0 || !ids || (n_arguments <= 2 && !mkdtemp(directory))) {
        (void)fprintf(stderr, "usage: index_bench [ROWS [DIRECTORY]]\n");
        return 2;
    }
    tier = open_tier(directory);
    hth_file_tier_settle(tier);
    fill(tier, n_rows);
    hth_file_tier_close(tier);
    for (size_t i = 0; i < PROBES; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ids[i] = row_at((seed >> 33) % n_rows).id;
    }

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = hth_os_monotonic_ns();

        tier = open_tier(directory);
        open_s = best(seconds_since(start), open_s);
        hth_file_tier_settle(tier);
        single_s = best(time_single(tier, ids, PROBES), single_s);
        prompt_s = best(time_prompt(tier, ids, PROBES), prompt_s);
        hth_file_tier_close(tier);
    }
    (void)printf("rows %llu\nopen_ms %.2f\nprobe_us %.3f\nprobe_in_prompt_us %.3f\nindex_bytes_a_row %.0f\n",
                 (unsigned long long)n_rows, open_s * 1e3, single_s * 1e6, prompt_s * 1e6,
                 (double)index_bytes(directory) / (double)n_rows);
    free(ids);
    return 0;
}
