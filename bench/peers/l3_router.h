/* An IPv4 and IPv6 router on rte_fib, or for IPv4 on rte_lpm: the work per packet that the DPDK peer does.
 *
 * Per packet: the frame must be to the port's own address and not from a group; IPv4: version,
 * header length and total length, header checksum, martian source and destination (as
 * crates/plane/src/router/ipv4.rs has them), TTL; IPv6: version, payload length, martians, hop
 * limit. The destinations of a burst are looked up in one call. Then addresses are rewritten from a
 * table of next hops, the packet held against the next hop's MTU, TTL and checksum changed
 * (RFC 1624), and the packet put into the output port's buffer. Counters are per port: packets and
 * bytes each way, packets routed, every drop reason. Packets with IPv4 options, and all that a full
 * router would answer, are counted drops: the measured traffic has none.
 *
 * The includer defines port_tx(): it sends a burst and returns how many went.
 */
#ifndef PLEXUS_PEERS_L3_ROUTER_H
#define PLEXUS_PEERS_L3_ROUTER_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#define MAX_PORTS 16
#define BURST_MAX 64
#define NEXT_HOPS 64
#define NO_ROUTE 0x7fff

enum drop {
	DROP_OTHER_DST, /* to another station */
	DROP_GROUP_SRC,
	DROP_NOT_IP,
	DROP_BAD_HEADER,
	DROP_CHECKSUM,
	DROP_MARTIAN,
	DROP_NO_ROUTE,
	DROP_TTL,
	DROP_TOO_BIG,
	DROP_OUTPUT_FULL,
	DROP_COUNT
};

static const char *const drop_names[DROP_COUNT] = {
	"other_dst", "group_src", "not_ip", "bad_header", "checksum", "martian", "no_route", "ttl",
	"too_big", "output_full",
};

struct port_counters {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, routed;
	uint64_t drops[DROP_COUNT];
} __rte_cache_aligned;

struct out_buffer {
	unsigned int n;
	uint64_t bytes;
	struct rte_mbuf *pkts[BURST_MAX];
} __rte_cache_aligned;

struct next_hop {
	uint8_t macs[12]; /* destination, source */
	uint16_t port, mtu;
};

struct l3_router {
	struct rte_fib *v4;
	struct rte_lpm *lpm; /* in its place */
	struct rte_fib6 *v6;
	unsigned int ports, burst;
	uint64_t own[MAX_PORTS]; /* each port's address, 48 bits */
	struct next_hop hops[NEXT_HOPS];
	struct port_counters count[MAX_PORTS];
	struct out_buffer out[MAX_PORTS];
};

static inline unsigned int port_tx(unsigned int port, struct rte_mbuf **pkts, unsigned int n);

static inline void l3_flush(struct l3_router *r, unsigned int port)
{
	struct out_buffer *o = &r->out[port];
	struct port_counters *c = &r->count[port];
	unsigned int sent;

	if (o->n == 0)
		return;
	sent = port_tx(port, o->pkts, o->n);
	if (unlikely(sent < o->n)) {
		for (unsigned int i = sent; i < o->n; i++)
			o->bytes -= o->pkts[i]->pkt_len;
		c->drops[DROP_OUTPUT_FULL] += o->n - sent;
		rte_pktmbuf_free_bulk(&o->pkts[sent], o->n - sent);
	}
	c->tx_packets += sent;
	c->tx_bytes += o->bytes;
	o->n = 0;
	o->bytes = 0;
}

