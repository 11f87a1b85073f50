#!/bin/sh
# A context is chosen so that the model fits into memory, and everybody is told.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve.sh"

choice="--fit --fit-ctx 1024 --ctx 65536 --gpu-layers 0"
memory=$("$hearth" worker --measure --model "$tiny" --ctx 32768 --gpu-layers 0 |
  awk '$2 == "host" { printf "%dM", ($3 + $4 + $5 + $6 + $7) / 1048576 + 20 }')
is_chosen() { # N_CTX: less than the most, and more than the least
  [ "$1" -ge 4096 ] && [ "$1" -lt 65536 ] && [ $(($1 % 256)) = 0 ] || fail "a context of $1 is chosen for $memory"
}

# shellcheck disable=SC2086 # several options
"$hearth" run "$tiny" $choice --fit-memory "$memory" --cache "$work/cache" -p x -n 1 --verbose >/dev/null 2>"$work/err" ||
  fail "$(cat "$work/err")"
said "context [0-9]* of 65536, so that the model takes [0-9]* of ${memory%M} MiB"
is_chosen "$(sed -n 's/.*context \([0-9]*\) of 65536.*/\1/p' "$work/err")"
# shellcheck disable=SC2086 # several options
refuse 1 "does not fit: with a context of 1024 tokens it takes .*; use a file of a smaller quant" \
  run "$tiny" $choice --fit-memory 4M --cache "$work/cache" -p x

# The memory of a server's models is the limit of each.
# shellcheck disable=SC2086 # several options
serve -m "one=$tiny" -m "two=$tiny" $choice --memory "$memory" --start on-demand --admin 127.0.0.1:0 --cache "$work/cache"
admin_url=http://127.0.0.1:$(sed -n 2p "$work/port")
ask 200 "$url/v1/completions" -d '{"model":"one","prompt":"x","max_tokens":2}'
is_expected() { curl -s "$admin_url/admin/models" >"$work/out" && value 'r.models[0].expected !== undefined'; }
await "a measurement, which may end behind the reply" gives true is_expected
expect "most context" "$(value r.models[0].expected.fit.n_ctx_max)" 65536
expect "layers on GPUs" "$(value r.models[0].expected.fit.n_layers_max)" 0
is_chosen "$(value r.models[0].expected.n_ctx)"
is_chosen "$(value r.models[0].model.n_ctx)"
"$hearth" ps --url "$admin_url" --memory >"$work/ps" || fail "ps does not answer"
grep -q '^  context [0-9]* of 65536$' "$work/ps" || fail "ps does not tell the choice: $(cat "$work/ps")"
serve_stop
