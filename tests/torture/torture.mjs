// torture.mjs - clients as bad as the network has them, against a whole server
//
//   node torture.mjs --hearth PROGRAM --model FILE --work DIRECTORY [--idle N] [--seed S] [--memory 0]
//
// One server with a small model (tiny) and the stub, slow and brisk. Thousands of idle connections, requests in pieces,
// many at once, broken, endless, half-closed, and replies that nobody reads: each has to end in the way that HTTP knows
// for it, and a normal client has to be served all the while. What an idle connection costs the front is measured
// (--memory 0 leaves the claim out, where the program is instrumented).
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { drawer } from '../chaos/draw.mjs'
import { ask, childrenOf, residentBytes, sleep, start, stop } from '../support/server.mjs'

const options = { idle: 1000, seed: Date.now() % 1000000, memory: 1 }
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, '')
  options[name] = typeof options[name] === 'number' ? Number(process.argv[i + 1]) : process.argv[i + 1]
}
for (const name of ['hearth', 'model', 'work'])
  if (!options[name]) {
    console.error(`torture.mjs: --${name} is missing`)
    process.exit(2)
  }
console.log(`seed ${options.seed} (HTH_SEED replays it)`)
const IDLE_BYTES_MAX = 20 * 1024
const REQUEST_TIMEOUT_MS = 1500
const draw = drawer(options.seed)

let nPassed = 0
let nFailed = 0
const check = async (name, work) => {
  try {
    const more = await work()
    nPassed++
    console.log(`ok      ${name}${more ? `: ${more}` : ''}`)
  } catch (error) {
    nFailed++
    console.log(`FAILED  ${name}\n        ${String(error?.stack ?? error).split('\n').slice(0, 8).join('\n        ')}`)
  }
}

const serve = (name, more) => {
  const directory = join(options.work, name)
  mkdirSync(directory, { recursive: true })
  return start({
    program: options.hearth, portFile: join(directory, 'port'),
    args: ['-m', `tiny=${options.model}`, '-m', 'slow=stub:delay_us=20000', '-m', 'brisk=stub:delay_us=500', '--cache', join(directory, 'kv'), '--ram', '32M',
      '--runtime-directory', join(directory, 'run'), '--log-file', join(directory, 'log'), '--no-access-log', '--n-parallel', '64', ...more],
  })
}
const server = await serve('main', ['--request-timeout-ms', String(REQUEST_TIMEOUT_MS), '--connections-max', String(options.idle + 2000)])

// ---- raw connections ----

const connect = (port = server.port, more = {}) =>
  new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true, ...more })
    socket.on('connect', () => resolve(socket)).on('error', reject)
  })
// What comes until the server ends the connection, or until there is enough of it.
const read = (socket, enough = () => false, ms = 60000) =>
  new Promise((resolve, reject) => {
    let text = ''
    const timer = setTimeout(() => reject(new Error(`after ${ms} ms the connection is still open; it gave ${JSON.stringify(text.slice(0, 200))}`)), ms)
    const end = () => {
      clearTimeout(timer)
      resolve(text)
    }
    socket.on('data', (piece) => {
      text += piece.toString('latin1')
      if (enough(text)) end()
    })
    socket.on('end', end).on('error', end).on('close', end)
  })
