/*
 * tokenizer.h - the tokenizer of a checkpoint: its vocabulary, its special tokens, its chat template
 */
#ifndef HTH_CONVERT_TOKENIZER_H
#define HTH_CONVERT_TOKENIZER_H

#include <jansson.h>

#include "convert/vocabulary.h"

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
