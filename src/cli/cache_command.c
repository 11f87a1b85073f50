/*
 * cache_command.c - `hearth cache stat` and `hearth cache ls`: look into a cache directory
 *
 * A directory that is no cache is never made into one. What is shown is collected first and printed afterwards, so that
 * a slow terminal keeps no transaction open and other processes write on meanwhile.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/directory.h"
#include "cache/file_tier.h"
#include "cache/quarantine.h"
#include "cli/commands.h"

enum { PATH_BYTES = 4096, ROWS_FIRST = 256 };

static const char help[] =
    "usage: hearth cache stat [--json] [--cache DIR]\n"
    "       hearth cache ls [--json] [--kind KIND] [--limit N] [--cache DIR]\n"
    "\n"
    "stat sums up what a cache directory holds; ls lists its rows, the most recently used first.\n"
    "\n"
    "  --cache DIR   cache directory (default: $HEARTH_CACHE or ~/.cache/hearth/kv)\n"
    "  --kind KIND   only rows of this kind: block, tail, snapshot, state, logits\n"
    "  --limit N     at most N rows\n"
    "  --json        as JSON\n"
    "  -h, --help\n"
    "\n"
    "Exit codes: 0 done, 1 failed or nothing cached yet, 2 wrong usage.\n";

typedef struct options {
    const char *command; /* "stat" or "ls" */
    char directory[PATH_BYTES];
    bool as_json;
    bool has_kind;
    hth_row_kind kind;
    uint64_t limit;
} options;

/* ---- options ---- */

static bool read_kind(const char *text, hth_row_kind *out)
{
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        if (strcmp(text, hth_row_kind_name((hth_row_kind)kind)) == 0) {
            *out = (hth_row_kind)kind;
            return true;
        }
    }
    (void)fprintf(stderr, "hearth: --kind is '%s'; it must be block, tail, snapshot, state or logits\n", text);
    return false;
}

static bool read_limit(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno) {
        (void)fprintf(stderr, "hearth: --limit is '%s'; it must be a whole number from 0 on\n", text);
        return false;
    }
    *out = number;
    return true;
}

static bool set_directory(const char *text, options *out)
{
    if (!*text || strlen(text) >= sizeof(out->directory)) {
        (void)fprintf(stderr, "hearth: --cache is '%.200s'; it must be a directory\n", text);
        return false;
    }
    memcpy(out->directory, text, strlen(text) + 1);
    return true;
}