static __rte_always_inline bool v4_sum_is_right(const uint8_t *ip)
{
	uint32_t w[5];
	uint64_t sum;

	memcpy(w, ip, 20);
	sum = (uint64_t)w[0] + w[1] + w[2] + w[3] + w[4];
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static __rte_always_inline bool v4_is_martian(uint32_t a)
{
	return ((a >> 24) == 0) | ((a >> 24) == 127) | ((a >> 24) >= 224) | ((a >> 16) == 0xa9fe);
}

static __rte_always_inline bool v6_is_martian(const uint8_t *a)
{
	uint64_t high, low;

	memcpy(&high, a, 8);
	memcpy(&low, a + 8, 8);
	low = rte_be_to_cpu_64(low);
	/* Groups; ::, ::1; ::ffff:0:0/96; link-local addresses are not forwarded. */
	return (a[0] == 0xff) | ((high == 0) & ((low <= 1) | (low >> 32 == 0xffff)))
	       | ((a[0] == 0xfe) & ((a[1] & 0xc0) == 0x80));
}

/* IPv4: DROP_COUNT if the header is good. */
static __rte_always_inline unsigned int v4_check(const uint8_t *ip, unsigned int room, uint32_t *dst)
{
	uint32_t src;
	uint16_t len;

	memcpy(&len, ip + 2, 2);
	len = rte_be_to_cpu_16(len);
	if (unlikely(room < 20 || ip[0] != 0x45 || len < 20 || len > room))
		return DROP_BAD_HEADER;
	if (unlikely(!v4_sum_is_right(ip)))
		return DROP_CHECKSUM;
	memcpy(&src, ip + 12, 4);
	memcpy(dst, ip + 16, 4);
	*dst = rte_be_to_cpu_32(*dst);
	if (unlikely(v4_is_martian(rte_be_to_cpu_32(src)) | v4_is_martian(*dst)))
		return DROP_MARTIAN;
	return DROP_COUNT;
}

static __rte_always_inline unsigned int v6_check(const uint8_t *ip, unsigned int room)
{
	uint16_t len;

	memcpy(&len, ip + 4, 2);
	if (unlikely(room < 40 || ip[0] >> 4 != 6 || rte_be_to_cpu_16(len) > room - 40u))
		return DROP_BAD_HEADER;
	if (unlikely(v6_is_martian(ip + 8) | v6_is_martian(ip + 24)))
		return DROP_MARTIAN;
	return DROP_COUNT;
}

static __rte_always_inline unsigned int v4_rewrite(uint8_t *f, const struct next_hop *hop)
{
	uint16_t len, sum;
	uint32_t more;

	memcpy(&len, f + 16, 2);
	if (unlikely(f[22] <= 1))
		return DROP_TTL;
	if (unlikely(rte_be_to_cpu_16(len) > hop->mtu))
		return DROP_TOO_BIG;
	memcpy(f, hop->macs, 12);
	f[22]--;
	memcpy(&sum, f + 24, 2);
	more = (uint32_t)sum + RTE_BE16(0x0100);
	sum = more + (more >= 0xffff);
	memcpy(f + 24, &sum, 2);
	return DROP_COUNT;
}

static __rte_always_inline unsigned int v6_rewrite(uint8_t *f, const struct next_hop *hop)
{
	uint16_t len;

	memcpy(&len, f + 18, 2);
	if (unlikely(f[21] <= 1))
		return DROP_TTL;
	if (unlikely(rte_be_to_cpu_16(len) + 40u > hop->mtu))
		return DROP_TOO_BIG;
	memcpy(f, hop->macs, 12);
	f[21]--;
	return DROP_COUNT;
}

/* Looked-up packets of one family, to their next hops; those that are dropped are appended. */
static __rte_always_inline unsigned int l3_forward(struct l3_router *r, unsigned int in,
	struct rte_mbuf **pkts, const uint64_t *hops, unsigned int n, struct rte_mbuf **dropped,
	const bool v6)
{
	struct port_counters *c = &r->count[in];
	unsigned int ndropped = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint8_t *f = rte_pktmbuf_mtod(pkts[i], uint8_t *);
		const struct next_hop *hop = &r->hops[hops[i] % NEXT_HOPS];
		unsigned int why = DROP_NO_ROUTE;

		if (likely(hops[i] != NO_ROUTE))
			why = v6 ? v6_rewrite(f, hop) : v4_rewrite(f, hop);
		if (likely(why == DROP_COUNT)) {
			struct out_buffer *o = &r->out[hop->port];

			o->pkts[o->n++] = pkts[i];
			o->bytes += pkts[i]->pkt_len;
			if (o->n == r->burst)
				l3_flush(r, hop->port);
		} else {
			c->drops[why]++;
			dropped[ndropped++] = pkts[i];
		}
	}
	c->routed += n - ndropped;
	return ndropped;
}

static __rte_always_inline void v4_look_up(const struct l3_router *r, uint32_t *dst,
					    uint64_t *hops, unsigned int n)
{
	uint32_t found[BURST_MAX];

	if (r->lpm == NULL) {
		rte_fib_lookup_bulk(r->v4, dst, hops, n);
		return;
	}
	rte_lpm_lookup_bulk(r->lpm, dst, found, n);
	for (unsigned int i = 0; i < n; i++)
		hops[i] = found[i] & RTE_LPM_LOOKUP_SUCCESS ? found[i] & 0xffffff : NO_ROUTE;
}

