/*
 * vocabulary.h - the tokens of a model, as the engine's file has them
 */
#ifndef HTH_CONVERT_VOCABULARY_H
#define HTH_CONVERT_VOCABULARY_H

#include "base/status.h"

/* The engine's numbers. */
typedef enum hth_token_type {
    HTH_TOKEN_NORMAL = 1,
    HTH_TOKEN_UNKNOWN = 2,
    HTH_TOKEN_CONTROL = 3,
    HTH_TOKEN_USER_DEFINED = 4, /* found in a text before everything else; has spaces, not U+2581 */
    HTH_TOKEN_UNUSED = 5,
    HTH_TOKEN_BYTE = 6,
} hth_token_type;

typedef struct hth_vocabulary {
    const char *model; /* "llama" (SentencePiece) or "gpt2" (pairs of bytes) */
    const char *pre;   /* how a text is cut before its pieces are merged, in the engine's words */
    size_t n;
    char **pieces;
    float *scores; /* of "llama" */
    int32_t *types;
    char **merges; /* of "gpt2" */
    size_t n_merges;
    bool adds_space; /* before a text; of "llama" */
    bool adds_bos, adds_eos;
} hth_vocabulary;

/* n tokens without pieces. On success, and only then, the caller ends it with hth_vocabulary_deinit. */
hearth_status hth_vocabulary_init(hth_vocabulary *vocabulary, size_t n, hearth_error *err);
void hth_vocabulary_deinit(hth_vocabulary *vocabulary);

/*
 * Set a token whose piece is n_bytes long. file is named in messages. HEARTH_CORRUPT: there is no such id, it has
 * another piece already, or the piece is empty or has a zero byte.
 */
hearth_status hth_vocabulary_set(hth_vocabulary *vocabulary, const char *file, uint64_t id, const char *piece,
                                 size_t n_bytes, hth_token_type type, hearth_error *err);

/*
 * A token that somebody added to a vocabulary: a control token if it is special, else user-defined. Sets the id, or the
 * type of the same piece. One beyond the embedding is left out, because the model has no row for it: checkpoints
 * without images still name the token of images.
 */
hearth_status hth_vocabulary_add(hth_vocabulary *vocabulary, const char *file, uint64_t id, const char *content,
                                 bool is_special, hearth_error *err);

/*
 * End a vocabulary: name the tokens without a piece, rows of the embedding that no text leads to. HEARTH_CORRUPT: two
 * tokens have the same text. folder, that of the tokenizer's files, is named in messages.
 */
hearth_status hth_vocabulary_fill(hth_vocabulary *vocabulary, const char *folder, hearth_error *err);

/* The id of a piece; false: there is none. */
bool hth_vocabulary_find(const hth_vocabulary *vocabulary, const char *piece, uint32_t *id);

#endif
