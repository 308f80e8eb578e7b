/* Peer: DPDK in memory. Ports are pairs of single-producer single-consumer rte_rings; one core
 * moves 64-byte frames from the input rings through a learning switch (l2_switch.h) to the output
 * rings.
 *
 * The bench goes in rounds: fill every input ring, switch until all are empty, empty the output
 * rings. Only the middle part is in `mpps` and `cycles_per_packet`; the rest is the generator
 * (headers are written anew each round so that a few thousand frames can name a million stations)
 * and is reported beside it as `recirculation_cycles_per_packet`. Cycles are TSC cycles. The figure
 * is that of the median round, since on a shared machine some rounds are interrupted; `mpps_mean`
 * is over all of them, `mpps_best` that of the round that only 5 % of rounds beat.
 *
 * Stations: number i sits on port i mod ports, with MAC 02 + station_mac(i) (40 bits). A frame from
 * port p has a random source of the first `destinations` stations on p and a random destination of
 * them on any other port. All stations are in the table before the clock starts.
 */
#include <getopt.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

static struct rte_ring *rx_ring[16], *tx_ring[16];

static inline unsigned int port_tx(unsigned int port, struct rte_mbuf **pkts, unsigned int n)
{
	return rte_ring_sp_enqueue_burst(tx_ring[port], (void **)pkts, n, NULL);
}

#include "eal.h"
#include "l2_switch.h"

#define MAX_ROUNDS (1u << 20) /* of the first so many the median is taken: minutes of work */
#define FRAME_LEN 60 /* 64 on the wire: the frame check sequence is not in memory */

struct options {
	uint32_t macs, destinations, frames, ports, burst;
	int cpu, joint;
	double seconds;
	bool learning, check, huge;
};

struct bench {
	struct options opt;
	struct l2_switch *sw;
	struct rte_mempool *pool;
	struct rte_mbuf **idle; /* frames in the generator's hands */
	uint32_t nidle;
	uint64_t random;
	uint64_t work_cycles, recirculation_cycles, packets, rounds;
	float *cost; /* cycles per packet of each round */
	/* Self-check: what the generator knows must come out. */
	uint64_t expect_tx[MAX_PORTS], expect_drops[MAX_PORTS][DROP_COUNT], expect_rx[MAX_PORTS];
};

/* A bijection on 40 bits: neighbours in number are not neighbours in the table. */
static inline uint64_t station_mac(uint64_t i)
{
	const uint64_t mask = (1ull << 40) - 1;

	i = i * 0x9e3779b97full & mask;
	i ^= i >> 20;
	i = i * 0xbf58476d1bull & mask;
	i ^= i >> 20;
	return 0x02ull << 40 | i;
}

static inline uint64_t next_random(struct bench *b) /* xorshift64* */
{
	b->random ^= b->random >> 12;
	b->random ^= b->random << 25;
	b->random ^= b->random >> 27;
	return b->random * 0x2545f4914f6cdd1dull;
}

/* A number below n from 32 random bits, without division. */
static inline uint32_t below(uint32_t random, uint32_t n)
{
	return (uint64_t)random * n >> 32;
}

static inline void write_macs(uint8_t *f, uint64_t dst, uint64_t src)
{
	uint64_t d = rte_cpu_to_be_64(dst << 16 | src >> 32);
	uint32_t s = rte_cpu_to_be_32((uint32_t)src);

	memcpy(f, &d, 8);
	memcpy(f + 8, &s, 4);
}

/* Self-check only: turn some frames into ones that must be dropped, and count what must come. */
static void spoil(struct bench *b, uint32_t port, uint8_t *f, uint32_t r, uint32_t src,
		  uint32_t dst)
{
	const uint32_t ports = b->opt.ports;
	const uint8_t tag[6] = { 0x81, 0x00, 0x00, 0x01, 0x08, 0x00 };
	const uint8_t foreign[6] = { 0x81, 0x00, 0x60, 0x07, 0x08, 0x00 };
	const uint8_t plain[6] = { 0x08, 0x00, 0x45, 0x00, 0x00, 0x2e };

	memcpy(f + 12, plain, 6);
	b->expect_rx[port]++;
	switch (r % 16) {
	case 0: /* a destination nobody has */
		write_macs(f, station_mac(b->opt.macs + src), station_mac(src));
		b->expect_drops[port][DROP_UNKNOWN_DST]++;
		return;
	case 1: /* its own port's station */
		write_macs(f, station_mac(port), station_mac(src));
		b->expect_drops[port][DROP_SAME_PORT]++;
		return;
	case 2:
		f[0] |= 1;
		b->expect_drops[port][DROP_GROUP_DST]++;
		return;
	case 3:
		f[6] |= 1;
		b->expect_drops[port][DROP_GROUP_SRC]++;
		return;
	case 4: /* a VLAN this port is not in */
		memcpy(f + 12, foreign, 6);
		b->expect_drops[port][DROP_VLAN]++;
		return;
	case 5: /* tagged with the VLAN everyone is in */
		memcpy(f + 12, tag, 6);
		break;
	case 6: /* priority tag: VLAN 0 means the port's own */
		memcpy(f + 12, tag, 6);
		f[15] = 0;
		break;
	}
	b->expect_tx[dst % ports]++;
}

