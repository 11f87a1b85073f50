/*
 * bench_model.c - the measures of `hearth bench MODEL`, in this process
 *
 *   1. the model without a cache: cold prompts of each length
 *   2. the model with its own cache, in temporary directories: cold prompts, then from each tier; replies
 *   3. the model without a cache again, so that a machine that becomes slower or faster does not favor either
 *
 * A length for which the time of step 1 is not enough is left out, with all longer ones. Each tier is reached by
 * evicting the rows from the faster ones. A number counts only if the request's statistics name the intended tier.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"
#include "base/status.h"
#include "bench/bench_measure.h"
#include "bench/bench_report.h"
#include "bench/bench_run.h"
#include "console/units.h"
#include "rows/directory.h"

enum { SAVE_MS = 600000, COPIES = 5, OPEN_FOLDERS = 16, WARM_TOKENS = 4 };

/* The tiers of a known prompt, fastest first. */
static const struct tier {
    const char *name;
    hearth_tier tier;
    unsigned evicted; /* what is evicted first, HEARTH_EVICT_... */
} tiers[] = {
    { "context", HEARTH_TIER_LIVE, 0 },
    { "RAM", HEARTH_TIER_RAM, 0 },
    { "tmpfs", HEARTH_TIER_RAM_FILE, HEARTH_EVICT_RAM },
    { "disk", HEARTH_TIER_DISK, HEARTH_EVICT_RAM | HEARTH_EVICT_RAM_FILE },
};
enum { N_TIERS = sizeof(tiers) / sizeof(tiers[0]) };

/* The measurements for one length. */
typedef struct length_times {
    /* Times to first token: for new prompts, without a cache in two parts; and for known ones. */
    hth_samples cold_without[2], cold_with;
    hth_samples first[N_TIERS];
    hth_samples restore[N_TIERS];
    hth_samples pack, copy;
    double row_bytes;
} length_times;

typedef struct bench {
    hth_bench_run run;
    json_t *report;
    length_times *times; /* [options->lengths.n] */
    char disk[PATH_MAX];
    char shm[PATH_MAX];
    int part; /* of the two without a cache */
} bench;

/* The median; NAN without samples. */
static double median(const hth_samples *samples)
{
    return samples->n > 0 ? hth_samples_median(samples) : NAN;
}

/* The same for the minimum: other work on the machine only adds time. */
static double fastest(const hth_samples *samples)
{
    return samples->n > 0 ? hth_samples_min(samples) : NAN;
}

/* ---- cold prompts ---- */

typedef hearth_status (*measure_fn)(bench *b, size_t i_length, hearth_error *err);

/* Measure each length until the given part of the planned time is used, at least once and at most `reps` times. */
static hearth_status measure_lengths(bench *b, measure_fn measure, uint32_t reps, double part, bool may_leave_out,
                                     hearth_error *err)
{
    hth_bench_options *o = b->run.options;
    const double budget_ms = o->seconds * 1e3 * part;
    const uint64_t begin = hth_os_monotonic_ns();
    double last_ms[HTH_BENCH_LIST_MAX] = { 0 };
    hearth_status status = HEARTH_OK;

    for (uint32_t rep = 0; rep < reps; rep++) {
        for (size_t i = 0; i < o->lengths.n; i++) {
            /* The time of a prompt grows at least with its length. */
            const double expected_ms = rep > 0 ? last_ms[i]
                                     : i > 0   ? last_ms[i - 1] * o->lengths.values[i] / o->lengths.values[i - 1]
                                               : 0;
            const uint64_t now = hth_os_monotonic_ns();

            if (hth_ms_since(begin) + expected_ms > budget_ms && rep > 0)
                return HEARTH_OK;
            if (hth_ms_since(begin) + expected_ms > budget_ms && i > 0 && may_leave_out) {
                if (!o->quiet)
                    (void)fprintf(stderr,
                                  "hearth: prompts of %u tokens and more are left out: they do not fit into the time; "
                                  "--seconds gives more\n",
                                  o->lengths.values[i]);
                o->lengths.n = i;
                break;
            }
            status = measure(b, i, err);
            if (status != HEARTH_OK)
                return status;
            last_ms[i] = hth_ms_since(now);
        }
    }
    return HEARTH_OK;
}

