/* Routes and destinations of the DPDK routers, and how they get into the tables.
 *
 * Lines of a file: `r ADDRESS LENGTH NEXTHOP` (0 to 63) and `d ADDRESS`, one family. Without a file
 * 65,536 routes to /24s, and as many destinations. */
#ifndef PLEXUS_PEERS_L3_ROUTES_H
#define PLEXUS_PEERS_L3_ROUTES_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "l3_router.h"

struct address {
	uint8_t bytes[16]; /* an IPv4 address is in the first four */
};

struct route {
	struct address address;
	uint8_t len, hop;
};

struct l3_routes {
	bool v6;
	struct route *routes;
	struct address *dst;
	uint32_t nroutes, ndst;
};

/* Reads the file, or makes up a table. */
static void l3_load(struct l3_routes *t, const char *name)
{
	const uint32_t most = 2000000;
	FILE *file = name != NULL ? fopen(name, "r") : NULL;
	char line[128], text[64];
	unsigned int len, hop;

	t->routes = calloc(most, sizeof(*t->routes));
	t->dst = calloc(most, sizeof(*t->dst));
	if (t->routes == NULL || t->dst == NULL || (name != NULL && file == NULL))
		rte_exit(1, "%s: cannot be read\n", name != NULL ? name : "table");
	if (file == NULL) {
		for (uint32_t i = 0; i < 65536; i++) {
			const uint8_t address[4] = { 20 + (i >> 14), i >> 6, i << 2, 1 };
			struct route *r = &t->routes[t->nroutes++];

			memcpy(t->dst[t->ndst++].bytes, address, 4);
			memcpy(r->address.bytes, address, 3);
			r->len = 24;
			r->hop = i * 2654435761u >> 26;
		}
		return;
	}
	while (fgets(line, sizeof(line), file) != NULL && t->nroutes < most && t->ndst < most) {
		struct address *to = &t->dst[t->ndst];
		bool is_route = sscanf(line, "r %63s %u %u", text, &len, &hop) == 3;

		if (is_route)
			to = &t->routes[t->nroutes].address;
		else if (sscanf(line, "d %63s", text) != 1)
			rte_exit(1, "%s: not understood: %s", name, line);
		t->v6 = strchr(text, ':') != NULL;
		if (inet_pton(t->v6 ? AF_INET6 : AF_INET, text, to->bytes) != 1
		    || (is_route && (len > 128 || hop >= NEXT_HOPS)))
			rte_exit(1, "%s: not understood: %s", name, line);
		if (is_route) {
			t->routes[t->nroutes].len = len;
			t->routes[t->nroutes++].hop = hop;
		} else {
			t->ndst++;
		}
	}
	fclose(file);
	if (t->nroutes == 0 || t->ndst == 0)
		rte_exit(1, "%s: no routes or no destinations\n", name);
}

/* What DPDK must have of memory for the tables and the library's tree of routes, in megabytes. */
static inline long l3_megabytes(const struct l3_routes *t)
{
	return (long)t->nroutes * 320 / 1000000 + (t->v6 ? 300 : 0);
}

static bool l3_try_routes(struct l3_router *router, const struct l3_routes *t, bool wide6, bool lpm)
{
	if (!l3_create_tables(router, t->v6 ? 0 : t->nroutes, t->v6 ? t->nroutes : 0, wide6, lpm))
		rte_exit(1, "no memory for the table: %s\n", rte_strerror(rte_errno));
	for (uint32_t i = 0; i < t->nroutes; i++) {
		const struct route *r = &t->routes[i];
		uint32_t address;
		int e;

		memcpy(&address, r->address.bytes, 4);
		address = rte_be_to_cpu_32(address);
		if (t->v6)
			e = rte_fib6_add(router->v6, r->address.bytes, r->len, r->hop);
		else if (router->lpm != NULL)
			e = rte_lpm_add(router->lpm, address, r->len, r->hop);
		else
			e = rte_fib_add(router->v4, address, r->len, r->hop);
		if (e != 0 && t->v6 && !wide6) {
			rte_fib6_free(router->v6);
			return false;
		}
		if (e != 0)
			rte_exit(1, "route %u does not fit into the table: %s\n", i, rte_strerror(-e));
	}
	return true;
}

/* All routes, into the narrowest entries that hold them. */
static void l3_add_routes(struct l3_router *router, const struct l3_routes *t, bool lpm)
{
	if (!l3_try_routes(router, t, false, lpm))
		l3_try_routes(router, t, true, lpm);
}

#endif
