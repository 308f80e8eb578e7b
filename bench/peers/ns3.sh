#!/usr/bin/env bash
# Fetches ns-3 from PyPI into build/ns3 and compiles ns3_hops against it.
#
# The wheel holds ns-3's headers and libraries besides the Python bindings; only these are needed,
# so the bindings' own dependency (a C++ interpreter) is left out.
#   ns3.sh          prints why where it cannot be done, and exits 1
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
VERSION=3.44.post0
MODULES="core network internet point-to-point applications nix-vector-routing traffic-control"
work=$HERE/build/ns3
unable() { echo "$*"; exit 1; }

command -v g++ >/dev/null || unable "there is no C++ compiler (apt install g++)"
command -v python3 >/dev/null || unable "there is no python3 (apt install python3)"
mkdir -p "$work" || unable "cannot write to $work"
root=$work/$VERSION/ns3
if [ ! -d "$root/include" ]; then
    # pip chooses the wheel for this Python; which one does not matter for the libraries.
    if [ ! -x "$work/venv/bin/pip" ]; then
        python3 -m venv "$work/venv" >"$work/log" 2>&1 ||
            unable "python3 -m venv failed (apt install python3-venv): $(tail -1 "$work/log")"
    fi
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --target "$work/$VERSION" "ns3==$VERSION" >"$work/log" 2>&1 ||
        unable "pip could not install ns3 $VERSION: $(tail -1 "$work/log")"
fi
# As the wheel was built, by its own ns3Targets.cmake; the libraries bring what they need along.
g++ -std=c++20 -O3 -march=native -Wall -Wextra \
    -DNS3_BUILD_PROFILE_RELEASE -DNS3_ASSERT_ENABLE -DNS3_LOG_ENABLE \
    -isystem "$root/include" -o "$HERE/build/ns3_hops" "$HERE/ns3_hops.cc" \
    -L"$root/lib64" -Wl,-rpath,"$root/lib64" -Wl,--allow-shlib-undefined \
    $(printf -- '-lns3.44-%s ' $MODULES) >"$work/log" 2>&1 ||
    unable "ns3_hops.cc does not compile: $(grep -m1 error "$work/log")"