static hearth_status measure_without(bench *b, size_t i, hearth_error *err)
{
    const uint32_t n = b->run.options->lengths.values[i];
    hearth_stats stats;
    hearth_status status;

    hth_bench_run_say(&b->run, b->times[i].cold_without[b->part].n == 0 && b->part == 0,
                      "cold prompt of %u tokens, without a cache", n);
    hth_bench_run_new_prompt(&b->run, b->run.tokens, n);
    status = hth_bench_run_ask(&b->run, n, &stats, err);
    if (status == HEARTH_OK)
        hth_samples_add(&b->times[i].cold_without[b->part], stats.ttft_ms);
    return status;
}

/* ---- tiers ---- */

typedef struct packed {
    hearth_counters counters;
    hearth_times times;
} packed;

static hearth_status count_packed(const bench *b, packed *out, hearth_error *err)
{
    hearth_status status;

    *out = (packed){ .counters.struct_size = sizeof(out->counters), .times.struct_size = sizeof(out->times) };
    status = hearth_runtime_counters(b->run.open.runtime, &out->counters, err);
    return status == HEARTH_OK ? hearth_runtime_times(b->run.open.runtime, HEARTH_PATH_PACK, &out->times, err) : status;
}

/* Evict the prompt's rows from the context and from the given tiers. */
static hearth_status move_out(bench *b, unsigned evicted, hearth_error *err)
{
    hearth_status status = hearth_model_save(b->run.open.model, HEARTH_SAVE_EVICT, SAVE_MS, err);

    if (status == HEARTH_OK)
        status = hearth_runtime_flush(b->run.open.runtime, SAVE_MS, err);
    if (status == HEARTH_OK && evicted)
        status = hearth_runtime_evict(b->run.open.runtime, UINT64_MAX, evicted, NULL, err);
    return status;
}

/* Were the prompt's n tokens known, and only from this tier? The logits after cells in the context are a row. */
static bool is_from(const hearth_stats *stats, size_t i_tier, uint32_t n)
{
    if (tiers[i_tier].tier == HEARTH_TIER_LIVE)
        return stats->shared_tokens + 1 >= n;
    return stats->tier == tiers[i_tier].tier && stats->shared_tokens == 0 && stats->cached_tokens + 1 >= n;
}

static hearth_status measure_tier(bench *b, size_t i_length, size_t i_tier, hearth_error *err)
{
    const uint32_t n = b->run.options->lengths.values[i_length];
    length_times *t = &b->times[i_length];
    hearth_stats stats;
    hearth_status status = i_tier > 0 ? move_out(b, tiers[i_tier].evicted, err) : HEARTH_OK;

    if (status == HEARTH_OK)
        status = hth_bench_run_ask(&b->run, n, &stats, err);
    if (status != HEARTH_OK || !is_from(&stats, i_tier, n))
        return status;
    hth_samples_add(&t->first[i_tier], stats.ttft_ms);
    hth_samples_add(&t->restore[i_tier], stats.lookup_ms + stats.restore_ms);
    if (tiers[i_tier].tier == HEARTH_TIER_RAM)
        t->row_bytes = (double)stats.restored_bytes;
    return status;
}

static hearth_status measure_copy(length_times *t, hearth_error *err)
{
    hth_copy copy;

    if (!(t->row_bytes > 0))
        return HEARTH_OK;
    if (!hth_copy_init(&copy, (size_t)t->row_bytes))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to copy the %.0f bytes of a prompt", t->row_bytes);
    for (int i = 0; i < COPIES; i++)
        hth_samples_add(&t->copy, hth_copy_ms(&copy));
    hth_copy_deinit(&copy);
    return HEARTH_OK;
}

