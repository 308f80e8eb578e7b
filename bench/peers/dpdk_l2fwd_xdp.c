/* Peer: DPDK over AF_XDP. Two net_af_xdp ports on interfaces that exist already (veth ends), one
 * polling core, the learning switch of l2_switch.h between them; --plain forwards every frame to
 * the other port without looking at it, as DPDK's l2fwd example does without MAC updating.
 *
 * How the ports are opened is in xdp_ports.h. */
#include <getopt.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#include "xdp_ports.h"
#include "l2_switch.h"

#define BURST 32
#define STATIONS (1u << 17)
#define MAX_SECONDS 3600

static uint64_t forwarded(const struct l2_switch *s)
{
	uint64_t sum = 0;

	for (unsigned int p = 0; p < PORTS; p++)
		sum += s->count[p].tx_packets;
	return sum;
}

/* Every frame to the other port; counters as in the switch, tables untouched. */
static inline void plain_burst(struct l2_switch *s, unsigned int in, struct rte_mbuf **pkts,
			       unsigned int n)
{
	struct out_buffer *o = &s->out[in ^ 1];
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < n; i++) {
		bytes += pkts[i]->pkt_len;
		o->pkts[i] = pkts[i];
	}
	s->count[in].rx_packets += n;
	s->count[in].rx_bytes += bytes;
	o->n = n;
	o->bytes = bytes;
	l2_flush(s, in ^ 1);
}

static void usage(FILE *to)
{
	fputs("usage: dpdk_l2fwd_xdp [--plain] [--seconds S] [--cpu N] [--huge] [--busy N] IF IF\n"
	      "forwards between two interfaces until S seconds are over, SIGINT or SIGTERM; prints\n"
	      "'ready' on stderr, then one line of JSON; CPU in the environment stands for --cpu\n"
	      "--busy: the driver's busy_budget; 0, the default, is the fastest over veth (DPDK's is 64)\n"
	      "example: ./xdp.sh build/dpdk_l2fwd_xdp SA SB\n", to);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "plain", 0, NULL, 'p' }, { "seconds", 1, NULL, 't' }, { "cpu", 1, NULL, 'c' },
		{ "huge", 0, NULL, 'H' }, { "busy", 1, NULL, 'b' },
		 { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	static double each[MAX_SECONDS];
	const char *from_env = getenv("CPU"), *pages, *comma = "";
	int c, cpu = from_env ? atoi(from_env) : (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	int busy = 0;
	bool plain = false, huge = false;
	double seconds = 0;
	struct l2_switch *s;
	uint64_t hz, start, next, now, last = 0, cycles_busy = 0;
	unsigned int n_each = 0;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'p': plain = true; break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'c': cpu = atoi(optarg); break;
		case 'b': busy = atoi(optarg); break;
		case 'H': huge = true; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (argc - optind != PORTS || seconds < 0) {
		usage(stderr);
		return 2;
	}
	pages = start_ports(&argv[optind], cpu, 256, huge, busy);
	s = l2_create(PORTS, STATIONS);
	if (s == NULL)
		rte_exit(1, "out of memory: %s\n", rte_strerror(rte_errno));
	fprintf(stderr, "ready\n");

	hz = rte_get_tsc_hz();
	start = now = rte_rdtsc();
	next = start + hz;
	while (!stop) {
		for (uint16_t p = 0; p < PORTS; p++) {
			struct rte_mbuf *pkts[BURST];
			uint16_t n = rte_eth_rx_burst(p, 0, pkts, BURST);
			uint64_t begin;

			if (n == 0)
				continue;
			begin = rte_rdtsc();
			if (plain)
				plain_burst(s, p, pkts, n);
			else
				l2_burst(s, p, pkts, n, now / hz, true, true);
			for (uint16_t q = 0; q < PORTS; q++)
				l2_flush(s, q);
			cycles_busy += rte_rdtsc() - begin;
		}
		now = rte_rdtsc();
		if (now >= next) {
			uint64_t sum = forwarded(s);

			if (n_each < MAX_SECONDS)
				each[n_each++] = (sum - last) / ((double)(now - next) / hz + 1);
			last = sum;
			next = now + hz;
		}
		if (seconds > 0 && now - start >= seconds * hz)
			break;
	}
	printf("{\"name\":\"dpdk_%s_af_xdp\",\"packets\":%" PRIu64 ",\"seconds\":%.3f,\"pps\":%.0f,"
	       "\"switch_and_send_cycles_per_packet\":%.0f,\"pages\":\"%s\",\"cpu\":%d,"
	       "\"version\":\"%s\",\"ports\":[", plain ? "l2fwd" : "switch", forwarded(s),
	       (double)(now - start) / hz, forwarded(s) * (double)hz / (now - start),
	       forwarded(s) ? (double)cycles_busy / forwarded(s) : 0.0, pages, cpu, rte_version());
	for (unsigned int p = 0; p < PORTS; p++) {
		const struct port_counters *k = &s->count[p];

		printf("%s{\"interface\":\"%s\",\"rx_packets\":%" PRIu64 ",\"rx_bytes\":%" PRIu64
		       ",\"tx_packets\":%" PRIu64 ",\"tx_bytes\":%" PRIu64, p ? "," : "",
		       argv[optind + p], k->rx_packets, k->rx_bytes, k->tx_packets, k->tx_bytes);
		for (unsigned int r = 0; r < DROP_COUNT; r++)
			printf(",\"%s\":%" PRIu64, drop_names[r], k->drops[r]);
		printf("}");
	}
	printf("],\"each_second\":[");
	for (unsigned int i = 0; i < n_each; i++) {
		printf("%s%.0f", comma, each[i]);
		comma = ",";
	}
	printf("]}\n");
	fflush(stdout);
	stop_ports();
	return 0;
}
