#!/bin/bash
# All benches: in memory, and through the kernel with root. Peers and Plexus take turns.
#   bench/run.sh [--quick] [--json] [--out FILE] [--record] [PROGRAM] [GROUP...]
# GROUP: memory, veth, route, gen, tcp, ring, latency, idle, ndn, all if left out; or ndr. PROGRAM:
# the plexus to measure, a path (target/dist/plexus). Prints a line per figure, or with --json one
# array as `plexus bench --json` does, plus date, commit and machine of each row. --out writes that
# array to a file; --record puts its rows into bench/results.json and renders bench/README.md. A
# group that cannot run is skipped with a message. A turn that failed is left out with its partner,
# with a message, and `runs` of the row says how many are left.
# Environment: RT=1 and THREADED=1 act on veth as peers/README.md says; RUNS replaces 7 turns.
# Example: sudo bench/run.sh --out bench.json veth tcp
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
export PLEXUS=${PLEXUS:-$HERE/../target/dist/plexus}
runs=${RUNS:-7} seconds=2 out= quick= json= record= groups=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=--quick runs=3 seconds=1 ;;
    --json) json=1 ;;
    --out) out=${2:?--out needs a file}; shift ;;
    --record) record=1 ;;
    */*) PLEXUS=$1 ;;
    memory|veth|route|gen|tcp|ring|latency|idle|ndn|ndr) groups+=" $1" ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ -z "$record" ] || { [ -z "$quick" ] && [ "$runs" -ge 7 ]; } ||
    { echo "run.sh: --record needs a full run, of 7 turns or more" >&2; exit 2; }
groups=${groups:-memory veth route gen tcp ring latency idle ndn}
[ -x "$PLEXUS" ] || { echo "run.sh: no $PLEXUS: cargo build --profile dist first" >&2; exit 2; }
PLEXUS=$(realpath "$PLEXUS")

work=$(mktemp -d)
declare -A pids=() inputs=() h1=() h2=() to=() node=()
clean() {
    trap '' TERM INT EXIT
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    done
    ip netns del plxg-$$ 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
rows=()
say() { echo "$*" >&2; }
skip() { say "skipped: $1: $2"; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

# Middle, least and greatest of the numbers on standard input; the lower one of two in the middle.
# A turn that failed is "-", which is none.
spread() {
    sed '/^-$/d' | sort -g |
        awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)], v[1], v[NR] }'
}

# A row as one line of JSON, and as a line for people.
add() { # the row's object
    rows+=("$1")
    [ -z "$json" ] || return 0
    sed 's/[{}"]//g; s/,/\n/g' <<<"$1" | awk -F: '{ v[$1] = $2 } END {
        printf "%-28s %10.2f %-6s (%.2f to %.2f)", v["name"], v["value"], v["unit"],
            v["value_min"], v["value_max"]
        if (v["ratio"] != "null") printf "  %.2f x %s %.2f (%.2f to %.2f)", v["ratio"], v["peer"],
            v["peer_value"], v["ratio_min"], v["ratio_max"]
        print "" }'
}

# Thousands of a number; "-" for none.
thousands() { awk -v n="$1" 'BEGIN { if (n == "") print "-"; else printf "%.1f\n", n / 1000 }'; }

# A row from the files of turns: name, unit, our file, peer's name, peer's file (both may be empty).
row() {
    local name=$1 unit=$2 ours=$3 peer=${4:-} theirs=${5:-} value low high
    local pv=null ratio=null rlow=null rhigh=null named=null
    if [ -n "$peer" ]; then
        paste "$ours" "$theirs" | awk '$1 != "-" && $2 != "-"' >"$work/pairs"
        cut -f1 "$work/pairs" >"$work/ours"
        cut -f2 "$work/pairs" >"$work/theirs"
        ours=$work/ours theirs=$work/theirs
    fi
    read -r value low high < <(spread <"$ours") || { skip "$name" "no turn"; return 0; }
    if [ -n "$peer" ]; then
        named="\"$peer\""
        read -r pv _ _ < <(spread <"$theirs")
        read -r ratio rlow rhigh < <(paste "$ours" "$theirs" |
            awk '$2 > 0 { printf "%.4f\n", $1 / $2 }' | spread) || true
        ratio=${ratio:-null} rlow=${rlow:-null} rhigh=${rhigh:-null}
    fi
    add "{\"name\":\"$name\",\"value\":$value,\"unit\":\"$unit\",\"peer\":$named,\
\"peer_value\":$pv,\"ratio\":$ratio,\"runs\":$(grep -cv '^-$' "$ours"),\"value_min\":$low,\
\"value_max\":$high,\"ratio_min\":$rlow,\"ratio_max\":$rhigh}"
}

memory() {
    local object
    "$PLEXUS" bench --json $quick --peers "$HERE/peers/build" >"$work/memory" || {
        skip memory "plexus bench failed"
        return 0
    }
    # Its array holds one object after the other, a key per line.
    while read -r object || [ -n "$object" ]; do
        add "$object"
    done < <(tr -d '\n' <"$work/memory" |
        sed 's/^ *\[ *//; s/ *\] *$//; s/  */ /g; s/": /":/g; s/, "/,"/g; s/{ /{/g; s/ }/}/g
            s/},{/}\n{/g; s/}, {/}\n{/g')
}

