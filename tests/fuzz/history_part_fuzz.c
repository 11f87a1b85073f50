/*
 * history_part_fuzz.c - any bytes as what another node knows of a prompt
 *
 * The first byte has the flags of the tokenizer. What is held: nothing outside the bytes is read (a sanitizer sees it);
 * what was read is written as the same bytes; and a text that is learned has no other control tokens and user-defined
 * ones than the tokenizer reads in it. Random bytes are seldom tokens of their text, so the bytes are also tried as
 * tokens whose text is made of them, with marks.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wholes.h"
#include "wire/history_part.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { BYTES_MAX = 1 << 20, TOKENS_MAX = 64, MARK = 0x8000 };

static const uint8_t fingerprint[32] = { 1 };

/* It was learned. The stub reads no marks. */
static void check_learned(const hth_known_text *text, unsigned flags)
{
    for (size_t i = 0; i < text->n_tokens; i++)
        assert(text->tokens[i] >= 0 && text->tokens[i] < N_VOCAB);
    if (!memchr(text->text, HTH_PLAIN_MARK, text->n_bytes))
        check_wholes(the_spelling(), text->text, text->n_bytes, text->tokens, text->n_tokens, flags);
}

static void learn(const hth_known_text *text, unsigned flags)
{
    static const hth_log silent = { .level = HEARTH_LOG_ERROR };
    const hth_spelling *s = the_spelling();
    hth_true_tokens *known = hth_true_tokens_new(&(hth_true_tokens_options){
        .backend = s->backend, .model = s->model, .n_vocab = N_VOCAB, .bytes_max = BYTES_MAX, .log = &silent });
    hth_known_text again;

    if (!known)
        return;
    if (hth_true_tokens_learn(known, fingerprint, text, flags)) {
        check_learned(text, flags);
        if (hth_true_tokens_known(known, fingerprint, text->text, text->n_bytes, flags, &again)) {
            assert(again.n_bytes == text->n_bytes && again.n_tokens == text->n_tokens);
            assert(memcmp(again.tokens, text->tokens, text->n_tokens * sizeof(*text->tokens)) == 0);
            hth_known_text_deinit(&again);
        }
    }
    (void)hth_true_tokens_free(known); /* it has no files */
}

static void check_part(const uint8_t *bytes, size_t n_bytes, unsigned flags)
{
    hth_buffer out = { .text = NULL };
    hth_known_text text;

    if (!hth_history_part_read(bytes, n_bytes, &text))
        return;
    hth_history_part_add(&out, &text);
    assert(out.failed || (out.n == n_bytes && memcmp(out.text, bytes, n_bytes) == 0));
    hth_buffer_deinit(&out);
    learn(&text, flags);
    hth_known_text_deinit(&text);
}

/* Two bytes a token, the last of which may be preceded by a mark. */
static void check_tokens(const uint8_t *bytes, size_t n_bytes, unsigned flags)
{
    const hth_spelling *s = the_spelling();
    hearth_token tokens[TOKENS_MAX];
    hth_buffer text = { .text = NULL };
    hth_history_turn turn = { .n_tokens = 0 };

    for (size_t i = 0; i + 1 < n_bytes && turn.n_tokens < TOKENS_MAX; i += 2) {
        const unsigned number = bytes[i] | (unsigned)bytes[i + 1] << 8;
        const char mark = HTH_PLAIN_MARK;
        char piece[HTH_PIECE_BYTES_MAX];
        size_t n = 0;

        tokens[turn.n_tokens] = (hearth_token)(number % MARK % N_VOCAB);
        if (number & MARK)
            hth_buffer_add(&text, &mark, 1);
        if (s->backend->piece(s->model, tokens[turn.n_tokens], true, piece, sizeof(piece), &n, NULL) == HEARTH_OK &&
            !(turn.n_tokens == 0 && tokens[0] == s->first))
            hth_buffer_add(&text, piece, n);
        turn.n_tokens++;
    }
    turn.n_bytes = (uint32_t)text.n;
    if (!text.failed && text.n > 0)
        learn(&(hth_known_text){ .text = text.text,
                                 .n_bytes = text.n,
                                 .tokens = tokens,
                                 .n_tokens = turn.n_tokens,
                                 .turns = &turn,
                                 .n_turns = 1 },
              flags);
    hth_buffer_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    unsigned flags;

    if (n_bytes == 0)
        return 0;
    flags = bytes[0] & (HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL | HTH_PROMPT_CHAT);
    check_part(bytes + 1, n_bytes - 1, flags);
    check_tokens(bytes + 1, n_bytes - 1, flags);
    return 0;
}
