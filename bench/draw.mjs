// draw.mjs - write the report of results.json: index.html, README.md, and a picture of each chart
//
//   node draw.mjs DIRECTORY
//
// results.json has the facts of the run (command, commit, date, machine), charts, and the parts that are missing with
// the reason. A chart has title, about, unit, better ("less" or "more"), kind ("bars" or "lines", with xLabel) and
// series: { name, what, points: [{ x, y }] }. Series of two servers with the same "what" are compared. reasons.mjs says
// why Hearth is behind somewhere; each run writes the report anew, the reasons stay.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { escape, labelOf, number, plot } from './plot.mjs'
import { reasons as known } from './reasons.mjs'

// Hearth's number against the peer's, for each point that both have.
export const comparisons = (chart) =>
  chart.series.filter((it) => it.name === 'Hearth').flatMap((own) => {
    const peer = chart.series.find((it) => it.name !== 'Hearth' && it.what === own.what)
    return own.points.flatMap(({ x, y }) => {
      const other = peer?.points.find((it) => it.x === x)
      if (!other) return []
      const ratio = y / other.y
      return [{ chart, what: own.what, x, own: y, peer: other.y, peerName: peer.name, ratio, isBehind: chart.better === 'less' ? ratio > 1.02 : ratio < 0.98 }]
    })
  })

const placeOf = (it) => [it.what, it.chart.xLabel ? `${it.chart.xLabel} ${number(it.x)}` : it.x].filter(Boolean).join(', ')
const behindText = (it) =>
  `${placeOf(it)}: ${number(it.own)} ${it.chart.unit} against ${number(it.peer)} ${it.chart.unit}, ratio ${number(it.ratio)}`
const reasonOf = (it, reasons) => `Why: ${reasons[`${it.chart.id}: ${placeOf(it)}`] ?? reasons[it.chart.id] ?? 'no reason is known yet.'}`

// For each chart with places where Hearth is behind: its title, and the places, with the reason behind them.
const behindOf = (results, reasons) =>
  results.charts.flatMap((chart) => {
    const places = comparisons(chart).filter((it) => it.isBehind)
    const whys = [...new Set(places.map((it) => reasonOf(it, reasons)))]
    const lines = whys.flatMap((why) => [...places.filter((it) => reasonOf(it, reasons) === why).map(behindText), why])
    return places.length ? [{ title: chart.title, lines }] : []
  })

// The rows of a chart's table: a head, then one row for each x.
const tableOf = (chart) => {
  const xs = [...new Set(chart.series.flatMap((it) => it.points.map((point) => point.x)))]
  const compared = comparisons(chart)
  const kinds = [...new Set(compared.map((it) => it.what))]
  const head = [chart.xLabel ?? '', ...chart.series.map((it) => `${labelOf(it)}, ${chart.unit}`), ...kinds.map((what) => (what ? `ratio, ${what}` : 'ratio'))]
  return [head, ...xs.map((x) => [
    typeof x === 'number' ? number(x) : x,
    ...chart.series.map((it) => { const point = it.points.find((at) => at.x === x); return point ? number(point.y) : '' }),
    ...kinds.map((what) => { const it = compared.find((at) => at.x === x && at.what === what); return it ? number(it.ratio) : '' }),
  ])]
}

const facts = (results) => [
  ['Command', results.command], ['Commit', results.commit], ['Date', results.date], ['Machine', results.machine], ['Models', results.models],
  ...Object.entries(results.flags ?? {}).map(([name, flags]) => [`Flags of ${name}`, flags]),
]
const INTRODUCTION = 'Hearth and llama-server are built from the same source of the engine. They run the same model, of random weights, with ' +
  'the same slots, threads, context and KV types. Clients, servers and models are on one machine. All else of a server is its default, but for the ' +
  'flags below. A ratio is Hearth\'s number divided by the number of llama-server; a difference of up to 2% counts as none.'
const TRIAL = ' QUICK=1 was a trial with a tiny model and few rounds: its numbers mean nothing.'
const introductionOf = (results) => INTRODUCTION + (results.isTrial ? TRIAL : '')
const aboutOf = (chart) => {
  const [amount, side] = chart.better === 'less' ? ['Less', 'below'] : ['More', 'above']
  return `${chart.about} ${amount} is better${comparisons(chart).length ? `: where a ratio is ${side} 1, Hearth leads` : ''}.`
}

