/*
 * sandbox_linux.c - drops a worker's rights: Landlock for files, seccomp for system calls
 *
 * Landlock (Linux 5.13; Salaün, "Landlock: unprivileged access control") takes a list of paths with the rights below
 * each, and denies everything else. The cache renames files between folders, which Landlock allows only from its second
 * version on. So older kernels get no restriction. Newer versions also restrict truncation, TCP, and signals to and
 * abstract sockets of outside processes; these are used if they exist. No program may be started.
 *
 * The system call filter is a list of denied calls, because the calls of an engine with its device drivers cannot be
 * foreseen. A serving worker needs none of the denied ones. The filter does not see io_uring, which the cache uses to
 * read. So no new queue can be made, and existing queues carry out reads only (os_linux_ring.c).
 *
 * Arguments distinguish a call on another process from a call on this one: zero stands for the calling process or
 * thread. The id of another thread looks like that of another process, so it is denied.
 */
#include "worker/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Landlock's interface; the header may be older than the kernel ---- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444 /* the same on every architecture */
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { VERSION_QUERY = 1, RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2, VERSION_MIN = 2 };

#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_REMOVE_DIR (UINT64_C(1) << 4)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_DIR (UINT64_C(1) << 7)
#define FS_MAKE_REG (UINT64_C(1) << 8)
#define FS_MAKE_SOCK (UINT64_C(1) << 9)
#define FS_REFER (UINT64_C(1) << 13)    /* version 2: link and rename between folders */
#define FS_TRUNCATE (UINT64_C(1) << 14) /* version 3 */

#define FS_ALL_2 ((UINT64_C(1) << 14) - 1) /* including devices, pipes and symbolic links, which no worker makes */
#define FS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE)
#define FS_TO_READ (FS_READ_FILE | FS_READ_DIR)
#define FS_TO_WRITE                                                                                           \
    (FS_TO_READ | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | \
     FS_REFER | FS_TRUNCATE)

#define NET_BIND (UINT64_C(1) << 0) /* version 4, of TCP */
#define NET_CONNECT (UINT64_C(1) << 1)

typedef struct ruleset_attr {
    uint64_t fs;
    uint64_t net;    /* version 4 */
    uint64_t scoped; /* version 6: 1 abstract unix sockets, 2 signals */
} ruleset_attr;

typedef struct path_beneath_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed)) path_beneath_attr;

typedef struct net_port_attr {
    uint64_t allowed;
    uint64_t port;
} net_port_attr;

/* ---- files ---- */

typedef struct ruleset {
    int fd;
    uint64_t handled;
    int errnum; /* of the first rule that could not be added; 0: all were added */
} ruleset;

/* fd: opened with O_PATH; mode: of its file. */
static void allow_opened(ruleset *set, int fd, mode_t mode, uint64_t rights)
{
    path_beneath_attr rule = { .allowed = rights & set->handled, .parent_fd = fd };

    if (!S_ISDIR(mode))
        rule.allowed &= FS_OF_FILES; /* the kernel refuses other rights for a file */
    if (syscall(SYS_landlock_add_rule, set->fd, RULE_PATH_BENEATH, &rule, 0) != 0 && set->errnum == 0)
        set->errnum = errno;
}

/* A missing path needs no rule. */
static void allow(ruleset *set, const char *path, uint64_t rights)
{
    const int fd = *path ? open(path, O_PATH | O_CLOEXEC) : -1;
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0)
        allow_opened(set, fd, st.st_mode, rights);
    (void)close(fd); /* opened with O_PATH only */
}

/*
 * Allow reading a file. The target of a link stays closed: a user who may make files beside a model must not gain
 * access to other files.
 */
static void allow_own_file(ruleset *set, const char *path)
{
    const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        allow_opened(set, fd, st.st_mode, FS_READ_FILE);
    (void)close(fd); /* opened with O_PATH only */
}

static void allow_like(ruleset *set, const char *pattern, uint64_t rights)
{
    glob_t found = { 0 };

    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            allow(set, found.gl_pathv[i], rights);
    }
    globfree(&found);
}

