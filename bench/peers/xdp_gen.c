/* Generator: sends one UDP frame over and over out of an interface by BPF_PROG_TEST_RUN with live
 * frames: the kernel runs an XDP program on a page it owns and redirects it. On a veth the other
 * end must have GRO on or an XDP program attached, or the kernel has nowhere to put the frames.
 *
 * The program writes both MAC addresses into every frame (pages are recycled by the kernel). With
 * --flows N (a power of two) the low 16 bits of both are exclusive-ored with the same random number
 * below N, so N stations talk to N others. The kernel sends without regard to loss: what a full
 * veth ring refuses is lost there, and only a sink knows what came through.
 *
 * With --destinations FILE every frame goes to a random one of the IPv4 addresses that lines
 * `d ADDRESS` of the file name, a power of two of them; TTL and header checksum are written anew,
 * since Linux's forwarding changes them in the very page that the kernel recycles.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <signal.h>

#include "xdp_raw.h"

#define BATCH 64 /* frames that the kernel's loop hands on at once */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void parse_mac(const char *text, uint8_t *mac)
{
	char end;

	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%c", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5], &end) != 6) {
		fprintf(stderr, "'%s' is not a MAC address such as 02:00:00:00:00:01\n", text);
		exit(2);
	}
}

/* IPv4 header checksum, RFC 791 section 3.1. */
static uint16_t ip_checksum(const uint8_t *h)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += h[i] << 8 | h[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* UDP to port 9 (discard), 10.99.0.1 to 10.99.0.2, checksum absent (RFC 768: zero). */
static void make_frame(uint8_t *f, unsigned int len, const uint8_t *dst, const uint8_t *src)
{
	const uint8_t ip[20] = { 0x45, 0, (len - 14) >> 8, (len - 14) & 0xff, 0, 0, 0x40, 0, 64, 17,
				 0, 0, 10, 99, 0, 1, 10, 99, 0, 2 };
	const uint8_t udp[8] = { 0x03, 0xe8, 0, 9, (len - 34) >> 8, (len - 34) & 0xff, 0, 0 };
	uint16_t sum = ip_checksum(ip);

	memcpy(f, dst, 6);
	memcpy(f + 6, src, 6);
	f[12] = 0x08;
	memcpy(f + 14, ip, 20);
	f[24] = sum >> 8;
	f[25] = sum & 0xff;
	memcpy(f + 34, udp, 8);
}

static uint16_t low16(const uint8_t *mac) /* as it lies in memory */
{
	uint16_t v;

	memcpy(&v, mac + 4, 2);
	return v;
}

/* What a frame to one destination has of its own: as they lie in the frame. */
struct target {
	uint32_t address;
	uint16_t checksum, pad;
};

/* A map of the file's destinations; how many there are goes to `count`. */
static int read_targets(const char *name, const uint8_t *frame, unsigned int *count)
{
	static struct target targets[1 << 16];
	FILE *file = fopen(name, "r");
	char line[128], text[64];
	uint8_t ip[20];
	union bpf_attr attr;
	int map;

	if (file == NULL)
		die(name);
	memcpy(ip, frame + 14, sizeof(ip));
	for (*count = 0; *count < 1 << 16 && fgets(line, sizeof(line), file) != NULL;) {
		struct target *t = &targets[*count];

		if (sscanf(line, "d %63s", text) != 1 || inet_pton(AF_INET, text, &t->address) != 1)
			continue;
		memset(ip + 10, 0, 2);
		memcpy(ip + 16, &t->address, 4);
		t->checksum = htons(ip_checksum(ip));
		++*count;
	}
	fclose(file);
	if (*count == 0 || (*count & (*count - 1)) != 0) {
		fprintf(stderr, "%s: %u destinations; a power of two up to 65536 is needed\n", name, *count);
		exit(2);
	}
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = sizeof(struct target);
	attr.max_entries = *count;
	map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0)
		die("making the destinations' map");
	for (uint32_t i = 0; i < *count; i++) {
		memset(&attr, 0, sizeof(attr));
		attr.map_fd = map;
		attr.key = (uintptr_t)&i;
		attr.value = (uintptr_t)&targets[i];
		if (bpf(BPF_MAP_UPDATE_ELEM, &attr) != 0)
			die("filling the destinations' map");
	}
	return map;
}

