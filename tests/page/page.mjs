// page.mjs - the page in a browser; started by tests/e2e/page_test.sh
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { assert, check, finish, key, post, raw, until } from '../clients/checks.mjs'
import { childrenOf } from '../support/server.mjs'
import { browser, closePage, openPage, picture, refuseBarriers } from './browser.mjs'

// A reply of the slow model that is always the same, and one that no check reads to its end.
const LONG = { max_tokens: 100, ignore_eos: true, temperature: 0 }
const ENDLESS = { ...LONG, max_tokens: 2000 }
const QUESTION = 'Tell me a story about a fox who lived near a river, and who went out to look for her friend, the bear.'

const text = (page, selector) => page.evaluate((wanted) => document.querySelector(wanted)?.textContent ?? '', selector)
const lastText = (page) => page.$$eval('.message.assistant .text', (all) => all.at(-1)?.textContent ?? '')
// The newest reply, as the page keeps it.
const keptReply = (page) => page.evaluate(() => new Promise((resolve) => {
  indexedDB.open('hearth').onsuccess = ({ target: { result: database } }) => {
    database.transaction('messages').objectStore('messages').getAll().onsuccess = ({ target: { result } }) => {
      database.close()
      resolve(result.filter(({ role }) => role === 'assistant').sort((a, b) => a.createdAt - b.createdAt).at(-1))
    }
  }
}))
const keptText = async (page) => (await keptReply(page)).content
const isBusy = (page) => page.$eval('.composer .primary', (button) => button.textContent === 'Stop')
const idle = (page) => until('the reply has ended', async () => (await page.$('.message.assistant footer .actions')) && !(await isBusy(page)))
const grown = (page, n) => until(`the reply has ${n} characters`, async () => (await lastText(page)).length >= n)

// The slow model waits where a prompt and so many tokens of its reply are evaluated, until it may go on. So a check does
// its work in the middle of a reply, however slow the machine is.
const holdAfter = (prompt, n) => writeFileSync(process.env.GATE, String(prompt + n))
const release = () => rmSync(process.env.GATE, { force: true })
const promptTokens = async (content) => {
  const body = { model: 'slow', messages: [{ role: 'user', content }], max_tokens: 1 }
  return (await post('/v1/chat/completions', body)).usage.prompt_tokens
}

// Clicks the button with these words, below a selector.
const press = (page, words, below = 'body') =>
  page.evaluate((wanted, selector) => {
    const button = [...document.querySelectorAll(`${selector} button`)].filter((one) => one.textContent === wanted).at(-1)
    if (!button) throw new Error(`there is no button '${wanted}'`)
    button.click()
  }, words, below)

async function say(page, words) {
  await page.type('.composer textarea', words)
  await page.keyboard.press('Enter')
}

// A chat with this model. Other settings by the names of their fields.
async function openChat(model, settings = {}, options = {}) {
  const page = await openPage('/', options)
  await page.waitForSelector(`select option[value=${model}]`)
  await page.select('.bar select', model)
  await press(page, 'Settings')
  for (const [name, value] of Object.entries(settings)) await page.type(`dialog #${name}`, String(value))
  await press(page, 'Use', 'dialog')
  return page
}

const importFile = async (page, content) => {
  const input = await page.$('.sidebar input[type=file]')
  await page.evaluate((element, json) => {
    const files = new DataTransfer()
    files.items.add(new File([json], 'chat.json', { type: 'application/json' }))
    element.files = files.files
    element.dispatchEvent(new Event('change'))
  }, input, JSON.stringify(content))
  await page.waitForSelector('.message')
}

// A file as the page exports it, of messages that follow one another.
const exported = (messages, title = 'Imported') => ({
  format: 'hearth-conversation-1',
  conversation: { id: 'x', title, createdAt: 1, changedAt: 1, leaf: String(messages.length - 1), settings: {} },
  messages: messages.map((message, i) => ({
    id: String(i), conversation: 'x', parent: i === 0 ? null : String(i - 1), createdAt: i + 1, state: 'done', ...message,
  })),
})