/* argv[0] is "stat" or "ls". False when the command is over, with *exit_out. */
static bool read_options(int argc, char **argv, options *out, int *exit_out)
{
    static const struct option stat_options[] = {
        { "json", no_argument, NULL, 'j' },
        { "cache", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    static const struct option ls_options[] = {
        { "json", no_argument, NULL, 'j' },       { "cache", required_argument, NULL, 'c' },
        { "kind", required_argument, NULL, 'k' }, { "limit", required_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
    };
    const struct option *long_options = strcmp(argv[0], "ls") == 0 ? ls_options : stat_options;
    int option;

    *out = (options){ .command = argv[0], .limit = UINT64_MAX };
    *exit_out = HTH_EXIT_USAGE;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        switch (option) {
        case 'j': out->as_json = true; break;
        case 'c':
            if (!set_directory(optarg, out))
                return false;
            break;
        case 'k':
            out->has_kind = true;
            if (!read_kind(optarg, &out->kind))
                return false;
            break;
        case 'l':
            if (!read_limit(optarg, &out->limit))
                return false;
            break;
        case 'h':
            (void)fputs(help, stdout);
            *exit_out = HTH_EXIT_OK;
            return false;
        default:
            (void)fprintf(stderr,
                          "hearth: 'cache %s' has no option '%s', or it lacks its value; see 'hearth cache "
                          "--help'\n",
                          argv[0], argv[optind - 1]);
            return false;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "hearth: 'cache %s' takes no argument '%s'\n", argv[0], argv[optind]);
        return false;
    }
    if (!*out->directory && !hth_cache_default_directory(out->directory, sizeof(out->directory))) {
        (void)fputs("hearth: no cache directory is known, since HOME is not set; give one with --cache\n", stderr);
        *exit_out = HTH_EXIT_FAILED;
        return false;
    }
    return true;
}

/* ---- what is there ---- */

typedef struct contents {
    hth_row_meta *rows; /* least recently used first */
    size_t n_rows;
    size_t capacity;
    bool has_kind;
    hth_row_kind kind;
    bool out_of_memory;

    hth_index_totals totals;
    uint64_t quota; /* 0: not known */
    size_t n_quarantined;
} contents;

static bool collect(const hth_row_meta *meta, void *user_data)
{
    contents *c = user_data;

    if (c->has_kind && meta->id.kind != c->kind)
        return true;
    if (c->n_rows == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : ROWS_FIRST;
        hth_row_meta *rows = realloc(c->rows, capacity * sizeof(*rows));

        c->out_of_memory = !rows;
        if (!rows)
            return false;
        c->rows = rows;
        c->capacity = capacity;
    }
    c->rows[c->n_rows++] = *meta;
    return true;
}

static hearth_status ask_index(hth_index *index, contents *out, hearth_error *err)
{
    hearth_status status = hth_index_totals_get(index, &out->totals, err);

    out->n_rows = 0;
    out->out_of_memory = false;
    if (status == HEARTH_OK)
        status = hth_index_quota(index, &out->quota, err);
    if (status == HEARTH_OK)
        status = hth_index_visit(index, true, collect, out, err);
    if (status == HEARTH_OK && out->out_of_memory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to list the rows; use --limit or --kind");
    return status;
}

/* Free out->rows afterwards, in any case. */
static hearth_status look(const options *o, contents *out, hearth_error *err)
{
    hth_file_tier_options tier_options = { .directory = o->directory, .bytes_max = UINT64_MAX };
    char path[PATH_BYTES + 16];
    hth_file_tier *tier = NULL;
    hearth_status status;
    hth_fs_stat st;

    (void)snprintf(path, sizeof(path), "%s/rows", o->directory);
    if (hth_fs_stat_path(hth_fs_system(), path, &st) == -ENOENT)
        return hth_fail(err, HEARTH_NOT_FOUND, "nothing is cached in '%s' yet; 'hearth run' fills it", o->directory);
    status = hth_file_tier_open(&tier_options, &tier, err);
    if (status != HEARTH_OK)
        return status;
    hth_file_tier_settle(tier);
    out->has_kind = o->has_kind;
    out->kind = o->kind;
    status = ask_index(hth_file_tier_index(tier), out, err);
    if (status == HEARTH_CORRUPT || status == HEARTH_IO) { /* damaged: it is made anew */
        hth_file_tier_maintain(tier);
        hth_file_tier_settle(tier);
        status = ask_index(hth_file_tier_index(tier), out, err);
    }
    (void)snprintf(path, sizeof(path), "%s/quarantine", o->directory);
    out->n_quarantined = hth_quarantine_count(hth_fs_system(), path);
    hth_file_tier_close(tier);
    return status;
}

/* ---- printing ---- */

/* "46.3 MiB". */
static const char *size_text(uint64_t bytes, char text[32])
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

/* "2026-01-31 12:00:00", local time. */
static const char *time_text(uint64_t seconds, char text[32])
{
    time_t time = (time_t)seconds;
    struct tm parts;

    if (!localtime_r(&time, &parts) || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(text, 32, "%" PRIu64, seconds);
    return text;
}

/* Print a JSON value and give it up; false when there was no memory for it. */
static bool print_json(json_t *value)
{
    bool printed = value && json_dumpf(value, stdout, JSON_INDENT(2)) == 0 && fputc('\n', stdout) != EOF;

    json_decref(value);
    return printed;
}

typedef struct sums {
    uint64_t rows[HTH_ROW_KINDS];
    uint64_t bytes[HTH_ROW_KINDS];
    uint64_t n_bytes;
    uint64_t n_hits;
} sums;

static sums sum_up(const contents *c)
{
    sums s = { .n_hits = 0 };

    for (size_t i = 0; i < c->n_rows; i++) {
        s.rows[c->rows[i].id.kind]++;
        s.bytes[c->rows[i].id.kind] += c->rows[i].bytes;
        s.n_bytes += c->rows[i].bytes;
        s.n_hits += c->rows[i].hit_count;
    }
    return s;
}

static bool print_stat_json(const options *o, const contents *c, const sums *s)
{
    json_t *kinds = json_object();
    json_t *object;

    for (int kind = 0; kind < HTH_ROW_KINDS; kind++)
        (void)json_object_set_new(kinds, hth_row_kind_name((hth_row_kind)kind),
                                  json_pack("{s:I, s:I}", "rows", (json_int_t)s->rows[kind], "bytes",
                                            (json_int_t)s->bytes[kind])); /* a lack of memory shows at the end */
    object = json_pack("{s:s, s:I, s:I, s:o, s:I, s:I, s:b}", "directory", o->directory, "rows", (json_int_t)c->n_rows,
                       "bytes", (json_int_t)s->n_bytes, "kinds", kinds, "hits", (json_int_t)s->n_hits, "quarantined",
                       (json_int_t)c->n_quarantined, "complete", (int)c->totals.complete);
    if (!object) {
        (void)fputs("hearth: the directory's name is no UTF-8, or there is no memory\n", stderr);
        return false;
    }
    (void)json_object_set_new(object, "quota_bytes", c->quota ? json_integer((json_int_t)c->quota) : json_null());
    (void)json_object_set_new(object, "oldest_use",
                              c->n_rows ? json_integer((json_int_t)c->rows[0].last_used_time) : json_null());
    (void)json_object_set_new(object, "newest_use",
                              c->n_rows ? json_integer((json_int_t)c->rows[c->n_rows - 1].last_used_time)
                                        : json_null());
    return print_json(object);
}

static bool print_stat(const options *o, const contents *c)
{
    sums s = sum_up(c);
    char a[32], b[32];

    if (o->as_json)
        return print_stat_json(o, c, &s);
    printf("directory    %s\n", o->directory);
    printf("rows         %zu, %s%s\n", c->n_rows, size_text(s.n_bytes, a),
           c->totals.complete ? "" : " (more are being counted)");
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++)
        if (s.rows[kind] > 0)
            printf("  %-10s %" PRIu64 ", %s\n", hth_row_kind_name((hth_row_kind)kind), s.rows[kind],
                   size_text(s.bytes[kind], a));
    if (c->quota)
        printf("quota        %s\n", size_text(c->quota, a));
    if (c->n_rows > 0)
        printf("last used    %s to %s\n", time_text(c->rows[0].last_used_time, a),
               time_text(c->rows[c->n_rows - 1].last_used_time, b));
    printf("hits         %" PRIu64 "\n", s.n_hits);
    printf("quarantined  %zu\n", c->n_quarantined);
    return true;
}

static bool print_rows_json(const contents *c, uint64_t limit)
{
    json_t *array = json_array();

    for (size_t i = c->n_rows; i-- > 0 && limit-- > 0;) {
        const hth_row_meta *row = &c->rows[i];
        char key[2 * HTH_KEY_BYTES + 1];

        hth_hex_encode(row->id.key.bytes, HTH_KEY_BYTES, key);
        if (json_array_append_new(
                array, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "key", key, "kind",
                                 hth_row_kind_name(row->id.kind), "first_position", (json_int_t)row->first_position,
                                 "tokens", (json_int_t)row->n_tokens, "bytes", (json_int_t)row->bytes, "last_used_time",
                                 (json_int_t)row->last_used_time, "hits", (json_int_t)row->hit_count)) != 0) {
            json_decref(array);
            return false;
        }
    }
    return print_json(array);
}

static bool print_rows(const options *o, const contents *c)
{
    uint64_t limit = o->limit;

    if (o->as_json)
        return print_rows_json(c, limit);
    printf("%-64s  %-8s  %8s  %6s  %12s  %-19s  %6s\n", "key", "kind", "position", "tokens", "bytes", "last used",
           "hits");
    for (size_t i = c->n_rows; i-- > 0 && limit-- > 0;) {
        const hth_row_meta *row = &c->rows[i];
        char key[2 * HTH_KEY_BYTES + 1], time[32];

        hth_hex_encode(row->id.key.bytes, HTH_KEY_BYTES, key);
        printf("%s  %-8s  %8" PRIu32 "  %6" PRIu32 "  %12" PRIu64 "  %-19s  %6" PRIu32 "\n", key,
               hth_row_kind_name(row->id.kind), row->first_position, row->n_tokens, row->bytes,
               time_text(row->last_used_time, time), row->hit_count);
    }
    return true;
}

/* ---- the command ---- */

static int show(const options *o)
{
    hearth_error err = { .message = "" };
    contents c = { .n_rows = 0 };
    int result = HTH_EXIT_FAILED;

    if (look(o, &c, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "hearth: %s\n", err.message);
    } else if (!(strcmp(o->command, "ls") == 0 ? print_rows(o, &c) : print_stat(o, &c)) || fflush(stdout) != 0 ||
               ferror(stdout)) {
        (void)fputs("hearth: the output could not be written\n", stderr);
    } else {
        result = HTH_EXIT_OK;
    }
    free(c.rows);
    return result;
}

int hth_command_cache(int argc, char **argv)
{
    options o;
    int result;

    if (argc < 2) {
        (void)fputs(help, stderr);
        return HTH_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        (void)fputs(help, stdout);
        return HTH_EXIT_OK;
    }
    if (strcmp(argv[1], "stat") != 0 && strcmp(argv[1], "ls") != 0) {
        (void)fprintf(stderr, "hearth: 'cache' has no command '%s'; it has stat and ls\n", argv[1]);
        return HTH_EXIT_USAGE;
    }
    return read_options(argc - 1, argv + 1, &o, &result) ? show(&o) : result;
}
