/* XDP programs as raw instructions through bpf(2): neither clang nor libbpf is needed to build or
 * to run the generator and the sink. Instruction layout: linux/bpf.h, struct bpf_insn. */
#ifndef PLEXUS_PEERS_XDP_RAW_H
#define PLEXUS_PEERS_XDP_RAW_H

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define INSN(op, dst, src, o, i) \
	((struct bpf_insn){ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (o), .imm = (i) })
#define MOV_REG(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define AND_IMM(d, i) INSN(BPF_ALU64 | BPF_AND | BPF_K, d, 0, 0, i)
#define XOR_IMM(d, i) INSN(BPF_ALU64 | BPF_XOR | BPF_K, d, 0, 0, i)
#define ADD_REG(d, s) INSN(BPF_ALU64 | BPF_ADD | BPF_X, d, s, 0, 0)
#define SUB_REG(d, s) INSN(BPF_ALU64 | BPF_SUB | BPF_X, d, s, 0, 0)
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, s, o) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define STORE_IMM(size, d, o, i) INSN(BPF_ST | BPF_MEM | (size), d, 0, o, i)
#define JUMP_GT(a, b, o) INSN(BPF_JMP | BPF_JGT | BPF_X, a, b, o, 0)
#define JUMP_EQ_IMM(a, i, o) INSN(BPF_JMP | BPF_JEQ | BPF_K, a, 0, o, i)
#define JUMP_NE_IMM(a, i, o) INSN(BPF_JMP | BPF_JNE | BPF_K, a, 0, o, i)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define LOAD_MAP(d, fd) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)

static int bpf(int cmd, union bpf_attr *attr)
{
	return (int)syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static void die(const char *what)
{
	fprintf(stderr, "%s: %s%s\n", what, strerror(errno),
		errno == EPERM ? " (loading XDP programs needs root)" : "");
	exit(1);
}

static int load_xdp(const struct bpf_insn *insns, unsigned int n)
{
	static char log[65536];
	union bpf_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_XDP;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = n;
	attr.license = (uintptr_t)"Dual MIT/GPL";
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	attr.log_buf = (uintptr_t)log;
	attr.log_size = sizeof(log);
	attr.log_level = 1;
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0) {
		fprintf(stderr, "%s", log);
		die("the kernel refuses the XDP program");
	}
	return fd;
}

static unsigned int interface_index(const char *name)
{
	unsigned int index = if_nametoindex(name);

	if (index == 0) {
		fprintf(stderr, "no interface %s in this network namespace\n", name);
		exit(1);
	}
	return index;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

#endif