const RICH = `## A table, a formula, and code

| place | time |
| --- | --- |
| RAM | $1.2\\,\\mathrm{ms}$ |
| disk | 5.3 ms |

$$ \\sum_{i=1}^{n} i = \\frac{n(n+1)}{2} $$

\`\`\`python
def warm(prompt):
    return cache[prompt]  # nothing is computed
\`\`\`
`
const HOSTILE = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><iframe srcdoc="x"></iframe>

![picture](https://elsewhere.example/x.png "t") [link](javascript:window.hacked=1) [link](data:text/html,x)

<a href="javascript:window.hacked=1" onclick="window.hacked=1">x</a> $\\href{javascript:window.hacked=1}{x}$

<svg><style>*{display:none}</style></svg><form action="/x"><button>y</button></form>`

const TIMINGS = { cache_n: 799, prompt_n: 0, prompt_ms: 0, predicted_n: 64, predicted_ms: 800, predicted_per_second: 80,
  queue_ms: 0.2, restore_ms: 0.7, ttft_ms: 1.2 }
const CACHE = { hit: 'exact', tier: 'ram', miss: 'none' }

// ---- the frame ----

await check('the dashboard lists the models, once it has a key', async () => {
  const page = await openPage('/#/dashboard', { hasKey: false, expected: /401/ })
  await page.waitForSelector('dialog[open]')
  await refuseBarriers(page)
  await page.type('#key', key)
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.querySelector('main').textContent.includes('tiny'))
  assert.equal(await page.evaluate(() => localStorage.length), 0)
  await closePage(page)
})

for (const dark of [false, true]) {
  await check(`nothing is a barrier, ${dark ? 'dark' : 'light'}`, async () => {
    const page = await openPage('/', { dark })
    await importFile(page, exported([
      { role: 'user', content: 'Show me all that you can.', attachments: [{ name: 'notes.txt', text: 'One.\nTwo.' }] },
      { role: 'assistant', content: RICH, reasoning: 'The user wants to see everything.', timings: TIMINGS, cache: CACHE,
        calls: [{ id: 'a', name: 'weather', arguments: '{"city":"Oslo"}' }] },
    ], 'All that there is'))
    await page.waitForSelector('math')
    await refuseBarriers(page)
    await picture(page, `page-chat-${dark ? 'dark' : 'light'}`)
    await press(page, 'Settings')
    await refuseBarriers(page)
    await page.keyboard.press('Escape')
    await page.goto(`${new URL(page.url()).origin}/#/dashboard`)
    await page.waitForSelector('main.dashboard')
    await refuseBarriers(page)
    await closePage(page)
  })
}

await check('a phone sees everything without scrolling sideways', async () => {
  const page = await openPage('/', { phone: true })
  await press(page, 'Chats')
  await importFile(page, exported([{ role: 'user', content: 'x'.repeat(300) }, { role: 'assistant', content: RICH }]))
  await page.waitForSelector('math')
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= screen.width))
  assert.ok(await page.$eval('header button', (button) => button.getBoundingClientRect().right <= screen.width))
  await refuseBarriers(page)
  await importFile(page, exported([
    { role: 'user', content: 'Show me all that you can.' }, { role: 'assistant', content: RICH, timings: TIMINGS, cache: CACHE },
  ], 'All that there is'))
  await page.waitForSelector('.figures')
  await picture(page, 'page-phone')
  await closePage(page)
})

// ---- what is shown ----

await check('markdown is shown, and hostile words stay words', async () => {
  const page = await openPage('/')
  await importFile(page, exported([{ role: 'user', content: HOSTILE }, { role: 'assistant', content: RICH + HOSTILE, reasoning: HOSTILE }]))
  await page.waitForSelector('.assistant .text table')
  const has = (selector) => page.$$eval(`.message ${selector}`, (all) => all.length)
  for (const selector of ['h2', 'td math', 'math[display=block]', 'pre .hljs-keyword']) assert.ok(await has(selector), selector)
  for (const selector of ['script', 'img', 'iframe', 'form', 'style', '[onerror]', '[onclick]', '.text button[type=submit]',
    '[href^="javascript:"]', '[href^="data:"]']) assert.equal(await has(selector), 0, selector)
  assert.equal(await page.evaluate(() => window.hacked), undefined)
  await closePage(page)
})

