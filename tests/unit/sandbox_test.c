/*
 * sandbox_test.c - what a worker can still do once it has given up the rest
 *
 * Each test forks a process that enters the sandbox, since there is no way back.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "support/api.h"
#include "support/child.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "worker/sandbox.h"

typedef struct fixture {
    char *inside;
    char *outside;
    char cache[512]; /* in inside; does not exist */
    char secret[512];
    char socket_path[512];
    const char *rpc_servers; /* NULL: none */
    const char *draft_model; /* NULL: none */
    const char *adapters;    /* the folder; NULL: none */
    bool trusts_digests;
    hearth_runtime_options runtime;
} fixture;

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void setup(fixture *f)
{
    f->inside = hth_test_directory_new();
    f->outside = hth_test_directory_new();
    (void)snprintf(f->cache, sizeof(f->cache), "%s/deep/cache", f->inside);
    (void)snprintf(f->socket_path, sizeof(f->socket_path), "%s/w.sock", f->inside);
    (void)snprintf(f->secret, sizeof(f->secret), "%s/secret", f->outside);
    write_file(f->secret, "secret");
    f->runtime = hearth_runtime_options_default();
    f->runtime.cache_directory = f->cache;
    f->runtime.ram_bytes_max = 64 << 20;
    f->runtime.disk_free_min = 0;
}

static void teardown(fixture *f)
{
    hth_test_directory_remove(f->inside);
    hth_test_directory_remove(f->outside);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

/* ---- in the child ---- */

static void print_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    (void)fprintf(stderr, "%s: %s\n", source, message);
}

static const hth_log to_stderr = { .level = HEARTH_LOG_INFO, .write = print_line };

static void enter_files(const fixture *f, const char *model)
{
    hearth_model_options options = hearth_model_options_default();
    const hth_adapter_specs adapters = { .directory = f->adapters };
    hth_sandbox_paths *paths;

    options.rpc_servers = f->rpc_servers;
    options.draft_model = f->draft_model;
    options.trust_digests = f->trusts_digests;
    paths = hth_sandbox_paths_of_worker(model, &adapters, &options, &f->runtime, f->socket_path, NULL);

    require(paths);
    if (!hth_sandbox_files(paths, &to_stderr))
        hth_test_not_available("Landlock, or not one that is new enough");
    hth_sandbox_paths_free(paths);
}

static void enter_calls(void)
{
    if (!hth_sandbox_calls(false, &to_stderr))
        hth_test_not_available("filter of system calls");
}

static bool can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* ---- files ---- */

static void try_adapters(void *context)
{
    fixture *f = context;
    char folder[600], file[700], out[700];

    (void)snprintf(folder, sizeof(folder), "%s/lora", f->outside);
    (void)snprintf(file, sizeof(file), "%s/later.gguf", folder);
    (void)snprintf(out, sizeof(out), "%s/link.gguf", folder);
    require(mkdir(folder, 0700) == 0 && symlink(f->secret, out) == 0);
    f->adapters = folder;
    write_file(file, "1");
    enter_files(f, "/nowhere/x.gguf");
    require(can_open(file, O_RDONLY));
    require(!can_open(file, O_WRONLY) && errno == EACCES);
    require(!can_open(out, O_RDONLY) && errno == EACCES); /* it leads to a file elsewhere */
}

FIXTURE_TEST(the_folder_of_adapters_is_readable_and_links_out_of_it_lead_nowhere)
{
    hth_test_in_child(try_adapters, f);
}

