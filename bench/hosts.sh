#!/bin/bash
# Two ordinary Linux hosts and a switch between them, for TCP, latency and idle cost:
#
#   host namespace 1   eth0 ----- SA  switch namespace  SB ----- eth0   host namespace 2
#
#   hosts.sh KIND      af_xdp | af_packet (a Plexus node), tcx (one with its fast table), bridge
#                      (Linux), bare (a program in the kernel that only redirects), direct (one
#                      cable, no switch); hosts offload to devices what the kernel lets them.
#                      route_af_packet, route_tcx, route_linux: a router in the switch's place
# Prints "H1=… H2=… TO=… PID=…" (namespaces, the second host's address, the node's process number or
# 0) when it is ready; ends with its standard input or by SIGTERM, and cleans up. Hosts have
# 10.77.0.1 and 10.77.0.2; behind a router the second has 10.78.0.2.
set -eu
kind=${1:-}
case $kind in
af_xdp|af_packet|tcx|bridge|bare|direct|route_af_packet|route_tcx|route_linux) ;; *)
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2 ;;
esac
HERE=$(cd "$(dirname "$0")" && pwd)
H1=plxa-$$ H2=plxb-$$ SW=plxw-$$ A=ha$$ B=hb$$ SA=wa$$ SB=wb$$
node= waiter= files=$(mktemp -d)
clean() {
    trap '' TERM INT EXIT
    for pid in $waiter $node; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    for ns in $H1 $H2 $SW; do ip netns del $ns 2>/dev/null || true; done
    rm -rf "$files"
}
trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

for ns in $H1 $H2 $SW; do
    ip netns add $ns
    ip netns exec $ns sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
        net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
    ip -n $ns link set lo up
done
# One queue each way: a node's AF_XDP socket is bound to one.
one="numtxqueues 1 numrxqueues 1"
if [ $kind = direct ]; then
    ip link add eth0 netns $H1 $one type veth peer name eth0 netns $H2 $one
else
    ip link add $A $one type veth peer name $SA $one
    ip link add $B $one type veth peer name $SB $one
    ip link set $A netns $H1 name eth0
    ip link set $B netns $H2 name eth0
    for end in $SA $SB; do
        ip link set $end netns $SW
        ip -n $SW link set $end promisc on up
    done
fi
to=10.77.0.2 router=
case $kind in route_*) to=10.78.0.2 router=1 ;; esac
ip -n $H1 address add 10.77.0.1/24 dev eth0
ip -n $H2 address add $to/24 dev eth0
for ns in $H1 $H2; do ip -n $ns link set eth0 up; done
if [ -n "$router" ]; then
    ip -n $H1 route add default via 10.77.0.254
    ip -n $H2 route add default via 10.78.0.254
fi

pid=0
case $kind in
bridge)
    for table in iptables ip6tables arptables; do
        ip netns exec $SW sysctl -qw net.bridge.bridge-nf-call-$table=0 2>/dev/null || true
    done
    ip -n $SW link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0
    for end in $SA $SB; do ip -n $SW link set $end master br0; done
    ip -n $SW link set br0 up ;;
bare)
    ip netns exec $SW "$HERE/../target/release/examples/bare_redirect" tcx $SA $SB >"$files/ready" \
        2>"$files/log" &
    node=$!
    until [ -s "$files/ready" ]; do
        kill -0 $node 2>/dev/null || { cat "$files/log" >&2; exit 1; }
        sleep 0.05
    done ;;
route_linux)
    ip -n $SW address add 10.77.0.254/24 dev $SA
    ip -n $SW address add 10.78.0.254/24 dev $SB
    ip netns exec $SW sysctl -qw net.ipv4.ip_forward=1 ;;
af_xdp|af_packet|tcx|route_af_packet|route_tcx)
    backend=af_packet fast=off
    case $kind in af_xdp) backend=af_xdp ;; *tcx) fast=tcx ;; esac
    BACKEND=$backend FAST_TABLE=$fast ROUTER=$router PIDFILE="$files/pid" \
        ip netns exec $SW "$HERE/plexus_node.sh" $SA $SB \
        2>"$files/log" &
    node=$!
    until [ -s "$files/pid" ]; do
        kill -0 $node 2>/dev/null || { cat "$files/log" >&2; exit 1; }
        sleep 0.05
    done
    pid=$(cat "$files/pid") ;;
esac
for _ in $(seq 100); do
    ip netns exec $H1 ping -c1 -W1 $to >/dev/null 2>&1 && break
done
echo "H1=$H1 H2=$H2 TO=$to PID=$pid"
exec 3<&0
cat >/dev/null <&3 &
waiter=$!
wait -n $waiter $node || true
