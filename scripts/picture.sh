#!/bin/sh
# picture.sh - draw the README's picture of a cold and a warm prompt from the numbers of docs/performance.md
#
# usage: scripts/picture.sh [DIRECTORY]     (default: docs/pictures)
#
# Writes cold-warm-light.svg and cold-warm-dark.svg. The numbers come from the first column of the table "An exact hit
# in a new process": the cold process and the median of three warm ones. The bars share one linear scale.
set -eu
cd "$(dirname "$0")/.."
directory=${1:-docs/pictures}
page=docs/performance.md

# cell ROW: the first value column of the first row of the page that begins with ROW
cell() { awk -F ' *[|] *' -v row="$1" 'index($2, row) == 1 { print $3; exit }' "$page"; }
# median CELL: of three values "a, b, c ms"
median() { printf '%s\n' "${1% ms}" | tr -d ' ' | tr , '\n' | sort -n | sed -n 2p; }

cold=$(cell 'cold: first token after submit' | tr -d ', ms')
warm=$(median "$(cell 'first token after submit')")
started=$(median "$(cell 'first token after the start of the process')")
for value in "$cold" "$warm" "$started"; do
  case $value in '' | *[!0-9.]*) echo "picture.sh: '$page' has no such numbers: '$cold', '$warm', '$started'" >&2; exit 1 ;; esac
done

# draw FILE TEXT FAINT COLD WARM
draw() {
  awk -v cold="$cold" -v warm="$warm" -v started="$started" -v text="$2" -v faint="$3" -v cold_colour="$4" -v warm_colour="$5" '
    function bar(y, label, ms, colour, value, width) {
      width = 450 * ms / cold
      if (width < 1.5) width = 1.5
      printf "<text x=\"16\" y=\"%d\" fill=\"%s\">%s</text>\n", y + 16, text, label
      printf "<rect x=\"240\" y=\"%d\" width=\"%.1f\" height=\"22\" fill=\"%s\"/>\n", y, width, colour
      printf "<text x=\"%.1f\" y=\"%d\" fill=\"%s\" font-weight=\"bold\">%s</text>\n", 248 + width, y + 16, text, value
    }
    BEGIN {
      print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 186\" width=\"800\" height=\"186\" role=\"img\""
      print "     font-family=\"system-ui, sans-serif\" font-size=\"15\">"
      printf "<title>Time to the first token: cold %.1f s, warm %.1f ms</title>\n", cold / 1000, warm
      printf "<text x=\"16\" y=\"24\" fill=\"%s\" font-weight=\"bold\">Time to the first token, prompt of 2,048 tokens</text>\n", text
      bar(42, "cold: computes the prompt", cold, cold_colour, sprintf("%.1f s", cold / 1000))
      bar(76, "warm: restores the prompt", warm, warm_colour, sprintf("%.1f ms", warm))
      bar(110, "warm, model load included", started, warm_colour, sprintf("%.2f s", started / 1000))
      printf "<text x=\"16\" y=\"166\" fill=\"%s\" font-size=\"13\">", faint
      print "Model: 1.1 billion parameters, Q4_K_M. Machine: 2 CPU cores. Numbers: docs/performance.md</text>"
      print "</svg>"
    }' >"$1"
}

mkdir -p "$directory"
draw "$directory/cold-warm-light.svg" '#1f2328' '#59636e' '#4a7fb5' '#d9480f'
draw "$directory/cold-warm-dark.svg" '#f0f6fc' '#9198a1' '#6ca0d6' '#ff8c42'
