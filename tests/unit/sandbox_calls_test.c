/*
 * sandbox_calls_test.c - what a worker that somebody took over could try with system calls, and does not get
 *
 * Each test forks a process that gives up these calls, and nothing else, since there is no way back. Its parent stands
 * for the front.
 */
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/os.h"
#include "base/read_ring.h"
#include "support/child.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "worker/sandbox.h"

enum { FILE_BYTES = 3000, DEPTH = 8 };

static void print_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    (void)fprintf(stderr, "%s: %s\n", source, message);
}

static void enter_calls(void)
{
    const hth_log to_stderr = { .level = HEARTH_LOG_INFO, .write = print_line };

    if (!hth_sandbox_calls(false, &to_stderr))
        hth_test_not_available("filter of system calls");
}

#define is_denied(call) (errno = 0, (call) == -1 && errno == EPERM)

/* ---- other processes ---- */

static void *raise_in_a_thread(void *context)
{
    (void)context;
    require(raise(SIGUSR1) == 0);
    require(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) == 0);
    return NULL;
}

static void try_others(void *context)
{
    const long front = getppid(), own = getpid();
    const struct rlimit low = { .rlim_cur = 1, .rlim_max = 1 };
    const struct sched_param batch = { .sched_priority = 0 };
    cpu_set_t processors;
    siginfo_t about = { .si_code = SI_QUEUE };
    struct rlimit limit;
    pthread_t thread;
    int ends[2];

    (void)context;
    (void)signal(SIGUSR1, SIG_IGN);
    require(pipe(ends) == 0);
    require(sched_getaffinity(0, sizeof(processors), &processors) == 0);
    enter_calls();

    require(is_denied(kill((pid_t)front, 0)) && is_denied(kill(0, 0)) && is_denied(kill(-1, 0)));
    require(is_denied(syscall(SYS_tgkill, front, front, 0)) && is_denied(syscall(SYS_tkill, front, 0)));
    require(is_denied(syscall(SYS_rt_sigqueueinfo, front, 0, &about)));
    require(is_denied(syscall(SYS_rt_tgsigqueueinfo, front, front, 0, &about)));
    require(is_denied(syscall(SYS_pidfd_open, front, 0)));
    require(is_denied(fcntl(ends[0], F_SETOWN, (pid_t)front)));
    require(is_denied(ioctl(ends[0], FIOSETOWN, &front)));
    require(is_denied(ioctl(ends[0], TIOCSTI, "x")));

    require(is_denied(prlimit((pid_t)front, RLIMIT_NOFILE, NULL, &limit)));
    require(is_denied(prlimit((pid_t)front, RLIMIT_CPU, &low, NULL)));
    require(is_denied(sched_setaffinity((pid_t)front, sizeof(processors), &processors)));
    require(is_denied(sched_setscheduler((pid_t)front, SCHED_BATCH, &batch)));
    require(is_denied(sched_setparam((pid_t)front, &batch)));
    require(is_denied(syscall(SYS_sched_setattr, front, NULL, 0)));
    require(is_denied(setpriority(PRIO_PROCESS, (id_t)front, 19)) && is_denied(setpriority(PRIO_USER, 0, 19)));
    require(is_denied(syscall(SYS_ioprio_set, 1, front, 0)) && is_denied(syscall(SYS_ioprio_set, 3, 0, 0)));
    require(is_denied(syscall(SYS_migrate_pages, front, 0, NULL, NULL)));

    require(is_denied(shmget(IPC_PRIVATE, 4096, 0600)) && is_denied(syscall(SYS_shmat, 0, NULL, 0)));
    require(is_denied(syscall(SYS_msgget, IPC_PRIVATE, 0600)) && is_denied(syscall(SYS_semget, IPC_PRIVATE, 1, 0600)));
    require(is_denied(syscall(SYS_mq_open, "hearth-test", O_RDONLY, 0, NULL)));

    /* To itself it may do all that. */
    require(kill((pid_t)own, 0) == 0 && raise(SIGUSR1) == 0 && pthread_kill(pthread_self(), SIGUSR1) == 0);
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    require(sched_setaffinity(0, sizeof(processors), &processors) == 0);
    require(sched_setscheduler(0, SCHED_BATCH, &batch) == 0);
    require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_GETOWN) == 0);
    require(pthread_create(&thread, NULL, raise_in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    hth_os_thread_nice(1);
}

TEST(a_worker_does_nothing_to_other_processes)
{
    hth_test_in_child(try_others, NULL);
}

static void *move_itself(void *context)
{
    cpu_set_t processors;
    const int expected = *(const bool *)context ? 0 : EPERM;

    require(sched_getaffinity(0, sizeof(processors), &processors) == 0);
    require(pthread_setaffinity_np(pthread_self(), sizeof(processors), &processors) == expected);
    return NULL;
}

static void try_threads(void *context)
{
    const hth_log to_stderr = { .level = HEARTH_LOG_INFO, .write = print_line };
    pthread_t thread;

    if (!hth_sandbox_calls(*(const bool *)context, &to_stderr))
        hth_test_not_available("filter of system calls");
    require(pthread_create(&thread, NULL, move_itself, context) == 0 && pthread_join(thread, NULL) == 0);
}

TEST(threads_stay_on_their_processors_unless_the_worker_heeds_nodes)
{
    bool moves[] = { false, true };

    hth_test_in_child(try_threads, &moves[0]);
    hth_test_in_child(try_threads, &moves[1]);
}

/* ---- sockets ---- */

static void try_sockets(void *context)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct iovec piece = { .iov_base = "x", .iov_len = 1 };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
    int datagrams = socket(AF_UNIX, SOCK_DGRAM, 0), pair[2];
    char byte = 0;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/front", (const char *)context);
    require(datagrams >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    require(sendto(datagrams, "x", 1, 0, (const struct sockaddr *)&address, sizeof(address)) == 1);
    enter_calls();

    require(is_denied(sendto(datagrams, "x", 1, 0, (const struct sockaddr *)&address, sizeof(address))));
    message.msg_name = &address;
    message.msg_namelen = sizeof(address);
    require(is_denied(sendmsg(datagrams, &message, 0)));
    require(is_denied(sendmmsg(datagrams, &(struct mmsghdr){ .msg_hdr = message }, 1, 0)));
    require(is_denied(connect(datagrams, (const struct sockaddr *)&address, sizeof(address))));
    require(is_denied(socket(AF_UNIX, SOCK_DGRAM, 0)) && is_denied(socket(AF_INET, SOCK_DGRAM, 0)));
    require(send(pair[0], "y", 1, 0) == 1 && recv(pair[1], &byte, 1, 0) == 1 && byte == 'y');
}

TEST(a_worker_answers_on_the_sockets_that_it_has_and_sends_to_no_others)
{
    char *directory = hth_test_directory_new();
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/front", directory);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    hth_test_in_child(try_sockets, directory);
    (void)close(fd);
    hth_test_directory_remove(directory);
}

/* ---- io_uring ---- */

static int new_file(const char *directory)
{
    uint8_t bytes[FILE_BYTES];
    char path[512];
    int fd;

    memset(bytes, 'x', sizeof(bytes));
    (void)snprintf(path, sizeof(path), "%s/file", directory);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, bytes, sizeof(bytes)) == FILE_BYTES);
    return fd;
}

