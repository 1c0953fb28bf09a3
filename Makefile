# Shingle: everything a user or contributor runs. `make help` lists it.
.POSIX:
.SUFFIXES:

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 12

serve: ## an S3 server on emulated shingled drives under ./shingle-data
	@scripts/setup rust
	@cargo build --release --quiet --bin shingle --bin shingle-lab
	@exec target/release/shingle serve

test: ## all unit, simulation and end-to-end tests
	@scripts/setup all
	@scripts/test

# Every crate whose tests draw from seeds; crates/app/scenarios/tests/crash_target.rs holds this list against them.
CRASH = -p shingle-sim -p shingle-record -p shingle-zone-kit -p shingle-chunk-store -p shingle-object-store -p shingle-array-store \
	-p shingle-array-objects -p shingle-partitions -p shingle-translation -p shingle-zone-files -p shingle-blue-store -p shingle-blue-objects -p shingle-rocksdb-keys \
	-p shingle-translation-layers -p shingle-store-testing

crash: ## more power cuts and faults in every engine: SEEDS=20 runs 20 times as many seeds, SEEDS=20..40 the next 20 times
	SHINGLE_SEEDS=$${SEEDS:-10} cargo test --profile crash --quiet --no-fail-fast --lib --tests $(CRASH)

test-zoned: ## at most 20 minutes: engines on the Linux kernel's zoned devices, in a virtual machine (docs/zoned-tests.md)
	@scripts/setup zoned
	@scripts/test-zoned

peers: ## records real F2FS and btrfs, and our engine, under the lab's load in a virtual machine, and plays their commands on a modelled drive
	@scripts/setup zoned
	@python3 tests/zoned/peers.py target/peers
	@cargo build --release --quiet --bin shingle --bin shingle-lab
	@target/release/shingle lab run peers-replay --traces target/peers

traces: ## records the project's own block traces: ext4 on a volume in a virtual machine, under ten loads (crates/app/lab/traces/README.md)
	@scripts/setup zoned
	@cargo build --release --quiet --bin shingle
	@python3 tests/zoned/traces.py target/traces --shingle target/release/shingle

volume-trees: ## a tree as large as a kernel's source in ext4, xfs and btrfs on volumes, with kill -9 (root, this machine's own kernel): minutes
	@scripts/setup zoned
	@cargo build --release --quiet --bin shingle
	@python3 tests/volumes/source_tree.py --shingle target/release/shingle

record-rocksdb: ## records RocksDB's file calls under the dissertation's load, for `shingle lab run rocksdb-hmsmr --trace FILE`: 20 minutes, 15 GB of disk
	@python3 tests/rocksdb/record.py target/rocksdb-fillrandom.calls.gz

wheel: ## the Python package as a wheel in target/wheels, installed and tested in a fresh virtual environment
	@scripts/setup rust
	@scripts/wheel

bench: ## all benchmarks, one JSON object each
	@cargo build --release --quiet --bin shingle
	@for name in chunk-append chunk-read chunk-gc array-put array-get array-rebuild map simulator s3 s3-drives $$(command -v fio >/dev/null && echo device) $$(command -v nbdkit >/dev/null && echo volume) $$([ -f target/release/libshingle_rocksdb.so ] && echo rocksdb); do target/release/shingle bench $$name --json | tail -n 1; done

chunk-memory: ## memory of the chunk store's index on a full drive, beside the paper's
	cargo test --release -p shingle-lab --test chunk_memory -- --nocapture

array-open: ## opens an array of 60 modelled drives of 20 TB after an unclean stop: minutes, 8 GB of memory and 5 of disk
	cargo test --release -p shingle-lab --test array_open -- --ignored --nocapture

fuzz: ## a minute of fuzzing for each parser of on-disk bytes (needs nightly Rust and cargo-fuzz)
	@scripts/fuzz

fuzz-parsers: ## ten million mutated inputs for each parser of bytes from drives, clients and files: hours
	SHINGLE_INPUTS=$${INPUTS:-10000000} cargo test --release -p shingle-scenarios --test mutated -- --nocapture

deb: ## a Debian package in target/deb
	@scripts/setup deb
	@packaging/deb/build

lint: ## formatting and clippy, as CI has them
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format the code
	cargo fmt --all

.PHONY: help serve test crash test-zoned peers traces volume-trees record-rocksdb wheel bench chunk-memory array-open fuzz fuzz-parsers deb lint fmt
