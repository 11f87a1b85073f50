#!/bin/sh
# peer.sh - build the engine's own programs, llama-batched-bench and llama-server, to compare our speeds with
#
# Usage: peer.sh [--print]
#
# Builds them once, from the source that scripts/engine.sh fetched, with its options and compiler, so that only the use
# of the engine differs. The result lies beside the engine in the cache directory, under the engine's key, and appears
# by one rename. The script writes nothing into the checkout and downloads nothing (it leaves out the server's web
# pages, TLS and child processes). It takes about ten minutes on 2 cores. The only line on standard output is the
# directory with the two programs; --print prints it without building them.
#
# Environment: as scripts/engine.sh.
# shellcheck disable=SC2086  # lists of words
set -eu
cd "$(dirname "$0")/.."

say() { printf 'peer: %s\n' "$*" >&2; }
die() { printf 'peer: %s\n' "$*" >&2; exit 1; }

engine=$(scripts/engine.sh --print)
final=$engine.peer
if [ "${1:-}" = --print ] || [ -x "$final/llama-server" ]; then echo "$final"; exit 0; fi
engine=$(scripts/engine.sh)

cache=$(dirname "$engine")
key=$(basename "$engine")
source=${LLAMA_CPP_DIR:-$cache/source-${key%-*}}
[ -f "$source/tools/server/CMakeLists.txt" ] ||
  die "'$source' holds no source of the engine; remove '$engine' and run scripts/engine.sh, which fetches it"

if command -v flock >/dev/null; then
  exec 9>"$cache/peer.lock"
  if ! flock -n 9; then say "another build is running; waiting for it"; flock 9; fi
  if [ -x "$final/llama-server" ]; then echo "$final"; exit 0; fi
fi

on() { [ "${1:-0}" = 1 ] && echo ON || echo OFF; }
portable=$(on "${HEARTH_PORTABLE:-0}")
native=ON; if [ "$portable" = ON ]; then native=OFF; fi
shared=OFF; if grep -q 'HTH_ENGINE_SHARED ON' "$engine/engine.cmake"; then shared=ON; fi
jobs=${HEARTH_JOBS:-$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)}
build=$final.build
log=$final.log
stage=$final.stage

# The first two lines are those of scripts/engine.sh, except for tools and server.
say "building llama-batched-bench and llama-server with $jobs jobs (about 10 minutes on 2 cores); log: $log"
if ! {
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    "-DCMAKE_C_FLAGS=-include '$PWD/scripts/engine_amx.h'" "-DCMAKE_CXX_FLAGS=-include '$PWD/scripts/engine_amx.h'" \
    -DBUILD_SHARED_LIBS=$shared \
    -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF -DGGML_CCACHE=OFF -DGGML_NATIVE=$native \
    -DGGML_CUDA="$(on "${HEARTH_CUDA:-0}")" -DGGML_VULKAN="$(on "${HEARTH_VULKAN:-0}")" \
    -DGGML_METAL="$(on "${HEARTH_METAL:-0}")" -DGGML_BACKEND_DL=$portable -DGGML_CPU_ALL_VARIANTS=$portable &&
    cmake --build "$build" --parallel "$jobs" --target llama-batched-bench &&
    cmake --build "$build" --parallel "$jobs" --target llama-server
} >"$log" 2>&1; then
  grep -n -E 'error|Error' "$log" | head -n 20 >&2
  die "the build failed; the whole log is '$log'"
fi

rm -rf "$stage"
mkdir -p "$stage"
cp -a "$build"/bin/* "$stage/"
rm -rf "$final"
mv "$stage" "$final"
rm -rf "$build"
say "done: $final"
echo "$final"
