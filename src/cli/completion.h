/*
 * completion.h - what the completions of all shells are made of
 *
 * A page is a command without verbs, or a verb. Its path is "run" or "cache ls".
 */
#ifndef HTH_CLI_COMPLETION_H
#define HTH_CLI_COMPLETION_H

#include <stdio.h>

#include "cli/command_list.h"

enum { HTH_COMPLETION_WORDS_BYTES = 1024 };

typedef void (*hth_completion_page_fn)(const char *path, const hth_manual *manual, FILE *out);
/* Run visit for each page. */
void hth_completion_visit(hth_completion_page_fn visit, FILE *out);
/* The options that a page takes, without headings; for all pages, at most HTH_OPTIONS_MAX. */
size_t hth_completion_options(const hth_manual *manual, const hth_option *out[HTH_OPTIONS_MAX]);
/*
 * The kind of an option's value, as in the arguments of a manual: HTH_COMPLETE_..., or words separated by '|', written
 * to words. NULL: it takes no value, or it may be left out.
 */
const char *hth_completion_value(const hth_option *option, char words[HTH_COMPLETION_WORDS_BYTES]);

/* Print the completion of a shell. */
void hth_completion_bash(FILE *out);
void hth_completion_zsh(FILE *out);
void hth_completion_fish(FILE *out);

#endif
