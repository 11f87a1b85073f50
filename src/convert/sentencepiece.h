/*
 * sentencepiece.h - the vocabulary of a tokenizer.model, a SentencePiece model
 *
 * It is a Protocol Buffers message, ModelProto of sentencepiece_model.proto. These fields are read; the others are
 * skipped:
 *
 *   1  pieces, each: 1 piece (text), 2 score (float), 3 type (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
 *      6 byte)
 *   2  trainer_spec: 3 model_type (1 unigram, 2 BPE)
 *   3  normalizer_spec: 3 add_dummy_prefix (true if missing)
 */
#ifndef HTH_CONVERT_SENTENCEPIECE_H
#define HTH_CONVERT_SENTENCEPIECE_H

#include "convert/vocabulary.h"

/*
 * Read a model into a vocabulary without pieces. file is its name in messages. HEARTH_CORRUPT: it is not such a
 * message, or has more pieces than the vocabulary; HEARTH_UNSUPPORTED: its model is not BPE.
 */
hearth_status hth_sentencepiece_read(const char *file, const uint8_t *bytes, size_t n_bytes, hth_vocabulary *vocabulary,
                                     hearth_error *err);

#endif
