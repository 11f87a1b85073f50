/*
 * kinds_test.c - a conversation with a model of any kind goes on after a restart as if nothing had happened
 *
 * The oracle is one process without a cache, where every turn continues what still lives in the context; the other side
 * opens a fresh runtime for each turn and has nothing but the files of the turns before. Both evaluate the same chunks,
 * so the replies must be the same token by token, over conversations longer than any window and than the interval at
 * which states are kept. Then rows are taken away or damaged one kind at a time: less is found, and the reply stays.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rows/row_file.h"
#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/devices.h"
#include "support/support.h"

enum { N_CTX = 2304, N_TURNS = 9, N_REPLY = 24, N_USER = 190, N_ROWS_MAX = 256 };

/* Every kind, and windows smaller and larger than a block. */
static const char *const stubs[] = { "stub:kind=window", "stub:kind=window,window=600", "stub:kind=recurrent",
                                     "stub:kind=hybrid", "stub:kind=hybrid,window=64",  "stub:kind=hybrid,window=600" };
static const char *const shapes[] = { "tiny-llama",  "tiny-window",        "tiny-window600", "tiny-recurrent",
                                      "tiny-hybrid", "tiny-hybrid-window", "tiny-qwen35" };

enum { N_STUBS = sizeof(stubs) / sizeof(stubs[0]), N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static bool has_states(const char *path)
{
    return strstr(path, "recurrent") || strstr(path, "hybrid") || strstr(path, "qwen35");
}

static bool has_blocks(const char *path)
{
    return !strstr(path, "recurrent");
}

/* ---- running ---- */

/* A runtime with one model; directory NULL: without a cache. */
typedef struct place {
    hearth_runtime *runtime;
    hearth_model *model;
} place;

static place open_place(const char *path, const char *directory)
{
    hearth_runtime_options options = hth_test_runtime_options(directory);
    hearth_model_options model_options = hearth_model_options_default();
    place p;

    options.cache_disabled = !directory;
    options.ram_bytes_max = 256 << 20;
    options.log_level = HEARTH_LOG_ERROR;
    model_options.n_ctx = N_CTX;
    model_options.n_threads = 2;
    model_options.n_gpu_layers = hth_test_gpu_layers();
    model_options.rpc_servers = hth_test_rpc_servers();
    p.runtime = hth_test_runtime_open(&options);
    p.model = hth_test_model_load(p.runtime, path, &model_options);
    return p;
}

static void close_place(place *p)
{
    hearth_model_unref(p->model);
    hearth_runtime_close(p->runtime);
}

static const hearth_result *run(const place *p, const hearth_token *tokens, size_t n_tokens)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *result;
    hearth_error err;

    request.tokens = tokens;
    request.n_tokens = n_tokens;
    request.n_predict = N_REPLY;
    request.ignore_eos = true;
    sampling.temperature = 0;
    request.sampling = &sampling;
    assert_ok(hearth_complete(p->model, &request, &result, &err), err);
    assert_int_equal(result->stats->completion_tokens, N_REPLY);
    return result;
}

/* The same in a fresh runtime on the directory. */
static const hearth_result *run_fresh(const char *path, const char *directory, const hearth_token *tokens,
                                      size_t n_tokens)
{
    place p = open_place(path, directory);
    const hearth_result *result = run(&p, tokens, n_tokens);

    close_place(&p);
    return result;
}

