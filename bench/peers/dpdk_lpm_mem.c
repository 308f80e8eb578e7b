/* DPDK's longest-prefix match in memory: rte_fib (DIR-24-8) or rte_fib6 (trie) with the best of its
 * lookup functions, or rte_lpm, on routes and keys that are handed over in files.
 *
 * Standard input holds lines "KIND FILE SECONDS"; each is answered by one line of JSON. KIND is
 * "bulk": FILE's keys in batches, or "dependent": one by one, each chosen by the answer before it.
 * Waiting for a line costs nothing, so that this process and its rival can take turns. A line with
 * KIND and FILE of the one before it is answered with the keys and the function chosen then.
 *
 * Files hold what is in memory, without padding, integers as this machine has them:
 *   routes   IPv4: address u32, length u8, 0, group u16       IPv6: 16 bytes, u8, 0, u16
 *   keys     IPv4: u32                                        IPv6: 16 bytes
 */
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_version.h>

#include "eal.h"

#define BURST 64
/* The answer where there is no route. */
#define NONE 32767
#define LOOKUPS_MAX 4
#define ROUNDS_MAX 65536u
/* Dependent lookups to a round. */
#define STEPS 65536u

struct route4 {
	uint32_t addr;
	uint8_t len, zero;
	uint16_t group;
};

struct route6 {
	uint8_t addr[16];
	uint8_t len, zero;
	uint16_t group;
};

struct bench {
	struct rte_fib *fib;
	struct rte_fib6 *fib6;
	struct rte_lpm *lpm;
	size_t key_size;
	/* What may be chosen among, and its names. */
	const char *names[LOOKUPS_MAX];
	int types[LOOKUPS_MAX];
	unsigned int types_count;
};

static void *slurp(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	void *data;

	if (f == NULL || fseek(f, 0, SEEK_END) != 0)
		rte_exit(1, "%s: cannot be read\n", path);
	*bytes = ftell(f);
	rewind(f);
	data = aligned_alloc(64, RTE_ALIGN_CEIL(*bytes + 1, 64));
	if (data == NULL || fread(data, 1, *bytes, f) != *bytes)
		rte_exit(1, "%s: cannot be read\n", path);
	fclose(f);
	return data;
}

/* True if that lookup function can be used here. */
static bool choose(struct bench *b, unsigned int which)
{
	if (b->fib != NULL)
		return rte_fib_select_lookup(b->fib, b->types[which]) == 0;
	if (b->fib6 != NULL)
		return rte_fib6_select_lookup(b->fib6, b->types[which]) == 0;
	return which == 0;
}

static __rte_always_inline void look_up(struct bench *b, const uint8_t *keys, uint64_t *answers,
					unsigned int n)
{
	if (b->fib != NULL) {
		rte_fib_lookup_bulk(b->fib, (uint32_t *)(uintptr_t)keys, answers, n);
	} else if (b->fib6 != NULL) {
		rte_fib6_lookup_bulk(b->fib6, (uint8_t (*)[16])(uintptr_t)keys, answers, n);
	} else {
		uint32_t found[BURST];

		rte_lpm_lookup_bulk(b->lpm, (const uint32_t *)keys, found, n);
		for (unsigned int i = 0; i < n; i++)
			answers[i] = found[i] & RTE_LPM_LOOKUP_SUCCESS ? found[i] & 0xffffff : NONE;
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Millions of lookups per second of the median round; `sum` is that of one round's answers. */
static double run(struct bench *b, const uint8_t *keys, size_t count, bool dependent, double seconds,
		  uint64_t *sum)
{
	static double rates[ROUNDS_MAX];
	const uint64_t end = rte_rdtsc() + (uint64_t)(seconds * rte_get_tsc_hz());
	uint64_t answers[BURST], start, now;
	unsigned int rounds = 0;
	size_t at = 0, looked_up;

	do {
		start = rte_rdtsc();
		*sum = 0;
		if (dependent) {
			for (looked_up = 0; looked_up < STEPS; looked_up++) {
				look_up(b, keys + at * b->key_size, answers, 1);
				at += 1 + answers[0];
				while (at >= count)
					at -= count;
			}
		} else {
			for (looked_up = 0; looked_up + BURST <= count; looked_up += BURST) {
				look_up(b, keys + looked_up * b->key_size, answers, BURST);
				for (unsigned int j = 0; j < BURST; j += 16)
					*sum += answers[j];
			}
		}
		now = rte_rdtsc();
		rates[rounds++ % ROUNDS_MAX] =
			looked_up / ((double)(now - start) / rte_get_tsc_hz()) / 1e6;
	} while (now < end);
	rounds = RTE_MIN(rounds, ROUNDS_MAX);
	qsort(rates, rounds, sizeof(*rates), by_size);
	return rates[rounds / 2];
}

/* The fastest function, tried for a moment each. */
static unsigned int best(struct bench *b, const uint8_t *keys, size_t count, bool dependent)
{
	unsigned int found = 0;
	double most = 0;
	uint64_t sum;

	for (unsigned int i = 0; i < b->types_count; i++) {
		double mps = choose(b, i) ? run(b, keys, count, dependent, 0.1, &sum) : 0;

		if (mps > most) {
			most = mps;
			found = i;
		}
	}
	return found;
}

static void load4(struct bench *b, const char *path, uint32_t tbl8s)
{
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8, .default_nh = NONE, .max_routes = 1 << 20,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = tbl8s },
	};
	struct rte_lpm_config lpm = { .max_rules = 1 << 20, .number_tbl8s = tbl8s };
	const bool fib = b->fib != NULL;
	size_t bytes;
	const struct route4 *routes = slurp(path, &bytes);

	b->key_size = 4;
	if (fib) {
		b->fib = rte_fib_create("fib", SOCKET_ID_ANY, &conf);
		b->names[0] = "scalar_macro", b->types[0] = RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO;
		b->names[1] = "scalar_inline", b->types[1] = RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE;
		b->names[2] = "scalar_uni", b->types[2] = RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI;
		b->names[3] = "avx512", b->types[3] = RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512;
		b->types_count = 4;
	} else {
		b->lpm = rte_lpm_create("lpm", SOCKET_ID_ANY, &lpm);
		b->names[0] = "bulk", b->types_count = 1;
	}
	if (b->fib == NULL && b->lpm == NULL)
		rte_exit(1, "no table: %s\n", rte_strerror(rte_errno));
	for (size_t i = 0; i < bytes / sizeof(*routes); i++) {
		int rc = fib ? rte_fib_add(b->fib, routes[i].addr, routes[i].len, routes[i].group)
			: rte_lpm_add(b->lpm, routes[i].addr, routes[i].len, routes[i].group);

		if (rc != 0)
			rte_exit(1, "route %zu: %s\n", i, rte_strerror(-rc));
	}
}