static void fill(struct bench *b, const bool check)
{
	const uint32_t ports = b->opt.ports, per_port = b->opt.destinations / ports;
	struct rte_mbuf *batch[32];

	for (uint32_t port = 0; port < ports; port++) {
		for (uint32_t done = 0; done < b->opt.frames; done += 32) {
			if (b->nidle >= 32) {
				b->nidle -= 32;
				memcpy(batch, &b->idle[b->nidle], sizeof(batch));
			} else if (rte_pktmbuf_alloc_bulk(b->pool, batch, 32) != 0) {
				rte_panic("the frame pool is empty: frames were lost\n");
			} else {
				for (uint32_t i = 0; i < 32; i++)
					rte_pktmbuf_append(batch[i], FRAME_LEN);
			}
			for (uint32_t i = 0; i < 32; i++) {
				uint64_t r = next_random(b);
				uint32_t to = port + 1 + below((uint16_t)r << 16, ports - 1);
				uint32_t src = below(r >> 32, per_port) * ports + port;
				uint32_t dst = below((uint32_t)(r >> 8), per_port) * ports
					+ (to >= ports ? to - ports : to);
				uint8_t *f = rte_pktmbuf_mtod(batch[i], uint8_t *);

				write_macs(f, station_mac(dst), station_mac(src));
				if (check)
					spoil(b, port, f, (uint32_t)(r >> 17), src, dst);
			}
			if (rte_ring_sp_enqueue_bulk(rx_ring[port], (void **)batch, 32, NULL) != 32)
				rte_panic("an input ring is too small\n");
		}
	}
}

static void drain(struct bench *b)
{
	for (uint32_t port = 0; port < b->opt.ports; port++)
		b->nidle += rte_ring_sc_dequeue_burst(tx_ring[port], (void **)&b->idle[b->nidle],
			b->opt.frames * b->opt.ports - b->nidle, NULL);
}

/* Switch until the input rings are empty. */
static __rte_always_inline uint64_t switch_round(struct bench *b, const bool learning,
						 const bool joint)
{
	struct l2_switch *s = b->sw;
	struct rte_mbuf *pkts[BURST_MAX];
	const uint64_t hz = rte_get_tsc_hz();
	uint64_t total = 0, swept;

	do {
		uint16_t now = rte_rdtsc() / hz;

		swept = 0;
		for (unsigned int port = 0; port < s->ports; port++) {
			unsigned int n = rte_ring_sc_dequeue_burst(rx_ring[port], (void **)pkts,
								   s->burst, NULL);
			if (n != 0)
				l2_burst(s, port, pkts, n, now, learning, joint);
			swept += n;
		}
		for (unsigned int port = 0; port < s->ports; port++)
			l2_flush(s, port);
		total += swept;
	} while (swept != 0);
	return total;
}

static __rte_noinline uint64_t round_learn_joint(struct bench *b)
{
	return switch_round(b, true, true);
}

static __rte_noinline uint64_t round_learn_split(struct bench *b)
{
	return switch_round(b, true, false);
}

static __rte_noinline uint64_t round_dst_only(struct bench *b)
{
	return switch_round(b, false, false);
}

