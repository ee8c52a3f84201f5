# The build is Meson's; these are the names to type.  See README.md.
BUILD ?= build
PREFIX ?= /usr/local

build: $(BUILD)/build.ninja
	ninja -C $(BUILD)
	@ln -f $(BUILD)/src/libosf.so $(BUILD)/tools/osf/osf $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix $(PREFIX)

.PHONY: build
