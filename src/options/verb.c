/*
 * verb.c - see verb.h
 */
#include "options/verb.h"

#include <string.h>

#include "console/nearest.h"
#include "options/commands.h"

static bool is_named(const hth_manual *verb, const char *name)
{
    return strcmp(name, verb->name) == 0 || (verb->alias && strcmp(name, verb->alias) == 0);
}

const hth_manual *hth_verb_find(const hth_manual *command, const char *name)
{
    hth_nearest nearest;

    hth_nearest_init(&nearest, name);
    for (size_t i = 0; command->verbs && command->verbs[i]; i++) {
        if (is_named(command->verbs[i], nearest.wanted))
            return command->verbs[i];
        hth_nearest_try(&nearest, command->verbs[i]->name);
    }
    if (nearest.name)
        (void)fprintf(stderr, "hearth: '%s' has no verb '%s'; did you mean '%s'?\n", command->name, name, nearest.name);
    else
        (void)fprintf(stderr, "hearth: '%s' has no verb '%s'; see 'hearth help %s'\n", command->name, name,
                      command->name);
    return NULL;
}

const hth_manual *hth_verb_read(const hth_manual *command, int argc, char **argv, int *exit_out)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        hth_manual_print(command, true, stdout);
        *exit_out = HTH_EXIT_OK;
        return NULL;
    }
    *exit_out = HTH_EXIT_USAGE;
    return hth_verb_find(command, name);
}
