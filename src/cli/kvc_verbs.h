/*
 * kvc_verbs.h - code that the verbs of `hearth kvc` share
 */
#ifndef HTH_CLI_KVC_VERBS_H
#define HTH_CLI_KVC_VERBS_H

#include <stdbool.h>

#include "options/manual.h"
#include "hearth.h"

/* Print the error in the command line of command ("kvc key") and a hint to the help. Returns the exit code. */
int hth_kvc_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is value a SHA-256 hash in hex? An hth_option_check_fn. */
bool hth_kvc_check_hash(const char *shown, const char *value, hearth_error *err);

/* Run `hearth kvc key`; argv begins with "key". Returns the exit code. */
int hth_kvc_key(int argc, char **argv);
extern const hth_manual hth_kvc_key_manual;

#endif
