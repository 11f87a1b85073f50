/*
 * verb.h - finds the verb of a command, such as `ls` of `hearth cache`
 */
#ifndef HTH_OPTIONS_VERB_H
#define HTH_OPTIONS_VERB_H

#include "options/manual.h"

/* NULL, with a message: the command has no such verb. */
const hth_manual *hth_verb_find(const hth_manual *command, const char *name);
/*
 * The verb in argv[1]. NULL: the help (for --help or no verb) or a message was printed, and *exit_out is the exit code.
 */
const hth_manual *hth_verb_read(const hth_manual *command, int argc, char **argv, int *exit_out);

#endif