# 64-byte frames through a switch between two veth pairs: peers/README.md, "Over veth".
veth() {
    local switches=(plexus plexus_af_packet plexus_tcx plexus_xdp) name round pps core
    local bare=$HERE/../target/release/examples/bare_redirect
    [ -x "$HERE/peers/build/xdp_gen" ] || {
        skip veth "xdp_gen is not built (make -C bench/peers)"
        return 0
    }
    if [ -x "$HERE/peers/build/dpdk_l2fwd_xdp" ]; then switches+=(dpdk_net_af_xdp)
    else skip "peer DPDK" "dpdk_l2fwd_xdp is not built"; fi
    switches+=(linux_bridge)
    if [ -x "$bare" ]; then switches+=(bare_tcx bare_xdp)
    else skip "peers bare_tcx, bare_xdp" \
        "cargo build --release -p plexus-io --example bare_redirect"; fi
    if have ovs-vswitchd; then
        switches+=(ovs_userspace ovs_af_xdp)
        if [ -d /sys/module/openvswitch ]; then switches+=(ovs_kernel)
        else skip "peer ovs_kernel" "the module openvswitch is not loaded"; fi
    else skip "peer Open vSwitch" "ovs-vswitchd is missing"; fi
    for round in $(seq "$runs"); do
        say "veth: round $round of $runs"
        for name in "${switches[@]}"; do
            local command=("$HERE/peers/bridge.sh") port=system backend=af_xdp fast=off
            case $name in
            bare_*)
                # shellcheck disable=SC2016
                command=("$HERE/peers/xdp.sh" sh -c 'exec "$0" "$@" >&2' "$bare" "${name#bare_}"
                    SA SB) ;;
            plexus*)
                case $name in
                plexus_af_packet) backend=af_packet ;;
                plexus_tcx) backend=af_packet fast=tcx ;;
                plexus_xdp) fast=xdp ;;
                esac
                command=("$HERE/peers/xdp.sh" "$HERE/plexus_node.sh" SA SB) ;;
            dpdk*) command=("$HERE/peers/xdp.sh" "$HERE/peers/build/dpdk_l2fwd_xdp" SA SB) ;;
            ovs_userspace) command=("$HERE/peers/ovs.sh") ;;
            ovs_af_xdp) command=("$HERE/peers/ovs.sh") port=afxdp ;;
            ovs_kernel) command=("$HERE/peers/ovs.sh") port=kernel ;;
            esac
            PORT=$port BACKEND=$backend FAST_TABLE=$fast \
                "$HERE/peers/measure.sh" -n 1 -t "$seconds" "$name" \
                "${command[@]}" >"$work/one" 2>"$work/log" || true
            pps=$(sed -n 's/.*"pps":\([0-9]*\).*/\1/p' "$work/one")
            core=$(sed -n 's/.*"per_core":\[\([0-9]*\).*/\1/p' "$work/one")
            if [ -z "$pps" ]; then
                skip "$name" "$(tail -3 "$work/log")"
            fi
            thousands "$pps" >>"$work/veth-$name"
            thousands "$core" >>"$work/core-$name"
        done
    done
    for name in "${switches[@]:1}"; do
        case $name in
        # The kernel's forwarding is no peer of AF_XDP.
        plexus_tcx|plexus_xdp|bare_*|ovs_kernel) ;;
        *) row veth-af_xdp kpps "$work/veth-plexus" "$name" "$work/veth-$name" ;;
        esac
    done
    for name in linux_bridge ovs_kernel plexus_af_packet bare_tcx; do
        [ ! -s "$work/veth-$name" ] ||
            row fast-64 kpps "$work/veth-plexus_tcx" "$name" "$work/veth-$name"
    done
    for name in linux_bridge ovs_kernel plexus plexus_tcx bare_xdp; do
        [ ! -s "$work/veth-$name" ] ||
            row fast-xdp-64 kpps "$work/veth-plexus_xdp" "$name" "$work/veth-$name"
    done
    # The bridge works in the time of whoever sends.
    for name in "${switches[@]:1}"; do
        case $name in linux_bridge|ovs_kernel|plexus_tcx|plexus_xdp|bare_*) continue ;; esac
        row veth-af_xdp-per-core kpps "$work/core-plexus" "$name" "$work/core-$name"
    done
}

