/*
 * parts_bench.c - the cost of packing a block against memcpy, and the parts of the time of a save and of a restore
 *
 *   parts_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY [ROUNDS]
 *
 * Works on the engine and the cache without a scheduler, with the scheduler's calls. A sequence of N_TOKENS is put
 * together from one block's state. Each of its blocks is packed into a full RAM tier, so that slabs are reused, and
 * then copied with memcpy between buffers as large as the sequence. Restores are taken apart in the same way. DIRECTORY
 * gets one file, for the time of reading it from the page cache.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "engine/backend.h"
#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { ROUNDS = 15, SEQUENCE = 0, SCRATCH = 1, N_BATCH = 512 };

/* What is timed, in milliseconds a block. */
typedef enum part {
    PACK_SHARE,
    PACK_SIZE,
    PACK_SLAB,
    PACK_GET,
    PACK_COMMIT,
    PACK_EMPTY,
    PACK,
    COPY_OUT,
    RESTORE_READ,
    RESTORE_CRC,
    RESTORE_SET,
    RESTORE_SHARE,
    RESTORE_EMPTY,
    COPY_IN,
    LOGITS,
    PARTS
} part;

static const char *const part_names[PARTS] = {
    [PACK_SHARE] = "pack: cells shared with the scratch sequence",
    [PACK_SIZE] = "pack: size of the state",
    [PACK_SLAB] = "pack: a slab, the oldest row evicted for it",
    [PACK_GET] = "pack: state into the slab, and checked",
    [PACK_COMMIT] = "pack: CRC32C, head, row made visible",
    [PACK_EMPTY] = "pack: scratch sequence emptied",
    [PACK] = "pack: all of it",
    [COPY_OUT] = "memcpy of the same bytes out of the context's kind of buffer",
    [RESTORE_READ] = "restore: open, read from the page cache, close",
    [RESTORE_CRC] = "restore: CRC32C of what was read",
    [RESTORE_SET] = "restore: state checked and into the context",
    [RESTORE_SHARE] = "restore: cells shared with the sequence",
    [RESTORE_EMPTY] = "restore: scratch sequence emptied",
    [COPY_IN] = "memcpy of the same bytes into the context's kind of buffer",
    [LOGITS] = "restore: logits out of their row (once a hit)",
};

typedef struct bench {
    hth_report report;
    const char *model_path;
    size_t n_blocks;
    unsigned n_rounds;
    char file[4096]; /* holds one block */

    const hth_backend *backend;
    hth_engine_model *model;
    hth_engine_context *context;
    uint32_t n_vocab;
    hth_cache *cache;
    uint8_t *block; /* an image, [block_bytes] */
    size_t block_bytes;
    uint8_t *slabs; /* images of the whole sequence, [n_blocks * block_bytes] */
    hth_copy copy;
    hth_samples times[PARTS];
} bench;

/* Add the time since *begin_ns to a part, and begin the next. */
static void lap(bench *b, part what, uint64_t *begin_ns)
{
    uint64_t now = hth_os_monotonic_ns();

    hth_samples_add(&b->times[what], (double)(now - *begin_ns) * 1e-6);
    *begin_ns = hth_os_monotonic_ns();
}

static void empty(bench *b, uint32_t sequence)
{
    if (!b->backend->seq_remove(b->context, sequence, 0, UINT32_MAX))
        hth_report_die("the engine does not empty a sequence");
}

/* ---- the sequence ---- */

static void open_engine(bench *b)
{
    static const hth_log log = { .write = NULL };
    hth_engine_model_params model_params = { .n_gpu_layers = 0, .log = &log };
    hth_engine_context_params params = {
        .n_ctx = (uint32_t)b->n_blocks * HTH_BLOCK_TOKENS + 2 * HTH_BLOCK_TOKENS,
        .n_batch = N_BATCH,
        .n_seq_max = 2,
    };
    hth_engine_model_info info;
    hearth_error err = { .message = "" };

    hth_report_check(hth_backend_llama(NULL, &b->backend, &err), &err);
    hth_report_check(b->backend->model_load(b->model_path, &model_params, &b->model, &err), &err);
    hth_report_check(b->backend->context_new(b->model, &params, &b->context, &err), &err);
    b->backend->model_info(b->model, &info);
    b->n_vocab = info.n_vocab;
    if (info.kind != HTH_MODEL_PLAIN)
        hth_report_die("the model is not one of plain attention");
}

