#!/usr/bin/env bash
# Builds ndnd (the NDN forwarder once called YaNFD, and its tools) into build/ndnd, in a pinned
# version; what it depends on is pinned by its own go.mod.
#   ndnd.sh         prints why where it cannot be done, and exits 1
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
VERSION=v1.5.3
MODULE=github.com/named-data/ndnd
GO_MIN=1.24
work=$HERE/build/ndnd.work
unable() { echo "$*"; exit 1; }

command -v go >/dev/null || unable "there is no Go: it needs $GO_MIN or newer (golang-go)"
version=$(GOTOOLCHAIN=local go env GOVERSION)
[ "$(printf '%s\n' "$GO_MIN" "${version#go}" | sort -V | head -1)" = "$GO_MIN" ] ||
    unable "it needs Go $GO_MIN or newer, and this is ${version#go}"
rm -rf "$work"
mkdir -p "$work" || unable "cannot write to $work"
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# As its own Makefile does, less the debug information.
{ go mod init peers && go get "$MODULE/cmd/ndnd@$VERSION" &&
    CGO_ENABLED=0 nice go build -trimpath \
        -ldflags "-s -w -X $MODULE/std/utils.NDNdVersion=$VERSION" \
        -o "$HERE/build/ndnd" "$MODULE/cmd/ndnd"
} >"$work/log" 2>&1 || unable "Go could not build $VERSION: $(tail -1 "$work/log")"
