/*
 * output.c - see output.h
 */
#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"

int hth_output_end(int exit_code)
{
    struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };

    errno = 0; /* the reason of an earlier failure is lost */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    /* POLLERR: the reader of a pipe has left; so nobody misses the output. */
    if (errno != EPIPE && !(poll(&output, 1, 0) == 1 && (output.revents & POLLERR)))
        (void)fprintf(stderr, "hearth: cannot write to standard output%s%s\n", errno ? ": " : "",
                      errno ? strerror(errno) : "");
    return HTH_EXIT_FAILED;
}
