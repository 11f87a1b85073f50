/*
 * cache_verbs.h - the verbs of `hearth cache`, one function each; the result is the exit code
 */
#ifndef HTH_CLI_CACHE_VERBS_H
#define HTH_CLI_CACHE_VERBS_H

#include "cli/cache_options.h"

int hth_cache_show(const hth_cache_command_options *options);     /* stat, ls */
int hth_cache_care(const hth_cache_command_options *options);     /* verify, gc, rm, repair */
int hth_cache_transfer(const hth_cache_command_options *options); /* export, import */
/*
 * why: argv[0] is the verb; the options of `hearth run` follow. 0: the whole prompt is known, 1: only part of it, 2:
 * failed.
 */
int hth_cache_why(int argc, char **argv);

#endif
