// dashboard_state.js - the server as the dashboard knows it, made of its events and of the page /admin/models
//
// Pure: no element, no clock. All lists are bounded, so a day of events takes no more memory than a minute.
// Times are those of the server, in milliseconds.

export const SECONDS = 60 // of the rates and of the timeline
const REQUESTS_MAX = 1000 // that ended, in the timeline
const MISSES_MAX = 200
const NOTES_MAX = 200

export function newState() {
  return {
    now: 0, // time of the last event
    models: new Map(), // by name, as /admin/models has them
    n_changes: 0, // of models
    memory: null,
    nodes: [], // of the fleet, this one first; none without a fleet
    draining: false,
    running: new Map(), // by id, lists of requests, because clients choose the ids
    ended: [], // the latest last
    misses: [], // the latest first, and so are the notes
    notes: [],
    seconds: [], // what ended in each second: { second, requests, tokens, prompt, cached }
    n_lost: 0,
    n_noted: 0, // of misses and notes, so far: numbers for their keys
  }
}

function remember(list, entry, max) {
  list.unshift(entry)
  if (list.length > max) list.length = max
}

// ---- models ----

// The page /admin/models, or the event "snapshot".
export function takeModels(state, page) {
  state.models = new Map(page.models.map((model) => [model.name, model]))
  state.memory = page.memory
  state.draining = page.draining
  state.n_changes++
}

// The page /admin/fleet.
export function takeFleet(state, page) {
  const row = (node) => ({
    name: node.name, address: node.address ?? 'this one', why: node.why ?? '',
    state: node.state ?? (node.draining ? 'draining' : 'up'),
    running: sum(node.models, ({ at_work }) => at_work), waiting: sum(node.models, ({ waiting }) => waiting),
    models: node.models.map((model) => (model.ready ?? model.state === 'ready' ? model.name : `${model.name} (not loaded)`)).join(', '),
  })
  state.nodes = page.fleet ? [page.self, ...page.nodes].map(row) : []
}

const stateAfter = {
  load: () => 'starting',
  ready: () => 'ready',
  unload: () => 'stopping',
  unloaded: () => 'stopped',
  death: ({ state }) => state,
}

// Events are faster than the next page.
function changeModel(state, event, data) {
  const model = state.models.get(data.model)
  if (!model) return
  state.n_changes++
  if (stateAfter[event]) model.state = stateAfter[event](data)
  // A page of the models may tell the start before its event does.
  if (event === 'load') Object.assign(model, { load_progress: 0, starts: Math.max(model.starts, data.generation) })
  if (event === 'progress') model.load_progress = data.progress
  if (event === 'ready') model.hash_progress = undefined
  if (event === 'hashing') model.hash_progress = data.progress < 1 ? data.progress : undefined
  if (event === 'residency') model.residency = data.residency
  if (event === 'death') Object.assign(model, { deaths: data.deaths, last_death: data.cause })
}

// ---- requests ----

// The lowest lane that no running request of the model has: so the worker chooses slots, too.
function freeLane(state, model) {
  const taken = new Set()
  for (const list of state.running.values())
    for (const request of list) if (request.model === model) taken.add(request.lane)
  let lane = 0
  while (taken.has(lane)) lane++
  return lane
}

function begin(state, { id, model, endpoint }) {
  const list = state.running.get(id) ?? []
  list.push({ id, model, endpoint, lane: freeLane(state, model), begin: state.now })
  state.running.set(id, list)
}

// Takes the request from the running ones.
function takeRunning(state, { id, model }) {
  const list = state.running.get(id) ?? []
  const at = list.findIndex((request) => request.model === model)
  if (at < 0) return
  list.splice(at, 1)
  if (list.length === 0) state.running.delete(id)
}

function count(state, { completion_tokens = 0, prompt_tokens = 0, cached_tokens = 0 }) {
  const second = Math.floor(state.now / 1000)
  let last = state.seconds.at(-1)
  if (last?.second !== second) {
    last = { second, requests: 0, tokens: 0, prompt: 0, cached: 0 }
    state.seconds.push(last)
    while (state.seconds[0].second <= second - SECONDS) state.seconds.shift()
  }
  last.requests++
  last.tokens += completion_tokens
  last.prompt += prompt_tokens
  last.cached += cached_tokens
}

// Tokens a second after the first one; null where there is no second one.
export function speed({ completion_tokens, decode_ms }) {
  return completion_tokens > 1 && decode_ms > 0 ? ((completion_tokens - 1) / decode_ms) * 1000 : null
}

function end(state, data) {
  takeRunning(state, data)
  count(state, data)
  state.ended.push({ ...data, end: state.now, begin: state.now - data.ms })
  if (state.ended.length > REQUESTS_MAX) state.ended.splice(0, state.ended.length - REQUESTS_MAX)
  if (data.miss) remember(state.misses, { ...data, at: state.now, number: state.n_noted++ }, MISSES_MAX)
}

// ---- events ----

const noted = new Set(['load', 'ready', 'unload', 'unloaded', 'death', 'no_room', 'residency', 'pressure', 'eviction'])

