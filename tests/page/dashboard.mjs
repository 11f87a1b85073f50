// dashboard.mjs - the dashboard in a browser; started by tests/e2e/dashboard_test.sh
import { assert, check, finish, json, longText, post, sleep, until } from '../clients/checks.mjs'
import { browser, closePage, openPage, picture, refuseBarriers } from './browser.mjs'

const text = (page, selector) => page.$$eval(selector, (elements) => elements.map((one) => one.textContent).join('\n'))
const shows = (page, selector, pattern) =>
  until(`'${selector}' shows ${pattern}`, async () => pattern.test(await text(page, selector)))

const openDashboard = (options) => openPage('/#/dashboard', options)
const complete = (model, prompt, n = 4, more = {}) =>
  post('/v1/completions', { model, prompt, max_tokens: n, temperature: 0, ...more })
const system = longText('story of all users').repeat(6) // more than a block

// In the dialog for it.
async function giveKey(page, key) {
  await page.waitForSelector('dialog #key')
  await page.$eval('#key', (field) => { field.value = '' })
  await page.type('#key', key)
  await page.keyboard.press('Enter')
}

await check('a client without the right learns how to get it', async () => {
  const page = await openPage('/#/dashboard', { hasKey: false, expected: /40[13]/ })
  await giveKey(page, process.env.CLIENT_KEY)
  await shows(page, '[role=alert]', /hearth key new.*--admin 127.*another key/s)
  assert.equal(await page.$eval('.tiles', (tiles) => tiles.checkVisibility()), false)
  await refuseBarriers(page)
  await page.click('[role=alert] button') // another key
  await giveKey(page, process.env.SERVER_KEY)
  await shows(page, '.connection', /^Live/)
  assert.ok(await page.$eval('.tiles', (tiles) => tiles.checkVisibility()))
  await closePage(page)
})

await check('the operators’ own address needs no key', async () => {
  const page = await openPage('/#/dashboard', { base: process.env.ADMIN_URL, hasKey: false })
  await shows(page, '.connection', /^Live/)
  assert.equal(await page.$eval('header button', (button) => button.checkVisibility()), false)
  await closePage(page)
})

await check('models, misses, slots and prefixes are shown as they come', async () => {
  const page = await openDashboard()
  await shows(page, 'tbody', /chat.*stopped.*code.*stopped/s)
  await Promise.all(['chat', 'code', 'slow'].map((model) => complete(model, longText(`first ${model}`))))
  await shows(page, 'tbody', /never_seen/)
  await shows(page, 'tbody', /chatready/)
  await shows(page, '.notes', /chat is ready after/)

  for (let i = 0; i < 6; i++) await complete('chat', `${system} User ${i} asks: ${longText(`part ${i}`)}`)
  await page.select('#prefix-model', 'chat')
  await until('the tree shows the shared prefix', async () => {
    await page.click('.bar button')
    await sleep(200)
    return page.$$eval('.tree > li', (roots) => roots.some((root) => root.querySelectorAll('ul > li').length > 1))
  })
  await shows(page, '.tree summary', /[5-9] uses/)
  await page.click('main details > summary') // the last requests
  await shows(page, 'details td', /[0-9]+ of [0-9]+/)
  await shows(page, 'tbody', /chatram[0-9]/)
  await shows(page, 'tbody', /chatdisk[0-9]/)
  await until('the rate of a tier is shown', () => page.$$eval('tbody tr', (rows) => rows.some(({ cells }) =>
    cells.length === 6 && cells[0].textContent === 'chat' && /^[0-9]+ %$/.test(cells[5].textContent))))
  assert.ok(await page.$eval('canvas', (canvas) =>
    canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0)))
  await closePage(page)
})

// What clients ask for: new prompts, prompts that go on with an earlier one, short ones, and ones that read no cache.
function prompts(client) {
  let told = ''
  let n = client // so that not all of them ask for the same at once
  return () => {
    n++
    told = !told || n % 8 === 1 ? `${system} ${client}, a talk` : `${told} ${n} and the birds sang, and the fox went over the hill.`
    if (n % 11 === 5) return ['Good morning.']
    if (n % 7 === 3) return [longText(`page ${n} of ${client}`), { cache_prompt: false }]
    return n % 2 === 0 ? [told] : [`${system} ${client} ${n} ${longText('load')}`]
  }
}

