// dashboard_log.js - the live lists: prompts that were computed and why, and what happened to the workers
import { h, fill } from './dom.js'
import { bytes, clock, count, share, time } from './numbers.js'
import { table } from './dashboard_models.js'

// docs/cache.md has the same reasons with their remedies.
const reasons = {
  never_seen: 'no earlier prompt goes on like this',
  evicted: 'its rows made room for others',
  damaged: 'a row failed its checks',
  below_policy: 'the policy keeps no prompt of this length',
  other_parameters: 'the same beginning is kept under other parameters',
  other_adapter: 'the same beginning is kept for other adapters',
  other_model: 'the same beginning is kept for another model file',
  in_flight: 'another process was still writing its rows',
  not_read: 'the cache is off, or was not to be read',
  refused: 'there was no memory for a row, or the engine refused it',
  no_logits: 'all tokens are known, but not as the end of a prompt',
}

// A list whose new entries come on top. Entries stay as elements, so a reader keeps the place and the focus.
function growing(body, make, rows_max) {
  let newest = -1

  return (entries) => {
    const fresh = entries.slice(0, rows_max).filter(({ number }) => number > newest)
    if (fresh.length === 0) return
    newest = fresh[0].number
    body.prepend(...fresh.map(make))
    while (body.children.length > rows_max) body.lastElementChild.remove()
  }
}

// ---- misses ----

function missRow({ at, model, miss, prompt_tokens, cached_tokens, left_at, first_token_ms }) {
  return h('tr', {}, h('td', {}, clock(at)), h('th', { scope: 'row' }, model),
    h('td', {}, h('b', {}, miss), ` ${reasons[miss] ?? ''}`),
    h('td.number', {}, left_at === undefined ? '' : count(left_at)),
    h('td.number', {}, `${count(cached_tokens)} of ${count(prompt_tokens)}`),
    h('td.number', {}, time(first_token_ms)))
}

export function missLog() {
  const body = h('tbody')
  const add = growing(body, missRow, 100)
  const hold = h('input', { type: 'checkbox', id: 'hold' })

  return {
    elements: [h('label.check', { for: 'hold' }, hold, ' Hold the list still'),
      table('Misses', ['Time', 'Model', 'Reason', ['Left at token'], ['Cached tokens'], ['First token']], body)],
    draw(state) {
      if (!hold.checked) add(state.misses)
    },
    onRelease(listener) {
      hold.addEventListener('change', listener)
    },
  }
}

// ---- workers ----

const told = {
  load: () => 'starts',
  ready: ({ load_ms }) => `is ready after ${time(load_ms)}`,
  unload: ({ reason, again }) => `ends (${reason})${again ? ' and starts again' : ''}`,
  unloaded: () => 'has ended',
  no_room: () => 'was not loaded: there is no room',
  residency: ({ before, residency }) => `moves from ${before} to ${residency}`.replaceAll('_', ' '),
  pressure: ({ source, pressed, use }) =>
    `${source}: memory is ${pressed ? 'short' : 'free again'}, ${share(use)} in use`,
  eviction: ({ bytes: n, tier, reason }) => `lost ${bytes(n)} of rows in ${tier.replace('_', ' ')} (${reason})`,
  death: ({ cause, state, restart_in_ms }) =>
    `died: ${cause}${state === 'broken' ? '; it died too often' : ''}; it starts again in ${time(restart_in_ms ?? 0)}`,
}

const noteItem = (note) =>
  h(note.event === 'death' ? 'li.death' : 'li', {}, h('time', {}, clock(note.at)), ' ',
    note.model ? h('b', {}, note.model) : null, ` ${told[note.event](note)}`)

export function workerLog() {
  const list = h('ol.notes', { tabindex: '0', 'aria-label': 'Events of workers' })
  const add = growing(list, noteItem, 100)
  const past = h('ul.notes')

  return {
    elements: [past, list],
    // Deaths before the page was opened are known by the last one of each model.
    draw(state) {
      const seen = new Set(state.notes.filter(({ event }) => event === 'death').map(({ model }) => model))
      const old = [...state.models.values()].filter(({ name, last_death }) => last_death && !seen.has(name))
      if (past.children.length !== old.length)
        fill(past, old.map(({ name, deaths, last_death }) =>
          h('li.death', {}, h('b', {}, name),
            deaths === 1 ? ` died once: ${last_death}` : ` died ${count(deaths)} times; the last time: ${last_death}`)))
      add(state.notes)
    },
  }
}
