#!/bin/bash
# Peer: does the spanning tree of Linux's own bridges settle on a torus? RINGS rings of SIDE bridges
# in one network namespace, for SECONDS; a line every ten seconds: states of all ports. A settled
# tree has no port that listens or learns. Example: stp_torus.sh 5 100 600
set -eu
rings=${1:?rings} side=${2:?bridges in a ring} seconds=${3:?seconds}
ns=stp-torus-$$
ip netns add "$ns"
trap 'ip netns del "$ns"' EXIT
trap 'exit 1' INT TERM
ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
count=$((rings * side))
cable() { # name, bridge, bridge
    echo "link add $1a type veth peer name $1b"
    echo "link set $1a master b$2"
    echo "link set $1b master b$3"
    echo "link set $1a up"
    echo "link set $1b up"
}
{
    # Identifiers in no order, but each time the same: who is where decides the tree.
    for ((b = 0; b < count; b++)); do
        id=$(((b * 7919 + 4711) % 65521))
        printf 'link add b%d address 02:00:00:00:%02x:%02x type bridge stp_state 1\n' \
            $b $((id >> 8)) $((id & 255))
    done
    for ((b = 0; b < count; b++)); do
        cable r$b $b $((b / side * side + (b + 1) % side))
        [ "$rings" -lt 3 ] || cable c$b $b $(((b + side) % count))
    done
    for ((b = 0; b < count; b++)); do echo "link set b$b up"; done
} | ip -n "$ns" -batch -
for ((s = 0; s <= seconds; s += 10)); do
    states=$(bridge -n "$ns" link | grep -o 'state [a-z]*' | sort | uniq -c | xargs)
    echo "$s s: $states"
    [ $s -lt 60 ] || grep -q 'listening\|learning' <<<"$states" || { echo settled; exit; }
    sleep 10
done
echo "not settled"
exit 3
