// fleet.mjs - what people do with a fleet: a check for each sentence of docs/fleet.md; started by tests/e2e/fleet_test.sh
//
// HEARTH is the program, WORK an empty directory, MODEL a small model, FLEET_KEYS a file with keys and FLEET_KEY a key in
// it. SERVER_URL is not used.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { answers } from '../chaos/answers.mjs'
import { assert, check, finish } from '../clients/checks.mjs'
import { makeFleet, until, untilUp } from './nodes.mjs'
import { ask, childrenOf, sleep } from '../support/server.mjs'

const { HEARTH: hearth, WORK: work, MODEL: tiny } = process.env
const slow = 'slow=stub:delay_us=20000'
const stepMs = 20 // of an evaluation, however many tokens it has
const steps = `stub:step_us=${1000 * stepMs}`
const run = (...args) => spawnSync(hearth, args, { encoding: 'utf8' })
const post = async (node, path, body, key) => {
  const reply = await ask({ port: node.port, key }, 'POST', path, JSON.stringify(body))
  return { ...reply, body: reply.text.startsWith('{') ? JSON.parse(reply.text) : null }
}
const logOf = (node) => readFileSync(node.log, 'utf8')

// A stream of 100 tokens whose node is known: onHead is called with it after some events. Resolves to its text.
const stream = (node, prompt, onHead) =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({ model: 'slow', prompt, max_tokens: 100, temperature: 0, ignore_eos: true, stream: true })
    const request = http.request({ host: '127.0.0.1', port: node.port, method: 'POST', path: '/v1/completions', headers: { 'content-type': 'application/json' } }, (response) => {
      let text = ''
      let isTold = false
      response.on('data', (piece) => {
        text += piece
        if (isTold || text.split('data: ').length < 10) return
        isTold = true
        Promise.resolve(onHead(response.headers['x-hearth-node'])).catch(reject)
      })
      response.on('end', () => resolve(text))
      response.on('aborted', () => reject(new Error(`the stream was cut: ${text.slice(-200)}`)))
    })
    request.on('error', reject)
    request.end(body)
  })
const textOf = (events) =>
  [...events.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json).choices[0].text).join('')
const whole = async (node, prompt) =>
  (await post(node, '/v1/completions', { model: 'slow', prompt, max_tokens: 100, temperature: 0, ignore_eos: true })).body.choices[0].text
// A prompt whose beginning leads from node to this other node; another one for each number.
const promptFor = async (node, other, number = 0) => {
  for (let i = 64 * number; i < 64 * (number + 1); i++) {
    const prompt = `Prompt ${i}`
    const reply = await post(node, '/v1/completions', { model: 'slow', prompt, max_tokens: 1, temperature: 0 })
    if (reply.headers['x-hearth-node'] === other.name) return prompt
  }
  throw new Error(`no prompt leads from ${node.name} to ${other.name}`)
}

const [a, b] = await makeFleet({
  hearth, work: join(work, 'one'), names: ['a', 'b'],
  models: (name) => (name === 'a' ? [slow, `steps=${steps}`, `only-a=${tiny}`] : [slow, `steps=${steps}`, `steps-b=${steps}`, 'only-b=stub:']), args: ['--keep-alive-ms', '200'],
})

