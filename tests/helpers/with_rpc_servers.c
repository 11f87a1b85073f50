/*
 * with_rpc_servers.c - run a program while servers of the engine's RPC back end listen on loopback
 *
 *   with_rpc_servers N SERVER PROGRAM [ARGUMENT...]
 *
 * Starts SERVER N times, each on a free port of 127.0.0.1 with one thread, waits until all of them take connections,
 * and runs PROGRAM with HTH_TEST_RPC="127.0.0.1:port,..." and HTH_TEST_RPC_PIDS="pid ..." in its environment. Then it
 * ends the servers, by their process ids, and exits as PROGRAM did. Should it be killed, the servers end with it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { SERVERS_MAX = 8, TRIES = 5, POLLS = 600, POLL_US = 50000 };

static pid_t pids[SERVERS_MAX];
static int n_servers;

static void end_servers(void)
{
    for (int i = 0; i < n_servers; i++) {
        (void)kill(pids[i], SIGKILL); /* it has no other way to end, and nothing to save */
        (void)waitpid(pids[i], NULL, 0);
    }
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "with_rpc_servers: %s: %s\n", what, strerror(errno));
    end_servers();
    exit(1);
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A port that nobody had a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t n = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n) != 0)
        fail("no free port");
    (void)close(fd);
    return ntohs(address.sin_port);
}

static int listens(int port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int ok = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    if (fd >= 0)
        (void)close(fd); /* the server goes back to waiting for its client */
    return ok;
}

static pid_t start(const char *server, int port)
{
    char text[16];
    pid_t pid = fork();

    if (pid < 0)
        fail("cannot fork");
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        hth_os_end_with_parent();
        (void)snprintf(text, sizeof(text), "%d", port);
        if (null >= 0)
            (void)dup2(null, 1); /* it tells of each client */
        execl(server, server, "-H", "127.0.0.1", "-p", text, "-t", "1", (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* The port of one more server. */
static int start_one(const char *server)
{
    for (int i = 0; i < TRIES; i++) {
        int port = free_port();
        pid_t pid = start(server, port);
        int status = 0;

        for (int k = 0; k < POLLS && waitpid(pid, &status, WNOHANG) == 0; k++) {
            /* Were it another's port, this one would have ended by the second look. */
            if (listens(port) && usleep(POLL_US) == 0 && waitpid(pid, &status, WNOHANG) == 0) {
                pids[n_servers++] = pid;
                return port;
            }
            (void)usleep(POLL_US);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
            break;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
    errno = 0;
    fail(server);
    return 0;
}

int main(int argc, char **argv)
{
    char servers[SERVERS_MAX * 24] = "", running[SERVERS_MAX * 12] = "";
    int status = 0;
    pid_t program;
    int n;

    if (argc < 4 || (n = atoi(argv[1])) < 1 || n > SERVERS_MAX) {
        (void)fprintf(stderr, "usage: with_rpc_servers N SERVER PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        size_t at = strlen(servers);

        (void)snprintf(servers + at, sizeof(servers) - at, "%s127.0.0.1:%d", i > 0 ? "," : "", start_one(argv[2]));
        at = strlen(running);
        (void)snprintf(running + at, sizeof(running) - at, "%s%d", i > 0 ? " " : "", (int)pids[i]);
    }
    if (setenv("HTH_TEST_RPC", servers, 1) != 0 || setenv("HTH_TEST_RPC_PIDS", running, 1) != 0)
        fail("cannot set the environment");
    program = fork();
    if (program < 0)
        fail("cannot fork");
    if (program == 0) {
        hth_os_end_with_parent();
        execv(argv[3], argv + 3);
        _exit(127);
    }
    while (waitpid(program, &status, 0) != program)
        if (errno != EINTR)
            fail("cannot wait");
    end_servers();
    if (WIFSIGNALED(status))
        (void)fprintf(stderr, "with_rpc_servers: %s ended by signal %d\n", argv[3], WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
