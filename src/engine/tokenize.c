#include "engine/tokenize.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

static bool has_gone(void *user_data)
{
    return atomic_load_explicit((const atomic_bool *)user_data, memory_order_relaxed);
}

hearth_status hth_tokenize(const hth_backend *backend, const hth_engine_model *model, const char *text, size_t n_bytes,
                           unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out, size_t *n_out,
                           hearth_error *err)
{
    const hth_tokenize_stop stop = { .is_asked = has_gone, .user_data = (void *)(uintptr_t)is_gone };
    size_t capacity = n_bytes + 64; /* nearly always enough, so that no text is tokenized twice */
    hth_tokenize_result result = HTH_TOKENIZE_MORE_ROOM;
    hearth_token *tokens = NULL, *fitted;
    hearth_status status = HEARTH_OK;
    size_t n = 0;

    while (status == HEARTH_OK && result == HTH_TOKENIZE_MORE_ROOM) {
        hearth_token *grown = realloc(tokens, capacity * sizeof(*tokens));

        if (!grown) {
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tokens", capacity);
            break;
        }
        tokens = grown;
        status =
            backend->tokenize(model, text, n_bytes, flags, tokens, capacity, &n, &result, is_gone ? &stop : NULL, err);
        if (n > capacity)
            capacity = n;
    }
    if (status != HEARTH_OK) {
        free(tokens);
        return status;
    }
    fitted = realloc(tokens, (n + 1) * sizeof(*tokens)); /* a long text did not need all of it */
    *tokens_out = fitted ? fitted : tokens;
    *n_out = n;
    return HEARTH_OK;
}

/* ---- texts that a tokenizer reads as one token ---- */

typedef enum token_kind { KIND_TEXT, KIND_CONTROL, KIND_DEFINED } token_kind;

typedef struct control_text {
    token_kind kind;
    size_t n_bytes;
    char *bytes;
} control_text;

struct hth_control_texts {
    control_text *items; /* [n], by their first bytes, then the longest first */
    size_t n, capacity;
    size_t n_bytes_max; /* of the longest */
    uint8_t *kinds;     /* [n_vocab] */
    uint32_t n_vocab;
    size_t first_of[UCHAR_MAX + 2]; /* index of the first item with this first byte; the next entry is their end */
};

void hth_control_texts_free(hth_control_texts *texts)
{
    if (!texts)
        return;
    for (size_t i = 0; i < texts->n; i++)
        free(texts->items[i].bytes);
    free(texts->items);
    free(texts->kinds);
    free(texts);
}

static bool add(hth_control_texts *texts, token_kind kind, const char *bytes, size_t n_bytes)
{
    control_text *items = hth_grown(texts->items, texts->n, &texts->capacity, sizeof(*items));
    char *copy = items ? malloc(n_bytes) : NULL;

    if (items)
        texts->items = items;
    if (!copy)
        return false;
    memcpy(copy, bytes, n_bytes);
    items[texts->n++] = (control_text){ .kind = kind, .n_bytes = n_bytes, .bytes = copy };
    if (n_bytes > texts->n_bytes_max)
        texts->n_bytes_max = n_bytes;
    return true;
}

static int compare(const void *a, const void *b)
{
    const control_text *x = a, *y = b;

    if (x->bytes[0] != y->bytes[0])
        return (unsigned char)x->bytes[0] - (unsigned char)y->bytes[0];
    return (x->n_bytes < y->n_bytes) - (x->n_bytes > y->n_bytes);
}

hth_control_texts *hth_control_texts_new(const hth_backend *backend, const hth_engine_model *model, uint32_t n_vocab)
{
    hth_control_texts *texts = calloc(1, sizeof(*texts));
    bool ok = texts && (texts->kinds = calloc(n_vocab ? n_vocab : 1, 1));

    for (uint32_t i = 0; ok && i < n_vocab; i++) {
        char piece[HTH_PIECE_BYTES_MAX];
        unsigned flags = 0;
        size_t n = 0;

        if (backend->token_flags(model, (hearth_token)i, &flags, NULL) != HEARTH_OK ||
            !(flags & (HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_UNKNOWN | HEARTH_TOKEN_USER_DEFINED)))
            continue;
        texts->kinds[i] = flags & (HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_UNKNOWN) ? KIND_CONTROL : KIND_DEFINED;
        if (backend->piece(model, (hearth_token)i, true, piece, sizeof(piece), &n, NULL) == HEARTH_OK && n > 0)
            ok = add(texts, texts->kinds[i], piece, n);
    }
    if (!ok) {
        hth_control_texts_free(texts);
        return NULL;
    }
    texts->n_vocab = n_vocab;
    if (texts->n > 0)
        qsort(texts->items, texts->n, sizeof(*texts->items), compare);
    for (size_t byte = 0, i = 0; byte <= UCHAR_MAX + 1; byte++) {
        while (i < texts->n && (unsigned char)texts->items[i].bytes[0] < byte)
            i++;
        texts->first_of[byte] = i;
    }
    return texts;
}

static token_kind kind_of(const hth_control_texts *texts, hearth_token token)
{
    return token >= 0 && (uint32_t)token < texts->n_vocab ? (token_kind)texts->kinds[token] : KIND_TEXT;
}

bool hth_control_texts_is_control(const hth_control_texts *texts, hearth_token token)
{
    return kind_of(texts, token) == KIND_CONTROL;
}

bool hth_control_texts_is_whole(const hth_control_texts *texts, hearth_token token)
{
    return kind_of(texts, token) != KIND_TEXT;
}

size_t hth_control_texts_end(const hth_control_texts *texts, bool reads_controls, const char *text, size_t n_bytes,
                             size_t position)
{
    unsigned char first = (unsigned char)text[position];

    for (size_t i = texts->first_of[first]; i < texts->first_of[first + 1]; i++) {
        const control_text *item = &texts->items[i];

        if ((reads_controls || item->kind == KIND_DEFINED) && item->n_bytes <= n_bytes - position &&
            memcmp(item->bytes, text + position, item->n_bytes) == 0)
            return position + item->n_bytes;
    }
    return 0;
}

bool hth_control_texts_cross(const hth_control_texts *texts, bool reads_controls, const char *text, size_t n_bytes,
                             size_t position)
{
    size_t begin = position >= texts->n_bytes_max ? position - texts->n_bytes_max + 1 : 0;

    for (size_t i = begin; i < position; i++)
        if (hth_control_texts_end(texts, reads_controls, text, n_bytes, i) > position)
            return true;
    return false;
}
