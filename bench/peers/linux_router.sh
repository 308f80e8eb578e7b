#!/bin/bash
# Peer: Linux forwarding between two veth pairs, with the routes of a file.
#   ROUTES=FILE linux_router.sh
# Prints "NS=... A=... B=..." when ready; ends with its standard input or by SIGTERM.
. "$(dirname "$0")/lib.sh"
make_veths
make_next_hops
ip -n $INNER address add 10.0.0.1/24 dev $SA
ip -n $INNER address add 10.1.0.1/24 dev $SB
# Linux at its best: next hops that need not be asked for, sources that are not looked up.
for host in $(seq 2 65); do
    echo "neighbour add 10.1.0.$host lladdr $MAC_B dev $SB nud permanent"
done | ip -n $INNER -batch -
for which in all default $SA $SB; do
    ip netns exec $INNER sysctl -qw net.ipv4.conf.$which.rp_filter=0
done
awk '$1 == "r" { printf "route add %s/%d via 10.1.0.%d\n", $2, $3, $4 + 2 }' "$ROUTES" |
    ip -n $INNER -batch -
ip netns exec $INNER sysctl -qw net.ipv4.ip_forward=1
# What `serve` waits for.
sleep infinity &
CHILD=$!
serve