/* A prompt cold, then from each tier. */
static hearth_status measure_with(bench *b, size_t i, hearth_error *err)
{
    const uint32_t n = b->run.options->lengths.values[i];
    length_times *t = &b->times[i];
    packed before, after;
    hearth_stats stats;
    hearth_status status = count_packed(b, &before, err);

    hth_bench_run_say(&b->run, t->cold_with.n == 0, "prompt of %u tokens, cold and from each tier", n);
    hth_bench_run_new_prompt(&b->run, b->run.tokens, n);
    if (status == HEARTH_OK)
        status = hth_bench_run_ask(&b->run, n, &stats, err);
    if (status != HEARTH_OK)
        return status;
    hth_samples_add(&t->cold_with, stats.ttft_ms);
    for (size_t tier = 0; status == HEARTH_OK && tier < N_TIERS; tier++) {
        status = measure_tier(b, i, tier, err);
        if (status == HEARTH_OK && tier == 0)
            status = move_out(b, 0, err);
        if (status == HEARTH_OK && tier == 0 && (status = count_packed(b, &after, err)) == HEARTH_OK &&
            after.counters.bytes_saved > before.counters.bytes_saved)
            hth_samples_add(&t->pack, (double)(after.times.total_ns - before.times.total_ns) / 1e6);
    }
    if (status == HEARTH_OK)
        status = measure_copy(t, err);
    if (status == HEARTH_OK)
        status = move_out(b, HEARTH_EVICT_RAM | HEARTH_EVICT_RAM_FILE | HEARTH_EVICT_DISK, err);
    return status;
}

/* ---- several replies at once ---- */

/* Written by callbacks on the model's scheduler thread; read only after the last request has ended. */
typedef struct crowd {
    hth_bench_run *run;
    uint32_t n;
    uint32_t n_warm;    /* replies with WARM_TOKENS tokens */
    uint32_t n_counted; /* tokens in the window */
    double window_ms;   /* at most */
    uint64_t begin_ns;  /* of the window; 0: it has not begun */
    uint64_t end_ns;    /* 0: it has not ended */
    hearth_status status;
    hearth_error err;
} crowd;

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    crowd *c = user_data;
    const uint64_t now = hth_os_monotonic_ns();

    (void)id;
    c->n_warm += event->index + 1 == WARM_TOKENS;
    if (c->end_ns > 0 || hth_bench_run_is_interrupted(c->run))
        return false;
    if (c->begin_ns == 0) {
        c->begin_ns = c->n_warm == c->n ? now : 0;
        return true;
    }
    c->n_counted++;
    if (event->index + 1 == HTH_BENCH_DECODE_TOKENS || (double)(now - c->begin_ns) / 1e6 >= c->window_ms)
        c->end_ns = now;
    return c->end_ns == 0;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    crowd *c = user_data;

    (void)id;
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED && c->status == HEARTH_OK) {
        c->status = result->status;
        c->err = result->error;
    }
}

static hearth_status submit(crowd *c, uint64_t *id_out, hearth_error *err)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_token tokens[HTH_BENCH_DECODE_PROMPT];

    hth_bench_run_new_prompt(c->run, tokens, HTH_BENCH_DECODE_PROMPT);
    sampling.temperature = 0;
    request.tokens = tokens;
    request.n_tokens = HTH_BENCH_DECODE_PROMPT;
    request.n_predict = HTH_BENCH_DECODE_TOKENS;
    request.ignore_eos = true;
    request.sampling = &sampling;
    request.on_token = on_token;
    request.on_done = on_done;
    request.user_data = c;
    return hearth_submit(c->run->open.model, &request, id_out, err);
}

/*
 * Generate n replies at once, for at most ms milliseconds. *rate_out is the total tokens per second, from when each has
 * a few tokens until the first one ends; NAN if that point was not reached.
 */
static hearth_status decode(hth_bench_run *run, uint32_t n, double ms, double *rate_out, hearth_error *err)
{
    crowd c = { .run = run, .n = n, .window_ms = ms };
    uint64_t ids[HTH_MODEL_PARALLEL_MAX];
    hearth_status status = HEARTH_OK;
    uint32_t n_submitted = 0;

    while (status == HEARTH_OK && n_submitted < n) {
        status = submit(&c, &ids[n_submitted], err);
        n_submitted += status == HEARTH_OK;
    }
    for (uint32_t i = 0; i < n_submitted; i++)
        (void)hearth_wait(run->open.model, ids[i], UINT32_MAX, NULL); /* it was submitted */
    if (hth_bench_run_is_interrupted(run))
        return HEARTH_CANCELLED;
    if (status != HEARTH_OK)
        return status;
    if (c.status != HEARTH_OK && err)
        *err = c.err;
    *rate_out = c.end_ns > 0 ? c.n_counted * 1e9 / (double)(c.end_ns - c.begin_ns) : NAN;
    return c.status;
}

/* ---- sections ---- */

