/*
 * runtime_folder_test.c - servers' folders of sockets: made, kept, and removed once their owners are dead
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/runtime_folder.h"
#include "support/child.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { NAME_MAX_BYTES = 28 };

static hth_runtime_folder make(const char *parent)
{
    hth_runtime_folder folder = { .lock_fd = -1 };
    hearth_error err;

    assert_ok(hth_runtime_folder_make(parent, NAME_MAX_BYTES, NULL, &folder, &err), err);
    return folder;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static const char *below(const char *folder, const char *name)
{
    static char path[1024];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0 && strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* With two workers' sockets. */
static void furnish(const char *folder)
{
    assert_int_equal(mkdir(below(folder, "0-1"), 0700), 0);
    make_socket(below(folder, "0-1/s"));
    assert_int_equal(mkdir(below(folder, "11-123"), 0700), 0);
    make_socket(below(folder, "11-123/s"));
}

/* As its death does: the lock goes. */
static void die(hth_runtime_folder *folder)
{
    close(folder->lock_fd);
}

static size_t count(const char *parent)
{
    DIR *entries = opendir(parent);
    struct dirent *entry;
    size_t n = 0;

    assert_non_null(entries);
    while ((entry = readdir(entries)))
        n += entry->d_name[0] != '.';
    closedir(entries);
    return n;
}

DIRECTORY_TEST(a_folder_is_private_and_goes_with_its_server)
{
    hth_runtime_folder folder = make(directory);
    struct stat st;

    assert_int_equal(stat(folder.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(folder.lock_fd >= 0);
    hth_runtime_folder_remove(&folder);
    assert_int_equal(count(directory), 0);
    hth_runtime_folder_remove(&folder); /* it is none by now */
}

DIRECTORY_TEST(what_a_dead_server_left_goes_with_the_next_start)
{
    hth_runtime_folder dead = make(directory), living = make(directory), next;
    char path[HTH_RUNTIME_FOLDER_BYTES];

    furnish(dead.path);
    furnish(living.path);
    next = make(directory); /* both live */
    assert_int_equal(count(directory), 3);
    hth_runtime_folder_remove(&next);
    memcpy(path, dead.path, sizeof(path));
    die(&dead);
    next = make(directory);
    assert_false(exists(path));
    assert_int_equal(count(directory), 2);
    assert_true(exists(below(living.path, "0-1/s")) && exists(below(living.path, "11-123/s")));
    die(&living);
    hth_runtime_folder_remove(&next);
    next = make(directory);
    assert_int_equal(count(directory), 1);
    hth_runtime_folder_remove(&next);
}

/* A process that is killed, with whatever number: nobody asks for that. */
DIRECTORY_TEST(a_kill_lets_go_of_the_lock)
{
    hth_runtime_folder next;
    int ends[2], wait_status;
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        hth_runtime_folder folder = make(directory);

        furnish(folder.path);
        require(write(ends[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    next = make(directory);
    assert_int_equal(count(directory), 2);
    hth_runtime_folder_remove(&next);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    next = make(directory);
    assert_int_equal(count(directory), 1);
    hth_runtime_folder_remove(&next);
    close(ends[0]);
    close(ends[1]);
}

DIRECTORY_TEST(what_is_not_a_servers_stays)
{
    hth_runtime_folder dead = make(directory), next;
    char elsewhere[512], link[512], unknown[512], other[512];

    /* Things in a dead server's folder that no server makes. */
    furnish(dead.path);
    make_file(below(dead.path, "notes"));
    make_file(below(dead.path, "0-1/core"));
    die(&dead);
    /* A folder that nobody has locked: an older server's, which may live. */
    (void)snprintf(unknown, sizeof(unknown), "%s/hearth-abcdef", directory);
    assert_int_equal(mkdir(unknown, 0700), 0);
    furnish(unknown);
    /* A way to somewhere else. */
    (void)snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", directory);
    (void)snprintf(link, sizeof(link), "%s/hearth-linked", directory);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    furnish(elsewhere);
    make_file(below(elsewhere, "lock"));
    assert_int_equal(symlink(elsewhere, link), 0);
    /* Another name. */
    (void)snprintf(other, sizeof(other), "%s/tmp.hearth-x", directory);
    assert_int_equal(mkdir(other, 0700), 0);
    make_file(below(other, "lock"));

    next = make(directory);
    assert_true(exists(below(dead.path, "notes")));
    assert_true(exists(below(dead.path, "0-1/core")));
    assert_false(exists(below(dead.path, "0-1/s")));
    assert_false(exists(below(dead.path, "11-123")));
    assert_true(exists(below(unknown, "0-1/s")));
    assert_true(exists(below(elsewhere, "0-1/s")) && exists(below(elsewhere, "lock")) && exists(link));
    assert_true(exists(below(other, "lock")));
    hth_runtime_folder_remove(&next);
    /* Once its owner has taken the things away, so is the rest. */
    assert_int_equal(unlink(below(dead.path, "notes")), 0);
    assert_int_equal(unlink(below(dead.path, "0-1/core")), 0);
    next = make(directory);
    assert_false(exists(dead.path));
    hth_runtime_folder_remove(&next);
}

/* Many start and are killed at once: each that starts has a folder that is there, and in the end none is left. */
static void start_and_die_often(const char *parent)
{
    for (int i = 0; i < 40; i++) {
        hth_runtime_folder folder = { .lock_fd = -1 };
        struct stat by_path, by_fd;

        require(hth_runtime_folder_make(parent, NAME_MAX_BYTES, NULL, &folder, NULL) == HEARTH_OK);
        require(folder.lock_fd >= 0);
        require(mkdir(below(folder.path, "0-1"), 0700) == 0);
        require(stat(below(folder.path, "lock"), &by_path) == 0 && fstat(folder.lock_fd, &by_fd) == 0);
        require(by_path.st_ino == by_fd.st_ino);
        if (i % 3 == 0) {
            require(rmdir(below(folder.path, "0-1")) == 0);
            hth_runtime_folder_remove(&folder);
            require(!exists(folder.path) || folder.path[0] == '\0');
        } else {
            close(folder.lock_fd);
        }
    }
    _exit(0);
}

DIRECTORY_TEST(those_that_start_at_once_do_not_take_each_others)
{
    enum { N = 6 };
    hth_runtime_folder last;
    pid_t pids[N];

    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            start_and_die_often(directory);
    }
    for (int i = 0; i < N; i++) {
        int wait_status;

        assert_int_equal(waitpid(pids[i], &wait_status, 0), pids[i]);
        assert_int_equal(wait_status, 0);
    }
    last = make(directory);
    assert_int_equal(count(directory), 1);
    hth_runtime_folder_remove(&last);
}