# 64-byte packets through a router with the Internet's table, over the same cables: as in veth, and
# threaded, with receive work on the router's processor, where Linux's forwarding can be told from
# the generator's work.
route() {
    local routers=(plexus) name round threaded pps core what
    [ -x "$HERE/peers/build/xdp_gen" ] || {
        skip route "xdp_gen is not built (make -C bench/peers)"
        return 0
    }
    if [ -x "$HERE/peers/build/dpdk_l3fwd_xdp" ]; then routers+=(dpdk_rte_fib)
    else skip "peer DPDK" "dpdk_l3fwd_xdp is not built"; fi
    routers+=(linux)
    export ROUTES=$work/internet
    "$HERE/peers/internet.sh" >"$ROUTES"
    for round in $(seq "$runs"); do
        say "route: round $round of $runs"
        for threaded in 0 1; do for name in "${routers[@]}"; do
            local command=("$HERE/peers/linux_router.sh")
            case $name in
            plexus) command=("$HERE/peers/xdp.sh" "$HERE/plexus_node.sh" SA SB) ;;
            dpdk*) command=("$HERE/peers/xdp.sh" "$HERE/peers/build/dpdk_l3fwd_xdp" --huge
                --routes "$ROUTES" --to 02:00:00:00:0b:00 SA SB) ;;
            esac
            THREADED=$threaded "$HERE/peers/measure.sh" -n 1 -t "$seconds" "$name" \
                "${command[@]}" >"$work/one" 2>"$work/log" || true
            pps=$(sed -n 's/.*"pps":\([0-9]*\).*/\1/p' "$work/one")
            core=$(sed -n 's/.*"per_core":\[\([0-9]*\).*/\1/p' "$work/one")
            if [ -z "$pps" ]; then
                skip "$name" "$(tail -3 "$work/log")"
            fi
            thousands "$pps" >>"$work/route-$threaded-$name"
            thousands "$core" >>"$work/route-core-$threaded-$name"
        done; done
    done
    unset ROUTES
    for threaded in 0 1; do
        what=route-af_xdp
        [ $threaded = 0 ] || what+=-threaded
        for name in "${routers[@]:1}"; do
            row $what kpps "$work/route-$threaded-plexus" "$name" "$work/route-$threaded-$name"
        done
        for name in "${routers[@]:1}"; do
            # Not threaded, Linux forwards in the time of whoever sends.
            [ $threaded$name = 0linux ] ||
                row $what-per-core kpps "$work/route-core-$threaded-plexus" "$name" \
                    "$work/route-core-$threaded-$name"
        done
    done
}

