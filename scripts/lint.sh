#!/bin/sh
# lint.sh - formatting and static analysis; both must pass without a finding
set -eu
build=${1:-build}
cd "$(dirname "$0")/.."
for tool in clang clang-format clang-tidy; do
  command -v $tool >/dev/null || scripts/deps.sh --tools
done
echo "clang-format"
git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
echo "clang-tidy"
git ls-files 'src/*.c' 'src/*.cpp' | grep -v -e os_darwin -e os_freebsd -e os_no_ -e sandbox_none |
  xargs scripts/tidy.py "$build"
echo "lint: clean"