await check('the death of a worker is shown, under load', async () => {
  // A worker that has just died tells no prefixes.
  const page = await openDashboard({ expected: /\/admin\/prefixes/ })
  await shows(page, '.connection', /^Live/)
  let goes = true
  let n = 0
  const load = Array.from({ length: 12 }, async (_, i) => {
    const next = prompts(i)
    while (goes) {
      const [prompt, more] = next()
      await complete(['chat', 'code', 'slow'][i % 3], prompt, 16, more)
      n++
    }
  })
  try {
    await until('requests have ended', () => n > 60)
    let pid = null
    await until('the worker runs', async () => {
      const { models } = await json('/admin/models')
      pid = models.find(({ name }) => name === 'code').pid
      return pid > 0
    })
    process.kill(pid, 'SIGKILL')
    await shows(page, '.notes .death', /code died: killed by signal 9/)
    await until('it has come back', async () => /codeready/.test(await text(page, 'tbody')))
    await until('the counts of its row', () => page.$$eval('tbody tr', (rows) => rows.some(({ cells }) =>
      cells[0].textContent === 'code' && cells.length === 10 && Number(cells[9].textContent) > 0 &&
      Number(cells[8].textContent) > Number(cells[9].textContent))))
    await page.select('#prefix-model', 'chat')
    await shows(page, '.tree summary', /uses/)
    await picture(page, 'dashboard', { to: 'Misses' })
    await picture(page, 'dashboard-misses', { from: 'Misses', to: 'Tiers of the cache' })
    await picture(page, 'dashboard-cache', { from: 'Tiers of the cache', height: 620 })
  } finally {
    goes = false
  }
  await Promise.all(load)
  await closePage(page)
})

for (const [name, options] of [['light', {}], ['dark', { dark: true }], ['phone', { phone: true }]]) {
  await check(`the dashboard has no barrier, ${name}`, async () => {
    const page = await openDashboard(options)
    await shows(page, '.connection', /^Live/)
    await shows(page, '.notes', /code died (once:|[0-9]+ times; the last time:) killed by signal 9/)
    await refuseBarriers(page)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is too wide')
    await closePage(page)
  })
}

// The events of a server with 50 models and thousands of requests, all at once.
function flood() {
  const time = new Date().toISOString()
  const names = Array.from({ length: 50 }, (_, i) => `model-${i}`)
  const models = names.map((name) => ({
    name, state: 'ready', residency: 'device', starts: 1, deaths: 0, memory_bytes: 1, waiting_requests: 0,
    scheduler: { parallel: 4, running: 0, waiting: 0, cells: 1, cells_used: 0 },
  }))
  const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify({ ...data, time })}\n\n`
  const requests = Array.from({ length: 5000 }, (_, i) => {
    const request = { id: `r${i}`, model: names[i % 50], endpoint: '/v1/completions' }
    return event('request', request) + event('request_end', {
      ...request, status: 200, ms: 9, prompt_tokens: 3, cached_tokens: 1, completion_tokens: 2, first_token_ms: 1,
      queue_ms: 0, restore_ms: 1, prefill_ms: 1, decode_ms: 1, hit: 'prefix', tier: 'ram', miss: 'evicted', slot: i % 4,
    })
  })
  return event('snapshot', { version: '0', draining: false, memory: { used_bytes: 1 }, models }) + requests.join('')
}

await check('many models and a flood of events leave short lists', async () => {
  const page = await openPage('/')
  const body = flood()
  await page.setRequestInterception(true)
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (pathname === '/admin/events') request.respond({ contentType: 'text/event-stream', body })
    else if (pathname.startsWith('/admin/')) request.respond({ status: 409, body: '{}' })
    else request.continue()
  })
  page.problems = { push() {} } // of the pages that are not there
  await page.evaluate(() => { location.hash = '#/dashboard' })
  await shows(page, 'tbody', /model-49/)
  await shows(page, '.connection', /Connecting again/)
  await shows(page, 'tbody', /evicted/)
  const n = await page.evaluate(() => [...document.querySelectorAll('tbody')].map((list) => list.children.length))
  assert.ok(Math.max(...n) <= 100, `a list has ${Math.max(...n)} rows`)
  await page.close()
})

await browser.close()
finish()
