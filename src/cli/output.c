/*
 * output.c - see output.h
 */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

int hth_output_end(int exit_code)
{
    errno = EIO; /* of an earlier write, whose own error is lost */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    if (errno != EPIPE)
        (void)fprintf(stderr, "hearth: cannot write to standard output: %s\n", strerror(errno));
    return HTH_EXIT_FAILED;
}
