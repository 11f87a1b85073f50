// draw.mjs - write the report of results.json: index.html, README.md, and a picture of each section
//
//   node draw.mjs BUILD DIRECTORY
//
// results.json has the form of `hearth bench --json` (src/bench/bench_report.h), so `hearth bench --compare` reads it.
// report_page, a program of BUILD, makes the page of it, with the plots. Beyond that form it has `missing`, the parts
// that are missing with the reason, and in a column the server and the "what" that it is for. Columns of two servers
// with the same "what" are compared. reasons.mjs says why Hearth is behind somewhere; each run writes the report anew,
// the reasons stay.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { reasons as known } from './reasons.mjs'

// Three digits, without an exponent.
export const number = (value) => {
  if (value >= 1000) return Math.round(value).toLocaleString('en-US')
  return String(Number(value.toPrecision(3)))
}

// ---- sections ----

// Where a chart has numbers of both servers: for each of its "what", the columns of Hearth and of the peer.
const pairsOf = (columns) =>
  columns.flatMap((it, own) => {
    const peer = columns.findIndex((at) => at.server && at.server !== 'Hearth' && at.what === it.what)
    return it.server === 'Hearth' && peer >= 0 ? [{ what: it.what, own, peer }] : []
  })

const ratioOf = (row, { own, peer }) => (row[own] !== null && row[peer] !== null ? row[own] / row[peer] : null)

// The section of a chart { id, title, about, unit, better, kind, xLabel, series: [{ name, what, points: [{ x, y }] }] }:
// better is "less" or "more", kind "bars" or "lines", and only lines have an xLabel.
export const sectionOf = (chart) => {
  const columns = [{ name: 'at', title: chart.xLabel ?? '', unit: '' }, ...chart.series.map(({ name, what = '' }) => {
    const title = what ? `${name}, ${what}` : name
    return { name: title, title, unit: chart.unit, better: chart.better, plotted: true, server: name, what }
  })]
  const pairs = pairsOf(columns)
  const xs = [...new Set(chart.series.flatMap((it) => it.points.map((point) => point.x)))]
  const rows = xs.map((x) => {
    const row = [x, ...chart.series.map((it) => it.points.find((at) => at.x === x)?.y ?? null)]
    return [...row, ...pairs.map((pair) => ratioOf(row, pair))]
  })
  const ratios = pairs.map(({ what }) => {
    const title = what ? `ratio, ${what}` : 'ratio'
    return { name: title, title, unit: '', better: chart.better }
  })
  const [amount, side] = chart.better === 'less' ? ['Less', 'below'] : ['More', 'above']
  const note = `${chart.about} ${amount} is better${pairs.length ? `: where a ratio is ${side} 1, Hearth leads` : ''}.`
  return { name: chart.id, title: chart.title, note, plot: chart.kind, log: chart.kind === 'lines', columns: [...columns, ...ratios], rows }
}

// ---- where Hearth is behind ----

// Hearth's number against the peer's, for each row that has both.
export const comparisons = (section) =>
  pairsOf(section.columns).flatMap((pair) =>
    section.rows.filter((row) => ratioOf(row, pair) !== null).map((row) => {
      const ratio = ratioOf(row, pair), { unit, better, what } = section.columns[pair.own]
      const isBehind = better === 'less' ? ratio > 1.02 : ratio < 0.98
      return { section, what, unit, x: row[0], own: row[pair.own], peer: row[pair.peer], ratio, isBehind }
    }))
const comparisonsOf = (report) => report.sections.flatMap(comparisons)
export const isBehind = (report) => comparisonsOf(report).filter((it) => it.isBehind)
const notBehind = (report) => (comparisonsOf(report).length ? 'In no comparison of this run.' : 'Nothing was compared in this run.')

const placeOf = ({ what, x, section: { columns: [{ title }] } }) => [what, title ? `${title} ${number(x)}` : x].filter(Boolean).join(', ')
const behindText = (it) => `${placeOf(it)}: ${number(it.own)} ${it.unit} against ${number(it.peer)} ${it.unit}, ratio ${number(it.ratio)}`
const reasonOf = (it, reasons) => `Why: ${reasons[`${it.section.name}: ${placeOf(it)}`] ?? reasons[it.section.name] ?? 'no reason is known yet.'}`

