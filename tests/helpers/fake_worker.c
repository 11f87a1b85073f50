/*
 * fake_worker.c - a worker that does as it is told, for tests of the supervisor
 *
 * usage: fake_worker worker [--do WORD]... --socket PATH --status-fd N --control-fd N [--ram-fd N]
 *        fake_worker worker [--do WORD]... --measure --quiet --control-fd N
 *
 * Each WORD is done in order; then the event loop turns until SIGTERM, and takes new quotas of the RAM tier. A word is
 * a name, or a name and an argument behind '='. In the second form, words that begin with "needs" are done, and the
 * process ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/ram_directory.h"
#include "wire/status_page.h"

extern char **environ;

typedef struct fake {
    const char *socket_path;
    int control_fd;
    int ram_fd;
    hth_status_page *page;
    const char *last_words; /* to be said once it is asked to end; NULL: none */
    int argc;
    char **argv;
} fake;

static void pause_ms(int ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

    (void)nanosleep(&time, NULL);
}

static void say(const fake *f, const char *text)
{
    (void)dprintf(f->control_fd, "%s\n", text);
}

/* Leave an entry of so many bytes in the memory for rows; it stays locked by this process. */
static void fill_ram(const fake *f, uint64_t n_bytes)
{
    hth_ram_directory *directory;

    if (hth_ram_directory_open(f->ram_fd, &directory, NULL) != HEARTH_OK ||
        hth_os_file_allocate(f->ram_fd, HTH_RAM_DIRECTORY_BYTES, n_bytes) != 0 ||
        hth_ram_directory_put(directory, 0, n_bytes, 1) == HTH_RAM_DIRECTORY_NO_SLOT)
        exit(1);
}

static void become_ready(const fake *f)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 8) != 0) {
        perror("bind");
        exit(1);
    }
    hth_status_page_loop_turns(f->page);
    say(f, "ready");
}

static void crash(void)
{
    const struct rlimit no_core = { 0 };

    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would turn it into an exit */
    (void)raise(SIGSEGV);
}

/* Append a byte to a file; how many it has then. */
static long count(const char *path)
{
    FILE *file = fopen(path, "a");
    long n;

    if (!file)
        exit(1);
    (void)fputc('x', file);
    n = ftell(file);
    (void)fclose(file);
    return n;
}

/* How this process was started, a line each. */
static void report(const fake *f, const char *path)
{
    FILE *file = fopen(path, "w");
    DIR *folder;
    struct stat st;
    sigset_t blocked;
    char score[16] = "";
    int fd;

    if (!file)
        exit(1);
    for (int i = 0; i < f->argc; i++)
        (void)fprintf(file, "arg %s\n", f->argv[i]);
    for (char **variable = environ; *variable; variable++)
        (void)fprintf(file, "env %s\n", *variable);
    (void)fprintf(file, "leads its group: %d\n", getpgid(0) == getpid());
    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    (void)fprintf(file, "SIGTERM is blocked: %d\n", sigismember(&blocked, SIGTERM));
    fd = open("/proc/self/oom_score_adj", O_RDONLY);
    if (fd >= 0 && read(fd, score, sizeof(score) - 1) > 0)
        (void)fprintf(file, "oom_score_adj %s", score);
    if (fd >= 0)
        (void)close(fd);
    if (f->ram_fd >= 0 && fstat(f->ram_fd, &st) == 0)
        (void)fprintf(file, "ram %lld\n", (long long)st.st_size);
    folder = opendir("/proc/self/fd");
    for (const struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        fd = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && fd != dirfd(folder) && fd != fileno(file))
            (void)fprintf(file, "fd %d\n", fd);
    }
    if (folder)
        (void)closedir(folder);
    (void)fprintf(file, "end\n");
    (void)fclose(file);
}

static void report_suspects(const fake *f, const char *path)
{
    uint8_t keys[HTH_STATUS_SUSPECTS_MAX][32];
    FILE *file = fopen(path, "w");
    size_t n = hth_status_page_suspects(f->page, keys, HTH_STATUS_SUSPECTS_MAX);

    if (!file)
        exit(1);
    (void)fprintf(file, "%zu suspects, the first begins with %d\n", n, n > 0 ? keys[0][0] : -1);
    (void)fclose(file);
    hth_status_page_suspects_clear(f->page);
}

/* Hold the writing end of a named pipe, so that its reader sees the end when this process, too, is gone. */
static void hold(const char *path)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || write(fd, "x", 1) != 1)
        exit(1);
}

