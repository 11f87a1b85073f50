/*
 * short_program.h - runs a program that prints a few lines and ends, without blocking the event loop
 *
 * A program that does not end in time, or prints more than 4 KiB, is killed with its children and counts as failed.
 * Event loop only; nothing blocks.
 */
#ifndef HTH_SUPERVISOR_SHORT_PROGRAM_H
#define HTH_SUPERVISOR_SHORT_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "hearth.h"

struct event_base;

typedef struct hth_short_program hth_short_program;

/*
 * The program has ended. output has its first lines, including standard error. is_good: it ended in time with status 0.
 */
typedef void (*hth_program_ended_fn)(const char *output, bool is_good, void *user_data);

hearth_status hth_short_program_new(struct event_base *base, hth_program_ended_fn on_ended, void *user_data,
                                    hth_short_program **out, hearth_error *err);
void hth_short_program_free(hth_short_program *program); /* kills it; accepts NULL */
/*
 * Start the program argv[0]; argv is as for execv. HEARTH_BUSY: the last one has not ended; other statuses as
 * hth_spawn.
 */
hearth_status hth_short_program_start(hth_short_program *program, const char *const *argv, uint32_t timeout_ms,
                                      hearth_error *err);
/* The same for a shell command line. */
hearth_status hth_short_program_start_shell(hth_short_program *program, const char *command, uint32_t timeout_ms,
                                            hearth_error *err);

#endif
