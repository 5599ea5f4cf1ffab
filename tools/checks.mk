# Targets that check: unit tests in C under the sanitizers, source rules, lint, pytest. Included by the Makefile.

.PHONY: check-c check-sources check-python check-plugins tidy

# Quick checks first. pytest closes, so that its summary is the last line.
test: $(DEV_STAMP) $(LINT_STAMP) $(TPU_STAMP) native examples
	$(MAKE) --no-print-directory check-sources
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory check-c
	$(MAKE) --no-print-directory check-tsan
	$(MAKE) --no-print-directory check-fuzz
	$(MAKE) --no-print-directory check-python

check-sources:
	@$(or $(wildcard $(PY)),$(PYTHON)) tools/check_sources.py

# A file's tests stay in one process.
PYTEST_JOBS ?= 2
PYTEST = $(VENV)/bin/python -m pytest -n $(PYTEST_JOBS) --dist loadfile $(PYTEST_ARGS)
check-python: $(DEV_STAMP) native
	$(PYTEST) tests

# The tests that compare values, on each CPU plugin but the one that `make test` runs on. Minutes: CI runs it.
PLUGIN_TESTS := $(patsubst %,tests/python/test_%.py,views inplace_out copy bug_reports nn generator sampling special numerics dtypes)
check-plugins: $(DEV_STAMP) native
	@cd tests/python && plugins=$$($(abspath $(VENV))/bin/python -m native) && cd ../.. && for plugin in $$plugins; do \
	    echo "$$plugin"; TORCH_PJRT_PLUGIN=$$plugin $(PYTEST) -q $(PLUGIN_TESTS) || exit 1; \
	done

# --- C unit tests: src/**/*_test.c and the runner in tests/c, all of the core built again with sanitizers. Allocations
# go through tests/c/allocation.c, and a fake PJRT plugin lies beside the program: both fail on demand. ----------------

