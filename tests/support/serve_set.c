#include "support/serve_set.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/cmocka_all.h"

enum { ARGS_MAX = 64 };

hth_serve_set *hth_test_set_of_words(int argc, char **argv, hth_problems *problems)
{
    static hth_serve_options flags; /* large */

    memset(problems, 0, sizeof(*problems));
    hth_serve_options_init(&flags);
    assert_int_equal(hth_option_table_parse(&hth_serve_flags, "hearth serve", argc, argv, &flags), argc);
    return hth_serve_set_new(argc, argv, &flags, problems);
}

hth_serve_set *hth_test_set_of_flags(char *line, hth_problems *problems)
{
    char *argv[ARGS_MAX + 1] = { (char *)"serve" };
    int argc = 1;

    for (char *word = strtok(line, " "); word && argc < ARGS_MAX; word = strtok(NULL, " "))
        argv[argc++] = word;
    return hth_test_set_of_words(argc, argv, problems);
}

void hth_test_file_write(const char *directory, const char *name, const char *text, mode_t mode)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}