export const isBehind = (results) => results.charts.flatMap(comparisons).filter((it) => it.isBehind)
const notBehind = (results) => (results.charts.flatMap(comparisons).length ? 'In no comparison of this run.' : 'Nothing was compared in this run.')
const fileOf = (chart) => `${chart.id}.svg`

// Paragraphs end their lines at 120 columns, as all documents do.
const wrap = (words, begin = '') => {
  const lines = [begin]
  for (const word of words.split(' ')) {
    if (lines.at(-1).length + word.length + 1 > 120 && lines.at(-1).trim()) lines.push(' '.repeat(begin.length))
    lines[lines.length - 1] += (lines.at(-1).length > begin.length ? ' ' : '') + word
  }
  return lines.join('\n')
}
const row = (cells) => `| ${cells.map((it) => String(it).replaceAll('|', '\\|')).join(' | ')} |`

export const markdown = (results, reasons = known) => {
  const behind = behindOf(results, reasons).map(({ title, lines }) => [wrap(title, '- '), ...lines.map((it) => wrap(it, '  - '))].join('\n'))
  const parts = ['# Benchmarks', wrap(introductionOf(results)), [row(['', '']), '| --- | --- |', ...facts(results).map(row)].join('\n')]
  parts.push('## Where Hearth is behind', behind.length ? behind.join('\n') : notBehind(results))
  if (results.missing.length) parts.push('## Not measured', results.missing.map((it) => wrap(`${it.part}: ${it.why}`, '- ')).join('\n'))
  for (const chart of results.charts) {
    const [head, ...rows] = tableOf(chart)
    parts.push(`## ${chart.title}`, wrap(aboutOf(chart)), `![${chart.title}](${fileOf(chart)})`, [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n'))
  }
  return `${parts.join('\n\n')}\n`
}

const element = (name, content) => `<${name}>${content}</${name}>`
const items = (contents) => element('ul', contents.map((it) => element('li', it)).join(''))
const list = (texts) => items(texts.map(escape))
const table = ([head, ...rows]) =>
  element('table', element('tr', head.map((it) => element('th', escape(it))).join('')) + rows.map((cells) => element('tr', cells.map((it) => element('td', escape(it))).join(''))).join(''))

const STYLE = `:root { color-scheme: light dark } body { max-width: 760px; margin: 2em auto; padding: 0 1em; font: 16px/1.5 system-ui, sans-serif }
table { border-collapse: collapse; font-size: 14px } td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #8884 }
td:first-child, th:first-child { text-align: left } svg { width: 100% }`

export const html = (results, reasons = known) => {
  const behind = behindOf(results, reasons).map(({ title, lines }) => escape(title) + list(lines))
  const rows = facts(results).map(([name, value]) => element('tr', element('th', name) + `<td style="text-align:left">${escape(value)}</td>`))
  const parts = [element('h1', 'Benchmarks'), element('p', escape(introductionOf(results))), element('table', rows.join(''))]
  parts.push(element('h2', 'Where Hearth is behind'), behind.length ? items(behind) : element('p', notBehind(results)))
  if (results.missing.length) parts.push(element('h2', 'Not measured'), list(results.missing.map((it) => `${it.part}: ${it.why}`)))
  for (const chart of results.charts)
    parts.push(`<section id="${escape(chart.id)}">${element('h2', escape(chart.title))}${element('p', escape(aboutOf(chart)))}${plot(chart)}${table(tableOf(chart))}</section>`)
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Hearth: benchmarks</title>
<style>${STYLE}</style></head><body>\n${parts.join('\n')}\n</body></html>\n`
}

export const draw = (directory) => {
  const results = JSON.parse(readFileSync(join(directory, 'results.json'), 'utf8'))
  writeFileSync(join(directory, 'index.html'), html(results))
  writeFileSync(join(directory, 'README.md'), markdown(results))
  for (const chart of results.charts) writeFileSync(join(directory, fileOf(chart)), plot(chart))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) draw(process.argv[2])
