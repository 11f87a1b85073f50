// dashboard_state.test.mjs - the events of the server become the state that the dashboard draws; run by node --test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  SECONDS, hitRate, lanes, lastSeconds, newState, queues, rates, speed, takeEvent, takeFleet, tiersOf,
} from '../../page/dashboard_state.js'
import { bytes, plural, rate, share, time } from '../../page/numbers.js'

const START = Date.parse('2026-11-23T18:00:00.000Z')
const at = (ms) => new Date(START + ms).toISOString()

const model = (name, more) => ({
  name, state: 'ready', residency: 'device', starts: 1, deaths: 0, memory_bytes: 1, waiting_requests: 1,
  running_requests: 5, scheduler: { parallel: 2, running: 2, waiting: 3, cells: 100, cells_used: 10 }, ...more,
})

function stateOf(...models) {
  const state = newState()
  takeEvent(state, 'snapshot', { time: at(0), models, memory: { used_bytes: 1 }, draining: false })
  return state
}

const begin = (state, ms, id, name = 'chat') =>
  takeEvent(state, 'request', { id, model: name, endpoint: '/v1/completions', stream: true, time: at(ms) })

const end = (state, ms, id, more) => takeEvent(state, 'request_end', {
  id, model: 'chat', endpoint: '/v1/completions', status: 200, ms: 100, prompt_tokens: 10, cached_tokens: 8,
  completion_tokens: 5, first_token_ms: 30, queue_ms: 1, restore_ms: 10, prefill_ms: 20, decode_ms: 50, hit: 'prefix',
  tier: 'ram', slot: 1, time: at(ms), ...more,
})

test('events change the state of a model before the next page tells', () => {
  const state = stateOf(model('chat', { state: 'stopped' }))
  const chat = () => state.models.get('chat')

  takeEvent(state, 'load', { model: 'chat', pid: 1, generation: 1, time: at(1) })
  assert.equal(chat().starts, 1)
  takeEvent(state, 'progress', { model: 'chat', progress: 0.5, time: at(2) })
  assert.equal(chat().state, 'starting')
  assert.equal(chat().load_progress, 0.5)
  takeEvent(state, 'ready', { model: 'chat', pid: 1, load_ms: 7, time: at(3) })
  assert.equal(chat().state, 'ready')
  takeEvent(state, 'hashing', { model: 'chat', progress: 0.5, time: at(3) })
  assert.equal(chat().hash_progress, 0.5)
  takeEvent(state, 'hashing', { model: 'chat', progress: 1, time: at(3) })
  assert.equal(chat().hash_progress, undefined)
  assert.equal(chat().state, 'ready')
  takeEvent(state, 'death', { model: 'chat', cause: 'killed', state: 'waiting', deaths: 1, time: at(4) })
  assert.equal(chat().state, 'waiting')
  assert.equal(chat().deaths, 1)
  assert.equal(chat().last_death, 'killed')
  assert.deepEqual(state.notes.map(({ event }) => event), ['death', 'ready', 'load'])
  takeEvent(state, 'load', { model: 'chat', pid: 2, generation: 2, time: at(5) })
  assert.equal(chat().starts, 2)
  takeEvent(state, 'ready', { model: 'unknown', pid: 1, load_ms: 7, time: at(5) })
})

test('a miss is listed with its reason, the latest first, and the list is bounded', () => {
  const state = stateOf(model('chat'))

  end(state, 10, 'hit')
  assert.equal(state.misses.length, 0)
  for (let i = 0; i < 5000; i++) end(state, 20 + i, `m${i}`, { miss: 'evicted', left_at: i })
  assert.equal(state.misses.length, 200)
  assert.equal(state.misses[0].left_at, 4999)
  assert.equal(state.misses[0].miss, 'evicted')
  assert.equal(state.ended.length, 1000)
  assert.equal(new Set(state.misses.map(({ number }) => number)).size, 200)
})

test('a request is in a lane while it runs, and then in its slot, in parts', () => {
  const state = stateOf(model('chat'))

  begin(state, 1000, 'a')
  begin(state, 1010, 'b')
  begin(state, 1020, 'c') // it waits: there are two slots
  let [first, second] = lanes(state, START, START + 1100)
  assert.deepEqual([first.bars.length, second.bars.length], [1, 1])
  assert.deepEqual(first.bars[0].parts, [['running', 100]])
  end(state, 1100, 'a');
  [first, second] = lanes(state, START, START + 1100)
  assert.equal(first.bars.length, 0)
  assert.deepEqual(second.bars[0].parts, [['wait', 20], ['restore', 10], ['prefill', 20], ['decode', 50]])
  assert.equal(second.bars[0].begin, START + 1000)
  begin(state, 1110, 'd')
  assert.equal(lanes(state, START, START + 1200)[0].bars.length, 1) // the free lane
  assert.equal(lanes(state, START + 5000, START + 6000)[1].bars.length, 1) // what ended before is not drawn
})

