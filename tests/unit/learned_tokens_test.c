/*
 * learned_tokens_test.c - what one process knows of a conversation, another one learns, and nothing that is wrong
 *
 * The stub's vocabulary is that of true_tokens_test.c: bytes, control tokens from 256 on, and words from 260 on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/true_tokens.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { BOS = 256, TURN_BEGIN = 258, TURN_END = 259, WORD = 260, TOKENS_MAX = 512 };
enum { PLAIN = HEARTH_TOKENIZE_BOS, CHAT = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL | HTH_PROMPT_CHAT };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const uint8_t mine[32] = { 1 }, others[32] = { 2 };

typedef struct fixture {
    const hth_backend *stub;
    hth_engine_model *model;
    hth_engine_model_info info;
    char *directory;
    hth_true_tokens *there, *here;
} fixture;

static hth_true_tokens *open_known(const fixture *f, const char *directory)
{
    hth_true_tokens *known = hth_true_tokens_new(&(hth_true_tokens_options){ .backend = f->stub,
                                                                             .model = f->model,
                                                                             .n_vocab = f->info.n_vocab,
                                                                             .bytes_max = 1 << 20,
                                                                             .directory = directory,
                                                                             .log = &silent });

    assert_non_null(known);
    return known;
}

static void load_model(fixture *f, const char *path)
{
    hth_engine_model_params params = { .log = &silent };

    assert_int_equal(f->stub->model_load(path, &params, &f->model, NULL), HEARTH_OK);
    f->stub->model_info(f->model, &f->info);
}

static void open_all(fixture *f)
{
    f->there = open_known(f, NULL);
    f->here = open_known(f, f->directory);
}

static void close_all(fixture *f)
{
    assert_true(hth_true_tokens_free(f->there));
    assert_true(hth_true_tokens_free(f->here));
}

static void set_up(fixture *f)
{
    f->stub = hth_backend_stub();
    load_model(f, "stub:vocab=400,defined=1");
    f->directory = hth_test_directory_new();
    open_all(f);
}

static void tear_down(fixture *f)
{
    close_all(f);
    f->stub->model_free(f->model);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

#define REPLY(...) ((const hearth_token[]){ __VA_ARGS__, -1 })

static size_t count(const hearth_token *tokens)
{
    size_t n = 0;

    while (tokens[n] >= 0)
        n++;
    return n;
}

/* The prompt got this reply there. */
static void note(const fixture *f, const char *text, unsigned flags, const hearth_token *reply)
{
    hth_prompt_text *shared = hth_prompt_text_new(text, strlen(text), flags, 0);
    hearth_token *tokens;
    size_t n, n_known;

    assert_int_equal(hth_true_tokens_of(f->there, mine, text, strlen(text), flags, NULL, &tokens, &n, &n_known, NULL),
                     HEARTH_OK);
    hth_true_tokens_note(f->there, mine, shared, tokens, n, reply, count(reply));
    free(tokens);
    hth_prompt_text_unref(shared);
}

/* What is known there of the text. */
static hth_known_text told(const fixture *f, const uint8_t fingerprint[32], const char *text, unsigned flags)
{
    hth_known_text out;

    assert_true(hth_true_tokens_known(f->there, fingerprint, text, strlen(text), flags, &out));
    return out;
}

/* Learn what is known there of the text. */
static bool learn(const fixture *f, const char *text, unsigned flags)
{
    hth_known_text known = told(f, mine, text, flags);
    bool ok = hth_true_tokens_learn(f->here, mine, &known, flags);

    hth_known_text_deinit(&known);
    return ok;
}

/* The number of known tokens here; the tokens spell the text in any case. */
static size_t n_known(const fixture *f, const char *text, unsigned flags)
{
    hearth_token *tokens;
    size_t n, n_of_history;

    assert_int_equal(
        hth_true_tokens_of(f->here, mine, text, strlen(text), flags, NULL, &tokens, &n, &n_of_history, NULL),
        HEARTH_OK);
    free(tokens);
    return n_of_history;
}

