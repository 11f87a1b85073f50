/*
 * llama_flags.h - llama-server's flags on the command line of `hearth serve`, and in its environment
 *
 * Each flag of llama-server that Hearth does not have is of one of three kinds: it has another name here; it has no
 * effect, and causes a warning; or it is refused with a reason. docs/flags.md has the table. Hearth's own flags, and
 * values of options, are never taken for llama-server's flags.
 */
#ifndef HTH_OPTIONS_LLAMA_FLAGS_H
#define HTH_OPTIONS_LLAMA_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "console/problems.h"
#include "options/option_table.h"
#include "options/pool.h"

enum { HTH_LLAMA_NAME_BYTES = 64, HTH_LLAMA_CHOICE_OPTIONS = 2 };

typedef enum hth_llama_takes {
    HTH_LLAMA_NOTHING,
    HTH_LLAMA_VALUE,
    HTH_LLAMA_PERHAPS, /* on, off, auto */
    HTH_LLAMA_TWO,     /* two values that are one word in Hearth's option; also accepted as one */
} hth_llama_takes;

typedef enum hth_llama_kind {
    HTH_LLAMA_RENAMED,
    HTH_LLAMA_TEMPLATE_VALUE, /* a member of --chat-template-kwargs */
    HTH_LLAMA_CHOICE,         /* its value chooses options of Hearth */
    HTH_LLAMA_WITHOUT_EFFECT,
    HTH_LLAMA_REFUSED,
} hth_llama_kind;

/* Translates a value. NULL: it is Hearth's default, and needs no option. */
typedef const char *(*hth_llama_map_fn)(hth_pool *pool, const char *value);

typedef struct hth_llama_choice {
    const char *value; /* NULL ends the list */
    const char *options[HTH_LLAMA_CHOICE_OPTIONS];
} hth_llama_choice;

typedef struct hth_llama_flag {
    const char *names; /* separated by spaces */
    hth_llama_takes takes;
    hth_llama_kind kind;
    const char *to;       /* Hearth's option, or the member; other kinds: the reason; CHOICE: that for other values */
    hth_llama_map_fn map; /* NULL: the value stays the same */
    const hth_llama_choice *choices;
    bool is_list; /* comma-separated values, each of which becomes an option */
    char join;    /* TWO: separates the values in Hearth's option */
} hth_llama_flag;

extern const hth_llama_flag hth_llama_flags[];
extern const size_t hth_llama_n_flags;

/* An environment variable of llama-server. */
typedef struct hth_llama_variable {
    char name[HTH_LLAMA_NAME_BYTES];
    char flag[HTH_LLAMA_NAME_BYTES];     /* of llama-server, or Hearth's if both have it */
    char flag_off[HTH_LLAMA_NAME_BYTES]; /* for a false value; "": none is needed */
} hth_llama_variable;

#define HTH_LLAMA_VARIABLE_PREFIX "LLAMA_ARG_"

/* Variable i; false: there are fewer. */
bool hth_llama_variable_at(size_t i, hth_llama_variable *out);

/* Hearth's word for one of llama-server's words for on, off and auto; NULL: another word. */
const char *hth_llama_switch(const char *word);

/* Returns the value of a variable; NULL: not set. It is getenv, except in tests. */
typedef char *(*hth_environment_fn)(const char *name);

/*
 * Translate a command line to the options of `own`: *argv_out has *argc_out words and then NULL. The list belongs to
 * pool; its words belong to pool, argv and the environment. A flag without effect is a warning, a refused flag an
 * error, and a refused variable a warning. Variables that the command line overrides are omitted; environment NULL:
 * none. False without memory; problems has that error, too.
 */
bool hth_llama_flags_translate(hth_pool *pool, const hth_option_table *own, int argc, char **argv,
                               hth_environment_fn environment, int *argc_out, char ***argv_out, hth_problems *problems);

/* Name i of the flags of llama-server, "--ctx-size"; false: there are fewer. For the test of docs/flags.md. */
bool hth_llama_flag_name(size_t i, char out[HTH_LLAMA_NAME_BYTES]);

#endif