/* To a random one of `count` targets in `map`. */
static int program_to_targets(unsigned int ifindex, const uint8_t *frame, int map,
			      unsigned int count)
{
	struct bpf_insn p[48];
	unsigned int n = 0, jump[2];
	uint32_t dst_high, src_high;
	uint16_t dst_low, src_low, ttl;

	memcpy(&dst_high, frame, 4);
	memcpy(&dst_low, frame + 4, 2);
	memcpy(&src_high, frame + 6, 4);
	memcpy(&src_low, frame + 10, 2);
	memcpy(&ttl, frame + 22, 2); /* and the protocol */
	p[n++] = MOV_REG(6, 1);
	p[n++] = CALL(BPF_FUNC_get_prandom_u32);
	p[n++] = AND_IMM(0, (int)count - 1);
	p[n++] = STORE(BPF_W, 10, 0, -4);
	const struct bpf_insn lookup[] = { LOAD_MAP(1, map) };
	p[n++] = lookup[0];
	p[n++] = lookup[1];
	p[n++] = MOV_REG(2, 10);
	p[n++] = ADD_IMM(2, -4);
	p[n++] = CALL(BPF_FUNC_map_lookup_elem);
	jump[0] = n;
	p[n++] = JUMP_EQ_IMM(0, 0, 0);
	p[n++] = LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, data));
	p[n++] = LOAD(BPF_W, 3, 6, offsetof(struct xdp_md, data_end));
	p[n++] = MOV_REG(4, 2);
	p[n++] = ADD_IMM(4, 34);
	jump[1] = n;
	p[n++] = JUMP_GT(4, 3, 0);
	p[n++] = STORE_IMM(BPF_W, 2, 0, (int)dst_high);
	p[n++] = STORE_IMM(BPF_H, 2, 4, (int16_t)dst_low);
	p[n++] = STORE_IMM(BPF_W, 2, 6, (int)src_high);
	p[n++] = STORE_IMM(BPF_H, 2, 10, (int16_t)src_low);
	p[n++] = STORE_IMM(BPF_H, 2, 22, (int16_t)ttl);
	p[n++] = LOAD(BPF_W, 1, 0, offsetof(struct target, address));
	p[n++] = STORE(BPF_W, 2, 1, 30);
	p[n++] = LOAD(BPF_H, 1, 0, offsetof(struct target, checksum));
	p[n++] = STORE(BPF_H, 2, 1, 24);
	p[n++] = MOV_IMM(1, (int)ifindex);
	p[n++] = MOV_IMM(2, 0);
	p[n++] = CALL(BPF_FUNC_redirect);
	p[n++] = EXIT();
	for (unsigned int i = 0; i < 2; i++)
		p[jump[i]].off = (int16_t)(n - jump[i] - 1);
	p[n++] = MOV_IMM(0, XDP_ABORTED);
	p[n++] = EXIT();
	return load_xdp(p, n);
}

static int program(unsigned int ifindex, const uint8_t *dst, const uint8_t *src, unsigned int flows)
{
	struct bpf_insn p[40];
	unsigned int n = 0;
	uint32_t dst_high, src_high;

	memcpy(&dst_high, dst, 4);
	memcpy(&src_high, src, 4);
	if (flows > 1) {
		p[n++] = MOV_REG(6, 1);
		p[n++] = CALL(BPF_FUNC_get_prandom_u32);
		p[n++] = MOV_REG(7, 0);
		p[n++] = AND_IMM(7, (int)flows - 1);
		p[n++] = INSN(BPF_ALU | BPF_END | BPF_TO_BE, 7, 0, 0, 16);
		p[n++] = MOV_REG(1, 6);
	}
	p[n++] = LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data));
	p[n++] = LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end));
	p[n++] = MOV_REG(4, 2);
	p[n++] = ADD_IMM(4, 14);
	p[n] = JUMP_GT(4, 3, 0);
	unsigned int jump = n++;
	p[n++] = STORE_IMM(BPF_W, 2, 0, (int)dst_high);
	p[n++] = STORE_IMM(BPF_W, 2, 6, (int)src_high);
	if (flows > 1) {
		p[n++] = MOV_REG(5, 7);
		p[n++] = XOR_IMM(5, low16(dst));
		p[n++] = STORE(BPF_H, 2, 5, 4);
		p[n++] = XOR_IMM(7, low16(src));
		p[n++] = STORE(BPF_H, 2, 7, 10);
	} else {
		p[n++] = STORE_IMM(BPF_H, 2, 4, (int16_t)low16(dst));
		p[n++] = STORE_IMM(BPF_H, 2, 10, (int16_t)low16(src));
	}
	p[n++] = MOV_IMM(1, (int)ifindex);
	p[n++] = MOV_IMM(2, 0);
	p[n++] = CALL(BPF_FUNC_redirect);
	p[n++] = EXIT();
	p[jump].off = (int16_t)(n - jump - 1);
	p[n++] = MOV_IMM(0, XDP_ABORTED);
	p[n++] = EXIT();
	return load_xdp(p, n);
}