static void try_files(void *context)
{
    fixture *f = context;
    char model[600], part[600], draft[600], other[600], path[600], moved[700];
    int fd, held = open(f->secret, O_RDONLY | O_CLOEXEC);
    char byte;

    (void)snprintf(model, sizeof(model), "%s/x-00001-of-00002.gguf", f->outside);
    (void)snprintf(part, sizeof(part), "%s/x-00002-of-00002.gguf", f->outside);
    (void)snprintf(other, sizeof(other), "%s/new", f->outside);
    write_file(model, "1");
    (void)snprintf(draft, sizeof(draft), "%s/small.gguf", f->outside);
    write_file(part, "2");
    write_file(draft, "3");
    f->draft_model = draft;
    enter_files(f, model);

    errno = 0;
    require(!can_open(f->secret, O_RDONLY) && errno == EACCES);
    require(!can_open(other, O_WRONLY | O_CREAT) && errno == EACCES);
    require(rename(model, other) != 0);
    require(unlink(f->secret) != 0 && truncate(f->secret, 0) != 0);
    require(mkdir(other, 0700) != 0 && symlink(f->secret, other) != 0);
    require(read(held, &byte, 1) == 1); /* what was open stays open */
    require(can_open(model, O_RDONLY) && can_open(part, O_RDONLY) && can_open(draft, O_RDONLY));
    require(!can_open(model, O_WRONLY));
    require(can_open("/etc/passwd", O_RDONLY) && can_open("/dev/null", O_RDWR) && can_open("/dev/urandom", O_RDONLY));
    require(can_open("/proc/self/status", O_RDONLY) && can_open("/proc/meminfo", O_RDONLY));
    require(!can_open("/etc/passwd", O_WRONLY));
    require(!can_open("/etc/hosts", O_RDONLY) && !can_open("/etc/hearth", O_RDONLY)); /* where a server's keys may be */

    /* All that the cache does to files. */
    (void)snprintf(path, sizeof(path), "%s/ab", f->cache);
    require(mkdir(path, 0700) == 0);
    (void)snprintf(path, sizeof(path), "%s/ab/row", f->cache);
    (void)snprintf(moved, sizeof(moved), "%s/moved", f->cache);
    fd = hth_os_open_unnamed(f->cache);
    if (fd >= 0) {
        require(write(fd, "row", 3) == 3 && fdatasync(fd) == 0);
        require(hth_os_link_unnamed(fd, path) == 0);
        require(close(fd) == 0);
    } else {
        require(can_open(path, O_WRONLY | O_CREAT));
    }
    require(rename(path, moved) == 0 && link(moved, path) == 0 && truncate(moved, 1) == 0 && unlink(path) == 0);
    fd = hth_os_memory_file_new("ram");
    if (fd >= 0)
        require(hth_os_memory_file_own(fd) >= 0);
}

FIXTURE_TEST(a_worker_opens_its_model_its_cache_and_the_system_and_nothing_else)
{
    hth_test_in_child(try_files, f);
}

static void try_parts(void *context)
{
    const fixture *f = context;
    char first[600], second[600], blob[600], digest[700];

    (void)snprintf(first, sizeof(first), "%s/m-00001-of-00002.gguf", f->outside);
    (void)snprintf(second, sizeof(second), "%s/m-00002-of-00002.gguf", f->outside);
    (void)snprintf(blob, sizeof(blob), "%s/blob", f->outside);
    write_file(first, "1");
    write_file(blob, "2");
    (void)snprintf(digest, sizeof(digest), "%s.sha256", second);
    write_file(digest, "3");
    require(symlink(blob, second) == 0);
    enter_files(f, first);
    require(can_open(digest, O_RDONLY) == f->trusts_digests);
    require(can_open(first, O_RDONLY));
    require(can_open(second, O_RDONLY));
    require(!can_open(f->secret, O_RDONLY) && errno == EACCES);
}

FIXTURE_TEST(a_worker_opens_all_parts_of_a_split_model_wherever_they_are)
{
    hth_test_in_child(try_parts, f);
}

FIXTURE_TEST(a_worker_that_trusts_digests_opens_those_beside_its_model)
{
    f->trusts_digests = true;
    hth_test_in_child(try_parts, f);
}

static void try_digest_links(void *context)
{
    fixture *f = context;
    char model[600], digest[700], draft[600], draft_digest[700];

    (void)snprintf(model, sizeof(model), "%s/m.gguf", f->outside);
    (void)snprintf(digest, sizeof(digest), "%s.sha256", model);
    (void)snprintf(draft, sizeof(draft), "%s/d.gguf", f->outside);
    (void)snprintf(draft_digest, sizeof(draft_digest), "%s.sha256", draft);
    write_file(model, "1");
    write_file(draft, "2");
    require(symlink(f->secret, digest) == 0 && symlink(f->outside, draft_digest) == 0); /* to a file, to a folder */
    f->draft_model = draft;
    enter_files(f, model);
    require(can_open(model, O_RDONLY) && can_open(draft, O_RDONLY));
    require(!can_open(digest, O_RDONLY) && errno == EACCES);
    require(!can_open(f->secret, O_RDONLY) && errno == EACCES);
}

FIXTURE_TEST(a_link_in_the_place_of_a_digest_opens_no_other_file)
{
    f->trusts_digests = true;
    hth_test_in_child(try_digest_links, f);
}

