/*
 * One pass over the words, and one over the variables of the environment, whose words come first, so that the command
 * line wins. Our own options pass unchanged with their values, whatever the values look like. An option of llama-server
 * becomes ours, or nothing.
 *
 * Members of --chat-template-kwargs have flags of their own there. They are put together into one object.
 */
#include "options/llama_flags.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_PER_WORD = 130 /* each value of a list becomes an option */, VARIABLES_MAX = 256 };

#define TEMPLATE_VALUES "chat-template-kwargs"

/* The name after this one in the names of a flag, at first NULL; NULL: there is none. *n_out: its bytes. */
static const char *next_name(const hth_llama_flag *f, const char *name, size_t *n_out)
{
    name = name ? name + *n_out + strspn(name + *n_out, " ") : f->names;
    *n_out = strcspn(name, " ");
    return *n_out > 0 ? name : NULL;
}

bool hth_llama_flag_name(size_t i, char out[HTH_LLAMA_NAME_BYTES])
{
    for (size_t f = 0; f < hth_llama_n_flags; f++) {
        size_t n;

        for (const char *name = NULL; (name = next_name(&hth_llama_flags[f], name, &n)) != NULL;)
            if (i-- == 0) {
                (void)snprintf(out, HTH_LLAMA_NAME_BYTES, "%.*s", (int)n, name); /* sized for it */
                return true;
            }
    }
    return false;
}

/* ---- words ---- */

/*
 * Is the first part of a word, n bytes up to its '=', this name of n_name bytes? llama-server treats '_' in long names
 * as '-'.
 */
