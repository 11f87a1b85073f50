#!/bin/sh
# symbols.sh - libhearth exports hearth_* and nothing else, each engine module its one entry
set -eu
library=$1
shift
defined() { nm -D --defined-only "$1" | awk '$2 ~ /^[A-Z]$/ && $2 != "A" {print $3}' | sed 's/@.*//' | grep -v -E '^(__(asan|ubsan|tsan|sanitizer|lsan|odr_asan)|_init$|_fini$|__bss_start$|_edata$|_end$)' || true; }
others=$(defined "$library" | grep -v '^hearth_' || true)
[ -z "$others" ] || { echo "$library exports more than hearth_*:"; echo "$others" | head; exit 1; }
defined "$library" | grep -q '^hearth_runtime_open$' || { echo "$library does not export hearth_runtime_open"; exit 1; }
for module; do
  exports=$(defined "$module")
  [ "$exports" = hearth_backend ] || { echo "$module exports, besides hearth_backend:"; echo "$exports" | grep -v '^hearth_backend$' | head; exit 1; }
done
