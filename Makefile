# make demo     watch ordinary Linux hosts talk through a Plexus switch
# make test     every test, as CI runs them
# make bench    speed, beside its peers
# make package  a Debian package and an image for containers (docs/install.md)
# make setup    the Debian packages that these need (each target calls it)

SHELL := /bin/bash
CARGO ?= cargo

# Root runs everything; others run what needs no privilege, and are told what was left out.
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)

.PHONY: all demo test bench fuzz package setup setup-test setup-bench setup-package build check clean

all: build

build:
	$(CARGO) build --release --locked -p plexus-cli

setup:
	@scripts/setup base

setup-test:
	@scripts/setup base routing ndn watch package

setup-bench:
	@scripts/setup base bench

setup-package:
	@scripts/setup base package

# Built as the tests are, which takes half as long as with all optimisations. Crates that compute
# little in the demo are not optimised.
UNOPTIMISED := analysis controller experiments ndn sim
demo: setup
	$(CARGO) build --locked -p plexus-cli \
		$(UNOPTIMISED:%=--config profile.dev.package.plexus-%.opt-level=0)
	@scripts/demo target/debug/plexus

test: setup-test
	@CARGO=$(CARGO) scripts/test
	@[ "$(ROOT)" = yes ] || echo "not root: the tests that make devices were skipped"
	@command -v tshark >/dev/null || echo "no tshark: the tests of the dissector were skipped"
	@command -v npm >/dev/null || echo "no npm: the test that builds the page was skipped"
	@command -v chromium >/dev/null || echo "no chromium: the tests that look at pages were skipped"
	@command -v promtool >/dev/null || echo "no promtool: the tests of rules and metrics were skipped"

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench: setup-bench
	# For this machine's processor, as the peers are (-march=native); the released program is not.
	RUSTFLAGS="-C target-cpu=native" $(CARGO) build --profile dist --locked -p plexus-cli \
		--target-dir target/native
	@$(MAKE) -C bench/peers
	@$(CARGO) build --release --locked -q -p plexus-io --example bare_redirect
	@bench/run.sh target/native/dist/plexus

package: setup-package
	@scripts/package

# Coverage-guided fuzzing of every decoder for a minute each; needs a nightly toolchain.
fuzz:
	@scripts/fuzz 60

clean:
	$(CARGO) clean
	rm -rf bench/peers/build
