# Everything a checkout needs: `make demo` shows a verdict, `make test` proves the checkout.
PYTHON ?= python3
# auto, spark or embedded (docs/WHERE_TO_RUN.md).
ENGINE ?= auto
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_OF_EMBEDDED := $(VENV)/.installed-embedded
STAMP_OF_SPARK := $(VENV)/.installed-spark
# Bytecode is written in any case: without it each process compiles all that it imports anew, and pytest rewrites all assertions.
unexport PYTHONDONTWRITEBYTECODE
# Groups of tests in the order of tests/conftest.py: xdist's own order would begin with those of the most tests.
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder --numprocesses
OLDEST_SPARK := $(VENV)/oldest-spark
TESTS_OF_OLDEST_SPARK := tests/releases/test_every_kind.py tests/engine/test_exchange.py tests/engine/test_arrow_frames.py tests/jobs/engines/test_delta.py
SLOWEST := --durations=25 --durations-min=5

.PHONY: demo test test-oldest-spark test-slow kernel classes lint types unit docs pictures vega setup lock clean wheel \
	recorder recorder-broker recorder-benchmark

# Installs what the embedded engine needs, or Spark if that is asked for, unless what `make test` needs is there already.
demo: $(or $(wildcard $(STAMP)),$(if $(filter spark,$(ENGINE)),$(STAMP_OF_SPARK),$(STAMP_OF_EMBEDDED)))
	@$(BIN)/dispatch-audit audit data/samples/heavy-churn-3.0.7 --out demo-report --fail-on never --engine $(ENGINE)

# The gate: all but what is slow, with a part of the examples that tests draw. At its end it says what took longest. Of its
# four processes, for two cores, one has Spark and often waits for its JVM, and others wait for brokers and processes.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 lint types kernel classes
	@$(PYTEST) 4 -m "not slow" $(SLOWEST)

# The oldest PySpark that pyproject.toml allows, before that of the lock: one audit of each kind with the rows of the
# embedded engine, and the tests of what differs between releases, in one session. `make test-slow` has all releases.
test-oldest-spark: $(OLDEST_SPARK)
	@PYTHONPATH=$(CURDIR)/$< $(BIN)/python -c 'import pyspark; assert "$<" in pyspark.__file__, pyspark'
	@PYTHONPATH=$(CURDIR)/$< $(BIN)/python -m pytest -n 0 $(TESTS_OF_OLDEST_SPARK) $(SLOWEST)

$(OLDEST_SPARK): requirements/oldest-spark.txt $(STAMP)
	@rm -rf $@ && $(BIN)/pip install --quiet --require-hashes --no-deps --target $@ -r $<

# What takes minutes by itself (a cluster of processes, Spark Connect, audits that are killed, notebooks), and all examples.
# Brokers of the releases that the gate leaves out are built, and run the tests of the recorder.
test-slow: setup
	@$(MAKE) --no-print-directory recorder PULSAR="$(OTHERS)"
	@$(BIN)/python -m pytest -m "slow or examples" --hypothesis-profile=whole $(SLOWEST)

# The loop while editing, half a minute: no JVM, one recording of each kind of dispatcher, few examples.
unit: setup
	@$(PYTEST) 2 -m "not (spark or e2e or slow or heavy or recordings or browser or broker)" --hypothesis-profile=unit

# Compiles all that Python enters, if its sources changed, so that the processes of the tests do not all compile it at one
# time, and no test of a command meets the line that says so.
kernel: setup
	@$(BIN)/python -m dispatch_audit.pipeline.compile_ahead

# Archives the classes that Spark loads (jobs/engines/class_archive.py): else each JVM of the tests loads them, until one
# has ended and written them. The JVM writes after the command has ended, and the pipe is open until then. Without Java
# there is nothing to archive.
classes: setup
	@out=$$(mktemp -d) && trap "rm -rf $$out" EXIT && $(BIN)/dispatch-audit audit data/samples/heavy-churn-3.0.7 \
		--out $$out --fail-on never --engine spark --debug 2>&1 | cat > /dev/null

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

# The pages that are written from code and settings (a test says when they are out of date), and the site of all pages.
docs: setup
	@$(BIN)/python -m dispatch_audit.pipeline.pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# The pictures of pages in docs/pictures, of two samples and PIP-474's scenario: needs Chromium. Look at each before you commit it.
pictures: setup
	@PYTHONPATH=.:tests $(BIN)/python tests/report/pictures.py docs/pictures

# The JavaScript of the page's charts, after an upgrade of Altair or vl-convert.
vega: setup
	@$(BIN)/python -m dispatch_audit.pipeline.report.page.vega_bundle

setup: $(STAMP)

