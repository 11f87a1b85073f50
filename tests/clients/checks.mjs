// checks.mjs - for the tests with official clients: named checks, a line for each, and the clients
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { join } from 'node:path'

export { assert }

// Packages lie where scripts/npm.sh put them, outside the checkout.
export const client = createRequire(join(process.env.HEARTH_CLIENTS ?? process.cwd(), 'package.json'))

// SERVER_URL is the address of the server, SERVER_KEY a key that may do everything.
export const server = process.env.SERVER_URL
export const key = process.env.SERVER_KEY
if (!server) {
  console.error('SERVER_URL is not set: these tests are started by tests/e2e/clients_*_test.sh')
  process.exit(2)
}

let nPassed = 0
let nFailed = 0
const only = process.env.ONLY // a part of a check's name, when one is looked at

// One check: a sentence that is true of the server.
export const check = async (name, work) => {
  if (only && !name.includes(only)) return
  try {
    await work()
    nPassed++
    console.log(`ok      ${name}`)
  } catch (error) {
    nFailed++
    console.log(`FAILED  ${name}\n        ${String(error?.stack ?? error).split('\n').slice(0, 12).join('\n        ')}`)
  }
}

export const finish = () => {
  console.log(`${nPassed} passed, ${nFailed} failed`)
  process.exit(nFailed > 0 || nPassed === 0 ? 1 : 0)
}

// The error of a call; a call that succeeds fails the check.
export const failure = async (promise) => {
  let value
  try {
    value = await promise
  } catch (error) {
    return error
  }
  throw new assert.AssertionError({ message: `this was to be refused, and gave ${JSON.stringify(value).slice(0, 300)}` })
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Wait for a condition, for three minutes at most: a busy machine may need long.
export const until = async (what, isSo) => {
  for (const end = Date.now() + 180_000; Date.now() < end; await sleep(20)) if (await isSo()) return
  throw new Error(`three minutes passed, and not: ${what}`)
}

// A plain request, for features that the clients hide or lack.
export const raw = (path, options = {}) =>
  fetch(server + path, {
    ...options,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...options.headers },
    body: options.body === undefined || typeof options.body === 'string' ? options.body : JSON.stringify(options.body),
  })
export const json = async (path, options) => (await raw(path, options)).json()
export const post = (path, body) => json(path, { method: 'POST', body })

// Does this match the schema? An unknown keyword is an error of the test.
export const matches = (schema, value) => {
  if (schema.enum) return schema.enum.includes(value)
  switch (schema.type) {
    case 'boolean': return typeof value === 'boolean'
    case 'integer': return Number.isInteger(value)
    case 'string': return typeof value === 'string'
    case 'array':
      return Array.isArray(value) && value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? Infinity) &&
        value.every((item) => matches(schema.items, item))
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value) &&
        (schema.required ?? []).every((name) => name in value) &&
        Object.keys(value).every((name) => schema.properties[name] ? matches(schema.properties[name], value[name]) :
          schema.additionalProperties !== false)
    default: throw new Error(`no such type in tests: ${schema.type}`)
  }
}

// The number of requests that a model works on, from the server.
export const busySlots = async (model) =>
  (await json(`/slots?model=${encodeURIComponent(model)}`)).filter((slot) => slot.is_processing).length

// Different prompts, long enough for the cache.
export const longText = (name) =>
  `This is the ${name} of the fox who lived by the old river. Every morning he went over the hill to look for bread, and ` +
  'every evening he sang about the rain, the stones and the birds, until the light was gone. Tell me more about him.'
