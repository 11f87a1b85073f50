#include "support/support.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "support/cmocka_all.h"

char *hth_test_directory_new(void)
{
    const char *base = getenv("TMPDIR");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/hearth-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        abort();
    }
    return strdup(path);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st, (void)type, (void)place;
    return remove(path);
}

void hth_test_directory_remove(char *directory)
{
    if (!directory)
        return;
    (void)nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* what stays lies in a temporary directory */
    free(directory);
}

int hth_test_directory_set_up(void **state)
{
    *state = hth_test_directory_new();
    return 0;
}

int hth_test_directory_tear_down(void **state)
{
    hth_test_directory_remove(*state);
    return 0;
}

int hth_test_memory_file(void)
{
    int fd = hth_os_memory_file_new("hearth-test");

    if (fd < 0)
        skip();
    return fd;
}

uint64_t hth_test_number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : fallback;
}

uint64_t hth_test_limit_file_size(uint64_t n_bytes)
{
    struct rlimit limit;
    uint64_t before;

    (void)signal(SIGXFSZ, SIG_IGN); /* as every process of Hearth does */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)n_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

uint64_t hth_test_seed(void)
{
    uint64_t fresh = 1;
    uint64_t seed;

    if (getentropy(&fresh, sizeof(fresh)) != 0)
        fresh = (uint64_t)getpid();
    seed = hth_test_number("HTH_SEED", fresh % 1000000000u);
    printf("seed %llu (HTH_SEED replays it)\n", (unsigned long long)seed);
    return seed;
}

uint64_t hth_test_random(uint64_t *state, uint64_t bound)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) % bound;
}

void hth_test_model(const char *shape, char *path, size_t capacity)
{
    char command[4096];
    FILE *answer;
    bool read;

    (void)snprintf(command, sizeof(command), "'%s' '%s' 2>/dev/null", HTH_TEST_MAKE_MODEL, shape);
    answer = popen(command, "r"); /* NOLINT(cert-env33-c): the build's own program, by its full path */
    read = answer && fgets(path, (int)capacity, answer);
    if (!answer || pclose(answer) != 0 || !read) {
        (void)fprintf(stderr, "the model '%s' cannot be made: %s\n", shape, command);
        abort();
    }
    path[strcspn(path, "\n")] = '\0';
}

static void make(const char *program, const char *options, const char *model, const char *path)
{
    char command[8192];

    (void)snprintf(command, sizeof(command), "'%s' %s '%s' '%s'", program, options, model, path);
    if (system(command) != 0) { /* NOLINT(cert-env33-c): the build's own program, by its full path */
        (void)fprintf(stderr, "'%s' cannot be made: %s\n", path, command);
        abort();
    }
}

void hth_test_adapter(const char *options, const char *model, const char *path)
{
    make(HTH_TEST_MAKE_ADAPTER, options, model, path);
}

void hth_test_control(const char *options, const char *model, const char *path)
{
    make(HTH_TEST_MAKE_CONTROL, options, model, path);
}

char *hth_test_text(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");

    if (!text || !file || fread(text, 1, (1 << 20) - 1, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file)
        (void)fclose(file); /* only read */
    return text;
}
