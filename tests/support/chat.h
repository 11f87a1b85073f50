/*
 * chat.h - what the tests of conversations share: a parser fed in pieces, and its deltas as one text
 */
#ifndef HTH_TESTS_CHAT_H
#define HTH_TESTS_CHAT_H

#include "hearth.h"

/*
 * What a parser for prompt says of text, fed in pieces of n_piece bytes at most, cut at characters: reasoning, content
 * and calls as "R:...", "C:...", "F:name(id)", "A:...", pieces of one kind joined, each ended by a newline. A new
 * string.
 */
char *hth_test_chat_read(hearth_model *model, const hearth_chat_prompt *prompt, const char *text, size_t n_piece);

/*
 * What a reply of n bytes, NUL bytes among them, says of one kind, fed in pieces of two bytes: a new string of *n_out
 * bytes.
 */
char *hth_test_chat_said(hearth_model *model, const hearth_chat_prompt *prompt, const char *text, size_t n,
                         hearth_chat_delta_kind kind, size_t *n_out);

/* The tiny model with the text of a chat template and a small context. */
hearth_model *hth_test_template_model(hearth_runtime *runtime, const char *chat_template);
/* The same with the template of a file, which must be there. */
hearth_model *hth_test_template_file_model(hearth_runtime *runtime, const char *path);
/* The text of a template in the engine's source tree, a new string; NULL: it is not there. */
char *hth_test_engine_template(const char *name);
/* The tiny model with it. Skips the test where the source tree is gone. */
hearth_model *hth_test_engine_template_model(hearth_runtime *runtime, const char *name);

/* The prompt of a conversation; ends the test where that fails. */
const hearth_chat_prompt *hth_test_chat_render(hearth_model *model, const hearth_conversation *conversation);

#endif
