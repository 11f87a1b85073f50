/*
 * option_table_test.c - values of options as text and back, tables within tables, and names that were nearly right
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "console/nearest.h"
#include "options/option_table.h"
#include "options/values.h"
#include "support/cmocka_all.h"

typedef struct part {
    uint32_t count;
    uint32_t time_ms;
    uint64_t bytes;
} part;

typedef struct options {
    bool flag;
    const char *text;
    const char *list[3];
    size_t n_list;
    part inside;
} options;

static bool add(void *context, const char *shown, const char *value, hearth_error *err)
{
    options *o = context;

    return hth_value_add_text(o->list, &o->n_list, 3, shown, value, err);
}

static const hth_option part_rows[] = {
    { "count", 'n', HTH_OPTION_U32, "N", "", .offset = offsetof(part, count), .low = 1, .high = 9, .key = "count" },
    { "time", 0, HTH_OPTION_MS, "MS", "", .offset = offsetof(part, time_ms), .low = 0, .high = UINT32_MAX },
    { "bytes", 0, HTH_OPTION_SIZE, "SIZE", "", .offset = offsetof(part, bytes), .low = 0 },
};
static const hth_option_table part_table = { part_rows, 3 };

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Heading" },
    { "flag", 0, HTH_OPTION_FLAG, NULL, "", .offset = offsetof(options, flag) },
    { "text", 't', HTH_OPTION_TEXT, "TEXT", "", .offset = offsetof(options, text) },
    { "list", 0, HTH_OPTION_OWN, "TEXT", "", .read = add, .repeats = true },
    { .kind = HTH_OPTION_TABLE, .table = &part_table, .offset = offsetof(options, inside), .key = "part" },
};
static const hth_option_table table = { rows, 5 };

TEST(the_first_numbers_may_have_names)
{
    static const char *const words[] = { "auto", "all", NULL };
    static const hth_option row = { "layers", 0, HTH_OPTION_I32, "N", "", .low = -2, .high = 9, .words = words };
    static const struct {
        const char *text;
        int32_t number;
        const char *written;
    } cases[] = { { "auto", -2, "auto" }, { "all", -1, "all" }, { "-1", -1, "all" }, { "0", 0, "0" }, { "9", 9, "9" } };
    char text[64];
    int32_t number;
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(hth_option_read(&row, &number, "--layers", cases[i].text, &err));
        assert_int_equal(number, cases[i].number);
        assert_true(hth_option_write(&row, &number, 0, text, sizeof(text)));
        assert_string_equal(text, cases[i].written);
    }
    assert_false(hth_option_read(&row, &number, "--layers", "al", &err));
    assert_false(hth_option_read(&row, &number, "--layers", "10", &err));
}

TEST(a_number_is_written_so_that_it_reads_as_the_same_number)
{
    static const hth_option row = { "number", 0, HTH_OPTION_NUMBER, "X", "", .offset = 0 };
    static const struct {
        double number;
        const char *text;
    } cases[] = { { 0.8, "0.8" }, { 1.0 / 7, "0.14285714285714285" }, { 9007199254740991.0, "9007199254740991" } };
    char text[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(hth_option_write(&row, &cases[i].number, 0, text, sizeof(text)));
        assert_string_equal(text, cases[i].text);
    }
    assert_false(hth_option_write(&row, &cases[1].number, 0, text, 10));
}

static int parse(options *o, const char *line)
{
    static char text[512]; /* what the options point into */
    char *argv[32] = { (char *)"test" };
    int argc = 1;

    (void)snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word && argc < 31; word = strtok(NULL, " "))
        argv[argc++] = word;
    return hth_option_table_parse(&table, "test", argc, argv, o);
}

TEST(options_of_tables_within_tables_go_to_their_places)
{
    options o = { .flag = false };

    assert_int_equal(parse(&o, "--flag -t hello -n 5 --time 2s --bytes 3K rest"), 10);
    assert_true(o.flag);
    assert_string_equal(o.text, "hello");
    assert_int_equal(o.inside.count, 5);
    assert_int_equal(o.inside.time_ms, 2000);
    assert_int_equal(o.inside.bytes, 3072);
    assert_int_equal(parse(&o, "--count 10"), -1);
    assert_int_equal(parse(&o, "--cuont 1"), -1);
    assert_int_equal(parse(&o, "--count"), -1);
    assert_int_equal(parse(&o, "--flag=1"), -1);
}

TEST(a_list_of_the_command_line_takes_the_place_of_what_was_there)
{
    options o = { .list = { "old" }, .n_list = 1 };

    assert_int_equal(parse(&o, "--flag"), 2);
    assert_int_equal(o.n_list, 1);
    assert_int_equal(parse(&o, "--list a --list b --list c"), 7);
    assert_int_equal(o.n_list, 3);
    assert_string_equal(o.list[0], "a");
    assert_int_equal(parse(&o, "--list a --list b --list c --list d"), -1);
}