static void read_through(hth_read_ring *ring, int fd, const char *way)
{
    uint8_t bytes[FILE_BYTES] = { 0 };
    hth_ring_read read = { .fd = fd, .bytes = bytes, .n_bytes = sizeof(bytes) };

    require(ring);
    hth_read_ring_add(ring, &read);
    require(hth_read_ring_wait(ring) == &read && read.result == 0 && read.n_done == FILE_BYTES);
    require(bytes[0] == 'x' && bytes[FILE_BYTES - 1] == 'x');
    require(strcmp(hth_read_ring_way(ring), way) == 0);
}

static void try_queues(void *context)
{
    int fd = new_file(context);
    hth_read_ring *early = hth_read_ring_open(hth_fs_system(), DEPTH), *late;
    struct io_uring other;

    require(early);
    if (strcmp(hth_read_ring_way(early), "io_uring") != 0)
        hth_test_not_available("io_uring that can be restricted (Linux 5.10), or forbids it");
    enter_calls();
    require(io_uring_queue_init(DEPTH, &other, 0) == -EPERM);
    require(is_denied(syscall(SYS_io_uring_register, fd, 0, NULL, 0)));
    read_through(early, fd, "io_uring");
    late = hth_read_ring_open(hth_fs_system(), DEPTH);
    read_through(late, fd, "threads");
    hth_read_ring_close(late);
    hth_read_ring_close(early);
}