/* paths: ending with NULL. */
static void allow_all(ruleset *set, const char *const *paths, uint64_t rights)
{
    for (; *paths; paths++)
        allow(set, *paths, rights);
}

/* Allow the program's folder, which has its modules, and the library folder beside it. */
static void allow_program(ruleset *set)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    char *slash;

    if (n <= 0)
        return;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return;
    *slash = '\0';
    allow(set, path, FS_TO_READ);
    memcpy(slash, "/../lib", sizeof("/../lib"));
    allow(set, path, FS_TO_READ);
}

/* Allow the folders "a:b" of the loader's search path. */
static void allow_folders(ruleset *set, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ":");
        char path[4096];

        if (n < sizeof(path)) {
            memcpy(path, list, n);
            path[n] = '\0';
            allow(set, path, FS_TO_READ);
        }
        list += n + (list[n] == ':');
    }
}

/*
 * Allow system settings for libraries and drivers. Not the whole folder: it has the server's own settings, with its
 * keys.
 */
static void allow_settings(ruleset *set)
{
    static const char *const readable[] = {
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/ld.so.preload",
        "/etc/localtime",
        "/etc/timezone",
        "/etc/locale.alias",
        "/etc/passwd",
        "/etc/group",
        "/etc/nsswitch.conf",
        "/etc/machine-id",
        "/etc/alternatives",
        "/etc/crypto-policies",
        "/etc/ssl/openssl.cnf",
        "/etc/pki/tls/openssl.cnf",
        "/etc/OpenCL",
        "/etc/vulkan",
        "/etc/glvnd",
        "/etc/nvidia",
        "/etc/libnl",
        "/etc/drirc",
        NULL,
    };

    allow_all(set, readable, FS_TO_READ);
}

/* Allow compute devices. Their drivers share memory between processes under their own names. */
static void allow_devices(ruleset *set)
{
    static const char *const devices[] = { "/dev/nvidiactl", "/dev/dri", "/dev/kfd", "/dev/dxg", "/dev/accel" };
    bool has_some = false;

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        has_some = has_some || access(devices[i], F_OK) == 0;
        allow(set, devices[i], FS_TO_WRITE);
    }
    allow_like(set, "/dev/nvidia*", FS_TO_READ | FS_WRITE_FILE);
    if (has_some)
        allow(set, "/dev/shm", FS_TO_WRITE);
}

/*
 * CUDA names its threads through /proc/self/task/N/comm, and finds no GPU if it cannot. The other files of the folder
 * give a process no power over others. The descriptor stays open: the kernel recreates such a folder when no descriptor
 * holds it, but the rule is for the old one.
 */
static void allow_thread_names(ruleset *set)
{
    const int fd = open("/proc/self/task", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        allow_opened(set, fd, S_IFDIR, FS_TO_READ | FS_WRITE_FILE | FS_TRUNCATE);
}

static void allow_system(ruleset *set)
{
    static const char *const readable[] = {
        "/usr",       "/lib",       "/lib32",      "/lib64",       "/bin",
        "/sbin",      "/opt",       "/proc",       "/sys",         "/run/opengl-driver",
        "/nix/store", "/gnu/store", "/dev/random", "/dev/urandom", NULL,
    };
    static const char *const writable[] = { "/dev/null", "/dev/zero", "/dev/full", NULL };

    allow_all(set, readable, FS_TO_READ);
    allow_all(set, writable, FS_TO_WRITE);
    allow_settings(set);
    allow_devices(set);
    allow_thread_names(set);
    allow_program(set);
    allow_folders(set, getenv("LD_LIBRARY_PATH"));
}

/* Make a folder and its parents: a rule needs an existing folder. */
static void make_folder(const char *path)
{
    char part[4096];
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof(part))
        return;
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        (void)mkdir(part, 0700); /* usually exists; the code that uses it reports a failure */
        part[i] = path[i];
    }
}

/* Before version 4 the kernel does not check ports. */
static void allow_port(ruleset *set, uint16_t port, long version)
{
    net_port_attr rule = { .allowed = NET_CONNECT, .port = port };

    if (version >= 4 && syscall(SYS_landlock_add_rule, set->fd, RULE_NET_PORT, &rule, 0) != 0 && set->errnum == 0)
        set->errnum = errno;
}

