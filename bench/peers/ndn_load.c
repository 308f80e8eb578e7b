/* Load for a forwarder of named data, over its Unix socket: a producer, which registers a prefix as
 * any application does and answers every Interest with a Data of --size bytes of content, and a
 * consumer, which keeps --window Interests with names of its own pending. Each is a thread with a
 * connection; both do as little as can be done, so that the forwarder is the bottleneck.
 *
 *   ndn_load [--window 128] [--size 8000] [--seconds 2] [--pid FORWARDER] SOCKET
 *
 * Names are /bench/PID/NUMBER, never the same twice: nothing comes from a cache. Data has a
 * SignatureNull. Prints one line of JSON: per second, Data and megabytes (10^6) of content; what was
 * asked for again because it had not come for a second; processor time per Data, of this program
 * and, with --pid, of the forwarder, in microseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Types of NDN packets 0.3 and NDNLPv2. */
enum {
	INTEREST = 0x05,
	DATA = 0x06,
	NAME = 0x07,
	COMPONENT = 0x08,
	PARAMETERS_DIGEST = 0x02,
	NONCE = 0x0a,
	LIFETIME = 0x0c,
	CONTENT = 0x15,
	PARAMETERS = 0x24,
	INTEREST_SIG_INFO = 0x2c,
	INTEREST_SIG_VALUE = 0x2e,
	FRAGMENT = 0x50,
	PIT_TOKEN = 0x62,
	LP_PACKET = 0x64,
	CONTROL_RESPONSE = 0x65,
	CONTROL_PARAMETERS = 0x68,
};

#define PACKET_MAX 16384
#define READ_MAX (1 << 18)
#define WINDOW_MAX 4096
#define RESEND_NS 1000000000u
#define WARM_UP_NS 300000000u

static volatile int stop;
static char prefix_text[16]; /* of the second component */
static size_t content_len = 8000;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "ndn_load: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- SHA-256 (FIPS 180-4), of the one command that is signed; short messages only --- */

