// draw_test.mjs - the report says what results.json says, and nothing in it is markup by accident
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { comparisons, html, isBehind, markdown, number, pictures, sectionOf } from './draw.mjs'
import { reasons as known } from './reasons.mjs'

const chart = {
  id: 'chat', title: 'A chat of <20> turns', about: 'Times to the first token.', unit: 'ms', better: 'less', kind: 'bars',
  series: [
    { name: 'Hearth', points: [{ x: 'cold', y: 200 }, { x: 'again', y: 2 }] },
    { name: 'llama-server', points: [{ x: 'cold', y: 100 }, { x: 'again', y: 4 }] },
  ],
}
const growth = {
  id: 'growth', title: 'Growth', about: 'By length.', unit: 'tokens/s', better: 'more', kind: 'lines', xLabel: 'tokens',
  series: [
    { name: 'Hearth', what: 'cold', points: [{ x: 512, y: 1000 }, { x: 1024, y: 500 }] },
    { name: 'Hearth', what: 'again', points: [{ x: 512, y: 9000 }] },
    { name: 'llama-server', what: 'cold', points: [{ x: 512, y: 400 }, { x: 1024, y: 2000 }] },
  ],
}
const reportOf = (...charts) => ({
  format: 'hearth-bench', version: 1, kind: 'suite', isTrial: false, sections: charts.map(sectionOf),
  facts: { command: 'make bench', commit: '0123', date: '2026-01-01', machine: '2 cores', models: 'one | two', 'flags of Hearth': '--ram 512M' },
  missing: [{ part: 'rows', why: 'no room for <a> file' }],
})
const report = reportOf(chart, growth)
const pageOf = (report, reasons) => html(process.env.HTH_BUILD, report, reasons)

test('numbers have three digits', () => assert.deepEqual([0.01234, 1.5, 99.96, 12345.6].map(number), ['0.0123', '1.5', '100', '12,346']))

test('servers are compared where both have a number of the same kind', () => {
  assert.deepEqual(comparisons(sectionOf(chart)).map((it) => [it.x, it.ratio, it.isBehind]), [['cold', 2, true], ['again', 0.5, false]])
  assert.deepEqual(comparisons(sectionOf(growth)).map((it) => [it.what, it.x, it.isBehind]), [['cold', 512, false], ['cold', 1024, true]])
})

test('the report names every place where Hearth is behind', () => {
  assert.equal(isBehind(report).length, 2)
  assert.match(markdown(report), /- A chat of <20> turns\n  - cold: 200 ms against 100 ms, ratio 2\n/)
  assert.match(markdown(report), /- Growth\n  - cold, tokens 1,024: /)
  assert.match(markdown(reportOf({ ...chart, series: [chart.series[0], { ...chart.series[0], name: 'llama-server' }] })), /In no comparison of this run/)
  assert.match(markdown(reportOf({ ...chart, series: [chart.series[0]] })), /Nothing was compared in this run/)
})

test('a reason stands behind the places that it is for', () => {
  const places = { ...growth, series: [...growth.series, { name: 'llama-server', what: 'again', points: [{ x: 512, y: 90000 }] }] }
  const reasons = { chat: 'It <waits>.', growth: 'It reads more.', 'growth: again, tokens 512': 'It writes more.' }
  const one = reportOf(chart, places)
  const text = markdown(one, reasons)
  assert.match(text, /ratio 2\n  - Why: It <waits>\.\n- Growth\n  - cold, tokens 1,024: .*\n  - Why: It reads more\.\n  - again, tokens 512: .*\n  - Why: It writes more\.\n/)
  assert.match(pageOf(one, reasons), /ratio 2\. Why: It &lt;waits&gt;\./)
  for (const draw of [markdown, pageOf]) assert.equal(draw(one, {}).match(/Why: no reason is known yet\./g).length, 2)
  assert.ok(!markdown(reportOf(), reasons).includes('Why:'))
})

test('each reason is for a chart of the scenarios', () => {
  const scenarios = readFileSync(new URL('scenarios.mjs', import.meta.url), 'utf8')
  for (const key of Object.keys(known)) assert.ok(scenarios.includes(`'${key.split(':')[0]}'`), key)
})

test('the Markdown has facts, missing parts, pictures and tables', () => {
  const text = markdown(report)
  for (const it of ['| Commit | 0123 |', '| Models | one \\| two |', 'rows: no room', '![Growth](growth.svg)', '| again | 2 | 4 | 0.5 |', '| 512 | 1,000 | 9,000 | 400 | 2.5 |', 'Flags of Hearth | --ram 512M', 'By length. More is better: where a ratio is above 1, Hearth leads.'])
    assert.ok(text.includes(it), it)
  assert.ok(!text.includes('QUICK') && markdown({ ...report, isTrial: true }).includes('QUICK=1'))
  for (const line of text.split('\n')) assert.ok(line.length <= 120 || line.startsWith('|'), line)
})

test('the page is one file whose texts are escaped', () => {
  const page = pageOf(report)
  assert.ok(page.includes('A chat of &lt;20&gt; turns') && page.includes('no room for &lt;a&gt; file'))
  assert.ok(!/<20>|<a>|src=|href=|url\(/.test(page))
})

test('bars are as long as their values, and lines go through their points', () => {
  const [bars, lines, ...more] = pictures(pageOf(report))
  const heights = [...bars.matchAll(/<rect class="s0" x="[\d.]+" y="[\d.]+" .*?height="([\d.]+)">/g)].map((it) => Number(it[1]))
  assert.equal(heights.length, 2)
  assert.ok(Math.abs(heights[0] / heights[1] - 100) < 3)
  assert.equal([...lines.matchAll(/<circle/g)].length, 5)
  assert.ok(!/nan/i.test(lines) && lines.includes('class="line s1"'))
  assert.ok(more.length === 0 && bars.startsWith('<svg xmlns="http://www.w3.org/2000/svg" viewBox=') && bars.includes('<style>'))
})
