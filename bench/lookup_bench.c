/*
 * lookup_bench.c - the cost of finding all rows of a long prompt, beside hashing it
 *
 *   lookup_bench [--json|--markdown] [--verbose] N_TOKENS DIRECTORY [ROUNDS]
 *
 * Saves the rows of a prompt with small images and looks the prompt up, with the rows in RAM and again with the rows in
 * files only. A probe is the question for one row: each block, the tail, the logits. Its time is that of the lookup
 * less that of hashing alone, which is measured in turn. Hashing is reported by itself, too, and once more by this
 * program run again without the processor's SHA instructions. Consecutive lookups find their data in the processor's
 * caches. The cost after a restore, which displaces that data, is reported beside it, without a target.
 *
 * Then many prompts are saved that share most of their only block. With the rows in files only, two are looked up: a
 * new one, and a known one whose tail a longer row has superseded. The opened files are counted. Last, all rows are
 * evicted, and the program asks why they are not found.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"
#include "cache/why.h"
#include "report.h"

/* Prompts that share their first tokens; more than a lookup compares for a new prompt. */
enum { SIBLINGS = 4000, SHARED_TOKENS = 200, SIBLING_TOKENS = 220 };

enum { ROUNDS = 200, IMAGE_BYTES = 512, COLD_BYTES = 64 << 20, FLUSH_MS = 600000, NEXT_TURN_TOKENS = 50 };

/* OpenSSL's mask of what the processor can do: the second word without SHA. Only x86 has it. */
#define WITHOUT_SHA ":~0x20000000"

typedef struct bench {
    hth_fs fs; /* the system's, which counts for the thread that looks up */
    uint64_t n_opens;
    pthread_t thread;
    hth_report report;
    size_t n_tokens;
    const char *directory;
    unsigned n_rounds;
    hearth_token *tokens;
    hth_keyspace keyspace;
    hth_key_stream *stream;
    hth_cache *cache;
    hth_copy copy; /* empties the processor's caches */
} bench;

static int count_open(void *context, const char *path, hth_fs_mode mode)
{
    bench *b = context;

    if (pthread_equal(b->thread, pthread_self()))
        b->n_opens++;
    return hth_fs_system()->open(hth_fs_system()->context, path, mode);
}

static void open_cache(bench *b)
{
    hth_cache_options options = {
        .fs = &b->fs,
        .ram_bytes_max = UINT64_C(64) << 20,
        .ram_memory_fd = -1,
        .directory = b->directory,
        .disk_bytes_max = UINT64_C(1) << 30,
        .n_writer_threads = 2,
        .write_limits = { .queue_rows_max = 100000, .queue_bytes_max = UINT64_C(1) << 30 },
    };
    hearth_error err = { .message = "" };

    b->fs = *hth_fs_system();
    b->fs.context = b; /* the system's own operations have none */
    b->fs.open = count_open;
    b->thread = pthread_self();
    hth_report_check(hth_cache_open(&options, &b->cache, &err), &err);
}

/* ---- rows ---- */

static void save(bench *b, hth_save *row)
{
    hth_slab *slab;

    row->keyspace = &b->keyspace;
    row->reason = HEARTH_SAVE_COLD;
    row->engine_build = "bench";
    row->image_bytes = IMAGE_BYTES;
    slab = hth_cache_save_begin(b->cache, row);
    if (!slab)
        hth_report_die("no room for a row");
    memset(hth_slab_image(slab), 7, IMAGE_BYTES);
    hth_cache_save_commit(b->cache, slab);
}

/* Blocks, a tail where there is one, logits; returns how many rows that are. */
static size_t save_prompt(bench *b)
{
    size_t n_rows = 0;
    hth_key key;

    hth_key_stream_reset(b->stream);
    hth_key_stream_key(b->stream, &key);
    for (size_t begin = 0; begin < b->n_tokens; begin += HTH_BLOCK_TOKENS) {
        size_t n = b->n_tokens - begin < HTH_BLOCK_TOKENS ? b->n_tokens - begin : HTH_BLOCK_TOKENS;
        hth_save row = {
            .id.kind = n == HTH_BLOCK_TOKENS ? HTH_ROW_BLOCK : HTH_ROW_TAIL,
            .parent = key,
            .first_position = (uint32_t)begin,
            .tokens = b->tokens + begin,
            .n_tokens = (uint32_t)n,
        };

        hth_key_stream_push(b->stream, b->tokens + begin, n);
        hth_key_stream_key(b->stream, &key);
        row.id.key = key;
        save(b, &row);
        n_rows++;
    }
    save(b, &(hth_save){
                .id = { .key = key, .kind = HTH_ROW_LOGITS }, .parent = key, .first_position = (uint32_t)b->n_tokens });
    if (!hth_cache_flush(b->cache, FLUSH_MS))
        hth_report_die("the rows were not written in time");
    return n_rows + 1;
}

