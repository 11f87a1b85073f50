/*
 * key_command.c - `hearth key`: keys for the clients of a server
 *
 *   new      generate a key, show it once, and write its block for the key file, which has only its digest
 *   list     list the keys of a file
 *   remove   remove a key from a file
 *   expire   set the time from which a key is refused
 *   hash     print the digest of an existing key
 *
 * A change writes the whole new file next to the old one and renames it, so a server that reads it meanwhile sees
 * either the old file or the new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "base/whole_file.h"
#include "cli/key_edit.h"
#include "console/instant.h"
#include "console/output.h"
#include "front/keys.h"
#include "options/commands.h"
#include "options/config_file.h"
#include "options/key_file.h"
#include "options/manual.h"
#include "options/values.h"

enum { KEY_CHARACTERS = 43, KEY_BYTES = 64, GIVEN_KEY_BYTES_MAX = 4096, BLOCK_BYTES = 16 << 10 };

typedef struct key_options {
    hth_key_entry entry;
    const char *name;
    const char *file;
} key_options;

#define EXPIRY_FORMS \
    "a date such as 2027-01-31 or 2027-01-31T18:00:00Z (UTC), a time from now such as 90d or 12h, now, or never"

/* ---- options ---- */

/* Read names separated by commas. The argument's text may be modified. */
static bool add_models(void *options, const char *shown, const char *value, hearth_error *err)
{
    key_options *out = options;
    char *at = (char *)value, *comma;

    if (!value)
        return hth_value_add_text(out->entry.models, &out->entry.key.n_models, HTH_KEY_MODELS_MAX, shown, NULL, err);
    for (; at; at = comma) {
        comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        if (!hth_value_add_text(out->entry.models, &out->entry.key.n_models, HTH_KEY_MODELS_MAX, shown, at, err))
            return false;
    }
    return true;
}

static bool read_expiry(void *options, const char *shown, const char *value, hearth_error *err)
{
    key_options *out = options;

    return hth_instant_read(value, (int64_t)hth_os_unix_seconds(), &out->entry.key.expires_s) ||
           hth_value_wrong(shown, value, EXPIRY_FORMS, err);
}

static bool read_name(void *options, const char *shown, const char *value, hearth_error *err)
{
    key_options *out = options;

    out->name = value;
    return hth_key_name_is_valid(value) || hth_value_wrong(shown, value, "1 to 64 letters, digits and . _ - @ +", err);
}

#define AT(field) offsetof(key_options, field)

