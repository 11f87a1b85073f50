// store.mjs - a fleet that shares a Redis: nodes find each other, limits hold for all, and nothing depends on the store
//
// Started by tests/e2e/fleet_store_test.sh, with HEARTH and WORK as in fleet.mjs.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { assert, check, finish } from '../clients/checks.mjs'
import { ask, freePort, sleep } from '../support/server.mjs'
import { makeFleet, until, untilUp } from './nodes.mjs'
import { makeRedis } from './redis.mjs'

const { HEARTH: hearth, WORK: work } = process.env
const post = async (node, path, body, key) => {
  const reply = await ask({ port: node.port, key }, 'POST', path, JSON.stringify(body))
  return { ...reply, body: reply.text.startsWith('{') ? JSON.parse(reply.text) : null }
}
const complete = (node, prompt, more, key) => post(node, '/v1/completions', { model: 'slow', prompt, max_tokens: 2, ignore_eos: true, ...more }, key)
const logOf = (node) => readFileSync(node.log, 'utf8')
const storeOf = async (node) => (await node.page()).store
const untilStore = (nodes, isUp) =>
  until(`the store is ${isUp ? 'up' : 'down'} for all`, async () => {
    for (const node of nodes) if ((await storeOf(node)).up !== isUp) return false
    return true
  })
const models = () => ['slow=stub:delay_us=10000']

const redis = await makeRedis({ work: join(work, 'redis') })
await redis.start()
const url = `redis://127.0.0.1:${redis.port}`
const fleet = await makeFleet({
  hearth, work: join(work, 'one'), names: ['a', 'b', 'c'], models, isListed: false, args: ['--fleet-store', url, '--keep-alive-ms', '200'],
})
const [a, b, c] = fleet

await check('nodes find each other in the store, and one that comes later, too', async () => {
  await a.start()
  await b.start()
  await untilUp([a, b])
  await c.start()
  await until('a and b know c', async () => (await a.sees(c)) === 'up' && (await b.sees(c)) === 'up' && (await c.sees(a)) === 'up')
  const list = spawnSync(hearth, ['fleet', 'ls', '--url', `unix:${join(work, 'one', 'a', 'admin.sock')}`], { encoding: 'utf8' })
  assert.match(list.stdout, new RegExp(`^store 127.0.0.1:${redis.port}: up$`, 'm'))
  assert.match(list.stdout, /^c +127.0.0.1:\d+ +up/m)
  const seen = new Set()
  for (let i = 0; i < 60 && seen.size < 3; i++) seen.add((await complete(a, `Prompt ${i}`)).headers['x-hearth-node'])
  assert.deepEqual([...seen].sort(), ['a', 'b', 'c'])
  assert.match(await a.metrics(), /^hearth_store_up 1$/m)
  assert.match(await a.metrics(), /^hearth_store_lease 1$/m)
})

// A conversation of n turns.
const turns = (n) => [...Array(2 * n - 1).keys()].map((i) => ({ role: i % 2 ? 'assistant' : 'user', content: `${i} is a long story. `.repeat(15) }))
const chat = (node, messages) => post(node, '/v1/chat/completions', { model: 'slow', messages, max_tokens: 2, ignore_eos: true })
const why = async (node, messages) => JSON.parse((await node.order({ why: '/v1/chat/completions', body: JSON.stringify({ model: 'slow', messages }) })).text)