/* One burst from one port. */
static __rte_always_inline void l3_burst(struct l3_router *r, unsigned int in,
					 struct rte_mbuf **pkts, unsigned int n)
{
	struct port_counters *c = &r->count[in];
	struct rte_mbuf *dropped[BURST_MAX], *m4[BURST_MAX], *m6[BURST_MAX];
	uint32_t dst4[BURST_MAX];
	uint8_t dst6[BURST_MAX][RTE_FIB6_IPV6_ADDR_SIZE];
	uint64_t hops[BURST_MAX];
	unsigned int n4 = 0, n6 = 0, ndropped = 0;
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], void *));

	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *f = rte_pktmbuf_mtod(pkts[i], const uint8_t *);
		unsigned int len = pkts[i]->pkt_len, why;
		uint64_t w0;
		uint16_t type;

		bytes += len;
		memcpy(&w0, f, 8);
		memcpy(&type, f + 12, 2);
		if (unlikely(len < 14))
			why = DROP_BAD_HEADER;
		else if (unlikely(rte_be_to_cpu_64(w0) >> 16 != r->own[in]))
			why = DROP_OTHER_DST;
		else if (unlikely(f[6] & 1))
			why = DROP_GROUP_SRC;
		else if (type == RTE_BE16(0x0800)) {
			why = v4_check(f + 14, len - 14, &dst4[n4]);
			m4[n4] = pkts[i];
			n4 += why == DROP_COUNT;
		} else if (type == RTE_BE16(0x86dd)) {
			why = v6_check(f + 14, len - 14);
			memcpy(dst6[n6], f + 38, 16);
			m6[n6] = pkts[i];
			n6 += why == DROP_COUNT;
		} else {
			why = DROP_NOT_IP;
		}
		if (unlikely(why != DROP_COUNT)) {
			c->drops[why]++;
			dropped[ndropped++] = pkts[i];
		}
	}
	c->rx_packets += n;
	c->rx_bytes += bytes;

	if (n4 != 0) {
		v4_look_up(r, dst4, hops, n4);
		ndropped += l3_forward(r, in, m4, hops, n4, &dropped[ndropped], false);
	}
	if (n6 != 0) {
		rte_fib6_lookup_bulk(r->v6, dst6, hops, n6);
		ndropped += l3_forward(r, in, m6, hops, n6, &dropped[ndropped], true);
	}
	if (unlikely(ndropped))
		rte_pktmbuf_free_bulk(dropped, ndropped);
}

static inline uint64_t l3_total_drops(const struct port_counters *c)
{
	uint64_t sum = 0;

	for (unsigned int r = 0; r < DROP_COUNT; r++)
		sum += c->drops[r];
	return sum;
}

/* Tables for so many routes of each family. False when memory is short. */
static bool l3_create_tables(struct l3_router *r, int routes4, int routes6, bool wide6, bool lpm)
{
	struct rte_lpm_config cl = {
		.max_rules = routes4 + 16, .number_tbl8s = (1 << 15) - 1,
	};
	struct rte_fib_conf c4 = {
		.type = RTE_FIB_DIR24_8, .default_nh = NO_ROUTE, .max_routes = routes4 + 16,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = (1 << 15) - 1 },
	};
	struct rte_fib6_conf c6 = {
		.type = RTE_FIB6_TRIE, .default_nh = NO_ROUTE, .max_routes = routes6 + 16,
		.trie = { .nh_sz = wide6 ? RTE_FIB6_TRIE_4B : RTE_FIB6_TRIE_2B,
			  .num_tbl8 = wide6 ? 1 << 18 : (1 << 15) - 1 },
	};

	r->lpm = routes4 && lpm ? rte_lpm_create("lpm", SOCKET_ID_ANY, &cl) : NULL;
	r->v4 = routes4 && !lpm ? rte_fib_create(wide6 ? "v4w" : "v4", SOCKET_ID_ANY, &c4) : NULL;
	r->v6 = routes6 ? rte_fib6_create(wide6 ? "v6w" : "v6", SOCKET_ID_ANY, &c6) : NULL;
	return (routes4 == 0 || r->v4 != NULL || r->lpm != NULL) && (routes6 == 0 || r->v6 != NULL);
}

/* Vector or scalar lookups; false if there are none of this kind here. rte_lpm has one. */
static bool l3_select(struct l3_router *r, bool vector)
{
	if (r->lpm != NULL)
		return !vector;
	return (r->v4 == NULL || rte_fib_select_lookup(r->v4, vector
			? RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512
			: RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE) == 0)
	       && (r->v6 == NULL || rte_fib6_select_lookup(r->v6, vector
			? RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512 : RTE_FIB6_LOOKUP_TRIE_SCALAR) == 0);
}

#endif