# A number of an answer in JSON: the first of that name.
number() { sed -n "s/^ *\"$1\": *\([0-9.]*\).*/\1/p" "$2" | head -1; }

# How fast `plexus gen` sends and `plexus meter` counts over a cable, 64-byte frames, by each pair
# of back-ends. What gen sends is what it handed over less what the far end had no room for.
gen() {
    local pair from to round ns=plxg-$$ last=$(($(nproc --all) > 1 ? 1 : 0)) meter sent rejected
    have ethtool || { skip gen "ethtool is missing"; return 0; }
    ip netns add $ns
    # The meter's end has GRO turned on: packet sockets take redirected frames only then.
    ip netns exec $ns sh -c "
        sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
        ip link add ga type veth peer name gb
        ip link set ga up
        ip link set gb up
        ethtool -K gb gro off
        ethtool -K gb gro on" >/dev/null 2>&1
    for round in $(seq "$runs"); do
        say "gen: round $round of $runs"
        for from in xdp_live af_xdp af_packet; do
            for to in xdp af_xdp af_packet; do
                pair=$from-to-$to
                ip netns exec $ns taskset -c "$last" "$PLEXUS" meter gb --backend $to --json \
                    --from-start --idle 500ms --duration $((seconds + 20))s --interval 50ms \
                    >"$work/heard" 2>"$work/hearing" &
                meter=$!
                until grep -q '^received' "$work/hearing"; do
                    kill -0 $meter 2>/dev/null || break
                    sleep 0.05
                done
                ip netns exec $ns taskset -c 0 "$PLEXUS" gen ga --backend $from --json \
                    --duration ${seconds}s >"$work/sent" 2>"$work/log" || true
                wait $meter || true
                sent=$(number packets "$work/sent") rejected=$(number rejected "$work/sent")
                [ -n "$sent" ] || skip "$pair" "$(tail -1 "$work/log")"
                awk -v n="$sent" -v r="${rejected:-0}" -v s="$(number seconds "$work/sent")" \
                    'BEGIN { if (s > 0) printf "%.1f\n", (n - r) / s / 1000; else print "-" }' \
                    >>"$work/gen-$pair"
                awk -v n="$(number received "$work/heard")" -v s="$(number seconds "$work/sent")" \
                    'BEGIN {
                        if (s > 0 && n != "") printf "%.1f\n", n / s / 1000; else print "-" }' \
                    >>"$work/meter-$pair"
            done
        done
    done
    ip netns del $ns
    for from in xdp_live af_xdp af_packet; do
        for to in xdp af_xdp af_packet; do
            row "gen-$from-to-$to" kpps "$work/gen-$from-to-$to"
            row "meter-$from-to-$to" kpps "$work/meter-$from-to-$to"
        done
    done
}

# Starts hosts.sh of a kind; it stays until the end.
raise() {
    local kind=$1 line word
    [ -z "${pids[$kind]:-}" ] || return 0
    mkfifo "$work/$kind.in" "$work/$kind.out"
    "$HERE/hosts.sh" "$kind" <"$work/$kind.in" >"$work/$kind.out" 2>"$work/$kind.log" &
    pids[$kind]=$!
    exec {inputs[$kind]}>"$work/$kind.in" {line}<"$work/$kind.out"
    local fd=$line
    if ! read -r -t 30 line <&"$fd"; then
        skip "$kind" "$(tail -3 "$work/$kind.log")"
        unset "pids[$kind]"
        return 1
    fi
    for word in $line; do
        case $word in
        H1=*) h1[$kind]=${word#*=} ;; H2=*) h2[$kind]=${word#*=} ;;
        TO=*) to[$kind]=${word#*=} ;; PID=*) node[$kind]=${word#*=} ;;
        esac
    done
}

