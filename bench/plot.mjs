// plot.mjs - draw a chart of results.json as SVG: groups of bars, or lines on two logarithmic axes
//
// The picture brings its colours for light and dark pages, so it is the same inside a page and as a file.
const WIDTH = 720, LEFT = 165, RIGHT = 90, BAR = 16, GROUP_GAP = 14, TOP = 34, PLOT_HEIGHT = 300

export const escape = (text) => String(text).replace(/[&<>"]/g, (it) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[it])

// Three digits, without an exponent.
export const number = (value) => {
  if (value >= 1000) return Math.round(value).toLocaleString('en-US')
  return String(Number(value.toPrecision(3)))
}

const STYLE = `<style>
text { font: 13px system-ui, sans-serif; fill: #333 } .axis { stroke: #999 } .grid { stroke: #8884 }
.own { fill: #d9480f; stroke: #d9480f } .peer { fill: #5c7cba; stroke: #5c7cba }
polyline { fill: none !important; stroke-width: 2 } .second { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }
</style>`

export const labelOf = (series) => (series.what ? `${series.name}, ${series.what}` : series.name)
const whats = (chart) => [...new Set(chart.series.map((it) => it.what ?? ''))]
const classOf = (chart, series) => `${series.name === 'Hearth' ? 'own' : 'peer'}${whats(chart).indexOf(series.what ?? '') > 0 ? ' second' : ''}`

const picture = (chart, height, parts) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img"><title>${escape(chart.title)}</title>${STYLE}\n${parts.join('\n')}\n</svg>\n`
const text = (x, y, words, anchor = 'start') => `<text x="${x}" y="${y}" text-anchor="${anchor}">${escape(words)}</text>`

const legend = (chart) =>
  chart.series.flatMap((series, i) => {
    const x = LEFT + (i % 3) * 190, y = 14 + Math.floor(i / 3) * 18
    return [`<line class="${classOf(chart, series)}" stroke-width="6" x1="${x}" y1="${y - 4}" x2="${x + 22}" y2="${y - 4}"/>`, text(x + 28, y, labelOf(series))]
  })

// ---- bars ----

const bars = (chart) => {
  const xs = [...new Set(chart.series.flatMap((it) => it.points.map((point) => point.x)))]
  const most = Math.max(...chart.series.flatMap((it) => it.points.map((point) => point.y)))
  const parts = legend(chart)
  let y = TOP
  for (const x of xs) {
    const shown = chart.series.filter((it) => it.points.some((point) => point.x === x))
    parts.push(text(LEFT - 8, y + (shown.length * BAR) / 2 + 5, x, 'end'))
    for (const series of shown) {
      const { y: value } = series.points.find((point) => point.x === x)
      const width = most > 0 ? Math.max(1, ((WIDTH - LEFT - RIGHT) * value) / most) : 1
      parts.push(`<rect class="${classOf(chart, series)}" x="${LEFT}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 3}"/>`)
      parts.push(text((LEFT + width + 6).toFixed(1), y + BAR - 5, `${number(value)} ${chart.unit}`))
      y += BAR
    }
    y += GROUP_GAP
  }
  return picture(chart, y, parts)
}

// ---- lines ----

// Powers of ten around the values, at least one decade.
const decades = (values) => {
  const from = Math.floor(Math.log10(Math.min(...values))), to = Math.ceil(Math.log10(Math.max(...values)))
  return [from, Math.max(to, from + 1)]
}

const lines = (chart) => {
  const points = chart.series.flatMap((it) => it.points)
  const xs = [...new Set(points.map((it) => it.x))].sort((a, b) => a - b)
  const [from, to] = decades(points.map((it) => it.y))
  const top = 24 + 18 * Math.ceil(chart.series.length / 3), bottom = top + PLOT_HEIGHT, left = 80
  const span = Math.log(xs.at(-1) / xs[0]) || 1
  const placeX = (x) => left + ((WIDTH - left - 40) * Math.log(x / xs[0])) / span
  const placeY = (y) => bottom - (PLOT_HEIGHT * (Math.log10(y) - from)) / (to - from)
  const parts = legend(chart)
  for (let power = from; power <= to; power++) {
    const y = placeY(10 ** power).toFixed(1)
    parts.push(`<line class="grid" x1="${left}" y1="${y}" x2="${WIDTH - 40}" y2="${y}"/>`, text(left - 8, Number(y) + 4, number(10 ** power), 'end'))
  }
  for (const x of xs) parts.push(text(placeX(x).toFixed(1), bottom + 20, number(x), 'middle'))
  parts.push(text(left, bottom + 40, `${chart.xLabel}; ${chart.unit}`))
  for (const series of chart.series) {
    const places = series.points.map((it) => `${placeX(it.x).toFixed(1)},${placeY(it.y).toFixed(1)}`)
    parts.push(`<polyline class="${classOf(chart, series)}" points="${places.join(' ')}"/>`)
    for (const place of places) parts.push(`<circle class="${classOf(chart, series)}" cx="${place.split(',')[0]}" cy="${place.split(',')[1]}" r="3"/>`)
  }
  return picture(chart, bottom + 50, parts)
}

export const plot = (chart) => (chart.kind === 'lines' ? lines(chart) : bars(chart))