/* Leading tokens of the reply that are the same. */
static size_t n_same(const hearth_result *a, const hearth_result *b)
{
    size_t n = 0;

    while (n < N_REPLY && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

static void assert_same_reply(const char *path, const hearth_result *a, const hearth_result *b)
{
    size_t n = n_same(a, b);

    if (n < N_REPLY)
        fail_msg("%s: token %zu of the reply is %d instead of %d; %u of %u tokens were found", path, n, b->tokens[n],
                 a->tokens[n], b->stats->cached_tokens, b->stats->prompt_tokens);
}

/* A conversation: the tokens up to now, and where the turns' prompts and replies ended. */
typedef struct conversation {
    hearth_token tokens[N_CTX];
    size_t n_tokens;
    size_t prompt_ends[N_TURNS];
    uint32_t finish_ends[N_TURNS];
} conversation;

static void ask(conversation *c, int turn)
{
    size_t n = N_USER + 37 * (size_t)(turn % 3);

    for (size_t i = 0; i < n; i++)
        c->tokens[c->n_tokens++] = (hearth_token)(32 + (i * 31 + (size_t)turn * 7 + i * i / 5) % 90);
    c->prompt_ends[turn] = c->n_tokens;
}

static void answer(conversation *c, int turn, const hearth_result *result)
{
    c->finish_ends[turn] = result->stats->finish_tokens;
    memcpy(c->tokens + c->n_tokens, result->tokens, N_REPLY * sizeof(*result->tokens));
    c->n_tokens += N_REPLY;
}

/* Restored cells of a window lie elsewhere in the engine's buffer, so sums are rounded in another order. */
static bool rounding_may_differ(const char *path)
{
    return strncmp(path, "stub:", 5) != 0 && strstr(path, "window");
}

/*
 * n_turns turns against the oracle; every turn after the first finds all of the one before. Where rounding may differ,
 * a reply may part from the oracle's once in a while: with a state that is not right, nearly all of them do.
 */
static void converse(const char *path, const char *directory, int n_turns, conversation *c)
{
    place oracle = open_place(path, NULL);
    size_t n_found = 0; /* what the next turn must find */
    int n_different = 0;

    *c = (conversation){ .n_tokens = 0 };
    for (int turn = 0; turn < n_turns; turn++) {
        const hearth_result *alone, *cached;

        ask(c, turn);
        alone = run(&oracle, c->tokens, c->n_tokens);
        cached = run_fresh(path, directory, c->tokens, c->n_tokens);
        assert_int_equal(alone->stats->hit, turn == 0 ? HEARTH_HIT_NONE : HEARTH_HIT_LIVE);
        assert_int_equal(cached->stats->hit, turn == 0 ? HEARTH_HIT_NONE : HEARTH_HIT_PREFIX);
        assert_true(rounding_may_differ(path) ? cached->stats->cached_tokens >= n_found
                                              : cached->stats->cached_tokens == n_found);
        if (!rounding_may_differ(path))
            assert_same_reply(path, alone, cached);
        n_different += n_same(alone, cached) < N_REPLY;
        n_found = n_same(alone, cached) < N_REPLY ? c->n_tokens : cached->stats->finish_tokens;
        answer(c, turn, alone);
        hearth_result_unref(alone);
        hearth_result_unref(cached);
    }
    assert_in_range(n_different, 0, n_turns / 3);
    close_place(&oracle);
}

/* ---- rows on disk ---- */

typedef struct row_file {
    char path[512];
    hth_row_meta meta;
} row_file;

/* All rows of a directory, or those of one kind. */
static size_t list_rows(const char *directory, int kind, row_file *out)
{
    size_t n = 0;

    for (unsigned folder = 0; folder < 256; folder++) {
        char name[400];
        struct dirent *entry;
        DIR *rows;

        (void)snprintf(name, sizeof(name), "%s/rows/%02x", directory, folder);
        rows = opendir(name);
        while (rows && (entry = readdir(rows))) {
            hth_row_id id;

            if (!hth_row_file_parse_name(entry->d_name, &id) || (kind >= 0 && (int)id.kind != kind))
                continue;
            assert_true(n < N_ROWS_MAX);
            assert_true((size_t)snprintf(out[n].path, sizeof(out[n].path), "%s/%.100s", name, entry->d_name) <
                        sizeof(out[n].path));
            assert_int_equal(hth_row_file_meta(hth_fs_system(), out[n].path, &id, &out[n].meta, NULL), HEARTH_OK);
            n++;
        }
        if (rows)
            (void)closedir(rows);
    }
    return n;
}

/* The row of that kind that begins (a state: stands) at that position. */
static bool find_row(const char *directory, hth_row_kind kind, size_t position, row_file *out)
{
    row_file *rows = calloc(N_ROWS_MAX, sizeof(*rows));
    size_t n = list_rows(directory, (int)kind, rows);
    bool found = false;

    for (size_t i = 0; i < n && !found; i++) {
        found = rows[i].meta.first_position == position;
        if (found)
            *out = rows[i];
    }
    free(rows);
    return found;
}

static void damage(const char *path)
{
    uint8_t bytes[8];
    int fd = open(path, O_RDWR);
    off_t size;

    assert_true(fd >= 0);
    size = lseek(fd, 0, SEEK_END);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), size - 8), 8);
    bytes[3] ^= 0x10;
    assert_int_equal(pwrite(fd, bytes, sizeof(bytes), size - 8), 8);
    assert_int_equal(close(fd), 0);
}