static uint32_t rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void sha256(const uint8_t *message, size_t len, uint8_t digest[32])
{
	static const uint32_t K[64] = {
		0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
		0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
		0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
		0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
		0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
		0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
		0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
		0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
		0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
		0xc67178f2,
	};
	uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	uint8_t padded[1024] = { 0 };
	size_t blocks = (len + 9 + 63) / 64;

	if (blocks * 64 > sizeof(padded))
		die("a command of %zu bytes is too long", len);
	memcpy(padded, message, len);
	padded[len] = 0x80;
	for (int i = 0; i < 8; i++)
		padded[blocks * 64 - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	for (size_t b = 0; b < blocks; b++) {
		const uint8_t *p = padded + b * 64;
		uint32_t w[64], v[8];

		for (int i = 0; i < 16; i++)
			w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
			       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
		for (int i = 16; i < 64; i++)
			w[i] = w[i - 16] + w[i - 7] +
			       (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
			       (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
		memcpy(v, h, sizeof(v));
		for (int i = 0; i < 64; i++) {
			uint32_t t1 = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
				      ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[i] + w[i];
			uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
				      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

			memmove(v + 1, v, 7 * sizeof(v[0]));
			v[4] += t1;
			v[0] = t1 + t2;
		}
		for (int i = 0; i < 8; i++)
			h[i] += v[i];
	}
	for (int i = 0; i < 32; i++)
		digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* --- TLV --- */

static size_t put_number(uint8_t *to, size_t number)
{
	if (number < 253) {
		to[0] = (uint8_t)number;
		return 1;
	}
	to[0] = 253;
	to[1] = (uint8_t)(number >> 8);
	to[2] = (uint8_t)number;
	return 3;
}

static size_t put_header(uint8_t *to, uint8_t type, size_t len)
{
	to[0] = type;
	return 1 + put_number(to + 1, len);
}

static size_t put(uint8_t *to, uint8_t type, const void *value, size_t len)
{
	size_t header = put_header(to, type, len);

	memcpy(to + header, value, len);
	return header + len;
}

struct tlv {
	size_t type, len;
	const uint8_t *value;
	size_t whole; /* with type and length */
};

/* 0 when it is not all there; ends the program where no packet can be. */
static int get_number(const uint8_t **at, const uint8_t *end, size_t *number)
{
	const uint8_t *p = *at;

	if (p == end)
		return 0;
	if (*p < 253) {
		*number = *p;
		*at = p + 1;
		return 1;
	}
	if (*p != 253)
		die("the forwarder sent a packet over 64 KiB");
	if (end - p < 3)
		return 0;
	*number = (size_t)p[1] << 8 | p[2];
	*at = p + 3;
	return 1;
}

static int get(const uint8_t *at, const uint8_t *end, struct tlv *tlv)
{
	const uint8_t *p = at;

	if (!get_number(&p, end, &tlv->type) || !get_number(&p, end, &tlv->len) ||
	    tlv->len > (size_t)(end - p))
		return 0;
	tlv->value = p;
	tlv->whole = (size_t)(p - at) + tlv->len;
	return 1;
}

/* The packet in a link packet, and the token that comes with it. */
static int unwrap(struct tlv *packet, struct tlv *token)
{
	const uint8_t *at = packet->value, *end = at + packet->len;
	struct tlv field;

	memset(token, 0, sizeof(*token));
	if (packet->type != LP_PACKET)
		return 1;
	for (; get(at, end, &field); at += field.whole) {
		if (field.type == PIT_TOKEN)
			*token = field;
		if (field.type == FRAGMENT)
			return get(field.value, field.value + field.len, packet);
	}
	return 0;
}

/* --- connections --- */

struct connection {
	int fd;
	size_t from, to; /* what has been read and not looked at */
	uint8_t buffer[READ_MAX];
};

static void connect_to(struct connection *c, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		die("%s: the path is too long", path);
	strcpy(address.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		die("%s: %s", path, strerror(errno));
	c->from = c->to = 0;
}

/* The next packet of those that have been read. */
static int next_packet(struct connection *c, struct tlv *packet)
{
	if (!get(c->buffer + c->from, c->buffer + c->to, packet))
		return 0;
	c->from += packet->whole;
	return 1;
}

/* Waits for more, and reads it; 0 after `limit_ms` without any. */
static int read_more(struct connection *c, int limit_ms)
{
	struct pollfd ready = { .fd = c->fd, .events = POLLIN };
	ssize_t got;

	memmove(c->buffer, c->buffer + c->from, c->to - c->from);
	c->to -= c->from;
	c->from = 0;
	if (poll(&ready, 1, limit_ms) <= 0)
		return 0;
	got = read(c->fd, c->buffer + c->to, sizeof(c->buffer) - c->to);
	if (got <= 0)
		die("the forwarder closed the connection");
	c->to += (size_t)got;
	return 1;
}

static void send_all(struct connection *c, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		ssize_t sent = send(c->fd, bytes, len, MSG_NOSIGNAL);

		if (sent < 0)
			die("sending to the forwarder: %s", strerror(errno));
		bytes += sent;
		len -= (size_t)sent;
	}
}

/* --- the producer --- */

static size_t put_prefix(uint8_t *to)
{
	size_t n = put(to, COMPONENT, "bench", 5);

	return n + put(to + n, COMPONENT, prefix_text, strlen(prefix_text));
}

/* Has the forwarder send Interests under the prefix here: NFD's rib/register, signed by digest. */
static void register_prefix(struct connection *c)
{
	static const uint8_t DIGEST_SHA256[] = { 0x1b, 1, 0 };
	uint8_t name[64], fields[96], components[1024], signed_part[1024], packet[1024];
	uint8_t value[1024];
	uint8_t digest[32], nonce[4] = { 1, 2, 3, 4 }, info[32];
	size_t name_len, len, components_len = 0, parameters_len, value_len;
	uint64_t time_ms = now_ns(CLOCK_REALTIME) / 1000000u;
	static const char *const WORDS[] = { "localhost", "nfd", "rib", "register" };
	struct tlv answer, token, field;

	len = put_prefix(value);
	name_len = put(name, NAME, value, len);
	len = put(value, CONTROL_PARAMETERS, name, name_len);
	for (size_t i = 0; i < 4; i++)
		components_len += put(components + components_len, COMPONENT, WORDS[i],
				      strlen(WORDS[i]));
	components_len += put(components + components_len, COMPONENT, value, len);

	/* The parameters, which are empty, and how it is signed; the digest covers the name too. */
	len = sizeof(DIGEST_SHA256);
	memcpy(info, DIGEST_SHA256, len);
	len += put(info + len, 0x26, nonce, sizeof(nonce));
	for (int i = 0; i < 8; i++)
		digest[i] = (uint8_t)(time_ms >> (56 - 8 * i));
	len += put(info + len, 0x28, digest, 8);
	parameters_len = put(fields, PARAMETERS, "", 0);
	parameters_len += put(fields + parameters_len, INTEREST_SIG_INFO, info, len);
	memcpy(signed_part, components, components_len);
	memcpy(signed_part + components_len, fields, parameters_len);
	sha256(signed_part, components_len + parameters_len, digest);
	parameters_len += put(fields + parameters_len, INTEREST_SIG_VALUE, digest, 32);
	sha256(fields, parameters_len, digest);
	components_len += put(components + components_len, PARAMETERS_DIGEST, digest, 32);

	value_len = put(value, NAME, components, components_len);
	value_len += put(value + value_len, NONCE, nonce, sizeof(nonce));
	memcpy(value + value_len, fields, parameters_len);
	send_all(c, packet, put(packet, INTEREST, value, value_len + parameters_len));

	while (!next_packet(c, &answer))
		if (!read_more(c, 5000))
			die("the forwarder does not answer rib/register");
	if (!unwrap(&answer, &token) || answer.type != DATA)
		die("the forwarder does not answer rib/register with Data");
	for (const uint8_t *at = answer.value; get(at, answer.value + answer.len, &field);
	     at += field.whole) {
		struct tlv response, code;

		if (field.type != CONTENT)
			continue;
		if (get(field.value, field.value + field.len, &response) &&
		    response.type == CONTROL_RESPONSE &&
		    get(response.value, response.value + response.len, &code) && code.len == 1 &&
		    code.value[0] == 200)
			return;
	}
	die("the forwarder refuses rib/register");
}

static void *produce(void *connection)
{
	static const uint8_t META[] = { 0x14, 4, 0x19, 2, 0x27, 0x10 }; /* fresh for 10 s */
	static const uint8_t SIGNATURE[] = { 0x16, 3, 0x1b, 1, 200, 0x17, 0 }; /* SignatureNull */
	static uint8_t out[32 * PACKET_MAX], tail[PACKET_MAX];
	struct connection *c = connection;
	size_t tail_len = sizeof(META), out_len = 0;
	uint8_t *content = calloc(1, content_len);

	/* What follows the name is the same in each. */
	memcpy(tail, META, sizeof(META));
	tail_len += put(tail + tail_len, CONTENT, content, content_len);
	memcpy(tail + tail_len, SIGNATURE, sizeof(SIGNATURE));
	tail_len += sizeof(SIGNATURE);
	while (!stop) {
		struct tlv packet, token, name;

		if (!next_packet(c, &packet)) {
			send_all(c, out, out_len);
			out_len = 0;
			read_more(c, 100);
			continue;
		}
		if (!unwrap(&packet, &token) || packet.type != INTEREST ||
		    !get(packet.value, packet.value + packet.len, &name))
			die("the forwarder sent no Interest to the producer");
		if (token.len > 0) {
			uint8_t header[8];
			size_t data = put_header(header, DATA, name.whole + tail_len) +
				      name.whole + tail_len;
			size_t fragment = put_header(header, FRAGMENT, data) + data;

			out_len += put_header(out + out_len, LP_PACKET, token.whole + fragment);
			out_len += put(out + out_len, PIT_TOKEN, token.value, token.len);
			out_len += put_header(out + out_len, FRAGMENT, data);
		}
		out_len += put_header(out + out_len, DATA, name.whole + tail_len);
		out_len += put(out + out_len, NAME, name.value, name.len);
		memcpy(out + out_len, tail, tail_len);
		out_len += tail_len;
		if (out_len > sizeof(out) - PACKET_MAX) {
			send_all(c, out, out_len);
			out_len = 0;
		}
	}
	free(content);
	return NULL;
}

/* --- the consumer --- */

struct consumer {
	struct connection connection;
	size_t window, out_len;
	uint64_t next, data, resent;
	uint64_t asked[WINDOW_MAX], when[WINDOW_MAX]; /* by place: the number and its time */
	uint8_t out[WINDOW_MAX * 64];
};

/* Asks for a number that is pending at this place of the window. */
static void ask(struct consumer *c, size_t place, uint64_t number, uint64_t now)
{
	static uint32_t nonce;
	uint8_t name[48], value[64], last[8];
	size_t len;

	/* The place is part of the number's name, so that the answer finds it. */
	for (int i = 0; i < 8; i++)
		last[i] = (uint8_t)((number << 12 | place) >> (56 - 8 * i));
	len = put_prefix(name);
	len += put(name + len, COMPONENT, last, sizeof(last));
	len = put(value, NAME, name, len);
	nonce += 0x9e3779b9;
	len += put(value + len, NONCE, &nonce, sizeof(nonce));
	len += put(value + len, LIFETIME, "\x0f\xa0", 2); /* 4 s */
	c->out_len += put(c->out + c->out_len, INTEREST, value, len);
	c->asked[place] = number;
	c->when[place] = now;
}

static void receive(struct consumer *c, struct tlv packet, uint64_t now)
{
	struct tlv token, name;
	uint64_t last = 0;

	/* A Nack is an Interest; it is asked for again as what does not come. */
	if (!unwrap(&packet, &token) || packet.type != DATA)
		return;
	if (!get(packet.value, packet.value + packet.len, &name) || name.len < 10 ||
	    packet.len < content_len)
		die("the forwarder sent a Data that nobody asked for");
	for (size_t i = name.len - 8; i < name.len; i++)
		last = last << 8 | name.value[i];
	/* What was asked for twice may come twice. */
	if (last % WINDOW_MAX >= c->window || c->asked[last % WINDOW_MAX] != last >> 12)
		return;
	c->data++;
	ask(c, last % WINDOW_MAX, c->next++, now);
}

/* Until a time, with as many pending as the window has places. */
static void consume(struct consumer *c, uint64_t until)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), looked = now;
	struct tlv packet;

	while (now < until) {
		send_all(&c->connection, c->out, c->out_len);
		c->out_len = 0;
		read_more(&c->connection, 100);
		now = now_ns(CLOCK_MONOTONIC);
		while (next_packet(&c->connection, &packet))
			receive(c, packet, now);
		if (now - looked < RESEND_NS / 10)
			continue;
		looked = now;
		for (size_t place = 0; place < c->window; place++)
			if (now - c->when[place] > RESEND_NS) {
				c->resent++;
				ask(c, place, c->asked[place], now);
			}
	}
}

/* --- processor time --- */

static double own_cpu_s(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Of all its threads, ended ones too. */
static double cpu_s_of(const char *pid)
{
	char path[64], line[1024], *at;
	unsigned long user = 0, kernel = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "r");
	if (f == NULL || fgets(line, sizeof(line), f) == NULL)
		die("%s: %s", path, strerror(errno));
	fclose(f);
	/* The name of the program, which may hold anything, ends with the last parenthesis. */
	at = strrchr(line, ')');
	if (at == NULL ||
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
		die("%s is not understood", path);
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

int main(int argc, char **argv)
{
	static const struct option OPTIONS[] = { { "window", 1, 0, 'w' }, { "size", 1, 0, 's' },
						 { "seconds", 1, 0, 't' }, { "pid", 1, 0, 'p' },
						 { 0, 0, 0, 0 } };
	static struct connection producer;
	static struct consumer consumer = { .window = 128 };
	const char *pid = NULL;
	double seconds = 2, own, other, spent;
	uint64_t start, data, resent;
	pthread_t thread;
	int option;

	while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'w': consumer.window = strtoul(optarg, NULL, 10); break;
		case 's': content_len = strtoul(optarg, NULL, 10); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'p': pid = optarg; break;
		default: return 2;
		}
	}
	if (optind + 1 != argc || consumer.window < 1 || consumer.window > WINDOW_MAX ||
	    content_len > 8600 || seconds <= 0) {
		fprintf(stderr, "usage: ndn_load [--window 1..%d] [--size 0..8600] [--seconds S] "
				"[--pid FORWARDER] SOCKET\n", WINDOW_MAX);
		return 2;
	}
	snprintf(prefix_text, sizeof(prefix_text), "%d", (int)getpid());
	connect_to(&producer, argv[optind]);
	register_prefix(&producer);
	if (pthread_create(&thread, NULL, produce, &producer) != 0)
		die("no thread can be started");

	connect_to(&consumer.connection, argv[optind]);
	start = now_ns(CLOCK_MONOTONIC);
	for (size_t place = 0; place < consumer.window; place++)
		ask(&consumer, place, consumer.next++, start);
	consume(&consumer, start + WARM_UP_NS);
	if (consumer.data == 0)
		die("no Data has come");

	data = consumer.data;
	resent = consumer.resent;
	own = own_cpu_s();
	other = pid == NULL ? 0 : cpu_s_of(pid);
	start = now_ns(CLOCK_MONOTONIC);
	consume(&consumer, start + (uint64_t)(seconds * 1e9));
	spent = (double)(now_ns(CLOCK_MONOTONIC) - start) / 1e9;
	own = own_cpu_s() - own;
	other = pid == NULL ? 0 : cpu_s_of(pid) - other;
	data = consumer.data - data;
	if (data == 0)
		die("no Data came");
	printf("{\"data_per_s\":%.0f,\"mb_per_s\":%.1f,\"resent\":%llu,\"load_us_per_data\":%.2f",
	       (double)data / spent, (double)(data * content_len) / spent / 1e6,
	       (unsigned long long)(consumer.resent - resent), own / (double)data * 1e6);
	if (pid != NULL)
		printf(",\"forwarder_us_per_data\":%.2f", other / (double)data * 1e6);
	printf(",\"seconds\":%.2f}\n", spent);
	stop = 1;
	return 0;
}
