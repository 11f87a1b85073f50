/*
 * pressure_sources.h - samples of memory that programs print
 */
#ifndef HTH_SUPERVISOR_PRESSURE_SOURCES_H
#define HTH_SUPERVISOR_PRESSURE_SOURCES_H

#include "supervisor/pressure.h"

/* Parse lines of nvidia-smi, one "USED, TOTAL" in MiB for each device. False: text has another form. */
bool hth_pressure_read_devices(const char *text, hth_memory_limits *out);
/*
 * Parse a line of an operator's command: "USED TOTAL" in bytes, or a fraction, 0 to 1, of total_bytes. False: neither.
 */
bool hth_pressure_read_command(const char *text, uint64_t total_bytes, hth_memory_limits *out);

#endif