static void try_shared_memory(void *context)
{
    static const char *const devices[] = { "/dev/nvidiactl", "/dev/dri", "/dev/kfd", "/dev/dxg", "/dev/accel" };
    fixture *f = context;
    char path[128];

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        if (access(devices[i], F_OK) == 0)
            hth_test_not_available("machine without devices for computing, whose drivers need /dev/shm");
    if (access("/dev/shm", W_OK) != 0)
        hth_test_not_available("/dev/shm to write to");
    (void)snprintf(path, sizeof(path), "/dev/shm/hearth-test-%ld", (long)getpid());
    enter_files(f, "none.gguf");
    errno = 0;
    require(!can_open(path, O_RDWR | O_CREAT) && errno == EACCES);
    require(!can_open("/dev/shm", O_RDONLY | O_DIRECTORY) && errno == EACCES);
    (void)snprintf(path, sizeof(path), "%s/row", f->runtime.ram_file_directory);
    require(can_open(path, O_RDWR | O_CREAT));
    require(unlink(path) == 0);
}

FIXTURE_TEST(without_a_device_a_worker_shares_no_memory_but_its_rows)
{
    char folder[64];

    (void)snprintf(folder, sizeof(folder), "/dev/shm/hearth-test-%ld.d", (long)getpid());
    f->runtime.ram_file_directory = folder;
    hth_test_in_child(try_shared_memory, f);
    (void)rmdir(folder); /* none where nothing was tried */
}

typedef struct to_be_named {
    pthread_mutex_t named;
    _Atomic long id;
} to_be_named;

static void *wait_to_be_named(void *context)
{
    to_be_named *thread = context;

    atomic_store(&thread->id, syscall(SYS_gettid));
    require(pthread_mutex_lock(&thread->named) == 0 && pthread_mutex_unlock(&thread->named) == 0);
    return NULL;
}

