#!/bin/sh
# The memory that models are expected to take, by their metadata, against the most that their workers were seen to take.
#
# usage: bench/needs.sh BUILD MODEL... [-- OPTIONS OF hearth serve]
#
# Serves the models, asks each for a reply of 64 tokens to a prompt of about 1,500 (an encoder: for an embedding), waits
# until all were measured, and prints `hearth ps --memory`.
set -eu
[ $# -ge 2 ] || { echo "usage: bench/needs.sh BUILD MODEL... [-- OPTIONS]" >&2; exit 2; }
hearth=$(cd "$1" && pwd)/hearth
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-bench-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

is_model=1
for argument in "$@"; do # each goes behind the others
  shift
  if [ "$argument" = -- ]; then
    is_model=
  elif [ "$is_model" ]; then
    name=$(basename "$argument" .gguf)
    echo "$name" >>"$work/models"
    set -- "$@" --model "$name=$argument"
  else
    set -- "$@" "$argument"
  fi
done

"$hearth" serve "$@" --start on-demand --listen 127.0.0.1:0 --admin 127.0.0.1:0 --port-file "$work/port" \
  --cache "$work/cache" >"$work/log" 2>&1 &
server=$!
until [ -s "$work/port" ]; do kill -0 "$server" || { cat "$work/log" >&2; exit 1; }; sleep 0.1; done
url=http://127.0.0.1:$(sed -n 1p "$work/port") admin=http://127.0.0.1:$(sed -n 2p "$work/port")
prompt=$(seq -s ' ' 400)
while read -r name; do
  curl -sf -o "$work/out" "$url/v1/completions" \
    -d "{\"model\":\"$name\",\"prompt\":\"$prompt\",\"max_tokens\":64,\"ignore_eos\":true}" ||
    curl -sf -o "$work/out" "$url/v1/embeddings" -d "{\"model\":\"$name\",\"input\":\"$(seq -s ' ' 100)\"}" ||
    echo "needs.sh: $name does not answer" >&2
done <"$work/models"
sleep 3 # workers are measured once a second
"$hearth" ps --memory --url "$admin"
