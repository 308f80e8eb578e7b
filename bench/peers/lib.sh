# Sourced by bridge.sh, ovs.sh, xdp.sh: two veth pairs between an outer and a switch namespace.
#
#   outer namespace   A ----- SA   switch namespace
#                     B ----- SB
#
# Traffic goes in at A and comes out at B. Names carry the process id, so runs do not collide, and
# everything goes when the script ends (end of standard input, SIGTERM, SIGINT).
# Environment: THREADED=1 puts the receive work of SA and SB into kernel threads pinned to CPU,
# CPU=N says where (default 1, or 0 on a machine with one CPU).

set -eu
[ "$(id -u)" = 0 ] || { echo "$0: needs root (network namespaces, XDP)" >&2; exit 1; }
for tool in ip ethtool taskset; do
    command -v $tool >/dev/null || {
        echo "$0: $tool is missing (packages iproute2, ethtool, util-linux)" >&2
        exit 1
    }
done

HERE=$(cd "$(dirname "$0")" && pwd)
CPU=${CPU:-$(($(nproc --all) > 1 ? 1 : 0))}
OUTER=plxo-$$ INNER=plxs-$$
A=pa$$ B=pb$$ SA=sa$$ SB=sb$$
CHILD= WAITER=

# Three seconds to end politely.
end() {
    kill "$1" 2>/dev/null || return 0
    for _ in $(seq 60); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.05
    done
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

clean() {
    trap '' TERM INT EXIT
    if [ -n "$WAITER" ]; then kill "$WAITER" 2>/dev/null || true; fi
    if [ -n "$CHILD" ]; then end "$CHILD"; fi
    stop_switch || true
    ip netns del $OUTER 2>/dev/null || true # its ends of the pairs go with it, and the others too
    ip netns del $INNER 2>/dev/null || true
}
stop_switch() { :; } # a script that starts daemons replaces this

trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Addresses the generator uses; the interfaces carry them too.
MAC_A=02:00:00:00:0a:00 MAC_B=02:00:00:00:0b:00
MAC_SA=02:00:00:00:1a:00 MAC_SB=02:00:00:00:1b:00

make_veths() {
    ip netns add $OUTER
    ip netns add $INNER
    for ns in $OUTER $INNER; do
        # No neighbour discovery between the frames that are counted.
        ip netns exec $ns sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
        ip -n $ns link set lo up
    done
    ip link add $A netns $OUTER address $MAC_A type veth peer name $SA \
        address $MAC_SA netns $INNER
    ip link add $B netns $OUTER address $MAC_B type veth peer name $SB \
        address $MAC_SB netns $INNER
    for end in $A $B; do ready_end $OUTER $end; done
    for end in $SA $SB; do ready_end $INNER $end; done
}

# Checksums and segments are complete on the wire. GRO gives veth its own receive context, without
# which frames by XDP redirect are refused; the kernel makes it only when GRO is *turned* on.
ready_end() { # namespace, interface
    ip -n $1 link set $2 promisc on up
    ip netns exec $1 ethtool -K $2 tx off tso off gso off gro off >/dev/null
    ip netns exec $1 ethtool -K $2 gro on >/dev/null
}

# After the switch has attached to SA and SB: veth makes its receive contexts then.
place_receive_work() {
    [ "${THREADED:-0}" = 1 ] || return 0
    for end in $SA $SB; do
        ip netns exec $INNER sh -c "echo 1 > /sys/class/net/$end/threaded"
        for pid in $(ps -eo pid=,comm= | awk -v n="napi/$end-" 'index($2, n) == 1 { print $1 }'); do
            taskset -pc "$CPU" "$pid" >/dev/null
        done
    done
}

# For routers (ROUTES=FILE, see internet.sh): the stations behind B that are the 64 next hops; the
# kernel answers for them.
make_next_hops() {
    for host in $(seq 2 65); do echo "address add 10.1.0.$host/24 dev $B"; done |
        ip -n $OUTER -batch -
}

# The line every peer prints, then wait to be told to stop.
serve() {
    place_receive_work
    echo "NS=$OUTER A=$A B=$B SWNS=$INNER SA=$SA SB=$SB"
    # End of input, the switch's own end, or a signal, whichever comes first. Waiting in the shell,
    # not in cat, lets the traps run at once.
    cat >/dev/null <&3 &
    WAITER=$!
    wait -n $WAITER $CHILD || true
}
exec 3<&0 # background jobs get /dev/null as standard input; keep ours