# One iperf3 run of a kind, Gbit/s that arrived.
iperf() {
    local kind=$1 server
    ip netns exec "${h2[$kind]}" iperf3 -s -1 >/dev/null 2>&1 &
    server=$!
    for _ in $(seq 100); do
        [ -z "$(ip netns exec "${h2[$kind]}" ss -Hltn 'sport = :5201')" ] || break
        sleep 0.02
    done
    ip netns exec "${h1[$kind]}" iperf3 -c "${to[$kind]}" -t "$seconds" -C cubic -J 2>/dev/null |
        awk '/"sum_received"/ { in_sum = 1 }
            in_sum && /bits_per_second/ { gsub(/[^0-9.e+]/, "", $2); printf "%.3f\n", $2 / 1e9
                in_sum = 0 }'
    wait $server || true
}

tcp() {
    have iperf3 || { skip tcp "iperf3 is missing (package iperf3)"; return 0; }
    local kinds=(af_xdp af_packet tcx bridge route_af_packet route_tcx route_linux) kind round
    if [ -x "$HERE/../target/release/examples/bare_redirect" ]; then kinds+=(bare)
    else skip "peer bare_tcx" "cargo build --release -p plexus-io --example bare_redirect"; fi
    for kind in "${kinds[@]}"; do raise "$kind" || return 0; done
    for round in $(seq "$runs"); do
        say "tcp: round $round of $runs"
        for kind in "${kinds[@]}"; do
            iperf "$kind" >"$work/one"
            [ -s "$work/one" ] || { skip "$kind" "iperf3 told nothing"; echo - >"$work/one"; }
            cat "$work/one" >>"$work/tcp-$kind"
        done
    done
    for kind in af_xdp af_packet; do
        row "tcp-$kind" Gbit/s "$work/tcp-$kind" linux_bridge "$work/tcp-bridge"
    done
    row tcp-af_packet Gbit/s "$work/tcp-af_packet" plexus_af_xdp "$work/tcp-af_xdp"
    row fast-tcp Gbit/s "$work/tcp-tcx" linux_bridge "$work/tcp-bridge"
    row fast-tcp Gbit/s "$work/tcp-tcx" plexus_af_packet "$work/tcp-af_packet"
    [ ! -s "$work/tcp-bare" ] || row fast-tcp Gbit/s "$work/tcp-tcx" bare_tcx "$work/tcp-bare"
    row fast-route-tcp Gbit/s "$work/tcp-route_tcx" linux "$work/tcp-route_linux"
    row fast-route-tcp Gbit/s "$work/tcp-route_tcx" plexus_af_packet "$work/tcp-route_af_packet"
}

# One TCP connection through the three nodes of ring.toml, of one subnet, and through those of
# group.toml, of two, in the kernel and by AF_XDP.
ring() {
    local lab kind round
    for lab in ring group; do
        sed 's/af_packet/af_xdp/' "$HERE/$lab.toml" >"$work/$lab-af_xdp.toml"
        cp "$HERE/$lab.toml" "$work/$lab-tcx.toml"
        for round in $(seq "$runs"); do
            say "$lab: round $round of $runs"
            for kind in tcx af_xdp; do
                "$PLEXUS" lab run --json "$work/$lab-$kind.toml" 2>"$work/err" >"$work/report" ||
                    { skip ring "$(tail -1 "$work/err")"; return 0; }
                grep -o '"received_bits_per_s":[0-9.]*' "$work/report" |
                    awk -F: '{ printf "%.3f\n", $2 / 1e9 }' >>"$work/$lab-$kind"
            done
        done
        row "fast-$lab-tcp" Gbit/s "$work/$lab-tcx" plexus_af_xdp "$work/$lab-af_xdp"
    done
}

