/* Sink: an XDP program that counts and drops every frame that arrives on an interface, but for ARP,
 * which the kernel is to answer when a router asks. It stays attached only as long as this process
 * lives (BPF link). Prints one line of JSON at the end. */
#include <arpa/inet.h>
#include <getopt.h>
#include <signal.h>

#include "xdp_raw.h"

#define MAX_CPUS 1024
#define MAX_SECONDS 3600

struct tally {
	uint64_t packets, bytes;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* Lines of /sys/devices/system/cpu/possible look like "0-7"; a per-CPU map has that many values. */
static unsigned int possible_cpus(void)
{
	unsigned int first = 0, last = 0;
	FILE *f = fopen("/sys/devices/system/cpu/possible", "r");
	int got = f == NULL ? 0 : fscanf(f, "%u-%u", &first, &last);

	if (f != NULL)
		fclose(f);
	if (got < 1)
		return MAX_CPUS;
	return got == 2 ? last + 1 : first + 1;
}

static struct tally read_tally(int map, unsigned int cpus)
{
	static struct tally per_cpu[MAX_CPUS];
	struct tally sum = { 0, 0 };
	uint32_t key = 0;
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)per_cpu;
	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr) != 0)
		die("reading the counters");
	for (unsigned int i = 0; i < cpus; i++) {
		sum.packets += per_cpu[i].packets;
		sum.bytes += per_cpu[i].bytes;
	}
	return sum;
}

static int program(int map)
{
	const struct bpf_insn p[] = {
		LOAD(BPF_W, 6, 1, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, 7, 1, offsetof(struct xdp_md, data_end)),
		MOV_REG(2, 6),
		ADD_IMM(2, 14),
		JUMP_GT(2, 7, 4),
		LOAD(BPF_H, 2, 6, 12),
		JUMP_NE_IMM(2, htons(0x0806), 2),
		MOV_IMM(0, XDP_PASS),
		EXIT(),
		SUB_REG(7, 6),
		STORE_IMM(BPF_W, 10, -4, 0),
		MOV_REG(2, 10),
		ADD_IMM(2, -4),
		LOAD_MAP(1, map),
		CALL(BPF_FUNC_map_lookup_elem),
		JUMP_EQ_IMM(0, 0, 6),
		LOAD(BPF_DW, 1, 0, 0),
		ADD_IMM(1, 1),
		STORE(BPF_DW, 0, 1, 0),
		LOAD(BPF_DW, 1, 0, 8),
		ADD_REG(1, 7),
		STORE(BPF_DW, 0, 1, 8),
		MOV_IMM(0, XDP_DROP),
		EXIT(),
	};

	return load_xdp(p, sizeof(p) / sizeof(p[0]));
}

static void usage(FILE *to)
{
	fputs("usage: xdp_sink --if NAME [--seconds S] [--live]\n"
	      "counts and drops what arrives (ARP passes) for S seconds or until SIGINT, SIGTERM; prints 'ready' on\n"
	      "stderr when attached, then one line of JSON; --live adds a line a second on stderr\n"
	      "example: ip netns exec NS xdp_sink --if B --seconds 5\n", to);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "if", 1, NULL, 'i' }, { "seconds", 1, NULL, 't' }, { "live", 0, NULL, 'l' },
		{ "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	static double each[MAX_SECONDS];
	const char *interface = NULL;
	const unsigned int cpus = possible_cpus();
	double seconds = 0, start, at, last_at, next;
	unsigned int n = 0, ifindex;
	struct tally first, last, t;
	union bpf_attr attr;
	int c, live = 0, map, prog;
	struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: signals end the sleep */

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'i': interface = optarg; break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'l': live = 1; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (interface == NULL || cpus > MAX_CPUS || seconds < 0 || optind != argc) {
		usage(stderr);
		return 2;
	}
	ifindex = interface_index(interface);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_PERCPU_ARRAY;
	attr.key_size = 4;
	attr.value_size = sizeof(struct tally);
	attr.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0)
		die("making the counters");
	prog = program(map);
	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = prog;
	attr.link_create.target_ifindex = ifindex;
	attr.link_create.attach_type = BPF_XDP;
	if (bpf(BPF_LINK_CREATE, &attr) < 0)
		die("attaching to the interface (is another XDP program there?)");
	fprintf(stderr, "ready\n");

	start = last_at = now_s();
	next = start + 1;
	first = last = read_tally(map, cpus);
	do {
		double wake = next;
		struct timespec pause;

		if (seconds > 0 && start + seconds < wake)
			wake = start + seconds;
		at = now_s();
		if (wake > at && !stop) {
			pause.tv_sec = (time_t)(wake - at);
			pause.tv_nsec = (long)((wake - at - pause.tv_sec) * 1e9);
			nanosleep(&pause, NULL);
		}
		at = now_s();
		t = read_tally(map, cpus);
		if (at >= next) {
			double rate = (t.packets - last.packets) / (at - last_at);

			if (n < MAX_SECONDS)
				each[n++] = rate;
			if (live)
				fprintf(stderr, "%.0f pps\n", rate);
			last = t;
			last_at = at;
			next = at + 1;
		}
	} while (!stop && (seconds == 0 || at < start + seconds));
	printf("{\"name\":\"xdp_sink\",\"interface\":\"%s\",\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64
	       ",\"seconds\":%.3f,\"pps\":%.0f,\"each_second\":[", interface,
	       t.packets - first.packets, t.bytes - first.bytes, at - start,
	       (t.packets - first.packets) / (at - start));
	for (unsigned int i = 0; i < n; i++)
		printf("%s%.0f", i ? "," : "", each[i]);
	printf("]}\n");
	return 0;
}
