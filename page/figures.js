// figures.js - the cost of a reply, as the server measured it: hit, reused tokens, first token, speed
import { h } from './dom.js'

const TIERS = { ram: 'RAM', disk: 'disk', cells: 'context', files: 'memory files' }
const HITS = { none: 'cold', exact: 'exact hit', prefix: 'prefix hit' }

const count = (n) => n.toLocaleString('en-US')

export function time(ms) {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.floor(ms / 60000)} min ${Math.floor((ms % 60000) / 1000)} s`
}

const hitOf = ({ hit = 'none', tier }) => {
  const name = HITS[hit] ?? hit
  return tier && tier !== 'none' ? `${name}, ${TIERS[tier] ?? tier}` : name
}

// Why the prompt was not known whole.
function reasonOf({ miss, left_at: leftAt, left_text: leftText }) {
  if (!miss || miss === 'none') return ''
  const place = leftAt ? `; it left the known part at token ${count(leftAt)}${leftText ? `, "${leftText}"` : ''}` : ''
  return `${miss.replaceAll('_', ' ')}${place}`
}

export function figures({ timings, cache = {}, usage }) {
  if (!timings) return null
  const nPrompt = timings.cache_n + timings.prompt_n
  const rows = [
    ['Prompt', `${count(nPrompt)} tokens`],
    ['Reused', `${count(timings.cache_n)} tokens`],
    ['Why not all', reasonOf(cache)],
    ['Waited', time(timings.queue_ms ?? 0)],
    ['Restored in', time(timings.restore_ms ?? 0)],
    ['Prefill', `${time(timings.prompt_ms)}, ${count(timings.prompt_n)} tokens`],
    ['Reply', `${count(timings.predicted_n)} tokens in ${time(timings.predicted_ms)}`],
    ['Reasoning', usage?.completion_tokens_details?.reasoning_tokens
      ? `${count(usage.completion_tokens_details.reasoning_tokens)} tokens` : ''],
  ].filter(([, value]) => value)

  return h('details.figures', {},
    h('summary', {},
      h(`span.hit.${cache.hit ?? 'none'}`, {}, hitOf(cache)),
      h('span', {}, `${count(timings.cache_n)} of ${count(nPrompt)} tokens reused`),
      h('span', {}, `first token ${time(timings.ttft_ms ?? timings.prompt_ms)}`),
      h('span', {}, `${timings.predicted_per_second.toFixed(1)} tokens/s`)),
    h('dl', {}, rows.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])))
}