/* As CUDA's driver names its threads. */
static void try_thread_names(void *context)
{
    to_be_named waiting = { .named = PTHREAD_MUTEX_INITIALIZER };
    pthread_t thread;
    char path[64], name[16] = "";
    FILE *file;

    enter_files(context, "none.gguf");
    require(pthread_mutex_lock(&waiting.named) == 0 && pthread_create(&thread, NULL, wait_to_be_named, &waiting) == 0);
    while (atomic_load(&waiting.id) == 0)
        sched_yield();
    (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", atomic_load(&waiting.id));
    file = fopen(path, "w");
    require(file && fputs("named", file) >= 0 && fclose(file) == 0);
    require(pthread_getname_np(thread, name, sizeof(name)) == 0 && strcmp(name, "named") == 0);
    (void)snprintf(path, sizeof(path), "/proc/%ld/comm", (long)getppid());
    require(!can_open(path, O_WRONLY) && errno == EACCES);
    require(pthread_mutex_unlock(&waiting.named) == 0 && pthread_join(thread, NULL) == 0);
}

FIXTURE_TEST(a_worker_names_its_threads_and_nobody_elses)
{
    hth_test_in_child(try_thread_names, f);
}

static void kill_from_a_thread(void)
{
    require(kill(getppid(), 0) != 0 && errno == EPERM);
}

static void *check_thread(void *context)
{
    (void)context;
    kill_from_a_thread();
    return NULL;
}

static void try_signals(void *context)
{
    pthread_t thread;

    enter_files(context, "none.gguf");
    if (kill(getppid(), 0) == 0)
        hth_test_not_available("Landlock for signals (Linux 6.12)");
    kill_from_a_thread();
    require(pthread_create(&thread, NULL, check_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    (void)signal(SIGUSR1, SIG_IGN);
    require(raise(SIGUSR1) == 0);
}

FIXTURE_TEST(a_worker_cannot_signal_its_front)
{
    hth_test_in_child(try_signals, f);
}

/* ---- the network ---- */

/* A socket that listens on a port of its own. */
static int listen_on(uint16_t *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t n = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0);
    require(getsockname(fd, (struct sockaddr *)&address, &n) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* 0 or errno. */
static int connect_to(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int problem;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(fd >= 0);
    problem = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    require(close(fd) == 0);
    return problem;
}

static void try_ports(void *context)
{
    fixture *f = context;
    uint16_t first, second, other;
    char servers[64];

    (void)listen_on(&first);
    (void)listen_on(&second);
    (void)listen_on(&other);
    (void)snprintf(servers, sizeof(servers), "127.0.0.1:%u,localhost:%u", first, second);
    f->rpc_servers = servers;
    enter_files(f, "none.gguf");
    if (connect_to(other) == 0)
        hth_test_not_available("Landlock for TCP (Linux 6.7)");
    require(connect_to(other) == EACCES);
    require(connect_to(first) == 0 && connect_to(second) == 0);
    require(can_open("/etc/hosts", O_RDONLY)); /* where the name of a server may stand */
}

FIXTURE_TEST(a_worker_reaches_the_ports_of_its_rpc_servers_and_no_others)
{
    hth_test_in_child(try_ports, f);
}

static void try_no_ports(void *context)
{
    fixture *f = context;
    uint16_t port;

    (void)listen_on(&port);
    f->rpc_servers = "no address";
    enter_files(f, "none.gguf");
    if (connect_to(port) == 0)
        hth_test_not_available("Landlock for TCP (Linux 6.7)");
    require(connect_to(port) == EACCES);
    require(!can_open("/etc/hosts", O_RDONLY));
}

FIXTURE_TEST(servers_that_cannot_be_read_open_no_port)
{
    hth_test_in_child(try_no_ports, f);
}

/* ---- system calls ---- */

static void *open_inet(void *context)
{
    (void)context;
    require(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
    return NULL;
}

static pthread_barrier_t entered;

static void *wait_and_open_inet(void *context)
{
    (void)pthread_barrier_wait(&entered);
    return open_inet(context);
}

static void try_calls(void *context)
{
    const fixture *f = context;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char *const argv[] = { "true", NULL };
    pthread_t before, after;
    int listening = socket(AF_UNIX, SOCK_STREAM, 0), asking = socket(AF_UNIX, SOCK_STREAM, 0), pair[2];

    require(pthread_barrier_init(&entered, NULL, 2) == 0);
    require(pthread_create(&before, NULL, wait_and_open_inet, NULL) == 0);
    enter_calls();

    require(execv("/bin/true", argv) != 0 && errno == EPERM);
    (void)open_inet(NULL);
    require(socket(AF_INET6, SOCK_DGRAM, 0) < 0 && errno == EPERM);
    require(socket(AF_NETLINK, SOCK_RAW, 0) < 0 && errno == EPERM);
    require(unshare(0) != 0 && errno == EPERM);
    require(chroot("/") != 0 && errno == EPERM);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    require(fork() < 0 && errno == EPERM);
#endif
    /* A thread that was there before is in it, too, and new ones can be made. */
    (void)pthread_barrier_wait(&entered);
    require(pthread_join(before, NULL) == 0);
    require(pthread_create(&after, NULL, open_inet, NULL) == 0 && pthread_join(after, NULL) == 0);
    /* Sockets that it has go on. */
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.90s", f->socket_path);
    require(bind(listening, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listening, 1) == 0);
    require(connect(asking, (struct sockaddr *)&address, sizeof(address)) != 0 && errno == EPERM);
    require(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
}

FIXTURE_TEST(a_worker_can_start_no_programs_and_reach_no_network)
{
    hth_test_in_child(try_calls, f);
}

/* ---- work ---- */

static void complete(hearth_model *model, const char *prompt)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *result;
    hearth_error err;

    request.prompt = prompt;
    request.n_predict = 4;
    sampling.temperature = 0;
    request.sampling = &sampling;
    if (hearth_complete(model, &request, &result, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    hearth_result_unref(result);
}

static void work(fixture *f, const char *model_path)
{
    char prompt[700];
    hearth_error err;

    for (size_t i = 0; i < sizeof(prompt) - 1; i++)
        prompt[i] = (char)('a' + (i * 7 + i / 11) % 26);
    prompt[sizeof(prompt) - 1] = '\0';
    enter_files(f, model_path);
    for (int round = 0; round < 2; round++) {
        hearth_model_options options = hearth_model_options_default();
        hearth_counters counters = { .struct_size = sizeof(counters) };
        hearth_runtime *runtime;
        hearth_model *model;

        options.n_threads = 2;
        require(hearth_runtime_open(&f->runtime, &runtime, &err) == HEARTH_OK);
        if (hearth_model_load(runtime, model_path, &options, &model, &err) != HEARTH_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            _exit(1);
        }
        if (round == 0)
            enter_calls();
        complete(model, prompt);
        hth_test_model_end(runtime, model);
        require(hearth_runtime_counters(runtime, &counters, &err) == HEARTH_OK);
        require(round == 0 ? counters.rows_saved > 0 : counters.hits_exact == 1); /* from the disk */
        require(counters.writes_failed == 0);
        hearth_runtime_close(runtime);
    }
}

static void work_with_stub(void *context)
{
    fixture *f = context;
    f->runtime.ram_memory_fd = hth_os_memory_file_new("ram");
    work(f, "stub:");
}

static void work_with_engine(void *context)
{
    fixture *f = context;
    char model[512];

    (void)snprintf(model, sizeof(model), "%s/hearth-tiny.gguf", HTH_TEST_MODELS);
    work(f, model);
}

FIXTURE_TEST(the_cache_works_in_the_sandbox)
{
    hth_test_in_child(work_with_stub, f);
}

FIXTURE_TEST(the_engine_works_in_the_sandbox)
{
    hth_test_in_child(work_with_engine, f);
}
