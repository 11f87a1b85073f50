#!/bin/sh
# symbols.sh - libhearth exports hearth_* and nothing else, each engine module its one entry (llama.cpp's: two)
set -eu
library=$1
shift
defined() { nm -D --defined-only "$1" | awk '$2 ~ /^[A-Z]$/ && $2 != "A" {print $3}' | sed 's/@.*//' | grep -v -E '^(__(asan|ubsan|tsan|sanitizer|lsan|odr_asan)|_init$|_fini$|__bss_start$|_edata$|_end$)' || true; }
others=$(defined "$library" | grep -v '^hearth_' || true)
[ -z "$others" ] || { echo "$library exports more than hearth_*:"; echo "$others" | head; exit 1; }
defined "$library" | grep -q '^hearth_runtime_open$' || { echo "$library does not export hearth_runtime_open"; exit 1; }
for module; do
  exports=$(defined "$module")
  others=$(echo "$exports" | grep -v -E '^hearth_(backend|model_writer)$' || true)
  [ -z "$others" ] || { echo "$module exports more than its entries:"; echo "$others" | head; exit 1; }
  echo "$exports" | grep -q '^hearth_backend$' || { echo "$module does not export hearth_backend"; exit 1; }
done
