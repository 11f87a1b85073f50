// compare.mjs - are two replies the same, byte for byte?
//
// Two runs of one request may differ in the reply's id and everything derived from it, in dates and measured times, in
// the number of cached tokens, and in the comments that keep a silent connection alive. The comparison removes
// these first. The rest must be equal, down to the order of keys and the borders of events: the sum of cached and
// computed tokens, for example. A reply that tells its cached tokens in several places must tell the same number,
// whichever worker wrote it. If only the borders of events differ, the joined texts are compared, and the reply counts
// as split differently.

const id = /"((?:chatcmpl|cmpl|msg)[-_][A-Za-z0-9]+)"/
const replace = [
  [/^:[^\n]*\n\n/gm, ''], // comments, which keep a silent stream alive and tell why it waits
  [/"created":\d+/g, '"created":0'],
  [/"timings":\{"cache_n":(\d+),"prompt_n":(\d+)[^}]*\}/g, (_, cached, computed) => `"timings":{"prompt":${+cached + +computed}}`],
  [/"cache":\{"hit":(?:"(?:\\.|[^"\\])*"|[^"}])*\}/g, '"cache":{}'],
  [/"cache_n":\d+/g, '"cache_n":0'],
  [/"cached_tokens":\d+/g, '"cached_tokens":0'],
  [/"id_slot":-?\d+/g, '"id_slot":0'], // whichever was free
  [/"input_tokens":(\d+),"cache_creation_input_tokens":(\d+),"cache_read_input_tokens":(\d+)/g,
    (_, ...counts) => `"input_tokens":${counts.slice(0, 3).reduce((sum, n) => sum + +n, 0)}`],
  [/"id":"(?:call_|toolu_)?[A-Za-z0-9]{9,}"/g, '"id":"CALL"'],
]

export const withoutChance = (text) => {
  const found = id.exec(text)
  let plain = (found ? text.replaceAll(found[1], 'REPLY') : text).replace(/(^|\n\n)(?:(?::[^\n]*|event: ping\ndata: {"type":"ping"})\n\n)+/g, '$1')
  for (const [pattern, by] of replace) plain = plain.replace(pattern, by)
  return plain
}

// The events of a stream, grouped by their owner, with the pieces of a text joined.
const joined = (text) => {
  const parts = new Map()
  const add = (key, piece) => parts.set(key, (parts.get(key) ?? '') + piece)
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: {')) {
      if (line) add('lines', line.startsWith('event: content_block_delta') ? '' : `${line}\n`)
      continue
    }
    const event = JSON.parse(line.slice(6))
    const walk = (value, path) => {
      if (Array.isArray(value)) value.forEach((item, i) => walk(item, `${path}.${typeof item === 'object' ? item?.index ?? '' : ''}`, i))
      else if (typeof value === 'object' && value !== null) for (const [name, of] of Object.entries(value)) walk(of, `${path}.${name}`)
      else if (/\.(content|reasoning_content|text|thinking|partial_json|arguments|tokens\.|token|logprob|bytes\.|top_logprobs.*)$/.test(path)) add(path, `${value ?? ''}`)
      else if (value !== null) parts.set(`${path}=${value}`, '')
    }
    walk(event, `${event.index ?? event.choices?.[0]?.index ?? ''}`)
  }
  return JSON.stringify([...parts].filter(([key]) => !/tokens_(predicted|evaluated)=/.test(key)).sort())
}

// Does a reply tell two numbers of cached tokens? Each of several replies has its own number. A message that began
// before the lookup tells none.
export const contradicts = (text) => {
  text = text.replace(/^data: {"type":"message_start".*"cache_read_input_tokens":0,.*$/m, '')
  if (/"index":[1-9]/.test(text.replaceAll(/"content_block_[^\n]*/g, ''))) return false
  const said = [...text.matchAll(/"(?:cached_tokens|cache_read_input_tokens|cache_n)":(\d+)/g)].map(([, n]) => n)
  return new Set(said).size > 1
}

// 'same', 'split' or 'different'.
export const compare = (calm, chaos, isStream) => {
  if (contradicts(calm) || contradicts(chaos)) return 'different'
  const [a, b] = [withoutChance(calm), withoutChance(chaos)]
  if (a === b) return 'same'
  if (!isStream) return 'different'
  try {
    return joined(a) === joined(b) ? 'split' : 'different'
  } catch {
    return 'different'
  }
}

export const firstDifference = (calm, chaos) => {
  const [a, b] = [withoutChance(calm), withoutChance(chaos)]
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  const from = Math.max(0, at - 200)
  return `at ${at}:\n  calm:  ${JSON.stringify(a.slice(from, at + 200))}\n  chaos: ${JSON.stringify(b.slice(from, at + 200))}`
}