/* Remove or damage one row, ask the last prompt again in a fresh runtime: that many tokens are found. */
static void assert_found_without(const char *path, const char *directory, const conversation *c, int turn,
                                 hth_row_kind kind, size_t position, bool remove, size_t n_found)
{
    place oracle = open_place(path, NULL);
    const hearth_result *alone = run(&oracle, c->tokens, c->prompt_ends[turn]);
    const hearth_result *cached;
    row_file row;

    if (!find_row(directory, kind, position, &row))
        fail_msg("%s: no %s row at %zu", path, hth_row_kind_name(kind), position);
    if (remove)
        assert_int_equal(unlink(row.path), 0);
    else
        damage(row.path);
    cached = run_fresh(path, directory, c->tokens, c->prompt_ends[turn]);
    assert_same_reply(path, alone, cached);
    if (cached->stats->cached_tokens != n_found)
        fail_msg("%s without the %s row at %zu: %u tokens were found instead of %zu", path, hth_row_kind_name(kind),
                 position, cached->stats->cached_tokens, n_found);
    /* What was computed instead was saved again. */
    hearth_result_unref(cached);
    cached = run_fresh(path, directory, c->tokens, c->prompt_ends[turn]);
    assert_same_reply(path, alone, cached);
    assert_int_equal(cached->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(cached);
    hearth_result_unref(alone);
    close_place(&oracle);
}

/* ---- what is promised ---- */

TEST(conversations_go_on_in_fresh_runtimes_on_the_stub)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        char *directory = hth_test_directory_new();
        conversation c;

        converse(stubs[i], directory, N_TURNS, &c);
        hth_test_directory_remove(directory);
    }
}

TEST(conversations_go_on_in_fresh_runtimes_on_models_of_every_kind)
{
    for (size_t i = 0; i < N_SHAPES; i++) {
        char *directory = hth_test_directory_new();
        char path[4096];
        conversation c;

        hth_test_model(shapes[i], path, sizeof(path));
        converse(path, directory, N_TURNS, &c);
        hth_test_directory_remove(directory);
    }
}

TEST(an_exact_prompt_is_answered_without_evaluating_it)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        char *directory = hth_test_directory_new();
        conversation c;
        const hearth_result *first, *again;

        converse(stubs[i], directory, 3, &c);
        ask(&c, 3);
        first = run_fresh(stubs[i], directory, c.tokens, c.n_tokens);
        again = run_fresh(stubs[i], directory, c.tokens, c.n_tokens);
        assert_same_reply(stubs[i], first, again);
        assert_int_equal(again->stats->hit, HEARTH_HIT_EXACT);
        assert_int_equal(again->stats->n_prefill_evaluations, 0);
        hearth_result_unref(first);
        hearth_result_unref(again);
        hth_test_directory_remove(directory);
    }
}

TEST(a_growing_conversation_keeps_few_states)
{
    row_file *rows = calloc(N_ROWS_MAX, sizeof(*rows));

    for (size_t i = 0; i < N_STUBS; i++) {
        char *directory = hth_test_directory_new();
        conversation c;
        size_t n_states, n_tails;

        converse(stubs[i], directory, N_TURNS, &c);
        n_states = list_rows(directory, HTH_ROW_STATE, rows);
        n_tails = list_rows(directory, HTH_ROW_TAIL, rows);
        if (has_states(stubs[i])) {
            /* Two of each of the last two turns, and one every 1024 tokens. */
            assert_in_range(n_states, 1, 4 + c.n_tokens / 1024);
            assert_true(has_blocks(stubs[i]) ? n_tails <= 4 : n_tails == 0);
        } else {
            assert_int_equal(n_states, 0);
        }
        assert_int_equal(list_rows(directory, HTH_ROW_SNAPSHOT, rows), 0);
        assert_true(list_rows(directory, HTH_ROW_BLOCK, rows) == (has_blocks(stubs[i]) ? (c.n_tokens - 1) / 256 : 0));
        hth_test_directory_remove(directory);
    }
    free(rows);
}

