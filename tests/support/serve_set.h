/*
 * serve_set.h - options of `hearth serve` from a command line, and the files that it names
 */
#ifndef HTH_TESTS_SERVE_SET_H
#define HTH_TESTS_SERVE_SET_H

#include <sys/types.h>

#include "options/serve_config.h"

/* What a command line, words between spaces, comes to; problems begins empty. line is cut, and outlives the set. */
hth_serve_set *hth_test_set_of_flags(char *line, hth_problems *problems);
/* The same of words that may have spaces, [argc] with the name of the program; they outlive the set. */
hth_serve_set *hth_test_set_of_words(int argc, char **argv, hth_problems *problems);
/* A file in a directory, with this text and mode. */
void hth_test_file_write(const char *directory, const char *name, const char *text, mode_t mode);

#endif
