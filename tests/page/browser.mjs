// browser.mjs - for the tests of the page: a browser, and pages that note what must not happen
//
// CHROMIUM is the browser, WORK a folder for its profile. A page fails its check by an error in its console, by a
// refusal of its policy, and by a request to anywhere but its server.
import { readFileSync } from 'node:fs'
import { assert, client, key, server } from '../clients/checks.mjs'

const puppeteer = client('puppeteer-core')
const axeSource = readFileSync(client.resolve('axe-core/axe.min.js'), 'utf8')

// A busy machine may take long for anything; a check that waits for ever is ended by it.
const PATIENCE_MS = 180_000

export const browser = await (puppeteer.default ?? puppeteer).launch({
  executablePath: process.env.CHROMIUM,
  userDataDir: `${process.env.WORK}/profile`,
  timeout: PATIENCE_MS,
  protocolTimeout: 2 * PATIENCE_MS,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--lang=en-US'],
})

const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true }
const DESK = { width: 1180, height: 800 }

// A page of its own profile: storage is shared by the pages of one context. base: another address of the server. extra:
// fields that are added to its requests. expected: a pattern of errors that the check provokes.
export async function openPage(path, options = {}) {
  const { context, base = server, hasKey = true, phone = false, dark = false, extra = null, expected = /^$/ } = options
  const own = context ?? (await browser.createBrowserContext())
  const page = await own.newPage()

  page.setDefaultTimeout(PATIENCE_MS)
  page.problems = []
  const note = (text) => {
    if (!expected.test(text)) page.problems.push(text)
  }
  page.on('console', (message) => {
    if (['error', 'warn', 'assert'].includes(message.type())) note(`${message.text()} ${message.location()?.url ?? ''}`)
  })
  page.on('pageerror', (error) => note(String(error.stack ?? error)))
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${base}/`) && !/^(data|blob):/.test(url)) page.problems.push(`a request to ${url}`)
  })
  await page.evaluateOnNewDocument((value, fields) => {
    if (location.protocol !== 'http:') return
    if (value) sessionStorage.setItem('hearth.key', value)
    const { fetch } = window
    const add = (options) => ({ ...options, body: JSON.stringify({ ...JSON.parse(options.body), ...fields }) })
    if (fields) window.fetch = (path, options) => fetch(path, options?.method === 'POST' ? add(options) : options)
  }, hasKey ? key : '', extra)
  await page.setViewport(phone ? PHONE : DESK)
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ])
  await page.goto(`${base}${path}`)
  return page
}

// Ends the page; its problems are those of the check.
export async function closePage(page) {
  const problems = page.problems
  await page.close()
  assert.deepEqual(problems, [])
}

// No finding of axe that is serious or critical.
export async function refuseBarriers(page) {
  await page.evaluate(axeSource)
  const violations = await page.evaluate(async () => (await window.axe.run()).violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`))
  assert.deepEqual(violations, [])
}

const PICTURE_BYTES_MAX = 150_000

// A picture for the documents, when PICTURES names their folder: of the window, of the element with a selector, or of the
// sections of a long page from and up to those with these titles, at most so high.
export async function picture(page, name, { of = null, from = null, to = null, height = Infinity } = {}) {
  if (!process.env.PICTURES) return
  const options = { path: `${process.env.PICTURES}/${name}.png` }
  if (from || to) {
    await page.setViewport({ ...DESK, height: 3000 }) // all of it without a scroll bar
    const [top, bottom] = await page.evaluate((first, last) => {
      const title = (words) => [...document.querySelectorAll('h2')].find(({ textContent }) => textContent === words)
      const end = document.querySelector('main').lastElementChild.getBoundingClientRect().bottom + 24
      return [first ? title(first).getBoundingClientRect().top - 20 : 0, last ? title(last).getBoundingClientRect().top - 12 : end]
    }, from, to)
    options.clip = { x: 0, y: top, width: DESK.width, height: Math.min(height, bottom - top) }
  }
  const bytes = await (of ? await page.$(of) : page).screenshot(options)
  if (from || to) await page.setViewport(DESK)
  assert.ok(bytes.length < PICTURE_BYTES_MAX, `the picture ${name} has ${bytes.length} bytes`)
}