TEST(a_table_with_a_key_may_stay_whole)
{
    hth_flat_table flat;

    hth_option_table_flatten(&table, false, &flat);
    assert_int_equal(flat.n, 5);
    assert_ptr_equal(flat.rows[4].option, &rows[4]);
    hth_option_table_flatten(&table, true, &flat);
    assert_int_equal(flat.n, 7);
    assert_ptr_equal(flat.rows[5].option, &part_rows[1]);
    assert_int_equal(flat.rows[5].offset, offsetof(options, inside));
    assert_null(hth_option_table_find(&table, "count")); /* which is one of the table within */
}

TEST(sizes_and_times_are_written_as_they_are_read)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = { { 0, "0" },
                  { 1, "1" },
                  { 1024, "1kb" },
                  { 1025, "1025" },
                  { 3 << 20, "3mb" },
                  { UINT64_C(64) << 30, "64gb" },
                  { UINT64_C(2048) << 30, "2tb" },
                  { UINT64_MAX, "18446744073709551615" } };
    static const struct {
        uint32_t ms;
        const char *text;
    } times[] = { { 0, "0" }, { 250, "250" }, { 30000, "30s" }, { 30001, "30001" }, { UINT32_MAX, "4294967295" } };
    part p = { .count = 1 };
    hearth_error err;
    char text[64];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        p.bytes = sizes[i].bytes;
        assert_true(hth_option_write(&part_rows[2], &p, 0, text, sizeof(text)));
        assert_string_equal(text, sizes[i].text);
        assert_true(hth_option_read(&part_rows[2], &p, "x", text, &err));
        assert_int_equal(p.bytes, sizes[i].bytes);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        p.time_ms = times[i].ms;
        assert_true(hth_option_write(&part_rows[1], &p, 0, text, sizeof(text)));
        assert_string_equal(text, times[i].text);
        assert_true(hth_option_read(&part_rows[1], &p, "x", text, &err));
        assert_int_equal(p.time_ms, times[i].ms);
    }
    p.bytes = UINT64_MAX;
    assert_false(hth_option_write(&part_rows[2], &p, 0, text, 5));
    assert_false(hth_option_write(&part_rows[2], &p, 1, text, sizeof(text)));
}

TEST(units_are_read_in_their_usual_forms)
{
    static const char *const same[] = { "2048", "2k", "2K", "2kb", "2KB", "2KiB", "2kib" };
    static const char *const wrong_sizes[] = { "", "k", "-1", " 1", "1 k", "1kbit", "1bb", "1b", "1p", "0x10", "1.5g" };
    static const char *const wrong_times[] = { "", "s", "-1", "1 s", "1m", "1sec", "1.5s", "9999999h", "5000000000" };
    hearth_error err;
    uint64_t bytes;
    uint32_t ms;

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        assert_true(hth_value_size("x", same[i], 0, &bytes, &err));
        assert_int_equal(bytes, 2048);
    }
    for (size_t i = 0; i < sizeof(wrong_sizes) / sizeof(wrong_sizes[0]); i++)
        assert_false(hth_value_size("x", wrong_sizes[i], 0, &bytes, &err));
    assert_true(hth_value_ms("x", "5min", 0, UINT32_MAX, &ms, &err));
    assert_int_equal(ms, 300000);
    assert_true(hth_value_ms("x", "1d", 0, UINT32_MAX, &ms, &err));
    assert_int_equal(ms, 86400000);
    for (size_t i = 0; i < sizeof(wrong_times) / sizeof(wrong_times[0]); i++)
        assert_false(hth_value_ms("x", wrong_times[i], 0, UINT32_MAX, &ms, &err));
    assert_false(hth_value_ms("x", "10", 11, 20, &ms, &err));
    assert_false(hth_value_ms("x", "21", 11, 20, &ms, &err));
}

static const char *nearest_of(const char *wanted)
{
    static const char *const names[] = { "context", "cache", "type_k", "type_v", "queue_max", "n" };
    hth_nearest nearest;

    hth_nearest_init(&nearest, wanted);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        hth_nearest_try(&nearest, names[i]);
    return nearest.name ? nearest.name : "none";
}

TEST(a_misspelt_name_finds_the_nearest)
{
    char longer[200];

    assert_string_equal(nearest_of("contxt"), "context");
    assert_string_equal(nearest_of("ocntext"), "context"); /* neighbours swapped */
    assert_string_equal(nearest_of("contexts"), "context");
    assert_string_equal(nearest_of("cahce"), "cache");
    assert_string_equal(nearest_of("queue-max"), "queue_max");
    assert_string_equal(nearest_of("type"), "type_k");
    assert_string_equal(nearest_of("zebra"), "none");
    assert_string_equal(nearest_of("m"), "none");
    assert_string_equal(nearest_of(""), "none");
    memset(longer, 'c', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_string_equal(nearest_of(longer), "none");
}
