/*
 * tokenizer_json.h - the vocabulary of a tokenizer.json
 *
 * Two kinds are supported, both BPE: byte-level BPE, whose texts are first split by a pattern ("gpt2"), and those made
 * from a SentencePiece model, with tokens for single bytes ("llama").
 */
#ifndef HTH_CONVERT_TOKENIZER_JSON_H
#define HTH_CONVERT_TOKENIZER_JSON_H

#include <jansson.h>

#include "convert/vocabulary.h"

/*
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

#endif