static void usage(FILE *to)
{
	fputs("usage: xdp_gen --if NAME --dst MAC --src MAC [--seconds S | --count N] [--size BYTES]\n"
	      "               [--flows N | --destinations FILE] [--rate PPS]\n"
	      "  --size    frame length without the check sequence, 60 to 1514 (60)\n"
	      "  --flows   power of two up to 65536 (1): stations on either side\n"
	      "  --destinations  lines `d ADDRESS`: the packets' IPv4 destinations, at random\n"
	      "  --rate    mean packets per second, bursty (as fast as possible)\n"
	      "prints one line of JSON; run it in the interface's network namespace, as root\n"
	      "example: ip netns exec NS taskset -c 0 xdp_gen --if A --dst 02:00:00:00:00:02 \\\n"
	      "             --src 02:00:00:00:00:01 --seconds 5\n", to);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "if", 1, NULL, 'i' }, { "dst", 1, NULL, 'd' }, { "src", 1, NULL, 's' },
		{ "seconds", 1, NULL, 't' }, { "count", 1, NULL, 'c' }, { "size", 1, NULL, 'l' },
		{ "flows", 1, NULL, 'f' }, { "rate", 1, NULL, 'r' }, { "destinations", 1, NULL, 'D' },
		{ "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	const char *interface = NULL, *destinations = NULL;
	uint8_t dst[6], src[6], frame[1514] = { 0 };
	unsigned int have = 0, size = 60, flows = 1;
	uint64_t count = 0, sent = 0;
	double seconds = 0, rate = 0, start, elapsed;
	union bpf_attr attr;
	int c, fd;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'i': interface = optarg; break;
		case 'd': parse_mac(optarg, dst); have |= 1; break;
		case 's': parse_mac(optarg, src); have |= 2; break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'c': count = strtoull(optarg, NULL, 0); break;
		case 'l': size = strtoul(optarg, NULL, 0); break;
		case 'f': flows = strtoul(optarg, NULL, 0); break;
		case 'r': rate = strtod(optarg, NULL); break;
		case 'D': destinations = optarg; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (interface == NULL || have != 3 || size < 60 || size > sizeof(frame) || flows == 0
	    || flows > 65536 || (flows & (flows - 1)) != 0
	    || (destinations != NULL && flows > 1) || rate < 0 || seconds < 0 || optind != argc) {
		usage(stderr);
		return 2;
	}
	if (seconds == 0 && count == 0)
		seconds = 5;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	make_frame(frame, size, dst, src);
	if (destinations != NULL) {
		unsigned int targets;
		int map = read_targets(destinations, frame, &targets);

		fd = program_to_targets(interface_index(interface), frame, map, targets);
	} else {
		fd = program(interface_index(interface), dst, src, flows);
	}

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = fd;
	attr.test.data_in = (uintptr_t)frame;
	attr.test.data_size_in = size;
	attr.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
	attr.test.batch_size = BATCH;
	start = now_s();
	/* A call sets its pages up anew, which takes tens of milliseconds: calls are long, and a rate is
	 * kept as a mean over calls of 50 ms worth of packets, never as even spacing. */
	uint64_t chunk = 1 << 16;
	if (rate > 0)
		chunk = rate * 0.05 < BATCH ? BATCH : (uint64_t)(rate * 0.05);
	for (;;) {
		uint64_t now;
		double before;

		before = now_s();
		elapsed = before - start;
		if (stop || (seconds > 0 && elapsed >= seconds) || (count > 0 && sent >= count))
			break;
		if (rate > 0 && sent > elapsed * rate)
			continue;
		now = count > 0 && chunk > count - sent ? count - sent : chunk;
		attr.test.repeat = now;
		if (bpf(BPF_PROG_TEST_RUN, &attr) != 0) {
			if (errno == EINTR)
				continue;
			die("BPF_PROG_TEST_RUN with live frames (Linux 5.18 or newer)");
		}
		sent += now;
		if (rate == 0 && now_s() - before < 0.15 && chunk < 1 << 22)
			chunk *= 2;
	}
	printf("{\"name\":\"xdp_gen\",\"interface\":\"%s\",\"packets\":%" PRIu64 ",\"seconds\":%.3f,"
	       "\"pps\":%.0f,\"frame_bytes\":%u,\"flows\":%u}\n",
	       interface, sent, elapsed, elapsed > 0 ? sent / elapsed : 0, size + 4, flows);
	return 0;
}
