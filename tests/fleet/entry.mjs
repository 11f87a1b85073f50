// entry.mjs - the node that a client asked dies, and another one goes on with the stream or the response
//
// Started by tests/e2e/fleet_entry_test.sh, with HEARTH and WORK as in fleet.mjs.
import { spawnSync } from 'node:child_process'
import http from 'node:http'
import { join } from 'node:path'
import { assert, check, finish } from '../clients/checks.mjs'
import { compare } from '../chaos/compare.mjs'
import { ask, metric, sleep } from '../support/server.mjs'
import { makeReader } from './kept.mjs'
import { makeFleet, until, untilUp } from './nodes.mjs'
import { makeRedis } from './redis.mjs'

const { HEARTH: hearth, WORK: work } = process.env
const keys = join(work, 'keys.conf')
const [oneKey, anotherKey] = ['one', 'another'].map((name) => spawnSync(hearth, ['key', 'new', '--name', name, '--file', keys], { encoding: 'utf8' }).stdout.trim())
const redis = await makeRedis({ work: join(work, 'redis') })
await redis.start()
let cKeepsStreams = true
const fleet = await makeFleet({
  hearth, work: join(work, 'nodes'), names: ['a', 'b', 'c'], models: () => ['slow=stub:delay_us=10000', 'slower=stub:delay_us=30000', 'fast=stub:'], isListed: false,
  own: (name) => (name === 'c' && !cKeepsStreams ? ['--stream-keep-ms', '0'] : []),
  args: ['--fleet-store', `redis://127.0.0.1:${redis.port}`, '--keep-alive-ms', '200', '--keys', keys],
})
const [a, b, c] = fleet
const allUp = async () => {
  for (const node of fleet) if (!node.server) await node.start()
  await untilUp(fleet)
}
await allUp()

const mine = { authorization: `Bearer ${oneKey}` }
const say = async (node, method, path, body, key = oneKey) => {
  const reply = await ask({ port: node.port, key }, method, path, body && JSON.stringify(body))
  return { ...reply, body: reply.headers['content-type']?.startsWith('application/json') ? JSON.parse(reply.text) : null }
}
const kinds = {
  '/v1/chat/completions': { model: 'slow', messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 150, temperature: 0, ignore_eos: true, stream: true },
  '/v1/completions': { model: 'slow', prompt: 'Once', n: 2, max_tokens: 100, seed: 7, ignore_eos: true, stream: true },
  '/v1/messages': { model: 'slow', messages: [{ role: 'user', content: 'A tale.' }], max_tokens: 150, temperature: 0, stream: true },
  '/completion': { model: 'slow', prompt: 'It was', n_predict: 150, seed: 3, ignore_eos: true, stream: true },
}
const calm = {}
for (const [path, body] of Object.entries(kinds)) calm[path] = (await say(b, 'POST', path, body)).text
const isSame = (path, reader) => {
  assert.equal(reader.error, null)
  assert.notEqual(compare(calm[path], reader.text, true), 'different', `calm: ${calm[path]}\nhere: ${reader.text}`)
}
const sumOf = async (nodes, name) => (await Promise.all(nodes.map((node) => node.metrics()))).reduce((sum, text) => sum + metric(text, name), 0)
const takenBy = (...nodes) => sumOf(nodes, 'hearth_fleet_journals_taken_total')
const writtenBy = (...nodes) => sumOf(nodes, 'hearth_fleet_journals')
const others = (node) => () => fleet.filter((one) => one !== node)

await check('the entry is killed, and all its kept streams go on elsewhere, with no byte lost or doubled', async () => {
  const readers = Object.entries(kinds).flatMap(([path, body]) => [0, 1].map(() => ({ path, body: JSON.stringify(body), reader: makeReader() })))
  const begun = readers.map(({ path, body, reader }) => reader.begin(a, path, body, null, mine))
  await until('all streams run', () => readers.every(({ reader }) => reader.last > 10))
  await a.kill()
  for (const result of await Promise.all(begun)) assert.equal(result.isWhole, false)
  await Promise.all(readers.map(({ reader }) => reader.finish(others(a), mine)))
  for (const { path, reader } of readers) isSame(path, reader)
  assert.ok((await takenBy(b, c)) >= 8)
  await allUp()
})

await check('a client moves its stream from node to node, also while its entry lives', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader()
  await reader.begin(a, path, JSON.stringify(kinds[path]), () => reader.last >= 10, mine)
  for (const [node, till] of [[b, 30], [c, 50], [b, 60], [a, 80]]) {
    const result = await reader.goOn(node, () => reader.last >= till, mine)
    assert.ok(reader.last >= till, `${node.name}: ${result.status} ${result.text}`)
  }
  await reader.finish(() => [c], mine)
  isSame(path, reader)
  await until('nobody writes for two', async () => (await writtenBy(a)) === 0)
})

