/*
 * true_tokens_test.c - a prompt that begins with a conversation gets its tokens, and never a control token too many
 *
 * The stub's vocabulary is bytes (0 to 255), control tokens (256 <s>, 257 </s>, 258 <|im_start|>, 259 <|im_end|>), and
 * words from 260 on, " w260", that its tokenizer never makes. Only the last one is user-defined: it is always read.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/true_tokens.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { BOS = 256, TURN_BEGIN = 258, TURN_END = 259, WORD = 260, DEFINED = 399, FLUSH_MS = 60000, TOKENS_MAX = 512 };
enum { CHAT = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL, PLAIN = HEARTH_TOKENIZE_BOS };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const uint8_t mine[32] = { 1 }, others[32] = { 2 };

typedef struct fixture {
    const hth_backend *stub;
    hth_engine_model *model;
    hth_engine_model_info info;
    char *directory;
    char path[4096];
    hth_signing_key *key;
    hth_true_tokens *known;
} fixture;

static void open_known(fixture *f)
{
    f->known = hth_true_tokens_new(&(hth_true_tokens_options){
        .backend = f->stub,
        .model = f->model,
        .n_vocab = f->info.n_vocab,
        .bytes_max = 1 << 20,
        .directory = f->path,
        .key = f->key,
        .log = &silent,
    });
    assert_non_null(f->known);
}

static void close_known(fixture *f)
{
    assert_true(hth_true_tokens_free(f->known));
    f->known = NULL;
}

static void load_model(fixture *f, const char *path)
{
    hth_engine_model_params params = { .log = &silent };

    f->stub->model_free(f->model);
    assert_int_equal(f->stub->model_load(path, &params, &f->model, NULL), HEARTH_OK);
    f->stub->model_info(f->model, &f->info);
}

static void set_up(fixture *f)
{
    f->stub = hth_backend_stub();
    load_model(f, "stub:vocab=400,defined=1");
    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/history/model", f->directory);
    open_known(f);
}

static void tear_down(fixture *f)
{
    close_known(f);
    hth_signing_key_free(f->key);
    f->stub->model_free(f->model);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

typedef struct prompt {
    hearth_token tokens[TOKENS_MAX];
    size_t n;
    size_t n_known;
} prompt;

static prompt tokens_of(const fixture *f, const uint8_t fingerprint[32], const char *text, unsigned flags)
{
    hearth_token *tokens;
    prompt p;

    assert_int_equal(
        hth_true_tokens_of(f->known, fingerprint, text, strlen(text), flags, NULL, &tokens, &p.n, &p.n_known, NULL),
        HEARTH_OK);
    assert_true(p.n <= TOKENS_MAX);
    memcpy(p.tokens, tokens, p.n * sizeof(*tokens));
    free(tokens);
    return p;
}

/* The prompt got this reply, tokens up to the first negative one. */
static void note(const fixture *f, const char *text, unsigned flags, const hearth_token *reply)
{
    prompt p = tokens_of(f, mine, text, flags);
    hth_prompt_text *shared = hth_prompt_text_new(text, strlen(text), flags, 0);
    size_t n = 0;

    while (reply[n] >= 0)
        n++;
    hth_true_tokens_note(f->known, mine, shared, p.tokens, p.n, reply, n);
    hth_prompt_text_unref(shared);
}

static size_t n_known(const fixture *f, const char *text, unsigned flags)
{
    return tokens_of(f, mine, text, flags).n_known;
}

#define REPLY(...) ((const hearth_token[]){ __VA_ARGS__, -1 })

FIXTURE_TEST(a_prompt_that_goes_on_with_a_reply_gets_its_tokens)
{
    prompt p;

    note(f, "Hi.", PLAIN, REPLY(WORD, WORD + 1));
    p = tokens_of(f, mine, "Hi. w260 w261 and more", PLAIN);
    assert_int_equal(p.n_known, 6); /* <s> H i . w260 w261 */
    assert_int_equal(p.n, 6 + strlen(" and more"));
    assert_int_equal(p.tokens[0], BOS);
    assert_int_equal(p.tokens[4], WORD);
    assert_int_equal(p.tokens[5], WORD + 1);
    assert_int_equal(p.tokens[6], ' ');
}