// For each section with places where Hearth is behind: its title, and the places, with the reason behind them.
const behindOf = (report, reasons) =>
  report.sections.flatMap((section) => {
    const places = comparisons(section).filter((it) => it.isBehind)
    const whys = [...new Set(places.map((it) => reasonOf(it, reasons)))]
    const lines = whys.flatMap((why) => [...places.filter((it) => reasonOf(it, reasons) === why).map(behindText), why])
    return places.length ? [{ title: section.title, lines }] : []
  })

// ---- the report ----

const INTRODUCTION = 'Hearth and llama-server are built from the same source of the engine. They run the same model, of random weights, with ' +
  'the same slots, threads, context and KV types. Clients, servers and models are on one machine. All else of a server is its default, but for the ' +
  'flags below. A ratio is Hearth\'s number divided by the number of llama-server; a difference of up to 2% counts as none.'
const TRIAL = ' QUICK=1 was a trial with a tiny model and few rounds: its numbers mean nothing.'
const introductionOf = (report) => INTRODUCTION + (report.isTrial ? TRIAL : '')
const fileOf = (section) => `${section.name}.svg`

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
const cellOf = (value) => (value === null ? '' : typeof value === 'number' ? number(value) : value)

export const markdown = (report, reasons = known) => {
  const behind = behindOf(report, reasons).map(({ title, lines }) => [wrap(title, '- '), ...lines.map((it) => wrap(it, '  - '))].join('\n'))
  const facts = Object.entries(report.facts).map(([name, value]) => row([name[0].toUpperCase() + name.slice(1), value]))
  const parts = ['# Benchmarks', wrap(introductionOf(report)), [row(['', '']), '| --- | --- |', ...facts].join('\n')]
  parts.push('## Where Hearth is behind', behind.length ? behind.join('\n') : notBehind(report))
  if (report.missing.length) parts.push('## Not measured', report.missing.map((it) => wrap(`${it.part}: ${it.why}`, '- ')).join('\n'))
  for (const section of report.sections) {
    const head = section.columns.map(({ title, unit }) => (unit ? `${title}, ${unit}` : title))
    const table = [row(head), row(head.map(() => '---')), ...section.rows.map((cells) => row(cells.map(cellOf)))]
    parts.push(`## ${section.title}`, wrap(section.note), `![${section.title}](${fileOf(section)})`, table.join('\n'))
  }
  return `${parts.join('\n\n')}\n`
}

// The page has as facts what it has no other place for.
export const html = (build, report, reasons = known) => {
  const sentence = (line) => (line.endsWith('.') ? line : `${line}.`)
  const behind = behindOf(report, reasons).map(({ title, lines }) => `${title}: ${lines.map(sentence).join(' ')}`)
  const facts = { about: introductionOf(report), ...report.facts, behind: behind.join(' ') || notBehind(report) }
  if (report.missing.length) facts['not measured'] = report.missing.map((it) => `${it.part}: ${it.why}`).join('; ')
  const headline = `Hearth is behind in ${isBehind(report).length} of ${comparisonsOf(report).length} comparisons.`
  const work = mkdtempSync(join(tmpdir(), 'hearth-report-')), file = join(work, 'report.json')
  try {
    writeFileSync(file, JSON.stringify({ ...report, headline, facts }))
    return execFileSync(join(build, 'bench', 'report_page'), [file], { encoding: 'utf8' })
  } finally {
    rmSync(work, { recursive: true })
  }
}

// The plots of a page as files of their own, with its colours for light and dark pages; null for a section without.
export const pictures = (page) => {
  const [style] = /<style>.*?<\/style>/s.exec(page)
  return [...page.matchAll(/<section>.*?<\/section>/gs)].map(([section]) => {
    const found = /<svg(.*?>)(.*?<\/svg>)/s.exec(section)
    return found && `<svg xmlns="http://www.w3.org/2000/svg"${found[1]}${style}${found[2]}\n`
  })
}

export const draw = (build, directory) => {
  const report = JSON.parse(readFileSync(join(directory, 'results.json'), 'utf8'))
  const page = html(build, report)
  writeFileSync(join(directory, 'index.html'), page)
  writeFileSync(join(directory, 'README.md'), markdown(report))
  for (const [i, picture] of pictures(page).entries()) if (picture) writeFileSync(join(directory, fileOf(report.sections[i])), picture)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) draw(process.argv[2], process.argv[3])
