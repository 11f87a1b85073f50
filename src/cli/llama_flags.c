/*
 * llama_flags.c - see llama_flags.h
 *
 * One pass over the words. A word that is an option of ours goes through, and so does its value, whatever it looks like. One
 * that is llama-server's becomes ours, or nothing.
 */
#include "cli/llama_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4, WORDS_PER_WORD = 130 /* a list of values becomes an option each */ };

typedef enum takes { NOTHING, VALUE, PERHAPS /* on, off, auto */ } takes;

typedef enum kind { RENAMED, WITHOUT_EFFECT, REFUSED } kind;

/* What a value is here; NULL: the default, for which neither option nor value is needed. */
typedef const char *(*map_fn)(hth_pool *pool, const char *value);

typedef struct flag {
    const char *names[NAMES_MAX];
    takes takes;
    kind kind;
    const char *to; /* RENAMED: our option; otherwise why it is so */
    map_fn map;     /* NULL: a value is what it is there */
    bool is_list;   /* of values with commas, which are an option each here */
} flag;

/* ---- values ---- */

static bool is_number(const char *value, long number)
{
    char *end;

    return *value && strtol(value, &end, 10) == number && *end == '\0';
}

static const char *map_layers(hth_pool *pool, const char *value)
{
    (void)pool;
    return strcmp(value, "all") == 0 ? "-1" : strcmp(value, "auto") == 0 ? NULL : value;
}

/* 0 or less is the program's own choice there. */
static const char *map_count(hth_pool *pool, const char *value)
{
    (void)pool;
    return is_number(value, 0) || is_number(value, -1) ? NULL : value;
}

/* MiB, of which 0 is none: the least that there is. */
static const char *map_mib(hth_pool *pool, const char *value)
{
    if (is_number(value, -1))
        return NULL;
    return is_number(value, 0) ? "1M" : hth_pool_format(pool, "%sM", value);
}

/* ---- the table; the document has it in this order ---- */

