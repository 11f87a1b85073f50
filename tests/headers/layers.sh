#!/bin/sh
# layers.sh - a folder of src/ includes only from itself and from those to its left, no two files include each other,
# and each outside library has one home
set -eu
cd "$1/src"
failed=0
fail() { echo "$*"; failed=1; }

left=
for layer in base cache engine sched models convert api server hub cli; do
  left="$left $layer"
  [ -d $layer ] || continue
  for file in "$layer"/*.c "$layer"/*.cpp "$layer"/*.h; do
    [ -f "$file" ] || continue
    for used in $(sed -n 's|^# *include *"\([a-z]*\)/.*|\1|p' "$file" | sort -u); do
      case " $left " in *" $used "*) ;; *) fail "src/$file includes from $used/, which is not to the left of $layer/" ;; esac
    done
  done
done

# Two files NAME.c and NAME.h, with NAME_inside.h, count as one here. These pairs still include each other; add none.
known='
cache/arena cache/segment
api/request api/responses
engine/llama_chat engine/llama_conversation
'
pairs=$(grep -E '^# *include *"[a-z_]+/[a-z_0-9]+[.]h"' -- */*.c */*.cpp */*.h |
  sed -E 's/^([^:]*)[.](c|cpp|h):# *include *"([^"]*)[.]h".*/\1 \3/; s/_inside( |$)/\1/g' | sort -u |
  awk '$1 != $2 { uses[$0] = 1 }
    END { for (p in uses) { split(p, f); if (f[1] < f[2] && (f[2] " " f[1]) in uses) print p } }')
for found in $(echo "$pairs" | grep -vxF "$known" | tr ' ' '+'); do
  fail "src/${found%+*} and src/${found#*+} include each other; make it one way"
done
for gone in $(echo "$known" | grep -vxF "$pairs" | tr ' ' '+'); do
  fail "src/${gone%+*} and src/${gone#*+} do not include each other any more; take them off the list in $0"
done

# header:folder
for pair in lmdb.h:cache llama.h:engine ggml.h:engine gguf.h:engine isa-l.h:base openssl/evp.h:base liburing.h:base event2/[a-z_]*.h:server \
  curl/curl.h:server seccomp.h:server histedit.h:cli; do
  header=${pair%%:*}; home=${pair##*:}
  for file in $(grep -rlE "^# *include *<$header>" . || true); do
    case $file in ./$home/*) ;; *) fail "src/${file#./} includes <$header>, whose home is src/$home" ;; esac
  done
done
# Formats are bytes in and bytes out: no threads, no sockets, no HTTP.
for header in pthread.h threads.h sys/socket.h netinet/ event2/ curl/; do
  for file in $(grep -rlE "^# *include *<$header" api || true); do fail "src/$file includes <$header>"; done
done
exit $failed
