/*
 * llama_flags.c - see llama_flags.h
 *
 * One pass over the words. Our own options pass unchanged with their values, whatever the values look like. An option
 * of llama-server becomes ours, or nothing.
 */
#include "cli/llama_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4, WORDS_PER_WORD = 130 /* each value of a list becomes an option */ };

typedef enum takes {
    NOTHING,
    VALUE,
    PERHAPS, /* on, off, auto */
    TWO,     /* values that ours has in one word; also in one */
} takes;

typedef enum kind { RENAMED, WITHOUT_EFFECT, REFUSED } kind;

/* Translates a value; NULL: it is the default here, and needs no option. */
typedef const char *(*map_fn)(hth_pool *pool, const char *value);

typedef struct flag {
    const char *names[NAMES_MAX];
    takes takes;
    kind kind;
    const char *to; /* RENAMED: our option; otherwise the reason */
    map_fn map;     /* NULL: the value stays the same */
    bool is_list;   /* of values with commas, each of which becomes an option */
    char join;      /* TWO: stands between the values in ours */
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
    return strcmp(value, "all") == 0 ? "-1" : value;
}

static const char *map_draft_layers(hth_pool *pool, const char *value)
{
    return strcmp(value, "auto") == 0 ? NULL : map_layers(pool, value);
}

/* llama-server's words for our on, off and auto. */
static const char *const switch_words[][2] = {
    { "on", "on" },        { "enabled", "on" }, { "true", "on" }, { "1", "on" },      { "off", "off" },
    { "disabled", "off" }, { "false", "off" },  { "0", "off" },   { "auto", "auto" }, { "-1", "auto" },
};

/* NULL: it is none of these words. */
static const char *switch_of(const char *word)
{
    for (size_t i = 0; word && i < sizeof(switch_words) / sizeof(switch_words[0]); i++)
        if (strcmp(word, switch_words[i][0]) == 0)
            return switch_words[i][1];
    return NULL;
}

/* Ours is an option without a value. */
static const char *map_presence(hth_pool *pool, const char *value)
{
    const char *known = switch_of(value);

    (void)pool;
    return known && strcmp(known, "off") == 0 ? NULL : "";
}

/* 0 or less lets llama-server choose. */
static const char *map_count(hth_pool *pool, const char *value)
{
    (void)pool;
    return is_number(value, 0) || is_number(value, -1) ? NULL : value;
}

/* A number of MiB. 0 means none there, and becomes the smallest value here. */
static const char *map_mib(hth_pool *pool, const char *value)
{
    if (is_number(value, -1))
        return NULL;
    return is_number(value, 0) ? "1M" : hth_pool_format(pool, "%sM", value);
}

/* A negative number switches a sampler off, as 0 does here. */
static const char *map_off(hth_pool *pool, const char *value)
{
    (void)pool;
    return *value == '-' ? "0" : value;
}

/* Without a value it is on. */
static const char *map_switch(hth_pool *pool, const char *value)
{
    const char *known = switch_of(*value ? value : "on");

    (void)pool;
    return known ? known : value;
}

/* A negative number is the model's own. */
static const char *map_given(hth_pool *pool, const char *value)
{
    (void)pool;
    return *value == '-' ? NULL : value;
}

/* llama-server's default is longer than the longest draft here. */
static const char *map_draft(hth_pool *pool, const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    return *value && *end == '\0' && n > HEARTH_DRAFT_MAX ? hth_pool_format(pool, "%d", HEARTH_DRAFT_MAX) : value;
}

/* ---- the table; the document has it in this order ---- */

