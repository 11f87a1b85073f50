/*
 * cache_command.c - `hearth cache`: reads the command line and runs a verb
 */
#include "cli/cache_verbs.h"
#include "options/commands.h"
#include "options/verb.h"

int hth_command_cache(int argc, char **argv)
{
    hth_cache_command_options options;
    int result;
    const hth_manual *verb = hth_verb_read(&hth_cache_manual, argc, argv, &result);

    if (!verb)
        return result;
    if (verb == &hth_cache_why_manual)
        return hth_cache_why(argc - 1, argv + 1);
    if (!hth_cache_options_parse(verb, argc - 1, argv + 1, &options, &result))
        return result;
    switch (options.verb) {
    case HTH_CACHE_STAT:
    case HTH_CACHE_LS: return hth_cache_show(&options);
    case HTH_CACHE_EXPORT:
    case HTH_CACHE_IMPORT: return hth_cache_transfer(&options);
    default: return hth_cache_care(&options);
    }
}
