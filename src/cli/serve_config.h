/*
 * serve_config.h - flags and configuration file together: the set of options that the server is given
 */
#ifndef HTH_CLI_SERVE_CONFIG_H
#define HTH_CLI_SERVE_CONFIG_H

#include "cli/pool.h"
#include "cli/problems.h"
#include "cli/serve_options.h"

typedef struct hth_serve_set {
    hth_server_options options;    /* first, so that who has it back has the set */
    hth_serve_options effective;   /* what it came of */
    const hth_serve_model *models; /* [options.n_models], in their order */
    hth_pool *pool;                /* all of the above lives there, and the set itself */
} hth_serve_set;

/*
 * Read the command line and the configuration file that it names into a new set. flags is what the command line gave when
 * it was parsed the first time, without a fault. All that is wrong is in problems; a set comes also then, for what can
 * still be looked at, unless there was no memory. Free it with hth_serve_set_free.
 */
hth_serve_set *hth_serve_set_new(int argc, char **argv, const hth_serve_options *flags, hth_problems *problems);
/* The same from a configuration in memory, without flags and without reading the keys that it names; name is for messages. */
hth_serve_set *hth_serve_set_of_text(const char *name, const char *text, size_t n, hth_problems *problems);
/* The set that holds these options. Accepts NULL. */
void hth_serve_set_free(const hth_server_options *options);

/*
 * Look at what a set names: are models there and models, can keys, templates and certificates be read, and directories be
 * written? thorough: also what is found out by the parts themselves when the server starts.
 */
void hth_serve_set_check(const hth_serve_set *set, bool thorough, hth_problems *problems);

/* The set as a configuration file. False when out fails. */
bool hth_serve_config_print(const hth_serve_set *set, FILE *out);
/* All keys as a table in Markdown. */
void hth_serve_keys_print(FILE *out);

#endif