await check('what costs too much or cannot be shown stays words, and hides nothing else', async () => {
  const page = await openPage('/')
  const formulas = ['\\sqrt{'.repeat(1000), 'x^{'.repeat(3000), '\\sqrt{'.repeat(600), '\\frac{',
    `\\def\\a#1{${'#1'.repeat(40)}}\\a{\\a{${'x'.repeat(1500)}}}`, '\\newcommand{\\b}{x}\\b', '<b>x</b>\\x']
  await importFile(page, exported([{ role: 'user', content: 'Show me.' },
    { role: 'assistant', content: [...formulas.flatMap((one) => [`$$\n${one}\n$$`, `A $${one}$.`]), 'The end.'].join('\n\n') }]))
  await until('the end is seen', async () => (await lastText(page)).includes('The end.'))
  const shown = await page.$$eval('.assistant .text code', (all) => all.map((one) => one.textContent.trim()))
  assert.deepEqual(shown, formulas.flatMap((one) => [one, one]))
  await page.reload()
  await until('it can be opened again', async () => (await lastText(page)).includes('The end.'))
  await closePage(page)
})

await check('thinking, calls and attachments are folded', async () => {
  const page = await openPage('/')
  await importFile(page, exported([
    { role: 'user', content: 'Look.', attachments: [{ name: 'a.txt', text: 'attached' }] },
    { role: 'assistant', content: 'Yes.', reasoning: 'hidden thought', calls: [{ id: 'c', name: 'look', arguments: '{}' }] },
  ]))
  for (const name of ['thinking', 'call', 'attachment']) {
    await page.waitForSelector(`details.${name}:not([hidden])`)
    assert.equal(await page.$eval(`details.${name}`, (element) => element.open), false)
  }
  assert.equal(await page.$eval('.composer textarea', (field) => field.placeholder), 'The result of look')
  await closePage(page)
})

// ---- a long conversation ----

// Counts the work of each task of the page: boxes of messages that it shows, messages that it builds.
const watchWork = (page) => page.evaluateOnNewDocument(() => {
  window.work = { shown: 0, built: 0, builtInAll: 0 }
  new MutationObserver((records) => {
    const added = records.flatMap(({ addedNodes }) => [...addedNodes])
    const shown = added.filter((node) => node.classList?.contains('message')).length
    const built = new Set(records.filter(({ target, addedNodes }) =>
      addedNodes.length > 0 && target.classList?.contains('message')).map(({ target }) => target)).size
    work.shown = Math.max(work.shown, shown)
    work.built = Math.max(work.built, built)
    work.builtInAll += built
  }).observe(document, { childList: true, subtree: true })
})

// The longest task of the page during this work, in milliseconds of the processor: other processes do not count.
async function longestTask(page, work) {
  const file = `${process.env.WORK}/trace.json`
  await page.tracing.start({ path: file, categories: ['disabled-by-default-devtools.timeline', '__metadata'] })
  await work()
  await page.tracing.stop()
  const { traceEvents } = JSON.parse(readFileSync(file, 'utf8'))
  const isMain = new Set(traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
    .map(({ pid, tid }) => `${pid}.${tid}`))
  const tasks = traceEvents.filter(({ name, pid, tid, tdur }) => name === 'RunTask' && isMain.has(`${pid}.${tid}`) && tdur > 0)
  assert.ok(tasks.length > 0, 'the trace has tasks')
  return Math.max(...tasks.map(({ tdur }) => tdur)) / 1000
}

// A task that takes about 50 ms on the machines of today: so long may a page be deaf. It is the measure, on any machine.
const measure = (page) => page.evaluate(() => new Promise((resolve) => setTimeout(() => {
  const box = document.createElement('div')
  for (let i = 0; i < 4000; i++) box.append(Object.assign(document.createElement('p'), { textContent: `Word ${i}` }))
  document.body.append(box)
  box.getBoundingClientRect()
  box.remove()
  setTimeout(resolve) // when the task is in the trace
})))

