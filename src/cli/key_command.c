/*
 * key_command.c - `hearth key`: keys for a server's clients
 *
 *   new    draw a key, show it once, and write the block for the file of keys, which has its digest only
 *   hash   the digest of a key that there is
 *
 * A block is added to a file by writing the whole file anew beside it and renaming it, so that a server that reads it
 * meanwhile sees the old one or the new one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/hmac.h"
#include "base/os.h"
#include "base/whole_file.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/key_file.h"
#include "cli/nearest.h"
#include "cli/values.h"

enum { DRAWN_CHARACTERS = 43, KEY_BYTES = 64, GIVEN_KEY_BYTES_MAX = 4096, BLOCK_BYTES = 16 << 10 };

typedef struct key_options {
    hth_key_entry entry;
    const char *name;
    const char *file;
    bool help;
} key_options;

/* ---- options ---- */

/* Names between commas. The text of a command line is ours to cut. */
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
    { "requests-per-minute", 0, HTH_OPTION_U32, "N", "requests that it may begin a minute (default: no limit)",
      .offset = AT(entry.key.requests_per_minute), .low = 1, .high = UINT32_MAX },
    { "tokens-per-minute", 0, HTH_OPTION_U32, "N",
      "tokens of prompts and replies a minute, cached ones too (default: no limit)",
      .offset = AT(entry.key.tokens_per_minute), .low = 1, .high = UINT32_MAX },
    { "concurrency", 0, HTH_OPTION_U32, "N", "requests at once (default: no limit)",
      .offset = AT(entry.key.concurrency), .low = 1, .high = UINT32_MAX },
    { "salt", 0, HTH_OPTION_TEXT, "TEXT",
      "share cached prompts only with keys of the same salt (default: with all that have none)",
      .offset = AT(entry.key.salt) },
    { "admin", 0, HTH_OPTION_FLAG, NULL, "it may use /metrics and /admin", .offset = AT(entry.key.is_admin) },
    { "help", 'h', HTH_OPTION_END, NULL, "this text", .offset = AT(help) },
};

static const hth_option_table new_table = { new_rows, sizeof(new_rows) / sizeof(new_rows[0]) };

static const char usage[] = "usage: hearth key new --name NAME [--file FILE] [OPTIONS]\n"
                            "       hearth key hash\n"
                            "\n"
                            "'new' makes a key for a client of 'hearth serve' and prints it: it is shown once and kept "
                            "nowhere. The block for the\n"
                            "file of keys follows, or is added to --file; a running server takes it over with SIGHUP.\n"
                            "'hash' reads a key from standard input and prints its SHA-256 for such a block.\n"
                            "\n";

/* ---- keys ---- */

static void digest_of(const char *key, char hex[2 * HTH_SHA256_BYTES + 1])
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(key, strlen(key), digest);
    hth_hex_encode(digest, sizeof(digest), hex);
}

/* "hk_" and 43 of 62 characters, 256 bits. Bytes that would make some of them likelier are drawn again. */
static void draw_key(char key[KEY_BYTES])
{
    static const char characters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { N = sizeof(characters) - 1, EVEN = 256 / N * N };
    size_t n = 3;

    memcpy(key, "hk_", n);
    while (n < 3 + DRAWN_CHARACTERS) {
        uint8_t byte;

        hth_os_random(&byte, 1);
        if (byte < EVEN)
            key[n++] = characters[byte % N];
    }
    key[n] = '\0';
}

/* A block as it is put together. */
typedef struct block {
    char text[BLOCK_BYTES];
    size_t n;
    bool is_cut;
} block;

static void add(block *b, const char *text)
{
    const size_t n = strlen(text);

    b->is_cut |= n >= sizeof(b->text) - b->n;
    if (b->is_cut)
        return;
    memcpy(b->text + b->n, text, n + 1);
    b->n += n;
}

static void add_quoted(block *b, const char *text)
{
    char one[8];

    add(b, "\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            (void)snprintf(one, sizeof(one), "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            (void)snprintf(one, sizeof(one), "\\u%04x", c);
        else
            (void)snprintf(one, sizeof(one), "%c", c);
        add(b, one);
    }
    add(b, "\"");
}

static void add_number(block *b, const char *name, uint32_t number)
{
    char line[64];

    if (number == 0)
        return;
    (void)snprintf(line, sizeof(line), "  %s = %u;\n", name, number); /* sized for it */
    add(b, line);
}

