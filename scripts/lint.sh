#!/bin/sh
# lint.sh - formatting and static analysis; both must pass without a finding
#
# Nine tenths of the time goes to the analyzer, which follows the paths through each function. In continuous integration
# it follows 30,000 states of a function instead of its own 225,000, which takes a quarter of the time. NODES=N sets
# another number.
set -eu
build=${1:-build}
cd "$(dirname "$0")/.."
for tool in clang-format clang-tidy; do
  command -v $tool >/dev/null || scripts/deps.sh --tools
done
echo "clang-format"
git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
nodes=${NODES:-${CI:+30000}}
echo "clang-tidy${nodes:+ ($nodes states a function)}"
# Several targets compile the same files. clang-tidy would analyse a file for each of them, also where they define the
# same.
depth=
for word in ${nodes:+-Xclang -analyzer-config -Xclang max-nodes="$nodes"}; do depth="$depth --extra-arg=$word"; done
mkdir -p "$build/lint"
python3 - "$build" <<'END'
import json, shlex, sys
build = sys.argv[1]
commands = {}
for entry in json.load(open(f"{build}/compile_commands.json")):
    seen = [word for word in shlex.split(entry["command"]) if word.startswith(("-D", "-U"))]
    commands.setdefault((entry["file"], *sorted(seen)), entry)
json.dump(list(commands.values()), open(f"{build}/lint/compile_commands.json", "w"))
END
if ! git ls-files 'src/*.c' 'src/*.cpp' | grep -v -e os_darwin -e os_freebsd -e os_bsd -e sandbox_none |
  xargs -P "$(nproc 2>/dev/null || echo 2)" -n 4 clang-tidy -p "$build/lint" --quiet --warnings-as-errors='*' $depth >"$build/lint.log" 2>&1
then
  # Print only the findings: clang-tidy also counts suppressed warnings.
  grep -vE '^[0-9]+ warnings? (generated|treated)|^$' "$build/lint.log" || true
  exit 1
fi
echo "lint: clean"
