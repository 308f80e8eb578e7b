#!/bin/bash
# The Internet's IPv4 table as the routers' peers read it, on standard output: a line
# `r ADDRESS LENGTH NEXTHOP` for each of 901,899 prefixes, with one of 64 next hops at random, and
# 65,536 lines `d ADDRESS`: random addresses in random prefixes. The same with every run.
set -eu
zcat "$(dirname "$0")/../../crates/table/data/prefixes.txt.gz" | awk -F/ '
    # Park and Miller: below 2^46, so exact in awk.
    function random(below) { x = x * 16807 % 2147483647; return int(x / 2147483647 * below) }
    BEGIN { x = 20260101 }
    !/:/ { address[n] = $1; len[n++] = $2; print "r", $1, $2, random(64) }
    END {
        for (i = 0; i < 65536; i++) {
            k = random(n)
            split(address[k], b, ".")
            a = ((b[1] * 256 + b[2]) * 256 + b[3]) * 256 + b[4] + random(2 ^ (32 - len[k]))
            print "d", int(a / 2 ^ 24) "." int(a / 65536) % 256 "." int(a / 256) % 256 "." a % 256
        }
    }'