/* ---- lookups ---- */

/* Milliseconds of one lookup, which must find everything in that tier. */
static double look_up(bench *b, hth_lookup_way way, hearth_tier tier, size_t n_rows)
{
    hth_lookup_options options = { .way = way, .n_limit = b->n_tokens };
    hearth_error err = { .message = "" };
    hth_lookup lookup;
    uint64_t begin = hth_os_monotonic_ns();
    double ms;

    hth_report_check(
        hth_lookup_init(&lookup, b->cache, &b->keyspace, b->stream, &options, b->tokens, b->n_tokens, &err), &err);
    ms = hth_ms_since(begin);
    if (way != HTH_LOOKUP_KEYS && (lookup.n_rows + 1 != n_rows || lookup.logits_tier != tier))
        hth_report_die("the lookup found %zu of %zu rows, and logits in %s", lookup.n_rows, n_rows - 1,
                       hearth_tier_name(lookup.logits_tier));
    hth_lookup_deinit(&lookup);
    return ms;
}

static void measure_probes(bench *b, hearth_tier tier, size_t n_rows, bool is_cold)
{
    static hth_samples with, keys;
    char name[128];
    double us;

    with.n = keys.n = 0;
    for (unsigned i = 0; i < b->n_rounds; i++) {
        if (is_cold)
            (void)hth_copy_ms(&b->copy);
        hth_samples_add(&keys, look_up(b, HTH_LOOKUP_KEYS, tier, n_rows));
        if (is_cold)
            (void)hth_copy_ms(&b->copy);
        hth_samples_add(&with, look_up(b, HTH_LOOKUP_CELLS, tier, n_rows));
    }
    us = (hth_samples_median(&with) - hth_samples_median(&keys)) * 1e3 / (double)n_rows;
    (void)snprintf(name, sizeof(name), "lookup of %zu tokens, %zu rows in %s%s, a probe beside the hashing",
                   b->n_tokens, n_rows, tier == HEARTH_TIER_RAM ? "RAM" : "files",
                   is_cold ? ", processor caches cold" : "");
    hth_report_number(&b->report, name, us, "µs", is_cold ? HTH_NO_BOUND : HTH_AT_MOST, 1);
    hth_report_detail(&b->report, "lookup %.4f ms, of that hashing %.4f ms; lookups %.4f .. %.4f ms",
                      hth_samples_median(&with), hth_samples_median(&keys), hth_samples_min(&with),
                      hth_samples_max(&with));
}

/* ---- siblings ---- */

/* Tokens of prompt number i of those that share their first ones. */
static void make_sibling(hearth_token *tokens, unsigned i)
{
    for (unsigned k = 0; k < SIBLING_TOKENS; k++)
        tokens[k] = (hearth_token)(k < SHARED_TOKENS ? 1000000 + k : 2000000 + i * 100 + k);
}

static void save_siblings(bench *b)
{
    hearth_token tokens[SIBLING_TOKENS];
    hth_key none;

    hth_key_stream_reset(b->stream);
    hth_key_stream_key(b->stream, &none);
    for (unsigned i = 0; i < SIBLINGS; i++) {
        hth_save row = { .id.kind = HTH_ROW_TAIL, .parent = none, .tokens = tokens, .n_tokens = SIBLING_TOKENS };

        make_sibling(tokens, i);
        hth_key_stream_reset(b->stream);
        hth_key_stream_push(b->stream, tokens, SIBLING_TOKENS - 5);
        hth_key_stream_key(b->stream, &row.id.key);
        save(b, &(hth_save){ .id = { .key = row.id.key, .kind = HTH_ROW_LOGITS },
                             .parent = row.id.key,
                             .first_position = SIBLING_TOKENS - 5 });
        hth_key_stream_push(b->stream, tokens + SIBLING_TOKENS - 5, 5);
        hth_key_stream_key(b->stream, &row.id.key);
        save(b, &row);
    }
    if (!hth_cache_flush(b->cache, FLUSH_MS))
        hth_report_die("the rows were not written in time");
}