const longMessages = (n) => Array.from({ length: n }, (_, i) => i % 2 === 0
  ? { role: 'user', content: `Question ${i}` }
  : { role: 'assistant', content: `Answer ${i}\n\n${RICH}`, timings: TIMINGS, cache: CACHE })
const nShown = (page) => page.$$eval('.message', (all) => all.length)
const nBuilt = (page) => page.$$eval('.message', (all) => all.filter((one) => one.firstChild).length)
const isSeen = (page, words) => until(`'${words}' is seen`, () => page.evaluate((wanted) =>
  [...document.querySelectorAll('.message .text')].some((one) => one.textContent.includes(wanted)), words))
const isAtEnd = (page) => until('the end is seen', () => page.$eval('.thread', ({ scrollHeight, scrollTop, clientHeight }) =>
  scrollHeight - scrollTop - clientHeight < 2))
const openTitle = async (page, title) => {
  await page.evaluate((wanted) =>
    [...document.querySelectorAll('.conversations button')].find((one) => one.textContent === wanted).click(), title)
  await until(`'${title}' is open`, async () => (await text(page, 'h1')) === title)
}

await check('1,000 messages cost as much as those in sight, and no task is long', async () => {
  const n = 1000
  const file = `${process.env.WORK}/long.json`
  const page = await openPage('/', { extra: LONG })
  const longest = {}
  const thrice = async (work) => {
    const all = []
    for (const i of [1, 2, 3]) all.push(await longestTask(page, () => work(i)))
    return all
  }
  const best = async (work) => Math.min(...(await thrice(work)))
  const isOpen = async () => {
    await until('all messages are there', async () => (await nShown(page)) === n)
    await isSeen(page, 'Answer 999')
    await isAtEnd(page)
  }
  await watchWork(page)
  await page.reload()
  await page.waitForSelector('select option[value=long]')
  const input = await page.$('.sidebar input[type=file]')
  const limit = Math.max(...(await thrice(() => measure(page))))

  longest.import = await best(async (i) => {
    writeFileSync(file, JSON.stringify(exported(longMessages(n), `Long ${i}`)))
    await input.uploadFile(file)
    await until('it is open', async () => (await text(page, 'h1')) === `Long ${i}`)
    await isOpen()
  })
  longest.open = await best(async (i) => {
    await openTitle(page, `Long ${i}`)
    await isOpen()
  })
  await until('only those near the window are built', async () => (await nBuilt(page)) < 40)
  const { shown, built, builtInAll } = await page.evaluate(() => window.work)
  assert.ok(shown <= 50 && built <= 8, `a task shows ${shown} messages and builds ${built}`)
  assert.ok(builtInAll < 6 * 40, `six times the end costs ${builtInAll} messages`)

  longest.scroll = await best(async () => {
    await page.$eval('.thread', (thread) => (thread.scrollTop = 0))
    await isSeen(page, 'Question 0')
    await until('the end is built no more', async () => (await nBuilt(page)) < 60)
    await page.$eval('.thread', (thread) => (thread.scrollTop = thread.scrollHeight / 2))
    await isSeen(page, 'Answer 5')
  })
  await page.select('.bar select', 'long')
  longest.stream = await best(async (i) => {
    await say(page, 'And the last question?')
    await until('the reply has begun', async () => (await nShown(page)) === n + 2 * i)
    await until('it has ended', async () => (await keptReply(page)).state !== 'running' && !(await isBusy(page)))
    await isAtEnd(page)
  })
  const { error, usage } = await keptReply(page)
  assert.deepEqual([error, usage?.completion_tokens], [undefined, LONG.max_tokens])
  const all = Object.entries(longest).map(([name, ms]) => `${name} ${ms.toFixed(0)}`).join(', ')
  console.log(`        longest tasks: ${all} ms of ${limit.toFixed(0)} ms`)
  assert.ok(Math.max(...Object.values(longest)) < limit, `a task is long: ${all} ms of ${limit} ms`)
  await closePage(page)
})