/* 0 or errno. */
static int restrict_files(const hth_sandbox_paths *paths, long version)
{
    ruleset_attr attr = {
        .fs = FS_ALL_2 | (version >= 3 ? FS_TRUNCATE : 0),
        .net = version >= 4 ? NET_BIND | (paths->any_port ? 0 : NET_CONNECT) : 0,
        .scoped = version >= 6 ? 3 : 0,
    };
    /* The files that the C library reads to resolve a host name. */
    static const char *const names[] = { "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", NULL };
    size_t attr_bytes = version >= 6 ? sizeof(attr) : version >= 4 ? 16 : 8;
    ruleset set = { .handled = attr.fs };

    set.fd = (int)syscall(SYS_landlock_create_ruleset, &attr, attr_bytes, 0);
    if (set.fd < 0)
        return errno;
    allow_system(&set);
    allow_all(&set, paths->read, FS_TO_READ);
    for (const char *const *path = paths->own_files; *path; path++)
        allow_own_file(&set, *path);
    for (const char *const *path = paths->write; *path; path++) {
        make_folder(*path);
        allow(&set, *path, FS_TO_WRITE);
    }
    for (const uint16_t *port = paths->ports; *port && !paths->any_port; port++)
        allow_port(&set, *port, version);
    if (paths->ports[0] || paths->any_port)
        allow_all(&set, names, FS_TO_READ);
    if (set.errnum == 0 &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, set.fd, 0) != 0))
        set.errnum = errno;
    (void)close(set.fd); /* no longer needed */
    return set.errnum;
}

bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_QUERY);
    int errnum;

    if (version < VERSION_MIN) {
        hth_info(log, "the worker's access to files is that of its user: this kernel has no Landlock%s",
                 version < 0 ? ", or it is off" : " that lets files be renamed between folders (Linux 5.19)");
        return false;
    }
    errnum = restrict_files(paths, version);
    if (errnum == 0)
        return true;
    hth_warn(log, "the worker's access to files is that of its user: Landlock failed: %s", strerror(errnum));
    return false;
}

/* ---- system calls ---- */

/* By name, each with a space after it: older libraries and other architectures lack some of these calls. */
static const char denied[] =
    /* programs and processes */
    "execve execveat process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    /* signals to other processes; tgkill and kill are below */
    "tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal process_mrelease "
    /* memory and messages of other processes: Landlock does not cover their names */
    "shmget shmat shmctl shmdt semget semop semtimedop semtimedop_time64 semctl msgget msgsnd msgrcv msgctl "
    "mq_open mq_unlink mq_timedsend mq_timedsend_time64 mq_timedreceive mq_timedreceive_time64 mq_notify "
    "mq_getsetattr "
    /* name spaces and mounts */
    "unshare setns chroot pivot_root mount umount umount2 mount_setattr move_mount open_tree fsopen fsconfig "
    "fsmount fspick open_by_handle_at quotactl quotactl_fd "
    /* the kernel and the machine */
    "bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module delete_module reboot "
    "swapon swapoff acct syslog iopl ioperm settimeofday clock_settime clock_adjtime adjtimex sethostname "
    "setdomainname vhangup fanotify_init "
    /* keys */
    "add_key request_key keyctl "
    /* sockets, except existing and accepted ones */
    "socket connect sendmsg sendmmsg "
    /* ways around the filter */
    "io_uring_setup io_uring_register ";

/*
 * A call that is denied for some values of an argument. The kernel reads 32 bits of these arguments; the filter sees
 * 64.
 */
typedef struct denied_argument {
    const char *name;
    unsigned argument;
    enum scmp_compare compare;
    uint64_t value, masked;
} denied_argument;

#define IS_NOT(of, number) .argument = (of), .compare = SCMP_CMP_NE, .value = (number)
#define IS(of, number) .argument = (of), .compare = SCMP_CMP_MASKED_EQ, .value = UINT32_MAX, .masked = (number)