FIXTURE_TEST(a_prompt_that_is_a_conversation_needs_no_tokenizer)
{
    note(f, "Hi.", PLAIN, REPLY(WORD));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 5);
}

FIXTURE_TEST(a_prompt_that_differs_within_the_reply_is_tokenized_anew)
{
    note(f, "Hi.", PLAIN, REPLY(WORD, WORD + 1));
    assert_int_equal(n_known(f, "Hi. w260 w26", PLAIN), 0);
    assert_int_equal(n_known(f, "Hi. w260 w262", PLAIN), 0);
}

FIXTURE_TEST(an_ended_turn_is_known_with_its_end_and_without)
{
    prompt p;

    note(f, "<|im_start|>a\n", CHAT, REPLY(WORD, TURN_END));
    p = tokens_of(f, mine, "<|im_start|>a\n w260<|im_end|>\n<|im_start|>b\n", CHAT);
    assert_int_equal(p.n_known, 6); /* <s> <|im_start|> a \n w260 <|im_end|> */
    assert_int_equal(p.tokens[5], TURN_END);
    assert_int_equal(p.tokens[6], '\n');
    assert_int_equal(p.tokens[7], TURN_BEGIN);
    /* A template that writes another end. */
    p = tokens_of(f, mine, "<|im_start|>a\n w260</s>", CHAT);
    assert_int_equal(p.n_known, 5);
    assert_int_equal(p.tokens[5], 257);
}

FIXTURE_TEST(a_conversation_grows_turn_by_turn)
{
    note(f, "A", CHAT, REPLY(WORD, TURN_END));
    note(f, "A w260<|im_end|>B", CHAT, REPLY(WORD + 1, TURN_END));
    note(f, "A w260<|im_end|>B w261<|im_end|>C", CHAT, REPLY(WORD + 2, TURN_END));
    assert_int_equal(n_known(f, "A w260<|im_end|>B w261<|im_end|>C w262<|im_end|>D", CHAT), 10);
    /* The last reply is rendered otherwise: what came before it is known all the same. */
    assert_int_equal(n_known(f, "A w260<|im_end|>B w261<|im_end|>C other<|im_end|>D", CHAT), 7);
}

FIXTURE_TEST(another_tenant_knows_nothing)
{
    note(f, "Hi.", PLAIN, REPLY(WORD));
    assert_int_equal(tokens_of(f, others, "Hi. w260", PLAIN).n_known, 0);
}

FIXTURE_TEST(other_flags_know_nothing)
{
    note(f, "Hi.", PLAIN, REPLY(WORD));
    assert_int_equal(n_known(f, "Hi. w260", CHAT), 0);
    assert_int_equal(n_known(f, "Hi. w260", 0), 0);
}

FIXTURE_TEST(a_conversation_and_a_plain_text_know_nothing_of_each_other)
{
    note(f, "Hi.", CHAT, REPLY(WORD));
    assert_int_equal(n_known(f, "Hi. w260", CHAT | HTH_PROMPT_CHAT), 0);
    note(f, "Ho.", CHAT | HTH_PROMPT_CHAT, REPLY(WORD));
    assert_int_equal(n_known(f, "Ho. w260", CHAT), 0);
    assert_int_equal(n_known(f, "Ho. w260", CHAT | HTH_PROMPT_CHAT), 5);
}

/* ---- odd tokens ---- */

/* Note the text of n words, spelled byte by byte. */
static void note_spelled(const fixture *f, const char *text, size_t n)
{
    hearth_token reply[64];
    size_t n_reply = 0;

    for (size_t i = 0; i < n; i++)
        for (const char *at = " w260"; *at; at++)
            reply[n_reply++] = (unsigned char)*at;
    reply[n_reply] = -1;
    note(f, text, PLAIN, reply);
}

