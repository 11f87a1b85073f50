/*
 * model_vocab.c - the vocabulary: SentencePiece-like, made of invented words
 *
 * Any text can be tokenised and comes back the same: printable ASCII characters and the space have tokens of their own
 * and all else is spelt in byte tokens. Every longer piece is a shorter one with a syllable or an ending added, so that
 * merging can reach it.
 */
#include <stdlib.h>
#include <string.h>

#include "random_model.h"

#define SPACE "\xe2\x96\x81" /* U+2581 stands for a space in SentencePiece vocabularies */

void vocab_init(struct vocab *vocab, size_t n_max)
{
    *vocab = (struct vocab){ .n_max = n_max, .n_slots = 2 };
    while (vocab->n_slots < 2 * n_max)
        vocab->n_slots *= 2;
    vocab->pieces = allocate(n_max, sizeof(*vocab->pieces));
    vocab->scores = allocate(n_max, sizeof(*vocab->scores));
    vocab->types = allocate(n_max, sizeof(*vocab->types));
    vocab->slots = allocate(vocab->n_slots, sizeof(*vocab->slots));
}

void vocab_deinit(struct vocab *vocab)
{
    free(vocab->pieces);
    free(vocab->scores);
    free(vocab->types);
    free(vocab->slots);
}

/* Add a piece unless it is there already, is too long or the vocabulary is full. */
static void vocab_add(struct vocab *vocab, const char *piece, enum llama_token_type type)
{
    size_t slot = hash_text(piece) & (vocab->n_slots - 1);

    if (vocab->n == vocab->n_max || strlen(piece) >= PIECE_BYTES)
        return;
    for (; vocab->slots[slot]; slot = (slot + 1) & (vocab->n_slots - 1)) {
        if (strcmp(vocab->pieces[vocab->slots[slot] - 1], piece) == 0)
            return;
    }
    memcpy(vocab->pieces[vocab->n], piece, strlen(piece) + 1);
    vocab->types[vocab->n] = type;
    vocab->scores[vocab->n] = type == LLAMA_TOKEN_TYPE_NORMAL ? -(float)(vocab->n - N_SPECIAL_TOKENS) : 0.0f;
    vocab->n++;
    vocab->slots[slot] = (uint32_t)vocab->n;
}

static void vocab_add_joined(struct vocab *vocab, const char *first, const char *second, const char *third)
{
    char piece[2 * PIECE_BYTES];

    (void)snprintf(piece, sizeof(piece), "%s%s%s", first, second, third); /* what is cut is too long to be added */
    vocab_add(vocab, piece, LLAMA_TOKEN_TYPE_NORMAL);
}

static void vocab_add_special(struct vocab *vocab)
{
    char piece[PIECE_BYTES];

    vocab_add(vocab, "<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
    vocab_add(vocab, "<s>", LLAMA_TOKEN_TYPE_CONTROL);
    vocab_add(vocab, "</s>", LLAMA_TOKEN_TYPE_CONTROL);
    for (unsigned byte = 0; byte < 256; byte++) {
        (void)snprintf(piece, sizeof(piece), "<0x%02X>", byte); /* always fits */
        vocab_add(vocab, piece, LLAMA_TOKEN_TYPE_BYTE);
    }
    vocab_add(vocab, "<|im_start|>", LLAMA_TOKEN_TYPE_CONTROL);
    vocab_add(vocab, "<|im_end|>", LLAMA_TOKEN_TYPE_CONTROL);
}

static const char *const onsets[] = { "b", "c", "d", "f", "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",  "r",  "s",
                                      "t", "v", "w", "z", "th", "sh", "ch", "st", "tr", "pr", "pl", "br", "gr", "wh" };
static const char *const vowels[] = { "a", "e", "i", "o", "u", "y" };
static const char *const endings[] = { "n", "r", "s", "l", "t", "d", "m", "nd", "nt", "ng", "st", "ck" };

static const size_t n_onsets = sizeof(onsets) / sizeof(onsets[0]);
static const size_t n_vowels = sizeof(vowels) / sizeof(vowels[0]);
static const size_t n_endings = sizeof(endings) / sizeof(endings[0]);

static void vocab_add_short_pieces(struct vocab *vocab)
{
    vocab_add(vocab, SPACE, LLAMA_TOKEN_TYPE_NORMAL);
    for (char c = '!'; c <= '~'; c++)
        vocab_add(vocab, (const char[]){ c, '\0' }, LLAMA_TOKEN_TYPE_NORMAL);
    for (size_t i = 0; i < n_onsets; i++) {
        for (size_t j = 0; j < n_vowels; j++)
            vocab_add_joined(vocab, onsets[i], vowels[j], "");
    }
    for (size_t i = 0; i < n_vowels; i++) {
        for (size_t j = 0; j < n_endings; j++)
            vocab_add_joined(vocab, vowels[i], endings[j], "");
    }
    for (size_t i = 0; i < n_onsets; i++) {
        vocab_add_joined(vocab, SPACE, onsets[i], "");
        for (size_t j = 0; j < n_vowels; j++)
            vocab_add_joined(vocab, SPACE, onsets[i], vowels[j]);
    }
    for (size_t i = 0; i < n_vowels; i++)
        vocab_add_joined(vocab, SPACE, vowels[i], "");
}

static bool ends_in_vowel(const char *piece)
{
    return strchr("aeiouy", piece[strlen(piece) - 1]) != NULL;
}

/* Fill a vocabulary; the same size gives the same pieces. */
void vocab_fill(struct vocab *vocab)
{
    vocab_add_special(vocab);
    vocab_add_short_pieces(vocab);

    /* Lengthen pieces picked at random, those just made included, until the vocabulary is full. */
    size_t stem_begin = N_SPECIAL_TOKENS + 1 + ('~' - '!' + 1);
    for (uint64_t n = 0; vocab->n < vocab->n_max; n++) {
        uint64_t draw = random_at(/* key= */ 0, n);
        const char *stem = vocab->pieces[stem_begin + draw % (vocab->n - stem_begin)];

        draw >>= 32;
        if (ends_in_vowel(stem) && draw % 3 == 0)
            vocab_add_joined(vocab, stem, endings[(draw >> 8) % n_endings], "");
        else
            vocab_add_joined(vocab, stem, onsets[(draw >> 8) % n_onsets], vowels[(draw >> 16) % n_vowels]);
    }
}
