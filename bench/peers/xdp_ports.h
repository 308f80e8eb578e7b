/* The two ports of the DPDK peers over AF_XDP, on interfaces that exist already (veth ends).
 *
 * The driver shares its UMEM with the packet buffers, so DPDK does not copy; on veth the kernel
 * does (copy mode). Each port has its own UMEM: 22.11 shares one only with the same device, so a
 * frame that crosses is copied once by the driver's transmit. */
#ifndef PLEXUS_PEERS_XDP_PORTS_H
#define PLEXUS_PEERS_XDP_PORTS_H

#include <signal.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "eal.h"

#define PORTS 2
#define DESCRIPTORS 2048

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static inline unsigned int port_tx(unsigned int port, struct rte_mbuf **pkts, unsigned int n)
{
	return rte_eth_tx_burst(port, 0, pkts, n);
}

static void start_port(uint16_t port, struct rte_mempool *pool, const char *interface)
{
	const struct rte_eth_conf conf = { 0 };
	int e = rte_eth_dev_configure(port, 1, 1, &conf);

	if (e == 0)
		e = rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool);
	if (e == 0)
		e = rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL);
	if (e == 0)
		e = rte_eth_dev_start(port);
	if (e != 0)
		rte_exit(1, "%s: AF_XDP does not start: %s\n", interface, rte_strerror(-e));
	rte_eth_promiscuous_enable(port);
}

/* Starts DPDK and both ports; SIGINT and SIGTERM then set `stop`. Returns the pages it has, as
 * eal_start() does. */
static const char *start_ports(char **interfaces, int cpu, long megabytes, bool huge, int busy)
{
	char vdev[PORTS][96];
	const char *const extra[] = { vdev[0], vdev[1], "--force-max-simd-bitwidth=512", NULL };
	const char *pages;

	for (int p = 0; p < PORTS; p++)
		snprintf(vdev[p], sizeof(vdev[p]),
			 "--vdev=net_af_xdp%d,iface=%s,start_queue=0,queue_count=1,busy_budget=%d",
			 p, interfaces[p], busy);
	pages = eal_start(cpu, megabytes, huge, extra);
	if (rte_eth_dev_count_avail() != PORTS)
		rte_exit(1, "DPDK made %u ports of 2; is its net_af_xdp driver installed?\n",
			 rte_eth_dev_count_avail());
	for (uint16_t p = 0; p < PORTS; p++) {
		struct rte_mempool *pool;
		char name[16];

		snprintf(name, sizeof(name), "frames%u", p);
		pool = rte_pktmbuf_pool_create(name, 4 * DESCRIPTORS * 2 - 1, 256, 0,
					       RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
		if (pool == NULL)
			rte_exit(1, "out of memory: %s\n", rte_strerror(rte_errno));
		start_port(p, pool, interfaces[p]);
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	return pages;
}

static void stop_ports(void)
{
	for (uint16_t p = 0; p < PORTS; p++) {
		rte_eth_dev_stop(p);
		rte_eth_dev_close(p);
	}
	rte_eal_cleanup();
}

#endif
