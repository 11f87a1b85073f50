// compare.mjs - are two replies the same, byte for byte?
//
// What two runs of one request may differ in is taken out first: the reply's id and what is made of it, the time of its
// making, measured times, how much came from the cache, and the empty comments between events that keep a silent
// connection alive. All else, down to the order of keys and the borders of
// events, has to be equal. Where only the borders of events differ (pieces of text that come together in one run and
// apart in the other), the texts joined are compared, and the reply counts as split differently.

const id = /"((?:chatcmpl|cmpl|msg)[-_][A-Za-z0-9]+)"/
const replace = [
  [/^:\n\n/gm, ''], // comments, which keep a silent stream alive
  [/"created":\d+/g, '"created":0'],
  [/"timings":\{[^}]*\}/g, '"timings":{}'],
  [/"(cached_tokens|cache_read_input_tokens|cache_creation_input_tokens|tokens_cached)":\d+/g, '"$1":0'],
  [/"input_tokens":\d+/g, '"input_tokens":0'], // the prompt's, less what was cached
  [/"id":"(?:call_|toolu_)?[A-Za-z0-9]{9,}"/g, '"id":"CALL"'],
]

export const withoutChance = (text) => {
  const found = id.exec(text)
  let plain = (found ? text.replaceAll(found[1], 'REPLY') : text).replace(/(^|\n\n)(?::\n\n)+/g, '$1')
  for (const [pattern, by] of replace) plain = plain.replace(pattern, by)
  return plain
}

// The events of a stream by what they belong to, with pieces of one text joined.
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

// 'same', 'split' or 'different'.
export const compare = (calm, chaos, isStream) => {
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