FIXTURE_TEST(a_reply_of_far_more_tokens_than_its_text_has_is_not_recorded)
{
    close_known(f);
    load_model(f, "stub:vocab=400,joins=1");
    open_known(f);
    note_spelled(f, "Hi.", 2); /* 10 tokens instead of 2 */
    assert_int_equal(n_known(f, "Hi. w260 w260", PLAIN), 4 + 10);
    note_spelled(f, "Ho.", 6);
    assert_int_equal(n_known(f, "Ho. w260 w260 w260 w260 w260 w260", PLAIN), 0);
}

/* Each piece alone would be allowed its few tokens too many. */
FIXTURE_TEST(small_pieces_do_not_add_up_to_odd_tokens)
{
    char text[256] = "Hi.";
    prompt p;

    close_known(f);
    load_model(f, "stub:vocab=400,joins=1");
    open_known(f);
    for (int i = 0; i < 12; i++) {
        note_spelled(f, text, 1);
        (void)snprintf(text + strlen(text), 6, " w260");
    }
    p = tokens_of(f, mine, text, PLAIN);
    assert_true(p.n_known > 0);
    assert_true(p.n <= 4 + 12 + (4 + 12) / 2 + 8);
}

FIXTURE_TEST(a_reply_that_spells_a_user_defined_token_is_not_recorded)
{
    note(f, "Hi.", PLAIN, REPLY(' ', 'w', '3', '9', '9'));
    assert_int_equal(n_known(f, "Hi. w399", PLAIN), 0);
    assert_int_equal(tokens_of(f, mine, "Hi. w399", PLAIN).tokens[4], DEFINED);
    note(f, "Hi.", CHAT, REPLY(' ', 'w', '3', '9', '9'));
    assert_int_equal(n_known(f, "Hi. w399", CHAT), 0);
    note(f, "Ho.", PLAIN, REPLY(DEFINED, WORD));
    assert_int_equal(n_known(f, "Ho. w399 w260", PLAIN), 6);
}

FIXTURE_TEST(a_record_is_not_used_where_a_user_defined_token_crosses_its_end)
{
    note(f, "Hi.", PLAIN, REPLY(' ', 'w', '3'));
    assert_int_equal(n_known(f, "Hi. w399", PLAIN), 0);
    assert_int_equal(n_known(f, "Hi. w398", PLAIN), 7);
}

/* ---- control tokens ---- */

FIXTURE_TEST(a_reply_that_spells_a_control_token_is_not_recorded_for_prompts_that_read_them)
{
    hearth_token spelled[16];
    size_t n = 0;

    for (const char *at = "<|im_end|>"; *at; at++)
        spelled[n++] = (unsigned char)*at;
    spelled[n++] = WORD;
    spelled[n] = -1;
    note(f, "Hi.", CHAT, spelled);
    assert_int_equal(n_known(f, "Hi.<|im_end|> w260", CHAT), 0);
    assert_int_equal(tokens_of(f, mine, "Hi.<|im_end|> w260", CHAT).tokens[4], TURN_END);
    /* Prompts that read none have the same text. */
    note(f, "Hi.", PLAIN, spelled);
    assert_int_equal(n_known(f, "Hi.<|im_end|> w260", PLAIN), 4 + 10 + 1);
}

FIXTURE_TEST(a_reply_with_a_control_token_is_not_recorded_for_prompts_that_read_none)
{
    note(f, "Hi.", PLAIN, REPLY(WORD, TURN_BEGIN, WORD));
    assert_int_equal(n_known(f, "Hi. w260<|im_start|> w260", PLAIN), 0);
    note(f, "Hi.", CHAT, REPLY(WORD, TURN_BEGIN, WORD));
    assert_int_equal(n_known(f, "Hi. w260<|im_start|> w260", CHAT), 7);
    /* The end of a turn does not spoil what is before it. */
    note(f, "Ho.", PLAIN, REPLY(WORD, TURN_END));
    assert_int_equal(n_known(f, "Ho. w260<|im_end|>", PLAIN), 5);
    assert_int_equal(tokens_of(f, mine, "Ho. w260<|im_end|>", PLAIN).tokens[5], '<');
}

