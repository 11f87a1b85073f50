/*
 * key_file.c - reads keys from a separate configuration file
 *
 * A user who can write to the file can add a key, so its owner and mode are checked (hth_trusted_file_check). The file
 * has only digests of keys, but limits and salts are private, too.
 */
#include "options/key_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "console/instant.h"
#include "options/config_reader.h"
#include "options/values.h"

bool hth_trusted_file_check(const char *path, const char *what, const char *secrets, uint32_t owner, uint32_t mode,
                            hth_problems *problems)
{
    if (owner != 0 && owner != (uint32_t)geteuid()) {
        hth_problems_add(problems,
                         "%s in '%s' belong to user %u, who may write them at any time, and so let himself in; give "
                         "the file to root or to the server's user: chown root '%s'",
                         what, path, owner, path);
        return false;
    }
    if (mode & S_IWOTH) {
        hth_problems_add(problems, "others may write to %s in '%s', and so let themselves in: chmod 600 '%s'", what,
                         path, path);
        return false;
    }
    if (mode & S_IWGRP)
        hth_problems_warn(problems, "a group may write to %s in '%s', and so let itself in: chmod g-w '%s'", what, path,
                          path);
    if (mode & S_IROTH)
        hth_problems_warn(problems, "others may read %s in '%s': chmod 600 '%s'", secrets, path, path);
    return true;
}

static bool read_sha256(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_key_entry *entry = options;

    entry->has_sha256 = true;
    return hth_hex_decode(value, entry->key.sha256, sizeof(entry->key.sha256)) ||
           hth_value_wrong(shown, value, "64 hex digits, as 'hearth key hash' prints them", err);
}

static bool add_model(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_key_entry *entry = options;

    return hth_value_add_text(entry->models, &entry->key.n_models, HTH_KEY_MODELS_MAX, shown, value, err);
}

static bool read_salt(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_key_entry *entry = options;

    entry->key.salt = value;
    return strlen(value) <= HTH_KEY_SALT_BYTES_MAX || hth_value_wrong(shown, value, "a text of at most 256 bytes", err);
}

static bool read_expiry(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_key_entry *entry = options;

    return hth_instant_read(value, 0, &entry->key.expires_s) ||
           hth_value_wrong(shown, value, "a date such as 2027-01-31 or 2027-01-31T18:00:00Z, in UTC", err);
}

#define AT(field) offsetof(hth_key_entry, field)

static const hth_option limit_rows[] = {
    { "requests-per-minute", 0, HTH_OPTION_U32, "N", "requests that it may begin a minute (default: no limit)",
      .offset = AT(key.requests_per_minute), .low = 1, .high = UINT32_MAX, .key = "requests_per_minute" },
    { "tokens-per-minute", 0, HTH_OPTION_U32, "N",
      "tokens of prompts and replies a minute, cached ones too (default: no limit)",
      .offset = AT(key.tokens_per_minute), .low = 1, .high = UINT32_MAX, .key = "tokens_per_minute" },
    { "concurrency", 0, HTH_OPTION_U32, "N", "requests at once (default: no limit)", .offset = AT(key.concurrency),
      .low = 1, .high = UINT32_MAX, .key = "concurrency" },
    { "salt", 0, HTH_OPTION_OWN, "TEXT",
      "share cached prompts only with keys of the same salt (default: with all that have none)", .read = read_salt,
      .key = "salt" },
    { "admin", 0, HTH_OPTION_FLAG, NULL, "it may use /metrics and /admin", .offset = AT(key.is_admin), .key = "admin" },
};

const hth_option_table hth_key_limit_options = HTH_OPTION_TABLE_OF(limit_rows);

static const hth_option rows[] = {
    { "sha256", 0, HTH_OPTION_OWN, "HEX", "SHA-256 of the key, as 'hearth key hash' prints it", .read = read_sha256,
      .key = "sha256" },
    { "models", 0, HTH_OPTION_OWN, "NAMES", "models that it may use (default: all)", .read = add_model, .repeats = true,
      .key = "models" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_key_limit_options },
    { "expires", 0, HTH_OPTION_OWN, "DATE", "it is refused from then on (default: never)", .read = read_expiry,
      .key = "expires" },
};

static const hth_option_table entry_table = HTH_OPTION_TABLE_OF(rows);