static void report_first_tokens(const bench *b)
{
    const hth_bench_list *lengths = &b->run.options->lengths;
    json_t *section = hth_bench_section_add(
        b->report, &(hth_bench_section){
                       .name = "first_token",
                       .title = "Time to the first token: a new prompt, and a known one by tier",
                       .note = "Context: the cells are still there. Disk: files in the page cache "
                               "of the system.",
                       .plot = "lines",
                       .is_log = true,
                       .columns = { { "tokens", "prompt", "tokens", NULL, false },
                                    { "cold", "cold", "ms", "less", true },
                                    { "context", "context", "ms", "less", true },
                                    { "ram", "RAM", "ms", "less", true },
                                    { "tmpfs", "tmpfs", "ms", "less", true },
                                    { "disk", "disk", "ms", "less", true },
                                    { "speedup", "cold / disk", "x", "more", false } },
                   });

    for (size_t i = 0; i < lengths->n; i++) {
        const length_times *t = &b->times[i];
        double values[2 + N_TIERS] = { median(&t->cold_with) };

        for (size_t k = 0; k < N_TIERS; k++)
            values[1 + k] = median(&t->first[k]);
        values[1 + N_TIERS] = values[0] / values[N_TIERS];
        hth_bench_row_add(section, NULL, lengths->values[i], values);
    }
    hth_bench_section_tidy(section);
}

static void report_restores(const bench *b)
{
    const hth_bench_list *lengths = &b->run.options->lengths;
    json_t *section = hth_bench_section_add(
        b->report, &(hth_bench_section){
                       .name = "restore",
                       .title = "Packing a prompt's cells into rows and restoring them, against memcpy",
                       .note = "A restore includes the lookup, the check of the bytes and, for files, reading them.",
                       .plot = "lines",
                       .is_log = true,
                       .columns = { { "tokens", "prompt", "tokens", NULL, false },
                                    { "size", "rows", "MiB", NULL, false },
                                    { "pack", "pack", "ms", "less", true },
                                    { "ram", "RAM", "ms", "less", true },
                                    { "tmpfs", "tmpfs", "ms", "less", true },
                                    { "disk", "disk", "ms", "less", true },
                                    { "memcpy", "memcpy", "ms", NULL, true },
                                    { "ratio", "RAM / memcpy", "x", "less", false } },
                   });

    for (size_t i = 0; i < lengths->n; i++) {
        const length_times *t = &b->times[i];
        const double ram_ms = median(&t->restore[1]), copy_ms = median(&t->copy);

        hth_bench_row_add(section, NULL, lengths->values[i],
                          (const double[]){ t->row_bytes > 0 ? t->row_bytes / (1 << 20) : NAN, median(&t->pack), ram_ms,
                                            median(&t->restore[2]), median(&t->restore[3]), copy_ms,
                                            ram_ms / copy_ms });
    }
    hth_bench_section_tidy(section);
}

static void report_prefill(const bench *b)
{
    const hth_bench_list *lengths = &b->run.options->lengths;
    json_t *section = hth_bench_section_add(
        b->report, &(hth_bench_section){
                       .name = "prefill",
                       .title = "Prefill of new prompts, and what the cache costs there",
                       .note = "Prefill up to the first token, the fastest of all repetitions. Cost: the time that the "
                               "cache adds, such as for packing rows; \"-\": less than "
                               "the difference of the two runs without it, the noise of this machine.",
                       .plot = "lines",
                       .columns = { { "tokens", "prompt", "tokens", NULL, false },
                                    { "rate", "cache", "tokens/s", "more", true },
                                    { "rate_without", "no cache", "tokens/s", "more", true },
                                    { "time", "cache", "ms", "less", false },
                                    { "time_without", "no cache", "ms", "less", false },
                                    { "cost", "cost", "%", "less", false } },
                   });

    for (size_t i = 0; i < lengths->n; i++) {
        const double n = lengths->values[i], with = fastest(&b->times[i].cold_with),
                     parts[2] = { fastest(&b->times[i].cold_without[0]), fastest(&b->times[i].cold_without[1]) },
                     without = fmin(parts[0], parts[1]); /* ignores NAN */

        hth_bench_row_add(
            section, NULL, n,
            (const double[]){ n * 1e3 / with, n * 1e3 / without, with, without, hth_bench_cost(with, parts) });
    }
}

