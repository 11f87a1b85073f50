/*
 * conversations_property_test.c - whatever was cached before, a reply is the reply of an empty cache
 *
 * Random prompts that share beginnings, at random lengths around the block size, are run through one cache directory
 * with everything that can come between: evictions, restarts of the runtime, a tiny RAM tier, a tiny disk quota,
 * damaged and deleted files. The stub engine's logits are a hash of all tokens in the sequence, so any wrong cell
 * changes the text. The oracle computes each prompt without a cache.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { ROUNDS = 400, ROUNDS_OF_OTHER_KINDS = 200, TREES = 4, TOKENS_MAX = 1400, REPLY = 8 };

typedef struct world {
    const char *path;
    char *directory;
    uint64_t seed;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_model *oracle;
    hearth_token trees[TREES][TOKENS_MAX]; /* prompts begin like one of these */
} world;

static void open_runtime(world *w)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    options.cache_directory = w->directory;
    options.ram_bytes_max = 4 << 20;
    options.disk_bytes_max = 8 << 20;
    options.disk_free_min = 0;
    assert_int_equal(hearth_runtime_open(&options, &w->runtime, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_load(w->runtime, w->path, NULL, &w->model, NULL), HEARTH_OK);
}

static void close_runtime(world *w)
{
    hearth_model_unref(w->model);
    hearth_runtime_close(w->runtime);
}

/* Damage, cut or delete one row file; which one and how comes from the seed. */
static void disturb_a_row(world *w)
{
    char folder[4096], path[8192];
    struct dirent *entry;
    DIR *rows;
    int skip;

    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", w->directory, (unsigned)hth_test_random(&w->seed, 256));
    rows = opendir(folder);
    if (!rows)
        return;
    skip = (int)hth_test_random(&w->seed, 3);
    while ((entry = readdir(rows)) && (entry->d_name[0] == '.' || skip-- > 0))
        ;
    if (entry) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (hth_test_random(&w->seed, 3) == 0) {
            (void)unlink(path);
        } else {
            int fd = open(path, O_RDWR);
            off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
            char byte;

            if (size > 0 && hth_test_random(&w->seed, 2)) {
                (void)!ftruncate(fd, (off_t)hth_test_random(&w->seed, (uint64_t)size));
            } else if (size > 0) {
                off_t at = (off_t)hth_test_random(&w->seed, (uint64_t)size);

                (void)!pread(fd, &byte, 1, at);
                byte = (char)(byte ^ (1 << hth_test_random(&w->seed, 8)));
                (void)!pwrite(fd, &byte, 1, at);
            }
            if (fd >= 0)
                (void)close(fd);
        }
    }
    (void)closedir(rows);
}

/* Rows that find no room are computed again. Other programs may take the room of the device at any time. */
static void save(world *w)
{
    hearth_error err;
    hearth_status status = hearth_model_save(w->model, HEARTH_SAVE_EVICT, 20000, &err);

    if (status != HEARTH_OK && status != HEARTH_FULL)
        fail_msg("%s", err.message);
}

static size_t make_prompt(world *w, hearth_token *tokens)
{
    static const size_t lengths[] = { 1, 31, 32, 33, 255, 256, 257, 300, 511, 512, 513, 700, 768, 1024, 1300 };
    size_t n = lengths[hth_test_random(&w->seed, sizeof(lengths) / sizeof(lengths[0]))];
    size_t shared = hth_test_random(&w->seed, 2) ? n : hth_test_random(&w->seed, n + 1);

    memcpy(tokens, w->trees[hth_test_random(&w->seed, TREES)], n * sizeof(*tokens));
    for (size_t i = shared; i < n; i++)
        tokens[i] = (hearth_token)('a' + hth_test_random(&w->seed, 3));
    return n;
}

static void run_rounds(const char *path, int rounds)
{
    hearth_runtime_options no_cache = hearth_runtime_options_default();
    hearth_runtime *oracle_runtime;
    size_t n_hits = 0;
    world *w = calloc(1, sizeof(*w));

    w->path = path;
    w->seed = hth_test_seed();
    w->directory = hth_test_directory_new();
    no_cache.cache_disabled = true;
    assert_int_equal(hearth_runtime_open(&no_cache, &oracle_runtime, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_load(oracle_runtime, path, NULL, &w->oracle, NULL), HEARTH_OK);
    for (int i = 0; i < TREES; i++)
        for (int j = 0; j < TOKENS_MAX; j++)
            w->trees[i][j] = (hearth_token)('a' + hth_test_random(&w->seed, 26));
    /* Two trees share a beginning that ends inside a block. */
    memcpy(w->trees[1], w->trees[0], 600 * sizeof(w->trees[0][0]));
    open_runtime(w);

    for (int round = 0; round < rounds; round++) {
        hearth_token tokens[TOKENS_MAX];
        hearth_request request = hearth_request_default();
        hearth_sampling sampling = hearth_sampling_default();
        const hearth_result *cached, *alone;
        hearth_error err;

        request.tokens = tokens;
        request.n_tokens = make_prompt(w, tokens);
        request.n_predict = REPLY;
        request.ignore_eos = true;
        sampling.temperature = hth_test_random(&w->seed, 2) ? 0 : 1;
        sampling.seed = (uint64_t)round;
        request.sampling = &sampling;
        if (hearth_complete(w->model, &request, &cached, &err) != HEARTH_OK)
            fail_msg("round %d: %s", round, err.message);
        request.no_cache_read = true;
        assert_int_equal(hearth_complete(w->oracle, &request, &alone, NULL), HEARTH_OK);
        if (strcmp(cached->text, alone->text) != 0)
            fail_msg("round %d, %zu tokens, hit %s of %u: '%s' instead of '%s'", round, request.n_tokens,
                     hearth_hit_name(cached->stats->hit), cached->stats->cached_tokens, cached->text, alone->text);
        n_hits += cached->stats->hit != HEARTH_HIT_NONE;
        hearth_result_unref(cached);
        hearth_result_unref(alone);

        switch (hth_test_random(&w->seed, 12)) {
        case 0: save(w); break;
        case 1:
            close_runtime(w);
            open_runtime(w);
            break;
        case 2:
        case 3: disturb_a_row(w); break;
        default: break;
        }
    }
    assert_true(n_hits > (size_t)rounds / 8); /* otherwise nothing was tested */
    close_runtime(w);
    hearth_model_unref(w->oracle);
    hearth_runtime_close(oracle_runtime);
    hth_test_directory_remove(w->directory);
    free(w);
}

TEST(replies_are_those_of_an_empty_cache_with_blocks)
{
    run_rounds("stub:", ROUNDS);
}

TEST(replies_are_those_of_an_empty_cache_with_windows_and_states)
{
    run_rounds("stub:kind=recurrent", ROUNDS_OF_OTHER_KINDS);
    run_rounds("stub:kind=hybrid", ROUNDS_OF_OTHER_KINDS);
    run_rounds("stub:kind=window", ROUNDS_OF_OTHER_KINDS);
    run_rounds("stub:kind=window,window=300", ROUNDS_OF_OTHER_KINDS);
    run_rounds("stub:kind=window,window=600", ROUNDS_OF_OTHER_KINDS);
    run_rounds("stub:kind=hybrid,window=100", ROUNDS_OF_OTHER_KINDS);
}