# asan: ASan and UBSan; tsan: ThreadSanitizer; fuzz: libFuzzer, which is clang's; plain: none.
SAN        ?= asan
SAN_CC     := $(if $(filter fuzz,$(SAN)),clang,$(CC))
SAN_FLAGS_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_FLAGS_tsan := -fsanitize=thread
SAN_FLAGS_fuzz := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
SAN_FLAGS  := $(SAN_FLAGS_$(SAN))
SAN_PACKAGES := $(if $(filter fuzz,$(SAN)),clang and libclang-rt-dev,the compiler's sanitizer libraries)
SAN_BUILD  := $(BUILD)/$(SAN)
SAN_OK     := $(SAN_BUILD)/works
TEST_SRC   := $(shell find src -name '*_test.c' | sort) $(sort $(wildcard tests/c/*.c))
FUZZ_SRC   := $(sort $(wildcard tests/fuzz/*_fuzz.c))
FUZZ_BIN   := $(FUZZ_SRC:tests/fuzz/%.c=$(SAN_BUILD)/%)
FUZZ_SECONDS ?= 20
WRAP_ALLOC := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
sanitized   = $(patsubst %.c,$(SAN_BUILD)/%.o,$(1))
SAN_OBJ    := $(call sanitized,$(CORE_SRC) $(TEST_SRC) $(FUZZ_SRC) $(wildcard tests/fake_plugin/*.c))

.PHONY: check-tsan check-fuzz run-unit-tests run-fuzz
check-c:
	$(call with_sanitizer,asan,run-unit-tests,SAN=plain run-unit-tests)
check-tsan:
	$(call with_sanitizer,tsan,run-unit-tests)
check-fuzz:
	$(call with_sanitizer,fuzz,run-fuzz)

# $(call with_sanitizer,NAME,TARGET,OTHERWISE): make TARGET with it, where this machine has it.
with_sanitizer = +@$(MAKE) --no-print-directory SAN=$(1) $(BUILD)/$(1)/works && \
    if [ -s $(BUILD)/$(1)/works ]; then $(MAKE) --no-print-directory SAN=$(1) $(2); \
    else $(MAKE) --no-print-directory SAN=$(1) say-skipped$(if $(3), && $(MAKE) --no-print-directory $(3)); fi

.PHONY: say-skipped
say-skipped:
	@echo "skipped: $(SAN) ($(SAN_CC) cannot build or run such a program here: install $(SAN_PACKAGES))"

# Not empty when the compiler makes sanitized programs that run here.
$(SAN_OK):
	@mkdir -p $(@D)
	@if echo 'int main(void) { return 0; }' | $(SAN_CC) $(SAN_FLAGS) -x c - -o $(SAN_BUILD)/probe 2>/dev/null \
	    && $(SAN_BUILD)/probe; then echo yes > $@; else : > $@; fi

$(SAN_BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,cc,$< ($(SAN)))
	$(Q)$(SAN_CC) $(CPPFLAGS_CORE) -Itests/c $(CPPFLAGS) -std=c11 -O1 -g -fPIC -fno-omit-frame-pointer $(WARNINGS) \
	    $(SAN_FLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(SAN_BUILD)/fake_plugin.so: $(call sanitized,$(sort $(wildcard tests/fake_plugin/*.c)))
	$(call say,ld,$@)
	$(Q)$(SAN_CC) -shared $(SAN_FLAGS) $^ -o $@ -lpthread

$(SAN_BUILD)/unit_tests: $(call sanitized,$(CORE_SRC) $(TEST_SRC)) $(BUILD)/core.list
	$(call say,ld,$@)
	$(Q)$(SAN_CC) $(SAN_FLAGS) $(WRAP_ALLOC) $(filter %.o,$^) -o $@ -ldl -lpthread -lm

$(FUZZ_BIN): $(SAN_BUILD)/%: $(SAN_BUILD)/tests/fuzz/%.o $(call sanitized,$(CORE_SRC)) $(BUILD)/core.list
	$(call say,ld,$@)
	$(Q)$(SAN_CC) $(SAN_FLAGS) -fsanitize=fuzzer $(filter %.o,$^) -o $@ -ldl -lpthread -lm

run-unit-tests: $(SAN_BUILD)/unit_tests $(SAN_BUILD)/fake_plugin.so
	$< $(C_TEST)

# The modules that tests/golden/*.graph lower to are written anew: read the difference before it is committed.
.PHONY: golden
golden:
	+@TPJ_GOLDEN_WRITE=1 C_TEST=golden $(MAKE) --no-print-directory check-c

# Begins with the golden graphs; what a run finds worth keeping stays in build/.
run-fuzz: $(FUZZ_BIN)
	@for target in $(FUZZ_BIN); do \
	    name=$$(basename $$target); mkdir -p $(SAN_BUILD)/corpus/$$name; \
	    cp tests/golden/*.graph $(SAN_BUILD)/corpus/$$name; \
	    echo "$$name, $(FUZZ_SECONDS) s"; \
	    $$target -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1 -rss_limit_mb=4096 \
	        -artifact_prefix=$(SAN_BUILD)/ $(SAN_BUILD)/corpus/$$name || exit 1; \
	done

-include $(SAN_OBJ:.o=.d)

# --- Lint ------------------------------------------------------------------------------------------------------------

NATIVE_FILES = $(shell find src include glue pyext tests examples -name '*.[ch]' -o -name '*.cpp')
# $(call lint_tool,NAME,COMMAND): run it, or say how to get it.
lint_tool = @if [ -x $(VENV)/bin/$(1) ]; then echo '$(1)'; $(2); \
    else echo 'skipped: $(1) (pip install $(1), or make dev)'; fi

lint:
	$(call lint_tool,ruff,$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .)
	$(call lint_tool,mypy,$(VENV)/bin/mypy)
	$(call lint_tool,clang-format,$(VENV)/bin/clang-format --dry-run --Werror $(NATIVE_FILES))

# Minutes, not seconds: apart from `make lint`. CI runs it.
tidy:
	$(call lint_tool,clang-tidy,printf '%s\n' $(CORE_SRC) | xargs -P $$(nproc) -n 8 sh -c '$(VENV)/bin/clang-tidy --quiet \
	    "$$@" -- -std=c11 $(CPPFLAGS_CORE)' tidy)

format:
	$(VENV)/bin/ruff check --fix --exit-zero . && $(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(NATIVE_FILES)