static hearth_status measure_decode(bench *b, hearth_error *err)
{
    const hth_bench_list *list = &b->run.options->sequences;
    const double share_ms = b->run.options->seconds * 1e3 * 0.25 / (double)list->n;
    hearth_status status = HEARTH_OK;
    json_t *section =
        hth_bench_section_add(b->report, &(hth_bench_section){
                                             .name = "decode",
                                             .title = "Generation, by the number of replies at once",
                                             .note = "Each reply follows a prompt of 64 tokens.",
                                             .plot = "lines",
                                             .columns = { { "sequences", "sequences", "", NULL, false },
                                                          { "rate", "all", "tokens/s", "more", true },
                                                          { "rate_each", "each", "tokens/s", "more", true } },
                                         });

    for (size_t i = 0; i < list->n; i++) {
        const uint64_t begin = hth_os_monotonic_ns();
        hth_samples rates = { .n = 0 };
        double rate = NAN;

        hth_bench_run_say(&b->run, true, "replies at once: %u", list->values[i]);
        for (uint32_t rep = 0; rep < b->run.options->reps && (rep == 0 || hth_ms_since(begin) < share_ms); rep++) {
            status = decode(&b->run, list->values[i], share_ms / b->run.options->reps, &rate, err);
            if (status != HEARTH_OK)
                return status;
            if (isfinite(rate))
                hth_samples_add(&rates, rate);
        }
        rate = median(&rates);
        hth_bench_row_add(section, NULL, list->values[i], (const double[]){ rate, rate / list->values[i] });
    }
    hth_bench_section_tidy(section);
    return status;
}

/* The headline of the report. */
static void add_headline(const bench *b)
{
    const size_t last = b->run.options->lengths.n - 1;
    const length_times *t = &b->times[last];
    const double cold = median(&t->cold_with);
    char text[256], cold_text[32], warm_text[32], ratio_text[32];

    for (size_t i = N_TIERS; i-- > 0;) {
        const double warm = median(&t->first[i]);

        if (!isfinite(warm) || !(warm > 0))
            continue;
        (void)snprintf(text, sizeof(text), "%u tokens: first token after %s ms cold, %s ms from %s: %s times as fast.",
                       b->run.options->lengths.values[last], hth_bench_number(cold, cold_text),
                       hth_bench_number(warm, warm_text), i == 0 ? "the context" : tiers[i].name,
                       hth_bench_number(cold / warm, ratio_text));
        json_object_set_new(b->report, "headline", json_string(text));
        return;
    }
}

static void add_model(const bench *b)
{
    const hearth_model_info *info = &b->run.info;
    const char *slash = strrchr(b->run.options->setup.path, '/');
    /* The engine's description is "llama 8B Q8_0", or "llama ?B Q8_0". */
    const char *type = strchr(info->description, ' '), *format = type ? strchr(type + 1, ' ') : NULL;
    const bool is_small = info->n_params < 1000000000;
    char text[1024], size[32], number[32];

    (void)snprintf(text, sizeof(text), "%s (%.*s, %s %s parameters%s%s, %s)",
                   slash ? slash + 1 : b->run.options->setup.path,
                   (int)(format ? type - info->description : (ptrdiff_t)strlen(info->description)), info->description,
                   hth_bench_number((double)info->n_params / (is_small ? 1e6 : 1e9), number), is_small ? "M" : "B",
                   format ? "," : "", format ? format : "", hth_size_text(info->file_bytes, size));
    hth_bench_report_add_fact(b->report, "model", text);
}

/* ---- the run ---- */

/* Make "PARENT/hearth-bench-XXXXXX", mode 0700, and the parent's directories if they are missing. */
static hearth_status make_folder(const char *parent, char path_out[PATH_MAX], hearth_error *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/hearth-bench-XXXXXX", parent) >= (int)sizeof(path))
        return hth_fail(err, HEARTH_MISUSE, "the path of '%.200s...' is too long", parent);
    for (char *at = path + 1; *at; at++) /* the directories above: they exist, or mkdtemp reports why not */
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, S_IRWXU);
            *at = '/';
        }
    if (!mkdtemp(path))
        return hth_fail_errno(err, errno, "cannot make a folder for the rows in '%s'; choose another one with --cache",
                              parent);
    (void)snprintf(path_out, PATH_MAX, "%s", path); /* as long as path */
    return HEARTH_OK;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st, (void)type, (void)place;
    return remove(path);
}

