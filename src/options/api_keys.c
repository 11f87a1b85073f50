/*
 * api_keys.c - see api_keys.h
 *
 * Only digests are kept. The text that was read from the file is wiped. The command line cannot be wiped, since a
 * reload reads it again; others on the machine can see it anyway, and a warning says so.
 */
#include "options/api_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "console/trusted_file.h"
#include "options/key_file.h"

enum { NAME_BYTES = 32 };

typedef struct list {
    hth_pool *pool;
    hth_problems *problems;
    hth_server_key *keys; /* [capacity] */
    size_t n, capacity;
    size_t n_seen; /* including repeated keys */
    unsigned n_named;
} list;

static bool has_digest(const list *l, const uint8_t *digest)
{
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(l->keys[i].sha256, digest, sizeof(l->keys[i].sha256)) == 0)
            return true;
    return false;
}

static bool has_name(const list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->keys[i].name, name) == 0)
            return true;
    return false;
}

/* The next unused name. */
static const char *next_name(list *l)
{
    char name[NAME_BYTES];

    do
        (void)snprintf(name, sizeof(name), "api-key-%u", ++l->n_named); /* sized for it */
    while (has_name(l, name));
    return hth_pool_text(l->pool, name, strlen(name));
}

/* Add a key of n bytes; `where` names its source in messages. False: no more keys can be added. */
static bool add(list *l, const char *text, size_t n, const char *where)
{
    hth_server_key key = { .name = NULL };
    uint8_t digest[HTH_SHA256_BYTES];

    if (n == 0)
        return true;
    if (n > HTH_API_KEY_BYTES_MAX) {
        hth_problems_add(l->problems, "a key of %s has %zu bytes; at most %d are allowed", where, n,
                         HTH_API_KEY_BYTES_MAX);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f) {
            hth_problems_add(
                l->problems,
                "a key of %s has a space or a control character, which no HTTP header can carry; take it out", where);
            return false;
        }
    if (l->n == l->capacity) {
        hth_problems_add(l->problems,
                         "there are more than %d keys in %s; 'keys' (--keys) names a file that may have more",
                         HTH_API_KEYS_MAX, where);
        return false;
    }
    l->n_seen++;
    hth_sha256_of(text, n, digest);
    if (has_digest(l, digest))
        return true; /* the key was given twice */
    key.name = next_name(l);
    memcpy(key.sha256, digest, sizeof(key.sha256));
    if (!key.name) {
        hth_problems_add(l->problems, "no memory for the keys");
        return false;
    }
    l->keys[l->n++] = key;
    return true;
}

/* Add the keys of a comma-separated list. */
static void add_given(list *l, const char *given)
{
    const size_t n_before = l->n_seen, n_errors = l->problems->n_errors;
    const char *at = given;
    bool goes_on = true;

    while (goes_on) {
        const size_t n = strcspn(at, ",");

        goes_on = add(l, at, n, "--api-key") && at[n] == ',';
        at += n + (at[n] == ',');
    }
    if (l->n_seen == n_before && l->problems->n_errors == n_errors)
        hth_problems_add(l->problems, "--api-key is empty; give it a key, or leave it out to ask for none");
}

static void add_line(list *l, char *line, const char *path)
{
    size_t n = strcspn(line, "\r\n");

    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    if (line[0] != '#')
        (void)add(l, line, n, path); /* problems has the error */
}

/* Check the permissions: anyone who can write the file can add a key, and anyone who can read it has one. */
static bool may_be_read(FILE *file, const char *path, hth_problems *problems)
{
    struct stat st;

    return fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode) ||
           hth_trusted_file_check(path, "the keys", "the keys", (uint32_t)st.st_uid, (uint32_t)st.st_mode, problems);
}

static void add_file(list *l, const char *path)
{
    char line[HTH_API_KEY_BYTES_MAX + 3];
    const size_t n_before = l->n_seen, n_errors = l->problems->n_errors;
    FILE *file = fopen(path, "re");

    if (!file) {
        hth_problems_add(l->problems, "cannot open the keys in '%s': %s", path, strerror(errno));
        return;
    }
    if (may_be_read(file, path, l->problems)) {
        while (l->problems->n_errors == n_errors && fgets(line, sizeof(line), file)) {
            if (!strchr(line, '\n') && strlen(line) == sizeof(line) - 1)
                hth_problems_add(l->problems, "a line of '%s' is longer than %d bytes, the limit of a key", path,
                                 HTH_API_KEY_BYTES_MAX);
            else
                add_line(l, line, path);
        }
        if (ferror(file))
            hth_problems_add(l->problems, "cannot read the keys in '%s': %s", path, strerror(errno));
        else if (l->n_seen == n_before && l->problems->n_errors == n_errors)
            hth_problems_add(l->problems,
                             "there is no key in '%s'; write one key on each line, because without keys the server "
                             "would admit everyone",
                             path);
    }
    hth_wipe(line, sizeof(line));
    (void)fclose(file); /* it was only read */
}

void hth_api_keys_add(hth_pool *pool, const char *const *given, size_t n, const char *file, hth_server_options *options,
                      hth_problems *problems)
{
    list l = {
        .pool = pool, .problems = problems, .n = options->n_keys, .capacity = options->n_keys + HTH_API_KEYS_MAX
    };

    if (n == 0 && !file)
        return;
    l.keys = hth_pool_alloc(pool, l.capacity * sizeof(*l.keys));
    if (!l.keys) {
        hth_problems_add(problems, "no memory for the keys");
        return;
    }
    if (options->n_keys > 0)
        memcpy(l.keys, options->keys, options->n_keys * sizeof(*l.keys));
    for (size_t i = 0; i < n; i++)
        add_given(&l, given[i]);
    if (file)
        add_file(&l, file);
    if (n > 0)
        hth_problems_warn(problems,
                          "everybody on this machine can read the keys of --api-key in the list of processes; "
                          "--api-key-file FILE, or --keys FILE with keys of 'hearth key new', hides them");
    options->keys = l.keys;
    options->n_keys = l.n;
}