/* Look up the first n_tokens of sibling i, of which n_expected must be found. */
static void measure_sibling(bench *b, const char *what, unsigned i, uint32_t n_tokens, uint32_t n_expected)
{
    static hth_samples lookups;
    hth_lookup_options options = { .way = HTH_LOOKUP_CELLS, .n_limit = n_tokens };
    hearth_token tokens[SIBLING_TOKENS];
    hearth_error err = { .message = "" };
    char name[128];

    lookups.n = 0;
    make_sibling(tokens, i);
    b->n_opens = 0;
    for (unsigned round = 0; round < b->n_rounds; round++) {
        uint64_t begin = hth_os_monotonic_ns();
        hth_lookup lookup;

        hth_report_check(hth_lookup_init(&lookup, b->cache, &b->keyspace, b->stream, &options, tokens, n_tokens, &err),
                         &err);
        hth_samples_add(&lookups, hth_ms_since(begin));
        if (lookup.n_cached != n_expected)
            hth_report_die("the lookup found %u tokens of %u", lookup.n_cached, n_expected);
        hth_lookup_deinit(&lookup);
    }
    (void)snprintf(name, sizeof(name), "lookup of %s among %d siblings in files", what, SIBLINGS);
    hth_report_number(&b->report, name, hth_samples_median(&lookups) * 1e3, "µs", HTH_NO_BOUND, 0);
    hth_report_number(&b->report, "likewise, files opened for one", (double)b->n_opens / b->n_rounds, "", HTH_NO_BOUND,
                      0);
}

static void measure_siblings(bench *b)
{
    hearth_error err = { .message = "" };
    uint64_t freed;

    save_siblings(b);
    hth_report_check(hth_cache_evict(b->cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, &err), &err);
    measure_sibling(b, "a new prompt", SIBLINGS, SIBLING_TOKENS, SHARED_TOKENS);
    measure_sibling(b, "a prompt seen before", 0, SIBLING_TOKENS - 5, SIBLING_TOKENS - 5);
}

/* Microseconds of one answer, which must be that one. */
static void measure_why(bench *b, const char *what, size_t n_tokens, hearth_miss expected)
{
    static hth_samples answers;
    hth_lookup_options options = { .way = HTH_LOOKUP_CELLS, .n_limit = n_tokens };
    hth_policy policy = hth_policy_default(UINT32_MAX / 2);
    hearth_error err = { .message = "" };
    hth_why_answer answer;
    hth_lookup lookup;
    char name[128];

    answers.n = 0;
    hth_report_check(hth_lookup_init(&lookup, b->cache, &b->keyspace, b->stream, &options, b->tokens, n_tokens, &err),
                     &err);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        uint64_t begin = hth_os_monotonic_ns();

        hth_why(b->cache, &b->keyspace, &lookup, &policy, b->tokens, n_tokens, 0, &answer);
        hth_samples_add(&answers, hth_ms_since(begin));
        if (answer.miss != expected)
            hth_report_die("the answer is %s instead of %s", hearth_miss_name(answer.miss), hearth_miss_name(expected));
    }
    hth_lookup_deinit(&lookup);
    (void)snprintf(name, sizeof(name), "why a prompt of %zu tokens is not known: %s", n_tokens, what);
    hth_report_number(&b->report, name, hth_samples_median(&answers) * 1e3, "µs", HTH_NO_BOUND, 0);
}

/* All rows are evicted for it. */
static void measure_answers(bench *b)
{
    hearth_error err = { .message = "" };
    uint64_t freed;

    hth_report_check(hth_cache_evict(b->cache, UINT64_MAX, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK, &freed, &err), &err);
    measure_why(b, "evicted", b->n_tokens, HEARTH_MISS_EVICTED);
    measure_why(b, "evicted, as the turn before it", b->n_tokens + NEXT_TURN_TOKENS, HEARTH_MISS_EVICTED);
    hth_key_stream_free(b->stream);
    b->keyspace.quant_byte++; /* its keys are other ones */
    b->stream = hth_key_stream_new(&b->keyspace);
    if (!b->stream)
        hth_report_die("no memory for a prompt");
    measure_why(b, "never seen", b->n_tokens, HEARTH_MISS_NEVER_SEEN);
}

