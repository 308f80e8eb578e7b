#!/bin/bash
# Any switch that takes two interface names, in the same surroundings as the other peers:
#   xdp.sh build/dpdk_l2fwd_xdp SA SB       SA and SB are replaced by the switch's interface names
#   xdp.sh                                  no switch: only the veth pairs, start yours in SWNS
# The command runs in the switch's namespace on CPU (the environment tells it the number).
# With ROUTES=FILE in the environment there are next hops behind B, for a router.
# Prints "NS=... A=... B=..." when ready; ends with its standard input or by SIGTERM.
# The command must print a line that begins with "ready" on standard error once it forwards.
. "$(dirname "$0")/lib.sh"
make_veths
[ -z "${ROUTES:-}" ] || make_next_hops
if [ $# -gt 0 ]; then
    args=()
    for word in "$@"; do
        case $word in SA) word=$SA ;; SB) word=$SB ;; esac
        args+=("$word")
    done
    log=$(mktemp)
    stop_switch() { cat "$log" >&2; rm -f "$log"; }
    export CPU
    ip netns exec $INNER "${args[@]}" 2>"$log" &
    CHILD=$!
    for _ in $(seq 1000); do
        grep -q '^ready' "$log" && break
        kill -0 $CHILD 2>/dev/null || { echo "xdp.sh: ${args[0]} ended at once" >&2; exit 1; }
        sleep 0.05
    done
fi
serve