await check('what one node has read is known to all, and every node sends the next turn there', async () => {
  const first = await chat(a, turns(1))
  assert.equal(first.status, 200, first.text)
  const holder = first.headers['x-hearth-node']
  for (const node of [a, b, c])
    await until(`${node.name} knows`, async () => {
      const { places, policy } = await why(node, turns(2))
      assert.equal(policy, 'time')
      const best = places.find((place) => place.node === holder)
      return best?.chosen && best.cached_tokens > 100 && places.every((place) => place === best || place.cached_tokens === 0)
    })
  for (const [i, node] of [b, c, a, b].entries()) {
    const reply = await chat(node, turns(i + 2))
    assert.equal(reply.headers['x-hearth-node'], holder, `turn ${i + 2} at ${node.name}`)
    assert.equal(reply.status, 200, reply.text)
    assert.ok(reply.body.usage.prompt_tokens_details.cached_tokens > 0, JSON.stringify(reply.body.usage))
  }
  const metrics = await b.metrics()
  const value = (name) => Number(metrics.match(new RegExp(`^${name} (\\d+)$`, 'm'))?.[1])
  assert.ok(value('hearth_fleet_predicted_tokens_total') > 500, metrics.match(/hearth_fleet.*/g)?.join('\n'))
  assert.ok(value('hearth_fleet_cached_tokens_total') > 500, metrics.match(/hearth_fleet.*/g)?.join('\n'))
  const wrong = await b.order({ why: '/v1/models', body: '{}' })
  assert.equal(wrong.status, 400, wrong.text)
})

await check('a node that starts anew keeps its credit with its cache, and loses it without', async () => {
  const holder = (await chat(a, turns(1))).headers['x-hearth-node']
  const node = [a, b, c].find((one) => one.name === holder), other = node === a ? b : a
  const credit = async () => (await why(other, turns(2))).places.find((place) => place.node === holder)?.cached_tokens
  await node.stop()
  await node.start()
  await until('it is back with its credit', async () => (await credit()) > 100)
  await node.stop()
  rmSync(join(work, 'one', holder, 'cache'), { recursive: true })
  await node.start()
  await until('it is back without credit', async () => (await credit()) === 0)
  await untilUp([a, b, c])
})

await check('a node that ends leaves the store, and its next life is known at once', async () => {
  await c.stop()
  await until('c is down', async () => (await a.sees(c)) === 'down')
  assert.equal(await redis.ask('EXISTS', `hearth:1:{${(await a.page()).certificate.slice(0, 16)}}:node:c`), ':0\r\n')
  await c.start()
  await untilUp(fleet)
  await c.kill()
  await c.start() // its lease may still be there
  await untilUp(fleet)
})

await check('a lost store costs no request, and comes back', async () => {
  let nDone = 0
  let isOver = false
  const load = [a, b, c].map(async (node, i) => {
    for (let k = 0; !isOver; k++) {
      const reply = await complete(node, `Node ${i}, request ${k}`, { max_tokens: 20 })
      assert.equal(reply.status, 200, reply.text)
      nDone++
    }
  })
  await redis.kill()
  await untilStore(fleet, false)
  assert.match((await storeOf(a)).why, /./)
  assert.match(await a.metrics(), /^hearth_store_up 0$/m)
  const before = nDone
  await until('requests go on', () => nDone > before + 30)
  await sleep(2500) // all leases are old
  for (const node of fleet) for (const other of fleet) if (node !== other) assert.equal(await node.sees(other), 'up')
  await redis.start()
  await untilStore(fleet, true)
  await untilUp(fleet)
  redis.pause() // it hangs
  await untilStore(fleet, false)
  assert.match((await storeOf(a)).why, /does not answer/)
  redis.resume()
  await untilStore(fleet, true)
  isOver = true
  await Promise.all(load)
})

await check('a node that dies while the store is lost is noticed as without one', async () => {
  await redis.kill()
  await untilStore(fleet, false)
  await c.kill()
  await until('c is down', async () => (await a.sees(c)) === 'down')
  await c.start()
  assert.equal((await complete(c, 'Alone')).status, 200)
  await redis.start()
  await untilUp(fleet)
})

await check('a store that is full is told, and service goes on', async () => {
  await redis.ask('CONFIG', 'SET', 'maxmemory', '1')
  await until('the fault is told', async () => /OOM/.test((await storeOf(a)).why))
  await sleep(3500) // no lease is left
  assert.equal(await a.sees(b), 'up')
  assert.equal((await complete(a, 'Full')).status, 200)
  assert.match(logOf(a), /other nodes do not learn from the store that this node is there: OOM/)
  await redis.ask('CONFIG', 'SET', 'maxmemory', '0')
  await until('it is well again', async () => (await storeOf(a)).why === '')
})