await check('init makes a file for its owner alone, and replaces none', async () => {
  const again = run('fleet', 'init', '--file', join(work, 'one', 'fleet.pem'))
  assert.equal(again.status, 1)
  assert.match(again.stderr, /fleet.pem' exists already/)
  const refused = run('serve', '-m', slow, '--fleet', join(work, 'none.pem'), '--check')
  assert.equal(refused.status, 1)
  assert.match(refused.stderr, /cannot read the fleet's file/)
  assert.match(run('serve', '-m', slow, '--fleet-peer', '127.0.0.1:1', '--check').stderr, /a fleet needs its file: 'hearth fleet init' makes it/)
  assert.match(run('serve', '-m', slow, '--fleet', join(work, 'one', 'fleet.pem'), '--fleet-peer', '127.0.0.1', '--check').stderr, /must be HOST:PORT/)
})

await check('a node serves alone until others come', async () => {
  await a.start()
  const reply = await post(a, '/v1/completions', { model: 'slow', prompt: 'Hi', max_tokens: 1 })
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['x-hearth-node'], 'a')
  assert.equal((await a.page()).nodes[0].state, 'down')
  await b.start()
  await untilUp([a, b])
})

await check('every node has the models of all', async () => {
  for (const node of [a, b]) {
    const list = JSON.parse((await ask({ port: node.port }, 'GET', '/v1/models')).text).data.map(({ id }) => id).sort()
    assert.deepEqual(list, ['only-a', 'only-b', 'slow', 'steps', 'steps-b'])
    for (const [model, owner] of [['only-a', 'a'], ['only-b', 'b']]) {
      const reply = await post(node, '/v1/completions', { model, prompt: 'Once upon', max_tokens: 2 })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers['x-hearth-node'], owner)
    }
    // Not only replies in frames.
    assert.equal((await post(node, '/tokenize', { model: 'only-a', content: 'fox' })).body.tokens.length > 0, true)
    const none = await post(node, '/v1/embeddings', { model: 'only-b', input: 'x' })
    assert.equal(none.status, 200, none.text)
  }
})

await check('a wrong request is refused by the other node as by this one', async () => {
  const own = await post(a, '/v1/completions', { model: 'only-a', prompt: 'x', temperature: 'hot' })
  const others = await post(b, '/v1/completions', { model: 'only-a', prompt: 'x', temperature: 'hot' })
  assert.equal(own.status, 400)
  assert.equal(others.status, 400)
  assert.deepEqual(others.body, own.body)
})

await check('a conversation stays at its node', async () => {
  const first = { role: 'user', content: 'Tell me of rivers, please.' }
  const seen = new Set()
  for (const messages of [[first], [first, { role: 'assistant', content: 'They flow.' }, { role: 'user', content: 'Where?' }]])
    for (const node of [a, b])
      seen.add((await post(node, '/v1/chat/completions', { model: 'slow', messages, max_tokens: 2 })).headers['x-hearth-node'])
  assert.equal(seen.size, 1, [...seen].join())
})

await check('a stream goes on when the worker of its node dies', async () => {
  const prompt = await promptFor(a, b)
  const expected = await whole(b, prompt)
  const events = await stream(a, prompt, () => childrenOf(b.server.pid).forEach((pid) => process.kill(pid, 'SIGKILL')))
  assert.equal(textOf(events), expected)
  assert.match(events, /data: \[DONE\]/)
  assert.match(logOf(a), /at node b broke/)
  await until('node b is whole again', async () => (await b.page()).self.models.every(({ state }) => state === 'ready'))
})

await check('a stream goes on when its node is killed, and the node comes back', async () => {
  await untilUp([a, b])
  const prompt = await promptFor(a, b)
  const expected = await whole(b, prompt)
  const events = await stream(a, prompt, () => b.kill())
  assert.equal(textOf(events), expected)
  assert.match(events, /data: \[DONE\]/)
  await until('a sees it', async () => (await a.page()).nodes[0].state === 'down')
  const gone = await ask({ port: a.port }, 'GET', '/v1/models')
  assert.doesNotMatch(gone.text, /only-b/)
  await b.start()
  await untilUp([a, b])
})

await check('another node reads what is known of a reply in chunks, and its own token by token', async () => {
  const killWorkers = (node) => childrenOf(node.server.pid).forEach((pid) => process.kill(pid, 'SIGKILL'))
  const prompts = [await promptFor(a, b, 1), await promptFor(a, b, 2)] // of the second, no node knows a reply
  // A reply that is broken off at these tokens, in these ways; its longest pause, in evaluations.
  const pauseOf = async (model, prompt, breaks) => {
    const body = JSON.stringify({ model, prompt, max_tokens: 200, temperature: 0, ignore_eos: true, stream: true })
    let n = 0
    const [reply] = await answers(a.port, [{ path: '/v1/completions', body }], 1, (_, isOver) => isOver || breaks[++n]?.())
    assert.match(reply.text, /data: \[DONE\]/)
    assert.equal(reply.node, 'b')
    return reply.pauseMs / stepMs
  }
  const own = await pauseOf('steps-b', prompts[0], { 100: () => killWorkers(b) })
  assert.ok(own >= 95, `${own} evaluations for 100 tokens of this node`)
  const moved = await pauseOf('steps', prompts[0], { 100: () => b.kill() })
  assert.ok(moved < 60, `${moved} evaluations for 100 tokens of another node`)
  await b.start()
  await untilUp([a, b])
  const both = await pauseOf('steps', prompts[1], { 100: () => b.kill(), 150: () => killWorkers(a) })
  assert.ok(both >= 45 && both < 95, `${both} evaluations for 100 tokens of another node and 50 of this one`)
  await b.start()
  await untilUp([a, b])
})

