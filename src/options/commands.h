/*
 * commands.h - the commands of the program, one function for each
 *
 * argv[0] is the name of the command. The result is an exit code (console/output.h).
 * Messages go to standard error and begin with "hearth: "; results go to standard output.
 * Each command has a manual.
 */
#ifndef HTH_OPTIONS_COMMANDS_H
#define HTH_OPTIONS_COMMANDS_H

#include "console/output.h"
#include "options/manual.h"

int hth_command_chat(int argc, char **argv);
int hth_command_run(int argc, char **argv);
int hth_command_bench(int argc, char **argv);
int hth_command_embed(int argc, char **argv);
int hth_command_serve(int argc, char **argv);
int hth_command_pull(int argc, char **argv);
int hth_command_models(int argc, char **argv);
int hth_command_ps(int argc, char **argv);
int hth_command_key(int argc, char **argv);
int hth_command_fleet(int argc, char **argv);
int hth_command_worker(int argc, char **argv);
int hth_command_carrier(int argc, char **argv);
int hth_command_version(int argc, char **argv);
int hth_command_kvc(int argc, char **argv);
int hth_command_cache(int argc, char **argv);
int hth_command_convert(int argc, char **argv);
int hth_command_help(int argc, char **argv);
int hth_command_completion(int argc, char **argv);

extern const hth_manual hth_chat_manual;
extern const hth_manual hth_run_manual;
extern const hth_manual hth_bench_manual;
extern const hth_manual hth_embed_manual;
extern const hth_manual hth_serve_manual;
extern const hth_manual hth_pull_manual;
extern const hth_manual hth_models_manual;
extern const hth_manual hth_ps_manual;
extern const hth_manual hth_key_manual;
extern const hth_manual hth_fleet_manual;
extern const hth_manual hth_worker_manual;
extern const hth_manual hth_carrier_manual;
extern const hth_manual hth_cache_manual;
extern const hth_manual hth_convert_manual;
extern const hth_manual hth_kvc_manual;
extern const hth_manual hth_version_manual;
extern const hth_manual hth_help_manual;
extern const hth_manual hth_completion_manual;

#endif
