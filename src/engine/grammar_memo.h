/*
 * grammar_memo.h - grammars of a model that were read lately, so that the next request with one need not read it again
 *
 * Programs ask for the same schema with every request; reading takes milliseconds, recognising begins in microseconds.
 * What a request's replies share needs no memo (hth_backend.sampler_new_like). Any thread may call everything but new and
 * free.
 */
#ifndef HTH_ENGINE_GRAMMAR_MEMO_H
#define HTH_ENGINE_GRAMMAR_MEMO_H

#include "engine/gbnf.h"

typedef struct hth_grammar_memo hth_grammar_memo;

hth_grammar_memo *hth_grammar_memo_new(void);       /* NULL without memory */
void hth_grammar_memo_free(hth_grammar_memo *memo); /* accepts NULL */

/* What was read from this text, with a reference of its own; NULL: it is not known. */
hth_gbnf *hth_grammar_memo_find(hth_grammar_memo *memo, bool is_schema, const char *text);
/* Keep it, with a reference of its own, unless it is very large or there is no memory. */
void hth_grammar_memo_keep(hth_grammar_memo *memo, bool is_schema, const char *text, hth_gbnf *gbnf);

#endif
