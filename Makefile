# The build is Meson's; these are the names to type.  See README.md.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
SANITIZE = -Dbuildtype=debug -Db_lundef=false

# What is installed, and no test.  osf finds libosf.so beside itself, so both get a
# second name in $(BUILD).
PRODUCT ?= product
build: $(BUILD)/build.ninja
	ninja -C $(BUILD) $(PRODUCT)
	@ln -f $(BUILD)/src/libosf.so $(BUILD)
	@if [ -e $(BUILD)/src/libosf-verbs.so ]; then \
		ln -f $(BUILD)/src/libosf-verbs.so $(BUILD); fi
	@if [ -e $(BUILD)/tools/osf/osf ]; then \
		ln -f $(BUILD)/tools/osf/osf $(BUILD); fi
	@if [ -e $(BUILD)/tools/vma_stats/vma_stats ]; then \
		ln -f $(BUILD)/tools/vma_stats/vma_stats $(BUILD); \
		ln -sf vma_stats $(BUILD)/xlio_stats; fi
	@if [ -e $(BUILD)/src/osfd/osfd ]; then \
		ln -f $(BUILD)/src/osfd/osfd $(BUILD); fi

# What the tests run, fuzzers and examples too; `make check` builds it.
tests: build
	ninja -C $(BUILD)
	@ln -f $(BUILD)/tests/libosf-packetdrill.so $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix $(PREFIX) $(SETUP)

# Installs the packages that are missing (INSTALL=no: does not), builds, runs the tests.
# FAST=1 leaves out the long ones, SEED=N repeats the random choices of another run,
# SUITES="unit app" runs some.
check:
	@[ "$(INSTALL)" = no ] || BUILD=$(BUILD) tools/packages.sh build tests $(if $(FAST),,suites) || \
		echo "going on without these packages; tests that need them are skipped"
	@$(MAKE) --no-print-directory tests BUILD=$(BUILD) SETUP="$(SETUP)"
	OSF_TEST_SEED=$(SEED) python3 tests/run_check.py $(BUILD) $(if $(FAST),--fast) $(SUITES)

# The night: many seeds of the simulator.  SEEDS of them, from FROM on.
SEEDS ?= 200000
FROM ?= 1
sim: build
	ninja -C $(BUILD) tests/sim
	$(BUILD)/tests/sim --jobs $$(nproc) --progress --transitions $(FROM) $(SEEDS)

# Fuzzers for longer than in the tests, by libFuzzer or AFL++ (ENGINE=afl).
ENGINE ?= libfuzzer
SECONDS ?= 60
TARGETS ?= bridge cm escrow far greeting icmp inbox list options osfd pair rdma ring roce rules shared stat \
	states steer tap tcp work
fuzz: tests
	tests/fuzz/run.sh $(BUILD) $(ENGINE) $(SECONDS) $(TARGETS)

# Attacks by a peer, a child and a stranger, so many of each kind; also
# make hostile BUILD=build-asan.
ATTACKS ?= 10000
hostile: tests
	OSF_BUILD=$(BUILD) PYTHONPATH=tests/app python3 tests/trust/hostile.py \
		--attacks $(ATTACKS) --seconds 1500 $(if $(SEED),--seed $(SEED)) $(PARTS)

# Processes that share connections, at random, on the kernel and under osf.
mates: tests
	OSF_BUILD=$(BUILD) python3 tests/app/test_mates.py $(BUILD)/tests/mates \
		--seconds $(SECONDS) --seed $(or $(SEED),1)

# Processes and threads that share connections, over a libosf.so whose atomic operations wait at
# random (src/base/chaos.h): finds races that nothing else finds.  It prints the seeds that
# fail; SEED=N SECONDS=1 runs N again.  KINDS="mix kills" runs some.
chaos: build-chaos
	python3 tests/app/chaos.py build-chaos --seconds $(SECONDS) \
		--seed $(or $(SEED),1) $(KINDS)

# How much of src/tcp the tests reach: lines, branches, changes of state.
coverage:
	tests/coverage.sh

# Other projects' own test suites, whole: tests/suites/run.py.
suites: build
	OSF_BUILD=$(BUILD) python3 tests/suites/run.py $(NAMES)

