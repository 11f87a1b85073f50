/*
 * kvc_verbs.h - what the verbs of `hearth kvc` share; all return an exit code
 */
#ifndef HTH_CLI_KVC_VERBS_H
#define HTH_CLI_KVC_VERBS_H

/* Say what is wrong with how command ("kvc key") was called, and where help is. */
int hth_kvc_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What getopt_long found wrong; result is '?' or ':', argv as it was given. */
int hth_kvc_option_error(const char *command, int result, char **argv);
/* Output that could not be written is a failure, whatever was to be told. */
int hth_kvc_finish_output(int exit_code);

/* `hearth kvc key`; argv begins with "key". */
int hth_kvc_key(int argc, char **argv);

#endif