const body = (object) => JSON.stringify(object)
const request = (method, path, content = '') =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${content ? `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(content)}\r\n` : ''}\r\n${content}`
const status = (text) => Number(/^HTTP\/1\.[01] (\d+)/.exec(text)?.[1] ?? 0)

const story = { model: 'tiny', messages: [{ role: 'user', content: 'Tell me a story about a fox.' }], temperature: 0, max_tokens: 8 }
const normal = async (path = '/v1/chat/completions', content = story) => {
  const answer = await ask(server, 'POST', path, body(content))
  assert.equal(answer.status, 200, answer.text)
  return JSON.parse(answer.text)
}
const expected = (await normal()).choices[0].message.content
const isWell = async () => assert.equal((await normal()).choices[0].message.content, expected)
const busy = async () => (await ask(server, 'GET', '/slots?model=slow').then(({ text }) => JSON.parse(text))).filter((slot) => slot.is_processing).length
const until = async (what, isSo) => {
  for (const end = Date.now() + 60000; Date.now() < end; await sleep(20)) if (await isSo()) return
  throw new Error(`a minute passed, and not: ${what}`)
}

// ---- connections that do nothing ----

const idle = []
await check(`${options.idle} idle connections cost little, and others are served beside them`, async () => {
  await isWell()
  const [worker] = childrenOf(server.pid)
  const before = residentBytes(server.pid)
  const workerBefore = residentBytes(worker)
  while (idle.length < options.idle) {
    // Each has asked once: what a connection keeps from its last request counts.
    const some = await Promise.all(Array.from({ length: Math.min(100, options.idle - idle.length) }, () => connect()))
    await Promise.all(some.map((socket) => {
      socket.write(request('GET', '/health'))
      return read(socket, (text) => text.includes('\r\n\r\n') && /\}\s*$/.test(text))
    }))
    idle.push(...some)
  }
  await isWell()
  const bytes = (residentBytes(server.pid) - before) / idle.length
  const workerBytes = (residentBytes(worker) - workerBefore) / idle.length
  if (options.memory) assert.ok(bytes < IDLE_BYTES_MAX, `${bytes} bytes a connection`)
  return `${(bytes / 1024).toFixed(1)} KiB each in the front, ${(workerBytes / 1024).toFixed(1)} in a worker; front ${(residentBytes(server.pid) / 1048576).toFixed(1)} MiB`
})

// ---- slow ones ----

await check('who sends a byte now and then is cut off, in the head as in the body', async () => {
  const heads = Array.from({ length: 20 }, () => ({ text: request('POST', '/v1/chat/completions', body(story)), from: 1 + draw.next(40) }))
  const bodies = Array.from({ length: 20 }, () => ({ text: request('POST', '/v1/chat/completions', body(story)), from: 120 + draw.next(20) }))
  const begin = Date.now()
  const ends = await Promise.all([...heads, ...bodies].map(async ({ text, from }) => {
    const socket = await connect()
    let at = from
    socket.write(text.slice(0, from))
    const drip = setInterval(() => at < text.length - 1 && socket.writable && socket.write(text[at++]), 300)
    const answer = await read(socket)
    clearInterval(drip)
    socket.destroy()
    return { answer, ms: Date.now() - begin }
  }))
  for (const { answer } of ends) assert.ok(answer === '' || status(answer) === 408, answer.slice(0, 100))
  assert.ok(ends.every(({ ms }) => ms >= REQUEST_TIMEOUT_MS / 2))
  await isWell()
})

await check('requests are taken in any pieces', async () => {
  const text = request('POST', '/v1/chat/completions', body(story))
  const answers = await Promise.all(Array.from({ length: 20 }, async () => {
    const socket = await connect()
    const answer = read(socket, (it) => it.includes('chat.completion"') && it.trimEnd().endsWith('}'))
    for (let at = 0; at < text.length;) {
      const n = 1 + draw.next(60)
      socket.write(text.slice(at, (at += n)))
      await sleep(1)
    }
    const it = await answer
    socket.destroy()
    return it
  }))
  assert.ok(answers.every((answer) => status(answer) === 200))
})

// ---- many at once on one connection ----

await check('requests sent ahead are answered in their order', async () => {
  const socket = await connect()
  const contents = Array.from({ length: 40 }, (_, i) => `number ${i}`)
  const tokens = []
  for (const content of contents) tokens.push((await normal('/tokenize', { content, model: 'tiny' })).tokens.join(','))
  socket.write(contents.map((content) => request('POST', '/tokenize', body({ content, model: 'tiny' }))).join(''))
  const text = await read(socket, (it) => it.split('"tokens"').length > contents.length && it.endsWith('}'))
  socket.destroy()
  const found = [...text.matchAll(/"tokens":\s*\[([\d,\s]*)\]/g)].map(([, list]) => list.replaceAll(/\s/g, ''))
  assert.deepEqual(found, tokens)
})

await check('bodies come in chunks, and a client may wait to be told to send', async () => {
  const socket = await connect()
  const content = body(story)
  const chunks = content.match(/[\s\S]{1,17}/g).map((piece) => `${piece.length.toString(16)};x=y\r\n${piece}\r\n`).join('')
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\nTrailer: x\r\n\r\n`)
  assert.equal(status(await read(socket, (it) => it.trimEnd().endsWith('}'))), 200)
  socket.destroy()
  const patient = await connect()
  patient.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${content.length}\r\n\r\n`)
  assert.equal(status(await read(patient, (it) => it.endsWith('\r\n\r\n'))), 100)
  patient.write(content)
  assert.equal(status(await read(patient, (it) => it.trimEnd().endsWith('}'))), 200)
  patient.destroy()
})

// ---- nonsense ----

const nonsense = {
  'no HTTP at all': ['hello\r\n\r\n', [400, 0]],
  'the beginning of TLS': ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + 'x'.repeat(200) + '\r\n\r\n', [400, 0]],
  'HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', [400, 505, 0]],
  'a head without end': [`GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${'y'.repeat(100000)}`, [431, 400, 413]],
  'very many headers': [`GET /health HTTP/1.1\r\nHost: localhost\r\n${'A: b\r\n'.repeat(20000)}\r\n`, [431, 400]],
  'a path without end': [`GET /${'a'.repeat(100000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, [414, 431, 400]],
  'a body too large': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n', [413]],
  'a length that is none': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n', [400]],
  'two lengths': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}', [400]],
  'a length and chunks': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n', [400]],
  'a chunk of no size': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n', [400]],
  'a chunk of all memory': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}', [400, 413]],
  'an unknown coding': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, x\r\n\r\n{}', [400, 501]],
  'an unknown method': ['BREW /tokenize HTTP/1.1\r\nHost: localhost\r\n\r\n', [405, 501, 400]],
  'a NUL in the head': ['GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n', [400]],
  'a header without a colon': ['GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n', [400]],
  'a space before the colon': ['POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\n{}', [400]],
  'a folded header': ['GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n', [400, 200]],
  'a path out of the tree': ['GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n', [400, 404]],
}

