/*
 * spawn.h - start a program that ends when its parent does
 *
 * The new process leads a group of its own, so that a signal from the terminal is not its own and whatever it starts can
 * be killed with it. It is killed by the system when the thread that called hth_spawn ends, where the system can do
 * that: call it on the thread that lives as long as the process. It has standard descriptors, those that it is to have,
 * and no others; default signals; and an environment of names that are known to be of use and no secrets.
 */
#ifndef HTH_SERVER_SPAWN_H
#define HTH_SERVER_SPAWN_H

#include "hearth.h"

enum { HTH_SPAWN_KEEP_MAX = 8 };

typedef struct hth_spawn_options {
    const char *program;      /* as for execv */
    const char *const *argv;  /* ending with NULL */
    char *const *environment; /* ending with NULL */
    int output;               /* becomes its standard output and error; standard input is empty */
    const int *keep;          /* [n_keep] descriptors that it has under the same numbers */
    size_t n_keep;            /* at most HTH_SPAWN_KEEP_MAX */
    int trouble;              /* one of keep: where the program cannot be executed, "exec ERRNO\n" is written there */
} hth_spawn_options;

/*
 * Fork, and execute in the child. Returns at once: whether the program could be executed is told on trouble, and the exit
 * status is 127 where it could not. All descriptors must be above 2; HEARTH_MISUSE.
 */
hearth_status hth_spawn(const hth_spawn_options *options, int *pid_out, hearth_error *err);

/*
 * Those of our environment's variables that a worker may have, and one more (NULL: none), as a new array that ends with
 * NULL, to be released by one free; the strings are the environment's and the caller's. NULL without memory.
 */
char **hth_spawn_environment(const char *one_more);

#endif
