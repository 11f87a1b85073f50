/*
 * spawn.c - start a program that ends when its parent does
 *
 * Between fork and exec the child makes system calls only, because another thread of the parent may have held any lock.
 * All signals are blocked across the fork. Otherwise a handler of the parent could run in the child and write to the
 * parent's pipes.
 */
#include "supervisor/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"

extern char **environ;

/* ---- environment ---- */

/* A name that ends with '*' stands for all names with that prefix. */
static const char *const allowed[] = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "HEARTH_CACHE",
    "HEARTH_ENGINE_DIRECTORY",
    "HEARTH_ATTENTION",
    /* read by the engine, its threads and devices */
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "GGML_*",
    "LLAMA_ATTN_*",
    "CUDA_*",
    "NVIDIA_*",
    "HIP_*",
    "HSA_*",
    "ROCR_*",
    "VK_*",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "MALLOC_*",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
    "LSAN_OPTIONS",
};

static bool is_allowed(const char *variable)
{
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        size_t n = strlen(allowed[i]);

        if (allowed[i][n - 1] == '*' ? strncmp(variable, allowed[i], n - 1) == 0
                                     : strncmp(variable, allowed[i], n) == 0 && variable[n] == '=')
            return true;
    }
    return false;
}

/* Whole families of names are allowed, but one of them may be a secret of the front, like NVIDIA_API_KEY. */
static bool is_secret(const char *variable)
{
    static const char *const words[] = { "KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL" };
    const size_t n = strcspn(variable, "=");

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = strstr(variable, words[i]);

        if (at && (size_t)(at - variable) < n)
            return true;
    }
    return false;
}

char **hth_spawn_environment(const char *one_more)
{
    size_t n = 0;
    char **all = environ, **some;

    while (all && all[n])
        n++;
    some = calloc(n + 2, sizeof(*some));
    if (!some)
        return NULL;
    n = 0;
    for (; all && *all; all++) {
        if (is_allowed(*all) && !is_secret(*all))
            some[n++] = *all;
    }
    some[n] = (char *)one_more; /* it is never written to */
    return some;
}

/* ---- the child ---- */

static void signals_to_default(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &action, NULL); /* fails for a few signals that cannot be handled anyway */
}

/* keep is ascending. */
static void close_all_but(const int *keep, size_t n_keep)
{
    unsigned from = 3;

    for (size_t i = 0; i < n_keep; i++) {
        if ((unsigned)keep[i] > from)
            hth_os_close_range(from, (unsigned)keep[i] - 1);
        from = (unsigned)keep[i] + 1;
    }
    hth_os_close_range(from, UINT_MAX);
}

/* Digits only, because printf is not available here. */
static void tell_trouble(int fd, int errnum)
{
    char text[32] = "exec ";
    char digits[12];
    size_t n = 5, n_digits = 0;

    do {
        digits[n_digits++] = (char)('0' + errnum % 10);
        errnum /= 10;
    } while (errnum > 0 && n_digits < sizeof(digits));
    while (n_digits > 0)
        text[n++] = digits[--n_digits];
    text[n++] = '\n';
    if (write(fd, text, n) < 0)
        return; /* then the exit status alone reports it */
}

_Noreturn static void child(const hth_spawn_options *options, const int *keep, pid_t parent)
{
    sigset_t none;
    int nothing;

    signals_to_default();
    (void)setpgid(0, 0); /* the parent does this, too; either may be first */
    hth_os_end_with_parent();
    if (getppid() != parent)
        _exit(127); /* the parent ended before this process could watch it */
    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(options->output, STDOUT_FILENO) < 0 ||
        dup2(options->output, STDERR_FILENO) < 0)
        goto failed;
    for (size_t i = 0; i < options->n_keep; i++) {
        if (fcntl(keep[i], F_SETFD, 0) != 0)
            goto failed;
    }
    close_all_but(keep, options->n_keep);
    hth_os_first_to_go();
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* with these arguments it cannot fail */
    (void)execve(options->program, (char *const *)options->argv, options->environment);
failed:
    tell_trouble(options->trouble, errno);
    _exit(127);
}

/* ---- the parent ---- */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

hearth_status hth_spawn(const hth_spawn_options *options, int *pid_out, hearth_error *err)
{
    int keep[HTH_SPAWN_KEEP_MAX];
    sigset_t all, before;
    pid_t parent = getpid(), pid;
    int why;

    if (options->n_keep > HTH_SPAWN_KEEP_MAX || options->output <= STDERR_FILENO)
        return hth_fail(err, HEARTH_MISUSE, "cannot start '%s': standard descriptors are closed", options->program);
    memcpy(keep, options->keep, options->n_keep * sizeof(keep[0]));
    qsort(keep, options->n_keep, sizeof(keep[0]), by_number);
    if (options->n_keep > 0 && keep[0] <= STDERR_FILENO)
        return hth_fail(err, HEARTH_MISUSE, "cannot start '%s': standard descriptors are closed", options->program);

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* cannot fail with these arguments, and below */
    pid = fork();
    if (pid == 0)
        child(options, keep, parent);
    why = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return hth_fail_errno(err, why, "cannot start a process for '%s'", options->program);
    (void)setpgid(pid, pid); /* fails once the child has called exec; then the child has done this itself */
    *pid_out = pid;
    return HEARTH_OK;
}
