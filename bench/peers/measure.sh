#!/bin/bash
# Offer the same traffic to one switch and print what came through, as one line of JSON.
#   measure.sh [-n RUNS] [-t SECONDS] [-f FLOWS] [-r PPS] NAME COMMAND [ARGS...]
# COMMAND is bridge.sh, ovs.sh, xdp.sh ... (anything that prints "NS=... A=... B=..." and ends with
# its standard input). The generator runs on GEN_CPU (0). B speaks first, so that the switch has
# learnt where everyone is. "pps" is the median run's; "per_core" divides by the processor time that
# the switch's processes used, so that what else runs on the machine matters less. Environment: see
# lib.sh and RT below.
#   measure.sh bridge ./bridge.sh
#   measure.sh dpdk_af_xdp ./xdp.sh build/dpdk_l2fwd_xdp SA SB
# With ROUTES=FILE (internet.sh) in the environment the traffic is a router's: to its own address at
# A, to the destinations in the file.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
runs=5 seconds=2 flows=1 rate=0
while getopts n:t:f:r: option; do
    case $option in
    n) runs=$OPTARG ;; t) seconds=$OPTARG ;; f) flows=$OPTARG ;; r) rate=$OPTARG ;;
    *) sed -n '2,14s/^# //p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n '2,14s/^# //p' "$0" >&2; exit 2; }
name=$1
shift
# RT=1: real-time priority for generator, switch and sink, against the noise of a shared machine.
rt() { if [ "${RT:-0}" = 1 ]; then exec chrt -f 5 "$@"; else exec "$@"; fi; }
coproc SWITCH { rt "$@"; }
switch_pid=$SWITCH_PID to_switch=${SWITCH[1]}
finish() {
    trap '' EXIT
    eval "exec $to_switch>&-"
    kill "$switch_pid" 2>/dev/null || true
    wait "$switch_pid" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
if ! read -r -t 60 line <&"${SWITCH[0]}" || [ "${line#NS=}" = "$line" ]; then
    echo "measure.sh: $1 did not come up" >&2
    exit 1
fi
NS= A= B= SWNS= SA= SB=
for word in $line; do case $word in NS=*|A=*|B=*|SWNS=*|SA=*|SB=*) eval "$word" ;; esac; done
# Processor time so far of all processes in the switch's namespace, and with THREADED=1 of the
# kernel threads with its receive work, in nanoseconds: without these 0 for the bridge.
busy() {
    local threads=
    [ "${THREADED:-0}" = 0 ] || threads=$(ps -eo pid=,comm= |
        awk -v a="napi/$SA-" -v b="napi/$SB-" 'index($2, a) == 1 || index($2, b) == 1 { print $1 }')
    for pid in $(ip netns pids "$SWNS") $threads; do
        cat /proc/"$pid"/task/*/schedstat 2>/dev/null || true
    done | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

gen() { # interface, destination, source, further arguments
    local from=$1 dst=$2 src=$3
    shift 3
    (rt ip netns exec "$NS" taskset -c "${GEN_CPU:-0}" "$HERE/build/xdp_gen" --if "$from" \
        --dst "$dst" --src "$src" --flows "$flows" "$@")
}
MAC_A=02:00:00:00:00:00 MAC_B=02:00:00:01:00:00
to=("$MAC_B" "$MAC_A")
# The router's own address there (lib.sh), and a host's.
[ -z "${ROUTES:-}" ] || to=(02:00:00:00:1a:00 02:00:00:00:0a:00 --destinations "$ROUTES")
results=() offered=() per_core=()
for _ in $(seq "$runs"); do
    # Every station behind B has spoken once, slowly enough not to be lost.
    [ -n "${ROUTES:-}" ] || gen "$B" $MAC_A $MAC_B --count $((flows * 16)) --rate 200000 >/dev/null
    gen "$A" "${to[@]}" --count 64 >/dev/null
    out=$(mktemp)
    gen "$A" "${to[@]}" --seconds $((seconds + 1)) --rate "$rate" >"$out" &
    gen_pid=$!
    sleep 0.3
    before=$(busy)
    pps=$(rt ip netns exec "$NS" "$HERE/build/xdp_sink" --if "$B" --seconds "$seconds" 2>/dev/null |
        sed 's/.*"pps":\([0-9]*\).*/\1/')
    per_core+=("$(awk -v n="$pps" -v s="$seconds" -v t="$(($(busy) - before))" \
        'BEGIN { printf "%.0f", (t > 0 ? n * s / t * 1e9 : 0) }')")
    wait $gen_pid
    results+=("$pps")
    offered+=("$(sed 's/.*"pps":\([0-9]*\).*/\1/' "$out")")
    rm -f "$out"
done
join() { local IFS=,; echo "$*"; }
median=$(printf '%s\n' "${results[@]}" | sort -n | sed -n "$(((runs + 1) / 2))p")
echo "{\"name\":\"$name\",\"pps\":$median,\"runs\":[$(join "${results[@]}")],\
\"per_core\":[$(join "${per_core[@]}")],\
\"offered\":[$(join "${offered[@]}")],\"flows\":$flows,\"frame_bytes\":64,\
\"threaded\":${THREADED:-0}}"