/* Does nothing for "". False if something remains. */
static bool remove_folder(const char *path)
{
    return *path == '\0' || nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0;
}

static hearth_status make_folders(bench *b, hearth_error *err)
{
    hth_bench_options *o = b->run.options;
    char parent[PATH_MAX];
    hearth_status status;

    if (o->folder)
        (void)snprintf(parent, sizeof(parent), "%s", o->folder);
    else if (!hth_cache_default_directory(parent, sizeof(parent)))
        return hth_fail(err, HEARTH_NOT_FOUND, "neither HEARTH_CACHE nor HOME is set; choose a folder with --cache");
    status = make_folder(parent, b->disk, err);
    if (status != HEARTH_OK)
        return status;
    o->setup.runtime.cache_directory = b->disk;
    if (o->shm && access(o->shm, W_OK) == 0 && make_folder(o->shm, b->shm, NULL) == HEARTH_OK)
        o->setup.runtime.ram_file_directory = b->shm;
    return HEARTH_OK;
}

/*
 * Limit lengths to the context and to the model's training context, beyond which they are meaningless. At least one
 * remains.
 */
static void keep_possible(bench *b)
{
    hth_bench_list *lengths = &b->run.options->lengths;
    const uint32_t n_train = b->run.info.n_ctx_train, n_ctx = b->run.info.n_ctx;
    const uint32_t n_max = (n_train > 0 && n_train < n_ctx ? n_train : n_ctx) - 1; /* one token for the reply */
    size_t n = lengths->n;

    while (n > 0 && lengths->values[n - 1] > n_max)
        n--;
    if (n == lengths->n)
        return;
    if (!b->run.options->quiet)
        (void)fprintf(stderr, "hearth: the longest prompt has %u tokens: the model has no more context\n", n_max);
    if (n == 0 || lengths->values[n - 1] < n_max)
        lengths->values[n++] = n_max;
    lengths->n = n;
}

/* One of the two parts without a cache. */
static hearth_status measure_part_without(bench *b, bool is_first, hearth_error *err)
{
    hearth_status status = hth_bench_run_load(&b->run, false, err);

    b->part = is_first ? 0 : 1;
    if (status == HEARTH_OK && is_first)
        keep_possible(b);
    if (status == HEARTH_OK)
        status =
            measure_lengths(b, measure_without, (b->run.options->reps + 1) / 2, is_first ? 0.2 : 0.1, is_first, err);
    hth_bench_run_close(&b->run);
    return status;
}

static hearth_status measure_all(bench *b, hearth_error *err)
{
    hearth_status status = measure_part_without(b, true, err);

    if (status == HEARTH_OK)
        status = make_folders(b, err);
    if (status == HEARTH_OK)
        status = hth_bench_run_load(&b->run, true, err);
    if (status == HEARTH_OK)
        status = measure_lengths(b, measure_with, b->run.options->reps, 0.45, false, err);
    if (status != HEARTH_OK)
        return status;
    add_model(b);
    report_first_tokens(b);
    report_restores(b);
    add_headline(b);
    status = measure_decode(b, err);
    hth_bench_run_close(&b->run);
    if (status == HEARTH_OK)
        status = measure_part_without(b, false, err);
    if (status == HEARTH_OK)
        report_prefill(b);
    return status;
}

hearth_status hth_bench_model_run(hth_bench_options *options, const volatile sig_atomic_t *interrupted, json_t *report,
                                  hearth_error *err)
{
    bench b = { .run = { .options = options, .interrupted = interrupted, .begin_ns = hth_os_monotonic_ns() },
                .report = report,
                .times = calloc(options->lengths.n, sizeof(length_times)) };
    hearth_status status = b.times ? measure_all(&b, err) : hth_fail(err, HEARTH_NO_MEMORY, "no memory for samples");

    hth_bench_run_close(&b.run);
    if (!remove_folder(b.disk) || !remove_folder(b.shm))
        (void)fprintf(stderr, "hearth: warning: '%s' could not be removed\n", *b.disk ? b.disk : b.shm);
    free(b.run.tokens);
    free(b.times);
    return hth_bench_run_is_interrupted(&b.run) ? HEARTH_CANCELLED : status;
}
