// dashboard_nodes.js - a table of the nodes of a fleet, as this server sees them; nothing where there is no fleet
import { h, fill } from './dom.js'
import { count } from './numbers.js'
import { table } from './dashboard_models.js'

const tone = { up: 'good', draining: 'warn', down: 'bad', strange: 'bad' }

function nodeRow({ name, address, state, why, running, waiting, models }) {
  return h('tr', {},
    h('th', { scope: 'row' }, name),
    h('td', {}, address),
    h('td', {}, h(`span.state.${tone[state] ?? 'calm'}`, {}, state)),
    h('td.number', {}, count(running)),
    h('td.number', {}, count(waiting)),
    h('td', {}, why || models))
}

export function nodeTable() {
  const rows = h('tbody')
  const element = h('section', { hidden: true }, h('h2', {}, 'Nodes'),
    table('Nodes', ['Node', 'Address', 'State', ['Running'], ['Waiting'], 'Models'], rows))
  let drawn = null

  return {
    element,
    draw({ nodes }) {
      if (drawn === nodes) return
      drawn = nodes
      element.hidden = nodes.length === 0
      fill(rows, ...nodes.map(nodeRow))
    },
  }
}
