# Everything a developer runs, by name. `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help demo test test-controls matrix chaos fuzz test-compat test-upgrade pictures stop lint bench bench-smoke

help: ## list these targets
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## show delayed messages arriving, then the web page (BROKER=kafka, STORE=embedded, PROXY=1)
	BROKER=$(BROKER) STORE=$(STORE) PROXY=$(PROXY) dev/demo

test: ## all tests, against Redis, RabbitMQ and Kafka started for them
	dev/install tests
	dev/services up
	dev/services run main cargo test --locked

test-controls: ## break xdelay on purpose, one way at a time: its tests must notice each
	dev/services up
	dev/test-controls

matrix: ## every crash point with every action and arrangement, and every long run; ends with a table
	dev/services up
	dev/services run main dev/matrix

SECONDS ?= 300
chaos: ## three replicas through SECONDS of mishaps; SEED repeats a schedule
	dev/services up
	dev/services run main env CHAOS_SECONDS=$(SECONDS) $(if $(SEED),TEST_SEED=$(SEED)) \
		cargo test --locked --test it -- --nocapture chaos::nothing_is_lost

TARGETS = frames delay envelope config
TARGET ?= $(TARGETS)
fuzz: ## feed TARGET (frames, delay, envelope, config) with nonsense for SECONDS; needs nightly and cargo-fuzz
	for target in $(TARGET); do mkdir -p fuzz/corpus/$$target && \
		cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
		-max_total_time=$(SECONDS) || exit 1; done

OTHER ?= HEAD~1
test-upgrade: ## this version and OTHER (a commit or tag) side by side on one Redis, under load
	dev/services up
	dev/two-versions $(OTHER)

pictures: ## take the pictures of the operator's guide anew, from the tests of the web page
	dev/install tests
	dev/services up
	dev/pictures

# COMPAT=docker uses container images instead of a Debian sid root.
COMPAT ?= sid
compat = cargo test --locked --test it -- --skip kafka
broker_tests = end_to_end fidelity capture broker_contract proxy command crash::a_crash_loop
store_tests = store_contract redis_faults lua end_to_end

test-compat: ## the broker-facing tests, with newest RabbitMQ and Redis, then Valkey
	dev/install tests
	SERVICES=$(COMPAT) dev/services up compat 17380 17673 none
	dev/services run compat $(compat) $(broker_tests) $(store_tests)
	SERVICES=$(COMPAT) REDIS_FLAVOUR=valkey dev/services up valkey 17381 17674 none
	dev/services run valkey $(compat) $(store_tests)

stop: ## end the demo's xdelay and all servers that the targets above started; their data goes too
	dev/demo stop
	dev/services down

lint: ## formatting, clippy and documentation, warnings being errors
	dev/install
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked
	dev/promtool check rules ops/alerts.yml

bench: ## measure throughput and lateness
	dev/bench

bench-smoke: ## a minute of that: fails when xdelay falls far behind the relay
	dev/bench smoke
