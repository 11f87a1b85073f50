/*
 * tokenizer_json.h - the vocabulary of a tokenizer.json
 *
 * Two kinds are read, both of type BPE: pairs of bytes, whose texts are cut by a pattern first ("gpt2"), and those that
 * were made of a SentencePiece model, with tokens for single bytes ("llama").
 */
#ifndef HTH_CONVERT_TOKENIZER_JSON_H
#define HTH_CONVERT_TOKENIZER_JSON_H

#include <jansson.h>

#include "convert/vocabulary.h"

/*
 * Read a tokenizer into a vocabulary without pieces. HEARTH_UNSUPPORTED names what the engine does not have: another
 * type, an unknown pattern, a normaliser. HEARTH_CORRUPT.
 */
hearth_status hth_tokenizer_json_read(const json_t *tokenizer, hth_vocabulary *vocabulary, hearth_error *err);

/* Only its added tokens, into a vocabulary that has pieces. */
hearth_status hth_tokenizer_json_add(const json_t *tokenizer, hth_vocabulary *vocabulary, hearth_error *err);

/* Does it put the tokens with these pieces (NULL: none) before and behind a text? Leaves both alone if unknown. */
void hth_tokenizer_json_ends(const json_t *tokenizer, const char *bos, const char *eos, bool *adds_bos, bool *adds_eos);

#endif
