/* Starting DPDK the same way in both peers: nothing shared between processes, no PCI probing,
 * one core; 2 MiB pages where the machine gives them, else 4 KiB pages (--no-huge). */
#ifndef PLEXUS_PEERS_EAL_H
#define PLEXUS_PEERS_EAL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>

#define HUGE_DIR "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static long huge_before = -1; /* pages reserved before we asked for more; -1: nothing to undo */

static long huge_read(const char *name)
{
	long v = 0;
	FILE *f = fopen(name, "r");

	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld", &v) != 1)
		v = 0;
	fclose(f);
	return v;
}

static void huge_write(long pages)
{
	FILE *f = fopen(HUGE_DIR "nr_hugepages", "w");

	if (f != NULL) {
		fprintf(f, "%ld\n", pages);
		fclose(f);
	}
}

/* Pages still mapped become surplus and go back to the kernel when the process ends. */
static void huge_restore(void)
{
	if (huge_before >= 0)
		huge_write(huge_before);
	huge_before = -1;
}

/* True when `megabytes` of 2 MiB pages are free, having reserved what was missing. */
static bool huge_reserve(long megabytes)
{
	long need = (megabytes + 1) / 2, free_pages = huge_read(HUGE_DIR "free_hugepages");

	if (free_pages >= need)
		return true;
	huge_before = huge_read(HUGE_DIR "nr_hugepages");
	huge_write(huge_before + need - free_pages);
	if (huge_read(HUGE_DIR "free_hugepages") >= need) {
		atexit(huge_restore);
		return true;
	}
	huge_restore();
	return false;
}

/* Returns "2M" or "4k"; ends the process with a message where DPDK does not start.
 * `extra`: NULL-terminated further EAL arguments. */
static const char *eal_start(int cpu, long megabytes, bool want_huge, const char *const *extra)
{
	char *argv[24], core[16], mem[16];
	int argc = 0;
	bool huge = want_huge && huge_reserve(megabytes);

	snprintf(core, sizeof(core), "%d", cpu);
	snprintf(mem, sizeof(mem), "%ld", megabytes);
	argv[argc++] = (char *)"peer";
	argv[argc++] = (char *)"-l";
	argv[argc++] = core;
	argv[argc++] = (char *)(huge ? "--in-memory" : "--no-shconf"); /* they exclude each other */
	argv[argc++] = (char *)"--no-pci";
	argv[argc++] = (char *)"--no-telemetry";
	argv[argc++] = (char *)"--log-level=error";
	if (!huge) {
		argv[argc++] = (char *)"--no-huge";
		argv[argc++] = (char *)"-m";
		argv[argc++] = mem;
	}
	for (; extra != NULL && *extra != NULL && argc < 23; extra++)
		argv[argc++] = (char *)*extra;
	argv[argc] = NULL;
	if (rte_eal_init(argc, argv) < 0) {
		fprintf(stderr, "DPDK does not start on CPU %d with %s pages; is the CPU online, "
			"are %ld MB free?\n", cpu, huge ? "2 MiB" : "4 KiB", megabytes);
		exit(1);
	}
	return huge ? "2M" : "4k";
}

#endif