static const flag flags[] = {
    { { "--ctx-size", "-c" }, VALUE, RENAMED, .to = "--ctx", .map = map_count },
    { { "--batch-size" }, VALUE, RENAMED, .to = "--batch" },
    { { "--parallel", "-np" }, VALUE, RENAMED, .to = "--n-parallel", .map = map_count },
    { { "--threads", "-t" }, VALUE, RENAMED, .to = "--threads", .map = map_count },
    { { "--n-gpu-layers", "--gpu-layers", "-ngl" }, VALUE, RENAMED, .to = "--gpu-layers", .map = map_layers },
    { { "--cache-type-k", "-ctk" }, VALUE, RENAMED, .to = "--type-k" },
    { { "--cache-type-v", "-ctv" }, VALUE, RENAMED, .to = "--type-v" },
    { { "--cache-ram", "-cram" }, VALUE, RENAMED, .to = "--ram", .map = map_mib },
    { { "--ssl-key-file" }, VALUE, RENAMED, .to = "--tls-key" },
    { { "--ssl-cert-file" }, VALUE, RENAMED, .to = "--tls-certificate" },
    { { "--cors-origins" }, VALUE, RENAMED, .to = "--cors-origin", .is_list = true },
    { { "--alias", "-a" }, VALUE, RENAMED, .to = "--alias", .is_list = true },
    { { "--temperature" }, VALUE, RENAMED, .to = "--temp" },
    { { "--typical" }, VALUE, RENAMED, .to = "--typical-p" },
    { { "--dry-penalty-last-n" }, VALUE, RENAMED, .to = "--dry-last-n" },
    { { "--n-predict" }, VALUE, RENAMED, .to = "--predict" },
    { { "--verbose", "-v", "--log-verbose" }, NOTHING, RENAMED, .to = "--log-level=debug" },

    { { "--flash-attn", "-fa" }, PERHAPS, WITHOUT_EFFECT, .to = "it is on wherever the model and the device have it" },
    { { "--ubatch-size", "-ub" }, VALUE, WITHOUT_EFFECT, .to = "it follows --batch, up to 512" },
    { { "--threads-batch", "-tb" }, VALUE, WITHOUT_EFFECT, .to = "--threads is for prompts and replies" },
    { { "--threads-http" }, VALUE, WITHOUT_EFFECT, .to = "connections need no threads" },
    { { "--kv-unified", "-kvu" }, NOTHING, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { { "--cont-batching", "-cb" }, NOTHING, WITHOUT_EFFECT, .to = "requests are always batched together" },
    { { "--cache-prompt" }, NOTHING, WITHOUT_EFFECT, .to = "prompts are always cached; --no-cache turns it off" },
    { { "--cache-reuse" }, VALUE, WITHOUT_EFFECT, .to = "what begins alike is reused, and nothing else is exact" },
    { { "--slot-prompt-similarity", "-sps" }, VALUE, WITHOUT_EFFECT, .to = "any slot has any cached prefix" },
    { { "--no-context-shift" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--metrics" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there; --admin gives them an address" },
    { { "--slots" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there" },
    { { "--jinja" }, NOTHING, WITHOUT_EFFECT, .to = "templates are always Jinja's" },
    { { "--no-ui", "--no-webui" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--warmup" }, NOTHING, WITHOUT_EFFECT, .to = "a model is ready when it says so" },
    { { "--no-warmup" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--mlock" }, NOTHING, WITHOUT_EFFECT, .to = "weights are mapped, and shared by all that map them" },
    { { "--offline" }, NOTHING, WITHOUT_EFFECT, .to = "nothing is fetched" },
    { { "--log-colors" }, PERHAPS, WITHOUT_EFFECT, .to = "the log has none" },
    { { "--log-timestamps" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its time" },
    { { "--log-prefix" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its level" },

    { { "--context-shift" },
      NOTHING,
      REFUSED,
      .to = "a shifted context is not what the model would have computed; a reply ends when the context is full" },
    { { "--cors-credentials" },
      NOTHING,
      REFUSED,
      .to = "pages show keys, not cookies, and an origin is listed with --cors-origin before it may" },
    { { "--api-prefix" }, VALUE, REFUSED, .to = "a proxy in front can take a prefix away" },
    { { "--path" }, VALUE, REFUSED, .to = "pages are not served; their origin is listed with --cors-origin" },
    { { "--mmproj", "-mm" }, VALUE, REFUSED, .to = "pictures and sound are not read" },
    { { "--reranking", "--rerank" }, NOTHING, REFUSED, .to = "documents are not ranked" },
    { { "--model-draft", "-md", "--spec-draft-model" },
      VALUE,
      REFUSED,
      .to = "replies are not drafted by another model" },
    { { "--lora" }, VALUE, REFUSED, .to = "adapters are not loaded; merge them into the model's file" },
};

enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };

const char *hth_llama_flag_name(size_t i)
{
    for (size_t f = 0; f < N_FLAGS; f++)
        for (size_t name = 0; name < NAMES_MAX && flags[f].names[name]; name++)
            if (i-- == 0)
                return flags[f].names[name];
    return NULL;
}

/* ---- words ---- */

/* Up to its '=': how a word names an option. */
static bool is_named(const char *word, size_t n, const char *name)
{
    return strlen(name) == n && strncmp(word, name, n) == 0;
}

static const flag *flag_of(const char *word, size_t n)
{
    for (size_t i = 0; i < N_FLAGS; i++)
        for (size_t j = 0; j < NAMES_MAX && flags[i].names[j]; j++)
            if (is_named(word, n, flags[i].names[j]))
                return &flags[i];
    return NULL;
}

/* Our own option that a word is, n bytes up to its '='; NULL: none. */
static const hth_option *own_of(const hth_flat_table *own, const char *word, size_t n)
{
    for (size_t i = 0; i < own->n; i++) {
        const hth_option *row = own->rows[i].option;

        if (row->kind == HTH_OPTION_HEADING)
            continue;
        if ((strncmp(word, "--", 2) == 0 && is_named(word + 2, n - 2, row->name)) ||
            (row->letter != 0 && word[1] == row->letter && word[2] == '\0'))
            return row;
    }
    return NULL;
}

/* The line as it is put together. */
typedef struct line {
    hth_pool *pool;
    hth_problems *problems;
    char **words; /* [capacity] */
    size_t n, capacity;
} line;

static bool add(line *l, const char *word)
{
    if (!word || l->n + 1 >= l->capacity)
        return false;
    l->words[l->n++] = (char *)word; /* getopt moves words, and changes none */
    return true;
}

/* An option of ours, and its value, as one word; of a list each. */
static bool add_renamed(line *l, const flag *f, const char *value)
{
    if (f->takes == NOTHING)
        return add(l, f->to);
    value = f->map ? f->map(l->pool, value) : value;
    if (!value)
        return true; /* what is the default here, too */
    do {
        const size_t n = f->is_list ? strcspn(value, ",") : strlen(value);

        if (n > 0 && !add(l, hth_pool_format(l->pool, "%s=%.*s", f->to, (int)n, value)))
            return false;
        value += n + (value[n] == ',');
    } while (*value);
    return true;
}

static bool is_switch(const char *word)
{
    static const char *const words[] = { "on", "off", "auto", "1", "0", "true", "false" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (word && strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* One of llama-server's, with its value behind '=', or next; *skip_out: words that were its. */
static bool take(line *l, const flag *f, const char *word, size_t n, const char *next, int *skip_out)
{
    const bool takes_next = !word[n] && (f->takes == VALUE || (f->takes == PERHAPS && is_switch(next)));
    const char *value = word[n] ? word + n + 1 : takes_next ? next : "";

    *skip_out = 1 + (takes_next && next);
    if (f->takes == VALUE && !value) {
        hth_problems_add(l->problems, "%.*s needs a value", (int)n, word);
        return true;
    }
    switch (f->kind) {
    case RENAMED: return add_renamed(l, f, value);
    case WITHOUT_EFFECT:
        hth_problems_warn(l->problems, "%.*s has no effect here: %s", (int)n, word, f->to);
        return true;
    case REFUSED: break;
    }
    hth_problems_add(l->problems, "%.*s is not offered: %s", (int)n, word, f->to);
    return true;
}

static bool translate(line *l, const hth_flat_table *own, int argc, char **argv)
{
    bool ok = argc > 0 ? add(l, argv[0]) : true;

    for (int i = 1; ok && i < argc;) {
        const char *word = argv[i];
        const size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : strlen(word);
        const bool is_option = word[0] == '-' && n > 1;
        const hth_option *row = is_option ? own_of(own, word, n) : NULL;
        const flag *f = is_option ? flag_of(word, n) : NULL;
        int skip = 1;

        if (strcmp(word, "--") == 0) { /* no options behind it */
            for (; ok && i < argc; i++)
                ok = add(l, argv[i]);
            break;
        }
        /* Of our own options those whose values llama-server has more of. */
        if (f && (!row || f->map || f->is_list)) {
            ok = take(l, f, word, n, i + 1 < argc ? argv[i + 1] : NULL, &skip);
        } else {
            ok = add(l, word);
            if (row && row->value && !hth_option_may_omit_value(row) && !word[n] && i + 1 < argc)
                ok = ok && add(l, argv[i + skip++]);
        }
        i += skip;
    }
    return ok;
}

bool hth_llama_flags_translate(hth_pool *pool, const hth_option_table *own, int argc, char **argv, int *argc_out,
                               char ***argv_out, hth_problems *problems)
{
    const size_t capacity = WORDS_PER_WORD + 2 * (size_t)argc;
    line l = { .pool = pool,
               .problems = problems,
               .words = hth_pool_alloc(pool, capacity * sizeof(char *)),
               .capacity = capacity };
    hth_flat_table *flat = hth_pool_alloc(pool, sizeof(*flat));

    if (flat)
        hth_option_table_flatten(own, true, flat);
    if (!flat || !l.words || !translate(&l, flat, argc, argv)) {
        hth_problems_add(problems, "no memory for the command line, or a value of it is too long");
        return false;
    }
    *argc_out = (int)l.n;
    *argv_out = l.words;
    return true;
}
