/*
 * main.c - the program `hearth`: finds the command and runs it
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_list.h"
#include "console/output.h"

/*
 * The engine's threads meet at a barrier after every operation, about a thousand times per token, and by default spin
 * there for up to about a millisecond. On an idle machine this is fastest. But when other programs use the CPUs, each
 * barrier waits for a thread that the spinning keeps off its CPU, and generation was measured to be 60 times slower. A
 * short spin before sleeping costs little on an idle machine and avoids this (docs/performance.md). The engine reads
 * the variable when it is loaded.
 */
static void spin_briefly(void)
{
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT"))
        (void)setenv("GOMP_SPINCOUNT", "3000", 0); /* if out of memory, the default stays */
}

int main(int argc, char **argv)
{
    const hth_command *command;
    int exit_code;

    spin_briefly(); /* before any thread starts */

    /* If the reader of a pipe is gone, the write fails and is reported, instead of ending the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* The same for a write beyond the file size limit (ulimit -f): it fails with EFBIG. Workers inherit both. */
    (void)signal(SIGXFSZ, SIG_IGN);

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        hth_overview_print(stdout);
        return hth_output_end(HTH_EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = "version";
    command = hth_command_find(argv[1]);
    exit_code = command ? command->run(argc - 1, argv + 1) : HTH_EXIT_USAGE;
    return exit_code == HTH_EXIT_OK ? hth_output_end(exit_code) : exit_code; /* for commands that did not check */
}
