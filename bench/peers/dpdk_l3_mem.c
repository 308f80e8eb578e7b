/* Peer: DPDK in memory. Ports are pairs of single-producer single-consumer rte_rings; one core
 * moves 64-byte frames from the input rings through a router (l3_router.h) to the output rings.
 *
 * Rounds, clock and figures are those of dpdk_l2_mem.c. Routes and destinations come from a file:
 * `r ADDRESS LENGTH NEXTHOP` and `d ADDRESS`, one to a line, one family; `plexus bench` writes it.
 * Without a file there are 65,536 routes to /24s, and as many destinations. Next hop n, of 64, is
 * behind port n mod ports. Every packet goes to a random destination of the list.
 */
#include <getopt.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_vect.h>
#include <rte_version.h>

static struct rte_ring *rx_ring[16], *tx_ring[16];

static inline unsigned int port_tx(unsigned int port, struct rte_mbuf **pkts, unsigned int n)
{
	return rte_ring_sp_enqueue_burst(tx_ring[port], (void **)pkts, n, NULL);
}

#include "eal.h"
#include "l3_router.h"
#include "l3_routes.h"

#define MAX_ROUNDS (1u << 20)
#define FRAME_LEN 60
#define PORTS 8
#define FRAMES 256 /* in each input ring per round */
#define TOTAL (PORTS * FRAMES)

struct bench {
	struct l3_router *router;
	struct rte_mempool *pool;
	struct rte_mbuf *idle[TOTAL]; /* frames in the generator's hands */
	uint32_t nidle;
	struct l3_routes table;
	uint64_t random, work_cycles, packets, rounds;
	float *cost; /* cycles per packet of each round */
	uint64_t expect_drops[PORTS][DROP_COUNT]; /* self-check: what the generator knows */
};

static inline uint64_t next_random(struct bench *b) /* xorshift64* */
{
	b->random ^= b->random >> 12;
	b->random ^= b->random << 25;
	b->random ^= b->random >> 27;
	return b->random * 0x2545f4914f6cdd1dull;
}

