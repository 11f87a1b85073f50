/*
 * vocabulary.c - read and sort a vocabulary
 *
 * Sorted pieces with the lengths of their shared prefixes form a flat trie. A walk in this order that keeps a state for
 * each byte processes a shared prefix once, and skips all pieces that begin with a refused text.
 */
#include "engine/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "engine/module_lock.h"

enum { PIECE_BYTES_MAX = 65536 };

static int by_bytes(const void *a, const void *b)
{
    const hth_piece *left = a;
    const hth_piece *right = b;
    uint32_t n = left->n_bytes < right->n_bytes ? left->n_bytes : right->n_bytes;
    int order = memcmp(left->bytes, right->bytes, n);

    if (order != 0)
        return order;
    if (left->n_bytes != right->n_bytes)
        return left->n_bytes < right->n_bytes ? -1 : 1;
    return left->token < right->token ? -1 : left->token > right->token;
}

static uint32_t common_beginning(const hth_piece *a, const hth_piece *b)
{
    uint32_t n = 0;

    while (n < a->n_bytes && n < b->n_bytes && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Append every token's text to vocabulary->bytes; pieces get their lengths. False when memory runs out. */
static bool read_pieces(hth_vocabulary *vocabulary, const hth_vocabulary_source *source, char *text)
{
    size_t n_bytes = 0, capacity = 0;

    for (uint32_t i = 0; i < source->n_tokens; i++) {
        uint8_t *grown;
        size_t n = 0;

        if (source->piece(source->model, (hearth_token)i, text, PIECE_BYTES_MAX, &n) != HEARTH_OK)
            n = 0;
        grown = hth_grown_by(vocabulary->bytes, n_bytes, n + 1, &capacity, 1);
        if (!grown)
            return false;
        vocabulary->bytes = grown;
        memcpy(vocabulary->bytes + n_bytes, text, n);
        n_bytes += n;
        vocabulary->pieces[i] = (hth_piece){ .n_bytes = (uint32_t)n, .token = (hearth_token)i };
        vocabulary->is_end[i] = source->is_end(source->model, (hearth_token)i);
        if (n > vocabulary->n_bytes_max)
            vocabulary->n_bytes_max = (uint32_t)n;
    }
    return true;
}

static void sort_pieces(hth_vocabulary *vocabulary)
{
    const uint8_t *at = vocabulary->bytes;

    for (uint32_t i = 0; i < vocabulary->n_tokens; i++) {
        hth_piece *piece = &vocabulary->pieces[i];

        piece->bytes = at;
        at += piece->n_bytes;
        if (piece->n_bytes > 0 && !vocabulary->is_end[i])
            vocabulary->sorted[vocabulary->n_sorted++] = *piece;
    }
    qsort(vocabulary->sorted, vocabulary->n_sorted, sizeof(vocabulary->sorted[0]), by_bytes);
    for (uint32_t i = 1; i < vocabulary->n_sorted; i++)
        vocabulary->shared[i] = common_beginning(&vocabulary->sorted[i - 1], &vocabulary->sorted[i]);
}

hearth_status hth_vocabulary_new(const hth_vocabulary_source *source, hth_vocabulary **out, hearth_error *err)
{
    hth_vocabulary *vocabulary = calloc(1, sizeof(*vocabulary));
    char *text = malloc(PIECE_BYTES_MAX);
    size_t n = source->n_tokens ? source->n_tokens : 1;
    bool ok = vocabulary && text;

    if (ok) {
        vocabulary->n_tokens = source->n_tokens;
        vocabulary->pieces = calloc(n, sizeof(vocabulary->pieces[0]));
        vocabulary->sorted = calloc(n, sizeof(vocabulary->sorted[0]));
        vocabulary->shared = calloc(n, sizeof(vocabulary->shared[0]));
        vocabulary->is_end = calloc(n, sizeof(vocabulary->is_end[0]));
        ok = vocabulary->pieces && vocabulary->sorted && vocabulary->shared && vocabulary->is_end &&
             read_pieces(vocabulary, source, text);
    }
    free(text);
    if (!ok) {
        hth_vocabulary_free(vocabulary);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the texts of %u tokens", source->n_tokens);
    }
    sort_pieces(vocabulary);
    *out = vocabulary;
    return HEARTH_OK;
}

void hth_vocabulary_free(hth_vocabulary *vocabulary)
{
    if (!vocabulary)
        return;
    free(vocabulary->pieces);
    free(vocabulary->sorted);
    free(vocabulary->shared);
    free(vocabulary->is_end);
    free(vocabulary->bytes);
    free(vocabulary);
}

/* ---- on demand --------------------------------------------------------------------------------------------------- */

struct hth_texts {
    hth_vocabulary_source source;
    pthread_mutex_t lock; /* guards the fields below until they have been set */
    hearth_token *ends;
    size_t n_ends;
    hth_vocabulary *vocabulary;
};

hth_texts *hth_texts_new(const hth_vocabulary_source *source)
{
    hth_texts *texts = calloc(1, sizeof(*texts));

    if (!texts)
        return NULL;
    texts->source = *source;
    pthread_mutex_init(&texts->lock, NULL);
    return texts;
}

void hth_texts_free(hth_texts *texts)
{
    if (!texts)
        return;
    pthread_mutex_destroy(&texts->lock);
    free(texts->ends);
    hth_vocabulary_free(texts->vocabulary);
    free(texts);
}

uint32_t hth_texts_n_tokens(const hth_texts *texts)
{
    return texts->source.n_tokens;
}

/* The tokens that end a reply, which are few. */
static hearth_token *find_ends(const hth_vocabulary_source *source, size_t *n_out)
{
    size_t capacity = 0;
    hearth_token *ends = hth_grown(NULL, 0, &capacity, sizeof(*ends)); /* not NULL, even if there are none */

    *n_out = 0;
    for (uint32_t i = 0; ends && i < source->n_tokens; i++) {
        hearth_token *grown;

        if (!source->is_end(source->model, (hearth_token)i))
            continue;
        grown = hth_grown(ends, *n_out, &capacity, sizeof(*ends));
        if (!grown)
            free(ends);
        else
            grown[(*n_out)++] = (hearth_token)i;
        ends = grown;
    }
    return ends;
}

hearth_status hth_texts_ends(hth_texts *texts, const hearth_token **ends, size_t *n_ends, hearth_error *err)
{
    hth_module_lock(&texts->lock);
    if (!texts->ends)
        texts->ends = find_ends(&texts->source, &texts->n_ends);
    *ends = texts->ends;
    *n_ends = texts->n_ends;
    hth_module_unlock(&texts->lock);
    return *ends ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
}

hearth_status hth_texts_vocabulary(hth_texts *texts, const hth_vocabulary **out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    hth_module_lock(&texts->lock);
    if (!texts->vocabulary)
        status = hth_vocabulary_new(&texts->source, &texts->vocabulary, err);
    *out = texts->vocabulary;
    hth_module_unlock(&texts->lock);
    return status;
}
