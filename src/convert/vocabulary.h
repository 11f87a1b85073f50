/*
 * vocabulary.h - the tokens of a model, as stored in the engine's file
 */
#ifndef HTH_CONVERT_VOCABULARY_H
#define HTH_CONVERT_VOCABULARY_H

#include "base/status.h"

/* The engine's numbers. */
typedef enum hth_token_type {
    HTH_TOKEN_NORMAL = 1,
    HTH_TOKEN_UNKNOWN = 2,
    HTH_TOKEN_CONTROL = 3,
    HTH_TOKEN_USER_DEFINED = 4, /* searched for in a text before everything else; has spaces, not U+2581 */
    HTH_TOKEN_UNUSED = 5,
    HTH_TOKEN_BYTE = 6,
} hth_token_type;

typedef struct hth_vocabulary {
    const char *model; /* "llama" (SentencePiece) or "gpt2" (pairs of bytes) */
    const char *pre;   /* how a text is split before its pieces are merged, in the engine's terms */
    size_t n;
    char **pieces;
    float *scores; /* of "llama" */
    int32_t *types;
    char **merges; /* of "gpt2" */
    size_t n_merges;
    bool adds_space; /* before a text; of "llama" */
    bool adds_bos, adds_eos;
} hth_vocabulary;

/* Make n tokens without pieces. On success, and only then, the caller calls hth_vocabulary_deinit. */
hearth_status hth_vocabulary_init(hth_vocabulary *vocabulary, size_t n, hearth_error *err);
void hth_vocabulary_deinit(hth_vocabulary *vocabulary);

/*
 * Set a token whose piece is n_bytes long. file is its name in messages. HEARTH_CORRUPT: there is no such id, it
 * already has another piece, or the piece is empty or contains a NUL byte.
 */
hearth_status hth_vocabulary_set(hth_vocabulary *vocabulary, const char *file, uint64_t id, const char *piece,
                                 size_t n_bytes, hth_token_type type, hearth_error *err);

/*
 * Add a token that was added to a vocabulary: a control token if it is special, otherwise user-defined. Sets the id, or
 * the type of the token with the same piece. A token beyond the embedding is left out, because the model has no row for
 * it: checkpoints without images still list the image token.
 */
hearth_status hth_vocabulary_add(hth_vocabulary *vocabulary, const char *file, uint64_t id, const char *content,
                                 bool is_special, hearth_error *err);

/*
 * Complete a vocabulary: name the tokens without a piece, which are rows of the embedding that no text maps to.
 * HEARTH_CORRUPT: two tokens have the same text. folder is the directory of the tokenizer's files, for messages.
 */
hearth_status hth_vocabulary_fill(hth_vocabulary *vocabulary, const char *folder, hearth_error *err);

/* The id of a piece; false if there is none. */
bool hth_vocabulary_find(const hth_vocabulary *vocabulary, const char *piece, uint32_t *id);

#endif