# Installs a list of packages, and this one. Bytecode is not written ahead, which takes longer than all else: Python writes
# that of what it imports. PySpark and its client have the same module, so the other of the two goes before. There is no
# stamp meanwhile: an installation that was interrupted is done again.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "dispatch-audit needs Python 3.10 or later; name one with: make PYTHON=python3.11")'
	@rm -f $(STAMP) $(STAMP_OF_EMBEDDED) $(STAMP_OF_SPARK)
	@$(PYTHON) -m venv $(VENV)
	@$(if $(wildcard $(BIN)/pip),$(BIN)/pip uninstall -qq --yes $(1))
	@echo "installing the locked dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r requirements/pip.txt
	@$(BIN)/pip install --quiet --no-compile --require-hashes -r $<
	@$(BIN)/pip install --quiet --no-compile --no-deps --no-build-isolation -e .
	@touch $@
endef

$(STAMP): requirements/gate.lock pyproject.toml
	$(call install,pyspark-client)

$(STAMP_OF_EMBEDDED): requirements/embedded.lock pyproject.toml
	$(call install,pyspark)

$(STAMP_OF_SPARK): requirements/spark.lock pyproject.toml
	$(call install,pyspark-client)

# A wheel with the kernel compiled, for the Python of .venv and this kind of machine.
wheel: setup
	@$(BIN)/python -m hatchling build -t wheel -d dist

# Resolves pyproject.toml anew. The locks name versions and hashes, never a download address. That of the embedded engine is
# for the demo, and for installations without PySpark (docs/WHERE_TO_RUN.md); that of Spark is for the demo.
RESOLVE := $(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --quiet \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock: setup
	@$(BIN)/pip install --quiet uv
	@$(RESOLVE) pyproject.toml --group dev --upgrade --output-file requirements/gate.lock
	@$(RESOLVE) pyproject.toml requirements/build.in --extra spark --constraint requirements/gate.lock --output-file requirements/spark.lock
	@$(RESOLVE) pyproject.toml requirements/build.in requirements/embedded.in --extra embedded \
		--override requirements/embedded.override --constraint requirements/gate.lock --output-file requirements/embedded.lock

# The recorder: one NAR for all brokers, and its tests on real ones; those that audit what it recorded are part of `make test`
# from then on. For other brokers: make recorder PULSAR="4.0.8 5.0.0-M1"
PULSAR ?= 3.0.7 4.2.4
# It is compiled against the oldest broker, so that it needs nothing that this one lacks.
OLDEST := 3.0.7
OTHERS := 3.3.2 4.0.8 5.0.0-M1
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pulsar-dispatch-audit
# Apart from ~/.m2: Spark looks there for its own jars, and fails on those of which Maven has needed the pom only.
MAVEN_REPO ?= $(CACHE)/maven
# From 3.9 on it collects dependencies breadth first, which those of 3.0.7 need.
MAVEN := 3.9.11
MVN := $(CACHE)/apache-maven-$(MAVEN)/bin/mvn
MVN_OPTIONS := -B --no-transfer-progress -Dstyle.color=never -Dmaven.repo.local=$(MAVEN_REPO) -f recorder/pom.xml
NAR := recorder/target/dispatch-audit-recorder-$(shell sed -n 's:^  <version>\(.*\)</version>:\1:p' recorder/pom.xml).nar
BUILD := $(MVN) $(MVN_OPTIONS) -Drecorder.nar=$(abspath $(NAR))

recorder: $(NAR)
	@for broker in $(PULSAR); do $(BUILD) -Dpulsar.version=$$broker verify || exit 1; done

$(MVN):
	@mkdir -p $(CACHE) && cd $(CACHE) && mvn -B -q -Dmaven.repo.local=$(MAVEN_REPO) org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack \
		-Dartifact=org.apache.maven:apache-maven:$(MAVEN):zip:bin -DoutputDirectory=$(CACHE)

$(NAR): recorder/pom.xml $(shell find recorder/src/main -type f) | $(MVN)
	@$(MVN) $(MVN_OPTIONS) -q -Dpulsar.version=$(OLDEST) -DskipTests package
	@cp recorder/target/$(OLDEST)/$(@F) $@

# Brokers with the NAR, for tests in other languages: `java @recorder/target/4.2.4/test-broker.args --trace-dir DIR`.
recorder-broker: $(PULSAR:%=recorder/target/%/test-broker.args)

recorder/target/%/test-broker.args: recorder/pom.xml $(shell find recorder/src -type f) $(NAR)
	@$(BUILD) -q -Dpulsar.version=$* -DskipTests package
	@touch $@

# What the recorder costs: CPU time of its hooks and its writer; then a broker's throughput and latency with and without it,
# in turns. The latter on a quiet machine.
recorder-benchmark: recorder-broker
	@java @recorder/target/4.2.4/writer-benchmark.args
	@java @recorder/target/4.2.4/writer-benchmark.args 12 100000 Sample=1/64
	@java @recorder/target/4.2.4/recorder-benchmark.args

clean:
	rm -rf $(VENV) demo-report site spark-warehouse