static bool make_block(const key_options *o, const char *key, block *b)
{
    char hex[2 * HTH_SHA256_BYTES + 1];

    digest_of(key, hex);
    add(b, "key ");
    add_quoted(b, o->name);
    add(b, " {\n  sha256 = \"");
    add(b, hex);
    add(b, "\";\n");
    for (size_t i = 0; i < o->entry.key.n_models; i++) {
        add(b, i == 0 ? "  models = [" : ", ");
        add_quoted(b, o->entry.models[i]);
    }
    add(b, o->entry.key.n_models > 0 ? "];\n" : "");
    add_number(b, "requests_per_minute", o->entry.key.requests_per_minute);
    add_number(b, "tokens_per_minute", o->entry.key.tokens_per_minute);
    add_number(b, "concurrency", o->entry.key.concurrency);
    if (o->entry.key.salt) {
        add(b, "  salt = ");
        add_quoted(b, o->entry.key.salt);
        add(b, ";\n");
    }
    add(b, o->entry.key.is_admin ? "  admin = true;\n" : "");
    add(b, "}\n");
    return !b->is_cut;
}

/* ---- the file of keys ---- */

/* What the file holds now: the text, to go on with. False when it is no file of keys, or has the name. */
static bool read_old(hth_pool *pool, const char *path, const char *name, char **text_out, size_t *n_out,
                     struct stat *st)
{
    FILE *file = fopen(path, "re");
    hth_server_options options = { .n_keys = 0 };
    hth_problems *problems = hth_pool_alloc(pool, sizeof(*problems));
    char *text;
    size_t n;

    if (!file || fstat(fileno(file), st) != 0 || st->st_size > HTH_CONFIG_BYTES_MAX || !problems) {
        (void)fprintf(stderr, "hearth: cannot read '%s': %s\n", path, file ? "it is too large" : strerror(errno));
        if (file)
            (void)fclose(file); /* only read */
        return false;
    }
    text = hth_pool_alloc(pool, (size_t)st->st_size + 1);
    n = text ? fread(text, 1, (size_t)st->st_size, file) : 0;
    (void)fclose(file); /* only read */
    if (!text || n != (size_t)st->st_size) {
        (void)fprintf(stderr, "hearth: cannot read '%s'\n", path);
        return false;
    }
    if (n > 0)
        hth_key_file_read(pool, path, &options, problems);
    if (problems->n_errors > 0) {
        (void)fprintf(stderr, "hearth: %s; nothing was added\n", hth_problems_first(problems));
        return false;
    }
    for (size_t i = 0; i < options.n_keys; i++)
        if (strcmp(options.keys[i].name, name) == 0) {
            (void)fprintf(stderr,
                          "hearth: there is a key '%s' in '%s' already; take another name, or remove its block\n", name,
                          path);
            return false;
        }
    *text_out = text;
    *n_out = n;
    return true;
}

/* The new file belongs to whom the old one did, and the same group may read it. */
static void keep_owner(const char *path, const struct stat *old)
{
    const mode_t mode = old->st_mode & (S_IRUSR | S_IWUSR | S_IRGRP);

    if ((old->st_uid != geteuid() || old->st_gid != getegid()) && chown(path, old->st_uid, old->st_gid) != 0)
        (void)fprintf(stderr, "hearth: warning: '%s' belongs to you now, since its owner cannot be kept: %s\n", path,
                      strerror(errno));
    if (chmod(path, mode) != 0)
        (void)fprintf(stderr, "hearth: warning: the mode of '%s' cannot be kept: %s\n", path, strerror(errno));
}

static bool append_block(hth_pool *pool, const char *path, const char *name, const block *b)
{
    hth_whole_file *file = NULL;
    const bool is_new = access(path, F_OK) != 0 && errno == ENOENT;
    struct stat old;
    char *text = NULL;
    size_t n = 0;
    hearth_error err;
    hearth_status status;

    if (!is_new && !read_old(pool, path, name, &text, &n, &old))
        return false;
    status =
        hth_whole_file_begin(hth_fs_system(), path, is_new ? HTH_WHOLE_FILE_NEW : HTH_WHOLE_FILE_REPLACE, &file, &err);
    if (status == HEARTH_OK && n > 0)
        status = hth_whole_file_write(file, text, n, &err);
    if (status == HEARTH_OK && n > 0)
        status = hth_whole_file_write(file, "\n\n", text[n - 1] == '\n' ? 1 : 2, &err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, b->text, b->n, &err);
    if (status == HEARTH_OK)
        status = hth_whole_file_commit(file, &err);
    else
        hth_whole_file_abort(file);
    if (status != HEARTH_OK)
        (void)fprintf(stderr, "hearth: %s\n", err.message);
    else if (!is_new)
        keep_owner(path, &old);
    return status == HEARTH_OK;
}

