/*
 * spawn.h - start a program that ends when its parent does
 *
 * The new process leads its own process group. So signals of the terminal do not reach it, and its children can be
 * killed with it. Where the system supports that, it kills the process when the thread that called hth_spawn ends: call
 * it on a thread that lives as long as this process. The new process has the standard descriptors, the kept ones and no
 * others. Signals have their default actions. The environment has useful variables without secrets.
 */
#ifndef HTH_SUPERVISOR_SPAWN_H
#define HTH_SUPERVISOR_SPAWN_H

#include "hearth.h"

enum { HTH_SPAWN_KEEP_MAX = 8 };

typedef struct hth_spawn_options {
    const char *program;      /* as for execv */
    const char *const *argv;  /* ending with NULL */
    char *const *environment; /* ending with NULL */
    int output;               /* becomes its standard output and error; standard input is empty */
    const int *keep;          /* [n_keep] descriptors that it inherits under the same numbers */
    size_t n_keep;            /* at most HTH_SPAWN_KEEP_MAX */
    int trouble; /* one of keep: if the program cannot be executed, the child writes "exec ERRNO\n" there */
} hth_spawn_options;

/*
 * Fork, and execute the program in the child. Returns at once. When the program cannot be executed, the child writes to
 * trouble and exits with 127. HEARTH_MISUSE: a descriptor is not above 2.
 */
hearth_status hth_spawn(const hth_spawn_options *options, int *pid_out, hearth_error *err);

/*
 * The variables of this process' environment that a worker may have, and one_more (NULL: none), as an array that ends
 * with NULL. Release the array with free; the strings are borrowed. NULL without memory.
 */
char **hth_spawn_environment(const char *one_more);

#endif
