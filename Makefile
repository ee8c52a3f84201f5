# The build is Meson's; these are the names to type.  See README.md.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
SANITIZE = -Dbuildtype=debug -Db_lundef=false

# osf finds libosf.so beside itself, so both get a second name in $(BUILD).
build: $(BUILD)/build.ninja
	ninja -C $(BUILD)
	@ln -f $(BUILD)/src/libosf.so $(BUILD)
	@ln -f $(BUILD)/tests/libosf-packetdrill.so $(BUILD)
	@if [ -e $(BUILD)/tools/osf/osf ]; then \
		ln -f $(BUILD)/tools/osf/osf $(BUILD); fi

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix $(PREFIX) $(SETUP)

check: build
	python3 tests/run_check.py $(BUILD) $(SUITES)

# The night: many seeds of the simulator.  SEEDS of them, from FROM on.
SEEDS ?= 200000
FROM ?= 1
sim: build
	$(BUILD)/tests/sim --jobs $$(nproc) --progress --transitions $(FROM) $(SEEDS)

# Fuzzers for longer than in the tests, by libFuzzer or AFL++ (ENGINE=afl).
ENGINE ?= libfuzzer
SECONDS ?= 60
TARGETS ?= icmp options pair ring rules states tcp
fuzz: build
	tests/fuzz/run.sh $(BUILD) $(ENGINE) $(SECONDS) $(TARGETS)

# How much of src/tcp the tests reach: lines, branches, changes of state.
coverage:
	tests/coverage.sh

# Other projects' own test suites, whole: tests/suites/run.py.
suites: build
	OSF_BUILD=$(BUILD) python3 tests/suites/run.py $(NAMES)

# Random sequences to Linux and to our own TCP, compared: as many as N says.
# OPTIONS: --ipv6, --cubic.
N ?= 100000
differential: build
	$(BUILD)/tests/differential $(OPTIONS) tests/differential/known.txt run $(N) $(SEED)

bench: build
	$(BUILD)/osf bench

demo:
	@BUILD=$(BUILD) tools/demo.sh

install: build
	meson configure $(BUILD) --prefix $(PREFIX)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD)

# How to run programs with these: docs/notes/2026-11-21-sanitizers.md.
build-asan:
	$(MAKE) build BUILD=$@ SETUP="-Db_sanitize=address,undefined $(SANITIZE)"

build-tsan:
	$(MAKE) build BUILD=$@ SETUP="-Db_sanitize=thread $(SANITIZE)"

clean:
	rm -rf $(BUILD) build-asan build-tsan

.PHONY: build check coverage differential sim fuzz suites bench demo install build-asan build-tsan clean
