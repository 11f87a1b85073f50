// pictures.mjs - what people see besides the page: the page of `hearth bench`, and `hearth chat` in a terminal; started
// by tests/e2e/pictures_test.sh
//
// BENCH is the page, SCREEN what a terminal got. Their pictures are made in the browser, too.
import { readFileSync, writeFileSync } from 'node:fs'
import { assert, check, finish } from '../clients/checks.mjs'
import { browser, closePage, openPage, picture, refuseBarriers } from './browser.mjs'

const FILES = { base: 'file://', hasKey: false }

for (const dark of [false, true]) {
  const scheme = dark ? 'dark' : 'light'
  await check(`the page of a benchmark has its plots and no barrier, ${scheme}`, async () => {
    const page = await openPage(process.env.BENCH, { ...FILES, dark })
    assert.ok((await page.$$eval('svg', (plots) => plots.filter((plot) => plot.getBoundingClientRect().height > 100).length)) >= 4)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is too wide')
    await refuseBarriers(page)
    await page.setViewport({ width: 1000, height: 710 }) // the first plot
    await picture(page, `bench-${scheme}`)
    await closePage(page)
  })
}

// ---- a terminal ----

// The lines that are left on a screen: what comes after a return stands in the place of what was there. Bracketed paste,
// which the terminal is asked for, shows nothing.
const linesOf = (bytes) => bytes.split('\n').map((line) =>
  line.replace(/\r+$/, '').split('\r').at(-1).replace(/\x1b\[(?:K|\?2004[hl])/g, ''))

const escaped = (text) => text.replace(/[&<>]/g, (one) => `&#${one.charCodeAt(0)};`)
const CLASSES = { 1: 'bold', 2: 'dim' }

// Sequences of colour become elements; others are an error, because they would be missing in the picture.
function markup(line) {
  const html = escaped(line).replace(/\x1b\[([0-9;]*)m/g, (_, code) =>
    !code || code === '0' ? '</span>' : `<span class="${CLASSES[code] ?? `c${code}`}">`)
  assert.ok(!html.includes('\x1b'), `the line has another sequence: ${JSON.stringify(line)}`)
  return html
}

const style = `body { margin: 0; background: light-dark(#f2efea, #151412); color-scheme: light dark }
  pre { margin: 0; padding: 18px 22px; font: 15px/1.5 "DejaVu Sans Mono", monospace; white-space: pre; width: 100ch;
    color: light-dark(#1d1b18, #ece7df) }
  .dim { color: light-dark(#6b655c, #9c958a) } .bold { font-weight: 700 }`

await check('a conversation in a terminal', async () => {
  const lines = linesOf(readFileSync(process.env.SCREEN, 'utf8')).map((line) => line.replace('^D', ''))
  const text = lines.join('\n').trimEnd().replace(/\n>>> *$/, '')
  assert.match(text, />>> Tell me a story about a fox\.\n\S.*\n.*known.*\n>>> Why was it lazy\?\n\S/s)
  const shown = `$ hearth chat models/hearth-tiny.gguf\n${text}`
  const file = `${process.env.WORK}/terminal.html`
  writeFileSync(file, `<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Terminal</title><style>${style}</style><body><main><pre>${
    shown.split('\n').map(markup).join('\n')}</pre></main>`)
  for (const dark of [false, true]) {
    const page = await openPage(file, { ...FILES, dark })
    await refuseBarriers(page)
    await picture(page, `chat-${dark ? 'dark' : 'light'}`, { of: 'pre' })
    await closePage(page)
  }
})

await browser.close()
finish()
