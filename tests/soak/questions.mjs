// questions.mjs - the requests of a soak's clients, made from a seed
//
// There are two kinds of models, with different claims on their replies (docs/engine.md, "When bits stay the same"):
//
//   stub            Its bits depend on tokens only: its bytes are always the same, sampled or not (`isExact`).
//   alone, crowds   The real model. In its small context, new tokens lie in cells that others left. It replies with the
//                   likeliest tokens; a token may differ only from one that was about equally likely (judge.mjs).
//                   `alone` has one request at a time, each with its own salt; `crowds` has several at once, which
//                   share context and cache.
//
// The stub and `alone` get the requests of the chaos run (../chaos/requests.mjs).
import { requestMaker, schema, sentences, stops } from '../chaos/requests.mjs'
import { drawer } from '../chaos/draw.mjs'

const MAX_TOKENS = 96
const grammar = 'root ::= line line?\nline ::= [a-z]+ (" " [a-z]+)* ".\\n"\n'

const say = (path, body) => ({ path, stream: body.stream, body: JSON.stringify(body) })

// The form of the beginning of a reply under the schema or the grammar: max_tokens may end it anywhere.
const isOfSchema = (text) => {
  const [whole] = /^\s*\{\s*("ok"\s*:\s*(true|false)\s*(,\s*"who"\s*:\s*"(fox|bear|owl)"\s*(,\s*"list"\s*:\s*\[\s*\d(\s*,\s*\d)*\s*\]\s*\})?)?)?/.exec(text) ?? ['']
  return whole !== '' && (whole.trim().endsWith('}') ? text.trim() === whole.trim() : text.length - whole.length < 200)
}
const isOfGrammar = (text) => /^[a-z]+( [a-z]+)*( ?|\.\n([a-z]+( [a-z]+)*( ?|\.\n))?|\.)$/.test(text)

// A prompt of the crowd, with one of few prefixes, so that requests share them.
const makeCrowd = (seed) => {
  const shared = drawer(seed ^ 0xc40d)
  const beginnings = Array.from({ length: 8 }, (_, i) => sentences(shared, [0, 20, 40, 80, 120, 180, 240, 300][i]))
  return (draw, model, more) => {
    const prompt = `${draw.pick(more ? beginnings.slice(-3) : beginnings)} ${sentences(draw, 3 + draw.next(40))}`.trim()
    const stream = draw.chance(60)
    const limit = 4 + draw.next(MAX_TOKENS)
    const common = { model, stream, temperature: 0 }
    if (more) Object.assign(common, more)
    else {
      if (draw.chance(30)) common.session_id = `session ${draw.next(12)}`
      if (draw.chance(40)) common.priority = draw.next(11) - 5
    }
    const kind = draw.pick(['chat', 'chat', 'completion', 'message', 'native'])
    if (kind === 'chat') {
      const body = { ...common, max_tokens: limit, messages: [{ role: 'user', content: prompt }] }
      if (draw.chance(30)) body.messages.unshift({ role: 'system', content: draw.pick(beginnings.slice(0, 4)) || 'Be kind.' })
      if (draw.chance(20)) return { ...say('/v1/chat/completions', { ...body, response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }), isValid: isOfSchema }
      if (draw.chance(20) && !common.session_id) body.n = 2 + draw.next(2)
      else body.stop = stops(draw)
      return say('/v1/chat/completions', body)
    }
    if (kind === 'completion') return say('/v1/completions', { ...common, max_tokens: limit, prompt, n: draw.chance(20) && !common.session_id ? 2 : undefined, stop: stops(draw) })
    if (kind === 'message')
      return say('/v1/messages', {
        ...common, max_tokens: limit, system: draw.chance(40) ? draw.pick(beginnings.slice(0, 4)) || undefined : undefined, stop_sequences: stops(draw),
        messages: [{ role: 'user', content: draw.chance(30) ? [{ type: 'text', text: prompt, cache_control: { type: 'ephemeral' } }] : prompt }],
      })
    const native = { ...common, n_predict: limit, prompt, seed: 1, stop: stops(draw), return_tokens: draw.chance(20) }
    const constraint = draw.next(6)
    if (constraint === 0) return { ...say('/completion', { ...native, json_schema: schema, stop: undefined }), isValid: isOfSchema }
    if (constraint === 1) return { ...say('/completion', { ...native, grammar, stop: undefined }), isValid: isOfGrammar }
    return say('/completion', native)
  }
}