static void do_word(fake *f, const char *word)
{
    const char *argument = strchr(word, '=');
    size_t n = argument ? (size_t)(argument - word) : strlen(word);
    const uint8_t keys[1][32] = { { 77 } };

#define IS(name) (n == strlen(name) && strncmp(word, name, n) == 0)
    argument = argument ? argument + 1 : "";
    if (IS("say")) {
        say(f, argument);
    } else if (IS("ready")) {
        become_ready(f);
    } else if (IS("log")) {
        (void)fprintf(stderr, "%s\n", argument);
    } else if (n >= 5 && strncmp(word, "needs", 5) == 0) { /* only where they are asked for */
    } else if (IS("crash")) {
        crash();
    } else if (IS("crash-first")) { /* only when the file was not there */
        if (count(argument) == 1)
            crash();
    } else if (IS("exit")) {
        exit((int)strtol(argument, NULL, 10));
    } else if (IS("hang")) { /* nothing turns, and SIGTERM does not help */
        (void)signal(SIGTERM, SIG_IGN);
        for (;;)
            pause_ms(1000);
    } else if (IS("tick")) { /* an evaluation that does not end, while the event loop turns */
        hth_status_page_tick_begin(f->page);
    } else if (IS("say-on-term")) {
        f->last_words = argument;
    } else if (IS("ignore-term")) {
        (void)signal(SIGTERM, SIG_IGN);
    } else if (IS("spew")) {
        for (long i = strtol(argument, NULL, 10); i > 0; i--)
            (void)fprintf(stderr, "hearth: info: line %ld of many\n", i);
    } else if (IS("binary")) {
        (void)fwrite("\xff\xfe\x01\xc2\x9b not text \xc3\xa9\n", 1, 18, stderr);
        for (int i = 0; i < 5000; i++)
            (void)fputc('y', stderr);
        (void)fputc('\n', stderr);
    } else if (IS("hold")) {
        hold(argument);
    } else if (IS("grandchild")) { /* one that lives on, with the pipes of its parent */
        if (fork() == 0) {
            hold(argument);
            for (;;)
                pause_ms(1000);
        }
    } else if (IS("restoring")) {
        hth_status_page_restoring(f->page, keys, 1);
    } else if (IS("suspects")) {
        report_suspects(f, argument);
    } else if (IS("report")) {
        report(f, argument);
    } else if (IS("count")) {
        (void)count(argument);
    } else if (IS("fill-ram")) { /* with a row, as far as anybody outside can see */
        fill_ram(f, strtoull(argument, NULL, 10));
    } else if (IS("warm-ram")) { /* memory that no row uses */
        if (hth_os_file_allocate(f->ram_fd, 2 * HTH_RAM_DIRECTORY_BYTES, strtoull(argument, NULL, 10)) != 0)
            exit(1);
    } else {
        (void)fprintf(stderr, "error: unknown word '%s'\n", word);
        exit(2);
    }
#undef IS
}

/* The lines of a file, which a test may change. */
static void tell_lines(const fake *f, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];

    if (!file)
        exit(1);
    while (fgets(line, sizeof(line), file))
        (void)dprintf(f->control_fd, "needs %s", line);
    (void)fclose(file);
}

static void tell_needs(const fake *f, const char *word)
{
    if (strncmp(word, "needs=", 6) == 0)
        (void)dprintf(f->control_fd, "needs %s\n", word + 6);
    else if (strncmp(word, "needs-file=", 11) == 0)
        tell_lines(f, word + 11);
    else if (strncmp(word, "needs-report=", 13) == 0)
        report(f, word + 13);
    else if (strncmp(word, "needs-count=", 12) == 0)
        (void)count(word + 12);
    else if (strncmp(word, "needs-crash=", 12) == 0 && count(word + 12) < 3)
        crash();
    else if (strcmp(word, "needs-hang") == 0)
        for (;;)
            pause_ms(1000);
}

/* "ram QUOTA": it is in force, and no row is left. */
static void carry_out(const fake *f)
{
    char line[64];
    const ssize_t n = recv(f->control_fd, line, sizeof(line) - 1, MSG_DONTWAIT);

    line[n > 0 ? n : 0] = '\0';
    if (strncmp(line, "ram ", 4) == 0)
        (void)dprintf(f->control_fd, "ram %lu 0 0\n", strtoul(line + 4, NULL, 10));
}

static volatile sig_atomic_t is_asked_to_end;

static void on_term(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

int main(int argc, char **argv)
{
    fake f = { .control_fd = -1, .ram_fd = -1, .argc = argc, .argv = argv };
    bool measures = false;
    hearth_error err;

    if (argc < 2 || strcmp(argv[1], "worker") != 0)
        return 2;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--socket") == 0)
            f.socket_path = argv[i + 1];
        else if (strcmp(argv[i], "--control-fd") == 0)
            f.control_fd = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--measure") == 0)
            measures = true;
        else if (strcmp(argv[i], "--ram-fd") == 0)
            f.ram_fd = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--status-fd") == 0 &&
                 hth_status_page_open((int)strtol(argv[i + 1], NULL, 10), &f.page, &err) != HEARTH_OK)
            return 3;
    }
    for (int i = 2; measures && i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--do") == 0)
            tell_needs(&f, argv[i + 1]);
    if (measures)
        return 0;
    if (!f.socket_path || f.control_fd < 0 || !f.page)
        return 2;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTERM, on_term);
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--do") == 0)
            do_word(&f, argv[i + 1]);
    }
    while (!is_asked_to_end) {
        hth_status_page_loop_turns(f.page);
        carry_out(&f);
        pause_ms(20);
    }
    if (f.last_words)
        say(&f, f.last_words);
    (void)unlink(f.socket_path);
    return 0;
}
