// dashboard_models.js - tables of the models, their workers and queues, and of the tiers of their caches
import { h, fill } from './dom.js'
import { bytes, count, share, time } from './numbers.js'
import { hitRate, queues, tiersOf } from './dashboard_state.js'

// A bar, and its meaning in words beside it.
export const meter = (value, max, words) =>
  h('span.meter', {}, h('meter', { min: 0, max: max || 1, value: Math.min(value, max || 1), 'aria-label': words }),
    h('span', { 'aria-hidden': 'true' }, words))

// The name of a column of numbers is in a list, [name]: it stands above their ends.
const head = (columns) => h('thead', {}, h('tr', {}, columns.map((column) =>
  h(Array.isArray(column) ? 'th.number' : 'th', { scope: 'col' }, column))))

// A table that can be scrolled sideways, also by keys.
export function table(title, columns, body) {
  return h('div.wide', { tabindex: '0', role: 'region', 'aria-label': title }, h('table', {}, head(columns), body))
}

// ---- models ----

const tone = { ready: 'good', starting: 'warn', stopping: 'warn', waiting: 'bad', broken: 'bad' }

function stateOf({ state, load_progress, hash_progress, restart_in_ms }) {
  const more = state === 'starting' ? ` ${share(load_progress ?? 0)}`
    : state === 'ready' && hash_progress !== undefined ? `, hashing ${share(hash_progress)}`
    : restart_in_ms !== undefined && (state === 'waiting' || state === 'broken') ? `, again in ${time(restart_in_ms)}`
    : ''
  return h(`span.state.${tone[state] ?? 'calm'}`, {}, `${state}${more}`)
}

function context({ scheduler }) {
  if (!scheduler) return ''
  return meter(scheduler.cells_used, scheduler.cells, `${count(scheduler.cells_used)} of ${count(scheduler.cells)}`)
}

function modelRow(model) {
  const { running, waiting } = queues(model)
  const parallel = model.scheduler?.parallel

  return h('tr', {},
    h('th', { scope: 'row' }, model.name),
    h('td', {}, stateOf(model)),
    h('td', {}, model.residency.replace('_', ' ')),
    h('td.number', {}, bytes(model.memory_bytes)),
    h('td.number', {}, parallel === undefined ? count(running) : `${count(running)} of ${count(parallel)}`),
    h('td.number', {}, count(waiting)),
    h('td', {}, context(model)),
    h('td.number', {}, share(hitRate(model))),
    h('td.number', {}, count(model.starts)),
    h(model.deaths > 0 ? 'td.number.bad' : 'td.number', {}, count(model.deaths)))
}

// ---- tiers ----

function tierRow({ name }, { tier, rows, bytes: used, bytes_max, hits, rate }) {
  const fill = bytes_max > 0 ? meter(used, bytes_max, `${bytes(used)} of ${bytes(bytes_max)}`) : bytes(used)
  return h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, tier.replace('_', ' ')), h('td', {}, fill),
    h('td.number', {}, count(rows)), h('td.number', {}, count(hits)), h('td.number', {}, share(rate)))
}

function queueRow({ name, cache }) {
  const { rows, bytes: waiting } = cache.write_queue
  return h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, 'write queue'), h('td', {}, bytes(waiting)),
    h('td.number', {}, count(rows)), h('td'), h('td'))
}

function tierRows(model) {
  const rows = tiersOf(model).map((tier) => tierRow(model, tier))
  return model.cache?.write_queue?.rows > 0 ? [...rows, queueRow(model)] : rows
}

const none = (n, words) => h('tr', {}, h('td.none', { colspan: n }, words))

// ---- both ----

export function modelTables() {
  const models = h('tbody')
  const tiers = h('tbody')
  let drawn = 0
  const columns = ['Model', 'State', 'Place', ['Memory'], ['Running'], ['Waiting'], 'Context', ['Hits'], ['Starts'],
    ['Deaths']]
  const tierColumns = ['Model', 'Tier', 'Fill', ['Rows'], ['Hits'], ['Of requests']]

  return {
    models: table('Models', columns, models),
    tiers: table('Tiers of the cache', tierColumns, tiers),
    draw(state) {
      if (drawn === state.n_changes) return
      drawn = state.n_changes
      const all = [...state.models.values()]
      const rows = all.flatMap(tierRows)
      fill(models, all.length > 0 ? all.map(modelRow) : none(columns.length, 'No model yet.'))
      fill(tiers, rows.length > 0 ? rows : none(tierColumns.length, 'No model is loaded, so no tier is told.'))
    },
  }
}