FIXTURE_TEST(what_another_process_knows_is_learned)
{
    note(f, "<|im_start|>a\n", CHAT, REPLY(WORD, TURN_END));
    note(f, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n", CHAT, REPLY(WORD + 1, 'x', TURN_END));
    assert_int_equal(n_known(f, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n w261x<|im_end|>c", CHAT), 0);
    assert_true(learn(f, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n w261x<|im_end|>c", CHAT));
    assert_int_equal(n_known(f, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n w261x<|im_end|>c", CHAT), 13);
    /* And each turn of it: another reply may follow the first one. */
    assert_int_equal(n_known(f, "<|im_start|>a\n w260<|im_end|>other", CHAT), 6);
    assert_false(learn(f, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n w261x<|im_end|>c", CHAT));
}

FIXTURE_TEST(the_turns_stay_apart_for_the_words_of_the_model)
{
    hth_known_text known;

    note(f, "A", CHAT, REPLY(WORD, TURN_END));
    note(f, "A w260<|im_end|>B", CHAT, REPLY(WORD + 1, TURN_END));
    known = told(f, mine, "A w260<|im_end|>B w261<|im_end|>C", CHAT);
    assert_int_equal(known.n_bytes, strlen("A w260<|im_end|>B w261<|im_end|>"));
    assert_int_equal(known.n_tokens, 7);
    assert_int_equal(known.n_turns, 4); /* with the end of the turn and without */
    assert_int_equal(known.turns[0].n_bytes, strlen("A w260"));
    assert_int_equal(known.turns[1].n_reply_bytes, strlen(" w260<|im_end|>"));
    assert_int_equal(known.turns[3].n_tokens, 7);
    assert_int_equal(known.turns[3].n_reply_bytes, strlen(" w261<|im_end|>"));
    hth_known_text_deinit(&known);
}

FIXTURE_TEST(only_what_the_text_begins_with_is_told_and_only_to_its_tenant)
{
    hth_known_text known;

    note(f, "A", CHAT, REPLY(WORD, TURN_END));
    known = told(f, mine, "A w26", CHAT);
    assert_int_equal(known.n_turns, 0);
    known = told(f, others, "A w260", CHAT);
    assert_int_equal(known.n_turns, 0);
    known = told(f, mine, "A w260", PLAIN);
    assert_int_equal(known.n_turns, 0);
    assert_false(hth_true_tokens_learn(f->here, mine, &known, CHAT)); /* nothing */
    assert_null(known.text);
}

FIXTURE_TEST(learned_tokens_are_known_after_a_restart)
{
    note(f, "A", CHAT, REPLY(WORD, TURN_END));
    assert_true(learn(f, "A w260<|im_end|>", CHAT));
    assert_true(hth_true_tokens_free(f->here));
    f->here = open_known(f, f->directory);
    assert_int_equal(n_known(f, "A w260<|im_end|>", CHAT), 4);
}

/* Claim that the text is these tokens, up to the first negative one, in one turn of n_bytes. */
static bool claim_turn(const fixture *f, const char *text, unsigned flags, const hearth_token *tokens,
                       hth_history_turn turn)
{
    const hth_known_text claim = { .text = (char *)text,
                                   .n_bytes = strlen(text),
                                   .tokens = (hearth_token *)tokens,
                                   .n_tokens = count(tokens),
                                   .turns = &turn,
                                   .n_turns = 1 };

    return hth_true_tokens_learn(f->here, mine, &claim, flags);
}

static bool claim(const fixture *f, const char *text, unsigned flags, const hearth_token *tokens)
{
    return claim_turn(f, text, flags, tokens,
                      (hth_history_turn){ .n_bytes = (uint32_t)strlen(text), .n_tokens = (uint32_t)count(tokens) });
}

FIXTURE_TEST(tokens_of_another_text_are_refused)
{
    assert_false(claim(f, "Hi. w260", PLAIN, REPLY(BOS, 'H', 'o', '.', WORD)));
    assert_false(claim(f, "Hi. w260", PLAIN, REPLY(BOS, 'H', 'i', '.')));
    assert_false(claim(f, "Hi.", PLAIN, REPLY(BOS, 'H', 'i', '.', WORD)));
    assert_false(claim(f, "Hi.", PLAIN, REPLY(BOS)));
    /* Another first token than the one that begins every text, and one where none is added. */
    assert_false(claim(f, "Hi.", PLAIN, REPLY(TURN_END, 'H', 'i', '.')));
    assert_false(claim(f, "Hi.", 0, REPLY(BOS, 'H', 'i', '.')));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 0);
    assert_true(claim(f, "Hi. w260", PLAIN, REPLY(BOS, 'H', 'i', '.', WORD)));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 5);
}

FIXTURE_TEST(tokens_outside_the_vocabulary_are_refused)
{
    static const hearth_token negative[] = { BOS, 'H', -2 };
    hth_history_turn turn = { .n_bytes = 1, .n_tokens = 3 };
    const hth_known_text text = { .text = (char *)(uintptr_t) "H",
                                  .n_bytes = 1,
                                  .tokens = (hearth_token *)(uintptr_t)negative,
                                  .n_tokens = 3,
                                  .turns = &turn,
                                  .n_turns = 1 };

    assert_false(claim(f, "Hi. w260", PLAIN, REPLY(BOS, 'H', 'i', '.', 400)));
    assert_false(claim(f, "Hi. w260", PLAIN, REPLY(BOS, 'H', 'i', '.', INT32_MAX)));
    assert_false(hth_true_tokens_learn(f->here, mine, &text, PLAIN));
}

FIXTURE_TEST(whole_tokens_are_refused_where_the_tokenizer_reads_none)
{
    /* Control tokens where none are read. */
    assert_false(claim(f, "Hi<|im_end|>", PLAIN, REPLY(BOS, 'H', 'i', TURN_END)));
    /* Texts of such tokens where they are read, and of a user-defined one. */
    assert_false(
        claim(f, "Hi<|im_end|>", CHAT, REPLY(BOS, 'H', 'i', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>')));
    assert_false(claim(f, "Hi w399", PLAIN, REPLY(BOS, 'H', 'i', ' ', 'w', '3', '9', '9')));
    assert_true(claim(f, "Hi<|im_end|>", CHAT, REPLY(BOS, 'H', 'i', TURN_END)));
}

FIXTURE_TEST(a_marked_name_is_text)
{
    const hearth_token spelled[] = { BOS, 'H', 'i', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', WORD, -1 };

    assert_false(claim(f, "Hi\xff<|im_end|> w260", CHAT, REPLY(BOS, 'H', 'i', TURN_END, WORD)));
    assert_false(claim(f, "Hi<\xff|im_end|> w260", CHAT, REPLY(BOS, 'H', 'i', TURN_END, WORD)));
    assert_true(claim(f, "Hi\xff<|im_end|> w260", CHAT, spelled));
    assert_int_equal(n_known(f, "Hi\xff<|im_end|> w260", CHAT), 14);
    assert_int_equal(n_known(f, "Hi<|im_end|> w260", CHAT), 0);
    /* A mark is nothing that a token spells. */
    assert_false(claim(f, "Ho\xff\xff", CHAT, REPLY(BOS, 'H', 'o', 0xff)));
}

FIXTURE_TEST(far_more_tokens_than_the_tokenizer_makes_are_refused)
{
    hearth_token tokens[TOKENS_MAX] = { BOS };
    char text[TOKENS_MAX] = "";
    size_t n = 1;

    close_all(f);
    f->stub->model_free(f->model);
    load_model(f, "stub:vocab=400,joins=1");
    open_all(f);
    for (int i = 0; i < 20; i++)
        for (const char *at = " w260"; *at; at++) {
            text[n - 1] = *at;
            tokens[n++] = (unsigned char)*at;
        }
    tokens[n] = -1;
    assert_false(claim(f, text, PLAIN, tokens));
    assert_int_equal(n_known(f, text, PLAIN), 0);
    text[5] = '\0';
    tokens[6] = -1;
    assert_true(claim(f, text, PLAIN, tokens));
}

FIXTURE_TEST(half_characters_and_wrong_turns_are_refused)
{
    const hearth_token hi[] = { BOS, 'H', 'i', WORD, -1 };

    assert_false(claim(f, "Hi\xc3", PLAIN, REPLY(BOS, 'H', 'i', 0xc3)));
    assert_false(claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 6, .n_tokens = 4 }));
    assert_false(claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 2, .n_tokens = 3 }));
    assert_false(claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 8, .n_tokens = 5 }));
    assert_false(claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 7, .n_tokens = 0 }));
    assert_false(claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 0, .n_tokens = 1 }));
    assert_false(
        claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 7, .n_tokens = 4, .n_reply_bytes = 8 }));
    assert_int_equal(n_known(f, "Hi w260", PLAIN), 0);
    assert_true(
        claim_turn(f, "Hi w260", PLAIN, hi, (hth_history_turn){ .n_bytes = 7, .n_tokens = 4, .n_reply_bytes = 5 }));
}

FIXTURE_TEST(a_turn_within_a_character_is_refused)
{
    const hearth_token tokens[] = { BOS, 'H', 0xc3, 0xa9, WORD };
    hth_history_turn turns[] = { { .n_bytes = 2, .n_tokens = 3 }, { .n_bytes = 8, .n_tokens = 5 } };
    hth_known_text text = { .text = (char *)(uintptr_t) "H\xc3\xa9 w260",
                            .n_bytes = 8,
                            .tokens = (hearth_token *)(uintptr_t)tokens,
                            .n_tokens = 5,
                            .turns = turns,
                            .n_turns = 2 };

    assert_false(hth_true_tokens_learn(f->here, mine, &text, PLAIN));
    turns[0] = (hth_history_turn){ .n_bytes = 3, .n_tokens = 4 };
    assert_true(hth_true_tokens_learn(f->here, mine, &text, PLAIN));
    text.n_turns = 1;
    text.turns = &turns[1];
    assert_false(hth_true_tokens_learn(f->here, mine, &text, PLAIN)); /* it is known */
    text.n_turns = 0;
    assert_false(hth_true_tokens_learn(f->here, others, &text, PLAIN));
}
