/*
 * llama_flags.h - llama-server's flags on the command line of `hearth serve`, and in its environment
 *
 * Each flag of llama-server that Hearth does not have is of one of three kinds: it has another name here; it has no
 * effect, and causes a warning; or it is refused with a reason. docs/flags.md has the table. Hearth's own flags, and
 * values of options, are never taken for llama-server's flags.
 */
#ifndef HTH_OPTIONS_LLAMA_FLAGS_H
#define HTH_OPTIONS_LLAMA_FLAGS_H

#include "console/problems.h"
#include "options/llama_flag_table.h"
#include "options/option_table.h"
#include "options/pool.h"

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