await check('nonsense is refused or cut, and nothing comes of it', async () => {
  await Promise.all(Object.entries(nonsense).map(async ([name, [text, allowed]]) => {
    const socket = await connect()
    socket.write(text, 'latin1')
    const answer = await read(socket, (it) => /\r\n\r\n[\s\S]*\}\s*$/.test(it))
    socket.destroy()
    assert.ok(allowed.includes(status(answer)), `${name}: ${status(answer)} ${answer.slice(0, 80)}`)
  }))
  await isWell()
})

await check('random bytes in place of requests, and within them', async () => {
  const base = request('POST', '/v1/chat/completions', body(story))
  await Promise.all(Array.from({ length: 200 }, async (_, i) => {
    const bytes = i % 2 ? Buffer.from(base) : Buffer.alloc(1 + draw.next(2000))
    const n = i % 2 ? 1 + draw.next(6) : bytes.length
    for (let k = 0; k < n; k++) bytes[i % 2 ? draw.next(bytes.length) : k] = draw.next(256)
    const socket = await connect()
    socket.on('error', () => {}) // cut while writing
    socket.write(bytes)
    await read(socket, (it) => /\}\s*$/.test(it), 20000)
    socket.destroy()
  }))
  await isWell()
})

// ---- clients that leave ----

const endless = { model: 'slow', prompt: 'on and on', max_tokens: 4000, stream: true, logit_bias: { 257: -100 } }