await check('a request for a model whose node is away waits for it', async () => {
  await b.kill()
  await until('a sees it', async () => (await a.page()).nodes[0].state === 'down')
  const waits = post(a, '/v1/completions', { model: 'only-b', prompt: 'Once', max_tokens: 2 })
  await sleep(300)
  await b.start()
  const reply = await waits
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-hearth-node'], 'b')
  await untilUp([a, b])
})

await check('an order drains a node: its replies go on elsewhere, and it takes none', async () => {
  const prompt = await promptFor(a, b)
  const expected = await whole(b, prompt)
  const events = await stream(a, prompt, async (node) => {
    assert.equal(node, 'b')
    const order = run('fleet', 'drain', 'b', '--url', `http://127.0.0.1:${a.port}`)
    assert.equal(order.status, 1) // the public address needs an operator's key
    assert.equal((await a.order({ drain: 'b' })).status, 202)
  })
  assert.equal(textOf(events), expected)
  assert.match(logOf(a), /moves away from node b/)
  await until('b drains', async () => (await a.sees(b)) === 'draining')
  const waited = run('fleet', 'drain', 'b', '--wait', '--url', `unix:${join(work, 'one', 'a', 'admin.sock')}`)
  assert.equal(waited.status, 0, waited.stderr)
  assert.match(waited.stdout, /^node 'b' has no requests at work$/m)
  assert.equal((await post(a, '/v1/completions', { model: 'slow', prompt, max_tokens: 1 })).headers['x-hearth-node'], 'a')
  assert.equal((await post(b, '/v1/completions', { model: 'slow', prompt, max_tokens: 1 })).headers['x-hearth-node'], 'a')
  // What no other node has stays there.
  assert.equal((await post(b, '/v1/completions', { model: 'only-b', prompt, max_tokens: 1 })).headers['x-hearth-node'], 'b')
  assert.equal((await a.order({ undrain: 'b' })).status, 202)
  await until('b is up', async () => (await a.sees(b)) === 'up')
  assert.equal((await a.order({ drain: 'nobody' })).status, 404)
  assert.equal((await a.order({})).status, 400)
})

await check('a node that ends in order hands its replies on', async () => {
  const prompt = await promptFor(a, b)
  const expected = await whole(b, prompt)
  const events = await stream(a, prompt, () => void b.stop())
  assert.equal(textOf(events), expected)
  await until('b has ended', async () => (await a.page()).nodes[0].state === 'down')
})

await check('another fleet, another protocol and a second node of a name are told, and get nothing', async () => {
  const [c] = await makeFleet({ hearth, work: join(work, 'two'), names: ['c'], models: () => [slow] })
  const port = /listening for other nodes on 127.0.0.1, port (\d+)/
  await c.start()
  await a.stop()
  const [d] = await makeFleet({
    hearth, work: join(work, 'three'), names: ['d'], models: () => [slow],
    args: ['--fleet-peer', `localhost:${port.exec(c.server.log)[1]}`],
  })
  await d.start()
  await until('d sees that it is strange', async () => (await d.page()).nodes[0]?.state === 'strange')
  assert.match((await d.page()).nodes[0].why, /certificate of another fleet, .*all nodes need the same fleet.pem/)
  await c.stop()
  await d.stop()
  const [e] = await makeFleet({ hearth, work: join(work, 'one-more'), names: ['e'], models: () => [slow] })
  await e.start()
  const own = port.exec(e.server.log)[1]
  const twin = run('serve', '-m', slow, '--fleet', join(work, 'one-more', 'fleet.pem'), '--fleet-name', 'a b', '--check')
  assert.match(twin.stderr, /must be 1 to 64 letters, digits/)
  const [f] = await makeFleet({
    hearth, work: join(work, 'twin'), names: ['f'], models: () => [slow],
    args: ['--fleet', join(work, 'one-more', 'fleet.pem'), '--fleet-name', 'e', '--fleet-peer', `127.0.0.1:${own}`],
  })
  await f.start()
  await until('f sees its name there', async () => (await f.page()).nodes.some(({ state }) => state === 'strange'))
  assert.match((await f.page()).nodes.find(({ state }) => state === 'strange').why, /the name 'e', which this node has, too/)
  await f.stop()
  await e.stop()
})