static void compute_block(bench *b)
{
    hth_batch_row rows[HTH_BLOCK_TOKENS];
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err = { .message = "" };
    size_t n_bytes;

    for (uint32_t i = 0; i < HTH_BLOCK_TOKENS; i++)
        rows[i] = (hth_batch_row){ .token = hth_known_token(0, i), .position = i, .sequence = SCRATCH };
    hth_report_check(b->backend->decode(b->context, rows, HTH_BLOCK_TOKENS, &result, &err), &err);
    b->block_bytes = b->backend->state_size(b->context, SCRATCH, HTH_STATE_CELLS);
    b->block = malloc(b->block_bytes);
    if (result != HTH_DECODE_OK || !b->block)
        hth_report_die("a block cannot be computed");
    hth_report_check(
        b->backend->state_get(b->context, SCRATCH, HTH_STATE_CELLS, b->block, b->block_bytes, &n_bytes, &err), &err);
    empty(b, SCRATCH);
}

/* The images of the sequence, on memory like the RAM tier's. */
static void lay_out_slabs(bench *b)
{
    if (!hth_copy_init(&b->copy, b->n_blocks * b->block_bytes))
        hth_report_die("no memory for the state of %zu blocks", b->n_blocks);
    b->slabs = b->copy.slabs;
    for (size_t i = 0; i < b->n_blocks; i++) {
        memcpy(b->slabs + i * b->block_bytes, b->block, b->block_bytes);
        hth_known_move_block(b->slabs + i * b->block_bytes, (uint32_t)i * HTH_BLOCK_TOKENS);
    }
}

static void write_file(const bench *b)
{
    int fd = open(b->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, b->block, b->block_bytes) != (ssize_t)b->block_bytes || close(fd) != 0)
        hth_report_die("cannot write '%s'", b->file);
}

static void read_file(const bench *b, uint8_t *bytes)
{
    int fd = open(b->file, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || pread(fd, bytes, b->block_bytes, 0) != (ssize_t)b->block_bytes)
        hth_report_die("cannot read '%s'", b->file);
    (void)close(fd); /* nothing was written */
}

static void open_cache(bench *b)
{
    hth_cache_options options = {
        .ram_bytes_max = (b->n_blocks + 1) * (b->block_bytes + 16384),
        .ram_memory_fd = -1,
    };
    hearth_error err = { .message = "" };

    hth_report_check(hth_cache_open(&options, &b->cache, &err), &err);
}

/* ---- one block ---- */

static void restore_block(bench *b, size_t i, bool is_first_round)
{
    uint32_t begin = (uint32_t)i * HTH_BLOCK_TOKENS, end = begin + HTH_BLOCK_TOKENS;
    const uint8_t *image = b->slabs + i * b->block_bytes;
    hearth_error err = { .message = "" };
    uint64_t at = hth_os_monotonic_ns();

    hth_report_check(
        b->backend->state_set(b->context, SCRATCH, HTH_STATE_CELLS, image, b->block_bytes, begin, end, &err), &err);
    if (!is_first_round)
        lap(b, RESTORE_SET, &at);
    hth_report_check(b->backend->seq_copy(b->context, SCRATCH, SEQUENCE, begin, end, &err), &err);
    if (!is_first_round)
        lap(b, RESTORE_SHARE, &at);
    empty(b, SCRATCH);
    if (!is_first_round)
        lap(b, RESTORE_EMPTY, &at);
}

static void pack_block(bench *b, size_t i, uint64_t number)
{
    static const hth_keyspace keyspace = { .quant_byte = 0 };
    uint32_t begin = (uint32_t)i * HTH_BLOCK_TOKENS, end = begin + HTH_BLOCK_TOKENS;
    hearth_token tokens[HTH_BLOCK_TOKENS] = { 0 };
    hth_save save = {
        .keyspace = &keyspace,
        .id.kind = HTH_ROW_BLOCK,
        .first_position = begin,
        .tokens = tokens,
        .n_tokens = HTH_BLOCK_TOKENS,
        .reason = HEARTH_SAVE_COLD,
        .engine_build = b->backend->build(),
    };
    hearth_error err = { .message = "" };
    hth_slab *slab;
    size_t n_bytes = 0;
    uint64_t whole, at;

    hth_sha256_of(&number, sizeof(number), save.id.key.bytes);
    whole = at = hth_os_monotonic_ns();
    hth_report_check(b->backend->seq_copy(b->context, SEQUENCE, SCRATCH, begin, end, &err), &err);
    lap(b, PACK_SHARE, &at);
    save.image_bytes = b->backend->state_size(b->context, SCRATCH, HTH_STATE_CELLS);
    lap(b, PACK_SIZE, &at);
    slab = hth_cache_save_begin(b->cache, &save);
    if (!slab)
        hth_report_die("no room for a row");
    lap(b, PACK_SLAB, &at);
    hth_report_check(b->backend->state_get(b->context, SCRATCH, HTH_STATE_CELLS, hth_slab_image(slab), save.image_bytes,
                                           &n_bytes, &err),
                     &err);
    lap(b, PACK_GET, &at);
    hth_cache_save_commit(b->cache, slab);
    lap(b, PACK_COMMIT, &at);
    empty(b, SCRATCH);
    lap(b, PACK_EMPTY, &at);
    lap(b, PACK, &whole);
}