/* ---- the command ---- */

/* The key is shown once it is where it has to be. */
static int make_new(const key_options *o)
{
    char key[KEY_BYTES];
    block *b = calloc(1, sizeof(*b));
    hth_pool *pool = hth_pool_new();
    int exit_code = HTH_EXIT_FAILED;

    draw_key(key);
    if (!b || !pool)
        (void)fputs("hearth: no memory\n", stderr);
    else if (!make_block(o, key, b))
        (void)fputs("hearth: that is too much for one key; give fewer models, or a shorter salt\n", stderr);
    else if (!o->file || append_block(pool, o->file, o->name, b))
        exit_code = HTH_EXIT_OK;
    if (exit_code == HTH_EXIT_OK) {
        (void)printf("%s\n", key);
        if (!o->file)
            (void)printf("\n%s", b->text);
        if (fflush(stdout) != 0)
            exit_code = HTH_EXIT_FAILED;
        if (isatty(STDERR_FILENO))
            (void)fprintf(stderr, "The first line is the key, which is shown only now. %s\n",
                          o->file ? "A running server takes it over with SIGHUP."
                                  : "What follows belongs into the file that 'keys' (--keys) names.");
    }
    hth_wipe(key, sizeof(key));
    hth_pool_free(pool);
    free(b);
    return exit_code;
}

static int hash_given(void)
{
    char key[GIVEN_KEY_BYTES_MAX + 2], hex[2 * HTH_SHA256_BYTES + 1];
    size_t n;

    if (isatty(STDIN_FILENO))
        (void)fputs("the key: ", stderr);
    if (!fgets(key, sizeof(key), stdin)) {
        (void)fputs("hearth: no key came on standard input\n", stderr);
        return HTH_EXIT_FAILED;
    }
    n = strcspn(key, "\r\n");
    if (n == 0 || n > GIVEN_KEY_BYTES_MAX || strspn(key, " \t") > 0 || key[n - 1] == ' ') {
        (void)fprintf(stderr,
                      "hearth: a key is a line of 1 to %d characters that neither begins nor ends with a space\n",
                      GIVEN_KEY_BYTES_MAX);
        return HTH_EXIT_FAILED;
    }
    key[n] = '\0';
    digest_of(key, hex);
    hth_wipe(key, sizeof(key));
    (void)printf("%s\n", hex);
    return fflush(stdout) == 0 ? HTH_EXIT_OK : HTH_EXIT_FAILED;
}

static void print_help(void)
{
    (void)fputs(usage, stdout);
    hth_option_table_print(&new_table, true, stdout);
}

static int command_new(int argc, char **argv)
{
    key_options *o = calloc(1, sizeof(*o));
    int exit_code = HTH_EXIT_USAGE, first;

    if (!o) {
        (void)fputs("hearth: no memory\n", stderr);
        return HTH_EXIT_FAILED;
    }
    first = hth_option_table_parse(&new_table, "hearth key new", argc, argv, o);
    if (first >= 0 && o->help) {
        print_help();
        exit_code = HTH_EXIT_OK;
    } else if (first >= 0 && first < argc) {
        (void)fprintf(stderr, "hearth: unexpected argument '%s'; who the key is for is given with --name\n",
                      argv[first]);
    } else if (first >= 0 && !o->name) {
        (void)fputs("hearth: 'key new' needs --name, who the key is for\n", stderr);
    } else if (first >= 0) {
        exit_code = make_new(o);
    }
    free(o);
    return exit_code;
}

int hth_command_key(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    hth_nearest nearest;

    if (strcmp(verb, "new") == 0)
        return command_new(argc - 1, argv + 1);
    if (strcmp(verb, "hash") == 0 && argc == 2)
        return hash_given();
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        print_help();
        return HTH_EXIT_OK;
    }
    hth_nearest_init(&nearest, verb);
    hth_nearest_try(&nearest, "new");
    hth_nearest_try(&nearest, "hash");
    if (strcmp(verb, "hash") == 0)
        (void)fputs("hearth: 'key hash' takes no argument; the key comes on standard input, where no list of processes "
                    "shows it\n",
                    stderr);
    else
        (void)fprintf(stderr, "hearth: 'key' needs 'new' or 'hash'%s%s%s; see 'hearth key --help'\n",
                      nearest.name ? "; did you mean '" : "", nearest.name ? nearest.name : "",
                      nearest.name ? "'?" : "");
    return HTH_EXIT_USAGE;
}