bool hth_key_name_is_valid(const char *name)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@+";
    const size_t n = strlen(name);

    return n > 0 && n <= HTH_KEY_NAME_BYTES_MAX && strspn(name, characters) == n;
}

/* ---- reading ---- */

typedef struct key_list {
    hth_pool *pool;
    hth_problems *problems;
    hth_server_key *keys; /* [capacity] */
    size_t n, capacity;
    const hth_server_options *options; /* NULL: models are not checked */

    /* of the command line */
    size_t n_max;
    size_t n_seen; /* including repeated keys */
    unsigned n_named;
} key_list;

static bool has_digest(const key_list *l, const uint8_t *digest)
{
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(l->keys[i].sha256, digest, sizeof(l->keys[i].sha256)) == 0)
            return true;
    return false;
}

static bool has_name(const key_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->keys[i].name, name) == 0)
            return true;
    return false;
}

static bool has_model(const hth_server_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_models; i++)
        if (strcmp(options->models[i].name, name) == 0)
            return true;
    return false;
}

/* False, with a problem, without memory. */
static bool add_key(key_list *l, const hth_server_key *key)
{
    if (l->n == l->capacity) {
        const size_t capacity = l->capacity ? 2 * l->capacity : 16;
        hth_server_key *grown = hth_pool_alloc(l->pool, capacity * sizeof(*grown));

        if (!grown) {
            hth_problems_add(l->problems, "no memory for the keys");
            return false;
        }
        if (l->n > 0)
            memcpy(grown, l->keys, l->n * sizeof(*grown));
        l->keys = grown;
        l->capacity = capacity;
    }
    l->keys[l->n++] = *key;
    return true;
}

/* The reason why this key is not valid; NULL: it is valid. */
static const char *fault_of(const key_list *l, const hth_key_entry *entry)
{
    if (!hth_key_name_is_valid(entry->key.name))
        return "names have 1 to 64 letters, digits and . _ - @ +";
    if (!entry->has_sha256)
        return "it lacks its 'sha256', which 'hearth key new' and 'hearth key hash' print";
    if (l->n == HTH_KEYS_MAX)
        return "there are 10000 keys already";
    if (has_name(l, entry->key.name))
        return "there is one of that name already";
    if (has_digest(l, entry->key.sha256))
        return "another one has the same 'sha256'";
    return NULL;
}

static void read_entry(key_list *l, const hth_config_reader *reader, const hth_config_node *node)
{
    const hth_config_scope scope = { .prefix = "", .where = "of a key" };
    const size_t n_before = reader->problems->n_errors;
    hth_key_entry entry = { .key = { .name = node->key } };
    const char *fault;
    const char **models;

    if (node->kind != HTH_CONFIG_SECTION) {
        hth_problems_add(reader->problems, "%s:%u: a key has a name and a section: key \"alice\" { sha256 = \"...\" }",
                         reader->name, node->key_line);
        return;
    }
    hth_config_read(reader, node, &entry_table, &entry, &scope);
    if (reader->problems->n_errors > n_before)
        return;
    fault = fault_of(l, &entry);
    if (fault) {
        hth_problems_add(reader->problems, "%s:%u: key '%.64s': %s", reader->name, node->key_line, node->key, fault);
        return;
    }
    for (size_t i = 0; i < entry.key.n_models && l->options; i++)
        if (!has_model(l->options, entry.models[i]))
            hth_problems_warn(reader->problems, "%s:%u: key '%s' may use the model '%.128s', which is not served here",
                              reader->name, node->key_line, node->key, entry.models[i]);
    models = hth_pool_alloc(l->pool, (entry.key.n_models + 1) * sizeof(*models));
    if (models && entry.key.n_models > 0)
        memcpy(models, entry.models, entry.key.n_models * sizeof(*models));
    entry.key.models = models;
    if (models)
        (void)add_key(l, &entry.key); /* problems has the error */
    else
        hth_problems_add(reader->problems, "no memory for the keys");
}

static void read_entries(const hth_config_reader *reader, const hth_config_node *node, void *user_data)
{
    key_list *l = user_data;

    if (node->kind != HTH_CONFIG_SECTION || !node->first)
        hth_problems_add(reader->problems, "%s:%u: 'key' is no section with a name, such as key \"alice\" { ... }",
                         reader->name, node->line);
    else
        for (const hth_config_node *entry = node->first; entry; entry = entry->next)
            read_entry(l, reader, entry);
}

