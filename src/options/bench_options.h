/*
 * bench_options.h - the command line of `hearth bench`
 */
#ifndef HTH_OPTIONS_BENCH_OPTIONS_H
#define HTH_OPTIONS_BENCH_OPTIONS_H

#include "options/model_options.h"

enum {
    HTH_BENCH_LIST_MAX = 16,
    HTH_BENCH_REPS_MAX = 1000,
    HTH_BENCH_DECODE_PROMPT = 64,
    HTH_BENCH_DECODE_TOKENS = 128
};

/* The beginning of the default page's name. For a server, the name also has the address. */
#define HTH_BENCH_PAGE_BEGIN "hearth-bench"
#define HTH_BENCH_PAGE_END ".html"
#define HTH_BENCH_PAGE HTH_BENCH_PAGE_BEGIN HTH_BENCH_PAGE_END

/* Numbers in ascending order. */
typedef struct hth_bench_list {
    uint32_t values[HTH_BENCH_LIST_MAX];
    size_t n;
} hth_bench_list;

typedef struct hth_bench_options {
    hth_model_setup setup; /* path: the model's file, unless there is a url */
    uint32_t n_ctx;        /* as given; 0: as the measurements need it */
    hth_bench_list lengths;
    hth_bench_list sequences;
    double seconds; /* planned for all measurements */
    uint32_t reps;  /* of each measurement, at most */
    uint32_t seed;
    const char *url;    /* NULL: a model is measured in this process */
    const char *model;  /* of the server; NULL: its first */
    const char *key;    /* NULL: use $HEARTH_API_KEY */
    double rate;        /* requests per second */
    const char *folder; /* parent folder of the rows on disk; NULL: the cache's */
    const char *shm;    /* parent folder of the rows on tmpfs */
    const char *json_file;
    const char *html_file; /* NULL: the default name, unless no_html or compares */
    bool no_html;
    bool compares;
    bool quiet;
    bool verbose;

    const char *arguments[2]; /* the model, or the files to compare */
} hth_bench_options;

/*
 * Read the command line. False: the help or a message was printed, and *exit_out is the exit code.
 */
bool hth_bench_options_parse(int argc, char **argv, hth_bench_options *out, int *exit_out);

#endif
