/*
 * tokenizer.h - the tokenizer of a checkpoint: its vocabulary, its special tokens, its chat template
 *
 * token_list.c has the vocabulary, sentencepiece.c and tokenizer_json.c read one file each, and tokenizer.c reads all
 * files of a checkpoint.
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

typedef struct hth_token_list {
    const char *model; /* "llama" (SentencePiece) or "gpt2" (byte-level BPE) */
    const char *pre;   /* how a text is split before its pieces are merged, in the engine's terms */
    size_t n;
    char **pieces;
    float *scores; /* of "llama" */
    int32_t *types;
    char **merges; /* of "gpt2" */
    size_t n_merges;
    bool adds_space; /* before a text; of "llama" */
    bool adds_bos, adds_eos;
} hth_token_list;

/* Make n tokens without pieces. HEARTH_NO_MEMORY. */
hearth_status hth_token_list_init(hth_token_list *vocabulary, size_t n, hearth_error *err);
void hth_token_list_deinit(hth_token_list *vocabulary); /* accepts zeros */

/*
 * Set a token whose piece is n_bytes long, with a score below those of all merged pieces. U+2581 in a user-defined
 * piece becomes a space. file is its name in messages. HEARTH_CORRUPT: there is no such id, it has a piece already, or
 * the piece is empty or contains a NUL byte; HEARTH_NO_MEMORY.
 */
hearth_status hth_token_list_set(hth_token_list *vocabulary, const char *file, uint64_t id, const char *piece,
                                 size_t n_bytes, hth_token_type type, hearth_error *err);

/*
 * Set an added token: control if special, otherwise user-defined. It replaces a different piece at its id. If the piece
 * is the same, only type and score change; byte and unknown tokens stay. An id beyond the embedding is ignored, because
 * the model has no row for it: checkpoints without images still list the image token. Fails as hth_token_list_set.
 */
hearth_status hth_token_list_add(hth_token_list *vocabulary, const char *file, uint64_t id, const char *content,
                                 bool is_special, hearth_error *err);

/*
 * Complete a vocabulary: name the tokens without a piece, which are rows of the embedding that no text maps to.
 * HEARTH_CORRUPT: two tokens have the same text; HEARTH_NO_MEMORY. folder is the directory of the tokenizer's files,
 * for messages.
 */
hearth_status hth_token_list_fill(hth_token_list *vocabulary, const char *folder, hearth_error *err);

/* The id of a piece; false if there is none. */
bool hth_token_list_find(const hth_token_list *vocabulary, const char *piece, uint32_t *id);

/*
 * ---- tokenizer.model, a SentencePiece model ----
 *
 * It is a Protocol Buffers message, ModelProto of sentencepiece_model.proto. These fields are read; the others are
 * skipped:
 *
 *   1  pieces, each: 1 piece (text), 2 score (float), 3 type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
 *      6 byte)
 *   2  trainer_spec: 3 model_type (1 unigram, 2 BPE), 24 treat_whitespace_as_suffix
 *   3  normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix (true if missing), 4 remove_extra_whitespaces,
 *      5 escape_whitespaces
 *
 * Read a model into a vocabulary without pieces. file is its name in messages. HEARTH_CORRUPT: it is not such a
 * message, or has more pieces than the vocabulary; HEARTH_UNSUPPORTED: its model is not BPE, or it
 * changes texts in a way that the engine does not.
 */
hearth_status hth_sentencepiece_read(const char *file, const uint8_t *bytes, size_t n_bytes, hth_token_list *vocabulary,
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
hearth_status hth_tokenizer_json_read(const json_t *tokenizer, hth_token_list *vocabulary, hearth_error *err);

/* Only its added tokens, into a vocabulary that has pieces. */
hearth_status hth_tokenizer_json_add(const json_t *tokenizer, hth_token_list *vocabulary, hearth_error *err);

/*
 * Set whether the template of tokenizer.json puts bos before a text, and eos after it (pieces; NULL: none). Without a
 * tokenizer.json neither output changes.
 */
void hth_tokenizer_json_ends(const json_t *tokenizer, const char *bos, const char *eos, bool *adds_bos, bool *adds_eos);

/*
 * How it splits a text before merging, in the engine's terms. The engine knows patterns by name. A tokenizer that does
 * anything else to a text is refused, because its tokens would silently differ.
 *
 * For byte-level BPE: *pre is the engine's name for its pattern. HEARTH_UNSUPPORTED, with the pattern, if it has no
 * name.
 */
hearth_status hth_pretokenizer_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err);

/* For pieces with U+2581 for spaces: *adds_space is whether one is put before a text. */
hearth_status hth_pretokenizer_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err);

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
    hth_token_list vocabulary;
    bool has_special[HTH_N_SPECIALS];
    uint32_t special[HTH_N_SPECIALS];
    char *chat_template; /* NULL: none */
} hth_tokenizer;

/*
 * Read the files of a directory. The vocabulary is that of tokenizer.model if it exists, otherwise that of
 * tokenizer.json; beside a tokenizer.model, added_tokens.json and tokenizer.json still give added tokens. All others
 * are optional, too: tokenizer_config.json has added tokens and the texts of special tokens, generation_config.json or
 * config their ids, and tokenizer.json tells whether bos and eos are added. The chat template is that of
 * chat_template.jinja, otherwise of tokenizer_config.json, otherwise of chat_template.json.
 *
 * config is the model's; n_vocab is the number of rows of its embedding. On success, the caller calls
 * hth_tokenizer_deinit.
 */
hearth_status hth_tokenizer_read(const char *folder, const json_t *config, size_t n_vocab, hth_tokenizer *out,
                                 hearth_error *err);
void hth_tokenizer_deinit(hth_tokenizer *tokenizer); /* accepts zeros */

#endif