await check('who half-closes behind a request gets its reply', async () => {
  const socket = await connect()
  socket.end(request('POST', '/v1/completions', body({ ...endless, model: 'brisk', max_tokens: 30, stream: false })))
  assert.match(await read(socket, (it) => /"usage".*\}\s*$/s.test(it), 20000), /HTTP\/1.1 200 .*"completion_tokens":30/s)
  socket.destroy()
  await isWell()
})

await check('who closes or resets ends its request, streamed or not, before and behind the first byte', async () => {
  for (const stream of [true, false])
    for (const leave of ['destroy', 'resetAndDestroy']) {
      const sockets = await Promise.all(Array.from({ length: 5 }, () => connect()))
      for (const socket of sockets) {
        socket.on('error', () => {}) // reset by its own doing
        socket.write(request('POST', '/v1/completions', body({ ...endless, stream })))
      }
      await until('all run', async () => (await busy()) >= 5)
      for (const socket of sockets) socket[leave]()
      await until(`nothing runs after ${leave}`, async () => (await busy()) === 0)
      for (const socket of sockets) socket.destroy()
    }
  await isWell()
})

await check('who leaves in the middle of sending leaves nothing behind', async () => {
  const text = request('POST', '/v1/chat/completions', body(story))
  for (let i = 0; i < 100; i++) {
    const socket = await connect()
    socket.on('error', () => {}) // as above
    socket.write(text.slice(0, 1 + draw.next(text.length - 1)))
    socket.destroy()
  }
  await isWell()
})

// ---- clients that read slowly ----

await check('a hundred slow streams are served, and others beside them', async () => {
  const before = residentBytes(server.pid)
  const all = Promise.all(Array.from({ length: 100 }, async () => {
    const socket = await connect()
    let text = ''
    socket.write(request('POST', '/v1/completions', body({ ...endless, model: 'brisk', max_tokens: 30 })))
    socket.on('data', (piece) => {
      text += piece
      socket.pause() // a piece, and then a rest
      setTimeout(() => socket.resume(), 20)
    })
    await until('the stream is complete', () => text.includes('data: [DONE]'))
    socket.destroy()
    return text
  }))
  await sleep(200)
  await isWell()
  const bytes = (residentBytes(server.pid) - before) / 100
  const texts = await all
  assert.ok(texts.every((text) => text.split('data: {').length > 10))
  return `${(bytes / 1024).toFixed(0)} KiB each in the front`
})

await check('the idle ones are still there, and can ask', async () => {
  const some = idle.filter((_, i) => i % Math.max(1, Math.floor(idle.length / 50)) === 0)
  await Promise.all(some.map(async (socket) => {
    socket.removeAllListeners('data')
    socket.write(request('GET', '/health'))
    assert.equal(status(await read(socket, (text) => /\}\s*$/.test(text))), 200)
  }))
  for (const socket of idle) socket.destroy()
  await until('the server has seen them go', async () => {
    const page = (await ask(server, 'GET', '/health')).text
    return page.length > 0
  })
  await isWell()
})

await check('the server ends in order', () => stop(server))

await check('beyond the connections that are allowed nobody is let in, and those within are served', async () => {
  const small = await serve('small', ['--connections-max', '20'])
  const within = await Promise.all(Array.from({ length: 18 }, () => connect(small.port)))
  const beyond = await Promise.all(Array.from({ length: 30 }, () => connect(small.port)))
  const cut = (await Promise.all(beyond.map((socket) => {
    socket.on('error', () => {}) // cut at once
    socket.write(request('GET', '/health'))
    return read(socket, (text) => /\}\s*$/.test(text)).then((text) => status(text) !== 200)
  }))).filter(Boolean).length
  assert.ok(cut >= 28, `${cut} of 30 were cut`)
  for (const socket of beyond) socket.destroy()
  within[0].write(request('GET', '/health'))
  assert.equal(status(await read(within[0], (text) => /\}\s*$/.test(text))), 200)
  for (const socket of within) socket.destroy()
  await stop(small)
})

console.log(`${nPassed} passed, ${nFailed} failed`)
process.exit(nFailed > 0 ? 1 : 0)
