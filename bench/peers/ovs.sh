#!/bin/bash
# Peer: Open vSwitch, userspace datapath, MAC learning (action NORMAL). PORT=afxdp uses its AF_XDP
# ports (one polling thread on CPU) in place of AF_PACKET ones, PORT=kernel the kernel's datapath
# (module openvswitch). It has its own database, sockets and log in a directory that goes with it.
# Prints "NS=... A=... B=..." when ready; ends with its standard input or by SIGTERM.
. "$(dirname "$0")/lib.sh"
for tool in ovsdb-tool ovsdb-server ovs-vsctl ovs-vswitchd; do
    command -v $tool >/dev/null || {
        echo "ovs.sh: $tool is missing (package openvswitch-switch)" >&2
        exit 1
    }
done
DIR=$(mktemp -d) DB=
export OVS_RUNDIR=$DIR OVS_LOGDIR=$DIR OVS_DBDIR=$DIR OVS_SYSCONFDIR=$DIR
stop_switch() {
    [ -z "$DB" ] || end "$DB"
    rm -rf "$DIR"
}
vsctl() { ovs-vsctl --db=unix:"$DIR/db.sock" "$@"; }
make_veths

ovsdb-tool create "$DIR/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$DIR/conf.db" --remote=punix:"$DIR/db.sock" --unixctl="$DIR/db.ctl" \
    --log-file="$DIR/db.log" -vconsole:off 2>"$DIR/db.err" &
DB=$!
for _ in $(seq 100); do [ -S "$DIR/db.sock" ] && break; sleep 0.05; done
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:pmd-cpu-mask="$(printf '%x' $((1 << CPU)))" \
    other_config:n-handler-threads=1 other_config:n-revalidator-threads=1
# AF_PACKET ports are served by the main thread: pin it. AF_XDP ports have a polling thread of their
# own on CPU, so the main one is left free and at ordinary priority, or it would starve.
prefix=(taskset -c "$CPU")
[ "${PORT:-system}" != afxdp ] || prefix=(chrt -o 0)
type=${PORT:-system} datapath=netdev only=--disable-system
[ "$type" != kernel ] || { type=system datapath=system only=; }
# shellcheck disable=SC2086
ip netns exec $INNER "${prefix[@]}" ovs-vswitchd unix:"$DIR/db.sock" $only \
    --unixctl="$DIR/switch.ctl" --log-file="$DIR/switch.log" -vconsole:off 2>"$DIR/switch.err" &
CHILD=$!
for _ in $(seq 100); do [ -S "$DIR/switch.ctl" ] && break; sleep 0.05; done

vsctl --timeout=20 add-br br0 -- set bridge br0 datapath_type=$datapath fail-mode=standalone
for end in $SA $SB; do
    if [ "$type" = afxdp ]; then
        # Native mode with copying: what veth has. Batched locks are OVS's own default.
        vsctl --timeout=20 add-port br0 $end -- set interface $end type=afxdp \
            options:xdp-mode=native options:n_rxq=1
    else
        vsctl --timeout=20 add-port br0 $end -- set interface $end type=system
    fi
done
for end in $SA $SB; do
    error=$(vsctl get interface $end error)
    [ "$error" = "[]" ] || {
        echo "ovs.sh: port $end ($type): $error" >&2
        grep -E "WARN|ERR" "$DIR/switch.log" | tail -5 >&2
        exit 1
    }
done
if [ "${RT:-0}" = 1 ] && [ "$type" = afxdp ]; then
    for task in /proc/$CHILD/task/*; do
        case $(cat "$task/comm") in pmd*) chrt -f -p 5 "${task##*/}" ;; esac
    done
fi
serve
