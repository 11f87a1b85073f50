/*
 * grammar_memo.h - the grammars that a model has read recently
 *
 * Programs send the same schema with every request. Reading it takes milliseconds, and recognition starts in
 * microseconds, so the memo saves the reading. The replies of one request share a grammar without the memo
 * (hth_backend.sampler_new_like). Any thread may call all functions except new and free.
 */
#ifndef HTH_GRAMMAR_GRAMMAR_MEMO_H
#define HTH_GRAMMAR_GRAMMAR_MEMO_H

#include "grammar/gbnf.h"

typedef struct hth_grammar_memo hth_grammar_memo;

hth_grammar_memo *hth_grammar_memo_new(void);       /* NULL if out of memory */
void hth_grammar_memo_free(hth_grammar_memo *memo); /* accepts NULL */

/* The grammar that was read from this text, with a reference for the caller; NULL: unknown. */
hth_gbnf *hth_grammar_memo_find(hth_grammar_memo *memo, bool is_schema, const char *text);
/* Keep the grammar, with a reference for the memo, unless it is very large or memory is out. */
void hth_grammar_memo_keep(hth_grammar_memo *memo, bool is_schema, const char *text, hth_gbnf *gbnf);

#endif
