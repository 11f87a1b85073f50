/*
 *   1. find the block of the key in the tree of the text
 *   2. replace bytes of the text
 *   3. parse the new text, and compare its keys with the expected ones
 *
 * Comments and the order of blocks are kept. Unusual forms that step 2 does not handle fail in step 3, and nothing
 * changes.
 */
#include "cli/key_edit.h"

#include <assert.h>
#include <string.h>

#include "base/status.h"
#include "console/instant.h"
#include "options/key_file.h"

/* The section of a key, and the member of the file that contains it. */
typedef struct place {
    const hth_config_node *member; /* key "a" { ... }, or key { a { ... } b { ... } } */
    const hth_config_node *entry;
    size_t n_keys; /* in the file */
} place;

/* The replacement of text[begin, end). */
typedef struct change {
    size_t begin, end;
    const char *text;
} change;

static hearth_status find(const hth_config_file *file, const char *name, place *out, hearth_error *err)
{
    *out = (place){ .entry = NULL };
    for (const hth_config_node *member = file->root->first; member; member = member->next)
        for (const hth_config_node *entry = member->kind == HTH_CONFIG_SECTION ? member->first : NULL; entry;
             entry = entry->next) {
            out->n_keys++;
            if (strcmp(entry->key, name) != 0 || entry->kind != HTH_CONFIG_SECTION)
                continue;
            out->member = member;
            out->entry = entry;
        }
    return out->entry ? HEARTH_OK
                      : hth_fail(err, HEARTH_NOT_FOUND,
                                 "there is no key '%.64s' in '%s'; 'hearth key list --file %s' "
                                 "says which there are",
                                 name, file->name, file->name);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The extent of a member, with its separator, and with its lines if they contain nothing else. */
static change whole_member(const hth_config_file *file, const hth_config_node *node)
{
    change out = { .begin = node->begin, .end = node->end, .text = "" };
    size_t begin = out.begin, end = out.end;

    while (end < file->n_text && is_blank(file->text[end]))
        end++;
    if (end < file->n_text && (file->text[end] == ';' || file->text[end] == ','))
        out.end = ++end;
    while (end < file->n_text && is_blank(file->text[end]))
        end++;
    while (begin > 0 && is_blank(file->text[begin - 1]))
        begin--;
    if ((begin == 0 || file->text[begin - 1] == '\n') && (end == file->n_text || file->text[end] == '\n')) {
        out.begin = begin;
        out.end = end + (end < file->n_text);
    }
    return out;
}

static const char *apply(hth_pool *pool, const hth_config_file *file, const change *c, size_t *n_out)
{
    const size_t n_new = strlen(c->text), n_after = file->n_text - c->end;
    char *text = hth_pool_alloc(pool, c->begin + n_new + n_after + 1);

    if (!text)
        return NULL;
    memcpy(text, file->text, c->begin);
    memcpy(text + c->begin, c->text, n_new);
    memcpy(text + c->begin + n_new, file->text + c->end, n_after);
    *n_out = c->begin + n_new + n_after;
    return text;
}

static const hth_server_key *key_of(const hth_server_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_keys; i++)
        if (strcmp(options->keys[i].name, name) == 0)
            return &options->keys[i];
    return NULL;
}

/* Apply a change. The result must have n keys, and this key must expire at expires_s; -1: it must be removed. */
static hearth_status change_text(hth_pool *pool, const hth_config_file *file, const change *c, const char *name,
                                 size_t n_keys, int64_t expires_s, const char **text_out, size_t *n_out,
                                 hearth_error *err)
{
    hth_problems *problems = hth_pool_alloc(pool, sizeof(*problems));
    hth_server_options options = { .n_keys = 0 };
    const hth_config_node *root;
    const hth_server_key *key;
    size_t n;
    const char *text = apply(pool, file, c, &n);

    if (!text || !problems)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to change '%s'", file->name);
    if (hth_config_file_parse(pool, file->name, text, n, &root, err) == HEARTH_OK)
        hth_key_file_read_tree(pool, file->name, root, &options, problems);
    key = key_of(&options, name);
    if (problems->n_errors > 0 || options.n_keys != n_keys || (expires_s < 0 ? !!key : !key) ||
        (key && key->expires_s != expires_s))
        return hth_fail(err, HEARTH_CORRUPT,
                        "'%s' has a form that this command cannot change; change the block of '%.64s' by hand",
                        file->name, name);
    *text_out = text;
    *n_out = n;
    return HEARTH_OK;
}

hearth_status hth_key_text_remove(hth_pool *pool, const hth_config_file *file, const char *name, const char **text_out,
                                  size_t *n_out, hearth_error *err)
{
    place at;
    change c;
    hearth_status status = find(file, name, &at, err);

    if (status != HEARTH_OK)
        return status;
    assert(at.member);
    if (at.n_keys == 1)
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.64s' is the only key in '%s', and a server refuses a file without keys and keeps its old "
                        "ones: add another key first, or let this one expire ('hearth key expire')",
                        name, file->name);
    c = whole_member(file, at.member->first == at.entry && !at.entry->next ? at.member : at.entry);
    return change_text(pool, file, &c, name, at.n_keys - 1, -1, text_out, n_out, err);
}

/* Add a member at the beginning of the section, in the style of the other members. */
static change new_expiry(hth_pool *pool, const hth_config_file *file, const place *at, const char *when)
{
    const size_t begin = at->entry->value_begin + 1; /* after the brace */
    const bool has_lines = file->text[begin] == '\n' || file->text[begin] == '\r';
    const bool is_json = at->entry->first && file->text[at->entry->first->begin] == '"';
    const char *text = hth_pool_format(pool, is_json ? "%s\"expires\": \"%s\"," : "%sexpires = \"%s\";",
                                       has_lines ? "\n  " : " ", when);

    return (change){ .begin = begin, .end = begin, .text = text };
}

hearth_status hth_key_text_set_expiry(hth_pool *pool, const hth_config_file *file, const char *name, int64_t expires_s,
                                      const char **text_out, size_t *n_out, hearth_error *err)
{
    const hth_config_node *old;
    char when[HTH_INSTANT_BYTES];
    place at;
    change c;
    hearth_status status = find(file, name, &at, err);

    if (status != HEARTH_OK)
        return status;
    assert(at.entry);
    hth_instant_write(expires_s, when);
    old = at.entry->first;
    while (old && strcmp(old->key, "expires") != 0)
        old = old->next;
    if (old && expires_s == 0)
        c = whole_member(file, old);
    else if (old)
        c = (change){ old->value_begin, old->end, hth_pool_format(pool, "\"%s\"", when) };
    else if (expires_s == 0)
        c = (change){ 0, 0, "" };
    else
        c = new_expiry(pool, file, &at, when);
    if (!c.text)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to change '%s'", file->name);
    return change_text(pool, file, &c, name, at.n_keys, expires_s, text_out, n_out, err);
}