static void run(struct bench *b, double seconds)
{
	uint64_t (*work)(struct bench *) = !b->opt.learning ? round_dst_only
		: b->opt.joint ? round_learn_joint : round_learn_split;
	const uint64_t end = rte_rdtsc() + (uint64_t)(seconds * rte_get_tsc_hz());
	uint64_t t0 = rte_rdtsc(), t1, t2, n;

	b->sw->burst = b->opt.burst;
	b->work_cycles = b->recirculation_cycles = b->packets = b->rounds = 0;
	do {
		if (b->opt.check)
			fill(b, true);
		else
			fill(b, false);
		t1 = rte_rdtsc();
		n = work(b);
		t2 = rte_rdtsc();
		b->packets += n;
		if (b->rounds < MAX_ROUNDS)
			b->cost[b->rounds] = (float)(t2 - t1) / n;
		drain(b);
		b->work_cycles += t2 - t1;
		b->recirculation_cycles += t1 - t0;
		t0 = rte_rdtsc();
		b->recirculation_cycles += t0 - t2;
		b->rounds++;
	} while (t0 < end);
}

static int by_cost(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Cycles per packet of the round that `percent` of all rounds are cheaper than. */
static double round_cost(struct bench *b, unsigned int percent)
{
	uint64_t n = RTE_MIN(b->rounds, MAX_ROUNDS);

	qsort(b->cost, n, sizeof(*b->cost), by_cost);
	return b->cost[n * percent / 100];
}

/* Try every way of batching for a moment and keep the fastest. */
static void choose_batching(struct bench *b, bool burst_free, bool joint_free)
{
	static const struct { uint32_t burst; int joint; } ways[] = { { 32, 0 }, { 32, 1 }, { 64, 0 } };
	uint32_t best_burst = b->opt.burst;
	int best_joint = b->opt.joint;
	double best = 1e9;

	for (unsigned int i = 0; i < RTE_DIM(ways); i++) {
		double cost;

		if (!burst_free && ways[i].burst != b->opt.burst)
			continue;
		if ((!joint_free && ways[i].joint != b->opt.joint) || (!b->opt.learning && ways[i].joint))
			continue;
		uint32_t burst = b->opt.burst;
		int joint = b->opt.joint;
		b->opt.burst = ways[i].burst;
		b->opt.joint = ways[i].joint;
		run(b, 0.15);
		cost = round_cost(b, 50);
		if (cost < best) {
			best = cost;
			best_burst = b->opt.burst;
			best_joint = b->opt.joint;
		}
		b->opt.burst = burst;
		b->opt.joint = joint;
	}
	b->opt.burst = best_burst;
	b->opt.joint = best_joint;
}

/* Every packet is accounted for: in = out + dropped. */
static bool conserved(const struct bench *b)
{
	uint64_t in = 0, out = 0, dropped = 0;

	for (uint32_t p = 0; p < b->opt.ports; p++) {
		in += b->sw->count[p].rx_packets;
		out += b->sw->count[p].tx_packets;
		dropped += l2_total_drops(&b->sw->count[p]);
	}
	return in == out + dropped;
}

static bool differs(const char *what, uint32_t port, uint64_t expected, uint64_t got)
{
	if (expected != got)
		fprintf(stderr, "port %u: %s is %" PRIu64 ", expected %" PRIu64 "\n", port, what, got,
			expected);
	return expected != got;
}

/* Counters against the generator's own account, then one station that moves and one that is new. */
static bool self_check(struct bench *b)
{
	struct l2_switch *s = b->sw;
	bool bad = !conserved(b);

	for (uint32_t p = 0; p < b->opt.ports; p++) {
		const struct port_counters *c = &s->count[p];

		bad |= differs("rx packets", p, b->expect_rx[p], c->rx_packets);
		bad |= differs("tx packets", p, b->expect_tx[p], c->tx_packets);
		bad |= differs("rx bytes", p, b->expect_rx[p] * FRAME_LEN, c->rx_bytes);
		bad |= differs("tx bytes", p, b->expect_tx[p] * FRAME_LEN, c->tx_bytes);
		for (unsigned int r = 0; r < DROP_COUNT; r++)
			bad |= differs(drop_names[r], p, b->expect_drops[p][r], c->drops[r]);
	}
	if (!b->opt.learning)
		return !bad;

	struct rte_mbuf *m;
	const uint64_t fresh = station_mac(b->opt.macs + 1);
	const struct { uint64_t dst, src; uint32_t in, out; } steps[] = {
		{ station_mac(1), fresh, 0, 1 },          /* a new station on port 0 ... */
		{ fresh, station_mac(1), 1, 0 },          /* ... is found there */
		{ station_mac(0), fresh, 1, 0 },          /* it moves to port 1 ... */
		{ fresh, station_mac(0), 0, 1 },          /* ... and is found there */
	};
	uint64_t moves = s->moves;

	for (unsigned int i = 0; i < RTE_DIM(steps); i++) {
		uint64_t before = s->count[steps[i].out].tx_packets;

		b->nidle--;
		m = b->idle[b->nidle];
		memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, 12), "\x08\x00", 2);
		write_macs(rte_pktmbuf_mtod(m, uint8_t *), steps[i].dst, steps[i].src);
		rte_ring_sp_enqueue(rx_ring[steps[i].in], m);
		if (b->opt.joint)
			round_learn_joint(b);
		else
			round_learn_split(b);
		drain(b);
		bad |= differs("step of the moving station", steps[i].out, before + 1,
			       s->count[steps[i].out].tx_packets);
	}
	bad |= differs("moves", 1, moves + 1, s->moves);
	return !bad;
}

