// dashboard.js - the models of the server and their state
import './dashboard.css'
import { h, fill } from './dom.js'

const AGAIN_MS = 2000

let timer = 0
let abort = null

const number = (n) => n?.toLocaleString('en-US') ?? ''

function row(model) {
  const { status, meta } = model
  const state = status?.failed ? 'failed' : (status?.value ?? 'unknown')

  return h('tr', {},
    h('th', { scope: 'row' }, model.id),
    h('td', {}, state),
    h('td', {}, number(model.context_length)),
    h('td', {}, number(meta?.n_params)),
    h('td', {}, (model.aliases ?? []).join(', ')))
}

export function mount(element, api) {
  const note = h('p', { role: 'status' })
  const rows = h('tbody')
  const columns = ['Model', 'State', 'Context, tokens', 'Parameters', 'Aliases']
  const head = h('thead', {}, h('tr', {}, columns.map((column) => h('th', { scope: 'col' }, column))))

  async function look() {
    const { signal } = abort
    try {
      const { data } = await api.get('/v1/models', { signal })
      fill(note)
      fill(rows, data.map(row))
    } catch (error) {
      if (error.name !== 'AbortError') fill(note, error.message)
    }
    if (!signal.aborted) timer = setTimeout(look, AGAIN_MS)
  }

  abort = new AbortController()
  element.append(h('h1', {}, 'Models'), note, h('table', {}, head, rows))
  look()
}

export function unmount() {
  abort.abort()
  clearTimeout(timer)
}