await check('models that differ are not mixed', async () => {
  writeFileSync(join(work, 'voice'), 'stub-adapter 7')
  const [i, j] = await makeFleet({
    hearth, work: join(work, 'unlike'), names: ['i', 'j'],
    // Names of one node that mean the model of the other, by the rules for names.
    models: (name) => (name === 'i' ? ['m=stub:'] : ['m=stub:', 'm:latest=stub:', 'x/m=stub:']),
    own: (name) => (name === 'i' ? ['--lora', `voice=${join(work, 'voice')}`] : ['--chat-template', 'alpaca']),
  })
  await i.start()
  await j.start()
  await untilUp([i, j])
  const ids = JSON.parse((await ask({ port: i.port }, 'GET', '/v1/models')).text).data.map(({ id }) => id).sort()
  assert.deepEqual(ids, ['m', 'm:latest', 'voice', 'x/m'])
  for (let k = 0; k < 12; k++) {
    const prompt = `Prompt ${k}`
    // Another template: another model. An adapter of one node: only there.
    for (const [node, model] of [[i, 'm'], [j, 'm'], [i, 'voice']])
      assert.equal((await post(node, '/v1/completions', { model, prompt, max_tokens: 1 })).headers['x-hearth-node'], node.name)
    assert.equal((await post(j, '/v1/completions', { model: 'voice', prompt, max_tokens: 1 })).headers['x-hearth-node'], 'i')
  }
  // So a node that drains keeps its replies where no other could go on.
  assert.equal((await i.order({ drain: 'i' })).status, 202)
  assert.equal((await post(i, '/v1/completions', { model: 'm', prompt: 'Hi', max_tokens: 1 })).headers['x-hearth-node'], 'i')
  await i.stop()
  await j.stop()
})

await check('with same_bits a reply goes on only where it comes out the same', async () => {
  const fleet = await makeFleet({
    hearth, work: join(work, 'bits'), names: ['d', 'e', 'f', 'g'], models: (name) => (name === 'd' ? ['none=stub:'] : [`${slow},short=2048`]),
    args: ['--fleet-same-bits', '--fleet-policy', 'hash', '--wait-timeout-ms', '3s', '--keep-alive-ms', '200'], own: (name) => ['-c', name === 'g' ? '4096' : '2048'], // with more, its cells are of another kind
  })
  const [d, e, f, g] = fleet
  for (const node of fleet) await node.start()
  await untilUp(fleet)
  const prompt = await promptFor(d, e), expected = await whole(e, prompt)
  let then
  const events = await stream(d, prompt, async (name) => {
    assert.equal(name, 'e')
    await e.kill()
    await until('it runs elsewhere', async () => (then = (await Promise.all([f, g].map(async (node) => ((await node.page()).self.models[0].at_work > 0 ? node.name : ''))).then((names) => names.join('')))))
  })
  assert.equal(then, 'f')
  assert.equal(textOf(events), expected)
  assert.match(logOf(d), /goes on in another worker of model 'slow' at node f/)
  await e.start()
  await untilUp(fleet)
  const alone = await stream(d, await promptFor(d, g), (name) => {
    assert.equal(name, 'g')
    return g.kill()
  })
  assert.match(alone, /"error"/) // and not a word of another node
  assert.doesNotMatch(alone, /\[DONE\]/)
  for (const node of [d, e, f]) await node.stop()
})