static void report(struct bench *b, const char *pages)
{
	const struct options *o = &b->opt;
	const double hz = rte_get_tsc_hz();
	double cycles = round_cost(b, 50), best = round_cost(b, 5);
	double mean = (double)b->work_cycles / b->packets;
	double again = (double)b->recirculation_cycles / b->packets;
	const char *comma = "";

	printf("{\"name\":\"dpdk_l2_mem\",\"mpps\":%.2f,\"cycles_per_packet\":%.1f,"
	       "\"mpps_mean\":%.2f,\"mpps_best\":%.2f,\"macs\":%u,"
	       "\"destinations\":%u,\"learning\":%s,\"ports\":%u,\"frames_per_port\":%u,"
	       "\"frame_bytes\":%d,\"burst\":%u,\"joint_lookup\":%s,\"pages\":\"%s\","
	       "\"recirculation_cycles_per_packet\":%.1f,\"mpps_with_recirculation\":%.2f,"
	       "\"packets\":%" PRIu64 ",\"tsc_hz\":%.0f,\"cpu\":%d,\"version\":\"%s\",\"conserved\":%s,"
	       "\"moves\":%" PRIu64 ",\"drops\":{",
	       hz / cycles / 1e6, cycles, hz / mean / 1e6, hz / best / 1e6, o->macs,
	       o->destinations, o->learning ? "true" : "false",
	       o->ports, o->frames, FRAME_LEN + 4, o->burst, o->joint ? "true" : "false", pages,
	       again, hz / (mean + again) / 1e6, b->packets, hz, o->cpu, rte_version(),
	       conserved(b) ? "true" : "false", b->sw->moves);
	for (unsigned int r = 0; r < DROP_COUNT; r++) {
		uint64_t sum = 0;

		for (uint32_t p = 0; p < o->ports; p++)
			sum += b->sw->count[p].drops[r];
		printf("%s\"%s\":%" PRIu64, comma, drop_names[r], sum);
		comma = ",";
	}
	printf("}}\n");
}

static void usage(FILE *to)
{
	fputs("usage: dpdk_l2_mem [options]     a learning switch on rte_hash between rings, one core\n"
	      "  --macs N            stations in the table (65536)\n"
	      "  --destinations N    stations that traffic names (64); 0 or 'all' for every one\n"
	      "  --seconds S         measured time (2)\n"
	      "  --dst-only          no source learning: the classical l2fwd figure\n"
	      "  --ports N           2 to 16 (8)\n"
	      "  --frames N          frames in each input ring per round, multiple of 32 (256)\n"
	      "  --burst 32|64       default: the faster one, found before the clock starts\n"
	      "  --joint 0|1         one lookup call for sources and destinations; default likewise\n"
	      "  --cpu N             core to run on (the last one online)\n"
	      "  --no-huge           4 KiB pages although 2 MiB pages could be had\n"
	      "  --check             forward a mix of good and bad frames and compare every counter\n"
	      "example: dpdk_l2_mem --macs 1048576 --destinations all\n", to);
}

