#!/bin/bash
# One turn of a forwarder of named data over its Unix socket, with 8,000 bytes of content per Data,
# as one line of JSON.
#   ndn.sh [-t SECONDS] plexus|ndnd|nfd load|objects
# load:    peers/ndn_load, which does as little as can be: a window of 128 Interests, none twice
# objects: ndnd's own `put` and `cat`: an object of 100 MB per SECOND, fetched once, window 100
# All forwarders cache 8,192 Data and log warnings. "load_us_per_data" is the processor time of
# everybody but the forwarder: if it is more than "forwarder_us_per_data", the load is the
# bottleneck, and only the latter can be compared.
# Environment: PLEXUS (target/dist/plexus); NFD (nfd, in the PATH); NDN_LOAD: a program to use
# instead of ndn_load, with its options and its answer.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
PLEXUS=${PLEXUS:-$HERE/../target/dist/plexus}
NFD=${NFD:-nfd}
NDND=$HERE/peers/build/ndnd
seconds=2
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "ndn.sh: $*" >&2; exit 1; }
while getopts t: option; do
    case $option in t) seconds=$OPTARG ;; *) usage ;; esac
done
shift $((OPTIND - 1))
[ $# = 2 ] || usage
forwarder=$1 load=$2

dir=$(mktemp -d)
node= producer=
clean() {
    trap '' TERM INT EXIT
    for pid in $producer $node; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

socket=$dir/nfd.sock
case $forwarder in
plexus)
    cat >"$dir/node.toml" <<END
name = "bench"
control = "$dir/control.sock"

[named]
unix = ["$socket"]
tcp = []
udp = []
websocket = []
cache = "64MiB"
END
    RUST_LOG=warn "$PLEXUS" node run --config "$dir/node.toml" 2>"$dir/log" &
    ;;
ndnd)
    [ -x "$NDND" ] || fail "ndnd is not built (make -C bench/peers)"
    threads=$(nproc)
    cat >"$dir/yanfd.yml" <<END
core: { log_level: WARN }
faces:
  udp: { enabled_unicast: false, enabled_multicast: false }
  tcp: { enabled: false }
  unix: { socket_path: $socket }
  websocket: { enabled: false }
fw: { threads: $threads }
tables:
  content_store: { capacity: $((8192 / threads)) }
END
    "$NDND" fw run "$dir/yanfd.yml" >"$dir/log" 2>&1 &
    ;;
nfd)
    command -v "$NFD" >/dev/null || fail "$NFD is not installed"
    # What its sample file has, less all faces but the Unix ones.
    cat >"$dir/nfd.conf" <<END
general { }
log { default_level WARN }
tables {
  cs_max_packets 8192
  cs_policy lru
  cs_unsolicited_policy drop-all
  strategy_choice {
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
    /localhost/nfd /localhost/nfd/strategy/best-route
  }
}
face_system {
  unix { path $socket }
}
authorizations {
  authorize {
    certfile any
    privileges { faces fib cs strategy-choice }
  }
}
rib {
  localhost_security { trust-anchor { type any } }
}
END
    # Keys, if it makes any, go where everything else of this turn goes.
    HOME=$dir "$NFD" --config "$dir/nfd.conf" >"$dir/log" 2>&1 &
    ;;
*) usage ;;
esac
node=$!
for _ in $(seq 100); do
    [ ! -S "$socket" ] || break
    kill -0 $node 2>/dev/null || fail "$forwarder ended at once: $(tail -3 "$dir/log")"
    sleep 0.05
done
[ -S "$socket" ] || fail "$forwarder has no socket: $(tail -3 "$dir/log")"

# Hundredths of a second of processor time, of all threads of a process.
busy() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }

objects() {
    [ -x "$NDND" ] || fail "ndnd is not built (make -C bench/peers)"
    export NDN_CLIENT_TRANSPORT=unix://$socket
    local bytes=$((seconds * 100000000)) before producer_before
    head -c "$bytes" /dev/zero | "$NDND" put /bench/object >"$dir/put" 2>&1 &
    producer=$!
    for _ in $(seq 600); do
        ! grep -q 'Registered route' "$dir/put" || break
        kill -0 $producer 2>/dev/null || fail "ndnd put ended: $(tail -3 "$dir/put")"
        sleep 0.05
    done
    before=$(busy $node) producer_before=$(busy $producer)
    TIMEFORMAT='%U %S'
    { time timeout 60 "$NDND" cat /bench/object >/dev/null 2>"$dir/cat"; } 2>"$dir/time" ||
        fail "ndnd cat: $(tail -3 "$dir/cat")"
    awk -v bytes=$bytes -v data=$((bytes / 8000)) -v node=$(($(busy $node) - before)) \
        -v put=$(($(busy $producer) - producer_before)) '
        FILENAME ~ /time$/ { cat = ($1 + $2) * 100 }
        /^Content:/ { complete = $2 == bytes }
        /^Throughput:/ { rate = $2 / 8 }
        END {
            if (!complete || rate == 0) exit 1
            printf "{\"data_per_s\":%.0f,\"mb_per_s\":%.1f,\"load_us_per_data\":%.2f,", \
                rate * 1e6 / 8000, rate, (put + cat) * 1e4 / data
            printf "\"forwarder_us_per_data\":%.2f}\n", node * 1e4 / data
        }' "$dir/time" "$dir/cat" || fail "ndnd cat: $(tail -3 "$dir/cat")"
}

case $load in
load)
    load=${NDN_LOAD:-$HERE/peers/build/ndn_load}
    [ -x "$load" ] || fail "$load is not built (make -C bench/peers)"
    timeout 60 "$load" --seconds "$seconds" --pid $node "$socket" ||
        fail "$forwarder: $(tail -3 "$dir/log")"
    ;;
objects) objects ;;
*) usage ;;
esac