// Takes one event of /admin/events; data is its object.
export function takeEvent(state, event, data) {
  if (data.time) state.now = Math.max(state.now, Date.parse(data.time))
  if (event === 'snapshot') {
    takeModels(state, data)
    state.running.clear() // the ends of these requests may be among the lost events
  } else if (event === 'lost') state.n_lost += data.events
  else if (event === 'request') begin(state, data)
  else if (event === 'request_end') end(state, data)
  else {
    changeModel(state, event, data)
    if (noted.has(event)) remember(state.notes, { event, ...data, at: state.now, number: state.n_noted++ }, NOTES_MAX)
  }
}

// ---- what is drawn ----

// The counts of the last full seconds, the latest last, with zeros where nothing ended.
export function lastSeconds(state, now, n = SECONDS) {
  const bySecond = new Map(state.seconds.map((entry) => [entry.second, entry]))
  const last = Math.floor(now / 1000) - 1
  return Array.from({ length: n }, (_, i) => bySecond.get(last - n + 1 + i)
    ?? { second: last - n + 1 + i, requests: 0, tokens: 0, prompt: 0, cached: 0 })
}

const sum = (list, of) => list.reduce((total, entry) => total + of(entry), 0)

// Requests and tokens a second over ten seconds; the share of prompt tokens that needed no prefill over a minute, or
// null when there was no prompt.
export function rates(state, now) {
  const short = lastSeconds(state, now, 10)
  const long = lastSeconds(state, now)
  const prompt = sum(long, (entry) => entry.prompt)
  return {
    requests: sum(short, (entry) => entry.requests) / short.length,
    tokens: sum(short, (entry) => entry.tokens) / short.length,
    cached: prompt > 0 ? sum(long, (entry) => entry.cached) / prompt : null,
  }
}

// Requests that run or wait, by model: { running, waiting }. A worker that has begun a request shows it as running.
export function queues(model) {
  const { scheduler, running_requests = 0, waiting_requests = 0 } = model
  const inside = scheduler?.waiting ?? 0
  return { running: scheduler?.running ?? running_requests, waiting: waiting_requests + inside }
}

const TIERS = ['ram', 'ram_file', 'disk']

// Of a model that has a process; 0 of another.
const requestsOf = ({ cache }) => sum(Object.values(cache?.hits ?? {}), (n) => n)

// The tiers of a model that has a process: [{ tier, rows, bytes, bytes_max, hits, rate }]. bytes_max 0: no quota. rate
// is the share of the requests whose prompt the tier had, in part at least; null before the first request.
export function tiersOf(model) {
  const { cache } = model
  if (!cache) return []
  const all = requestsOf(model)
  return TIERS.map((tier) => ({ tier, ...cache[tier], hits: cache.hits_by_tier?.[tier] ?? 0 }))
    .filter(({ rows, bytes_max }) => rows > 0 || bytes_max > 0)
    .map((tier) => ({ ...tier, rate: all > 0 ? tier.hits / all : null }))
}

// The share of the requests whose prompt was found, in part at least; null before the first request.
export function hitRate(model) {
  const all = requestsOf(model)
  return all > 0 ? 1 - model.cache.hits.none / all : null
}

// The lanes of the timeline: [{ model, slot, bars }], for models whose slots did something since begin, or can now. A
// bar is { begin, end, parts, request }; parts are [kind, ms] in order, with the kinds "wait", "restore", "prefill" and
// "decode", or "running" for a request that has not ended.
export function lanes(state, begin, now) {
  const byModel = new Map()
  const lane = (model, slot) => {
    if (!byModel.has(model)) byModel.set(model, new Map())
    const slots = byModel.get(model)
    if (!slots.has(slot)) slots.set(slot, { model, slot, bars: [] })
    return slots.get(slot)
  }

  for (const { name, state: is, scheduler } of state.models.values())
    for (let slot = 0; is === 'ready' && slot < (scheduler?.parallel ?? 0); slot++) lane(name, slot)
  for (let i = state.ended.length - 1; i >= 0; i--) {
    const request = state.ended[i]
    if (request.end < begin || request.slot === undefined) continue
    const { restore_ms, prefill_ms, decode_ms } = request
    const wait = Math.max(0, request.ms - restore_ms - prefill_ms - decode_ms)
    const parts = [['wait', wait], ['restore', restore_ms], ['prefill', prefill_ms], ['decode', decode_ms]]
    lane(request.model, request.slot).bars.push({ begin: request.begin, end: request.end, parts, request })
  }
  for (const request of [...state.running.values()].flat()) {
    const slots = state.models.get(request.model)?.scheduler?.parallel ?? 1
    if (request.lane < slots) {
      const parts = [['running', Math.max(0, now - request.begin)]]
      lane(request.model, request.lane).bars.push({ begin: request.begin, end: now, parts, request })
    }
  }
  return [...byModel.keys()].sort().flatMap((model) =>
    [...byModel.get(model).values()].sort((a, b) => a.slot - b.slot))
}
