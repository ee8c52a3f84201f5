# The build is Meson's; these are the names to type.  See README.md.
BUILD ?= build
PREFIX ?= /usr/local

build: $(BUILD)/build.ninja
	ninja -C $(BUILD)
	@ln -sf src/libosf.so $(BUILD)/libosf.so && ln -sf tools/osf/osf $(BUILD)/osf

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix $(PREFIX)

.PHONY: build
