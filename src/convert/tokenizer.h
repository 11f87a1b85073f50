/*
 * tokenizer.h - the tokenizer of a checkpoint: its vocabulary, its special tokens, its chat template
 */
#ifndef HTH_CONVERT_TOKENIZER_H
#define HTH_CONVERT_TOKENIZER_H

#include <jansson.h>

#include "base/status.h"

/* ---- the vocabulary, as stored in the engine's file ---- */

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

/*
 * ---- tokenizer.model, a SentencePiece model ----
 *
 * It is a Protocol Buffers message, ModelProto of sentencepiece_model.proto. These fields are read; the others are
 * skipped:
 *
 *   1  pieces, each: 1 piece (text), 2 score (float), 3 type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
 *      6 byte)
 *   2  trainer_spec: 3 model_type (1 unigram, 2 BPE)
 *   3  normalizer_spec: 3 add_dummy_prefix (true if missing)
 *
 * Read a model into a vocabulary without pieces. file is its name in messages. HEARTH_CORRUPT: it is not such a
 * message, or has more pieces than the vocabulary; HEARTH_UNSUPPORTED: its model is not BPE.
 */
hearth_status hth_sentencepiece_read(const char *file, const uint8_t *bytes, size_t n_bytes, hth_vocabulary *vocabulary,
                                     hearth_error *err);

/*
 * ---- tokenizer.json ----
 *
 * Two kinds are supported, both BPE: byte-level BPE, whose texts are first split by a pattern ("gpt2"), and those made
 * from a SentencePiece model, with tokens for single bytes ("llama").
 *
 * Read a tokenizer into a vocabulary without pieces. HEARTH_UNSUPPORTED with a message that names what the engine
 * lacks: another type, an unknown pattern, a normalizer. HEARTH_CORRUPT.
 */
hearth_status hth_tokenizer_json_read(const json_t *tokenizer, hth_vocabulary *vocabulary, hearth_error *err);

/* Only its added tokens, into a vocabulary that has pieces. */
hearth_status hth_tokenizer_json_add(const json_t *tokenizer, hth_vocabulary *vocabulary, hearth_error *err);

/*
 * Does it put the tokens with these pieces (NULL: none) before and after a text? If unknown, both outputs do not
 * change.
 */
void hth_tokenizer_json_ends(const json_t *tokenizer, const char *bos, const char *eos, bool *adds_bos, bool *adds_eos);

/*
 * How it splits a text before merging, in the engine's terms. The engine knows patterns by name. A tokenizer that does
 * anything else to a text is refused, because its tokens would silently differ.
 *
 * For byte-level BPE: *pre is the engine's name for its pattern. HEARTH_UNSUPPORTED, with the pattern, if it has no
 * name.
 */
hearth_status hth_cutting_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err);

/* For pieces with U+2581 for spaces: *adds_space is whether one is put before a text. */
hearth_status hth_cutting_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err);

/* ---- all files of a checkpoint ---- */

typedef enum hth_special {
    HTH_SPECIAL_BOS,
    HTH_SPECIAL_EOS,
    HTH_SPECIAL_EOT,
    HTH_SPECIAL_UNKNOWN,
    HTH_SPECIAL_PAD,
    HTH_N_SPECIALS,
} hth_special;

typedef struct hth_tokenizer {
    hth_vocabulary vocabulary;
    bool has_special[HTH_N_SPECIALS];
    uint32_t special[HTH_N_SPECIALS];
    char *chat_template; /* NULL: none */
} hth_tokenizer;

/*
 * Read the files of a directory: tokenizer.model if it exists, otherwise tokenizer.json; and tokenizer_config.json,
 * generation_config.json, added_tokens.json and chat_template.jinja if they exist. config is the model's; n_vocab is
 * the number of rows of its embedding. On success, and only then, the caller calls hth_tokenizer_deinit.
 */
hearth_status hth_tokenizer_read(const char *folder, const json_t *config, size_t n_vocab, hth_tokenizer *out,
                                 hearth_error *err);
void hth_tokenizer_deinit(hth_tokenizer *tokenizer);

#endif
