/*
 * quant.h - the quant that the name of a GGUF file tells: "Q4_K_M" of "Model-8B-Q4_K_M-00001-of-00002.gguf"
 *
 * Names are a habit, not a format. The reader takes the last word that looks like a quant, in the file's name or else
 * in that of its folder.
 */
#ifndef HTH_HUB_QUANT_H
#define HTH_HUB_QUANT_H

#include <stdbool.h>

enum { HTH_HUB_QUANT_BYTES = 32 };

/* Write the quant in capital letters. False, with "": the path tells none. */
bool hth_hub_quant_of(const char *path, char out[HTH_HUB_QUANT_BYTES]);
/* Does the path have this text as a word, in either case: not inside of a longer word or quant? */
bool hth_hub_path_has_word(const char *path, const char *word);

#endif