await check('two nodes with one name: the second is told so, and serves alone', async () => {
  const [twin] = await makeFleet({ hearth, work: join(work, 'twin'), names: ['a'], models, isListed: false, args: ['--fleet-store', url, '--fleet', join(work, 'one', 'fleet.pem')] })
  await twin.start()
  await until('the twin is told', async () => /has the name 'a', too/.test((await storeOf(twin)).why))
  assert.equal((await complete(twin, 'Twin')).status, 200)
  assert.equal((await a.page()).nodes.some(({ name }) => name === 'a'), false)
  await twin.stop()
  assert.equal((await storeOf(a)).why, '')
})

await check('a node that listens at every address is found at the one from which it reaches the store', async () => {
  const port = await freePort()
  const [every] = await makeFleet({
    hearth, work: join(work, 'every'), names: ['w'], models, isListed: false,
    args: ['--fleet-store', url, '--fleet', join(work, 'one', 'fleet.pem'), '--fleet-listen', `0.0.0.0:${port}`],
  })
  await every.start()
  await untilUp([a, b, every])
  assert.ok((await a.page()).nodes.some(({ name, address }) => name === 'w' && address === `127.0.0.1:${port}`))
  await every.stop()
})

await check('a node that only the store reaches stays down', async () => {
  const { self, certificate } = await b.page()
  const prefix = `hearth:1:{${certificate.slice(0, 16)}}:`
  const port = await freePort() // nobody listens there
  const epoch = 'f'.repeat(32)
  let isOver = false
  const renew = (async () => {
    for (; !isOver; await sleep(300)) {
      await redis.ask('ZADD', `${prefix}nodes`, `${Date.now()}`, 'ghost')
      await redis.ask('SET', `${prefix}node:ghost`, `${epoch} 127.0.0.1:${port}\n${JSON.stringify({ ...self, name: 'ghost', epoch })}`, 'PX', '3000')
    }
  })()
  const ghost = async () => (await a.page()).nodes.find(({ name }) => name === 'ghost')
  await until('the store tells it', async () => (await ghost())?.state === 'up')
  let i = 0
  const send = async () => assert.equal((await complete(a, `Ghost ${i++}`)).status, 200)
  await until('a request finds that it does not answer', async () => (await send(), (await ghost()).state === 'down'))
  for (const end = Date.now() + 3000; Date.now() < end; await sleep(50)) {
    await send()
    assert.equal((await ghost()).state, 'down')
  }
  isOver = true
  await renew
  assert.equal(logOf(a).match(/node 'ghost' .* is up/g).length, 1)
})

await check('another fleet in the same store is not seen, and garbage does no harm', async () => {
  const [other] = await makeFleet({ hearth, work: join(work, 'other'), names: ['z'], models, isListed: false, args: ['--fleet-store', url] })
  await other.start()
  await untilStore([other], true)
  const prefix = `hearth:1:{${(await a.page()).certificate.slice(0, 16)}}:`
  await redis.ask('SET', `${prefix}node:bad`, 'no lease', 'PX', '3000')
  await redis.ask('SET', `${prefix}node:worse`, `${'0'.repeat(32)} 127.0.0.1:1\n{"protocol":`, 'PX', '3000')
  await redis.ask('ZADD', `${prefix}nodes`, `${Date.now()}`, 'bad', `${Date.now()}`, 'worse')
  await until('the garbage was read', async () => (await a.page()).nodes.some(({ address, state }) => address === '127.0.0.1:1' && state !== 'up'))
  assert.equal((await a.page()).nodes.some(({ name }) => name === 'z'), false)
  assert.deepEqual((await other.page()).nodes, [])
  assert.equal((await complete(a, 'Garbage')).status, 200)
  await other.stop()
})