/* A block's bytes with memcpy, from one kind of memory to the other, at the block's place in both. */
static void copy_block(bench *b, size_t i, part what)
{
    uint8_t *slab = b->copy.slabs + i * b->block_bytes;
    uint8_t *cells = b->copy.cells + i * b->block_bytes;
    uint64_t at = hth_os_monotonic_ns();

    if (what == COPY_OUT)
        memcpy(slab, cells, b->block_bytes);
    else
        memcpy(cells, slab, b->block_bytes);
    __asm__ volatile("" : : "r"(slab), "r"(cells) : "memory"); /* the copy must happen */
    lap(b, what, &at);
}

static void read_block(bench *b, size_t i)
{
    uint8_t *slab = b->slabs + i * b->block_bytes;
    uint64_t at = hth_os_monotonic_ns();
    uint32_t crc;

    read_file(b, slab);
    lap(b, RESTORE_READ, &at);
    crc = hth_crc32c(0, slab, b->block_bytes);
    __asm__ volatile("" : : "r"(crc)); /* it must be computed */
    lap(b, RESTORE_CRC, &at);
    hth_known_move_block(slab, (uint32_t)i * HTH_BLOCK_TOKENS);
}

/* As hth_sequence_restore_logits does it. */
static void take_logits(bench *b)
{
    uint8_t *bytes = calloc(1, b->n_vocab * sizeof(float));
    float *logits = malloc(b->n_vocab * sizeof(float));
    uint64_t at = hth_os_monotonic_ns();

    if (!bytes || !logits)
        hth_report_die("no memory for logits");
    memcpy(logits, bytes, b->n_vocab * sizeof(float));
    __asm__ volatile("" : : "r"(logits) : "memory"); /* the copy must happen */
    lap(b, LOGITS, &at);
    free(bytes);
    free(logits);
}

/* ---- all of it ---- */

static void measure(bench *b)
{
    uint64_t number = 0;

    /* The first round fills the RAM tier and touches everything. */
    for (unsigned round = 0; round <= b->n_rounds; round++) {
        empty(b, SEQUENCE);
        for (size_t i = 0; i < b->n_blocks; i++)
            restore_block(b, i, round == 0);
        for (size_t i = 0; i < b->n_blocks; i++) {
            pack_block(b, i, number++);
            copy_block(b, i, COPY_OUT);
        }
        if (round == 0)
            for (int i = 0; i < PARTS; i++)
                b->times[i].n = 0;
        for (size_t i = 0; i < b->n_blocks; i++)
            read_block(b, i);
        for (size_t i = 0; i < b->n_blocks; i++)
            copy_block(b, i, COPY_IN);
        take_logits(b);
    }
}

static void report(const bench *b)
{
    char peer[64];

    (void)snprintf(peer, sizeof(peer), "memcpy of %.2f MB", (double)b->block_bytes * 1e-6);
    hth_report_medians(&b->report, "packing a block", "ms", &b->times[PACK], peer, &b->times[COPY_OUT], HTH_AT_MOST,
                       1.5);
    hth_report_medians(&b->report, "packing a block, the engine's part alone", "ms", &b->times[PACK_GET], peer,
                       &b->times[COPY_OUT], HTH_NO_BOUND, 0);
    for (int i = 0; i < PARTS; i++)
        hth_report_detail(&b->report, "%8.4f ms  %s", hth_samples_median(&b->times[i]), part_names[i]);
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments < 4 || n_arguments > 5 || strtoul(arguments[2], NULL, 10) < HTH_BLOCK_TOKENS) {
        (void)fprintf(stderr, "usage: parts_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY [ROUNDS]\n");
        return 2;
    }
    b.model_path = arguments[1];
    b.n_blocks = strtoul(arguments[2], NULL, 10) / HTH_BLOCK_TOKENS;
    b.n_rounds = n_arguments > 4 ? (unsigned)strtoul(arguments[4], NULL, 10) : ROUNDS;
    (void)snprintf(b.file, sizeof(b.file), "%s/block", arguments[3]);
    open_engine(&b);
    compute_block(&b);
    lay_out_slabs(&b);
    write_file(&b);
    open_cache(&b);
    measure(&b);
    report(&b);
    (void)unlink(b.file); /* in a directory of the caller's, who removes it, too */
    hth_cache_close(b.cache, 0);
    b.backend->context_free(b.context);
    b.backend->model_free(b.model);
    hth_copy_deinit(&b.copy);
    free(b.block);
    return 0;
}