static struct options parse(int argc, char **argv, bool *burst_free, bool *joint_free)
{
	static const struct option names[] = {
		{ "macs", 1, NULL, 'm' }, { "destinations", 1, NULL, 'd' }, { "seconds", 1, NULL, 's' },
		{ "dst-only", 0, NULL, 'o' }, { "ports", 1, NULL, 'p' }, { "frames", 1, NULL, 'f' },
		{ "burst", 1, NULL, 'b' }, { "joint", 1, NULL, 'j' }, { "cpu", 1, NULL, 'c' },
		{ "no-huge", 0, NULL, 'H' }, { "check", 0, NULL, 'k' }, { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = {
		.macs = 65536, .destinations = 64, .frames = 256, .ports = 8, .burst = 32,
		.cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1, .seconds = 2, .learning = true, .huge = true,
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'm': o.macs = strtoul(optarg, NULL, 0); break;
		case 'd': o.destinations = strtoul(optarg, NULL, 0); break;
		case 's': o.seconds = strtod(optarg, NULL); break;
		case 'o': o.learning = false; break;
		case 'p': o.ports = strtoul(optarg, NULL, 0); break;
		case 'f': o.frames = strtoul(optarg, NULL, 0); break;
		case 'b': o.burst = strtoul(optarg, NULL, 0); *burst_free = false; break;
		case 'j': o.joint = atoi(optarg) != 0; *joint_free = false; break;
		case 'c': o.cpu = atoi(optarg); break;
		case 'H': o.huge = false; break;
		case 'k': o.check = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
	}
	if (o.destinations == 0 || o.destinations > o.macs)
		o.destinations = o.macs;
	if (o.ports < 2 || o.ports > MAX_PORTS || o.destinations < o.ports || o.frames == 0
	    || o.frames % 32 != 0 || o.macs > 1u << 23 || (o.burst != 32 && o.burst != 64)
	    || (o.joint && o.burst != 32) || !(o.seconds > 0) || optind != argc) {
		fputs("an option is out of its range (a joint lookup needs --burst 32)\n", stderr);
		usage(stderr);
		exit(2);
	}
	return o;
}

int main(int argc, char **argv)
{
	static struct bench b = { .random = 0x853c49e6748fea9bull };
	bool burst_free = true, joint_free = true;
	const char *pages;
	uint32_t total;

	b.opt = parse(argc, argv, &burst_free, &joint_free);
	total = b.opt.frames * b.opt.ports;
	/* Table at half load, its ring of free slots, the frames, and room for DPDK itself. */
	pages = eal_start(b.opt.cpu, 96 + (long)b.opt.macs * 160 / 1000000 + (long)total * 2600 / 1000000,
			  b.opt.huge, NULL);
	b.pool = rte_pktmbuf_pool_create("frames", total + 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
					 SOCKET_ID_ANY);
	b.idle = calloc(total, sizeof(*b.idle));
	b.cost = calloc(MAX_ROUNDS, sizeof(*b.cost));
	b.sw = l2_create(b.opt.ports, b.opt.macs + 16);
	if (b.pool == NULL || b.idle == NULL || b.cost == NULL || b.sw == NULL)
		rte_exit(1, "out of memory: %s\n", rte_strerror(rte_errno));
	for (uint32_t p = 0; p < b.opt.ports; p++) {
		char name[16];

		snprintf(name, sizeof(name), "rx%u", p);
		rx_ring[p] = rte_ring_create(name, rte_align32pow2(b.opt.frames + 1), SOCKET_ID_ANY,
					     RING_F_SP_ENQ | RING_F_SC_DEQ);
		snprintf(name, sizeof(name), "tx%u", p);
		tx_ring[p] = rte_ring_create(name, rte_align32pow2(total + 1), SOCKET_ID_ANY,
					     RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (rx_ring[p] == NULL || tx_ring[p] == NULL)
			rte_exit(1, "no memory for the rings: %s\n", rte_strerror(rte_errno));
	}
	for (uint32_t i = 0; i < b.opt.macs; i++) {
		uint64_t key = l2_key(1, station_mac(i));

		l2_learn(b.sw, key, l2_sig(key), i % b.opt.ports, rte_rdtsc() / rte_get_tsc_hz());
	}
	if (b.sw->learned != b.opt.macs)
		rte_exit(1, "only %" PRIu64 " of %u stations fit into the table\n", b.sw->learned,
			 b.opt.macs);
	if (b.opt.check) {
		bool good;

		run(&b, 0.2);
		good = self_check(&b);
		report(&b, pages);
		fprintf(stderr, "self-check: %s\n", good ? "every counter is as expected" : "FAILED");
		return good ? 0 : 1;
	}
	choose_batching(&b, burst_free, joint_free);
	run(&b, b.opt.seconds);
	report(&b, pages);
	return conserved(&b) ? 0 : 1;
}
