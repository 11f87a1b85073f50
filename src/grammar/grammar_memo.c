/*
 * grammar_memo.c - the few most recently used grammars, up to a total size
 */
#include "grammar/grammar_memo.h"

#include <stdlib.h>
#include <string.h>

#include "engine/module_lock.h"

enum { ENTRIES_MAX = 16, BYTES_MAX = 16 << 20 };

typedef struct entry {
    char *text;
    hth_gbnf *gbnf;
    size_t bytes; /* of both */
    bool is_schema;
} entry;

struct hth_grammar_memo {
    /* Guards the fields below; no other lock is taken while it is held. */
    pthread_mutex_t lock;
    entry entries[ENTRIES_MAX]; /* [n], most recently used first */
    size_t n;
    size_t bytes;
};

hth_grammar_memo *hth_grammar_memo_new(void)
{
    hth_grammar_memo *memo = calloc(1, sizeof(*memo));

    if (memo && pthread_mutex_init(&memo->lock, NULL) != 0) {
        free(memo);
        memo = NULL;
    }
    return memo;
}

static void entry_deinit(entry *one)
{
    free(one->text);
    hth_gbnf_unref(one->gbnf);
}

void hth_grammar_memo_free(hth_grammar_memo *memo)
{
    if (!memo)
        return;
    for (size_t i = 0; i < memo->n; i++)
        entry_deinit(&memo->entries[i]);
    (void)pthread_mutex_destroy(&memo->lock); /* no thread holds it */
    free(memo);
}

/* Its index; memo->n: not found. */
static size_t place_locked(const hth_grammar_memo *memo, bool is_schema, const char *text)
{
    size_t i = 0;

    while (i < memo->n && (memo->entries[i].is_schema != is_schema || strcmp(memo->entries[i].text, text) != 0))
        i++;
    return i;
}

hth_gbnf *hth_grammar_memo_find(hth_grammar_memo *memo, bool is_schema, const char *text)
{
    hth_gbnf *found = NULL;
    size_t i;

    hth_module_lock(&memo->lock);
    i = place_locked(memo, is_schema, text);
    if (i < memo->n) {
        entry one = memo->entries[i];

        memmove(memo->entries + 1, memo->entries, i * sizeof(entry));
        memo->entries[0] = one;
        found = hth_gbnf_ref(one.gbnf);
    }
    hth_module_unlock(&memo->lock);
    return found;
}

void hth_grammar_memo_keep(hth_grammar_memo *memo, bool is_schema, const char *text, hth_gbnf *gbnf)
{
    entry one = { .is_schema = is_schema, .bytes = strlen(text) + 1 + hth_gbnf_bytes(gbnf) };

    if (one.bytes > BYTES_MAX / 2)
        return;
    one.text = strdup(text);
    if (!one.text)
        return;
    hth_module_lock(&memo->lock);
    if (place_locked(memo, is_schema, text) < memo->n) { /* another thread was faster */
        hth_module_unlock(&memo->lock);
        free(one.text);
        return;
    }
    one.gbnf = hth_gbnf_ref(gbnf);
    while (memo->n == ENTRIES_MAX || (memo->n > 0 && memo->bytes + one.bytes > BYTES_MAX)) {
        entry *last = &memo->entries[--memo->n];

        memo->bytes -= last->bytes;
        entry_deinit(last);
    }
    memmove(memo->entries + 1, memo->entries, memo->n * sizeof(entry));
    memo->entries[0] = one;
    memo->n++;
    memo->bytes += one.bytes;
    hth_module_unlock(&memo->lock);
}
