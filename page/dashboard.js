// dashboard.js - what the server does now, for operators: models, nodes, tiers, slots, queues, workers, prefixes, misses
//
// /admin/events brings what happens, /admin/models and /admin/fleet numbers that no event tells. Events change the state at once
// (dashboard_state.js). The timeline follows four times a second, everything else once, whatever comes in.
import './dashboard.css'
import { readEvents } from './api.js'
import { h, svg, fill } from './dom.js'
import { bytes, count, rate, share } from './numbers.js'
import { lastSeconds, newState, queues, rates, takeEvent, takeFleet, takeModels } from './dashboard_state.js'
import { meter, modelTables } from './dashboard_models.js'
import { nodeTable } from './dashboard_nodes.js'
import { slotTimeline } from './dashboard_slots.js'
import { prefixTree } from './dashboard_prefixes.js'
import { missLog, workerLog } from './dashboard_log.js'

const POLL_MS = 2000
const PREFIXES_MS = 30_000
const FRAME_MS = 250
const TABLES_MS = 1000
const AGAIN_MS = 1000
const AGAIN_MS_MAX = 15_000

let abort = null

const sleep = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
})

// ---- the line of numbers at the top ----

function sparkline(values) {
  const most = Math.max(1e-9, ...values)
  const x = (i) => ((i / (values.length - 1)) * 100).toFixed(1)
  const y = (value) => (23 - (value / most) * 22).toFixed(1)
  const points = values.map((value, i) => `${x(i)},${y(value)}`)
  return svg('svg.spark', { viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('polyline', { points: points.join(' ') }))
}

function tile(title) {
  const value = h('dd')
  return { element: h('div.tile', {}, h('dt', {}, title), value), set: (...nodes) => fill(value, ...nodes) }
}

function tiles() {
  const [requests, tokens, cached, running, memory] =
    ['Requests a second', 'Tokens a second', 'Prompt tokens cached', 'Requests', 'Memory of models'].map(tile)

  return {
    element: h('dl.tiles', {}, [requests, tokens, cached, running, memory].map(({ element }) => element)),
    draw(state, now) {
      const current = rates(state, now)
      const seconds = lastSeconds(state, now)
      const all = [...state.models.values()].map(queues)
      const sum = (name) => all.reduce((total, queue) => total + queue[name], 0)
      const { used_bytes = 0, limit_bytes } = state.memory ?? {}

      requests.set(rate(current.requests), sparkline(seconds.map((entry) => entry.requests)))
      tokens.set(rate(current.tokens), sparkline(seconds.map((entry) => entry.tokens)))
      cached.set(share(current.cached), sparkline(seconds.map((entry) => entry.cached / (entry.prompt || 1))))
      running.set(`${count(sum('running'))} running, ${count(sum('waiting'))} waiting`)
      memory.set(limit_bytes ? meter(used_bytes, limit_bytes, `${bytes(used_bytes)} of ${bytes(limit_bytes)}`)
        : bytes(used_bytes))
    },
  }
}

// ---- access ----

// The way in for somebody whom the server refused with this message.
const refusal = (message, hasKey, tryAgain) => h('div.notice.bad', { role: 'alert' },
  h('p', {}, 'The dashboard is for operators. There are two ways to it:'),
  h('ul', {},
    h('li', {}, 'an admin key, which ', h('code', {}, 'hearth key new --name NAME --admin --file KEYS'),
      ' makes for a server with ', h('code', {}, '--keys KEYS'), ';'),
    h('li', {}, 'the operators’ own address: start the server with ', h('code', {}, '--admin 127.0.0.1:8090'),
      ' and open ', h('code', {}, 'http://127.0.0.1:8090/#/dashboard'),
      ' there. When the server has such an address, this page is open there without a key.')),
  h('p', {}, `The server says: ${message}`),
  h('button', { type: 'button', onclick: tryAgain }, hasKey ? 'Use another key' : 'Use a key'))

// ---- the view ----

const section = (title, ...children) => h('section', {}, h('h2', {}, title), children)

export function mount(element, api) {
  const { signal } = (abort = new AbortController())
  const state = newState()
  let offset = 0 // of the server's clock
  const now = () => Date.now() + offset

  const note = h('p.connection', { role: 'status' }, 'Connecting…')
  const refused = h('div')
  const numbers = tiles()
  const tables = modelTables()
  const nodes = nodeTable()
  const timeline = slotTimeline()
  const prefixes = prefixTree((model) => api.get(`/admin/prefixes?model=${encodeURIComponent(model)}`, { signal }))
  const misses = missLog()
  const workers = workerLog()
  const panels = h('div', {}, numbers.element,
    section('Models and queues', tables.models),
    nodes.element,
    section('Slots, the last minute', timeline.elements),
    section('Misses', misses.elements),
    section('Workers', workers.elements),
    section('Tiers of the cache', tables.tiers),
    section('Most used prefixes', prefixes.elements))

  // ---- drawing ----

  let tablesDrawn = -Infinity

  // at: of the frame. A page that is not seen gets no frames.
  function draw(at) {
    if (signal.aborted) return
    setTimeout(() => requestAnimationFrame(draw), FRAME_MS)
    if (panels.hidden) return
    timeline.draw(state, now())
    if (at - tablesDrawn < TABLES_MS) return
    tablesDrawn = at
    numbers.draw(state, now())
    tables.draw(state)
    nodes.draw(state)
    timeline.drawRows(state)
    prefixes.draw(state)
    misses.draw(state)
    workers.draw(state)
  }

  // ---- what comes in ----

  function take({ event, data }) {
    const object = JSON.parse(data)
    takeEvent(state, event, object)
    if (object.time) offset = Math.max(offset, state.now - Date.now())
    if (event === 'snapshot') offset = state.now - Date.now()
    if (event === 'lost') sayLive()
  }

  function sayLive() {
    fill(note, state.n_lost > 0 ? `Live. ${count(state.n_lost)} events came faster than they could be sent.` : 'Live.')
  }

  // A refusal is final until the user shows another key.
  async function settleRefusal({ message }) {
    fill(note)
    await new Promise((resolve) => {
      panels.hidden = true
      fill(refused, refusal(message, api.key !== '', async () => (await api.wantKey(message)) && resolve()))
      signal.addEventListener('abort', resolve, { once: true })
    })
    fill(refused)
    panels.hidden = false
  }

  async function listen() {
    let last = ''
    let again = AGAIN_MS

    while (!signal.aborted) {
      try {
        const headers = last ? { 'last-event-id': last } : {}
        const reply = await api.fetch('/admin/events', { signal, headers })
        sayLive() // who comes back gets no snapshot
        again = AGAIN_MS
        for await (const entry of readEvents(reply)) {
          if (entry.id) last = entry.id
          take(entry)
        }
        fill(note, 'The server has ended the stream. Connecting again…')
      } catch (error) {
        if (error.name === 'AbortError') return
        if (error.status === 401 || error.status === 403) {
          await settleRefusal(error)
          continue
        }
        fill(note, `${error.message} Connecting again…`)
      }
      await sleep(again, signal)
      again = Math.min(2 * again, AGAIN_MS_MAX)
    }
  }

  // The numbers that no event tells. The stream of events says what is wrong.
  async function poll() {
    while (!signal.aborted) {
      await sleep(POLL_MS, signal)
      if (document.hidden || signal.aborted || panels.hidden) continue
      try {
        takeModels(state, await api.get('/admin/models', { signal }))
        takeFleet(state, await api.get('/admin/fleet', { signal }))
      } catch {
        // it comes again
      }
    }
  }

  async function lookAtPrefixes() {
    while (!signal.aborted) {
      await sleep(PREFIXES_MS, signal)
      if (!document.hidden && !signal.aborted) await prefixes.look()
    }
  }

  element.append(h('h1', {}, 'Dashboard'), note, refused, panels)
  timeline.onOpen(() => timeline.drawRows(state))
  misses.onRelease(() => misses.draw(state))
  requestAnimationFrame(draw)
  listen()
  poll()
  lookAtPrefixes()
}

export function unmount() {
  abort.abort()
}
