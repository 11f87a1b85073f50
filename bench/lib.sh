#!/bin/sh
# lib.sh - shared by the scripts that print tables of speeds: their arguments, folders and heads. Sourced with the
# arguments of the script, BUILD [--text|--json|--verbose].
#
# Sets build, here (the folder of the scripts), form and verbose, and folders that go with the script: work, disk, and
# memory, which is in RAM if that is possible.
form=--markdown
verbose=
build=${1:-build}
shift $(($# > 0 ? 1 : 0))
for option in "$@"; do
  case $option in
    --text) form= ;;
    --json) form=--json ;;
    --verbose) verbose=--verbose ;;
    *) echo "${0##*/}: unknown option '$option'; --text, --json or --verbose" >&2; exit 2 ;;
  esac
done
build=$(cd "$build" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-bench-XXXXXX")
disk=$work/disk
memory=$work/memory
mkdir "$disk" "$memory"
if [ -d /dev/shm ] && [ -w /dev/shm ]; then memory=$(mktemp -d /dev/shm/hearth-bench-XXXXXX); fi
trap 'rm -rf "$work" "$memory"' EXIT
trap 'exit 1' HUP INT TERM

# Programs of BUILD run as the program `hearth` sets them up: threads that wait leave the cores to others.
set_up_programs() {
  HEARTH_ENGINE_DIRECTORY=$build
  GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-3000}
  export HEARTH_ENGINE_DIRECTORY GOMP_SPINCOUNT
}

# run PROGRAM ARGUMENTS...: a program that prints results, each with an empty disk and memory
run() {
  program=$1
  shift
  "$build/bench/$program" $form $verbose "$@"
  rm -rf "${disk:?}"/* "${memory:?}"/*
}

need_node() { command -v node >/dev/null || { echo "${0##*/}: node is missing, which drives the servers" >&2; exit 1; }; }

# machine [MORE]: the line that tells where and when the table was measured
machine() {
  [ "$form" = --markdown ] || return 0
  processor=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
  echo "Machine: $(getconf _NPROCESSORS_ONLN) cores of ${processor:-$(uname -m)}," \
    "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null)," \
    "$(uname -sr)${1:+, $1}. Date: $(date +%Y-%m-%d)."
}

# head_of [TEXT]: the head of a table
head_of() {
  [ "$form" = --markdown ] || return 0
  if [ $# -gt 0 ]; then printf '\n%s\n' "$1"; fi
  printf '\n| | Hearth | held against | result | target | met |\n| --- | --- | --- | --- | --- | --- |\n'
}
