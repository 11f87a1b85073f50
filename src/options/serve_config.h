/*
 * serve_config.h - makes one set of server options from the flags and the configuration file
 */
#ifndef HTH_OPTIONS_SERVE_CONFIG_H
#define HTH_OPTIONS_SERVE_CONFIG_H

#include "console/problems.h"
#include "front/front.h"
#include "options/config_reader.h"
#include "options/pool.h"
#include "options/serve_options.h"

typedef struct hth_serve_set hth_serve_set;
struct hth_serve_set {
    hth_server_options options;    /* first, so that a pointer to it is a pointer to the set */
    hth_serve_options effective;   /* the options that it was made from */
    const hth_serve_model *models; /* [options.n_models], in the same order */
    size_t n_read;                 /* number of the first models, without those that operators added */
    const hth_named_model *named;  /* [n_named], including those that are left out */
    size_t n_named;
    bool serves_downloads; /* no models are configured, so it serves downloaded ones */
    hth_config_presets presets;
    const hth_serve_set *base; /* owns what the set took over; NULL: nothing */
    unsigned *n_users;         /* the number of sets with this base, plus one for the set itself */
    hth_pool *pool;            /* owns all of the above and the set itself */
};

/*
 * Read the command line and the configuration file that it names into a new set. flags are the options of the first,
 * error-free reading of the command line. problems receives all errors; even with errors, the set is complete enough to
 * check files. NULL without memory. Free the set with hth_serve_set_free.
 */
hth_serve_set *hth_serve_set_new(int argc, char **argv, const hth_serve_options *flags, hth_problems *problems);
/* Likewise from a configuration in memory, without flags and without reading key files; name is for messages. */
hth_serve_set *hth_serve_set_of_text(const char *name, const char *text, size_t n, hth_problems *problems);
/*
 * Make a set from the options in force with one more model, or without a model that was added so. No configuration file
 * is read again, and only the new model's file is checked. settings: a JSON object with keys of a model's section.
 * NULL, or a set with errors in problems, as above.
 */
hth_serve_set *hth_serve_set_with(const hth_serve_set *current, const char *name, const char *settings,
                                  hth_problems *problems);
hth_serve_set *hth_serve_set_without(const hth_serve_set *current, const char *name, hth_problems *problems);
/* Was a model of this name added at run time? */
bool hth_serve_set_names(const hth_serve_set *set, const char *name);
/*
 * Read pressure settings, a JSON object with keys of their section, into *settings. HEARTH_MISUSE: one is invalid, and
 * *settings is unchanged.
 */
hearth_status hth_serve_pressure_read(const char *text, hth_pressure_settings *settings, hearth_error *err);
/*
 * The path, or the name of a hub's model, in a model given as "FILE" or "NAME=FILE". If the whole text is an existing
 * path, it is a file, even with '=' in it. Points into given.
 */
const char *hth_serve_given_path(const char *given);
/* Free the set of these options. Accepts NULL. */
void hth_serve_set_free(const hth_server_options *options);

/*
 * Check the files of a set: models must be readable GGUF files, keys, templates and certificates must be readable, and
 * directories writable. thorough: also check what the parts of the server check when it starts.
 */
void hth_serve_set_check(const hth_serve_set *set, bool thorough, hth_problems *problems);

/* Likewise for the files of one model, not thoroughly. */
void hth_serve_check_model(const hth_serve_model *model, hth_problems *problems);

/* For the front. Options whose form there differs from the configuration file are empty: listen, admin and keys. */
extern const hth_options_json hth_serve_json;

/* Print the set as a configuration file. False if writing to out fails. */
bool hth_serve_config_print(const hth_serve_set *set, FILE *out);
/* Print all keys as a table in Markdown. */
void hth_serve_keys_print(FILE *out);

/* A key of the configuration file. */
typedef struct hth_serve_key {
    const char *section; /* "" or "limits." */
    /* kind HTH_OPTION_TABLE: a section within a model's, with the keys of the section of this name */
    const hth_option *option;
    const char *value; /* its default; NULL: none */
} hth_serve_key;

typedef void (*hth_serve_key_fn)(const hth_serve_key *key, void *user_data);
/* False without memory. */
bool hth_serve_keys_visit(hth_serve_key_fn visit, void *user_data);

#endif