static void load6(struct bench *b, const char *path, uint32_t tbl8s)
{
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE, .default_nh = NONE, .max_routes = 1 << 20,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = tbl8s },
	};
	size_t bytes;
	const struct route6 *routes = slurp(path, &bytes);

	b->key_size = 16;
	b->fib6 = rte_fib6_create("fib6", SOCKET_ID_ANY, &conf);
	b->names[0] = "scalar", b->types[0] = RTE_FIB6_LOOKUP_TRIE_SCALAR;
	b->names[1] = "avx512", b->types[1] = RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512;
	b->types_count = 2;
	if (b->fib6 == NULL)
		rte_exit(1, "no table: %s\n", rte_strerror(rte_errno));
	for (size_t i = 0; i < bytes / sizeof(*routes); i++) {
		int rc = rte_fib6_add(b->fib6, routes[i].addr, routes[i].len, routes[i].group);

		if (rc != 0)
			rte_exit(1, "route %zu: %s\n", i, rte_strerror(-rc));
	}
}

static void usage(FILE *to)
{
	fputs("usage: dpdk_lpm_mem --table fib|fib6|lpm --routes FILE [options]\n"
	      "  --tbl8 N     blocks of 256 for longer prefixes (4096; fib6: 524288)\n"
	      "  --cpu N      core to run on (the last one online)\n"
	      "  --no-huge    4 KiB pages although 2 MiB pages could be had\n"
	      "then lines on standard input: bulk|dependent KEYS-FILE SECONDS\n"
	      "The head of the source says what the files hold.\n", to);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "table", 1, NULL, 't' }, { "routes", 1, NULL, 'r' }, { "tbl8", 1, NULL, '8' },
		{ "cpu", 1, NULL, 'c' }, { "no-huge", 0, NULL, 'H' }, { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const wide[] = { "--force-max-simd-bitwidth=512", NULL };
	struct bench b = { .types_count = 0 };
	const char *table = "", *routes = NULL, *pages;
	int cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1, c;
	uint32_t tbl8s = 0;
	uint64_t start;
	double build;
	bool huge = true, six;
	char line[4096], before[4096] = "";
	uint8_t *keys = NULL;
	size_t bytes = 0;
	unsigned int which = 0;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 't': table = optarg; break;
		case 'r': routes = optarg; break;
		case '8': tbl8s = strtoul(optarg, NULL, 0); break;
		case 'c': cpu = atoi(optarg); break;
		case 'H': huge = false; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	six = strcmp(table, "fib6") == 0;
	if ((!six && strcmp(table, "fib") != 0 && strcmp(table, "lpm") != 0) || routes == NULL
	    || optind != argc) {
		usage(stderr);
		exit(2);
	}
	if (tbl8s == 0)
		tbl8s = six ? 1u << 19 : 4096;
	/* rte_fib6 reserves far more blocks than it comes to use, of 1 KiB each. */
	pages = eal_start(cpu, six ? 1000 + tbl8s / 1024 : 1000, huge, wide);
	start = rte_rdtsc();
	b.fib = strcmp(table, "fib") == 0 ? (void *)-1 : NULL;
	if (six)
		load6(&b, routes, tbl8s);
	else
		load4(&b, routes, tbl8s);
	build = (double)(rte_rdtsc() - start) / rte_get_tsc_hz();

	while (fgets(line, sizeof(line), stdin) != NULL) {
		char kind[16], path[4000], asked[4096];
		double seconds, mps;
		uint64_t sum = 0;
		bool dependent;

		if (sscanf(line, "%15s %3999s %lf", kind, path, &seconds) != 3) {
			fputs("not understood; see --help\n", stderr);
			exit(2);
		}
		dependent = strcmp(kind, "dependent") == 0;
		snprintf(asked, sizeof(asked), "%s %s", kind, path);
		if (strcmp(asked, before) != 0) {
			strcpy(before, asked);
			free(keys);
			keys = slurp(path, &bytes);
			which = best(&b, keys, bytes / b.key_size, dependent);
			choose(&b, which);
		}
		mps = run(&b, keys, bytes / b.key_size, dependent, seconds, &sum);
		printf("{\"name\":\"dpdk_lpm_mem\",\"table\":\"%s\",\"kind\":\"%s\",\"mlps\":%.3f,"
		       "\"sum\":%" PRIu64 ",\"lookup\":\"%s\",\"build_s\":%.3f,\"pages\":\"%s\","
		       "\"version\":\"%s\"}\n", table, kind, mps, dependent ? 0 : sum, b.names[which],
		       build, pages, rte_version());
		fflush(stdout);
	}
	free(keys);
	return 0;
}