static uint16_t sum_of(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

static void write_packet(struct bench *b, uint32_t port, uint8_t *f, const struct address *dst)
{
	static const uint8_t ip4[] = { 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1 };
	static const uint8_t ip6[] = { 0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64, 0x20, 0x01, 0x0d, 0xb8,
				       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
	uint64_t own = rte_cpu_to_be_64(b->router->own[port] << 16);
	const uint8_t from[6] = { 2, 0, 0, 0, 2, port };
	uint16_t sum;

	memcpy(f, &own, 6);
	memcpy(f + 6, from, 6);
	if (b->table.v6) {
		memcpy(f + 12, ip6, sizeof(ip6));
		memcpy(f + 38, dst->bytes, 16);
		return;
	}
	memcpy(f + 12, ip4, sizeof(ip4));
	memcpy(f + 30, dst->bytes, 4);
	sum = rte_cpu_to_be_16(sum_of(f + 14));
	memcpy(f + 24, &sum, 2);
}

/* Self-check only: turn some packets into ones that must be dropped. */
static void spoil(struct bench *b, uint32_t port, uint8_t *f, uint32_t r)
{
	uint64_t *expect = b->expect_drops[port];
	uint16_t sum;

	switch (r % 16) {
	case 0: f[5] ^= 1; expect[DROP_OTHER_DST]++; return;
	case 1: f[6] |= 1; expect[DROP_GROUP_SRC]++; return;
	case 2: f[13] = 6; expect[DROP_NOT_IP]++; return;
	case 3: f[14] = 0x75; expect[DROP_BAD_HEADER]++; return;
	case 4: f[b->table.v6 ? 19 : 17] = 47; expect[DROP_BAD_HEADER]++; return;
	case 5: f[b->table.v6 ? 21 : 22] = 1; expect[DROP_TTL]++; break;
	case 6: memset(f + (b->table.v6 ? 22 : 26), 0xff, 4); expect[DROP_MARTIAN]++; break;
	case 7:
		if (b->table.v6)
			return;
		f[28] ^= 4;
		expect[DROP_CHECKSUM]++;
		return;
	default: return;
	}
	if (!b->table.v6) {
		memset(f + 24, 0, 2);
		sum = rte_cpu_to_be_16(sum_of(f + 14));
		memcpy(f + 24, &sum, 2);
	}
}

static void fill(struct bench *b, const bool check)
{
	struct rte_mbuf *batch[32];

	for (uint32_t port = 0; port < PORTS; port++) {
		for (uint32_t done = 0; done < FRAMES; done += 32) {
			for (uint32_t i = 0; i < 32; i++) {
				uint32_t r = next_random(b) >> 32;
				uint8_t *f;

				if (b->nidle > 0)
					batch[i] = b->idle[--b->nidle];
				else if ((batch[i] = rte_pktmbuf_alloc(b->pool)) != NULL)
					rte_pktmbuf_append(batch[i], FRAME_LEN);
				else
					rte_panic("the frame pool is empty: frames were lost\n");
				f = rte_pktmbuf_mtod(batch[i], uint8_t *);
				write_packet(b, port, f, &b->table.dst[(uint64_t)r * b->table.ndst >> 32]);
				if (check)
					spoil(b, port, f, r ^ r >> 16);
			}
			if (rte_ring_sp_enqueue_bulk(rx_ring[port], (void **)batch, 32, NULL) != 32)
				rte_panic("an input ring is too small\n");
		}
	}
}

static void drain(struct bench *b)
{
	for (uint32_t port = 0; port < PORTS; port++)
		b->nidle += rte_ring_sc_dequeue_burst(tx_ring[port], (void **)&b->idle[b->nidle],
						      TOTAL - b->nidle, NULL);
}

/* Route until the input rings are empty. */
static __rte_noinline uint64_t route_round(struct bench *b)
{
	struct l3_router *router = b->router;
	struct rte_mbuf *pkts[BURST_MAX];
	uint64_t total = 0, swept;

	do {
		swept = 0;
		for (unsigned int port = 0; port < PORTS; port++) {
			unsigned int n = rte_ring_sc_dequeue_burst(rx_ring[port], (void **)pkts,
								   router->burst, NULL);
			if (n != 0)
				l3_burst(router, port, pkts, n);
			swept += n;
		}
		for (unsigned int port = 0; port < PORTS; port++)
			l3_flush(router, port);
		total += swept;
	} while (swept != 0);
	return total;
}

static void run(struct bench *b, double seconds)
{
	const uint64_t end = rte_rdtsc() + (uint64_t)(seconds * rte_get_tsc_hz());

	b->work_cycles = b->packets = b->rounds = 0;
	do {
		uint64_t t1, t2, n;

		fill(b, false);
		t1 = rte_rdtsc();
		n = route_round(b);
		t2 = rte_rdtsc();
		drain(b);
		b->packets += n;
		b->work_cycles += t2 - t1;
		if (b->rounds < MAX_ROUNDS)
			b->cost[b->rounds] = (float)(t2 - t1) / n;
		b->rounds++;
	} while (rte_rdtsc() < end);
}

static int by_cost(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Cycles per packet of the median round. */
static double round_cost(struct bench *b)
{
	uint64_t n = RTE_MIN(b->rounds, MAX_ROUNDS);

	qsort(b->cost, n, sizeof(*b->cost), by_cost);
	return b->cost[n / 2];
}

/* Try every way for a moment and keep the fastest; returns whether it has vector lookups. */
static bool choose(struct bench *b)
{
	double best = 1e9;
	uint32_t burst = 32;
	bool vector = false;

	for (unsigned int way = 0; way < 4; way++) {
		double cost;

		if (!l3_select(b->router, way & 1))
			continue;
		b->router->burst = way & 2 ? 64 : 32;
		run(b, 0.1);
		cost = round_cost(b);
		if (cost < best) {
			best = cost;
			burst = b->router->burst;
			vector = way & 1;
		}
	}
	b->router->burst = burst;
	l3_select(b->router, vector);
	return vector;
}

/* Every packet is accounted for, and (outside of the self-check) was forwarded. */
static bool conserved(const struct bench *b, bool all)
{
	uint64_t in = 0, out = 0, routed = 0, dropped = 0;

	for (uint32_t p = 0; p < PORTS; p++) {
		in += b->router->count[p].rx_packets;
		out += b->router->count[p].tx_packets;
		routed += b->router->count[p].routed;
		dropped += l3_total_drops(&b->router->count[p]);
	}
	return in == out + dropped && out == routed && (!all || dropped == 0);
}

/* A mix of good and bad packets: every counter, and every packet that comes out. */
static bool self_check(struct bench *b)
{
	bool good = true;

	for (int round = 0; round < 50; round++) {
		fill(b, true);
		route_round(b);
		b->nidle = 0;
		for (uint32_t port = 0; port < PORTS; port++) {
			struct rte_mbuf *m;

			while (rte_ring_sc_dequeue(tx_ring[port], (void **)&m) == 0) {
				const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);

				good &= f[4] == 2 && f[5] % PORTS == port && f[10] == 1 && f[11] == port;
				good &= b->table.v6 ? f[21] == 63 : f[22] == 63 && sum_of(f + 14) == 0;
				rte_pktmbuf_free(m);
			}
		}
	}
	if (!good)
		fprintf(stderr, "a packet came out wrong\n");
	for (uint32_t p = 0; p < PORTS; p++) {
		for (unsigned int why = 0; why < DROP_COUNT; why++) {
			uint64_t expected = b->expect_drops[p][why], got = b->router->count[p].drops[why];

			if (expected != got)
				fprintf(stderr, "port %u: %s is %" PRIu64 ", expected %" PRIu64 "\n", p,
					drop_names[why], got, expected);
			good &= expected == got;
		}
	}
	return good && conserved(b, false);
}

static void report(struct bench *b, const char *pages, bool vector)
{
	const double hz = rte_get_tsc_hz(), cycles = round_cost(b);

	printf("{\"name\":\"dpdk_l3_mem\",\"table\":\"%s\",\"mpps\":%.2f,\"cycles_per_packet\":%.1f,\"mpps_mean\":%.2f,"
	       "\"routes\":%u,\"destinations\":%u,\"family\":%d,\"burst\":%u,\"avx512\":%s,"
	       "\"pages\":\"%s\",\"packets\":%" PRIu64 ",\"tsc_hz\":%.0f,\"version\":\"%s\","
	       "\"conserved\":%s}\n",
	       b->router->lpm != NULL ? "lpm" : "fib", hz / cycles / 1e6, cycles, hz / ((double)b->work_cycles / b->packets) / 1e6, b->table.nroutes,
	       b->table.ndst, b->table.v6 ? 6 : 4, b->router->burst, vector ? "true" : "false", pages, b->packets,
	       hz, rte_version(), conserved(b, true) ? "true" : "false");
}

static const char usage[] =
	"usage: dpdk_l3_mem [options] [FILE]     a router between rings, one core\n"
	"  --table fib|lpm     longest-prefix match by rte_fib (default) or rte_lpm: IPv4 only\n"
	"  --seconds S         measured time (2)\n"
	"  --cpu N             core to run on (the last one online)\n"
	"  --no-huge           4 KiB pages although 2 MiB pages could be had\n"
	"  --check             route a mix of good and bad packets and compare every counter\n"
	"FILE: lines `r ADDRESS LENGTH NEXTHOP` (0 to 63) and `d ADDRESS`, one family\n";

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seconds", 1, NULL, 's' }, { "cpu", 1, NULL, 'c' }, { "no-huge", 0, NULL, 'H' },
		{ "check", 0, NULL, 'k' }, { "table", 1, NULL, 't' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	static const char *const extra[] = { "--force-max-simd-bitwidth=512", NULL };
	static struct bench b = { .random = 0x853c49e6748fea9bull };
	int c, cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	bool huge = true, check = false, good = true, lpm = false, vector;
	const char *pages;
	double seconds = 2;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's': seconds = strtod(optarg, NULL); break;
		case 'c': cpu = atoi(optarg); break;
		case 'H': huge = false; break;
		case 'k': check = true; break;
		case 't':
			lpm = strcmp(optarg, "lpm") == 0;
			if (lpm || strcmp(optarg, "fib") == 0)
				break;
			fputs(usage, stderr);
			return 2;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	}
	if (optind + 1 < argc || !(seconds >= 0)) {
		fputs(usage, stderr);
		return 2;
	}
	l3_load(&b.table, argv[optind]);
	if (lpm && b.table.v6)
		rte_exit(1, "--table lpm: it is for IPv4 only\n");
	/* Tables, the library's tree of routes beside them, the frames, and room for DPDK itself. */
	pages = eal_start(cpu, 200 + l3_megabytes(&b.table), huge, extra);
	b.pool = rte_pktmbuf_pool_create("frames", TOTAL + 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
					 SOCKET_ID_ANY);
	b.cost = calloc(MAX_ROUNDS, sizeof(*b.cost));
	b.router = rte_zmalloc("l3", sizeof(*b.router), RTE_CACHE_LINE_SIZE);
	if (b.pool == NULL || b.cost == NULL || b.router == NULL)
		rte_exit(1, "out of memory: %s\n", rte_strerror(rte_errno));
	for (uint32_t p = 0; p < PORTS; p++) {
		char name[16];

		snprintf(name, sizeof(name), "rx%u", p);
		rx_ring[p] = rte_ring_create(name, 2 * FRAMES, SOCKET_ID_ANY,
					     RING_F_SP_ENQ | RING_F_SC_DEQ);
		snprintf(name, sizeof(name), "tx%u", p);
		tx_ring[p] = rte_ring_create(name, 2 * TOTAL, SOCKET_ID_ANY,
					     RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (rx_ring[p] == NULL || tx_ring[p] == NULL)
			rte_exit(1, "no memory for the rings: %s\n", rte_strerror(rte_errno));
		b.router->own[p] = 0x020000000100ull | p;
	}
	b.router->ports = PORTS;
	for (uint32_t n = 0; n < NEXT_HOPS; n++) {
		const uint8_t macs[12] = { 2, 0, 0, 0, 2, n, 2, 0, 0, 0, 1, n % PORTS };

		memcpy(b.router->hops[n].macs, macs, 12);
		b.router->hops[n].port = n % PORTS;
		b.router->hops[n].mtu = 1500;
	}
	l3_add_routes(b.router, &b.table, lpm);
	if (check) {
		for (unsigned int way = 0; way < 4; way++) {
			if (!l3_select(b.router, way & 1))
				continue;
			b.router->burst = way & 2 ? 64 : 32;
			good &= self_check(&b);
		}
		fprintf(stderr, "self-check: %s\n", good ? "every counter is as expected" : "FAILED");
		return good ? 0 : 1;
	}
	vector = choose(&b);
	run(&b, seconds);
	report(&b, pages, vector);
	return conserved(&b, true) ? 0 : 1;
}
