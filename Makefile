# Two commands, `make demo` and `make test`, and the set-up that both call.
#
# Everything goes into .venv. Three small files in it say how far that got: `ready` (the packages are
# complete; older than constraints.txt or pyproject.toml once those change), `incomplete` (an installation
# was broken off, so nothing in there is trusted) and `made-for` (path and interpreter it was made for).
# Java, tshark and Chromium can come and go without us: they are looked at each time, which takes a moment.

SHELL := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup demo test lock clean again

# The interpreter for .venv, a name or a path; without it the first that fits.
PYTHON ?=
# Given to pytest by `make test`.
PYTEST_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PYTHONUNBUFFERED := 1
unexport PYTHONPATH PYTHONHOME
# Else each of the many processes that the tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The commands in .venv hold the path of the checkout, so a moved checkout gets a new one.
again := $(shell \
	[ ! -e .venv/incomplete ] && .venv/bin/python -c '' 2>/dev/null \
	&& [ "$$(sed -n 1p .venv/made-for 2>/dev/null)" = "$$(pwd -P)" ] \
	&& { [ -z '$(PYTHON)' ] || [ "$$(sed -n 2p .venv/made-for)" = '$(PYTHON)' ]; } || echo again)

define functions
say() { printf 'Setting up: %s\n' "$$*"; }
die() { printf 'make: %s\n' "$$*" >&2; exit 1; }
pip() { "$$environment/bin/python" -m pip -qq "$$@" || die 'pip failed, see above (it needs the internet).'; }
environment=.venv

# The first of "$@" that fits, into $python. One that can make virtual environments goes before all others.
find_python() {
	for needed in 'venv, ensurepip' sys; do
		for python in $(if $(PYTHON),'$(PYTHON)',"$$@"); do
			"$$python" -c "import sys, $$needed; sys.exit(not (3, 11) <= sys.version_info < (3, 14))" \
				>/dev/null 2>&1 && return
		done
	done
	die 'no Python 3.11, 3.12 or 3.13 found$(if $(PYTHON), as $(PYTHON)). Please install python3 and python3-venv' \
		'in one of these versions, or say where it is: make PYTHON=/path/to/python3'
}

make_environment() {
	message=$$("$$python" -m venv --clear "$$environment" 2>&1) && return
	package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
	if "$$python" -c 'import ensurepip' 2>/dev/null; then
		die "$$python could not make a virtual environment: $$message"
	fi
	"$$python" -c 'import sys; sys.exit(sys.base_prefix != "/usr")' && apt_install "$$package" && "$$python" -m venv --clear "$$environment" && return
	die "$$python cannot make virtual environments. Please install $$package (apt-get install $$package)."
}

# As root, if that needs nobody's password.
as_root() {
	command -v apt-get || return 1
	set -- env DEBIAN_FRONTEND=noninteractive "$$@"
	if [ "$$(id -u)" = 0 ]; then "$$@"; else sudo -n "$$@"; fi
} </dev/null >/dev/null 2>&1

apt_install() {
	as_root true || return 1
	say "$$1, with apt-get"
	as_root apt-get -o DPkg::Lock::Timeout=120 update || :
	as_root apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$$1"
}
endef

help:
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile
	printf '\nPYTHON=... chooses the interpreter, PYTEST_ARGS=... is given to pytest by make test.\n'

.venv/ready: constraints.txt pyproject.toml $(again)
	@$(functions)
	[ ! -e .venv ] || [ -w .venv ] || die ".venv belongs to $$(stat -c %U .venv), who may run make setup, or remove it."
	if [ '$(again)' ]; then
		find_python python3.13 python3.12 python3.11 python3
		say ".venv, with $$("$$python" -V)"
		make_environment
	fi
	touch .venv/incomplete
	say 'packages of constraints.txt (some minutes the first time: 1.2 GB, most of it Spark)'
	# PySpark comes as source. It and we are built with the setuptools of constraints.txt, not with today's.
	pip install -c constraints.txt setuptools wheel
	pip install -c constraints.txt --no-build-isolation -e '.[dev]'
	if [ '$(again)' ]; then printf '%s\n' "$$(pwd -P)" '$(PYTHON)' >.venv/made-for; fi
	touch .venv/ready
	rm .venv/incomplete

