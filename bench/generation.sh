#!/bin/sh
# generation.sh - every speed that the scheduler must reach, measured in one run and printed as a table with the targets
#
# Usage: generation.sh BUILD [--text|--json|--verbose]
#
# Prints Markdown as it stands in docs/performance.md, with machine and date; --text and --json print lines instead, and
# --verbose tells where the time goes, on standard error. What the engine itself reaches is measured with its own
# programs, which peer.sh builds at the first run (ten minutes); node drives its server. About half an hour on two
# cores, which should have nothing else to do; 4 GB of memory. PARTS is a list of what to measure, all by default:
# prefill idle decode deterministic draft adapter sharing pause tick hit embed. `aged` is measured only where PARTS
# names it: MINUTES (60) of mixed load, then cold prompts beside a server that has just started. ROUNDS (5) and REPEATS
# (3) say how often ours and the engine's decoding is measured, LENGTHS which cold prompts (64 512 2000 8000), CONTEXTS
# which contexts are filled (16384 65536 131072).
#
# QUICK=1 takes a tiny model, few rounds and no peers: a test that everything works, with numbers that mean nothing.
# shellcheck disable=SC2086  # lists of words
set -eu
. "$(dirname "$0")/lib.sh"
set_up_programs # the engine's own programs get the same
threads=$(getconf _NPROCESSORS_ONLN)
parts=${PARTS:-prefill idle decode deterministic draft adapter sharing pause tick hit embed}

if [ "${QUICK:-0}" = 1 ]; then
  large=tiny-llama tiny= encoder=tiny-bert small=tiny-llama
  sequences='1 2' contexts='256' predict=24 rounds=1 repeats=0
  shared=256 own=32 n_requests=3 sharing_rounds=1
  pause_tokens=1024 max_ticks='250'
  draft_tokens=48
  adapter_tokens='64 8'
  tick='8 1' hit_tokens=512 hit_rounds=2
  lengths=${LENGTHS:-64 300} idle_contexts=${CONTEXTS:-4096} idle_lengths=64
else
  large=llama-1.1b tiny=$here/../models/hearth-tiny.gguf encoder=bert-33m small=llama-15m
  sequences='1 2 4 8' contexts='256 1024' predict=64 rounds=${ROUNDS:-5} repeats=${REPEATS:-3}
  shared=1024 own=64 n_requests=8 sharing_rounds=1
  pause_tokens=4096 max_ticks='250 500 1000'
  draft_tokens=300
  adapter_tokens='64 16'
  tick='64 10' hit_tokens=2048 hit_rounds=31
  lengths=${LENGTHS:-64 512 2000 8000} idle_contexts=${CONTEXTS:-16384 65536 131072} idle_lengths='64 512 2000'
fi

large=$("$build/bench/make_model" "$large" 2>/dev/null)
encoder=$("$build/bench/make_model" "$encoder" 2>/dev/null)
small=$("$build/bench/make_model" "$small" 2>/dev/null)
peer=
if [ "${QUICK:-0}" != 1 ]; then peer=$("$here/peer.sh"); fi

wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }

# Rates of the engine's own benchmark for one model: lines of mode, context, sequences, tokens a second. The modes take
# turns, so that a bad moment of the machine is not that of one of them. A stream for each of 8 sequences is a multiple
# of 256.
peer_rates() {
  : >"$work/rates"
  i=0
  while [ $i -lt $repeats ]; do
    for mode in separate unified; do
      unified=
      if [ $mode = unified ]; then unified=-kvu; fi
      "$peer/llama-batched-bench" -m "$1" -c $((8 * 1280)) -fa on -ctk f16 -ctv f16 -t "$threads" -tb "$threads" \
        -npp "$(echo $contexts | tr ' ' ,)" -npl "$(echo $sequences | tr ' ' ,)" -ntg $predict $unified \
        --output-format jsonl 2>/dev/null >"$work/peer" || { echo "generation.sh: llama-batched-bench failed" >&2; exit 1; }
      sed -n 's/^{.*"pp": \([0-9]*\),.*"pl": \([0-9]*\),.*"speed_tg": \([0-9.]*\),.*/'$mode' \1 \2 \3/p' "$work/peer" \
        >>"$work/rates"
    done
    i=$((i + 1))
  done
}

