// dashboard_slots.js - the slots as a timeline: a lane for each slot, a bar for each request, on a canvas
//
// A canvas costs the same for any number of bars in view. For those who do not see it, a table has the last requests.
import { h, fill } from './dom.js'
import { count, rate, time } from './numbers.js'
import { SECONDS, lanes, speed } from './dashboard_state.js'
import { table } from './dashboard_models.js'

const LANE = 14 // pixels
const NAME = 20 // above the lanes of a model
const LANES_MAX = 96
const ROWS = 20
const KINDS = ['wait', 'restore', 'prefill', 'decode', 'running']

// colours: by kind.
function paint(canvas, colours, state, now) {
  const begin = now - SECONDS * 1000
  const drawn = lanes(state, begin, now).slice(0, LANES_MAX)
  const names = new Set(drawn.map(({ model }) => model))
  const width = canvas.clientWidth
  const height = drawn.length * LANE + names.size * NAME + 2
  const scale = devicePixelRatio
  const style = getComputedStyle(canvas)
  const x = (at) => Math.max(0, ((at - begin) / (now - begin)) * width)
  const context = canvas.getContext('2d')

  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale)
    canvas.height = Math.round(height * scale)
    canvas.style.height = `${height}px`
  }
  context.setTransform(scale, 0, 0, scale, 0, 0)
  context.clearRect(0, 0, width, height)
  context.font = `600 12px ${style.fontFamily}`
  let y = 0
  let model = null

  for (const lane of drawn) {
    if (lane.model !== model) {
      model = lane.model
      context.fillStyle = style.color
      context.fillText(model, 0, y + NAME - 6, width)
      y += NAME
    }
    context.fillStyle = colours.line
    context.fillRect(0, y + LANE - 3, width, 1)
    for (const bar of lane.bars) {
      let at = bar.begin
      for (const [kind, ms] of bar.parts) {
        context.fillStyle = colours[kind]
        if (ms > 0) context.fillRect(x(at), y, Math.max(1, x(at + ms) - x(at)), LANE - 4)
        at += ms
      }
    }
    y += LANE
  }
}

const legend = {
  wait: 'waits', restore: 'restores rows', prefill: 'prefills', decode: 'decodes', running: 'runs, parts not told yet',
}

function requestRow(request) {
  const { model, slot, endpoint, status, ms, prompt_tokens, cached_tokens, first_token_ms, hit, tier } = request
  const tokens_a_second = speed(request)
  return h('tr', {},
    h('th', { scope: 'row' }, model), h('td.number', {}, slot ?? ''), h('td', {}, endpoint), h('td', {}, status),
    h('td', {}, hit ? (hit === 'none' ? 'none' : `${hit}, ${tier.replace('_', ' ')}`) : ''),
    h('td.number', {}, prompt_tokens === undefined ? '' : `${count(cached_tokens)} of ${count(prompt_tokens)}`),
    h('td.number', {}, first_token_ms === undefined ? '' : time(first_token_ms)),
    h('td.number', {}, tokens_a_second === null ? '' : rate(tokens_a_second)),
    h('td.number', {}, time(ms)))
}

export function slotTimeline() {
  const canvas = h('canvas', { role: 'img', 'aria-label': `What each slot did in the last ${SECONDS} seconds; the table
    of the last requests below has the numbers` })
  const rows = h('tbody')
  const last = h('details', {}, h('summary', {}, 'Last requests'),
    table('Last requests', ['Model', ['Slot'], 'Endpoint', 'Status', 'Hit', ['Cached tokens'], ['First token'],
      ['Tokens a second'], ['Took']], rows))
  const boxes = KINDS.map((kind) => h(`i.${kind}`))
  const key = h('ul.legend', {}, boxes.map((box, i) => h('li', {}, box, legend[KINDS[i]])))
  // A canvas knows no variables of styles: the colours are those of the legend, in this scheme.
  const colours = () => Object.fromEntries([...boxes.map((box, i) => [KINDS[i], getComputedStyle(box).backgroundColor]),
    ['line', getComputedStyle(canvas).outlineColor]])

  return {
    elements: [key, canvas, last],
    // now moves on between events, too.
    draw(state, now) {
      paint(canvas, colours(), state, now)
    },
    drawRows(state) {
      if (last.open) fill(rows, state.ended.slice(-ROWS).reverse().map(requestRow))
    },
    onOpen(listener) {
      last.addEventListener('toggle', listener)
    },
  }
}