await check('a member asks for replies only, and nobody else for anything', async () => {
  const [k] = await makeFleet({ hearth, work: join(work, 'member'), names: ['k'], models: () => ['m=stub:'] })
  await k.start()
  const port = /listening for other nodes on 127.0.0.1, port (\d+)/.exec(k.server.log)[1]
  const pem = join(work, 'member', 'fleet.pem')
  const curl = (path, ...args) =>
    spawnSync('curl', ['-sk', '-m', '20', '-w', ' %{http_code}', `https://127.0.0.1:${port}${path}`, ...args], { encoding: 'utf8' }).stdout
  const asMember = (target, method = 'POST', ...more) =>
    curl('/fleet/ask', '--cert', pem, '--key', pem, '-X', 'POST', '-H', 'Hearth-Model: m', '-H', `Hearth-Method: ${method}`, '-H', `Hearth-Target: ${target}`, '-d', '{"content":"x","prompt":"x"}', ...more)
  assert.match(curl('/fleet/node', '--cert', pem, '--key', pem), /"name": *"k".* 200$/)
  assert.match(asMember('/tokenize'), /"tokens".* 200$/)
  for (const target of ['/lora-adapters', '/slots/0?action=erase', '/slots', '/admin/prefixes', '/admin/explain', '/tokenize?x=1', '//tokenize', 'tokenize'])
    assert.match(asMember(target), /nodes ask only for what models answer.* 400$/, target)
  assert.match(asMember('/tokenize', 'DELETE'), / 400$/)
  // A question for what is known of a prompt: of no prompt anything is.
  const question = ['-H', 'Hearth-Ask: history']
  assert.equal(asMember('/v1/completions', 'POST', ...question), ' 200')
  assert.match(asMember('/tokenize', 'POST', ...question), /nodes ask only for what models answer.* 400$/)
  assert.equal(curl('/fleet/node'), ' 000')
  assert.match(curl('/v1/models', '--cert', pem, '--key', pem), / 404$/)
  await k.stop()
})

await check('a client that reads slowly costs no connection between nodes', async () => {
  const [l, m] = await makeFleet({
    hearth, work: join(work, 'slow'), names: ['l', 'm'], models: (name) => (name === 'l' ? [slow] : ['far=stub:']), args: ['--ctx', '65536'],
  })
  await l.start()
  await m.start()
  await untilUp([l, m])
  const body = JSON.stringify({ model: 'far', prompt: 'Hi', max_tokens: 40000, temperature: 0, ignore_eos: true, stream: true })
  const text = await new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port: l.port, method: 'POST', path: '/v1/completions', headers: { 'content-type': 'application/json' } }, async (response) => {
      let tail = ''
      await sleep(5000) // more than a connection is given for its silence
      response.on('data', (piece) => (tail = (tail + piece).slice(-2000)))
      response.on('end', () => resolve(tail))
      response.on('aborted', () => reject(new Error(`cut: ${tail}`)))
    })
    request.on('error', reject)
    request.end(body)
  })
  assert.match(text, /data: \[DONE\]/)
  assert.doesNotMatch(logOf(l), /broke|moves away|goes on/)
  await l.stop()
  await m.stop()
})

await check('keys are asked for at the entry, and their salts go along', async () => {
  const { FLEET_KEYS: keys, FLEET_KEY: key } = process.env
  const [g, h] = await makeFleet({ hearth, work: join(work, 'keys'), names: ['g', 'h'], models: (name) => (name === 'g' ? [slow] : [`other=${tiny}`]), args: ['--keys', keys] })
  await g.start()
  await h.start()
  await untilUp([g, h])
  const prompt = 'Once upon a time there was a fox who lived by the old river and went over the hill each morning.'
  const ask3 = (key) => post(g, '/v1/completions', { model: 'other', prompt, max_tokens: 2, temperature: 0 }, key)
  assert.equal((await ask3()).status, 401)
  const first = await ask3(key)
  assert.equal(first.status, 200, first.text)
  assert.equal((await ask3(key)).body.cache.hit, 'exact')
  assert.equal((await ask3(process.env.OTHER_KEY)).body.cache.hit, 'none') // another salt
  await g.stop()
  await h.stop()
})

finish()