await check('only its reader moves a conversation away from its end', async () => {
  const page = await openPage('/')
  const messages = longMessages(40)
  Object.assign(messages[39], { content: 'Answer 39', reasoning: 'A thought.\n\n'.repeat(99) })
  await importFile(page, exported(messages, 'Long'))
  await isSeen(page, 'Answer 39')
  await isAtEnd(page)
  // In one frame the list gets shorter, so the browser moves it; before its event comes, the list gets longer.
  await page.evaluate(() => new Promise((resolve) => {
    const last = document.querySelector('.message:last-child')
    const frame = (work) => requestAnimationFrame(() => (work(), setTimeout(() => ((last.style.paddingBottom = '600px'), resolve()))))
    last.style.paddingBottom = '300px'
    requestAnimationFrame(() => setTimeout(() => frame(() => (last.style.paddingBottom = '0'))))
  }))
  await isAtEnd(page)
  assert.ok(await page.$eval('.down', (button) => button.hidden))
  await page.setViewport({ width: 1180, height: 500 })
  await isAtEnd(page)
  await page.$eval('.message:last-child', (last) => (last.style.paddingBottom = '0'))
  await isAtEnd(page)
  const fold = '.message:last-child .thinking summary'
  const place = () => page.$eval(fold, (summary) => Math.round(summary.getBoundingClientRect().top))
  const frames = () => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  const before = await place()
  await page.$eval(fold, (summary) => summary.click())
  await frames()
  assert.equal(await place(), before)
  assert.equal(await page.$eval('.down', (button) => button.hidden), false)
  await page.$eval(fold, (summary) => summary.click())
  await isAtEnd(page)
  await page.$eval('.thread', (thread) => (thread.scrollTop -= 40))
  await until('it is no more at the end', () => page.$eval('.down', (button) => !button.hidden))
  const top = await page.$eval('.thread', ({ scrollTop }) => scrollTop)
  await page.$eval('.message:last-child', (last) => (last.style.paddingBottom = '900px'))
  await frames()
  assert.equal(await page.$eval('.thread', ({ scrollTop }) => scrollTop), top)
  await page.click('.down')
  await isAtEnd(page)
  await closePage(page)
})

await check('what comes above a reader of a long conversation moves nothing', async () => {
  const page = await openPage('/')
  await importFile(page, exported(longMessages(300), 'Long'))
  await importFile(page, exported([{ role: 'user', content: 'short' }], 'Short'))
  await until('it is open', async () => (await text(page, 'h1')) === 'Short')
  await page.evaluate(() => {
    const { setTimeout } = window
    const held = []
    // A slow browser builds one message of a slice.
    let n = 0
    performance.now = () => 100 * n++
    window.setTimeout = (work, ms, ...rest) => (ms === undefined ? held.push(work) : setTimeout(work, ms, ...rest))
    window.goOn = () => {
      window.setTimeout = setTimeout
      for (const work of held) setTimeout(work)
    }
  })
  await openTitle(page, 'Long')
  await isSeen(page, 'Answer 299')
  await isAtEnd(page)
  assert.equal(await nShown(page), 50)
  const top = () => page.evaluate(() => Math.round(window.seen.getBoundingClientRect().top))
  await page.evaluate(() => {
    const thread = document.querySelector('.thread')
    const { top } = thread.getBoundingClientRect()
    thread.scrollTop -= 300
    // The first one in sight: those below it move when it is built and gets longer than was guessed.
    window.seen = [...thread.querySelectorAll('.message')].find((one) => one.getBoundingClientRect().bottom > top)
  })
  await until('it is no more at the end', () => page.$eval('.down', (button) => !button.hidden))
  const before = await top()
  await page.evaluate(() => window.goOn())
  await until('all messages are there', async () => (await nShown(page)) === 300)
  await until('those in sight are built', () => page.$$eval('.message', (all) => all.every((one) => {
    const { top, bottom } = one.getBoundingClientRect()
    return one.firstChild || bottom < 0 || top > innerHeight
  })))
  assert.ok(Math.abs((await top()) - before) <= 2, `it moved from ${before} to ${await top()}`)
  assert.equal(await page.$eval('.thread', ({ firstChild }) => firstChild.offsetHeight), 0)
  await closePage(page)
})