static bool is_named(const char *word, size_t n, const char *name, size_t n_name)
{
    const bool is_long = n > 2 && word[0] == '-' && word[1] == '-';

    if (n_name != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (word[i] != name[i] && !(is_long && word[i] == '_' && name[i] == '-'))
            return false;
    return true;
}

static const hth_llama_flag *flag_of(const char *word, size_t n)
{
    for (size_t i = 0; i < hth_llama_n_flags; i++) {
        size_t n_name;

        for (const char *name = NULL; (name = next_name(&hth_llama_flags[i], name, &n_name)) != NULL;)
            if (is_named(word, n, name, n_name))
                return &hth_llama_flags[i];
    }
    return NULL;
}

/* The number of bytes of a word up to its '='. */
static size_t name_bytes(const char *word)
{
    return strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : strlen(word);
}

/* Hearth's option in a word, n bytes up to its '='; NULL: none. */
static const hth_option *own_of(const hth_flat_table *own, const char *word, size_t n)
{
    for (size_t i = 0; i < own->n; i++) {
        const hth_option *row = own->rows[i].option;
        char name[HTH_LLAMA_NAME_BYTES];

        if (row->kind == HTH_OPTION_HEADING)
            continue;
        (void)snprintf(name, sizeof(name), "--%s", row->name); /* fits: no name is longer */
        if ((n > 2 && is_named(word, n, name, strlen(name))) ||
            (row->letter != 0 && word[1] == row->letter && word[2] == '\0'))
            return row;
    }
    return NULL;
}

/* The new command line under construction. */
typedef struct line {
    hth_pool *pool;
    hth_problems *problems;
    const hth_flat_table *own;
    char **words; /* [capacity] */
    size_t n, capacity;
    const char *template_values; /* the last given values; NULL: none */
    json_t *more_values;         /* values with their own flags */
} line;

static bool add(line *l, const char *word)
{
    if (!word || l->n + 1 >= l->capacity)
        return false;
    l->words[l->n++] = (char *)word; /* getopt moves words and does not change them */
    return true;
}

/* Add an option of Hearth as it was given, with '-' for '_' in its name. */
static bool add_own(line *l, const hth_option *row, const char *word, size_t n)
{
    if (memchr(word, '_', n) && word[1] == '-')
        word = row->value && word[n] ? hth_pool_format(l->pool, "--%s%s", row->name, word + n)
                                     : hth_pool_format(l->pool, "--%s", row->name);
    return add(l, word);
}

/* Add Hearth's option and its value as one word, once for each value of a list. */
static bool add_renamed(line *l, const hth_llama_flag *f, const char *value)
{
    if (f->takes == HTH_LLAMA_NOTHING)
        return add(l, f->to);
    value = f->map ? f->map(l->pool, value) : value;
    if (!value)
        return true; /* it is Hearth's default */
    if (f->takes == HTH_LLAMA_PERHAPS && !*value)
        return add(l, f->to);
    do {
        const size_t n = f->is_list ? strcspn(value, ",") : strlen(value);

        if (n > 0 && !add(l, hth_pool_format(l->pool, "%s=%.*s", f->to, (int)n, value)))
            return false;
        value += n + (value[n] == ',');
    } while (*value);
    return true;
}

/* ---- the kinds of llama-server's flags ---- */

static bool add_template_value(line *l, const hth_llama_flag *f, const char *value)
{
    json_t *member;

    value = f->map(l->pool, value);
    if (!value)
        return true;
    member = json_loads(value, JSON_DECODE_ANY, NULL);
    if (!member)
        hth_problems_add(l->problems, "%s has a value that is no text: %s", f->names,
                         value); /* these flags have one name */
    return !member || json_object_set_new(l->more_values, f->to, member) == 0;
}

static bool add_choice(line *l, const hth_llama_flag *f, const char *name, const char *value)
{
    for (const hth_llama_choice *choice = f->choices; choice->value; choice++) {
        if (strcmp(choice->value, value) != 0)
            continue;
        for (size_t i = 0; i < HTH_LLAMA_CHOICE_OPTIONS && choice->options[i]; i++)
            if (!add(l, choice->options[i]))
                return false;
        return true;
    }
    hth_problems_add(l->problems, "%s %.64s is not offered: %s", name, value, f->to);
    return true;
}

static bool add_flag(line *l, const hth_llama_flag *f, const char *name, const char *value)
{
    switch (f->kind) {
    case HTH_LLAMA_RENAMED: return add_renamed(l, f, value);
    case HTH_LLAMA_TEMPLATE_VALUE: return add_template_value(l, f, value);
    case HTH_LLAMA_CHOICE: return add_choice(l, f, name, value);
    case HTH_LLAMA_WITHOUT_EFFECT:
        hth_problems_warn(l->problems, "%s has no effect here: %s", name, f->to);
        return true;
    case HTH_LLAMA_REFUSED: break;
    }
    hth_problems_add(l->problems, "%s is not offered: %s", name, f->to);
    return true;
}

static bool is_decimal(const char *word)
{
    char *end;

    return word && *word && (strtod(word, &end), *end == '\0');
}

/*
 * Translate an option of llama-server, with its value after '=' or in the next words (NULL: none). *skip_out: the
 * number of words read.
 */
static bool take(line *l, const hth_llama_flag *f, const char *word, size_t n, const char *next, const char *after,
                 int *skip_out)
{
    const bool takes_next = !word[n] && (f->takes == HTH_LLAMA_VALUE || f->takes == HTH_LLAMA_TWO ||
                                         (f->takes == HTH_LLAMA_PERHAPS && hth_llama_switch(next)));
    const char *value = word[n] ? word + n + 1 : takes_next ? next : "", *name = hth_pool_text(l->pool, word, n);

    *skip_out = 1 + (takes_next && next);
    if (f->takes == HTH_LLAMA_TWO && takes_next && next && is_decimal(after)) {
        value = hth_pool_format(l->pool, "%s%c%s", next, f->join, after);
        (*skip_out)++;
    }
    if (!name)
        return false;
    if ((f->takes == HTH_LLAMA_VALUE || f->takes == HTH_LLAMA_TWO) && !value) {
        hth_problems_add(l->problems, "%s needs a value", name);
        return true;
    }
    return add_flag(l, f, name, value);
}

/* ---- the command line ---- */

/* Add an option of Hearth with its value. *skip_out: the number of words read. */
static bool take_own(line *l, const hth_option *row, const char *word, size_t n, const char *next, int *skip_out)
{
    const bool takes_next = row->value && !hth_option_may_omit_value(row) && !word[n] && next;

    *skip_out = 1 + takes_next;
    if (strcmp(row->name, TEMPLATE_VALUES) == 0 && (takes_next || word[n])) { /* these are combined at the end */
        l->template_values = takes_next ? next : word + n + 1;
        return true;
    }
    return add_own(l, row, word, n) && (!takes_next || add(l, next));
}

static bool translate(line *l, int n_words, char *const *words)
{
    bool ok = true;

    for (int i = 0; ok && i < n_words;) {
        const char *word = words[i], *next = i + 1 < n_words ? words[i + 1] : NULL;
        const size_t n = name_bytes(word);
        const bool is_option = word[0] == '-' && n > 1;
        const hth_option *row = is_option ? own_of(l->own, word, n) : NULL;
        const hth_llama_flag *f = is_option ? flag_of(word, n) : NULL;
        int skip = 1;

        if (strcmp(word, "--") == 0) { /* no options follow */
            for (; ok && i < n_words; i++)
                ok = add(l, words[i]);
            break;
        }
        /* An option that both have is translated if llama-server accepts more values. */
        if (f && (!row || f->map || f->is_list || f->takes == HTH_LLAMA_TWO))
            ok = take(l, f, word, n, next, next && i + 2 < n_words ? words[i + 2] : NULL, &skip);
        else if (row)
            ok = take_own(l, row, word, n, next, &skip);
        else
            ok = add(l, word);
        i += skip;
    }
    return ok;
}

/* ---- the environment ---- */

/* Options of which only one may be given, or of which one overrides the other. */
static const char *const exclusive[][2] = { { "host", "listen" },
                                            { "port", "listen" },
                                            { "chat-template", "chat-template-file" },
                                            { "chat-template-file", "chat-template" } };

static bool is_in(const line *l, const char *name)
{
    if (strcmp(name, TEMPLATE_VALUES) == 0 && l->template_values)
        return true;
    for (size_t i = 0; i < l->n; i++) {
        const char *word = l->words[i];
        const hth_option *row = word[0] == '-' ? own_of(l->own, word, name_bytes(word)) : NULL;

        if (row && strcmp(row->name, name) == 0)
            return true;
        /* At worst, a value that looks like an option hides a variable. */
    }
    return false;
}

/* Does the command line already set the option of an environment word? */
static bool is_overruled(const line *l, const char *word)
{
    const hth_option *row = word[0] == '-' ? own_of(l->own, word, name_bytes(word)) : NULL;

    if (!row)
        return false;
    for (size_t i = 0; i < sizeof(exclusive) / sizeof(exclusive[0]); i++)
        if (strcmp(row->name, exclusive[i][0]) == 0 && is_in(l, exclusive[i][1]))
            return true;
    return is_in(l, row->name);
}

/* The words for a variable, [2] in out; none if it is empty or leaves the default. The first is NULL without memory. */
static size_t words_of(const line *e, const hth_llama_variable *variable, hth_environment_fn environment, char **out)
{
    const hth_llama_flag *f = flag_of(variable->flag, strlen(variable->flag));
    const hth_option *row = own_of(e->own, variable->flag, strlen(variable->flag));
    const bool takes_value = f ? f->takes != HTH_LLAMA_NOTHING : row && row->value;
    const char *value = environment(variable->name), *known, *flag;
    bool is_off;
    char off[HTH_LLAMA_NAME_BYTES + 4];

    if (variable->flag_off[0]) { /* only its presence counts */
        (void)snprintf(off, sizeof(off), HTH_LLAMA_VARIABLE_PREFIX "NO_%s",
                       variable->name + strlen(HTH_LLAMA_VARIABLE_PREFIX)); /* fits */
        value = environment(off) ? "off" : value;
    }
    if (!value || !*value)
        return 0;
    known = hth_llama_switch(value);
    is_off = !takes_value && known && strcmp(known, "off") == 0;
    flag = is_off ? variable->flag_off : variable->flag;
    out[0] = hth_pool_text(e->pool, flag, strlen(flag));
    out[1] = (char *)value;
    if (takes_value)
        return 2;
    return known && *flag && (is_off || strcmp(known, "on") == 0) ? 1 : 0;
}

/* Translate the words of a variable, and put them before those of the command line, unless that overrides them. */
static bool take_variable(line *e, const line *l, const hth_llama_variable *variable, char *const *words, size_t n)
{
    hth_problems *own_problems = e->problems;
    hth_problems *found = hth_pool_alloc(e->pool, sizeof(*found));
    const size_t n_before = e->n;
    bool ok;

    if (!found)
        return false;
    e->problems = found;
    ok = translate(e, (int)n, words);
    e->problems = own_problems;
    for (size_t i = 0; i < found->n; i++)
        hth_problems_warn(own_problems, "%s: %s", variable->name, found->list[i].message);
    for (size_t i = n_before; i < e->n; i++)
        if (is_overruled(l, e->words[i])) {
            e->n = n_before;
            break;
        }
    return ok;
}

static bool take_environment(line *e, const line *l, hth_environment_fn environment)
{
    hth_llama_variable variable;

    for (size_t i = 0; environment && hth_llama_variable_at(i, &variable); i++) {
        char *words[2];
        const size_t n = words_of(e, &variable, environment, words);

        if (n > 0 && (!words[0] || !take_variable(e, l, &variable, words, n)))
            return false;
    }
    return true;
}

/* ---- the whole translation ---- */

/* Combine --chat-template-kwargs: the given object, with the members that have their own flags. */
static bool add_template_values(line *e, const line *l)
{
    const char *given = l->template_values ? l->template_values : e->template_values;
    json_t *all = given ? json_loads(given, JSON_REJECT_DUPLICATES, NULL) : json_object();
    char *text = NULL;
    bool ok = true;

    if (json_is_object(all) && json_object_size(e->more_values) + json_object_size(l->more_values) > 0) {
        ok = json_object_update(all, e->more_values) == 0 && json_object_update(all, l->more_values) == 0 &&
             (text = json_dumps(all, JSON_COMPACT)) != NULL;
        given = ok ? hth_pool_text(e->pool, text, strlen(text)) : given;
        ok = ok && given;
    }
    free(text);
    json_decref(all);
    return ok && (!given || (add(e, "--" TEMPLATE_VALUES) && add(e, given)));
}

static bool begin(line *out, hth_pool *pool, hth_problems *problems, const hth_flat_table *own, size_t n_words)
{
    *out = (line){ .pool = pool, .problems = problems, .own = own, .capacity = WORDS_PER_WORD + 2 * n_words };
    out->words = hth_pool_alloc(pool, out->capacity * sizeof(char *));
    out->more_values = json_object();
    return out->words && out->more_values;
}

bool hth_llama_flags_translate(hth_pool *pool, const hth_option_table *own, int argc, char **argv,
                               hth_environment_fn environment, int *argc_out, char ***argv_out, hth_problems *problems)
{
    hth_flat_table *flat = hth_pool_alloc(pool, sizeof(*flat));
    const size_t n_words = argc > 0 ? (size_t)argc - 1 : 0;
    line l = { .words = NULL }, e = { .words = NULL };
    bool ok = flat && begin(&l, pool, problems, flat, n_words) &&
              begin(&e, pool, problems, flat, (size_t)2 * VARIABLES_MAX + n_words + WORDS_PER_WORD);

    if (ok) {
        hth_option_table_flatten(own, true, flat);
        ok = argc < 1 || (add(&e, argv[0]) && translate(&l, argc - 1, argv + 1));
        ok = ok && take_environment(&e, &l, environment) && add_template_values(&e, &l);
    }
    for (size_t i = 0; ok && i < l.n; i++)
        ok = add(&e, l.words[i]);
    json_decref(l.more_values);
    json_decref(e.more_values);
    if (!ok) {
        hth_problems_add(problems, "no memory for the command line, or a value of it is too long");
        return false;
    }
    *argc_out = (int)e.n;
    *argv_out = e.words;
    return true;
}
