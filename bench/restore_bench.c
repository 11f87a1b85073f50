/*
 * restore_bench.c - the cost of an exact hit, against memcpy
 *
 * Runs itself as four processes on one cache directory, one after the other: the first computes a prompt of N tokens
 * and keeps it, the others find it. Each of the others then copies as many bytes as it restored with memcpy, between
 * buffers with resident pages. It prints both times, with the time to the first and to the second token, counted from
 * the submit and from the start of the process (engine, model load and fingerprint included).
 *
 *   restore_bench MODEL N_TOKENS CACHE_DIRECTORY KV_BYTES_PER_TOKEN N_VOCAB
 *
 * Prints one line of `name value` pairs a measurement on standard output. Exit 1 if the second process was not warm.
 */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"
#include "hearth.h"

enum { MEMCPY_ROUNDS = 15, REPLY_TOKENS = 4 };

static double now_ms(void)
{
    return (double)hth_os_monotonic_ns() / 1e6;
}

/* Median time of copying n bytes, in milliseconds. */
static double memcpy_ms(size_t n)
{
    hth_samples times = { .n = 0 };
    char *from = malloc(n), *to = malloc(n);

    if (!from || !to)
        abort();
    memset(from, 1, n);
    memset(to, 2, n);
    for (int i = 0; i < MEMCPY_ROUNDS; i++) {
        double begin = now_ms();

        memcpy(to, from, n);
        __asm__ volatile("" : : "r"(to) : "memory"); /* the copy must happen */
        hth_samples_add(&times, now_ms() - begin);
    }
    free(from);
    free(to);
    return hth_samples_median(&times);
}

static void log_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level, (void)source, (void)user_data;
    (void)fprintf(stderr, "restore_bench: %s\n", message);
}

static void show_prefill(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    (void)id, (void)user_data;
    if (phase == HEARTH_PHASE_PREFILL)
        (void)fprintf(stderr, "restore_bench: %u of %u tokens\n", n_done, n_total);
}

static int measure(const char *phase, const char *path, size_t n_tokens, const char *directory, double begin_ms)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_token *tokens = malloc(n_tokens * sizeof(*tokens));
    hearth_runtime *runtime;
    hearth_model *model;
    const hearth_result *result;
    hearth_error err = { .status = HEARTH_NO_MEMORY, .message = "no memory" };
    const hearth_stats *stats;
    double loaded_ms, submitted_ms;
    bool warm = strcmp(phase, "warm") == 0;

    runtime_options.cache_directory = directory;
    runtime_options.disk_free_min = 0;
    runtime_options.log = log_line;
    model_options.n_ctx = (uint32_t)n_tokens + 512;
    for (size_t i = 0; tokens && i < n_tokens; i++)
        tokens[i] = (hearth_token)(1000 + i * 7919 % 20000);
    request.tokens = tokens;
    request.n_tokens = n_tokens;
    request.n_predict = warm ? REPLY_TOKENS : 1; /* the first run keeps the prompt and no more */
    request.ignore_eos = true;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.on_progress = warm ? NULL : show_prefill;
    if (!tokens || hearth_runtime_open(&runtime_options, &runtime, &err) != HEARTH_OK ||
        hearth_model_load(runtime, path, &model_options, &model, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "restore_bench: %s\n", err.message);
        return 1;
    }
    loaded_ms = now_ms();
    submitted_ms = loaded_ms;
    if (hearth_complete(model, &request, &result, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "restore_bench: %s\n", err.message);
        return 1;
    }
    stats = result->stats;
    printf("phase %s tokens %zu cached %u hit %s tier %s prefill_evaluations %u lookup_ms %.3f restore_ms %.3f "
           "prefill_ms %.1f ttft_ms %.3f second_token_ms %.3f load_ms %.1f first_token_since_start_ms %.1f "
           "restored_bytes %" PRIu64,
           phase, n_tokens, stats->cached_tokens, hearth_hit_name(stats->hit), hearth_tier_name(stats->tier),
           stats->n_prefill_evaluations, stats->lookup_ms, stats->restore_ms, stats->prefill_ms, stats->ttft_ms,
           stats->second_token_ms, loaded_ms - begin_ms, submitted_ms - begin_ms + stats->ttft_ms,
           stats->restored_bytes);
    if (warm) {
        double copy_ms = memcpy_ms((size_t)stats->restored_bytes);

        printf(" memcpy_ms %.3f restore_per_memcpy %.2f", copy_ms, stats->restore_ms / copy_ms);
    }
    printf("\n");
    if (warm &&
        (stats->hit != HEARTH_HIT_EXACT || stats->cached_tokens != n_tokens || stats->n_prefill_evaluations > 0)) {
        (void)fprintf(stderr, "restore_bench: the second process was not warm\n");
        return 1;
    }
    if (hearth_runtime_flush(runtime, 60000, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "restore_bench: %s\n", err.message);
        return 1;
    }
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    free(tokens);
    return 0;
}

static uint64_t disk_bytes;

static int add_row_file(const char *path, const struct stat *st, int type, struct FTW *place)
{
    const char *dot = strrchr(path, '.');

    (void)place;
    if (type == FTW_F && dot && strcmp(dot, ".kvc") == 0)
        disk_bytes += (uint64_t)st->st_size;
    return 0;
}

/* Bytes of row files against what they hold: KV, tokens and the logits of one position. */
static void report_disk(const char *directory, size_t n_tokens, size_t kv_bytes_per_token, size_t n_vocab)
{
    uint64_t content = (uint64_t)n_tokens * (kv_bytes_per_token + 4) + (uint64_t)n_vocab * 4;

    disk_bytes = 0;
    (void)nftw(directory, add_row_file, 16, FTW_PHYS); /* what cannot be read shows in the ratio */
    printf("disk_bytes %" PRIu64 " kv_tokens_and_logits_bytes %" PRIu64 " ratio %.4f\n", disk_bytes, content,
           (double)disk_bytes / (double)content);
    (void)fflush(stdout); /* the phases print after us */
}

/* Run this program again as one phase. */
static int run_phase(const char *self, const char *phase, char **argv)
{
    char begin[64];
    int status;
    pid_t pid;

    (void)snprintf(begin, sizeof(begin), "%.3f", now_ms());
    pid = fork();
    if (pid == 0) {
        execl(self, self, argv[1], argv[2], argv[3], argv[4], argv[5], phase, begin, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    if (argc == 8)
        return measure(argv[6], argv[1], strtoul(argv[2], NULL, 10), argv[3], strtod(argv[7], NULL));
    if (argc != 6) {
        (void)fprintf(stderr, "usage: restore_bench MODEL N_TOKENS CACHE_DIRECTORY KV_BYTES_PER_TOKEN N_VOCAB\n");
        return 2;
    }
    if (run_phase("/proc/self/exe", "cold", argv) != 0)
        return 1;
    report_disk(argv[3], strtoul(argv[2], NULL, 10), strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
    for (int i = 0; i < 3; i++)
        if (run_phase("/proc/self/exe", "warm", argv) != 0)
            return 1;
    return 0;
}
