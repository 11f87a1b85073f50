/*
 * counted.c - counts the instructions of hot paths, under callgrind (counted.sh)
 *
 *   valgrind --tool=callgrind --collect-atstart=no counted DIRECTORY
 *
 * Prints the facts that counts depend on besides the code: compiler, processor, build type, C library.
 */
#include "counted.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <valgrind/callgrind.h>

#include "report.h"

void hth_count_begin(void)
{
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
}

void hth_count_end(const char *path)
{
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT(path);
}

/* Libraries choose their code by the processor that valgrind shows. */
static const char *processor_level(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? " with AVX2" : " without AVX2";
#else
    return "";
#endif
}

static void print_toolchain(void)
{
    struct utsname system;

    if (uname(&system) != 0)
        hth_report_die("cannot ask for the machine");
    printf("compiler %s, %s%s, %s, glibc %s\n", __VERSION__, system.machine, processor_level(), BENCH_BUILD_TYPE,
           gnu_get_libc_version());
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments != 2 || !RUNNING_ON_VALGRIND) {
        (void)fprintf(stderr, "usage: valgrind --tool=callgrind --collect-atstart=no counted DIRECTORY\n");
        return 2;
    }
    print_toolchain();
    hth_count_cache(arguments[1]);
    hth_count_requests();
    hth_count_replies();
    hth_count_tokens();
    return 0;
}