await check('a stream that has ended is read at any node, after its entry died, by its key alone', async () => {
  await allUp()
  const path = '/v1/messages', reader = makeReader()
  await reader.begin(a, path, JSON.stringify(kinds[path]), null, mine)
  isSame(path, reader)
  await a.kill()
  const other = await say(b, 'GET', `/v1/streams/${reader.id}`, undefined, anotherKey)
  const unknown = await say(b, 'GET', `/v1/streams/${'0'.repeat(32)}`)
  assert.equal(other.status, 404, other.text)
  assert.equal(other.text.replace(reader.id, '?'), unknown.text.replace('0'.repeat(32), '?'))
  const again = makeReader()
  again.id = reader.id
  await again.finish(() => [b], mine)
  assert.equal(again.text, reader.text)
  assert.equal((await say(b, 'DELETE', `/v1/streams/${reader.id}`)).status, 204)
  for (const node of [b, c]) assert.equal((await say(node, 'GET', `/v1/streams/${reader.id}`)).status, 404)
  await allUp()
})

await check('lines of JSON go on, too', async () => {
  await allUp()
  const body = { model: 'slow', messages: [{ role: 'user', content: 'Lines' }], stream: true, options: { num_predict: 150, temperature: 0 } }
  const textOf = (text) => text.trim().split('\n').map((line) => JSON.parse(line).message?.content ?? '').join('')
  const calmText = textOf((await say(b, 'POST', '/api/chat', body)).text)
  const { id, text } = await new Promise((resolve, reject) => {
    const request = http.request({
      host: '127.0.0.1', port: a.port, method: 'POST', path: '/api/chat', headers: { ...mine, 'content-type': 'application/json', 'x-hearth-resume': '1' },
    }, (response) => {
      let got = ''
      response.setEncoding('utf8').on('error', () => {})
      response.on('data', (piece) => {
        got += piece
        if (got.split('\n').length < 20) return
        request.destroy()
        resolve({ id: response.headers['x-hearth-stream'], text: got.slice(0, got.lastIndexOf('\n') + 1) })
      })
    })
    request.on('error', reject)
    request.end(JSON.stringify(body))
  })
  await a.kill()
  const rest = await say(b, 'GET', `/v1/streams/${id}?after=${text.split('\n').length - 1}`)
  assert.equal(rest.status, 200, rest.text)
  assert.equal(textOf(text + rest.text), calmText)
  await allUp()
})

// A request whose reply has n tokens: one that ends by itself is passed over.
const story = async (n) => {
  for (let i = 0; i < 500; i++) {
    const body = { input: `Tell me story ${i}.`, temperature: 0, max_output_tokens: n }
    const reply = await say(b, 'POST', '/v1/responses', { ...body, model: 'fast', store: false })
    if (reply.body.status === 'incomplete') return { ...body, model: 'slow' }
  }
  throw new Error(`no reply has ${n} tokens`)
}
const begin = async (node, n, more) => {
  const { status, body, text } = await say(node, 'POST', '/v1/responses', { ...(await story(n)), ...more, background: true })
  assert.equal(status, 200, text)
  assert.match(body.status, /^(queued|in_progress)$/)
  return body.id
}
const textOf = ({ body }) => body.output.flatMap((item) => item.content ?? []).map((part) => part.text).join('')
const stateAt = (node, id) => say(node, 'GET', `/v1/responses/${id}`)
const untilDone = async (node, id) => {
  let last
  await until(`${id} is complete at ${node.name}`, async () => !/^(queued|in_progress)$/.test((last = await stateAt(node, id)).body?.status ?? 'in_progress'))
  return last
}

await check('a background response of a dead node is completed by another, and known and continued at all', async () => {
  await allUp()
  const calmText = textOf(await say(b, 'POST', '/v1/responses', await story(150)))
  const id = await begin(a, 150)
  for (const node of [b, c]) await until('others see it run', async () => (await stateAt(node, id)).body?.status === 'in_progress')
  assert.equal((await say(b, 'GET', `/v1/responses/${id}`, undefined, anotherKey)).status, 404)
  await sleep(300)
  await a.kill()
  const done = await untilDone(b, id)
  assert.equal(done.body.status, 'incomplete', done.text)
  assert.equal(textOf(done), calmText)
  assert.equal(textOf(await untilDone(c, id)), calmText)
  const next = await say(c, 'POST', '/v1/responses', { model: 'slow', input: 'Go on.', previous_response_id: id, max_output_tokens: 5 })
  assert.equal(next.status, 200, next.text)
  assert.equal(next.body.previous_response_id, id)
  const items = await say(c, 'GET', `/v1/responses/${next.body.id}/input_items`)
  assert.ok(items.body.data.length >= 3, items.text)
  await allUp()
  assert.equal(textOf(await stateAt(a, id)), calmText)
  assert.equal((await say(a, 'POST', '/v1/responses', { model: 'slow', input: 'And on.', previous_response_id: next.body.id, max_output_tokens: 5 })).status, 200)
  assert.equal((await say(b, 'DELETE', `/v1/responses/${id}`)).status, 200)
})