await check('limits of a key hold for the whole fleet', async () => {
  const file = join(work, 'limits.conf')
  const [few, others] = ['few', 'others'].map((name) =>
    spawnSync(hearth, ['key', 'new', '--name', name, '--file', file, '--requests-per-minute', '6'], { encoding: 'utf8' }).stdout.trim())
  const two = await makeFleet({
    hearth, work: join(work, 'limits'), names: ['x', 'y'], models, isListed: false, args: ['--fleet-store', url, '--keys', file],
  })
  for (const node of two) await node.start()
  const seeEachOther = () => until('they see each other', async () => (await two[0].sees(two[1])) === 'up' && (await two[1].sees(two[0])) === 'up')
  await seeEachOther()
  // How many of 12 requests are taken? Each node alone would take 6, and so all.
  const taken = async (key, pauseMs) => {
    let n = 0
    for (let i = 0; i < 12; i++, await sleep(pauseMs)) {
      const { status, headers } = await complete(two[i % 2], `Limit ${i}`, {}, key)
      assert.ok(status === 200 || (status === 429 && Number(headers['retry-after']) >= 1), `${status}`)
      n += status === 200
    }
    return n
  }
  const n = await taken(few, 1300) // so that each request is told to the other node before the next one
  assert.ok(n >= 6 && n <= 8, `${n} requests were taken`) // one more in each ten seconds
  await redis.kill()
  await untilStore(two, false)
  await seeEachOther()
  await sleep(500) // a beat of the limits
  const nAlone = await taken(others, 0)
  assert.ok(nAlone >= 6 && nAlone <= 8, `${nAlone} requests were taken without the store`)
  for (const node of two) await node.stop()
  await redis.start()
})

for (const node of fleet) await node.stop()

await check('a store that refuses to be written is tried less and less often', async () => {
  const replica = await makeRedis({ work: join(work, 'readonly'), args: ['--replicaof', '127.0.0.1', `${redis.port}`] })
  await replica.start()
  const [node] = await makeFleet({ hearth, work: join(work, 'refused'), names: ['r'], models, isListed: false, args: ['--fleet-store', `redis://127.0.0.1:${replica.port}`] })
  await node.start()
  await until('it is told', async () => /READONLY/.test((await storeOf(node)).why))
  await sleep(4000)
  const n = logOf(node).match(/store at .* is up/g).length
  assert.ok(n <= 12, `it came up ${n} times`) // each pause is longer than the one before
  assert.equal((await complete(node, 'Read only')).status, 200)
  await node.stop()
  await replica.kill()
})

await check('a password, and a wrong one', async () => {
  const locked = await makeRedis({ work: join(work, 'locked'), password: 'let me in' })
  await locked.start()
  const [wrong, right, none] = await makeFleet({
    hearth, work: join(work, 'password'), names: ['wrong', 'right', 'none'], models, isListed: false,
    own: (name) => ({
      wrong: ['--fleet-store', `redis://:secret%21@127.0.0.1:${locked.port}`],
      right: ['--fleet-store', `redis://127.0.0.1:${locked.port}`, '--fleet-store-password', join(work, 'password.txt')],
      none: ['--fleet-store', `redis://127.0.0.1:${locked.port}/3`],
    })[name],
  })
  writeFileSync(join(work, 'password.txt'), 'let me in\n', { mode: 0o600 })
  for (const node of [wrong, right, none]) await node.start()
  await untilStore([right], true)
  assert.match((await storeOf(wrong)).why, /WRONGPASS/)
  assert.match((await storeOf(none)).why, /NOAUTH/)
  assert.doesNotMatch(logOf(wrong), /secret/)
  for (const node of [wrong, right, none]) await node.stop()
  await locked.kill()
})

await check('TLS to the store: a certificate of the authority, and another one', async () => {
  const openssl = (...args) => assert.equal(spawnSync('openssl', args, { cwd: work, encoding: 'utf8' }).status, 0, args.join(' '))
  for (const name of ['good', 'bad'])
    openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}.key`, '-out', `${name}.crt`, '-subj', '/CN=store', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2')
  const port = await freePort()
  const secure = await makeRedis({
    work: join(work, 'tls'),
    args: ['--tls-port', `${port}`, '--tls-cert-file', join(work, 'good.crt'), '--tls-key-file', join(work, 'good.key'), '--tls-ca-cert-file', join(work, 'good.crt'), '--tls-auth-clients', 'no'],
  })
  await secure.start()
  const [good, bad] = await makeFleet({
    hearth, work: join(work, 'secure'), names: ['good', 'bad'], models, isListed: false, args: ['--fleet-store', `rediss://127.0.0.1:${port}`],
    own: (name) => ['--fleet-store-authorities', join(work, `${name}.crt`)],
  })
  await good.start()
  await bad.start()
  await untilStore([good], true)
  await until('the other one says why', async () => /certificate is not accepted/.test((await storeOf(bad)).why))
  await good.stop()
  await bad.stop()
  await secure.kill()
})

