/*
 * metadata.h - the metadata of a GGUF file, from config.json and the tokenizer
 */
#ifndef HTH_CONVERT_METADATA_H
#define HTH_CONVERT_METADATA_H

#include "convert/architecture.h"
#include "convert/tokenizer.h"
#include "engine/model_writer.h"

enum { HTH_METADATA_MAX = 64 };

/* Fill out and return their number. Texts and lists are borrowed from the arguments. */
size_t hth_metadata_list(const hth_architecture *architecture, const hth_tokenizer *tokenizer, const char *name,
                         hth_meta out[HTH_METADATA_MAX]);

#endif