await check('nobody asks for a background response of a dead node, and it is completed', async () => {
  await allUp()
  const before = await takenBy(b, c)
  const ids = await Promise.all([0, 1, 2, 3].map(() => begin(a, 200)))
  await sleep(200)
  await a.kill()
  await until('others took them', async () =>
    (await takenBy(b, c)) >= before + 4)
  for (const id of ids) assert.equal((await untilDone(c, id)).body.status, 'incomplete')
  await allUp()
})

await check('a response is cancelled, and another removed, at a node where they do not run', async () => {
  await allUp()
  const [one, two] = [await begin(a, 200), await begin(a, 200)]
  const reply = await say(b, 'POST', `/v1/responses/${one}/cancel`)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.body.status, 'cancelled')
  const gone = await say(c, 'DELETE', `/v1/responses/${two}`)
  assert.equal(gone.status, 200, gone.text)
  for (const node of fleet) {
    await until(`${node.name} knows`, async () => (await stateAt(node, one)).body?.status === 'cancelled' && (await stateAt(node, two)).status === 404)
  }
  await until('nothing runs', async () => (await writtenBy(a, b, c)) === 0)
})

await check('a response whose stream is kept is read, too, at any node', async () => {
  await allUp()
  const reader = makeReader()
  await reader.begin(a, '/v1/responses', JSON.stringify({ model: 'fast', input: 'Hi', max_output_tokens: 5, stream: true }), null, mine)
  const id = /"id":"(resp_\w+)"/.exec(reader.text)[1]
  for (const node of fleet) {
    const reply = await stateAt(node, id)
    assert.equal(reply.status, 200, `${node.name}: ${reply.text}`)
    assert.match(reply.body.status, /^(completed|incomplete)$/)
  }
})


await check('a response is cancelled where it runs, and is not begun again for that', async () => {
  await allUp()
  const before = await takenBy(a)
  const id = await begin(a, 200)
  assert.equal((await say(a, 'POST', `/v1/responses/${id}/input_items`)).status, 405)
  assert.equal((await say(b, 'POST', `/v1/responses/${id}/input_items`)).status, 405)
  assert.equal((await say(a, 'POST', `/v1/responses/${id}/cancel`)).body.status, 'cancelled')
  assert.equal(await takenBy(a), before)
  await until('nothing runs', async () => (await writtenBy(a)) === 0)
  assert.equal((await stateAt(b, id)).body.status, 'cancelled')
})

await check('two readers that come at once take a stream once', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader(), before = await takenBy(b)
  await reader.begin(a, path, JSON.stringify(kinds[path]), () => reader.last >= 10, mine)
  await a.kill()
  const both = [1, 2, 3].map(() => Object.assign(makeReader(), { id: reader.id }))
  await Promise.all(both.map((one) => one.goOn(b, null, mine)))
  await reader.finish(() => [b], mine)
  isSame(path, reader)
  assert.equal(await takenBy(b), before + 1)
  await allUp()
})

await check('a response that ends while the store is away does not seem to run when it is back', async () => {
  await allUp()
  const before = await Promise.all(fleet.map((node) => takenBy(node)))
  const id = await begin(a, 150, { model: 'slower' })
  await sleep(300)
  redis.pause()
  await until('the store is down', async () => !(await a.page()).store.up)
  assert.equal((await untilDone(a, id)).body.status, 'incomplete')
  redis.resume()
  await until('the store is up for all', async () => (await Promise.all(fleet.map(async (node) => (await node.page()).store.up))).every((isUp) => isUp))
  assert.equal((await untilDone(a, id)).body.status, 'incomplete')
  assert.deepEqual(await Promise.all(fleet.map((node) => takenBy(node))), before)
})

await check('a response with a request too long for a journal has not failed for others while it runs', async () => {
  await allUp()
  const body = JSON.stringify({ ...(await story(150)), background: true }).padEnd(13 << 20)
  const { status, text } = await ask({ port: a.port, key: oneKey }, 'POST', '/v1/responses', body)
  assert.equal(status, 200, text)
  const { id } = JSON.parse(text)
  await sleep(200)
  const meanwhile = await stateAt(b, id)
  assert.equal(meanwhile.status, 404, meanwhile.text)
  assert.equal((await untilDone(a, id)).body.status, 'incomplete')
  assert.equal((await stateAt(b, id)).body.status, 'incomplete')
})