await check('the versions of a message at the begin of a long conversation can be chosen', async () => {
  const page = await openPage('/')
  const file = exported([...longMessages(200), ...longMessages(200).map((one) => ({ ...one, content: `Other ${one.content}` }))])
  file.messages[200].parent = null // a second version of the first message
  await importFile(page, file)
  await isSeen(page, 'Other Answer 199')
  await until('all messages are there', async () => (await nShown(page)) === 200)
  await page.$eval('.thread', (thread) => (thread.scrollTop = 0))
  await isSeen(page, 'Other Question 0')
  await page.click('.user .versions button')
  await until('the first version is seen', async () => (await text(page, '.user .text')).trim() === 'Question 0')
  await until('all messages are there', async () => (await nShown(page)) === 200)
  assert.equal(await page.$eval('.thread', (thread) => thread.scrollTop), 0)
  assert.deepEqual(await page.$$eval('.message', (all) => all.map(({ view }) => view.message.content.split('\n')[0])),
    longMessages(200).map(({ content }) => content.split('\n')[0]))
  await closePage(page)
})

// ---- a chat ----

await check('a reply streams and tells its figures, and the same prompt is warm', async () => {
  const page = await openChat('tiny', { max_tokens: 24 })
  const showsHint = () => page.$eval('.hint', (hint) => hint.checkVisibility())
  assert.ok(await showsHint())
  await say(page, QUESTION)
  await idle(page)
  assert.equal(await showsHint(), false)
  assert.ok((await lastText(page)).length > 10)
  assert.match(await text(page, '.figures summary'), /tokens reused.*first token.*tokens\/s/)
  await press(page, 'Again', '.assistant')
  await until('there are two versions', async () => (await page.$('.versions')) && !(await isBusy(page)))
  assert.match(await text(page, '.figures summary'), /exact hit.* tokens reused/)
  assert.match(await text(page, '.versions'), /2 of 2/)
  await closePage(page)
})

await check('words of a stream become markdown as they come', async () => {
  const grammar = 'root ::= "A list:\\n\\n- one\\n- <b>two</b>\\n\\n**The end.**"'
  const page = await openChat('tiny', {}, { extra: { grammar } })
  await say(page, 'Write a list.')
  await idle(page)
  assert.equal(await page.$$eval('.assistant .text li', (all) => all.length), 2)
  assert.equal(await text(page, '.assistant .text strong'), 'The end.')
  assert.equal(await page.$('.assistant .text b'), null)
  await closePage(page)
})

await check('a link is one when its definition comes later', async () => {
  const page = await openChat('tiny')
  await page.evaluate(() => {
    const bytes = (text) => new TextEncoder().encode(text)
    window.fetch = async () => new Response(new ReadableStream({ start(stream) {
      window.stream = (content) =>
        stream.enqueue(bytes(`data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`))
      window.end = () => stream.enqueue(bytes('data: [DONE]\n\n'))
    } }))
  })
  await say(page, 'Link.')
  await until('the reply has begun', () => page.evaluate(() => window.stream !== undefined))
  await page.evaluate(() => window.stream('See [the fox][f].\n\n'))
  await until('it is seen', async () => (await lastText(page)).includes('[f]'))
  await page.evaluate(() => window.stream('[f]: http://fox.example/\n\nThe end.'))
  await until('it is a link', () => page.$('.assistant .text a[href="http://fox.example/"]'))
  await page.evaluate(() => window.end())
  await idle(page)
  await closePage(page)
})