static const hth_option new_rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "New keys" },
    { "name", 0, HTH_OPTION_OWN, "NAME", "who it is for, as logs will say", .read = read_name },
    { "file", 0, HTH_OPTION_TEXT, "FILE", "add its block to this file of keys; made with mode 0600",
      .offset = AT(file) },
    { "models", 0, HTH_OPTION_OWN, "NAMES", "models that it may use, separated by commas (default: all)",
      .read = add_models, .repeats = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_key_limit_options, .offset = AT(entry) },
    { "expires", 0, HTH_OPTION_OWN, "WHEN",
      "it is refused from then on: 2027-01-31 (UTC), or 90d from now (default: never)", .read = read_expiry },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option file_rows[] = {
    { "file", 0, HTH_OPTION_TEXT, "FILE", "the file of keys", .offset = AT(file) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option hash_rows[] = {
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_manual new_manual = {
    .name = "new",
    .alias = "add",
    .summary = "make a key, print it once, and write its block",
    .usage = "usage: hearth key new --name NAME [--file FILE] [OPTIONS]\n"
             "\n"
             "Makes a key for a client of 'hearth serve' and prints it: it is shown once and kept nowhere. "
             "The block for the\n"
             "file of keys follows, or is added to --file. 'hearth key add' is the same.\n"
             "\n",
    .options = HTH_OPTION_ROWS(new_rows),
};

static const hth_manual list_manual = {
    .name = "list",
    .alias = "ls",
    .summary = "list the keys of a file",
    .usage = "usage: hearth key list --file FILE\n\nLists the keys of a file, without the keys themselves.\n\n",
    .options = HTH_OPTION_ROWS(file_rows),
};

static const hth_manual remove_manual = {
    .name = "remove",
    .alias = "rm",
    .summary = "remove a key from a file",
    .usage = "usage: hearth key remove NAME --file FILE\n\n"
             "Removes a key from a file. A running server reads the file again on SIGHUP.\n\n",
    .options = HTH_OPTION_ROWS(file_rows),
    .arguments = HTH_COMPLETE_NOTHING,
};

static const hth_manual expire_manual = {
    .name = "expire",
    .summary = "set the time from which a key is refused",
    .usage = "usage: hearth key expire NAME WHEN --file FILE\n"
             "\n"
             "Sets the time from which a key is refused: "
             "a date (2027-01-31, in UTC), some time from now (90d, 12h), at once\n"
             "(now), or never. A running server reads the file again on SIGHUP.\n"
             "\n",
    .options = HTH_OPTION_ROWS(file_rows),
    .arguments = HTH_COMPLETE_NOTHING,
};

static const hth_manual hash_manual = {
    .name = "hash",
    .summary = "print the digest of a key",
    .usage = "usage: hearth key hash\n"
             "\n"
             "Reads a key from standard input and prints its digest for a block in the file of keys.\n"
             "\n",
    .options = HTH_OPTION_ROWS(hash_rows),
};

static const hth_manual *const manuals[] = { &new_manual,    &list_manual, &remove_manual,
                                             &expire_manual, &hash_manual, NULL };

const hth_manual hth_key_manual = {
    .name = "key",
    .summary = "manage the keys of a server's clients",
    .usage = "Keys for the clients of 'hearth serve', in the file that the server's 'keys' (--keys) names.\n\n",
    .closing = "'hearth help key VERB' explains a verb and its options.\n",
    .verbs = manuals,
};

/* ---- keys ---- */

static void digest_of(const char *key, char hex[2 * HTH_SHA256_BYTES + 1])
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(key, strlen(key), digest);
    hth_hex_encode(digest, sizeof(digest), hex);
}

/* "hk_" and 43 of 62 characters, 256 bits. Bytes that would bias the choice of characters are drawn again. */
static void generate_key(char key[KEY_BYTES])
{
    static const char characters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { N = sizeof(characters) - 1, EVEN = 256 / N * N };
    size_t n = 3;

    memcpy(key, "hk_", n);
    while (n < 3 + KEY_CHARACTERS) {
        uint8_t byte;

        hth_os_random(&byte, 1);
        if (byte < EVEN)
            key[n++] = characters[byte % N];
    }
    key[n] = '\0';
}

static void put_number(FILE *out, const char *name, uint32_t number)
{
    if (number > 0)
        (void)fprintf(out, "  %s = %u;\n", name, number); /* checked at the end, as all of the block */
}

/* The block of a key as a new text; NULL if out of memory. */
static char *make_block(const key_options *o, const char *key, size_t *n_out)
{
    char hex[2 * HTH_SHA256_BYTES + 1], when[HTH_INSTANT_BYTES], *text = NULL;
    FILE *out = open_memstream(&text, n_out);

    if (!out)
        return NULL;
    digest_of(key, hex);
    (void)fputs("key ", out);
    hth_config_quote(o->name, out);
    (void)fprintf(out, " {\n  sha256 = \"%s\";\n", hex);
    for (size_t i = 0; i < o->entry.key.n_models; i++) {
        (void)fputs(i == 0 ? "  models = [" : ", ", out);
        hth_config_quote(o->entry.models[i], out);
    }
    (void)fputs(o->entry.key.n_models > 0 ? "];\n" : "", out);
    put_number(out, "requests_per_minute", o->entry.key.requests_per_minute);
    put_number(out, "tokens_per_minute", o->entry.key.tokens_per_minute);
    put_number(out, "concurrency", o->entry.key.concurrency);
    if (o->entry.key.salt) {
        (void)fputs("  salt = ", out);
        hth_config_quote(o->entry.key.salt, out);
        (void)fputs(";\n", out);
    }
    (void)fputs(o->entry.key.is_admin ? "  admin = true;\n" : "", out);
    if (o->entry.key.expires_s) {
        hth_instant_write(o->entry.key.expires_s, when);
        (void)fprintf(out, "  expires = \"%s\";\n", when);
    }
    (void)fputs("}\n", out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- the file of keys ---- */

/* Read the key file and its owner. False, with a message, if it is not a key file. */
static bool read_old(hth_pool *pool, const char *path, hth_config_file *out, hth_server_options *keys, struct stat *st)
{
    hth_problems *problems = hth_pool_alloc(pool, sizeof(*problems));
    hearth_error err;

    if (!problems || stat(path, st) != 0)
        return hth_sayf(false, "cannot read '%s': %s", path, problems ? strerror(errno) : "no memory");
    if (hth_config_file_read(pool, path, out, &err) != HEARTH_OK)
        return hth_sayf(false, "%s; nothing was changed", err.message);
    if (out->n_text > 0)
        hth_key_file_read(pool, path, keys, problems); /* refuses a file that other users can write to */
    return problems->n_errors == 0 || hth_sayf(false, "%s; nothing was changed", hth_problems_first(problems));
}

static bool has_key(const hth_server_options *keys, const char *name)
{
    for (size_t i = 0; i < keys->n_keys; i++)
        if (strcmp(keys->keys[i].name, name) == 0)
            return true;
    return false;
}

/*
 * Keep other 'hearth key' processes from changing a file in this directory between our read and our write. A lock on
 * the file itself would not help, because it is replaced. Returns a descriptor to close, or -1. The command goes on
 * without a lock if the folder cannot be opened or locked.
 */
static int lock_folder_of(const char *path)
{
    char *real = realpath(path, NULL);
    const char *whole = real ? real : path, *slash = strrchr(whole, '/');
    char *folder = slash == whole ? strdup("/") : slash ? strndup(whole, (size_t)(slash - whole)) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    while (fd >= 0 && flock(fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            (void)close(fd); /* it was not even read */
            fd = -1;
        }
    free(folder);
    free(real);
    return fd;
}

static void unlock_folder(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/*
 * Give the new file, before it gets its name, the owner of the old one and those of its rights that a key file may
 * have: owner read and write, group read.
 */
static void keep_owner(int fd, const char *path, const struct stat *old)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the caller has filled it */
    const mode_t mode = old->st_mode & (S_IRUSR | S_IWUSR | S_IRGRP);

    if ((old->st_uid != geteuid() || old->st_gid != getegid()) && fchown(fd, old->st_uid, old->st_gid) != 0)
        (void)fprintf(stderr,
                      "hearth: warning: the owner and group of '%s' could not be kept: %s; it now belongs to you\n",
                      path, strerror(errno));
    if (fchmod(fd, mode) != 0)
        (void)fprintf(stderr, "hearth: warning: the mode of '%s' cannot be kept: %s\n", path, strerror(errno));
}

/*
 * Write the text as the whole file. old is the old file, for its owner and rights; NULL: none yet. A symbolic link is
 * kept.
 */
static bool write_file(const char *path, const struct stat *old, const char *text, size_t n)
{
    hth_whole_file *file = NULL;
    char *real = old ? realpath(path, NULL) : NULL;
    hearth_error err;
    hearth_status status = hth_whole_file_begin(hth_fs_system(), real ? real : path,
                                                old ? HTH_WHOLE_FILE_REPLACE : HTH_WHOLE_FILE_NEW, &file, &err);

    free(real);
    if (status == HEARTH_OK && old)
        keep_owner(hth_whole_file_descriptor(file), path, old);
    if (status == HEARTH_OK && n > 0)
        status = hth_whole_file_write(file, text, n, &err);
    status = hth_whole_file_end(file, status, &err);
    if (status != HEARTH_OK)
        hth_say_error(&err);
    return status == HEARTH_OK;
}

/* Does the new text have one key more than the old file? If not, print why nothing is written. */
static bool check_appended(hth_pool *pool, const hth_config_file *old, const char *path, const char *text,
                           size_t n_keys)
{
    hth_problems *problems = hth_pool_alloc(pool, sizeof(*problems));
    hth_server_options keys = { .n_keys = 0 };
    const hth_config_node *root;
    hearth_error err = { .message = "" };
    size_t n_blank = 0;

    while (n_blank < old->n_text && strchr(" \t\r\n", old->text[n_blank]))
        n_blank++;
    if (problems && hth_config_file_parse(pool, path, text, strlen(text), &root, &err) == HEARTH_OK) {
        hth_key_file_read_tree(pool, path, root, &keys, problems);
        if (problems->n_errors == 0 && keys.n_keys == n_keys)
            return true;
        if (problems->n_errors > 0)
            (void)hth_fail(&err, HEARTH_CORRUPT, "%s", hth_problems_first(problems));
    }
    if (n_blank < old->n_text && (old->text[n_blank] == '{' || old->text[n_blank] == '['))
        return hth_sayf(false,
                        "'%s' is JSON, to which no block can be added; nothing was changed; make the key without "
                        "--file and put it under \"key\" by hand, or keep such keys in another file",
                        path);
    return hth_sayf(false,
                    "'%s' could not be read with another block at its end%s%s; nothing was changed; make the key "
                    "without --file and add it by hand",
                    path, err.message[0] ? ": " : "", err.message);
}

/* The text of a file with a block at its end, after an empty line; NULL if out of memory. */
static const char *appended(hth_pool *pool, const hth_config_file *file, const char *block)
{
    const char *lines = file->n_text == 0 ? "" : file->text[file->n_text - 1] == '\n' ? "\n" : "\n\n";
    const size_t n_lines = strlen(lines), n_block = strlen(block);
    char *text = hth_pool_alloc(pool, file->n_text + n_lines + n_block + 1);

    if (!text)
        return NULL;
    memcpy(text, file->text, file->n_text);
    memcpy(text + file->n_text, lines, n_lines);
    memcpy(text + file->n_text + n_lines, block, n_block);
    text[file->n_text + n_lines + n_block] = '\0';
    return text;
}

static bool append_block(hth_pool *pool, const char *path, const char *name, const char *block)
{
    const bool is_new = access(path, F_OK) != 0 && errno == ENOENT;
    hth_config_file file = { .text = "" };
    hth_server_options keys = { .n_keys = 0 };
    struct stat old;
    const char *text;

    if (!is_new && !read_old(pool, path, &file, &keys, &old))
        return false;
    if (has_key(&keys, name))
        return hth_sayf(false,
                        "there is a key '%s' in '%s' already; take another name, or remove it ('hearth key remove')",
                        name, path);
    text = appended(pool, &file, block);
    if (!text)
        return hth_say("no memory", false);
    return check_appended(pool, &file, path, text, keys.n_keys + 1) &&
           write_file(path, is_new ? NULL : &old, text, strlen(text));
}

/* ---- listing ---- */

static void print_models(const hth_server_key *key)
{
    for (size_t i = 0; i < key->n_models; i++)
        (void)printf("%s%s", i == 0 ? "" : ",", key->models[i]);
    (void)printf("%s\n", key->n_models == 0 ? "all" : "");
}

static void print_limit(uint32_t limit)
{
    if (limit > 0)
        (void)printf("  %12u", limit);
    else
        (void)printf("  %12s", "-");
}

static void print_keys(const hth_server_options *keys)
{
    const int64_t now_s = (int64_t)hth_os_unix_seconds();
    int width = (int)strlen("NAME");

    for (size_t i = 0; i < keys->n_keys; i++)
        if ((int)strlen(keys->keys[i].name) > width)
            width = (int)strlen(keys->keys[i].name);
    (void)printf("%-*s  %-5s  %-4s  %12s  %12s  %12s  %-20s  %s\n", width, "NAME", "ADMIN", "SALT", "REQUESTS/MIN",
                 "TOKENS/MIN", "AT ONCE", "EXPIRES", "MODELS");
    for (size_t i = 0; i < keys->n_keys; i++) {
        const hth_server_key *key = &keys->keys[i];
        char when[HTH_INSTANT_BYTES];

        hth_instant_write(key->expires_s, when);
        (void)printf("%-*s  %-5s  %-4s", width, key->name, key->is_admin ? "yes" : "-", key->salt ? "own" : "-");
        print_limit(key->requests_per_minute);
        print_limit(key->tokens_per_minute);
        print_limit(key->concurrency);
        (void)printf("  %-20s  ", hth_key_is_expired(key, now_s) ? "expired" : when);
        print_models(key);
    }
}

/* ---- the command ---- */

/* Show the key only after its block has been written. */
static int make_new(const key_options *o)
{
    char key[KEY_BYTES], *block;
    hth_pool *pool = hth_pool_new();
    const int lock = o->file ? lock_folder_of(o->file) : -1;
    int exit_code = HTH_EXIT_FAILED;
    size_t n = 0;

    generate_key(key);
    block = make_block(o, key, &n);
    if (!block || !pool)
        (void)hth_say("no memory", 0);
    else if (n >= BLOCK_BYTES)
        (void)hth_say("the block of this key is too long; give fewer models, or a shorter salt", 0);
    else if (!o->file || append_block(pool, o->file, o->name, block))
        exit_code = HTH_EXIT_OK;
    unlock_folder(lock);
    if (exit_code == HTH_EXIT_OK) {
        (void)printf("%s\n", key);
        if (!o->file)
            (void)printf("\n%s", block);
        exit_code = hth_output_end(HTH_EXIT_OK);
        if (exit_code == HTH_EXIT_OK && isatty(STDERR_FILENO))
            (void)fprintf(stderr, "The first line is the key, which is shown only now. %s\n",
                          o->file ? "A running server reads the file again on SIGHUP."
                                  : "What follows belongs in the file that 'keys' (--keys) names.");
    }
    hth_wipe(key, sizeof(key));
    hth_pool_free(pool);
    free(block);
    return exit_code;
}

static int hash_given(void)
{
    char key[GIVEN_KEY_BYTES_MAX + 2], hex[2 * HTH_SHA256_BYTES + 1];
    size_t n;

    if (isatty(STDIN_FILENO))
        (void)fputs("the key: ", stderr);
    if (!fgets(key, sizeof(key), stdin))
        return hth_say("no key came on standard input", HTH_EXIT_FAILED);
    n = strcspn(key, "\r\n");
    if (n == 0 || n > GIVEN_KEY_BYTES_MAX || strchr(" \t", key[0]) || strchr(" \t", key[n - 1])) {
        hth_wipe(key, sizeof(key));
        return hth_sayf(HTH_EXIT_FAILED,
                        "a key is a line of 1 to %d characters that neither begins nor ends with a space or a tab",
                        GIVEN_KEY_BYTES_MAX);
    }
    key[n] = '\0';
    digest_of(key, hex);
    hth_wipe(key, sizeof(key));
    (void)printf("%s\n", hex);
    return hth_output_end(HTH_EXIT_OK);
}

/* Change a file of keys, or list it. */
static int with_file(const hth_manual *verb, const key_options *o)
{
    const bool changes = verb != &list_manual;
    hth_pool *pool = hth_pool_new();
    hth_config_file file;
    hth_server_options keys = { .n_keys = 0 };
    struct stat old;
    hearth_error err = { .message = "" };
    hearth_status status;
    const char *text = NULL;
    size_t n = 0;
    const int lock = changes ? lock_folder_of(o->file) : -1;
    bool ok = pool && read_old(pool, o->file, &file, &keys, &old);

    if (!pool)
        (void)hth_say("no memory", 0);
    if (ok && changes) {
        status = verb == &remove_manual
                   ? hth_key_text_remove(pool, &file, o->name, &text, &n, &err)
                   : hth_key_text_set_expiry(pool, &file, o->name, o->entry.key.expires_s, &text, &n, &err);
        if (status != HEARTH_OK)
            hth_say_error(&err);
        ok = status == HEARTH_OK && write_file(o->file, &old, text, n);
        if (ok && isatty(STDERR_FILENO))
            (void)fputs("A running server reads the file again on SIGHUP.\n", stderr);
    } else if (ok) {
        print_keys(&keys);
        ok = hth_output_end(HTH_EXIT_OK) == HTH_EXIT_OK;
    }
    unlock_folder(lock);
    hth_pool_free(pool);
    return ok ? HTH_EXIT_OK : HTH_EXIT_FAILED;
}

/* Take the arguments of a verb. False, with a message: they are wrong, or an option is missing. */
static bool read_arguments(const hth_manual *verb, int n, char **arguments, key_options *o)
{
    hearth_error err;

    if (verb == &new_manual && n > 0)
        return hth_sayf(false, "unexpected argument '%s'; give the owner of the key with --name", arguments[0]);
    if (verb == &new_manual && !o->name)
        return hth_say("'key new' needs --name, the owner of the key", false);
    if (verb == &hash_manual && n > 0)
        return hth_say("'key hash' takes no argument; the key comes on standard input, where no list of processes "
                       "shows it",
                       false);
    if (verb == &list_manual && (n != 0 || !o->file))
        return hth_say("'key list' needs --file FILE, the file of keys", false);
    if (verb == &remove_manual && (n != 1 || !o->file))
        return hth_say("'key remove' needs the key's NAME and --file FILE", false);
    if (verb == &expire_manual && (n != 2 || !o->file))
        return hth_say("'key expire' needs the key's NAME, WHEN (" EXPIRY_FORMS ") and --file FILE", false);
    if (n > 0)
        o->name = arguments[0];
    return n < 2 || read_expiry(o, "WHEN", arguments[1], &err) || hth_say(err.message, false);
}

int hth_command_key(int argc, char **argv)
{
    key_options o = { .name = NULL };
    int exit_code, first;
    const hth_manual *verb = hth_verb_read(&hth_key_manual, argc, argv, &exit_code);

    if (!verb)
        return exit_code;
    first = hth_manual_parse(verb, &hth_key_manual, --argc, ++argv, &o, &exit_code);
    if (first < 0)
        return exit_code;
    if (!read_arguments(verb, argc - first, argv + first, &o))
        return HTH_EXIT_USAGE;
    return verb == &new_manual ? make_new(&o) : verb == &hash_manual ? hash_given() : with_file(verb, &o);
}
