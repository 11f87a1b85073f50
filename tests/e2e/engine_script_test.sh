#!/bin/sh
# scripts/engine.sh names missing, old or wrong requirements before it fetches or builds anything.
. "$(dirname "$0")/lib.sh"
script=$source/scripts/engine.sh
unset LLAMA_CPP_DIR VULKAN_SDK CUDACXX CUDAARCHS HEARTH_CUDA HEARTH_VULKAN HEARTH_METAL HEARTH_RPC HEARTH_PORTABLE CXX
export HEARTH_ENGINE_CACHE="$work/engines"

# A machine without the commands that the switches need, and with a compiler that lacks their headers.
mkdir "$work/bin"
for folder in /usr/local/bin /usr/bin /bin; do
  for command in "$folder"/*; do
    [ -e "$work/bin/${command##*/}" ] || ln -s "$command" "$work/bin/${command##*/}"
  done
done
rm -f "$work/bin/glslc" "$work/bin/nvcc" "$work/bin/xcrun" "$work/bin/nvidia-smi" "$work/bin/c++"
compiler=$(command -v c++)
cat >"$work/bin/c++" <<END
#!/bin/sh
case "\$*" in *--version*) exec '$compiler' "\$@" ;; esac
if [ -e '$work/finds-all' ]; then exit 0; fi
case "\$(cat) \$*" in *vulkan*|*spirv*) exit 1 ;; esac
END
chmod +x "$work/bin/c++"
PATH=$work/bin

# refuses WHAT PATTERN...: in this environment the script fails and prints all patterns.
refuses() {
  what=$1; shift
  if "$script" >"$work/out" 2>"$work/err"; then fail "$what: an engine was made"; fi
  for pattern in "$@"; do
    grep -q -- "$pattern" "$work/err" || fail "$what: it does not say '$pattern' but: $(cat "$work/err")"
  done
  [ ! -s "$work/out" ] || fail "$what: it printed a directory: $(cat "$work/out")"
  if grep -q 'fetching\|building' "$work/err"; then fail "$what: it began to work: $(cat "$work/err")"; fi
}

# family NAME: is this system of that family (debian)? It decides the names of packages.
family() { (. /etc/os-release && case " $ID ${ID_LIKE:-} " in *" $1 "*) exit 0 ;; esac; exit 1) 2>/dev/null; }
packages() { if family debian; then echo "$1"; else echo .; fi; }

# ---- switches ----

export HEARTH_VULKAN=1
refuses "Vulkan" "glslc" "headers of Vulkan" "loader of Vulkan" "headers of SPIR-V" \
  "$(packages 'Packages: glslc libvulkan-dev spirv-headers$')"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/glslc"
chmod +x "$work/bin/glslc"
refuses "Vulkan without headers" "headers of SPIR-V" "$(packages 'Packages: libvulkan-dev spirv-headers$')"
touch "$work/finds-all"
refuses "Vulkan with an old shader compiler" "too old for llama.cpp v" "GL_KHR_cooperative_matrix" "VULKAN_SDK"
rm "$work/finds-all" "$work/bin/glslc"
HEARTH_VULKAN=software refuses "Vulkan for the software device" "glslc"
unset HEARTH_VULKAN

export HEARTH_CUDA=1
CUDACXX=$work/nvcc refuses "CUDA" "CUDA compiler $work/nvcc" "$(packages 'Packages: nvidia-cuda-toolkit$')"
printf '#!/bin/sh\nexit 0\n' >"$work/bin/nvcc"
chmod +x "$work/bin/nvcc"
refuses "CUDA without a GPU" "nvidia-smi finds none" "CUDAARCHS"
unset HEARTH_CUDA

if [ "$(uname -s)" != Darwin ]; then HEARTH_METAL=1 refuses "Metal" "Metal is for macOS"; fi

# ---- another version ----

engine=$(sed -n 's/^HEARTH_ENGINE:[^=]*=//p' "$build/CMakeCache.txt")
version=$(sed -n 's/^set(HTH_ENGINE_VERSION "\(.*\)")/\1/p' "$engine/engine.cmake")
tree=$work/tree
mkdir -p "$tree/include"
touch "$tree/include/llama.h"
write_version() { printf 'project("llama.cpp" C CXX)\n\nset(LLAMA_VERSION_MAJOR %s)\nset(LLAMA_VERSION_MINOR %s)\nset(LLAMA_VERSION_PATCH %s)\n' "$@" >"$tree/CMakeLists.txt"; }
export LLAMA_CPP_DIR="$tree"
for other in '0 8 0' '0 5 1' '0 50 0' '1 5 0'; do
  # shellcheck disable=SC2086
  write_version $other
  refuses "version $other" "is llama.cpp $(echo "$other" | tr ' ' .);" "supports $version only" "docs/engine.md"
done
printf 'project(llama.cpp)\n' >"$tree/CMakeLists.txt"
refuses "a tree without a version" "of an unknown version" "supports $version only"
rm "$tree/CMakeLists.txt"
refuses "a tree without a build" "of an unknown version"
LLAMA_CPP_DIR=$work refuses "a folder that is no tree" "holds no include/llama.h"
# The engine's own tree has its version in the same lines.
if [ -f "$engine/../source-v$version/CMakeLists.txt" ]; then
  head -n 12 "$engine/../source-v$version/CMakeLists.txt" >"$tree/CMakeLists.txt"
  HEARTH_METAL=1 refuses "the supported version, with a switch that fails" "$([ "$(uname -s)" = Darwin ] && echo . || echo macOS)"
fi
unset LLAMA_CPP_DIR

# ---- keys ----

# Different engines have different directories.
{
  "$script" --print
  HEARTH_RPC=0 "$script" --print
  HEARTH_VULKAN=1 "$script" --print
  HEARTH_VULKAN=software "$script" --print
  HEARTH_CUDA=1 "$script" --print
  HEARTH_CUDA=1 CUDAARCHS=90 "$script" --print
  HEARTH_PORTABLE=1 "$script" --print
} >"$work/keys"
expect "number of places" "$(sort -u "$work/keys" | wc -l | tr -d ' ')" 7
expect "place with the default said" "$(HEARTH_RPC=1 "$script" --print)" "$(head -n 1 "$work/keys")"
