/*
 * exit_code.h - the exit codes of the program
 */
#ifndef HTH_CONSOLE_EXIT_CODE_H
#define HTH_CONSOLE_EXIT_CODE_H

enum { HTH_EXIT_OK = 0, HTH_EXIT_FAILED = 1, HTH_EXIT_USAGE = 2, HTH_EXIT_INTERRUPTED = 130 };

#endif
