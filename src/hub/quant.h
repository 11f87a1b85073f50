/*
 * quant.h - the quant in the name of a GGUF file: "Q4_K_M" of "Model-8B-Q4_K_M-00001-of-00002.gguf"
 *
 * Names follow conventions, not a format. The reader takes the last word that looks like a quant in the file's name,
 * otherwise in its directory's.
 */
#ifndef HTH_HUB_QUANT_H
#define HTH_HUB_QUANT_H

#include <stdbool.h>

enum { HTH_HUB_QUANT_BYTES = 32 };

/* Write the quant in capital letters. False, with "", if the path has none. */
bool hth_hub_quant_of(const char *path, char out[HTH_HUB_QUANT_BYTES]);
/* Does the path contain this text as a word, in either case, not inside a longer word or quant? */
bool hth_hub_path_has_word(const char *path, const char *word);

#endif