await check('a stream is dropped at a node where it does not run, which does not take it for that', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader(), before = await Promise.all(fleet.map((node) => takenBy(node)))
  await reader.begin(a, path, JSON.stringify(kinds[path]), () => reader.last > 5, mine)
  assert.equal((await say(b, 'DELETE', `/v1/streams/${reader.id}`, undefined, anotherKey)).status, 404)
  assert.equal((await say(b, 'DELETE', `/v1/streams/${reader.id}`)).status, 204)
  for (const node of [b, c]) assert.equal((await say(node, 'GET', `/v1/streams/${reader.id}`)).status, 404)
  await until('the entry knows', () => say(a, 'GET', `/v1/streams/${reader.id}`).then(({ status }) => status === 404, () => false)) // it is cut first
  const id = await begin(a, 150)
  for (const method of ['GET', 'DELETE']) assert.equal((await say(b, method, `/v1/streams/${id.slice(5)}`)).status, 404)
  assert.equal((await untilDone(a, id)).body.status, 'incomplete')
  assert.deepEqual(await Promise.all(fleet.map((node) => takenBy(node))), before)
})

await check('a node that cannot keep a stream does not take it from its entry', async () => {
  await allUp()
  await c.stop()
  cKeepsStreams = false
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader(), before = await Promise.all(fleet.map((node) => takenBy(node)))
  await reader.begin(a, path, JSON.stringify(kinds[path]), () => reader.last > 5, mine)
  const refused = await say(c, 'GET', `/v1/streams/${reader.id}`)
  assert.equal(refused.status, 503, refused.text)
  assert.equal((await say(c, 'GET', `/v1/streams/${'0'.repeat(32)}`)).status, 404)
  await reader.finish(() => [a], mine)
  isSame(path, reader)
  assert.deepEqual(await Promise.all(fleet.map((node) => takenBy(node))), before)
  await c.stop()
  cKeepsStreams = true
  await allUp()
})

await check('an entry that is stopped leaves what it has not finished to others', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader()
  const long = { ...kinds[path], max_tokens: 400 }
  const calmLong = (await say(b, 'POST', path, long)).text
  const begun = reader.begin(a, path, JSON.stringify(long), null, mine)
  const id = await begin(a, 200)
  await until('it runs', () => reader.last > 20)
  a.server.child.kill('SIGTERM')
  await sleep(100)
  a.server.child.kill('SIGTERM') // now
  await a.server.ended
  a.server = null
  await begun
  await reader.finish(others(a), mine)
  assert.equal(reader.error, null)
  assert.notEqual(compare(calmLong, reader.text, true), 'different')
  assert.equal((await untilDone(b, id)).body.status, 'incomplete')
  await allUp()
})

await check('without the store streams run as before, and new ones with it go on elsewhere again', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader()
  const begun = reader.begin(a, path, JSON.stringify(kinds[path]), null, mine)
  await until('it runs', () => reader.last > 5)
  await redis.kill()
  assert.equal((await begun).isWhole, true)
  isSame(path, reader)
  const lone = makeReader()
  await lone.begin(a, path, JSON.stringify(kinds[path]), () => lone.last > 5, mine)
  assert.equal((await say(b, 'GET', `/v1/streams/${lone.id}`)).status, 404)
  await lone.finish(() => [a], mine)
  isSame(path, lone)
  await redis.start()
  await until('the store is up for all', async () => (await Promise.all(fleet.map(async (node) => (await node.page()).store.up))).every((isUp) => isUp))
  const again = makeReader()
  const last = again.begin(a, path, JSON.stringify(kinds[path]), null, mine)
  await until('it runs', () => again.last > 5)
  await a.kill()
  await last
  await again.finish(others(a), mine)
  isSame(path, again)
  await allUp()
})

await check('what lies in the store tells nothing, and garbage there costs nothing', async () => {
  await allUp()
  const path = '/v1/chat/completions', reader = makeReader()
  const secret = 'Zanzibar is the word that nobody may see.'
  const prefix = `hearth:1:{${(await a.page()).certificate.slice(0, 16)}}:stream:`
  const names = async () => new Set((await redis.ask('KEYS', `${prefix}*`)).match(/hearth:1:\{\w+\}:stream:\w+/g))
  const before = await names()
  const begun = reader.begin(a, path, JSON.stringify({ ...kinds[path], messages: [{ role: 'user', content: secret }] }), null, mine)
  await until('it runs', () => reader.last > 5)
  const [found] = [...(await names())].filter((name) => !before.has(name))
  const list = await redis.ask('LRANGE', found, '0', '-1')
  assert.ok(list.length > 100 && !list.includes('Zanzibar') && !list.includes(reader.id))
  await redis.ask('LSET', found, '1', 'garbage')
  await a.kill()
  await begun
  assert.equal((await say(b, 'GET', `/v1/streams/${reader.id}`)).status, 404)
  await allUp()
})

for (const node of fleet) await node.stop()
await redis.kill()
finish()
