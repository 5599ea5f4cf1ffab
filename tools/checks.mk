# Targets that check: unit tests in C under the sanitizers, source rules, lint, pytest. Included by the Makefile.

.PHONY: check-c check-sources check-python tidy

# Quick checks first. pytest closes, so that its summary is the last line.
test: $(DEV_STAMP) $(LINT_STAMP) native
	$(MAKE) --no-print-directory check-sources
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory check-c
	$(MAKE) --no-print-directory check-python

check-sources:
	@$(or $(wildcard $(PY)),$(PYTHON)) tools/check_sources.py

check-python: $(DEV_STAMP) native
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS) tests

# --- C unit tests: src/**/*_test.c and the runner in tests/c, all of the core built again with ASan and UBSan. Its
# allocations go through tests/c/allocation.c, and a fake PJRT plugin lies beside the program: both fail on demand. ----

SAN_BUILD  := $(BUILD)/asan
SAN_FLAGS  := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
TEST_SRC   := $(shell find src -name '*_test.c' | sort) $(sort $(wildcard tests/c/*.c))
TEST_OBJ   := $(TEST_SRC:%.c=$(SAN_BUILD)/%.o)
SAN_CORE   := $(CORE_SRC:%.c=$(SAN_BUILD)/%.o)
FAKE_OBJ   := $(patsubst %.c,$(SAN_BUILD)/%.o,$(sort $(wildcard tests/fake_plugin/*.c)))
WRAP_ALLOC := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
# Whether the compiler can build and run a sanitized program here: found out once.
SANITIZE   := $(SAN_BUILD)/sanitizers.cflags

$(SANITIZE):
	@mkdir -p $(@D)
	@if echo 'int main(void) { return 0; }' | $(CC) $(SAN_FLAGS) -x c - -o $(SAN_BUILD)/probe 2>/dev/null \
	    && $(SAN_BUILD)/probe; then echo '$(SAN_FLAGS)' > $@; else : > $@; fi

$(SAN_BUILD)/%.o: %.c $(SANITIZE)
	@mkdir -p $(@D)
	$(call say,cc,$< (sanitized))
	$(Q)$(CC) $(CPPFLAGS_CORE) -Itests/c $(CPPFLAGS) -std=c11 -O1 -g -fPIC $(WARNINGS) @$(SANITIZE) $(CFLAGS) \
	    -MMD -MP -c $< -o $@

$(SAN_BUILD)/fake_plugin.so: $(FAKE_OBJ)
	$(call say,ld,$@)
	$(Q)$(CC) -shared @$(SANITIZE) $(FAKE_OBJ) -o $@ -lpthread

$(SAN_BUILD)/unit_tests: $(SAN_CORE) $(TEST_OBJ) $(BUILD)/core.list
	$(call say,ld,$@)
	$(Q)$(CC) @$(SANITIZE) $(WRAP_ALLOC) $(SAN_CORE) $(TEST_OBJ) -o $@ -ldl -lpthread -lm

check-c: $(SAN_BUILD)/unit_tests $(SAN_BUILD)/fake_plugin.so
	@test -s $(SANITIZE) || echo "skipped: ASan and UBSan ($(CC) cannot link them here: install libasan and libubsan)"
	$(SAN_BUILD)/unit_tests $(C_TEST)

-include $(SAN_CORE:.o=.d) $(TEST_OBJ:.o=.d) $(FAKE_OBJ:.o=.d)

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
