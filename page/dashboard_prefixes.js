// dashboard_prefixes.js - the most used prefixes of a model, as a tree that opens and closes
import { h, fill } from './dom.js'
import { bytes, count, plural } from './numbers.js'
import { meter } from './dashboard_models.js'

const SHORT_KEY = 12

function node({ key, tokens, end, rows, bytes: size, uses, children }, most, closed) {
  const line = [
    h('code', { title: key }, key.slice(0, SHORT_KEY)),
    meter(uses, most, plural(uses, 'use')),
    h('span', {}, `${plural(tokens, 'token')}, up to ${count(end)}; ${plural(rows, 'row')}, ${bytes(size)}`),
  ]
  if (children.length === 0) return h('li', {}, h('div.leaf', {}, line))
  const remember = (event) => {
    if (event.target.open) closed.delete(key)
    else closed.add(key)
  }
  return h('li', {}, h('details', { open: !closed.has(key), ontoggle: remember }, h('summary', {}, line),
    h('ul', {}, children.map((child) => node(child, most, closed)))))
}

// ask(model) resolves to the page /admin/prefixes.
export function prefixTree(ask) {
  const choice = h('select', { id: 'prefix-model', onchange: () => look() })
  const again = h('button', { type: 'button', onclick: () => look() }, 'Look again')
  const note = h('p', { role: 'status' })
  const tree = h('ul.tree', { 'aria-label': 'Prefixes' })
  const closed = new Set() // keys
  let names = []
  let asked = 0

  async function look() {
    const model = choice.value
    const number = ++asked
    if (!model) return
    try {
      const { rows, prefixes } = await ask(model)
      if (number !== asked) return
      const most = Math.max(1, ...prefixes.map(({ uses }) => uses))
      fill(tree, prefixes.map((prefix) => node(prefix, most, closed)))
      fill(note, `${plural(rows, 'row')}.${prefixes.length > 0 ? '' : ' No prefix was used again yet.'}`)
    } catch (error) {
      if (error.name !== 'AbortError' && number === asked) fill(note, error.message)
    }
  }

  return {
    elements: [h('div.bar', {}, h('label', { for: 'prefix-model' }, 'Model'), choice, again), note, tree],
    look,
    // The models that can be asked.
    draw(state) {
      const ready = [...state.models.values()].filter(({ state: is }) => is === 'ready').map(({ name }) => name)
      if (ready.join('\n') === names.join('\n')) return
      const before = choice.value
      names = ready
      fill(choice, ready.map((name) => h('option', {}, name)))
      choice.value = ready.includes(before) ? before : (ready[0] ?? '')
      again.disabled = choice.disabled = ready.length === 0
      if (ready.length === 0) fill(note, 'No model is loaded.')
      else if (choice.value !== before) look()
    },
  }
}