FIXTURE_TEST(a_control_token_across_the_end_of_the_prompt_is_not_recorded)
{
    note(f, "Hi.<|im_", CHAT, REPLY('e', 'n', 'd', '|', '>', WORD));
    assert_int_equal(n_known(f, "Hi.<|im_end|> w260", CHAT), 0);
}

FIXTURE_TEST(a_record_is_not_used_where_a_control_token_crosses_its_end)
{
    prompt p;

    note(f, "Hi.", CHAT, REPLY(WORD, '<', '|', 'i', 'm'));
    p = tokens_of(f, mine, "Hi. w260<|im_end|>", CHAT);
    assert_int_equal(p.n_known, 0);
    assert_int_equal(p.tokens[p.n - 1], TURN_END);
    assert_int_equal(n_known(f, "Hi. w260<|im_sorry", CHAT), 9);
}

FIXTURE_TEST(a_reply_that_ends_within_a_character_is_not_recorded)
{
    note(f, "Hi.", PLAIN, REPLY(WORD, 0xC3));
    assert_int_equal(n_known(f, "Hi. w260\xC3\xA9", PLAIN), 0);
    note(f, "Hi.", PLAIN, REPLY(WORD, 0xC3, 0xA9));
    assert_int_equal(n_known(f, "Hi. w260\xC3\xA9", PLAIN), 7);
}

/* ---- files ---- */

static void again(fixture *f)
{
    close_known(f);
    open_known(f);
}

FIXTURE_TEST(a_conversation_is_known_after_a_restart)
{
    note(f, "<|im_start|>a\n", CHAT, REPLY(WORD, TURN_END));
    note(f, "Hi.", PLAIN, REPLY(WORD, WORD + 1));
    again(f);
    assert_int_equal(n_known(f, "<|im_start|>a\n w260<|im_end|>b", CHAT), 6);
    assert_int_equal(n_known(f, "Hi. w260 w261", PLAIN), 6);
    note(f, "Hi. w260 w261, go on", PLAIN, REPLY(WORD + 2));
    again(f);
    again(f);
    assert_int_equal(n_known(f, "Hi. w260 w261, go on w262", PLAIN), 6 + 7 + 1);
    assert_int_equal(tokens_of(f, others, "Hi. w260 w261", PLAIN).n_known, 0);
}

/* The path of the only file. */
static void path_of_file(const fixture *f, char *path, size_t capacity)
{
    DIR *folder = opendir(f->path);
    const struct dirent *entry;
    int n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, capacity, "%s/%s", f->path, entry->d_name);
            n++;
        }
    (void)closedir(folder);
    assert_int_equal(n, 1);
}

FIXTURE_TEST(files_have_no_text_and_nothing_that_is_not_needed)
{
    char path[8192], bytes[4096];
    FILE *file;
    size_t n;

    note(f, "the password is swordfish", PLAIN, REPLY(WORD));
    assert_true(hth_true_tokens_flush(f->known, FLUSH_MS));
    path_of_file(f, path, sizeof(path));
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    assert_true(n > 0 && n < sizeof(bytes));
    assert_null(memmem(bytes, n, "swordfish", 9));
}

static void damage(const fixture *f, long offset)
{
    char path[8192];
    FILE *file;
    int byte;

    path_of_file(f, path, sizeof(path));
    file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

FIXTURE_TEST(a_damaged_entry_costs_itself_alone)
{
    note(f, "one", PLAIN, REPLY(WORD));
    note(f, "two", PLAIN, REPLY(WORD));
    close_known(f);
    damage(f, 90);
    open_known(f);
    assert_int_equal(n_known(f, "one w260", PLAIN), 0);
    assert_int_equal(n_known(f, "two w260", PLAIN), 5);
}

FIXTURE_TEST(with_a_key_only_signed_entries_count)
{
    static const uint8_t secret[32] = { 7 }, other_secret[32] = { 8 };

    note(f, "unsigned", PLAIN, REPLY(WORD));
    close_known(f);
    f->key = hth_hmac_key_new(secret, sizeof(secret));
    open_known(f);
    assert_int_equal(n_known(f, "unsigned w260", PLAIN), 0);
    note(f, "signed", PLAIN, REPLY(WORD));
    again(f);
    assert_int_equal(n_known(f, "signed w260", PLAIN), 8);
    close_known(f);
    hth_signing_key_free(f->key);
    f->key = hth_hmac_key_new(other_secret, sizeof(other_secret));
    open_known(f);
    assert_int_equal(n_known(f, "signed w260", PLAIN), 0);
}

static size_t n_files(const fixture *f)
{
    DIR *folder = opendir(f->path);
    const struct dirent *entry;
    size_t n = 0;

    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.';
    if (folder)
        (void)closedir(folder);
    return n;
}

FIXTURE_TEST(many_files_become_one)
{
    char text[32];

    assert_int_equal(n_files(f), 0); /* nothing was written */
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text, sizeof(text), "number %d", i);
        note(f, text, PLAIN, REPLY(WORD));
        again(f);
        assert_true(n_files(f) <= 18);
    }
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text, sizeof(text), "number %d w260", i);
        assert_true(n_known(f, text, PLAIN) > 0);
    }
}

