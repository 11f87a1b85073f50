/*
 * models_folder_test.c - names of the models in a folder, from files and from their metadata
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/gguf_text.h"
#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/serve_set.h"
#include "support/support.h"

enum { BYTES_MAX = 4096 };

static hth_problems problems;

typedef struct file {
    uint8_t bytes[BYTES_MAX];
    size_t n;
} file;

static void put_u32(file *f, uint32_t value)
{
    hth_put_u32(f->bytes + f->n, value);
    f->n += 4;
}

static void put_u64(file *f, uint64_t value)
{
    hth_put_u64(f->bytes + f->n, value);
    f->n += 8;
}

static void put_text(file *f, const char *text)
{
    put_u64(f, strlen(text));
    memcpy(f->bytes + f->n, text, strlen(text));
    f->n += strlen(text);
}

/* The beginning of a GGUF file with members of all kinds before a name. */
static file file_named(const char *name)
{
    file f = { .n = 4 };

    memcpy(f.bytes, "GGUF", 4);
    put_u32(&f, 3);
    put_u64(&f, 0);
    put_u64(&f, 5);
    put_text(&f, "general.architecture");
    put_u32(&f, 8);
    put_text(&f, "llama");
    put_text(&f, "general.numbers");
    put_u32(&f, 9);
    put_u32(&f, 5);
    put_u64(&f, 2);
    put_u64(&f, 0x700000001);
    put_text(&f, "general.tags");
    put_u32(&f, 9);
    put_u32(&f, 8);
    put_u64(&f, 2);
    put_text(&f, "general.name");
    put_text(&f, "");
    put_text(&f, "general.is_good");
    put_u32(&f, 7);
    f.bytes[f.n++] = 1;
    put_text(&f, "general.name");
    put_u32(&f, 8);
    put_text(&f, name);
    return f;
}

static void write_file(const char *directory, const char *name, const file *f)
{
    char path[600];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, f->bytes, f->n), (ssize_t)f->n);
    assert_int_equal(close(fd), 0);
}

static void write_named(const char *directory, const char *file_name, const char *name)
{
    const file f = file_named(name);

    write_file(directory, file_name, &f);
}

#define FIXTURE_TEST(name) TEST_IN(char, directory, name, hth_test_directory_set_up, hth_test_directory_tear_down)

/* The names of the models in the folder, each with its alias in brackets, if it has one, and a space behind it. */
static void assert_names(const char *directory, const char *options, const char *expected)
{
    char line[700], names[1024] = "";
    hth_serve_set *set;

    (void)snprintf(line, sizeof(line), "--models-dir %s %s", directory, options);
    set = hth_test_set_of_flags(line, &problems);
    assert_int_equal(problems.n_errors, 0);
    for (size_t i = 0; i < set->options.n_models; i++) {
        const size_t n = strlen(names);

        const hth_server_model *model = &set->options.models[i];

        (void)snprintf(names + n, sizeof(names) - n, model->n_aliases ? "%s[%s] " : "%s ", model->name,
                       model->n_aliases ? model->aliases[0] : "");
    }
    assert_string_equal(names, expected);
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_name_of_metadata_is_made_safe)
{
    write_named(directory, "a.gguf", "Llama 3.2 1B (Instruct)");
    write_named(directory, "b.gguf", "../../etc/passwd");
    write_named(directory, "c.gguf", "\xe6\xa8\xa1");
    write_named(directory, "d-00001-of-00002.gguf", "  Big_Model.v2 ");
    assert_names(directory, "--models-dir-names metadata",
                 "Big_Model.v2[  Big_Model.v2 ] Llama-3.2-1B-Instruct[Llama 3.2 1B (Instruct)] b c ");
    assert_names(directory, "--models-dir-names file", "a b c d ");
    assert_names(directory, "", "a b c d ");
}

FIXTURE_TEST(names_that_several_models_have_are_those_of_their_files)
{
    write_named(directory, "q4.gguf", "Tiny");
    write_named(directory, "q8.gguf", "Tiny");
    write_named(directory, "other.gguf", "q8"); /* and then the name of that file */
    write_named(directory, "last.gguf", "other");
    write_named(directory, "own.gguf", "own");
    assert_names(directory, "--models-dir-names metadata", "last other own q4 q8 ");
}

/* Whatever the order in which the folder lists them, and whatever else is there. */
FIXTURE_TEST(every_file_is_served_whatever_its_name)
{
    char sub[600];

    (void)snprintf(sub, sizeof(sub), "%s/sub dir", directory);
    assert_int_equal(mkdir(sub, 0700), 0);
    write_named(directory, "with space.gguf", "Tiny One");
    write_named(directory, "\xe6\xa8\xa1.gguf", "Tiny Two");
    write_named(directory, "-(x).gguf", "Tiny Two");
    write_named(directory, "a*b.gguf", "*");
    assert_names(directory, "", "a-b model[\xe6\xa8\xa1] with-space[with space] x[-(x)] ");
    assert_names(directory, "--models-dir-names metadata", "Tiny-One[Tiny One] a-b model[\xe6\xa8\xa1] x[-(x)] ");
    write_named(directory, "a-b.gguf", "");
    write_named(sub, "plain.gguf", "");
    write_named(directory, "plain.gguf", "");
    write_named(directory, "plain-00001-of-00002.gguf", "");
    write_named(directory, "\xe5\x9e\x8b.gguf", "");
    assert_names(directory, "",
                 "a-b a-b-fdf4c157 model-01a8eed6[\xe5\x9e\x8b] model-307422b4[\xe6\xa8\xa1] plain "
                 "plain-00001-of-00002 sub-dir/plain[sub dir/plain] with-space[with space] x[-(x)] ");
}

/* Models that were named win over files of the same name, and hide no other file. */
FIXTURE_TEST(a_derived_name_gives_way)
{
    write_named(directory, "a b.gguf", "");
    write_named(directory, "c.gguf", "");
    assert_names(directory, "-m a-b=stub: -m c=stub:", "a-b c a-b-63df6594[a b] ");
}

FIXTURE_TEST(a_model_of_the_command_line_keeps_its_name)
{
    write_named(directory, "q4.gguf", "Tiny");
    assert_names(directory, "--models-dir-names metadata -m Tiny=stub:", "Tiny q4 ");
}

/* Read the name in the first n bytes of a file. */
static bool has_name(const char *directory, const file *f, size_t n)
{
    char path[600], name[64];
    file part = { .n = n };
    bool found;
    int fd;

    memcpy(part.bytes, f->bytes, n);
    write_file(directory, "f.gguf", &part);
    (void)snprintf(path, sizeof(path), "%s/f.gguf", directory);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    found = hth_gguf_text_read(fd, "general.name", name, sizeof(name));
    assert_int_equal(close(fd), 0);
    return found;
}

FIXTURE_TEST(files_that_are_cut_or_lie_have_no_name)
{
    const file whole = file_named("Tiny");

    for (size_t n = 0; n <= whole.n; n++)
        assert_int_equal(has_name(directory, &whole, n), n == whole.n);
    for (size_t at = 0; at < whole.n; at++) { /* each byte at its largest: nothing is read beyond the file */
        file wrong = whole;

        wrong.bytes[at] = 0xff;
        (void)has_name(directory, &wrong, wrong.n); /* either; the sanitizers look */
    }
}