setup: .venv/ready ## all that the other two need, into .venv; a moment when it is there
	@$(functions)
	java=$$(.venv/bin/zenoh-reports doctor --java 2>&1) || die "zenoh-reports doctor --java ended with $$?: $$java"
	tried=.venv/tried-tshark-$$(id -u)
	if ! command -v tshark >/dev/null && [ ! -e "$$tried" ]; then
		apt_install tshark || touch "$$tried" || :
	fi
	if command -v tshark >/dev/null; then
		tshark=$$(tshark --version 2>/dev/null | sed 's/^TShark (Wireshark) \([0-9.]*\).*/tshark \1/;q')
	else
		tshark='no tshark (to have it read captures too: apt-get install tshark; tests of that are skipped)'
	fi
	tried=.venv/tried-chromium-$$(id -u)
	if ! command -v chromium >/dev/null && [ ! -e "$$tried" ]; then
		apt_install chromium || touch "$$tried" || :
	fi
	if command -v chromium >/dev/null; then chromium=chromium; else chromium='no chromium (tests that look at pages are skipped)'; fi
	printf 'Set up: %s; %s; %s; %s\n' "$$(.venv/bin/python -V)" "$$java" "$$tshark" "$$chromium"

demo: setup ## conformance tests and two short campaigns against a real router, and the report of all runs
	@$(functions)
	run=runs/$$(.venv/bin/python -c 'from spark_reports.rows import new_run_id; print(new_run_id())')
	# step WORST TITLE COMMAND...: the demo goes on after exit codes up to WORST.
	step() {
		worst=$$1 title=$$2 code=0
		shift 2
		printf '\n%s\n' "$$title"
		"$$@" || code=$$?
		[ $$code -le $$worst ] || die "the demo stops, '$$1' ended with exit code $$code (run folder: $$run)."
	}
	# 1: the tests, the campaigns found something. That is what they are for.
	step 1 '1/4 Conformance: the suite against an eclipse-zenoh router' \
		.venv/bin/pytest conformance/ --node pypi --run-dir "$$run"
	step 1 '2/4 Fuzzing: its handshake, 20 s' \
		.venv/bin/zenoh-fuzz run handshake --node pypi --time 20s --seed 1 --run-dir "$$run"
	step 1 '3/4 Fuzzing: an open session, 20 s' \
		.venv/bin/zenoh-fuzz run session --node pypi --time 20s --seed 1 --run-dir "$$run"
	step 0 '4/4 Report: Spark over all runs so far' \
		.venv/bin/zenoh-reports build runs --out runs/report

test: setup ## our own tests, lint, types and import contracts
	@failed=
	check() {
		printf '\n%s\n' "$$*"
		".venv/bin/$$@" || failed="$$failed$${failed:+, }$$1$${2:+ $$2}"
	}
	check ruff check
	check ruff format --check
	check mypy
	check lint-imports
	# Four at once also on two cores, as they wait half of their time; one of them has all that needs Spark.
	# A file stays together, for what its tests share.
	check pytest -n 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)
	[ -z "$$failed" ] || { printf '\nmake test: failed: %s\n' "$$failed" >&2; exit 1; }

lock: ## new constraints.txt: the newest versions that pyproject.toml allows
	@$(functions)
	find_python python3.11 python3.12 python3.13 python3
	scratch=$$(mktemp -d)
	trap 'rm -rf "$$scratch"' EXIT
	trap 'exit 1' INT TERM
	environment=$$scratch/venv
	make_environment
	pip install --upgrade pip
	pip install -e '.[dev,java,bench]'
	{
		printf '# All packages of the extras dev, java and bench, for Python 3.11 to 3.13. Made by `make lock`.\n'
		"$$environment/bin/pip" freeze --all --exclude pip --exclude zenoh-harness | LC_ALL=C sort -f
	} >"$$scratch/constraints.txt"
	if grep -n ' @ \|://\|^-' "$$scratch/constraints.txt"; then die 'a package did not come from an index.'; fi
	# PySpark is pure Python and comes as source only.
	grep -v '^pyspark=' "$$scratch/constraints.txt" >"$$scratch/wheels.txt"
	for version in 3.11 3.12 3.13; do
		printf 'Is there a wheel of each for Python %s?\n' $$version
		pip install --dry-run --ignore-installed --no-deps --only-binary=:all: --python-version $$version \
			--target "$$scratch/target" -r "$$scratch/wheels.txt"
	done
	cp "$$scratch/constraints.txt" constraints.txt

clean: ## removes .venv and what tools left behind, never runs/
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -path ./runs -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
