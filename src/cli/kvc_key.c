/*
 * kvc_key.c - `hearth kvc key`: the key of a list of tokens
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "rows/key.h"
#include "options/commands.h"
#include "cli/kvc_verbs.h"
#include "options/option_table.h"
#include "console/output.h"

typedef struct key_options {
    const char *fingerprint, *quant, *ctx_params_hash;
    bool help;
} key_options;

static const hth_option rows[] = {
    { "fingerprint", 0, HTH_OPTION_TEXT, "HEX", "the model's effective fingerprint, 64 hex digits",
      .offset = offsetof(key_options, fingerprint), .check = hth_kvc_check_hash },
    { "quant", 0, HTH_OPTION_TEXT, "NAME", "quant type in lower case, such as q4_k_m",
      .offset = offsetof(key_options, quant) },
    { "ctx-params-hash", 0, HTH_OPTION_TEXT, "HEX", "hash of the context's parameters, 64 hex digits",
      .offset = offsetof(key_options, ctx_params_hash), .check = hth_kvc_check_hash },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = offsetof(key_options, help) },
};

static const hth_option_table table = { rows, sizeof(rows) / sizeof(rows[0]) };

static const char usage[] =
    "usage: hearth kvc key --fingerprint HEX --quant NAME --ctx-params-hash HEX [TOKEN... | -]\n"
    "\n"
    "Prints the key that names a prefix: SHA-256 over fingerprint, quant type, hash of the context's parameters and\n"
    "the tokens, which are numbers from 0 to 4294967295. No tokens name the empty prefix. '-' reads the tokens from\n"
    "standard input, separated by spaces, lines or commas.\n"
    "\n";
static const char closing[] = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n";

const hth_manual hth_kvc_key_manual = {
    .name = "key",
    .summary = "compute the key of a list of tokens",
    .usage = usage,
    .closing = closing,
    .options = &table,
    .arguments = HTH_COMPLETE_NOTHING,
};

/* Tokens so far. */
typedef struct token_list {
    hearth_token *tokens;
    size_t n;
    size_t capacity;
} token_list;

static bool add_token(token_list *list, uint32_t token)
{
    hearth_token *tokens = hth_grown(list->tokens, list->n, &list->capacity, sizeof(*tokens));

    if (!tokens)
        return false;
    list->tokens = tokens;
    list->tokens[list->n++] = (hearth_token)token;
    return true;
}

/* Add the token of a word. Returns the exit code. */
static int add_word(token_list *list, const char *word)
{
    unsigned long long value = 0;
    char *end = NULL;

    errno = 0;
    if (word[0] >= '0' && word[0] <= '9')
        value = strtoull(word, &end, 10);
    if (!end || *end || errno || value > UINT32_MAX)
        return hth_kvc_usage_error("kvc key", "'%s' is no token, which is a number from 0 to %" PRIu32, word,
                                   UINT32_MAX);
    if (!add_token(list, (uint32_t)value)) {
        (void)fprintf(stderr, "hearth: no memory for more than %zu tokens; give fewer\n", list->n);
        return HTH_EXIT_FAILED;
    }
    return HTH_EXIT_OK;
}

static bool separates_tokens(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

/* Add the tokens of standard input. Returns the exit code. */
static int add_input(token_list *list)
{
    char word[32]; /* a longer word is cut and ends with a character that no number has */
    size_t n_word = 0;
    int c;

    do {
        c = getchar();
        if (c != EOF && !separates_tokens(c)) {
            if (n_word < sizeof(word) - 1)
                word[n_word++] = c == '\0' ? '?' : (char)c;
            else
                word[n_word - 1] = '?';
        } else if (n_word > 0) {
            int exit_code;

            word[n_word] = '\0';
            n_word = 0;
            exit_code = add_word(list, word);
            if (exit_code != HTH_EXIT_OK)
                return exit_code;
        }
    } while (c != EOF);
    if (ferror(stdin)) {
        (void)fprintf(stderr, "hearth: cannot read the tokens: %s; check where standard input comes from\n",
                      strerror(errno));
        return HTH_EXIT_FAILED;
    }
    return HTH_EXIT_OK;
}

static int print_key(const hth_keyspace *keyspace, int n_words, char **words)
{
    token_list list = { .tokens = NULL };
    int exit_code = HTH_EXIT_OK;
    char hex[2 * HTH_KEY_BYTES + 1];
    hth_key key;

    if (n_words == 1 && strcmp(words[0], "-") == 0)
        exit_code = add_input(&list);
    else
        for (int i = 0; i < n_words && exit_code == HTH_EXIT_OK; i++)
            exit_code = add_word(&list, words[i]);
    if (exit_code == HTH_EXIT_OK) {
        if (hth_key_of(keyspace, list.tokens, list.n, &key)) {
            hth_hex_encode(key.bytes, HTH_KEY_BYTES, hex);
            puts(hex);
        } else {
            (void)fprintf(stderr, "hearth: no memory to compute a key; close other programs\n");
            exit_code = HTH_EXIT_FAILED;
        }
    }
    free(list.tokens);
    return hth_output_end(exit_code);
}

int hth_kvc_key(int argc, char **argv)
{
    hth_keyspace keyspace = { .quant_byte = 0 };
    key_options options = { .quant = NULL };
    int first = hth_option_table_parse(&table, "hearth kvc key", argc, argv, &options);

    if (first < 0)
        return HTH_EXIT_USAGE;
    if (options.help) {
        hth_manual_print(&hth_kvc_key_manual, true, stdout);
        return hth_output_end(HTH_EXIT_OK);
    }
    if (!options.quant || !options.fingerprint || !options.ctx_params_hash ||
        !hth_hex_decode(options.fingerprint, keyspace.fingerprint, sizeof(keyspace.fingerprint)) ||
        !hth_hex_decode(options.ctx_params_hash, keyspace.ctx_params_hash, sizeof(keyspace.ctx_params_hash)))
        return hth_kvc_usage_error("kvc key", "a key needs --fingerprint, --quant and --ctx-params-hash");
    keyspace.quant_byte = hth_quant_byte(options.quant);
    if (!hth_quant_name(keyspace.quant_byte))
        (void)fprintf(stderr, "hearth: quant type '%s' is not known; its key is that of every unknown type\n",
                      options.quant);
    return print_key(&keyspace, argc - first, argv + first);
}