await check('sentinels tell the primary, and the next one after a failover', async () => {
  // A sentinel that still names a primary that is gone. A second one knows better.
  const stale = net.createServer((socket) => socket.on('error', () => {}).on('data', () => socket.write('*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n')))
  const stalePort = await new Promise((resolve) => stale.listen(0, '127.0.0.1', () => resolve(stale.address().port)))
  const primary = await makeRedis({ work: join(work, 'primary') })
  await primary.start()
  const replica = await makeRedis({ work: join(work, 'replica'), args: ['--replicaof', '127.0.0.1', `${primary.port}`] })
  await replica.start()
  const sentinel = await makeRedis({ work: join(work, 'sentinel'), mode: ['--sentinel'] })
  await sentinel.start()
  await sentinel.ask('SENTINEL', 'MONITOR', 'ours', '127.0.0.1', `${primary.port}`, '1')
  await sentinel.ask('SENTINEL', 'SET', 'ours', 'down-after-milliseconds', '500', 'failover-timeout', '3000')
  await until('the sentinel knows the replica', async () => (await sentinel.ask('SENTINEL', 'REPLICAS', 'ours')).includes(`${replica.port}`))
  const nodes = await makeFleet({
    hearth, work: join(work, 'failover'), names: ['p', 'q'], models, isListed: false, args: ['--fleet-store', `redis-sentinel://127.0.0.1:1,127.0.0.1:${stalePort},127.0.0.1:${sentinel.port}/ours`],
  })
  for (const node of nodes) await node.start()
  await untilUp(nodes)
  await primary.kill()
  await until('the replica is the store', async () => {
    assert.equal((await complete(nodes[0], 'Failover')).status, 200)
    const store = await storeOf(nodes[0])
    return store.up && store.address === `127.0.0.1:${replica.port}`
  })
  await untilStore(nodes, true)
  await untilUp(nodes)
  for (const node of nodes) await node.stop()
  for (const one of [sentinel, replica]) await one.kill()
  stale.close()
})

await check('before the first answer of the store, a name may be that of a node which is not known yet', async () => {
  const sockets = new Set()
  let isSilent = true
  const server = net.createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
    socket.on('data', (data) => {
      const text = data.toString()
      for (const [word] of text.matchAll(/\b(SETNAME|PING|EVAL)\b/g))
        if (word !== 'EVAL') socket.write('+PONG\r\n')
        else if (!isSilent) socket.write('*1\r\n$0\r\n\r\n')
    })
  })
  const port = await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)))
  const [node] = await makeFleet({ hearth, work: join(work, 'young'), names: ['n'], models, isListed: false, args: ['--fleet-store', `redis://127.0.0.1:${port}`] })
  await node.start()
  const statusOf = async (model) => (await post(node, '/v1/completions', { model, prompt: 'Young', max_tokens: 2 })).status
  await until('an unknown name waits', async () => (await statusOf('elsewhere')) === 503)
  assert.equal(await statusOf('slow'), 200)
  isSilent = false
  await until('it means the default model', async () => (await statusOf('elsewhere')) === 200)
  await node.stop()
  sockets.forEach((socket) => socket.destroy())
  server.close()
})

await check('a program that is no store', async () => {
  const sockets = new Set()
  const server = net.createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
    socket.on('data', () => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))
  })
  const port = await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)))
  const [node] = await makeFleet({ hearth, work: join(work, 'none'), names: ['n'], models, isListed: false, args: ['--fleet-store', `redis://127.0.0.1:${port}`] })
  await node.start()
  await until('it is told', async () => /does not speak the protocol/.test((await storeOf(node)).why))
  assert.equal((await complete(node, 'No store')).status, 200)
  await node.stop()
  sockets.forEach((socket) => socket.destroy())
  server.close()
})

await redis.kill()
finish()