# Median round trip of so many echoes, so many seconds apart, in microseconds.
round_trip() { # kind count interval
    ip netns exec "${h1[$1]}" ping -c "$2" -i "$3" "${to[$1]}" |
        sed -n 's/.*time=\([0-9.]*\) ms/\1/p' | awk '{ print $1 * 1000 }' | spread |
        cut -d' ' -f1
}

# What switches add to one way, in files of that name: half of what they add to a round trip.
added() { # name count interval kind...
    local name=$1 count=$2 interval=$3 round kind direct there
    shift 3
    for kind in direct "$@"; do raise "$kind" || return 1; done
    for round in $(seq "$runs"); do
        say "$name: round $round of $runs"
        direct=$(round_trip direct "$count" "$interval")
        for kind in "$@"; do
            there=$(round_trip "$kind" "$count" "$interval")
            [ -n "$there" ] && [ -n "$direct" ] || skip "$name of $kind" "no echo was answered"
            awk -v a="$there" -v b="$direct" 'BEGIN {
                if (a == "" || b == "") print "-"; else printf "%.1f\n", (a - b) / 2 }' \
                >>"$work/$name-$kind"
        done
    done
}

latency() {
    have ping || { skip latency "ping is missing (package iputils-ping)"; return 0; }
    local kind fast=(tcx bridge)
    added latency 200 0.005 af_xdp af_packet bridge || return 0
    for kind in af_xdp af_packet; do
        row "latency-added-$kind" us "$work/latency-$kind" linux_bridge "$work/latency-bridge"
    done
    if [ -x "$HERE/../target/release/examples/bare_redirect" ]; then fast+=(bare)
    else skip "peer bare_tcx" "cargo build --release -p plexus-io --example bare_redirect"; fi
    # So many that they are worth a rule, which the middle one of 1,000 finds.
    added fast-latency 1000 0.001 "${fast[@]}" || return 0
    row fast-latency-added us "$work/fast-latency-tcx" linux_bridge "$work/fast-latency-bridge"
    [ ! -s "$work/fast-latency-bare" ] ||
        row fast-latency-added us "$work/fast-latency-tcx" bare_tcx "$work/fast-latency-bare"
}

# Nanoseconds of processor time of a process, all threads.
busy() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

idle() {
    local kind before after time=10
    [ -z "$quick" ] || time=3
    for kind in af_xdp af_packet; do
        raise $kind || return 0
        sleep 1
        for _ in $(seq $((runs > 3 ? 3 : 1))); do
            before=$(busy "${node[$kind]}")
            sleep $time
            after=$(busy "${node[$kind]}")
            awk -v a="$before" -v b="$after" -v t=$time \
                'BEGIN { printf "%.3f\n", (b - a) / t / 1e7 }' >>"$work/idle-$kind"
        done
        row "idle-$kind" % "$work/idle-$kind"
    done
}