TEST(a_worker_reads_with_the_queue_that_it_has_and_makes_no_other)
{
    char *directory = hth_test_directory_new();

    hth_test_in_child(try_queues, directory);
    hth_test_directory_remove(directory);
}

static int queue_fd(void)
{
    for (int fd = 3; fd < 64; fd++) {
        char link[64], target[64];
        ssize_t n;

        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = '\0';
            if (strstr(target, "io_uring"))
                return fd;
        }
    }
    return -1;
}

static int answer(struct io_uring *uring)
{
    struct io_uring_cqe *entry;
    int result;

    require(io_uring_submit_and_wait(uring, 1) >= 0 && io_uring_wait_cqe(uring, &entry) == 0);
    result = entry->res;
    io_uring_cqe_seen(uring, entry);
    return result;
}

/* Use the queue as one could who has the process: its descriptor, and memory like that of another of the same size. */
static void try_operations(void *context)
{
    struct io_uring_params params = { .flags = 0 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct io_uring like, uring;
    int file = new_file(context), stream = socket(AF_UNIX, SOCK_STREAM, 0), fd;
    hth_os_ring *ring = hth_os_ring_open(DEPTH);
    char byte = 0;

    fd = queue_fd();
    if (!ring)
        hth_test_not_available("io_uring that can be restricted (Linux 5.10), or forbids it");
    require(fd >= 0 && io_uring_queue_init_params(DEPTH, &like, &params) == 0);
    require(io_uring_queue_mmap(fd, &params, &uring) == 0);
    uring.sq.sqe_head = uring.sq.sqe_tail = *uring.sq.ktail; /* it has been used */
    (void)alarm(60);                                         /* an answer that does not come is a failure */

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/front", (const char *)context);
    io_uring_prep_connect(io_uring_get_sqe(&uring), stream, (struct sockaddr *)&address, sizeof(address));
    require(answer(&uring) == -EACCES);
    io_uring_prep_openat(io_uring_get_sqe(&uring), AT_FDCWD, "/etc/passwd", O_RDONLY, 0);
    require(answer(&uring) == -EACCES);
    io_uring_prep_write(io_uring_get_sqe(&uring), file, "y", 1, 0);
    require(answer(&uring) == -EACCES);
    io_uring_prep_send(io_uring_get_sqe(&uring), stream, "y", 1, 0);
    require(answer(&uring) == -EACCES);
    require(syscall(SYS_io_uring_register, fd, IORING_REGISTER_FILES, &file, 1) == -1 && errno == EACCES);
    io_uring_prep_read(io_uring_get_sqe(&uring), file, &byte, 1, 0);
    require(answer(&uring) == 1 && byte == 'x');
}

TEST(the_queue_of_the_cache_carries_out_reads_and_nothing_else)
{
    char *directory = hth_test_directory_new();

    hth_test_in_child(try_operations, directory);
    hth_test_directory_remove(directory);
}