await check('messages can be edited, and their versions chosen; a reply can be stopped and go on', async () => {
  const prompt = await promptTokens('First version.')
  // The server may cut the stream that a stop drops before the browser does.
  const page = await openChat('slow', {}, { extra: ENDLESS, expected: /INCOMPLETE_CHUNKED/ })
  holdAfter(prompt, 50)
  await say(page, 'First version.')
  await grown(page, 10)
  await page.keyboard.press('Escape')
  await idle(page)
  const stopped = await keptText(page)
  holdAfter(prompt, 500)
  await press(page, 'Continue')
  await until('it has grown', async () => (await lastText(page)).length > stopped.length + 10)
  await press(page, 'Stop')
  await idle(page)
  assert.ok((await keptText(page)).startsWith(stopped))
  await press(page, 'Edit', '.user')
  await page.keyboard.type(' And more.')
  await press(page, 'Send', '.user')
  await until('another reply has begun', async () => (await isBusy(page)) && (await lastText(page)).length >= 5)
  await press(page, 'Stop')
  await idle(page)
  release()
  assert.match(await text(page, '.user .text'), /First version\. And more\./)
  await page.click('.user .versions button')
  await until('the first version is seen', async () => (await text(page, '.user .text')).trim() === 'First version.')
  await closePage(page)
})

await check('conversations are kept, found, renamed and deleted', async () => {
  const page = await openPage('/')
  await importFile(page, exported([{ role: 'user', content: 'a needle in the text' }], 'The first'))
  await importFile(page, exported([{ role: 'user', content: 'hay' }], 'The second'))
  const titles = () => page.$$eval('.conversations button', (all) => all.map((one) => one.textContent))
  await until('both are listed', async () => (await titles()).length === 2)
  await page.type('.sidebar input[type=search]', 'needle')
  await until('one is found', async () => (await titles()).join() === 'The first')
  await page.click('.conversations button')
  await until('it is open', async () => (await text(page, 'h1')) === 'The first')
  await press(page, 'Rename')
  await page.$eval('#dialog-text', (field) => (field.value = 'A needle'))
  await press(page, 'Use', 'dialog')
  await until('it has its new name', async () => (await text(page, 'h1')) === 'A needle')
  await page.reload()
  await until('it is still open', async () => (await text(page, 'h1')) === 'A needle')
  await press(page, 'Delete', '.menu')
  await press(page, 'Delete', 'dialog')
  await until('the other one is left', async () => (await titles()).join() === 'The second')
  await closePage(page)
})

await check('a file goes along as text', async () => {
  const page = await openChat('tiny', { max_tokens: 4 })
  let body = null
  page.on('request', (request) => (body = request.postData() ?? body))
  await page.evaluate(() => {
    const files = new DataTransfer()
    files.items.add(new File(['the fox\n'], 'fox.txt'))
    document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }))
  })
  await page.waitForSelector('.attachments li')
  await say(page, 'Who is in this file?')
  await idle(page)
  assert.equal(JSON.parse(body).messages[0].content, 'fox.txt:\n```\nthe fox\n\n```\n\nWho is in this file?')
  await closePage(page)
})

// ---- what can go wrong ----

const slowWorker = () => childrenOf(Number(process.env.SERVER_PID)).find((pid) =>
  readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('stub:'))

await check('what cannot be kept stays in its field, and can be sent again', async () => {
  const page = await openChat('tiny', { max_tokens: 4 })
  await page.evaluate(() => {
    const { put } = IDBObjectStore.prototype
    window.mend = () => (IDBObjectStore.prototype.put = put)
    IDBObjectStore.prototype.put = () => { throw new DOMException('The disk is full.', 'QuotaExceededError') }
    const files = new DataTransfer()
    files.items.add(new File(['the fox\n'], 'fox.txt'))
    document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true }))
  })
  await page.waitForSelector('.attachments li')
  await say(page, 'Not to be lost.')
  await until('the problem is told', async () => (await text(page, '.talk > [role=alert]')).includes('disk is full'))
  assert.equal(await page.$eval('.composer textarea', (field) => field.value), 'Not to be lost.')
  assert.equal(await text(page, '.attachments li'), 'fox.txt×')
  assert.equal(await page.$('.message'), null)
  await page.evaluate(() => window.mend())
  await page.keyboard.press('Enter')
  await idle(page)
  assert.equal(await page.$$eval('.message', (all) => all.length), 2)
  await closePage(page)
})

