/*
 * main.c - the main() of test programs: it runs the tests of the files that make the program
 *
 *     test_unit                     all files, each in a process of its own
 *     test_unit index               the tests of unit/index_test.c, in this process
 *     test_unit index evicted       those whose names contain "evicted"
 *     test_unit --list              print the names of all files and tests
 *     test_unit --play index read   what a test of unit/index_test.c has another process do (PLAY)
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"

enum { NAME_BYTES = 64, WORDS_MAX = 16 };

static hth_test_entry *newest; /* filled before main() starts, by one thread */
static const char *own_program;

void hth_test_register(hth_test_entry *entry)
{
    entry->next = newest;
    newest = entry;
}

/* "index" of ".../unit/index_test.c" */
static void name_file(const char *path, char name[NAME_BYTES])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *end = strstr(base, "_test.c");

    (void)snprintf(name, NAME_BYTES, "%.*s", end ? (int)(end - base) : (int)strlen(base), base);
}

void hth_test_play(const char *path, const char *const *words)
{
    char file[NAME_BYTES];
    const char *argv[WORDS_MAX + 4] = { own_program, "--play", file };

    name_file(path, file);
    for (size_t i = 0; words[i]; i++) {
        if (i == WORDS_MAX)
            abort();
        argv[3 + i] = words[i];
    }
    (void)execv(own_program, (char *const *)argv);
    _exit(127);
}

static bool is_group(const hth_test_entry *entry)
{
    return !entry->test.test_func && !entry->play;
}

/* A compiler may emit the constructors of a file in any order. */
static int by_place(const void *a, const void *b)
{
    const hth_test_entry *left = *(hth_test_entry *const *)a, *right = *(hth_test_entry *const *)b;
    int order = strcmp(left->path, right->path);

    if (order == 0)
        order = left->line - right->line;
    return order != 0 ? order : strcmp(left->test.name, right->test.name);
}

/* All entries, those of a file side by side. They live as long as the program. */
static hth_test_entry **all_entries(size_t *n_out)
{
    static hth_test_entry **entries;
    size_t n = 0;

    for (hth_test_entry *entry = newest; entry; entry = entry->next)
        n++;
    entries = calloc(n + 1, sizeof(hth_test_entry *));
    if (!entries)
        abort();
    *n_out = n;
    for (hth_test_entry *entry = newest; entry; entry = entry->next)
        entries[--n] = entry;
    qsort(entries, *n_out, sizeof(hth_test_entry *), by_place);
    return entries;
}

/* How many of n entries are of the first one's file? */
static size_t n_of_file(hth_test_entry *const *entries, size_t n)
{
    size_t n_same = 0;

    while (n_same < n && strcmp(entries[n_same]->path, entries[0]->path) == 0)
        n_same++;
    return n_same;
}

static int run_group(const char *file, const struct CMUnitTest *group, const struct CMUnitTest *tests, size_t n_tests)
{
    print_message("%s_test.c, %s:\n", file, group->name);
    return _cmocka_run_group_tests(group->name, tests, n_tests, group->setup_func, group->teardown_func);
}

/* Run the tests of a file whose names contain part; the exit code. */
static int run_file(const char *file, hth_test_entry *const *entries, size_t n, const char *part)
{
    struct CMUnitTest *tests = calloc(n, sizeof(*tests));
    size_t n_tests = 0, n_groups = 0;
    int n_failed = 0;

    if (!tests)
        abort();
    for (size_t i = 0; i < n; i++)
        if (entries[i]->test.test_func && strstr(entries[i]->test.name, part))
            tests[n_tests++] = entries[i]->test;
    if (n_tests == 0) {
        (void)fprintf(stderr, "no test of %s_test.c has a name with '%s': --list prints the names\n", file, part);
        n_failed = 1;
    }
    for (size_t i = 0; i < n && n_tests > 0; i++)
        if (is_group(entries[i])) {
            n_groups++;
            n_failed += run_group(file, &entries[i]->test, tests, n_tests);
        }
    if (n_tests > 0 && n_groups == 0)
        n_failed = run_group(file, &(struct CMUnitTest){ .name = "all" }, tests, n_tests);
    free(tests);
    return n_failed != 0;
}

/* A process of its own keeps what a file sets, such as a variable of the environment, from the next one. */
static bool passes_alone(const char *file, hth_test_entry *const *entries, size_t n)
{
    int status = -1;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        exit(run_file(file, entries, n, ""));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int play(hth_test_entry *const *entries, size_t n, char **words)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i]->play)
            return entries[i]->play(words);
    return 127;
}

static void list(const char *file, hth_test_entry *const *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i]->test.test_func)
            (void)printf("%s %s\n", file, entries[i]->test.name);
}

int main(int argc, char **argv)
{
    const char *option = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
    bool lists = strcmp(option, "--list") == 0, plays = strcmp(option, "--play") == 0;
    const char *wanted = plays ? argv[2] : lists ? NULL : argv[1];
    size_t n, n_entries, n_files = 0, n_failed = 0;
    hth_test_entry **entries = all_entries(&n_entries);

    own_program = argv[0];
    if ((*option && !lists && !plays) || (plays && argc < 3)) {
        (void)fprintf(stderr, "usage: %s [FILE [PART OF A TEST'S NAME]] | --list\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < n_entries; i += n) {
        char file[NAME_BYTES];

        n = n_of_file(entries + i, n_entries - i);
        name_file(entries[i]->path, file);
        if (wanted && strcmp(wanted, file) != 0)
            continue;
        n_files++;
        if (lists) {
            list(file, entries + i, n);
        } else if (plays) {
            return play(entries + i, n, argv + 3);
        } else if (wanted || n == n_entries) {
            return run_file(file, entries + i, n, argc > 2 ? argv[2] : "");
        } else if (!passes_alone(file, entries + i, n)) {
            n_failed++;
            (void)fprintf(stderr, "%s_test.c has failed\n", file);
        }
    }
    if (n_files == 0) {
        (void)fprintf(stderr, "%s has no tests of a %s_test.c: --list prints the names\n", argv[0],
                      wanted ? wanted : "");
        return 1;
    }
    if (!lists)
        (void)printf("%zu of %zu files have failed\n", n_failed, n_files);
    return n_failed > 0;
}
