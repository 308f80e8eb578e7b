#!/bin/bash
# One Plexus node as a switch between two interfaces, for peers/xdp.sh and hosts.sh; or, with
# ROUTES=FILE (peers/internet.sh) in the environment, as a router with those routes, or with
# ROUTER=1 as one between hosts.sh's two networks:
#   plexus_node.sh SA SB
# Prints "ready" on standard error when it forwards; ends with SIGTERM, SIGINT.
# Environment: BACKEND (af_xdp), FAST_TABLE (off), CPU to run on (all), PLEXUS (target/dist/plexus),
# PIDFILE to write the daemon's process number to.
set -eu
PLEXUS=${PLEXUS:-$(cd "$(dirname "$0")/.." && pwd)/target/dist/plexus}
dir=$(mktemp -d)
node=
clean() {
    trap '' TERM INT EXIT
    if [ -n "$node" ]; then
        kill "$node" 2>/dev/null || true
        wait "$node" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

cat >"$dir/node.toml" <<END
name = "bench"
control = "$dir/node.sock"
backend = "${BACKEND:-af_xdp}"
fast_table = "${FAST_TABLE:-off}"

[[port]]
name = "p1"
device = "$1"

[[port]]
name = "p2"
device = "$2"
END
if [ -n "${ROUTES:-}" ]; then
    awk '$1 == "r" { printf "%s/%d 10.1.0.%d\n", $2, $3, $4 + 2 }' "$ROUTES" >"$dir/routes"
    cat >>"$dir/node.toml" <<END

[router]
routes = "$dir/routes"

[[interface]]
name = "from"
port = "p1"
address = "10.0.0.1/24"

[[interface]]
name = "to"
port = "p2"
address = "10.1.0.1/24"
END
fi
if [ -n "${ROUTER:-}" ]; then
    for n in 1 2; do
        printf '\n[[interface]]\nname = "i%d"\nport = "p%d"\naddress = "10.%d.0.254/24"\n' \
            $n $n $((76 + n))
    done >>"$dir/node.toml"
fi
pin=()
[ -z "${CPU:-}" ] || pin=(taskset -c "$CPU")
RUST_LOG=warn "${pin[@]}" "$PLEXUS" node run --config "$dir/node.toml" &
node=$!
up=
for _ in $(seq 800); do
    kill -0 $node 2>/dev/null || { echo "plexus_node.sh: the node ended at once" >&2; exit 1; }
    if [ -S "$dir/node.sock" ] &&
        up=$("$PLEXUS" show ports --control "$dir/node.sock" --json 2>/dev/null |
            grep -o '"link": *"up"' | wc -l) && [ "$up" = 2 ]; then break; fi
    sleep 0.05
done
[ "$up" = 2 ] || { echo "plexus_node.sh: the ports did not come up" >&2; exit 1; }
# All next hops have answered.
found=64
[ -z "${ROUTES:-}" ] || found=0
for _ in $(seq 200); do
    [ "$found" -lt 64 ] || break
    sleep 0.05
    found=$("$PLEXUS" show neighbours --control "$dir/node.sock" --json |
        grep -o '"mac": *"' | wc -l)
done
[ "$found" -ge 64 ] || { echo "plexus_node.sh: the next hops do not answer" >&2; exit 1; }
[ -z "${PIDFILE:-}" ] || echo $node >"$PIDFILE"
echo ready >&2
wait $node