/* ---- the model's own words ---- */

/* hth_same_reply_fn: blanks do not matter */
static bool same_but_blanks(const char *a, size_t n_a, const char *b, size_t n_b, void *user_data)
{
    size_t i = 0, k = 0;

    ++*(size_t *)user_data;
    for (;;) {
        while (i < n_a && a[i] == ' ')
            i++;
        while (k < n_b && b[k] == ' ')
            k++;
        if (i == n_a || k == n_b)
            return i == n_a && k == n_b;
        if (a[i++] != b[k++])
            return false;
    }
}

/* The text with the model's own words; expected NULL: it stays. How often replies were compared. */
static size_t expect_words(const fixture *f, const uint8_t fingerprint[32], const char *text, const char *expected)
{
    size_t n_asked = 0, n_out = 0;
    char *out;

    hth_true_tokens_own_words(f->known, fingerprint, text, strlen(text), CHAT | HTH_PROMPT_CHAT, same_but_blanks,
                              &n_asked, &out, &n_out);
    if (!expected) {
        assert_null(out);
        return n_asked;
    }
    assert_non_null(out);
    assert_int_equal(n_out, strlen(expected));
    assert_memory_equal(out, expected, n_out);
    free(out);
    return n_asked;
}

FIXTURE_TEST(a_reply_that_a_template_writes_otherwise_is_put_in_the_words_of_the_model)
{
    unsigned flags = CHAT | HTH_PROMPT_CHAT;

    note(f, "<|im_start|>a\n", flags, REPLY(WORD, WORD + 1, TURN_END));
    expect_words(f, mine, "<|im_start|>a\nw260  w261<|im_end|>\n<|im_start|>b\n",
                 "<|im_start|>a\n w260 w261<|im_end|>\n<|im_start|>b\n");
    /* And a later turn of the same conversation. */
    note(f, "<|im_start|>a\n w260 w261<|im_end|>\n<|im_start|>b\n", flags, REPLY('x', WORD + 2, TURN_END));
    expect_words(f, mine, "<|im_start|>a\nw260w261<|im_end|>\n<|im_start|>b\nx  w262<|im_end|>\nend",
                 "<|im_start|>a\n w260 w261<|im_end|>\n<|im_start|>b\nx w262<|im_end|>\nend");
    again(f);
    expect_words(f, mine, "<|im_start|>a\nw260w261<|im_end|>\n<|im_start|>b\nx  w262<|im_end|>\nend",
                 "<|im_start|>a\n w260 w261<|im_end|>\n<|im_start|>b\nx w262<|im_end|>\nend");
}

FIXTURE_TEST(what_says_something_else_stays)
{
    note(f, "<|im_start|>a\n", CHAT | HTH_PROMPT_CHAT, REPLY(WORD, TURN_END));
    assert_int_equal(expect_words(f, mine, "<|im_start|>a\nw261<|im_end|>\n", NULL), 1);
    /* Another salt, another prompt, a text without the end of the reply, and one that is known as it is. */
    assert_int_equal(expect_words(f, others, "<|im_start|>a\nw260<|im_end|>\n", NULL), 0);
    assert_int_equal(expect_words(f, mine, "<|im_start|>b\nw260<|im_end|>\n", NULL), 0);
    assert_int_equal(expect_words(f, mine, "<|im_start|>a\nw260", NULL), 0);
    assert_int_equal(expect_words(f, mine, "<|im_start|>a\n w260<|im_end|>\n", NULL), 0);
}