static int deny_arguments(scmp_filter_ctx filter, bool moves_threads)
{
    enum { IOPRIO_WHO_PROCESS = 1, OWN = 0 };
    const uint64_t own = (uint64_t)getpid();
    const denied_argument arguments[] = {
        { "kill", IS_NOT(0, own) },
        { "tgkill", IS_NOT(0, own) },
        { "prlimit64", IS_NOT(0, OWN) },
        { "sched_setscheduler", IS_NOT(0, OWN) },
        { "sched_setparam", IS_NOT(0, OWN) },
        { "sched_setattr", IS_NOT(0, OWN) },
        { "sched_setaffinity", IS_NOT(0, OWN) },
        { "setpriority", IS_NOT(0, PRIO_PROCESS) },
        { "setpriority", IS_NOT(1, OWN) },
        { "ioprio_set", IS_NOT(0, IOPRIO_WHO_PROCESS) },
        { "ioprio_set", IS_NOT(1, OWN) },
        { "move_pages", IS_NOT(0, OWN) },
        { "migrate_pages", IS_NOT(0, OWN) },
        { "sendto", IS_NOT(4, 0) }, /* with an address; without one, the data goes to the connected peer */
        /* A file that becomes ready signals its owner, which may be any process. */
        { "fcntl", IS(1, F_SETOWN) },
        { "fcntl", IS(1, F_SETOWN_EX) },
        { "fcntl64", IS(1, F_SETOWN) },
        { "fcntl64", IS(1, F_SETOWN_EX) },
        { "ioctl", IS(1, FIOSETOWN) },
        { "ioctl", IS(1, SIOCSPGRP) },
        /* Inserts input into the parent's terminal. */
        { "ioctl", IS(1, TIOCSTI) },
        { "ioctl", IS(1, TIOCLINUX) },
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]) && rc == 0; i++) {
        const denied_argument *a = &arguments[i];
        int number = seccomp_syscall_resolve_name(a->name);
        bool is_allowed = moves_threads && strcmp(a->name, "sched_setaffinity") == 0; /* its threads have other ids */

        if (number != __NR_SCMP_ERROR && !is_allowed)
            rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 1,
                                  SCMP_CMP(a->argument, a->compare, a->value, a->masked));
    }
    return rc;
}

/* Calls that sanitizers need: their final report inspects the process from another one. */
static const char *const denied_without_sanitizers[] = { "ptrace", "fork", "vfork" };

static int deny(scmp_filter_ctx filter, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);

    return number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
}

/*
 * A clone that starts a thread has a flag for it. clone3 has its flags in memory, where the filter cannot read them;
 * the C library uses clone if clone3 does not exist.
 */
static int deny_processes(scmp_filter_ctx filter)
{
    int rc = 0;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__s390__)
    for (size_t i = 0; i < sizeof(denied_without_sanitizers) / sizeof(denied_without_sanitizers[0]) && rc == 0; i++)
        rc = deny(filter, denied_without_sanitizers[i]);
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    if (rc == 0 && seccomp_syscall_resolve_name("clone3") != __NR_SCMP_ERROR)
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), seccomp_syscall_resolve_name("clone3"), 0);
#else
    (void)filter;
    (void)denied_without_sanitizers;
#endif
    return rc;
}

/* 0 or -errno. */
static int restrict_calls(scmp_filter_ctx filter, bool moves_threads)
{
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

    /* Older kernels slow down a filtered process to guard against speculation. There is nothing to guard here. */
    (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    (void)seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)); /* the default is to kill */
    for (const char *at = denied; *at && rc == 0; at += strcspn(at, " ") + 1) {
        char name[32];

        assert(strcspn(at, " ") < sizeof(name));                               /* otherwise the call would be allowed */
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at); /* fits */
        rc = deny(filter, name);
    }
    if (rc == 0)
        rc = deny_arguments(filter, moves_threads);
    if (rc == 0)
        rc = deny_processes(filter);
    return rc == 0 ? seccomp_load(filter) : rc;
}

bool hth_sandbox_calls(bool moves_threads, const hth_log *log)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int rc = filter ? restrict_calls(filter, moves_threads) : -ENOMEM;

    if (filter)
        seccomp_release(filter);
    if (rc == 0)
        return true;
    hth_warn(log, "the worker may make any system call: seccomp failed: %s", strerror(-rc));
    return false;
}