static void measure_hashing(bench *b, const char *how)
{
    static hth_samples keys;
    char name[128];

    for (unsigned i = 0; i < b->n_rounds; i++)
        hth_samples_add(&keys, look_up(b, HTH_LOOKUP_KEYS, HEARTH_TIER_NONE, 0));
    (void)snprintf(name, sizeof(name), "hashing all keys of %zu tokens%s", b->n_tokens, how);
    hth_report_number(&b->report, name, hth_samples_median(&keys) * 1e3, "µs", HTH_NO_BOUND, 0);
}

/* This program again, for hashing alone, with another idea of the processor. */
static void run_without_sha(const bench *b, const char *self)
{
    static const char *const forms[] = {
        [HTH_REPORT_TEXT] = "--text",
        [HTH_REPORT_MARKDOWN] = "--markdown",
        [HTH_REPORT_JSON] = "--json",
    };
    char n_tokens[32], n_rounds[32];
    int status = 0;
    pid_t pid;

    (void)snprintf(n_tokens, sizeof(n_tokens), "%zu", b->n_tokens);
    (void)snprintf(n_rounds, sizeof(n_rounds), "%u", b->n_rounds);
    pid = fork();
    if (pid == 0) {
        (void)setenv("OPENSSL_ia32cap", WITHOUT_SHA, 1); /* else it is told twice the same, with SHA */
        execl(self, self, forms[b->report.form], n_tokens, "-", n_rounds, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        hth_report_die("cannot run '%s' again", self);
}

/* ---- all of it ---- */

static void make_prompt(bench *b)
{
    b->tokens = malloc((b->n_tokens + NEXT_TURN_TOKENS) * sizeof(*b->tokens));
    b->keyspace = (hth_keyspace){ .quant_byte = 1 };
    hth_keyspace_set_fingerprint(&b->keyspace, (uint8_t[32]){ 7 });
    b->stream = hth_key_stream_new(&b->keyspace);
    if (!b->tokens || !b->stream)
        hth_report_die("no memory for a prompt");
    for (size_t i = 0; i < b->n_tokens + NEXT_TURN_TOKENS; i++)
        b->tokens[i] = (hearth_token)(i * 7919 % 32000);
}

int main(int n_arguments, char **arguments)
{
    static bench b;
    uint64_t freed;
    size_t n_rows;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments == 5 && strcmp(arguments[1], "--text") == 0) { /* from run_without_sha */
        memmove(arguments + 1, arguments + 2, 3 * sizeof(*arguments));
        n_arguments--;
    }
    b.n_tokens = n_arguments > 1 ? strtoul(arguments[1], NULL, 10) : 0;
    if (n_arguments < 3 || n_arguments > 4 || b.n_tokens < HTH_BLOCK_TOKENS || b.n_tokens > UINT32_MAX / 2) {
        (void)fprintf(stderr, "usage: lookup_bench [--json|--markdown] [--verbose] N_TOKENS DIRECTORY [ROUNDS]\n");
        return 2;
    }
    b.directory = arguments[2];
    b.n_rounds = n_arguments > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : ROUNDS;
    make_prompt(&b);
    if (strcmp(b.directory, "-") == 0) {
        measure_hashing(&b, ", without SHA instructions");
    } else {
        hearth_error err = { .message = "" };

        measure_hashing(&b, "");
#if defined(__x86_64__) || defined(__i386__)
        run_without_sha(&b, "/proc/self/exe");
#endif
        open_cache(&b);
        n_rows = save_prompt(&b);
        if (!hth_copy_init(&b.copy, COLD_BYTES))
            hth_report_die("no memory to empty the processor's caches with");
        measure_probes(&b, HEARTH_TIER_RAM, n_rows, false);
        measure_probes(&b, HEARTH_TIER_RAM, n_rows, true);
        hth_report_check(hth_cache_evict(b.cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, &err), &err);
        measure_probes(&b, HEARTH_TIER_DISK, n_rows, false);
        measure_probes(&b, HEARTH_TIER_DISK, n_rows, true);
        hth_copy_deinit(&b.copy);
        measure_siblings(&b);
        measure_answers(&b);
        hth_cache_close(b.cache, FLUSH_MS);
    }
    hth_key_stream_free(b.stream);
    free(b.tokens);
    return 0;
}
