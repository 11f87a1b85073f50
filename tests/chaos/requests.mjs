// requests.mjs - requests of every API and kind, made from a seed
//
// Sampled requests have seeds. Anthropic's API has no seed, so its requests ask for the likeliest tokens. Prompts share
// prefixes, like those of real clients. For a model with one request at a time, each request has its own salt.
import { drawer } from './draw.mjs'

const words = 'the fox ran over a hill and saw an old river where three birds sang about rain stone bread light king wood'.split(' ')
export const sentences = (draw, n) => Array.from({ length: n }, (_, i) => draw.pick(words) + (i % 12 === 11 ? '.' : '')).join(' ')

export const schema = {
  type: 'object',
  properties: {
    ok: { type: 'boolean' }, who: { type: 'string', enum: ['fox', 'bear', 'owl'] },
    list: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, minItems: 2, maxItems: 8 },
  },
  required: ['ok', 'who', 'list'],
  additionalProperties: false,
}
const parameters = {
  type: 'object', properties: { which: { type: 'string', enum: ['left', 'right'] }, often: { type: 'boolean' } },
  required: ['which', 'often'], additionalProperties: false,
}

// The common fields of OpenAI's two APIs.
const sampling = (draw, options) => {
  if (draw.chance(40)) return { temperature: 0 }
  const body = { temperature: 0.7 + draw.next(6) / 10, seed: draw.next(100000) }
  if (draw.chance(25)) body.top_p = 0.9
  if (draw.chance(25)) body.frequency_penalty = 0.8
  if (draw.chance(15)) body.presence_penalty = 0.5
  if (draw.chance(15)) body.logit_bias = { [100 + draw.next(150)]: 3 }
  return body
}
export const stops = (draw) => (draw.chance(30) ? [draw.pick([' fox', ' the', '. ', ' bear', 'ing']), 'never said'] : undefined)

// Returns the request of an index.
export const requestMaker = (seed, { models, maxTokens }) => {
  const shared = drawer(seed ^ 0x5eed)
  const beginnings = Array.from({ length: 6 }, (_, i) => sentences(shared, [0, 30, 60, 150, 260, 400][i]))

  const one = (draw, index) => {
    const model = draw.pick(models.flatMap((it) => Array(it.share).fill(it)))
    const several = !model.isAlone
    const begins = several ? beginnings.slice(0, 4) : beginnings // the stub's tokens are bytes
    const stream = draw.chance(75)
    const prompt = `${draw.pick(begins)} ${sentences(draw, 4 + draw.next(30))}`.trim()
    const limit = (8 + draw.next(maxTokens - 8)) * (several ? 4 : 1)
    const chat = () => {
      const body = {
        model: model.name, stream, max_tokens: limit, ...sampling(draw),
        messages: [...(draw.chance(40) ? [{ role: 'system', content: draw.pick(begins) || 'Be kind.' }] : []), { role: 'user', content: prompt }],
      }
      if (stream && draw.chance(50)) body.stream_options = { include_usage: true }
      const kind = draw.next(10)
      if (kind === 0 && several) body.n = 2 + draw.next(2)
      else if (kind === 1 && !several) body.response_format = { type: 'json_schema', json_schema: { name: 'a', schema } }
      else if (kind === 2 && model.hasTools !== false)
        Object.assign(body, { tools: [{ type: 'function', function: { name: 'turn', parameters } }], tool_choice: draw.pick(['auto', 'required']) })
      else if (kind === 3) body.logprobs = true
      else body.stop = stops(draw)
      return { path: '/v1/chat/completions', body }
    }
    const completion = () => {
      const body = { model: model.name, stream, prompt, max_tokens: limit, ...sampling(draw), stop: stops(draw), echo: draw.chance(20) || undefined }
      if (several && draw.chance(15)) body.prompt = [prompt, `${prompt} and`]
      if (several && draw.chance(15)) body.n = 2
      return { path: '/v1/completions', body }
    }
    const message = () => ({
      path: '/v1/messages',
      body: {
        model: model.name, stream, max_tokens: limit, temperature: 0, messages: [{ role: 'user', content: prompt }],
        system: draw.chance(40) ? draw.pick(begins) || undefined : undefined, stop_sequences: stops(draw),
      },
    })
    const native = () => {
      const body = { model: model.name, stream, prompt, n_predict: limit, temperature: draw.pick([0, 0.8, 1.2]), seed: draw.next(100000), stop: stops(draw) }
      if (draw.chance(20)) body.repeat_penalty = 1.2
      if (!several && draw.chance(20)) body.json_schema = schema
      if (draw.chance(15)) body.n_probs = 2
      if (!body.json_schema && draw.chance(20)) body.ignore_eos = true
      if (draw.chance(20)) body.return_tokens = true
      return { path: '/completion', body }
    }
    const make = draw.pick([chat, chat, chat, completion, message, native])
    const { path, body } = make()
    if (model.isAlone) body.cache_salt = `request ${index}`
    return { index, model: model.name, path, stream, body: JSON.stringify(body) }
  }
  // One draw for each request, so that --only can repeat a single one.
  return (index) => one(drawer(seed * 100003 + index), index)
}

export const makeRequests = (n, seed, options) => Array.from({ length: n }, (_, index) => index).map(requestMaker(seed, options))
