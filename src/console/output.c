#include "console/output.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/controls.h"
#include "base/status.h"
#include "console/wrap.h"

enum { LINE_BYTES = 4096 };

bool hth_output_text(const char *text, size_t n_bytes)
{
    if (isatty(STDOUT_FILENO))
        return hth_controls_leave_out(text, n_bytes, stdout);
    return n_bytes == 0 || fwrite(text, 1, n_bytes, stdout) == n_bytes;
}

/* Write the output of a wrap, and free it. */
static bool put_wrapped(hth_buffer *text)
{
    const bool written = !text->failed && hth_output_text(hth_buffer_text(text), text->n);

    hth_buffer_deinit(text);
    return written;
}

bool hth_output_reply(hth_word_wrap *wrap, const char *text, size_t n_bytes)
{
    hth_buffer wrapped = { .text = NULL };

    if (!isatty(STDOUT_FILENO))
        return hth_output_text(text, n_bytes);
    hth_word_wrap_add(wrap, text, n_bytes, wrap->is_off ? 0 : hth_terminal_columns(stdout), &wrapped);
    return put_wrapped(&wrapped);
}

bool hth_output_reply_flush(hth_word_wrap *wrap)
{
    hth_buffer rest = { .text = NULL };

    hth_word_wrap_flush(wrap, &rest);
    return put_wrapped(&rest);
}

void hth_output_line(FILE *out, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* cut */
    va_end(arguments);
    hth_end_at_character(text, sizeof(text));
    hth_controls_blank(text);
    (void)fprintf(out, "%s\n", text);
}

int hth_output_end(int exit_code)
{
    struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };

    errno = 0; /* the cause of an earlier failure is lost */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    /* POLLERR: the reader of a pipe has left, so lost output is no error. */
    if (errno != EPIPE && !(poll(&output, 1, 0) == 1 && (output.revents & POLLERR)))
        (void)fprintf(stderr, "hearth: cannot write to standard output%s%s\n", errno ? ": " : "",
                      errno ? strerror(errno) : "");
    return HTH_EXIT_FAILED;
}

int hth_say(const char *message, int returned)
{
    (void)fprintf(stderr, "hearth: %s\n", message); /* there is no other place to report it */
    return returned;
}

int hth_sayf(int returned, const char *format, ...)
{
    va_list arguments;

    (void)fputs("hearth: ", stderr); /* as above */
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    return returned;
}

void hth_say_error(const hearth_error *err)
{
    if (*err->message)
        (void)hth_say(err->message, 0);
}