test('requests with the same id are told apart by their number', () => {
  const state = stateOf(model('chat'))

  begin(state, 1, 'same')
  begin(state, 2, 'same')
  end(state, 3, 'same')
  assert.equal(state.running.get('same').length, 1)
  end(state, 4, 'same')
  end(state, 5, 'same')
  assert.equal(state.running.size, 0)
})

test('after lost events nothing runs for ever', () => {
  const state = stateOf(model('chat'))

  begin(state, 1, 'a')
  takeEvent(state, 'lost', { events: 12 })
  takeEvent(state, 'snapshot', { time: at(2), models: [model('chat')], memory: null, draining: false })
  assert.equal(state.n_lost, 12)
  assert.equal(state.running.size, 0)
})

test('rates are those of the last full seconds', () => {
  const state = stateOf(model('chat'))

  assert.equal(rates(state, START).cached, null)
  for (let i = 0; i < 20; i++) end(state, i * 100, `r${i}`)
  assert.deepEqual(rates(state, START + 10_000), { requests: 2, tokens: 10, cached: 0.8 })
  assert.equal(rates(state, START + 30_000).requests, 0)
  assert.equal(lastSeconds(state, START + 2000).length, SECONDS)
  assert.deepEqual(lastSeconds(state, START + 2000).slice(-2).map(({ requests }) => requests), [10, 10])
  for (let i = 0; i < 200; i++) end(state, i * 1000, `s${i}`)
  assert.ok(state.seconds.length <= SECONDS)
})

test('queues, tiers and hits come from the page of the models', () => {
  const cache = {
    hits: { live: 1, exact: 1, resume: 0, prefix: 1, none: 1 }, hits_by_tier: { live: 1, ram: 2, disk: 0 },
    ram: { rows: 1, bytes: 2, bytes_max: 4 }, ram_file: { rows: 0, bytes: 0, bytes_max: 0 },
    disk: { rows: 3, bytes: 4, bytes_max: 0 },
  }
  assert.deepEqual(queues(model('chat')), { running: 2, waiting: 4 })
  assert.deepEqual(queues({ running_requests: 1, waiting_requests: 2 }), { running: 1, waiting: 2 })
  assert.deepEqual(tiersOf({ cache }).map(({ tier, hits, rate }) => [tier, hits, rate]), [['ram', 2, 0.5], ['disk', 0, 0]])
  assert.equal(tiersOf({ cache: { ...cache, hits: { none: 0 } } })[0].rate, null)
  assert.deepEqual(tiersOf({}), [])
  assert.equal(hitRate({ cache }), 0.75)
  assert.equal(hitRate({}), null)
  assert.equal(speed({ completion_tokens: 11, decode_ms: 100 }), 100)
  assert.equal(speed({ completion_tokens: 1, decode_ms: 0 }), null)
})

test('numbers have units', () => {
  assert.deepEqual([0, 1023, 1024, 1536 * 1024, 268435456, 1.2e12].map(bytes),
    ['0 B', '1023 B', '1.00 KiB', '1.50 MiB', '256 MiB', '1.09 TiB'])
  assert.deepEqual([0.4, 21.4, 1500, 12_000, 180_000, 9e6].map(time),
    ['0.4 ms', '21 ms', '1.5 s', '12 s', '3 min', '2.5 h'])
  assert.deepEqual([0.1234, 4.567, 1234.5].map(rate), ['0.123', '4.57', '1,235'])
  assert.deepEqual([0, 1, 2000].map((n) => plural(n, 'row')), ['0 rows', '1 row', '2,000 rows'])
  assert.deepEqual([0.912, null].map(share), ['91 %', '–'])
})

test('a fleet has a row for each node, this one first; a server alone has none', () => {
  const state = newState()
  takeFleet(state, {
    fleet: true, self: { name: 'a', draining: true, models: [{ name: 'm', state: 'ready', at_work: 2, waiting: 1 }] },
    nodes: [
      { name: 'b', address: 'b:9430', state: 'up', models: [{ name: 'm', ready: false, at_work: 0, waiting: 0 }, { name: 'n', ready: true, at_work: 3, waiting: 4 }] },
      { name: 'c', address: 'c:9430', state: 'down', why: 'no answer', models: [] },
    ],
  })
  assert.deepEqual(state.nodes, [
    { name: 'a', address: 'this one', why: '', state: 'draining', running: 2, waiting: 1, models: 'm' },
    { name: 'b', address: 'b:9430', why: '', state: 'up', running: 3, waiting: 4, models: 'm (not loaded), n' },
    { name: 'c', address: 'c:9430', why: 'no answer', state: 'down', running: 0, waiting: 0, models: '' },
  ])
  takeFleet(state, { fleet: false })
  assert.deepEqual(state.nodes, [])
})
