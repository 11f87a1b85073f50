/*
 * true_tokens_property_test.c - conversations of random tokens against a model that remembers them all
 *
 * Replies are random splits of texts of few letters into tokens, so that texts often begin alike and are tokenized
 * otherwise. After every turn some prompt is made: a conversation, cut somewhere, with something behind it. The tokens
 * must have exactly its bytes; the known ones must be those of a conversation with this text, salt and flags; and the
 * control tokens must be where the tokenizer reads them. Now and then, another process learns what is known of a
 * conversation: then it knows as much of it. HTH_SEED replays a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/true_tokens.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TURNS = 4000, KEPT_MAX = TURNS, TEXT_MAX = 400, TOKENS_MAX = 500, SALTS = 2, VOCAB = 300 };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };

typedef struct conversation {
    uint8_t salt;
    unsigned flags;
    char text[TEXT_MAX];
    size_t n_bytes;
    hearth_token tokens[TOKENS_MAX];
    size_t n_tokens;
} conversation;

typedef struct run {
    const hth_backend *stub;
    hth_engine_model *model;
    hth_true_tokens *known, *elsewhere;
    conversation *kept; /* [n_kept] */
    size_t n_kept;
    uint64_t random;
    size_t n_taken, n_learned;
} run;

static size_t piece_of(const run *r, hearth_token token, char out[64])
{
    size_t n = 0;

    assert_int_equal(r->stub->piece(r->model, token, true, out, 64, &n, NULL), HEARTH_OK);
    return n;
}

/* A token of a reply: a letter, a part of a control text, a word, or a control token. */
static hearth_token draw(run *r)
{
    static const char letters[] = "ab<|im_end|>";

    switch (hth_test_random(&r->random, 8)) {
    case 0: return 259;
    case 1: return 258;
    case 2: return 260 + (hearth_token)hth_test_random(&r->random, 2);
    default: return (hearth_token)letters[hth_test_random(&r->random, sizeof(letters) - 1)];
    }
}

/* Append a random text that a tokenizer might get: also words and control tokens as text. */
static void append_text(run *r, conversation *c)
{
    char piece[64];

    for (uint64_t n = hth_test_random(&r->random, 5); n > 0; n--) {
        size_t n_piece = piece_of(r, draw(r), piece);

        if (c->n_bytes + n_piece >= TEXT_MAX / 2)
            return;
        memcpy(c->text + c->n_bytes, piece, n_piece);
        c->n_bytes += n_piece;
    }
}

static void check_prompt(const run *r, const conversation *c, size_t n_known)
{
    static const char *const names[] = { "<s>", "</s>", "<|im_start|>", "<|im_end|>" };
    size_t at = 0, begin = c->flags & HEARTH_TOKENIZE_BOS ? 1 : 0;
    bool is_known = n_known == 0;
    char piece[64];

    /* Every byte, and each control text as a token where control texts are read. */
    for (size_t i = begin; i < c->n_tokens; i++) {
        size_t n = piece_of(r, c->tokens[i], piece);

        assert_true(at + n <= c->n_bytes);
        assert_memory_equal(c->text + at, piece, n);
        if (c->tokens[i] >= 256 && c->tokens[i] < 260)
            assert_true(c->flags & HEARTH_TOKENIZE_SPECIAL);
        for (size_t k = 0; k < 4 && (c->flags & HEARTH_TOKENIZE_SPECIAL); k++)
            for (size_t b = at; b < at + n; b++)
                if (c->n_bytes - b >= strlen(names[k]) && memcmp(c->text + b, names[k], strlen(names[k])) == 0) {
                    assert_int_equal(c->tokens[i], 256 + (int)k);
                    assert_int_equal(b, at);
                }
        at += n;
    }
    assert_int_equal(at, c->n_bytes);
    /* The known tokens are those of a conversation that the prompt begins with. */
    for (size_t i = 0; i < r->n_kept && !is_known; i++) {
        const conversation *kept = &r->kept[i];

        is_known = kept->salt == c->salt && kept->flags == c->flags && kept->n_tokens >= n_known &&
                   memcmp(kept->tokens, c->tokens, n_known * sizeof(*c->tokens)) == 0;
    }
    assert_true(is_known);
}