static bool may_be_read(const char *path, const hth_config_file *file, hth_problems *problems)
{
    return !file->is_regular || hth_trusted_file_check(path, "the keys", "the keys' limits and salts", file->owner,
                                                       file->permissions, problems);
}

static void read_tree(key_list *l, const char *name, const hth_config_node *root, hth_server_options *options)
{
    static const hth_option_table none = { NULL, 0 };
    const hth_config_scope scope = {
        .prefix = "", .where = "of a file of keys", .own_keys = { "key" }, .read_own = read_entries, .user_data = l
    };
    const hth_config_reader reader = { .name = name, .directory = "", .pool = l->pool, .problems = l->problems };

    hth_config_read(&reader, root, &none, NULL, &scope);
    if (l->n == 0)
        hth_problems_add(l->problems, "there is no key in '%s'; 'hearth key new --name NAME --file %s' makes one", name,
                         name);
    options->keys = l->keys;
    options->n_keys = l->n;
}

void hth_key_file_read_tree(hth_pool *pool, const char *name, const hth_config_node *root, hth_server_options *options,
                            hth_problems *problems)
{
    key_list l = { .pool = pool, .problems = problems };

    read_tree(&l, name, root, options);
}

void hth_key_file_read(hth_pool *pool, const char *path, hth_server_options *options, hth_problems *problems)
{
    key_list l = { .pool = pool, .problems = problems, .options = options };
    hth_config_file file;
    hearth_error err;

    if (hth_config_file_read(pool, path, &file, &err) != HEARTH_OK)
        hth_problems_add(problems, "%s", err.message);
    else if (may_be_read(path, &file, problems))
        read_tree(&l, file.name, file.root, options);
}

/*
 * ---- keys of the command line ----
 *
 * Only digests are kept. The text that was read from the file is wiped. The command line cannot be wiped, since a
 * reload reads it again; others on the machine can see it anyway, and a warning says so.
 */

enum { NAME_BYTES = 32 };

/* The next unused name. */
static const char *next_name(key_list *l)
{
    char name[NAME_BYTES];

    do
        (void)snprintf(name, sizeof(name), "api-key-%u", ++l->n_named); /* sized for it */
    while (has_name(l, name));
    return hth_pool_text(l->pool, name, strlen(name));
}

/* Add a key of n bytes; `where` names its source in messages. False: no more keys can be added. */
static bool add(key_list *l, const char *text, size_t n, const char *where)
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
    if (l->n == l->n_max) {
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
    if (key.name)
        return add_key(l, &key);
    hth_problems_add(l->problems, "no memory for the keys");
    return false;
}

/* Add the keys of a comma-separated list. */
static void add_given(key_list *l, const char *given)
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

static void add_line(key_list *l, char *line, const char *path)
{
    size_t n = strcspn(line, "\r\n");

    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    if (line[0] != '#')
        (void)add(l, line, n, path); /* problems has the error */
}

/* Check the permissions: anyone who can write the file can add a key, and anyone who can read it has one. */
static bool may_be_read_as_lines(FILE *file, const char *path, hth_problems *problems)
{
    struct stat st;

    return fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode) ||
           hth_trusted_file_check(path, "the keys", "the keys", (uint32_t)st.st_uid, (uint32_t)st.st_mode, problems);
}

static void add_file(key_list *l, const char *path)
{
    char line[HTH_API_KEY_BYTES_MAX + 3];
    const size_t n_before = l->n_seen, n_errors = l->problems->n_errors;
    FILE *file = fopen(path, "re");

    if (!file) {
        hth_problems_add(l->problems, "cannot open the keys in '%s': %s", path, strerror(errno));
        return;
    }
    if (may_be_read_as_lines(file, path, l->problems)) {
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
    key_list l = { .pool = pool,
                   .problems = problems,
                   .keys = (hth_server_key *)options->keys, /* copied before one is added */
                   .n = options->n_keys,
                   .capacity = options->n_keys,
                   .n_max = options->n_keys + HTH_API_KEYS_MAX };

    if (n == 0 && !file)
        return;
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
