/*
 * llama_flags.h - llama-server's flags on the command line of `hearth serve`
 *
 * A command line of llama-server mostly means the same here under another name. Each of its flags that people use is one of
 * three kinds: it has another name here, or no effect, which is warned of, or something stands against it, which is said.
 * docs/api.md has the table. Flags of our own are never taken for one of its flags, nor are values of options.
 */
#ifndef HTH_CLI_LLAMA_FLAGS_H
#define HTH_CLI_LLAMA_FLAGS_H

#include "cli/option_table.h"
#include "cli/pool.h"
#include "cli/problems.h"

/*
 * The command line as `own` has its options: *argv_out, of *argc_out words and NULL, belongs to pool, words also to argv.
 * What has no effect is a warning, what cannot be had an error. False without memory, which is said in problems, too.
 */
bool hth_llama_flags_translate(hth_pool *pool, const hth_option_table *own, int argc, char **argv, int *argc_out,
                               char ***argv_out, hth_problems *problems);

/* Name i of those that are known, "--ctx-size"; NULL: there are not so many. For the test of the document. */
const char *hth_llama_flag_name(size_t i);

#endif
