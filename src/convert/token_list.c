/*
 * token_list.c - tokens by id
 */
#include "convert/tokenizer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581 */

static const float no_score = -1000000.0f; /* below those of all merged pieces */

hearth_status hth_token_list_init(hth_token_list *vocabulary, size_t n, hearth_error *err)
{
    hth_token_list made = { .n = n, .pre = "default" };

    made.pieces = calloc(n, sizeof(*made.pieces));
    made.scores = calloc(n, sizeof(*made.scores));
    made.types = calloc(n, sizeof(*made.types));
    if (!made.pieces || !made.scores || !made.types) {
        hth_token_list_deinit(&made);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a vocabulary of %zu tokens", n);
    }
    *vocabulary = made;
    return HEARTH_OK;
}

void hth_token_list_deinit(hth_token_list *vocabulary)
{
    for (size_t i = 0; vocabulary->pieces && i < vocabulary->n; i++)
        free(vocabulary->pieces[i]);
    for (size_t i = 0; i < vocabulary->n_merges; i++)
        free(vocabulary->merges[i]);
    free(vocabulary->pieces);
    free(vocabulary->scores);
    free(vocabulary->types);
    free(vocabulary->merges);
    *vocabulary = (hth_token_list){ 0 };
}

/* Works in place: the result is not longer. */
static void put_spaces(char *piece)
{
    const size_t n = sizeof(SPACE) - 1;
    char *to = piece;

    assert(piece);
    for (const char *from = piece; *from;) {
        bool is_space = strncmp(from, SPACE, n) == 0;

        *to++ = is_space ? ' ' : *from;
        from += is_space ? n : 1;
    }
    *to = '\0';
}

hearth_status hth_token_list_set(hth_token_list *vocabulary, const char *file, uint64_t id, const char *piece,
                                 size_t n_bytes, hth_token_type type, hearth_error *err)
{
    if (id >= vocabulary->n)
        return hth_fail(err, HEARTH_CORRUPT, "'%s': a token has the id %llu, and the embedding has %zu rows", file,
                        (unsigned long long)id, vocabulary->n);
    if (vocabulary->pieces[id])
        return hth_fail(err, HEARTH_CORRUPT, "'%s': two tokens have the id %llu", file, (unsigned long long)id);
    if (n_bytes == 0 || memchr(piece, '\0', n_bytes))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the token %llu is empty, or has a zero byte", file,
                        (unsigned long long)id);
    vocabulary->pieces[id] = strndup(piece, n_bytes);
    if (!vocabulary->pieces[id])
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the tokens of '%s'", file);
    if (type == HTH_TOKEN_USER_DEFINED)
        put_spaces(vocabulary->pieces[id]);
    vocabulary->types[id] = type;
    vocabulary->scores[id] = no_score;
    return HEARTH_OK;
}

hearth_status hth_token_list_add(hth_token_list *vocabulary, const char *file, uint64_t id, const char *content,
                                 bool is_special, hearth_error *err)
{
    hth_token_type type = is_special ? HTH_TOKEN_CONTROL : HTH_TOKEN_USER_DEFINED;

    if (id >= vocabulary->n)
        return HEARTH_OK;
    if (!vocabulary->pieces[id] || strcmp(vocabulary->pieces[id], content) != 0) {
        free(vocabulary->pieces[id]); /* of a reserved token, which it replaces */
        vocabulary->pieces[id] = NULL;
        return hth_token_list_set(vocabulary, file, id, content, strlen(content), type, err);
    }
    if (vocabulary->types[id] == HTH_TOKEN_BYTE || vocabulary->types[id] == HTH_TOKEN_UNKNOWN)
        return HEARTH_OK;
    vocabulary->types[id] = type;
    vocabulary->scores[id] = no_score;
    if (!is_special)
        put_spaces(vocabulary->pieces[id]);
    return HEARTH_OK;
}

static int compare_pieces(const void *a, const void *b)
{
    char *const *const *x = a, *const *const *y = b;
    int order = strcmp(**x, **y);

    return order ? order : (*x > *y) - (*x < *y);
}

/* The engine aborts if two tokens have the same text. */
static hearth_status check_texts(const hth_token_list *vocabulary, const char *folder, hearth_error *err)
{
    char *const **sorted;
    hearth_status status = HEARTH_OK;

    assert(vocabulary->n > 0);
    sorted = calloc(vocabulary->n, sizeof(*sorted));
    if (!sorted)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a vocabulary of %zu tokens", vocabulary->n);
    for (size_t i = 0; i < vocabulary->n; i++)
        sorted[i] = &vocabulary->pieces[i];
    qsort(sorted, vocabulary->n, sizeof(*sorted), compare_pieces);
    for (size_t i = 1; i < vocabulary->n && status == HEARTH_OK; i++)
        if (strcmp(*sorted[i - 1], *sorted[i]) == 0)
            status = hth_fail(err, HEARTH_CORRUPT,
                              "the tokenizer's files in '%s' give the tokens %td and %td the same text, '%.100s'",
                              folder, sorted[i - 1] - vocabulary->pieces, sorted[i] - vocabulary->pieces, *sorted[i]);
    free((void *)sorted);
    return status;
}

hearth_status hth_token_list_fill(hth_token_list *vocabulary, const char *folder, hearth_error *err)
{
    char name[32];

    for (size_t i = 0; i < vocabulary->n; i++) {
        if (vocabulary->pieces[i])
            continue;
        (void)snprintf(name, sizeof(name), "[PAD%zu]", i); /* fits */
        vocabulary->pieces[i] = strdup(name);
        if (!vocabulary->pieces[i])
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a vocabulary of %zu tokens", vocabulary->n);
        vocabulary->types[i] = HTH_TOKEN_UNUSED;
        vocabulary->scores[i] = no_score;
    }
    return check_texts(vocabulary, folder, err);
}

bool hth_token_list_find(const hth_token_list *vocabulary, const char *piece, uint32_t *id)
{
    for (size_t i = 0; i < vocabulary->n; i++)
        if (vocabulary->pieces[i] && strcmp(vocabulary->pieces[i], piece) == 0) {
            *id = (uint32_t)i;
            return true;
        }
    return false;
}