/* Another process learns what is known of a conversation. */
static void move(run *r, const conversation *kept)
{
    const uint8_t fingerprint[32] = { kept->salt };
    conversation c = *kept;
    hth_known_text known;
    hearth_token *tokens;
    size_t n_known = 0;

    assert_true(hth_true_tokens_known(r->known, fingerprint, c.text, c.n_bytes, c.flags, &known));
    r->n_learned += hth_true_tokens_learn(r->elsewhere, fingerprint, &known, c.flags);
    assert_int_equal(hth_true_tokens_of(r->elsewhere, fingerprint, c.text, c.n_bytes, c.flags, NULL, &tokens,
                                        &c.n_tokens, &n_known, NULL),
                     HEARTH_OK);
    assert_true(c.n_tokens <= TOKENS_MAX);
    memcpy(c.tokens, tokens, c.n_tokens * sizeof(*tokens));
    free(tokens);
    check_prompt(r, &c, n_known);
    assert_true(n_known > 0 || known.n_bytes == 0);
    hth_known_text_deinit(&known);
}

static void turn(run *r)
{
    conversation c = { .salt = (uint8_t)hth_test_random(&r->random, SALTS) };
    uint8_t fingerprint[32] = { 0 };
    size_t n_known = 0, n_before, n_more = hth_test_random(&r->random, 8);
    hearth_token *tokens;
    hth_prompt_text *text;
    char piece[64];

    c.flags = (unsigned)hth_test_random(&r->random, 4);
    if (r->n_kept > 0 && hth_test_random(&r->random, 5) > 0) {
        const conversation *from = &r->kept[hth_test_random(&r->random, r->n_kept)];

        if (hth_test_random(&r->random, 4) > 0) {
            c.salt = from->salt;
            c.flags = from->flags;
        }
        c.n_bytes = hth_test_random(&r->random, 3) > 0 ? from->n_bytes : hth_test_random(&r->random, from->n_bytes + 1);
        if (c.n_bytes >= TEXT_MAX / 2)
            c.n_bytes = TEXT_MAX / 2;
        memcpy(c.text, from->text, c.n_bytes);
    }
    append_text(r, &c);
    if (c.n_bytes == 0)
        return;
    fingerprint[0] = c.salt;
    assert_int_equal(hth_true_tokens_of(r->known, fingerprint, c.text, c.n_bytes, c.flags, NULL, &tokens, &c.n_tokens,
                                        &n_known, NULL),
                     HEARTH_OK);
    assert_true(c.n_tokens < TOKENS_MAX - 8);
    memcpy(c.tokens, tokens, c.n_tokens * sizeof(*tokens));
    free(tokens);
    check_prompt(r, &c, n_known);
    r->n_taken += n_known > 0;
    /* A reply. */
    text = hth_prompt_text_new(c.text, c.n_bytes, c.flags, 0);
    assert_non_null(text);
    n_before = c.n_tokens;
    for (size_t i = 0; i < n_more; i++) {
        hearth_token token = draw(r);
        size_t n = piece_of(r, token, piece);

        memcpy(c.text + c.n_bytes, piece, n);
        c.n_bytes += n;
        c.tokens[c.n_tokens++] = token;
    }
    hth_true_tokens_note(r->known, fingerprint, text, c.tokens, n_before, c.tokens + n_before, n_more);
    hth_prompt_text_unref(text);
    r->kept[r->n_kept++] = c;
    if (hth_test_random(&r->random, 4) == 0)
        move(r, &r->kept[hth_test_random(&r->random, r->n_kept)]);
}

static hth_true_tokens *new_known(const run *r, size_t bytes_max)
{
    hth_true_tokens *known = hth_true_tokens_new(&(hth_true_tokens_options){
        .backend = r->stub, .model = r->model, .n_vocab = VOCAB, .bytes_max = bytes_max, .log = &silent });

    assert_non_null(known);
    return known;
}

static void run_with(size_t bytes_max, size_t n_taken_min)
{
    hth_engine_model_params params = { .log = &silent };
    run r = { .stub = hth_backend_stub(), .random = hth_test_seed() };

    assert_int_equal(r.stub->model_load("stub:vocab=300", &params, &r.model, NULL), HEARTH_OK);
    r.known = new_known(&r, bytes_max);
    r.elsewhere = new_known(&r, bytes_max);
    r.kept = calloc(KEPT_MAX, sizeof(*r.kept));
    assert_non_null(r.kept);
    for (int i = 0; i < TURNS; i++)
        turn(&r);
    assert_true(r.n_taken > n_taken_min);
    assert_true(r.n_learned > n_taken_min);
    free(r.kept);
    assert_true(hth_true_tokens_free(r.elsewhere));
    assert_true(hth_true_tokens_free(r.known));
    r.stub->model_free(r.model);
}

TEST(prompts_have_their_bytes_and_the_tokens_of_conversations)
{
    run_with(64 << 20, TURNS / 20);
}

TEST(so_they_have_while_records_are_evicted)
{
    run_with(64 << 10, 0);
}