# Data of 8,000 bytes through a forwarder's Unix socket: ndn.sh. Where the clients are the
# bottleneck it is said, since then only what a forwarder does per second of its own time compares.
ndn() {
    local forwarders=(plexus) loads=(load) name load round file own ours theirs what unit key peer
    local keys=(mb_per_s data_per_s load_us_per_data forwarder_us_per_data)
    if [ -x "$HERE/peers/build/ndnd" ]; then forwarders+=(ndnd) loads+=(objects)
    else skip "ndnd, peer and clients" "it is not built (make -C bench/peers)"; fi
    if command -v "${NFD:-nfd}" >/dev/null; then forwarders+=(nfd)
    else skip "peer NFD" "it is not installed (peers/README.md)"; fi
    for round in $(seq "$runs"); do
        say "ndn: round $round of $runs"
        for load in "${loads[@]}"; do for name in "${forwarders[@]}"; do
            file=$work/ndn-$load-$name
            "$HERE/ndn.sh" -t "$seconds" "$name" $load >"$work/one" 2>"$work/log" ||
                { skip "$name under $load" "$(tail -1 "$work/log")"; echo >"$work/one"; }
            # Rate in MB/s and kData/s; thousands of Data per second of the forwarder's time.
            for key in "${keys[@]}"; do
                sed -n "s/.*\"$key\":\([0-9.]*\).*/\1/p" "$work/one" | grep . || echo -
            done | paste -s | awk -v f="$file" '{
                print $1 >>(f "-mb"); print ($2 == "-" ? "-" : $2 / 1000) >>(f "-data")
                print $3 >>(f "-their"); print $4 >>(f "-own")
                print ($4 > 0 ? 1000 / $4 : "-") >>(f "-per-core") }'
        done; done
    done
    for load in "${loads[@]}"; do
        what=ndn-unix
        [ $load = load ] || what+=-objects
        for name in "${forwarders[@]}"; do
            read -r own _ _ < <(spread <"$work/ndn-$load-$name-own") &&
                read -r theirs _ _ < <(spread <"$work/ndn-$load-$name-their") || continue
            say "$what: per Data, $name takes $own us of processor time, its clients $theirs"
            awk -v own="$own" -v theirs="$theirs" 'BEGIN { exit own < theirs }' ||
                say "$what: the clients are the bottleneck: compare $what-per-core"
        done
        for file in mb:MB/s data:kData/s per-core:kData/s; do
            unit=${file#*:} file=${file%%:*} ours=$work/ndn-$load-plexus-$file
            name=$what
            [ "$file" = mb ] || name+=-$file
            [ ${#forwarders[@]} != 1 ] || row "$name" "$unit" "$ours"
            for peer in "${forwarders[@]:1}"; do
                row "$name" "$unit" "$ours" "$peer" "$work/ndn-$load-$peer-$file"
            done
        done
    done
}

# Zero-loss and 0.5 %-loss rate of labs/ndr.toml, with Plexus and with the Linux bridge.
ndr() {
    local what
    "$PLEXUS" bench ndr "$HERE/../labs/ndr.toml" --json >"$work/ndr" &&
        "$PLEXUS" bench ndr "$HERE/../labs/ndr.toml" --json --bridge >"$work/ndr-bridge" || {
        skip ndr "plexus bench ndr failed"
        return 0
    }
    for what in ndr pdr; do
        for file in ndr ndr-bridge; do
            sed -n "s/^ *\"${what}_pps\": *\([0-9]*\).*/\1/p" "$work/$file" >"$work/$file-$what"
            [ -s "$work/$file-$what" ] || echo - >"$work/$file-$what"
        done
        row $what-64 pps "$work/ndr-$what" linux_bridge "$work/ndr-bridge-$what"
    done
}

for group in $groups; do
    if [ "$group" != memory ]; then
        [ "$(id -u)" = 0 ] || { skip "$group" "needs root"; continue; }
        have ip || { skip "$group" "ip is missing (package iproute2)"; continue; }
    fi
    $group
done
join() { local IFS=,; echo "[$*]"; }
commit=$(git -C "$HERE" describe --always --dirty --abbrev=12 --match no-tag 2>/dev/null || true)
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1 | tr -d '"\\')
origin="\"date\":\"$(date -u +%F)\",\"commit\":\"${commit:-unknown}\","
origin+="\"machine\":\"${model:-an unknown processor}, $(nproc --all) processors\"}"
for i in "${!rows[@]}"; do rows[i]=${rows[i]%\}},$origin; done
[ -z "$json" ] || join "${rows[@]}"
[ -z "$out" ] || join "${rows[@]}" >"$out"
[ -z "$record" ] || {
    join "${rows[@]}" >"$work/rows"
    "$PLEXUS" bench readme "$HERE" --add "$work/rows"
}