# The better of its two modes, each by its median.
peer_rate() {
  for mode in separate unified; do
    awk -v m=$mode -v c="$1" -v n="$2" '$1 == m && $2 == c && $3 == n { print $4 }' "$work/rates" | sort -n |
      awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
  done | sort -n | tail -n 1
}

decode() {
  model=$1
  peer_rates "$model"
  for context in $contexts; do
    for n in $sequences; do
      rate=$(peer_rate "$context" "$n")
      run parallel_bench "$model" "$n" "$context" $predict "$memory" $rounds ${rate:+"$rate"}
    done
  done
}

sharing() {
  files=
  for round in $(seq 0 $((sharing_rounds - 1))); do
    "$build/bench/sharing_bench" prompts $n_requests $shared $own "$round" >"$work/prompts-$round.json"
    files="$files $work/prompts-$round.json"
  done
  result=
  n_ctx=$((n_requests * ((shared + own + 1 + 255) / 256 * 256)))
  if [ -n "$peer" ]; then
    need_node
    result=$(node "$here/sharing_peer.mjs" --peer "$peer" --work "$work" --model "$1" --parallel $n_requests --n-ctx $n_ctx \
      --prompts "$files")
  fi
  run sharing_bench "$1" $n_requests $shared $own "$memory" $sharing_rounds $result
}

prefill() {
  need_node
  ROUNDS=$rounds node "$here/prefill.mjs" ${form:---text} $verbose --build "$build" --peer "$peer" --model "$1" --name "$name" \
    --work "$work" --lengths "$lengths"
}

embed() {
  need_node
  ROUNDS=$rounds node "$here/embed.mjs" ${form:---text} $verbose --build "$build" --peer "$peer" --model "$encoder" \
    --name "$(basename "$encoder" .gguf)" --work "$work"
}

aged() {
  need_node
  ROUNDS=$rounds node "$here/aged.mjs" ${form:---text} $verbose --build "$build" --model "$1" --name "$name" --work "$work" \
    --minutes "${MINUTES:-60}" --lengths "$idle_lengths"
}

# As many conversations as there are blocks for, 64 at most.
idle() {
  for n_ctx in $idle_contexts; do
    n=$((n_ctx * 9 / 10 / 256))
    run idle_bench "$1" "$n_ctx" $((n < 64 ? n : 64)) "$memory" $rounds $idle_lengths
  done
}

machine
{
  for model in "$large" $tiny; do
    name=$(basename "$model" .gguf)
    if wants prefill; then prefill "$model"; fi
    if wants idle; then
      head_of "$name: a context full of finished sequences"
      idle "$model"
    fi
    if wants aged && { [ "$model" != "$large" ] || [ -z "$tiny" ]; }; then aged "$model"; fi
    if wants decode; then
      head_of "$name: several replies at once"
      decode "$model"
    fi
    if wants deterministic; then
      head_of "$name: a deterministic model"
      for context in $contexts; do
        for n in $sequences; do
          run parallel_bench "$model" "$n" "$context" $predict "$memory" $rounds deterministic
        done
      done
    fi
    if wants draft && [ "$model" = "$large" ]; then
      head_of "$name: drafts of the text itself"
      run draft_bench "$model" $draft_tokens $rounds
      run draft_bench "$model" $draft_tokens $rounds "$small"
    fi
    if wants adapter && [ "$model" = "$large" ]; then
      head_of "$name: requests with different adapters"
      for seed in 1 2; do
        "$build/bench/make_adapter" -s $seed "$model" "$work/adapter-$seed.gguf"
      done
      run adapter_bench "$model" "$work/adapter-1.gguf" "$work/adapter-2.gguf" $adapter_tokens $rounds
    fi
    if wants sharing && [ "$model" = "$large" ]; then
      head_of "$name: requests that share a prefix"
      sharing "$model"
    fi
    if wants pause && [ "$model" = "$large" ]; then
      head_of "$name: a reply beside a long prompt"
      run pause_bench "$model" $pause_tokens "$memory" $max_ticks
    fi
    if wants hit && [ "$model" = "$large" ]; then
      head_of "$name: an exact hit"
      run hit_bench "$model" $hit_tokens "$memory/disk" "$memory/files" ram $hit_rounds
    fi
  done
  if wants embed; then embed; fi
  if wants tick; then
    head_of "The scheduler on the stub engine"
    run tick_bench "$memory" $tick
  fi
}
