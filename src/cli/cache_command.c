/*
 * cache_command.c - `hearth cache`: what its verbs share, and which is called
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cli/cache_verbs.h"
#include "cli/commands.h"
#include "cli/interrupt.h"

/* Set by the thread that waits for signals. */
static atomic_bool interrupted;

static void note_interrupt(void *user_data)
{
    (void)user_data;
    atomic_store(&interrupted, true);
}

void hth_cache_command_watch(void)
{
    (void)hth_interrupt_watch(note_interrupt,
                              NULL); /* without it Ctrl-C ends the command at once, which is safe, too */
}

bool hth_cache_command_interrupted(void)
{
    return atomic_load(&interrupted);
}

hearth_status hth_cache_command_open(const hth_cache_command_options *options, bool make, hth_file_tier **out,
                                     hearth_error *err)
{
    hth_file_tier_options tier_options = {
        .directory = options->directory,
        .bytes_max = UINT64_MAX,
        .durable = true,
    };
    char path[HTH_CACHE_PATH_BYTES + 16];
    hearth_status status;
    hth_fs_stat st;

    (void)snprintf(path, sizeof(path), "%s/rows", options->directory);
    if (!make && hth_fs_stat_path(hth_fs_system(), path, &st) == -ENOENT)
        return hth_fail(err, HEARTH_NOT_FOUND, "nothing is cached in '%s' yet; 'hearth run' fills it",
                        options->directory);
    status = hth_file_tier_open(&tier_options, out, err);
    if (status == HEARTH_OK)
        hth_file_tier_settle(*out);
    return status;
}

const char *hth_size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

int hth_cache_command_fail(hearth_status status, const hearth_error *err)
{
    if (status == HEARTH_CANCELLED && hth_cache_command_interrupted()) {
        (void)fputs("hearth: interrupted; what was done so far stays done\n", stderr);
        return HTH_EXIT_INTERRUPTED;
    }
    (void)fprintf(stderr, "hearth: %s\n", err->message);
    return HTH_EXIT_FAILED;
}

int hth_command_cache(int argc, char **argv)
{
    hth_cache_command_options options;
    int result;

    if (argc < 2) {
        hth_cache_help_print(true);
        return HTH_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        hth_cache_help_print(false);
        return HTH_EXIT_OK;
    }
    if (!hth_cache_options_parse(argc - 1, argv + 1, &options, &result))
        return result;
    switch (options.verb) {
    case HTH_CACHE_STAT:
    case HTH_CACHE_LS: return hth_cache_show(&options);
    case HTH_CACHE_EXPORT:
    case HTH_CACHE_IMPORT: return hth_cache_transfer(&options);
    default: return hth_cache_care(&options);
    }
}