static const flag flags[] = {
    { { "--hf-repo", "-hf", "-hfr" }, VALUE, RENAMED, .to = "--model" },
    { { "--ctx-size", "-c" }, VALUE, RENAMED, .to = "--ctx", .map = map_count },
    { { "--batch-size" }, VALUE, RENAMED, .to = "--batch" },
    { { "--parallel", "-np" }, VALUE, RENAMED, .to = "--n-parallel", .map = map_count },
    { { "--threads", "-t" }, VALUE, RENAMED, .to = "--threads", .map = map_count },
    { { "--n-gpu-layers", "--gpu-layers", "-ngl" }, VALUE, RENAMED, .to = "--gpu-layers", .map = map_layers },
    { { "--cache-type-k", "-ctk" }, VALUE, RENAMED, .to = "--type-k" },
    { { "--cache-type-v", "-ctv" }, VALUE, RENAMED, .to = "--type-v" },
    { { "--ubatch-size", "-ub" }, VALUE, RENAMED, .to = "--ubatch" },
    { { "--threads-batch", "-tb" }, VALUE, RENAMED, .to = "--threads-batch", .map = map_count },
    { { "--flash-attn", "-fa" }, PERHAPS, RENAMED, .to = "--flash-attn", .map = map_switch },
    { { "--device", "-dev" }, VALUE, RENAMED, .to = "--device" },
    { { "--split-mode", "-sm" }, VALUE, RENAMED, .to = "--split-mode" },
    { { "--tensor-split", "-ts" }, VALUE, RENAMED, .to = "--tensor-split" },
    { { "--main-gpu", "-mg" }, VALUE, RENAMED, .to = "--main-gpu" },
    { { "--override-tensor", "-ot" }, VALUE, RENAMED, .to = "--override-tensor" },
    { { "--cpu-moe", "-cmoe" }, NOTHING, RENAMED, .to = "--cpu-moe" },
    { { "--n-cpu-moe", "-ncmoe" }, VALUE, RENAMED, .to = "--n-cpu-moe" },
    { { "--no-kv-offload", "-nkvo" }, NOTHING, RENAMED, .to = "--no-kv-offload" },
    { { "--rope-freq-base" }, VALUE, RENAMED, .to = "--rope-freq-base", .map = map_count },
    { { "--rope-freq-scale" }, VALUE, RENAMED, .to = "--rope-freq-scale", .map = map_count },
    { { "--yarn-orig-ctx" }, VALUE, RENAMED, .to = "--yarn-orig-ctx", .map = map_count },
    { { "--yarn-ext-factor" }, VALUE, RENAMED, .to = "--yarn-ext-factor", .map = map_given },
    { { "--yarn-attn-factor" }, VALUE, RENAMED, .to = "--yarn-attn-factor", .map = map_given },
    { { "--yarn-beta-slow" }, VALUE, RENAMED, .to = "--yarn-beta-slow", .map = map_given },
    { { "--yarn-beta-fast" }, VALUE, RENAMED, .to = "--yarn-beta-fast", .map = map_given },
    { { "--cache-ram", "-cram" }, VALUE, RENAMED, .to = "--ram", .map = map_mib },
    { { "--ssl-key-file" }, VALUE, RENAMED, .to = "--tls-key" },
    { { "--ssl-cert-file" }, VALUE, RENAMED, .to = "--tls-certificate" },
    { { "--cors-origins" }, VALUE, RENAMED, .to = "--cors-origin", .is_list = true },
    { { "--no-webui" }, NOTHING, RENAMED, .to = "--no-ui" },
    { { "--alias", "-a" }, VALUE, RENAMED, .to = "--alias", .is_list = true },
    { { "--lora", "--lora-scaled" }, VALUE, RENAMED, .to = "--lora", .is_list = true },
    { { "--control-vector" }, VALUE, RENAMED, .to = "--control-vector", .is_list = true },
    { { "--control-vector-scaled" }, TWO, RENAMED, .to = "--control-vector", .join = ':', .is_list = true },
    { { "--control-vector-layer-range" }, TWO, RENAMED, .to = "--control-vector-layer-range", .join = '-' },
    { { "--temperature" }, VALUE, RENAMED, .to = "--temp" },
    { { "--typical" }, VALUE, RENAMED, .to = "--typical-p" },
    { { "--dry-penalty-last-n" }, VALUE, RENAMED, .to = "--dry-last-n" },
    { { "--top-nsigma", "--top-n-sigma" }, VALUE, RENAMED, .to = "--top-n-sigma", .map = map_off },
    { { "--adaptive-target" }, VALUE, RENAMED, .to = "--adaptive-target", .map = map_off },
    { { "--dynatemp-exp" }, VALUE, RENAMED, .to = "--dynatemp-exponent" },
    { { "--mirostat-ent" }, VALUE, RENAMED, .to = "--mirostat-tau" },
    { { "--mirostat-lr" }, VALUE, RENAMED, .to = "--mirostat-eta" },
    { { "--sampling-seq", "--sampler-seq" }, VALUE, RENAMED, .to = "--samplers" },
    { { "--n-predict" }, VALUE, RENAMED, .to = "--predict" },
    { { "--reranking", "--rerank" }, NOTHING, RENAMED, .to = "--pooling=rank" },
    { { "--spec-draft-n-max", "--draft", "--draft-n" }, VALUE, RENAMED, .to = "--draft-max", .map = map_draft },
    { { "--spec-draft-n-min", "--draft-n-min" }, VALUE, RENAMED, .to = "--draft-min", .map = map_draft },
    { { "--model-draft", "-md", "--spec-draft-model" }, VALUE, RENAMED, .to = "--draft-model" },
    { { "--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft" },
      VALUE,
      RENAMED,
      .to = "--draft-gpu-layers",
      .map = map_draft_layers },
    { { "--verbose", "-v", "--log-verbose" }, NOTHING, RENAMED, .to = "--log-level=debug" },

    { { "--fit", "-fit" }, PERHAPS, RENAMED, .to = "--fit", .map = map_presence },
    { { "-fitc" }, VALUE, RENAMED, .to = "--fit-ctx" },
    { { "--fit-target", "-fitt" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "a sixteenth of a GPU stays free, at most 1 GiB; --fit-device-memory sets a limit" },
    { { "--kv-offload", "-kvo" }, NOTHING, WITHOUT_EFFECT, .to = "K and V lie on GPUs; --no-kv-offload prevents it" },
    { { "--swa-full" }, NOTHING, WITHOUT_EFFECT, .to = "cells that a window has left are in the cache" },
    { { "--prio", "--prio-batch" }, VALUE, WITHOUT_EFFECT, .to = "threads have the priority of the process" },
    { { "--threads-http" }, VALUE, WITHOUT_EFFECT, .to = "connections need no threads" },
    { { "--kv-unified", "-kvu" }, NOTHING, WITHOUT_EFFECT, .to = "one context is always shared by all requests" },
    { { "--cont-batching", "-cb" }, NOTHING, WITHOUT_EFFECT, .to = "requests are always batched together" },
    { { "--cache-prompt" }, NOTHING, WITHOUT_EFFECT, .to = "prompts are always cached; --no-cache turns it off" },
    { { "--cache-reuse" },
      VALUE,
      WITHOUT_EFFECT,
      .to = "equal prefixes are always reused; other reuse would not be exact" },
    { { "--slot-prompt-similarity", "-sps" }, VALUE, WITHOUT_EFFECT, .to = "every slot can use every cached prefix" },
    { { "--no-context-shift" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--metrics" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there; --admin gives them an address" },
    { { "--slots" }, NOTHING, WITHOUT_EFFECT, .to = "they are always there" },
    { { "--jinja" }, NOTHING, WITHOUT_EFFECT, .to = "templates are always Jinja's" },
    { { "--ui", "--webui" }, NOTHING, WITHOUT_EFFECT, .to = "the page is there without --no-ui" },
    { { "--embeddings", "--embedding" },
      NOTHING,
      WITHOUT_EFFECT,
      .to = "every model that can make embeddings makes them; --no-embeddings turns it off" },
    { { "--warmup" }, NOTHING, WITHOUT_EFFECT, .to = "a model that reports ready needs no warm-up" },
    { { "--no-warmup" }, NOTHING, WITHOUT_EFFECT, .to = "there is none" },
    { { "--log-colors" }, PERHAPS, WITHOUT_EFFECT, .to = "the log has none" },
    { { "--log-timestamps" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its time" },
    { { "--log-prefix" }, NOTHING, WITHOUT_EFFECT, .to = "every line has its level" },

    { { "--context-shift" },
      NOTHING,
      REFUSED,
      .to = "a shifted context differs from the one that the model computes; a reply ends when the context is full" },
    { { "--cors-credentials" },
      NOTHING,
      REFUSED,
      .to = "pages send keys, not cookies; --cors-origin lists the origins that may" },
    { { "--api-prefix" }, VALUE, REFUSED, .to = "a proxy in front can remove a prefix" },
    { { "--path" }, VALUE, REFUSED, .to = "pages are not served; --cors-origin lists their origins" },
    { { "--mmproj", "-mm" }, VALUE, REFUSED, .to = "pictures and sound are not read" },
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

/* Is the first part of a word, n bytes up to its '=', this name? */
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

/* Our own option in a word, n bytes up to its '='; NULL: none. */
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

/* The new command line while it is made. */
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
    l->words[l->n++] = (char *)word; /* getopt moves words and does not change them */
    return true;
}

/* Add our option and its value as one word, once for each value of a list. */
static bool add_renamed(line *l, const flag *f, const char *value)
{
    if (f->takes == NOTHING)
        return add(l, f->to);
    value = f->map ? f->map(l->pool, value) : value;
    if (!value)
        return true; /* it is the default here */
    if (f->takes == PERHAPS && !*value)
        return add(l, f->to);
    do {
        const size_t n = f->is_list ? strcspn(value, ",") : strlen(value);

        if (n > 0 && !add(l, hth_pool_format(l->pool, "%s=%.*s", f->to, (int)n, value)))
            return false;
        value += n + (value[n] == ',');
    } while (*value);
    return true;
}

static bool is_decimal(const char *word)
{
    char *end;

    return word && *word && (strtod(word, &end), *end == '\0');
}

/*
 * Translate an option of llama-server, with its value behind '=' or in the next words (NULL: there is none); *skip_out:
 * the number of words that were read.
 */
static bool take(line *l, const flag *f, const char *word, size_t n, const char *next, const char *after, int *skip_out)
{
    const bool takes_next =
        !word[n] && (f->takes == VALUE || f->takes == TWO || (f->takes == PERHAPS && switch_of(next)));
    const char *value = word[n] ? word + n + 1 : takes_next ? next : "";

    *skip_out = 1 + (takes_next && next);
    if (f->takes == TWO && takes_next && next && is_decimal(after)) {
        value = hth_pool_format(l->pool, "%s%c%s", next, f->join, after);
        (*skip_out)++;
    }
    if ((f->takes == VALUE || f->takes == TWO) && !value) {
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

        if (strcmp(word, "--") == 0) { /* no options follow */
            for (; ok && i < argc; i++)
                ok = add(l, argv[i]);
            break;
        }
        /* An option that both have is translated when llama-server knows more values. */
        if (f && (!row || f->map || f->is_list || f->takes == TWO)) {
            ok = take(l, f, word, n, i + 1 < argc ? argv[i + 1] : NULL, i + 2 < argc ? argv[i + 2] : NULL, &skip);
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
