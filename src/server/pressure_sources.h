/*
 * pressure_sources.h - samples of memory: files of the system, and lines of programs
 */
#ifndef HTH_SERVER_PRESSURE_SOURCES_H
#define HTH_SERVER_PRESSURE_SOURCES_H

#include "server/pressure.h"

/*
 * The machine and, on Linux, the limits of this process' cgroup (v2) and of those above it. The page cache counts as
 * free. root is "" for the system; tests have their own. A missing file is no limit. Reads some small files of the
 * kernel, which does not block.
 */
void hth_pressure_read_system(const char *root, hth_pressure_sample *out);
/* Lines of nvidia-smi, "USED, TOTAL" in MiB: a device each. False: text is something else. */
bool hth_pressure_read_devices(const char *text, hth_pressure_sample *out);
/* A line of an operator's command: "USED TOTAL" in bytes, or a share of 0 to 1 of total_bytes. False: neither. */
bool hth_pressure_read_command(const char *text, uint64_t total_bytes, hth_pressure_sample *out);

#endif
