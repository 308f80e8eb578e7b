#!/bin/bash
# Peer: the Linux bridge between two veth pairs. VLAN=1 turns VLAN filtering on.
# Prints "NS=... A=... B=..." when ready; ends with its standard input or by SIGTERM.
. "$(dirname "$0")/lib.sh"
make_veths
# The bridge at its best: without the detour through iptables where br_netfilter is loaded.
for table in iptables ip6tables arptables; do
    ip netns exec $INNER sysctl -qw net.bridge.bridge-nf-call-$table=0 2>/dev/null || true
done
# Not every kernel has VLAN filtering: name the option only where it is asked for.
ip -n $INNER link add br$$ type bridge stp_state 0 mcast_snooping 0 forward_delay 0 \
    ${VLAN:+vlan_filtering "$VLAN"}
for end in $SA $SB; do ip -n $INNER link set $end master br$$; done
ip -n $INNER link set br$$ up
serve
