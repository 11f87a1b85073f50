// judge.mjs - compare a reply with that of a reference server, which has no cache, no other requests and no trouble
//
// Each question to the reference has its own salt, so that it reuses no earlier rows (the names of rows depend on the
// salt, so they are not compared); the stub needs no salt. A reply must be the same, byte for byte, except for the
// differences that ../chaos/compare.mjs allows.
//
// Where rounding may differ (design.md, section 8, rule 4), a greedy reply may depart from the reference at a token
// that was about equally likely: the reference tells its likeliest tokens there, and the reply must go on with one that
// is at most TIE below the chosen one. Damaged rows, or rows of another prompt, would not stay within that. The list
// ignores grammars, so a reply with a grammar only has to be valid then.
import { compare, contradicts, firstDifference } from '../chaos/compare.mjs'
import { ask } from '../support/server.mjs'

const TIE = 0.5 // of the natural logarithm of probability
const COLD_RUNS = 3
const KNOWN_MAX = 500 // replies that are remembered

const events = (text) => text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)))

// The texts of a reply, one for each choice.
const textsOf = ({ path, stream }, text) => {
  const texts = []
  const add = (i, piece) => { texts[i] = (texts[i] ?? '') + (piece ?? '') }
  for (const event of stream ? events(text) : [JSON.parse(text)]) {
    if (path === '/completion') add(event.index ?? 0, event.stop && stream ? '' : event.content)
    else if (path === '/v1/messages') {
      if (stream) add(0, event.delta?.text)
      else for (const block of event.content) add(0, block.text)
    } else for (const choice of event.choices ?? []) add(choice.index, choice.text ?? (stream ? choice.delta : choice.message)?.content)
  }
  return texts
}

// The same question, for one reply with the likeliest tokens at each place: [{ token, logprob, top: [[token,
// logprob]] }]. The reply goes on after its end, to tell the likeliest tokens there, too.
const withAlternatives = ({ path, body: text }) => {
  const body = { ...JSON.parse(text), stream: false, ignore_eos: true }
  for (const it of ['stream_options', 'stop', 'stop_sequences']) delete body[it]
  if (path === '/completion') return { path, body: { ...body, n_probs: 20 } }
  if (path === '/v1/completions') return { path, body: { ...body, n: 1, logprobs: 5 } }
  if (path === '/v1/messages') {
    const { system, ...rest } = body
    return { path: '/v1/chat/completions', body: { ...rest, messages: [...(system ? [{ role: 'system', content: system }] : []), ...body.messages.map(({ role, content }) => ({ role, content: typeof content === 'string' ? content : content.map(({ text }) => text).join('') }))], logprobs: true, top_logprobs: 20 } }
  }
  return { path, body: { ...body, n: 1, logprobs: true, top_logprobs: 20 } }
}
const placesOf = (path, reply) => {
  const pairs = (list) => list.map(({ token, logprob }) => [token, logprob])
  if (path === '/completion') return reply.completion_probabilities.map(({ token, logprob, top_logprobs }) => ({ token, logprob, top: pairs(top_logprobs) }))
  const { logprobs } = reply.choices[0]
  if (path === '/v1/completions') return logprobs.tokens.map((token, i) => ({ token, logprob: logprobs.token_logprobs[i], top: Object.entries(logprobs.top_logprobs[i]) }))
  return logprobs.content.map(({ token, logprob, top_logprobs }) => ({ token, logprob, top: pairs(top_logprobs) }))
}

// Control tokens, as the engine writes them: they begin and end texts.
const isSilent = (token) => token === '' || /^<[|/]?\w+\|?>$/.test(token)

// The difference in likelihood between the reference's token and the token with which `text` departed; Infinity if
// there is none. `text` may depart before the first different character, since a text has several ways to be tokens. At
// the end of the reference, its token is the end, and the place has the token that would follow.
const gapOf = (places, text) => {
  let gap = Infinity
  let at = 0
  for (const { token, logprob, top } of places) {
    const best = Math.max(logprob, ...top.map(([, it]) => it))
    const leavesHere = !isSilent(token) && (at === text.length || !text.startsWith(token, at))
    for (const [other, its] of [[token, logprob], ...top])
      if (its < best && (isSilent(other) ? leavesHere || at === text.length : text.startsWith(other, at))) gap = Math.min(gap, best - its)
    if (leavesHere) break
    if (!isSilent(token)) at += token.length
  }
  return gap
}

export const makeJudge = (reference) => {
  const known = new Map()
  const counts = { same: 0, split: 0, tie: 0, valid: 0, different: 0 }
  let nAsked = 0
  const gaps = []

  const cold = async (path, body, salt = `reference ${nAsked}`) => {
    nAsked++ // a null is no salt
    const answer = await ask(reference, 'POST', path, JSON.stringify({ ...body, cache_salt: salt }))
    if (answer.status !== 200) throw new Error(`the reference refuses ${path}: ${answer.status} ${answer.text.slice(0, 300)}`)
    return answer.text
  }
  const expected = async (question) => {
    const key = `${question.path} ${question.body}`
    const body = JSON.parse(question.body)
    const text = known.get(key) ?? (await cold(question.path, body, question.isExact ? null : undefined))
    known.delete(key)
    known.set(key, text) // the youngest
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value)
    return text
  }
  const gapTo = async (question, wanted, text) => {
    const { path, body } = withAlternatives(question)
    const [mine, theirs] = [textsOf(question, text), textsOf(question, wanted)]
    const whole = textsOf(question, await cold(question.path, JSON.parse(question.body)))
    if (mine.length === whole.length && mine.every((it, i) => it === whole[i])) return 0 // a cold run says it, too
    const again = await cold(path, body)
    const places = placesOf(path, JSON.parse(again))
    // The difference is elsewhere.
    if (mine.length !== theirs.length || mine.every((it, i) => it === theirs[i])) return Infinity
    const its = textsOf({ path, stream: false }, again)[0]
    // A reply that ended with a stop text departed within that text, which it does not show.
    const { stop, stop_sequences: stops = stop ?? [] } = JSON.parse(question.body)
    return Math.max(...mine.map((it, i) => (it === theirs[i] || it === its ? 0 : Math.min(...['', ...stops].map((end) => gapOf(places, it + end))))))
  }
  // Cold runs differ in rounding, too: one that departed elsewhere tells nothing about this reply.
  const isTie = async (question, wanted, text) => {
    let gap = Infinity
    for (let i = 0; i < COLD_RUNS && gap > TIE; i++) gap = Math.min(gap, await gapTo(question, wanted, text))
    gaps.push(gap)
    return gap <= TIE
  }
  return {
    counts, textsOf,
    gaps,
    // { verdict: 'same' | 'split' | 'tie' | 'valid' | 'different', wanted, why }
    verdict: async (question, text) => {
      const wanted = await expected(question)
      const plain = (it) => (question.isExact ? it : it.replace(/"finish_key":"[0-9a-f]{64}"/g, '"finish_key":""'))
      let verdict = compare(plain(wanted), plain(text), question.stream)
      if (verdict === 'different' && !question.isExact && !contradicts(text)) {
        if (question.isValid) verdict = textsOf(question, text).every(question.isValid) ? 'valid' : 'different'
        else if (await isTie(question, wanted, text)) verdict = 'tie'
      }
      counts[verdict]++
      return { verdict, wanted, why: verdict === 'different' ? firstDifference(plain(wanted), plain(text)) : '' }
    },
  }
}
