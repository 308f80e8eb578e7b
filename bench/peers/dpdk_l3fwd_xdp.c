/* Peer: DPDK's router over AF_XDP. Two net_af_xdp ports on veth ends (xdp_ports.h), one polling
 * core, and between them the router of l3_router.h with the routes of a file (l3_routes.h). Every
 * next hop is behind the second port, where the stations' addresses are; the first port's own
 * address and the second's are those of the interfaces. */
#include <getopt.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_version.h>

#include "xdp_ports.h"
#include "l3_router.h"
#include "l3_routes.h"

#define BURST 32

static const char usage[] =
	"usage: dpdk_l3fwd_xdp --routes FILE --to MAC [--seconds S] [--cpu N] [--huge] IF IF\n"
	"routes from the first interface to next hops at MAC behind the second until S seconds are\n"
	"over, SIGINT or SIGTERM; prints 'ready' on stderr, then one line of JSON; CPU in the\n"
	"environment stands for --cpu\n"
	"FILE: lines `r ADDRESS LENGTH NEXTHOP` (0 to 63) and `d ADDRESS`, IPv4\n";

/* A MAC address in the order of transmission. */
static void mac_of(const char *text, struct rte_ether_addr *mac)
{
	if (rte_ether_unformat_addr(text, mac) != 0)
		rte_exit(2, "'%s' is not a MAC address such as 02:00:00:00:00:01\n", text);
}

static struct l3_router *make_router(const struct l3_routes *table, const char *to)
{
	struct l3_router *r = rte_zmalloc("l3", sizeof(*r), RTE_CACHE_LINE_SIZE);
	struct rte_ether_addr own[PORTS], target;

	if (r == NULL)
		rte_exit(1, "out of memory: %s\n", rte_strerror(rte_errno));
	mac_of(to, &target);
	r->ports = PORTS;
	r->burst = BURST;
	for (uint16_t p = 0; p < PORTS; p++) {
		if (rte_eth_macaddr_get(p, &own[p]) != 0)
			rte_exit(1, "port %u has no address\n", p);
		for (int i = 0; i < RTE_ETHER_ADDR_LEN; i++)
			r->own[p] = r->own[p] << 8 | own[p].addr_bytes[i];
	}
	for (uint32_t n = 0; n < NEXT_HOPS; n++) {
		memcpy(r->hops[n].macs, &target, RTE_ETHER_ADDR_LEN);
		memcpy(r->hops[n].macs + RTE_ETHER_ADDR_LEN, &own[1], RTE_ETHER_ADDR_LEN);
		r->hops[n].port = 1;
		r->hops[n].mtu = 1500;
	}
	l3_add_routes(r, table, false);
	return r;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "routes", 1, NULL, 'r' }, { "to", 1, NULL, 'm' }, { "seconds", 1, NULL, 't' },
		{ "cpu", 1, NULL, 'c' }, { "huge", 0, NULL, 'H' }, { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *from_env = getenv("CPU"), *file = NULL, *to = NULL, *pages;
	int c, cpu = from_env ? atoi(from_env) : (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	bool huge = false, vector;
	struct l3_routes table = { 0 };
	struct l3_router *r;
	uint64_t hz, start, now, cycles = 0;
	double seconds = 0;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'r': file = optarg; break;
		case 'm': to = optarg; break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'c': cpu = atoi(optarg); break;
		case 'H': huge = true; break;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	}
	if (argc - optind != PORTS || file == NULL || to == NULL || !(seconds >= 0)) {
		fputs(usage, stderr);
		return 2;
	}
	l3_load(&table, file);
	pages = start_ports(&argv[optind], cpu, 300 + l3_megabytes(&table), huge, 0);
	r = make_router(&table, to);
	vector = l3_select(r, true) || !l3_select(r, false);
	fprintf(stderr, "ready\n");

	hz = rte_get_tsc_hz();
	start = now = rte_rdtsc();
	while (!stop && (seconds == 0 || now - start < seconds * hz)) {
		for (uint16_t p = 0; p < PORTS; p++) {
			struct rte_mbuf *pkts[BURST];
			uint16_t n = rte_eth_rx_burst(p, 0, pkts, BURST);
			uint64_t begin;

			if (n == 0)
				continue;
			begin = rte_rdtsc();
			l3_burst(r, p, pkts, n);
			for (uint16_t q = 0; q < PORTS; q++)
				l3_flush(r, q);
			cycles += rte_rdtsc() - begin;
		}
		now = rte_rdtsc();
	}
	printf("{\"name\":\"dpdk_router_af_xdp\",\"routes\":%u,\"seconds\":%.3f,\"avx512\":%s,"
	       "\"route_and_send_cycles_per_packet\":%.0f,\"pages\":\"%s\",\"cpu\":%d,"
	       "\"version\":\"%s\",\"ports\":[", table.nroutes, (double)(now - start) / hz,
	       vector ? "true" : "false",
	       r->count[0].routed ? (double)cycles / r->count[0].routed : 0.0, pages, cpu,
	       rte_version());
	for (unsigned int p = 0; p < PORTS; p++) {
		const struct port_counters *k = &r->count[p];

		printf("%s{\"interface\":\"%s\",\"rx_packets\":%" PRIu64 ",\"routed\":%" PRIu64
		       ",\"tx_packets\":%" PRIu64, p ? "," : "", argv[optind + p], k->rx_packets,
		       k->routed, k->tx_packets);
		for (unsigned int why = 0; why < DROP_COUNT; why++)
			printf(",\"%s\":%" PRIu64, drop_names[why], k->drops[why]);
		printf("}");
	}
	printf("]}\n");
	fflush(stdout);
	stop_ports();
	return 0;
}