/* ---- files that nobody of us wrote ---- */

/* A record whose text is claimed, not made of its tokens. */
typedef struct claim {
    hth_history_record record;
    unsigned form;
} claim;

/* hth_history_text_fn */
static char *claimed_text(const hth_history_span *span, unsigned form, size_t *n_out, void *user_data)
{
    const claim *c = user_data;
    char *text = form == c->form ? malloc(c->record.n_bytes) : NULL;

    (void)span;
    if (text)
        memcpy(text, c->record.text, c->record.n_bytes);
    *n_out = c->record.n_bytes;
    return text;
}

/* Write a file with one entry of the text, in the form, and read it. */
static void claim_file(fixture *f, const char *text, unsigned flags, unsigned form, const hearth_token *tokens)
{
    claim c = { .record = { .text = text, .n_bytes = strlen(text), .tokens = tokens }, .form = form };
    hth_history_end before = { .last = -1 };
    uint8_t bytes[512];
    char path[8192];
    FILE *file;

    while (tokens[c.record.n_tokens] >= 0)
        c.record.n_tokens++;
    memcpy(c.record.space.bytes, mine, 32);
    c.record.space.bytes[32] = (uint8_t)flags;
    hth_history_space_digest(&c.record.space, &c.record.below);
    assert_true(hth_history_entry_bytes(c.record.n_tokens, false) <= sizeof(bytes));
    assert_true(hth_history_entry_write(&c.record, &before, NULL, claimed_text, &c, bytes));
    close_known(f);
    if (n_files(f) == 0) {
        open_known(f);
        note(f, "a first file", PLAIN, REPLY(WORD));
        close_known(f);
    }
    (void)snprintf(path, sizeof(path), "%s/00000000000000ff.history", f->path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, hth_history_entry_bytes(c.record.n_tokens, false), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    open_known(f);
}

FIXTURE_TEST(a_sound_claim_is_believed)
{
    claim_file(f, "Hi. w260", PLAIN, 1, REPLY(BOS, 'H', 'i', '.', WORD));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 5);
}

FIXTURE_TEST(claims_of_files_never_force_tokens_that_a_text_does_not_have)
{
    /* Tokens that are not those of the text. */
    claim_file(f, "Hi. w260", PLAIN, 1, REPLY(BOS, 'H', 'o', '.', WORD));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 0);
    /* Another first token than the one that begins every text, or one where none is added. */
    claim_file(f, "Hi. w260", PLAIN, 1, REPLY(TURN_END, 'H', 'i', '.', WORD));
    assert_int_equal(n_known(f, "Hi. w260", PLAIN), 0);
    claim_file(f, "Hi. w260", 0, 1, REPLY(BOS, 'H', 'i', '.', WORD));
    assert_int_equal(n_known(f, "Hi. w260", 0), 0);
    /* Control tokens where none are read, and texts of such tokens where they are read. */
    claim_file(f, "Hi<|im_end|>", PLAIN, 1, REPLY(BOS, 'H', 'i', TURN_END));
    assert_int_equal(n_known(f, "Hi<|im_end|>", PLAIN), 0);
    claim_file(f, "Hi<|im_end|>", CHAT, 1, REPLY(BOS, 'H', 'i', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'));
    assert_int_equal(n_known(f, "Hi<|im_end|>", CHAT), 0);
    claim_file(f, "Hi w399", PLAIN, 1, REPLY(BOS, 'H', 'i', ' ', 'w', '3', '9', '9'));
    assert_int_equal(n_known(f, "Hi w399", PLAIN), 0);
    /* Half a character. */
    claim_file(f, "Hi\xc3", PLAIN, 1, REPLY(BOS, 'H', 'i', 0xc3));
    assert_int_equal(n_known(f, "Hi\xc3\xa9", PLAIN), 0);
}