// The next turn of a conversation, after the answer to the last one.
const makeTurn = (draw, conversation) => {
  conversation.messages.push({ role: 'user', content: sentences(draw, 4 + draw.next(30)) })
  const body = { model: conversation.model, stream: draw.chance(50), temperature: 0, max_tokens: 8 + draw.next(48), messages: conversation.messages }
  if (conversation.session) body.session_id = conversation.session
  return conversation.isMessages ? say('/v1/messages', body) : say('/v1/chat/completions', body)
}

// Longer than any context here. A stub's tokens are bytes.
const makeTooLong = (draw, model) => {
  const prompt = sentences(draw, 9000)
  const stream = draw.chance(50)
  return draw.pick([
    () => say('/v1/chat/completions', { model, stream, max_tokens: 4, messages: [{ role: 'user', content: prompt }] }),
    () => say('/v1/completions', { model, stream, max_tokens: 4, prompt }),
    () => say('/v1/messages', { model, stream, max_tokens: 4, messages: [{ role: 'user', content: prompt }] }),
    () => say('/completion', { model, stream, n_predict: 4, prompt }),
  ])()
}

// Wrong requests with their statuses.
const makeBad = (draw, model) => {
  const messages = [{ role: 'user', content: 'Hello.' }]
  const chat = (more) => JSON.stringify({ model, messages, max_tokens: 4, ...more })
  const [status, path, body, method = 'POST'] = draw.pick([
    [400, '/v1/chat/completions', '{"model":'],
    [400, '/v1/chat/completions', chat({ temperature: 9 })],
    [400, '/v1/chat/completions', chat({ no_such_field: 1 })],
    [400, '/v1/chat/completions', chat({ messages: [] })],
    [400, '/v1/chat/completions', chat({ n: 100000 })],
    [400, '/v1/chat/completions', chat({ response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'nonsense' } } } })],
    [400, '/completion', JSON.stringify({ model, prompt: 'a', n_predict: 2, grammar: 'root ::= (' })],
    [400, '/completion', JSON.stringify({ model, prompt: [1, -7], n_predict: 2 })],
    [400, '/v1/messages', JSON.stringify({ model, messages })],
    [404, '/v1/chat/completions', chat({ model: 'nobody' })],
    [404, '/completion', JSON.stringify({ model, prompt: sentences(draw, 30), n_predict: 2, parent_key: 'ab'.repeat(32) })],
    [404, '/no/such/page', '{}'],
    [405, '/v1/chat/completions', undefined, 'GET'],
  ])
  return { method, path, body, stream: false, status }
}

export const makeQuestions = (seed, { alone, stub, crowds }) => {
  const chaos = { maxTokens: MAX_TOKENS }
  const ofAlone = requestMaker(seed, { ...chaos, models: [{ name: alone, isAlone: true, hasTools: false, share: 1 }] })
  const ofStub = requestMaker(seed ^ 0x57ab, { ...chaos, models: [{ name: stub, share: 1 }] })
  const ofCrowd = makeCrowd(seed)
  // The likeliest tokens, without numbers that rounding changes.
  const isGreedy = ({ body }) => /"temperature":0[,}]/.test(body) && !/"(logprobs|n_probs|\w+_penalty)":/.test(body)
  let nAlone = 0
  let nStub = 0
  const nextOfAlone = () => {
    for (;;) {
      const question = ofAlone(nAlone++)
      if (isGreedy(question)) return question.body.includes('"json_schema":') ? { ...question, isValid: isOfSchema } : question
    }
  }
  return {
    fresh: (draw) => {
      const model = draw.pick([alone, stub, ...crowds, ...crowds])
      if (model === alone) return { ...nextOfAlone(), model }
      if (model === stub) return { ...ofStub(nStub++), model, isExact: true }
      return { ...ofCrowd(draw, model), model }
    },
    crowd: (draw) => draw.pick(crowds),
    ofCrowd: (draw, model, more) => ({ ...ofCrowd(draw, model, more), model }), // a long one, with `more` in its body
    conversation: (draw, name) => ({ model: draw.pick(crowds), isMessages: draw.chance(30), session: draw.chance(50) ? name : undefined, messages: [], turns: 2 + draw.next(6) }),
    turn: (draw, conversation) => ({ ...makeTurn(draw, conversation), model: conversation.model }),
    tooLong: (draw) => makeTooLong(draw, draw.pick([alone, stub, ...crowds])),
    bad: (draw) => makeBad(draw, draw.pick([alone, stub, ...crowds])),
  }
}