TEST(without_a_state_an_earlier_one_is_used)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        for (int remove = 0; remove < 2; remove++) {
            char *directory = hth_test_directory_new();
            conversation c;

            if (!has_states(stubs[i])) {
                hth_test_directory_remove(directory);
                continue;
            }
            converse(stubs[i], directory, 6, &c);
            /* The last prompt's own state: what is left is the reply before it. */
            assert_found_without(stubs[i], directory, &c, 5, HTH_ROW_STATE, c.prompt_ends[5], remove, c.finish_ends[4]);
            hth_test_directory_remove(directory);
        }
    }
}

TEST(without_logits_a_state_before_the_end_is_used)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        for (int remove = 0; remove < 2; remove++) {
            char *directory = hth_test_directory_new();
            conversation c;
            size_t n_found;

            converse(stubs[i], directory, 6, &c);
            /* A tail that its window covers can be used but for its last token. */
            n_found = strstr(stubs[i], "kind=window,window=600") ? c.prompt_ends[5] - 1
                    : has_states(stubs[i])                       ? c.finish_ends[4]
                                                                 : c.prompt_ends[5] / 256 * 256;
            if (!has_states(stubs[i]) && n_found < c.finish_ends[4])
                n_found = c.finish_ends[4];
            assert_found_without(stubs[i], directory, &c, 5, HTH_ROW_LOGITS, c.prompt_ends[5], remove, n_found);
            hth_test_directory_remove(directory);
        }
    }
}

/* The latest boundary that is left when block is gone: the ends of turns that are kept, and whole blocks or states. */
static size_t best_without_block(const char *path, const conversation *c, int turn, size_t block)
{
    size_t best = has_states(path) ? 256 * block / 1024 * 1024 : 256 * block;

    for (int i = has_states(path) ? turn - 1 : 0; i <= turn; i++) {
        if (c->prompt_ends[i] < 256 * (block + 1) && c->prompt_ends[i] > best)
            best = c->prompt_ends[i];
        if (c->finish_ends[i] < 256 * (block + 1) && c->finish_ends[i] > best && i < turn)
            best = c->finish_ends[i];
    }
    return best;
}

TEST(without_a_block_what_lies_before_it_is_used)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        for (int remove = 0; remove < 2; remove++) {
            for (size_t block = 0; block < 5; block += 2) { /* the first, the middle, and one that the window needs */
                char *directory = hth_test_directory_new();
                conversation c;

                if (has_blocks(stubs[i])) {
                    converse(stubs[i], directory, 6, &c);
                    assert_in_range(c.prompt_ends[5], 1280, 1536);
                    assert_found_without(stubs[i], directory, &c, 5, HTH_ROW_BLOCK, 256 * block, remove,
                                         best_without_block(stubs[i], &c, 5, block));
                }
                hth_test_directory_remove(directory);
            }
        }
    }
}

/* Another reply to the second turn: what the conversations share is found, and neither spoils the other. */
TEST(a_conversation_that_forks_is_found_at_the_last_state_that_both_share)
{
    for (size_t i = 0; i < N_STUBS; i++) {
        char *directory = hth_test_directory_new();
        place oracle = open_place(stubs[i], NULL);
        conversation c, fork;
        const hearth_result *alone, *cached;

        converse(stubs[i], directory, 4, &c);
        fork = c;
        fork.n_tokens = c.prompt_ends[3];
        for (int k = 0; k < 40; k++)
            fork.tokens[fork.n_tokens++] = 'A' + k % 26;
        alone = run(&oracle, fork.tokens, fork.n_tokens);
        cached = run_fresh(stubs[i], directory, fork.tokens, fork.n_tokens);
        assert_same_reply(stubs[i], alone, cached);
        assert_true(cached->stats->cached_tokens >= c.prompt_ends[3]);
        hearth_result_unref(alone);
        hearth_result_unref(cached);

        ask(&c, 4);
        alone = run(&oracle, c.tokens, c.n_tokens);
        cached = run_fresh(stubs[i], directory, c.tokens, c.n_tokens);
        assert_same_reply(stubs[i], alone, cached);
        assert_int_equal(cached->stats->cached_tokens, c.finish_ends[3]);
        hearth_result_unref(alone);
        hearth_result_unref(cached);
        close_place(&oracle);
        hth_test_directory_remove(directory);
    }
}