# All of them over our own TCP: lo is a port, in a network namespace.  As root, after
# `make suites', which gets their sources.
suites-tcp: build
	OSF_BUILD=$(BUILD) python3 tests/suites/over_tcp.py $(NAMES)

# The night of connections on ports, as root: 10 GB over all kinds of wires, ports and devices
# that come and go, 1000 programs that are killed, 100 osfds.
MBYTES ?= 10240
night-wire: tests
	OSF_LIB=$(abspath $(BUILD))/libosf.so python3 tests/port/test_interop.py $(BUILD)/osf \
		$(BUILD)/tests/port/turns $(BUILD)/tests/port/relay $(MBYTES) $(SEED)
	OSF_LIB=$(abspath $(BUILD))/libosf.so python3 tests/port/test_ends.py $(BUILD)/osf \
		$(BUILD)/tests/port/turns 20
	OSF_LIB=$(abspath $(BUILD))/libosf.so python3 tests/port/test_calls_lo.py $(BUILD)/osf \
		$(BUILD)/tests/calls '*'
	OSF_LIB=$(abspath $(BUILD))/libosf.so python3 tests/port/test_storm.py $(BUILD)/osf 10000
	OSF_BUILD=$(BUILD) python3 tests/xlio/run.py tcp $(addprefix $(BUILD)/tests/,xlio_test \
		libfake_verbs.so libcount_calls.so)
	$(BUILD)/tests/port/port_death $(BUILD)/osfd $(BUILD)/libosf.so $(BUILD)/tests/port/victim \
		1000 $(or $(SEED),1) 100

# The night of the software RDMA device: perftest with each size of message.
night-verbs: tests
	OSF_BUILD=$(BUILD) python3 tests/verbs/run_programs.py sizes

# Random sequences to Linux and to our own TCP, compared: as many as N says.
# OPTIONS: --ipv6, --cubic.
N ?= 100000
differential: build
	ninja -C $(BUILD) tests/differential
	$(BUILD)/tests/differential $(OPTIONS) tests/differential/known.txt run $(N) $(SEED)

# Programs, libraries and drivers of different ages: the table, and what makes it hold.
abi: $(BUILD)/build.ninja
	ninja -C $(BUILD) abi
	PYTHONDONTWRITEBYTECODE=1 python3 tests/abi/run.py $(BUILD)

# Soft-RoCE of Linux 6.1 in a virtual machine, beside osf0: tests/vm/README.md.  Five
# minutes alone on two cores; PARTS="golden interop" runs some.
vm: build
	@[ "$(INSTALL)" = no ] || BUILD=$(BUILD) tools/packages.sh vm || echo "going on without QEMU"
	ninja -C $(BUILD) vm
	python3 tests/vm/run.py $(BUILD) $(PARTS)

bench: build
	$(BUILD)/osf bench

demo:
	@BUILD=$(BUILD) tools/demo.sh

# Between two network namespaces; as root.
demo-wire:
	@BUILD=$(BUILD) tools/demo_wire.sh

install: $(BUILD)/build.ninja
	meson configure $(BUILD) --prefix $(PREFIX)
	$(MAKE) build
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

# What the last `make install' of this build folder has put there.
uninstall:
	ninja -C $(BUILD) uninstall

# How to run programs with these: docs/notes/2026-11-21-sanitizers.md.
asan = BUILD=build-asan SETUP="-Db_sanitize=address,undefined $(SANITIZE)"
tsan = BUILD=build-tsan SETUP="-Db_sanitize=thread $(SANITIZE)"
chaos = BUILD=build-chaos SETUP=-Dchaos=true PRODUCT="src/libosf.so tests/soak tests/stress"
build-asan build-tsan build-chaos: build-%:
	$(MAKE) build $($*)

# All tests with a sanitizer, those of applications too; FAST=1 and so on as for check.
check-asan check-tsan: check-%:
	$(MAKE) check $($*)

clean:
	rm -rf $(BUILD) build-asan build-tsan build-chaos

.PHONY: build tests check abi coverage differential sim fuzz mates chaos hostile suites suites-tcp night-wire night-verbs vm bench demo demo-wire install uninstall build-asan build-tsan build-chaos \
	check-asan check-tsan clean
