/*
 * draft.c - chains of positions after the same three tokens
 */
#include "sched/draft.h"

#include <assert.h>
#include <stdlib.h>

#include "base/grow.h"

enum {
    GRAM = 3,           /* tokens of a hash: the shortest repetition */
    CHAIN_MAX = 16,     /* positions that a guess compares */
    MATCH_MAX = 64,     /* a longer repetition counts as this */
    CLASSES = 4,        /* of lengths: up to 4, 8, 16 tokens, and longer */
    HEADS_MIN_BITS = 8, /* of the smallest hash table */
    LEARN_PART = 32,    /* a guessed token, right or wrong, moves a probability by this fraction */
    NOTHING = -1,       /* between the expected tokens and the prompt */
};

/* The probabilities that a guess is right, before the source has counted. */
static const float first_probability[CLASSES] = { 0.4f, 0.6f, 0.8f, 0.9f };

typedef struct text_place {
    hearth_token token;
    uint32_t before; /* the latest earlier position after the same GRAM tokens; 0: none */
} text_place;

struct hth_draft {
    text_place *text; /* [n_text]: expected tokens, NOTHING, prompt, reply */
    uint32_t n_text;
    size_t capacity;
    uint32_t *heads; /* [1 << head_bits], by hash: the latest position; 0: none */
    unsigned head_bits;
    uint32_t n_before_reply;

    uint32_t at;      /* the guess is the text from here on; 0 with n_match 0: no guess */
    uint32_t n_match; /* this many tokens before at equal those before the end */
    float probability[CLASSES];
};

void hth_draft_free(hth_draft *draft)
{
    if (!draft)
        return;
    free(draft->text);
    free(draft->heads);
    free(draft);
}

/* ---- the index ---- */

static uint32_t *head_of(const hth_draft *draft, uint32_t place)
{
    const text_place *gram = draft->text + place - GRAM;
    uint64_t hash = (uint32_t)gram[0].token * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ (uint32_t)gram[1].token) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (uint32_t)gram[2].token) * UINT64_C(0x94d049bb133111eb);
    return &draft->heads[hash >> (64 - draft->head_bits)];
}

static void enter(hth_draft *draft, uint32_t place)
{
    uint32_t *head;

    draft->text[place].before = 0;
    if (place < GRAM)
        return;
    head = head_of(draft, place);
    draft->text[place].before = *head;
    *head = place;
}

/* Make room for n_more tokens. If the table grows, all positions are inserted again. */
static bool grow(hth_draft *draft, size_t n_more)
{
    text_place *text = hth_grown_by(draft->text, draft->n_text, n_more, &draft->capacity, sizeof(*text));
    uint32_t *heads;
    unsigned bits = draft->heads ? draft->head_bits : HEADS_MIN_BITS;

    if (!text)
        return false;
    draft->text = text;
    while (((size_t)1 << bits) < draft->capacity && bits < 31)
        bits++;
    if (draft->heads && bits == draft->head_bits)
        return true;
    heads = calloc((size_t)1 << bits, sizeof(*heads));
    if (!heads)
        return false;
    free(draft->heads);
    draft->heads = heads;
    draft->head_bits = bits;
    for (uint32_t i = 0; i < draft->n_text; i++)
        enter(draft, i);
    return true;
}

/* The class of a repetition of n tokens. */
static float *probability_of(hth_draft *draft, uint32_t n)
{
    return &draft->probability[n <= 4 ? 0 : n <= 8 ? 1 : n <= 16 ? 2 : 3];
}

/* Compare an appended token with its guess, even if the guess was not requested. */
static void learn(hth_draft *draft, hearth_token token)
{
    bool is_right = draft->text[draft->at].token == token;
    float *probability = probability_of(draft, draft->n_match);

    if (draft->n_match == 0)
        return;
    *probability += ((is_right ? 1.0f : 0.0f) - *probability) / LEARN_PART;
    draft->at++;
    if (!is_right)
        draft->n_match = 0;
    else if (draft->n_match < MATCH_MAX)
        draft->n_match++;
}

bool hth_draft_append(hth_draft *draft, const hearth_token *tokens, size_t n_tokens)
{
    if (n_tokens == 0)
        return true;
    if (n_tokens > UINT32_MAX / 2 - draft->n_text || !grow(draft, n_tokens))
        return false;
    for (size_t i = 0; i < n_tokens; i++) {
        uint32_t place = draft->n_text++;

        draft->text[place].token = tokens[i];
        enter(draft, place);
        learn(draft, tokens[i]);
    }
    return true;
}

hth_draft *hth_draft_new(const hearth_token *prompt, size_t n_prompt, const hearth_token *expected, size_t n_expected)
{
    static const hearth_token nothing = NOTHING;
    hth_draft *draft = calloc(1, sizeof(*draft));

    if (!draft)
        return NULL;
    for (size_t i = 0; i < CLASSES; i++)
        draft->probability[i] = first_probability[i];
    if (!hth_draft_append(draft, expected, n_expected) || !hth_draft_append(draft, &nothing, 1) ||
        !hth_draft_append(draft, prompt, n_prompt)) {
        hth_draft_free(draft);
        return NULL;
    }
    draft->n_before_reply = draft->n_text;
    draft->n_match = n_expected > 0 ? MATCH_MAX : 0; /* the expected reply, at 0, is trusted at first */
    return draft;
}

uint32_t hth_draft_n_reply(const hth_draft *draft)
{
    return draft->n_text - draft->n_before_reply;
}

/* ---- guesses ---- */

/* The number of equal tokens before place and before the end, at most MATCH_MAX. */
static uint32_t match_at(const hth_draft *draft, uint32_t place)
{
    uint32_t n = 0;

    while (n < MATCH_MAX && n < place && draft->text[place - n - 1].token == draft->text[draft->n_text - n - 1].token)
        n++;
    return n;
}

/* Find the longest repetition; of equally long ones, the latest. */
static void find(hth_draft *draft)
{
    uint32_t place = draft->n_text > GRAM ? *head_of(draft, draft->n_text) : 0;

    draft->n_match = 0;
    for (unsigned i = 0; i < CHAIN_MAX && place > 0; i++, place = draft->text[place].before) {
        uint32_t n = match_at(draft, place);

        if (n >= GRAM && n > draft->n_match) {
            draft->at = place;
            draft->n_match = n;
        }
        if (n == MATCH_MAX)
            break;
    }
}

uint32_t hth_draft_guess(hth_draft *draft, float least, uint32_t n_max, hearth_token *out, float *right)
{
    float all_right = 1.0f;
    uint32_t n = 0;

    assert(n_max <= HEARTH_DRAFT_MAX);
    if (draft->n_match == 0 || draft->text[draft->at].token == NOTHING)
        find(draft);
    if (draft->n_match == 0)
        return 0;
    while (n < n_max) {
        uint32_t from = draft->at + n;
        hearth_token token =
            from < draft->n_text ? draft->text[from].token : out[from - draft->n_text]; /* a short loop */

        all_right *= *probability_of(draft, draft->n_match + n);
        if (token == NOTHING || all_right <= least)
            break;
        right[n] = all_right;
        out[n++] = token;
    }
    return n;
}