await check('a database that goes away is opened anew', async () => {
  const page = await openPage('/')
  await importFile(page, exported([{ role: 'user', content: 'gone' }]))
  await page.evaluate(() => new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase('hearth')
    request.onsuccess = resolve
    request.onblocked = () => reject(new Error('the page keeps the database open'))
  }))
  await importFile(page, exported([{ role: 'user', content: 'new' }], 'After it'))
  await until('it is open', async () => (await text(page, 'h1')) === 'After it')
  await closePage(page)
})

let whole = ''
let prompt = 0 // tokens of QUESTION
const HELD = 60 // tokens of a reply
// In the middle of a reply, which goes on when it is released.
const slowChat = async (options) => {
  const page = await openChat('slow', {}, { extra: LONG, ...options })
  holdAfter(prompt, HELD)
  await say(page, QUESTION)
  await grown(page, 15)
  return page
}

await check('a reply survives the death of its worker, and its reader is told', async () => {
  const page = await openChat('slow', {}, { extra: LONG })
  prompt = await promptTokens(QUESTION)
  await say(page, QUESTION)
  await idle(page)
  whole = await keptText(page)
  holdAfter(prompt, HELD)
  await press(page, 'Again', '.assistant')
  await until('the second one has begun', async () => (await isBusy(page)) && (await lastText(page)).length > 15)
  process.kill(slowWorker(), 'SIGKILL')
  await page.waitForSelector('.assistant .notice')
  assert.match(await text(page, '.assistant .notice'), /worker process of the model/)
  release()
  await idle(page)
  assert.equal(await keptText(page), whole)
  await closePage(page)
})

await check('a reply goes on while its reader looks elsewhere, and is kept before another tab may go on with it', async () => {
  const page = await openChat('slow', {}, { extra: LONG })
  await page.exposeFunction('kept', () => keptReply(page))
  await page.evaluate(() => {
    const request = navigator.locks.request.bind(navigator.locks)
    navigator.locks.request = (name, work) => request(name, async () => {
      await work()
      window.atRelease = await window.kept()
    })
  })
  holdAfter(prompt, HELD)
  await say(page, QUESTION)
  await grown(page, 15)
  await page.evaluate(() => (location.hash = '#/dashboard'))
  await page.waitForSelector('main.dashboard')
  await page.evaluate(() => (location.hash = '#/chat'))
  await grown(page, 15)
  await press(page, 'New chat')
  await until('another one is seen', async () => !(await page.$('.message')))
  await page.click('.conversations button')
  await grown(page, 15)
  assert.ok(await isBusy(page))
  release()
  await idle(page)
  const seen = await lastText(page)
  const { state, content } = await page.evaluate(() => window.atRelease)
  assert.deepEqual([state, content], ['done', whole])
  await page.reload()
  await grown(page, 15)
  assert.equal(await lastText(page), seen)
  await closePage(page)
})

await check('a reply survives a reload of the page', async () => {
  const page = await slowChat()
  await until('it is kept', async () => (await keptText(page)).length > 15)
  await page.reload()
  await until('it goes on', async () => (await lastText(page)).length > 15 && (await isBusy(page)))
  release()
  await idle(page)
  assert.equal(await keptText(page), whole)
  await closePage(page)
})

await check('a reply whose stream is gone continues from its text', async () => {
  const streams = []
  const page = await openChat('slow', {}, { extra: ENDLESS, expected: /404|INCOMPLETE_CHUNKED/ })
  page.on('response', (response) => response.headers()['x-hearth-stream'] && streams.push(response.headers()['x-hearth-stream']))
  holdAfter(prompt, HELD)
  await say(page, QUESTION)
  await until('it is kept', async () => streams.length === 1 && (await keptText(page)).length > 15)
  assert.equal((await raw(`/v1/streams/${streams[0]}`, { method: 'DELETE' })).status, 204)
  const { length } = await keptText(page)
  holdAfter(prompt, 500)
  await until('there is a second stream', () => streams.length === 2)
  await grown(page, length + 5)
  await press(page, 'Stop')
  await idle(page)
  release()
  assert.equal((await keptText(page)).slice(0, 16), whole.slice(0, 16))
  await closePage(page)
})

await browser.close()
finish()
