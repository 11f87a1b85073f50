// suite.mjs - grammars of JSON schemas against the official JSON Schema test suite, and against a validator
//
// Usage: node suite.mjs TOOL NODE_MODULES [--list] [--table]
//
//   1. take each schema of the suite for draft 7, as it is and written as one of 2020-12, and the cases of cases.mjs
//   2. compile it, literally and as replies are wanted; what is refused is counted by the keyword that was named
//   3. no instance that the suite calls invalid may be of the grammar
//   4. of those that it calls valid, count how many are of the literal grammar, in some order of their members
//   5. texts of the grammar, found at random, must be valid for ajv; so must those of random schemas
//
// A grammar that has an invalid text is wrong; one that lacks a valid text is not. It fails where any is wrong, and
// where fewer are supported than were once. With --list, what is refused or lacking is printed; with --table, the table
// of docs/sampling.md.
//
// Environment: HTH_SCHEMA_SUITE, a directory of the suite, with tests/draft7 and the like (default: where Debian's
// package json-schema-test-suite puts it, or else the package of npm, which has draft 4 only).
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { cases } from './cases.mjs'
import { randomSchemas } from './random.mjs'

const [tool, modules, ...flags] = process.argv.slice(2)
const require = createRequire(`${modules}/node_modules/`)
const { default: Ajv } = require('ajv')
const { default: Ajv2020 } = require('ajv/dist/2020.js')
const { default: addFormats } = require('ajv-formats')
const N_WALKS = 12
const N_RANDOM = 200
const seed = Number(process.env.HTH_SEED ?? 1)

// ---- the suite

const places = [process.env.HTH_SCHEMA_SUITE, '/usr/share/json-schema-test-suite', `${modules}/node_modules/json-schema-test-suite`]
const suite = places.find((place) => place && existsSync(`${place}/tests`))
assert.ok(suite, 'there is no copy of the JSON Schema test suite; set HTH_SCHEMA_SUITE')

const read = (draft) => {
  const folder = `${suite}/tests/${draft}`
  if (!existsSync(folder)) return []
  return readdirSync(folder).filter((name) => name.endsWith('.json')).sort().flatMap((name) =>
    JSON.parse(readFileSync(`${folder}/${name}`, 'utf8')).map((group) => ({ ...group, file: name })))
}

// A schema of draft 7 in the words of 2020-12.
const asOf2020 = (schema, isMap = false) => {
  if (Array.isArray(schema)) return schema.map((one) => asOf2020(one))
  if (schema === null || typeof schema !== 'object') return schema
  const out = {}
  for (const [key, value] of Object.entries(schema)) {
    if (isMap) { out[key] = asOf2020(value); continue }
    switch (key) {
      case 'enum': case 'const': case 'default': case 'examples': out[key] = value; break
      case 'items':
        if (Array.isArray(value)) out.prefixItems = asOf2020(value)
        else out.items = asOf2020(value)
        break
      case 'additionalItems': if (Array.isArray(schema.items)) out.items = asOf2020(value); break
      case 'definitions': out.$defs = asOf2020(value, true); break
      case 'dependencies':
        for (const [name, asked] of Object.entries(value)) {
          const to = Array.isArray(asked) ? 'dependentRequired' : 'dependentSchemas'
          out[to] = { ...out[to], [name]: Array.isArray(asked) ? asked : asOf2020(asked) }
        }
        break
      case '$ref': out.$ref = typeof value === 'string' ? value.replace('#/definitions/', '#/$defs/') : asOf2020(value); break
      // Draft 4 has a word where later ones have a number.
      case 'exclusiveMinimum': out[key] = value === true ? schema.minimum : value; break
      case 'exclusiveMaximum': out[key] = value === true ? schema.maximum : value; break
      case 'properties': case 'patternProperties': out[key] = asOf2020(value, true); break
      default: out[key] = asOf2020(value)
    }
  }
  return out
}

const with$schema = (schema, uri) =>
  typeof schema === 'object' && !Array.isArray(schema) && !('$schema' in schema) ? { $schema: uri, ...schema } : schema

const uris = { old: 'http://json-schema.org/draft-07/schema#', new: 'https://json-schema.org/draft/2020-12/schema' }
// What other draft-7 keywords next to $ref say is not read; in 2020-12 it is, so those groups are not the same schema.
const isRewritable = (group) => {
  const text = JSON.stringify(group.schema)
  return !['ref.json', 'refRemote.json', 'definitions.json', 'id.json'].includes(group.file) && !text.includes('"$id"')
}

const old = read('draft7').length > 0 ? read('draft7') : read('draft4')
const sets = [
  { name: read('draft7').length > 0 ? 'draft 7' : 'draft 4', Validator: Ajv,
    groups: old.map((group) => ({ ...group, schema: with$schema(group.schema, uris.old) })) },
  { name: 'the same, written as 2020-12', Validator: Ajv2020,
    groups: old.filter(isRewritable).map((group) => ({ ...group, schema: with$schema(asOf2020(group.schema), uris.new) })) },
  { name: 'draft 2020-12', Validator: Ajv2020, groups: read('draft2020-12') },
  { name: 'our own cases of 2020-12', Validator: Ajv2020,
    groups: cases.map((one) => ({ ...one, file: 'cases.mjs', schema: with$schema(one.schema, uris.new) })) },
  { name: `random ones (seed ${seed})`, Validator: Ajv2020, isRandom: true,
    groups: randomSchemas(seed, N_RANDOM).map((schema, i) => ({ schema: with$schema(schema, uris.new), file: 'random.mjs', description: `${i}`, tests: [] })) },
].filter((set) => set.groups.length > 0)

// ---- the compiler

const child = spawn(tool, { stdio: ['pipe', 'pipe', 'inherit'] })
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
const compile = async (question) => {
  child.stdin.write(`${JSON.stringify(question)}\n`)
  const { value, done } = await lines.next()
  assert.ok(!done, `the compiler ended at ${JSON.stringify(question)}`)
  return JSON.parse(value)
}

// ---- texts of an instance

const permutations = (list) => list.length < 2 ? [list]
  : list.flatMap((one, i) => permutations([...list.slice(0, i), ...list.slice(i + 1)]).map((rest) => [one, ...rest]))

// Every order of the members of the outermost object, as long as those are few; inner ones are as they are.
const textsOf = (value) => {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return [JSON.stringify(value)]
  const keys = Object.keys(value)
  if (keys.length > 5) return [JSON.stringify(value)]
  const member = (key) => `${JSON.stringify(key)}:${JSON.stringify(value[key])}`
  return permutations(keys).map((order) => `{${order.map(member).join(',')}}`)
}

// ---- running

const list = (...words) => { if (flags.includes('--list')) console.log(...words) }
let wrong = 0
const fail = (set, group, what, text) => {
  wrong++
  console.log(`WRONG ${set.name} ${group.file}: ${group.description}: ${what}: ${text}\n  ${JSON.stringify(group.schema)}`)
}

const run = async (set, group, counts, isLiteral) => {
  const texts = group.tests.map((test) => textsOf(test.data))
  const answer = await compile({ schema: JSON.stringify(group.schema), is_literal: isLiteral, texts: texts.flat(), n_walks: N_WALKS, seed: counts.schemas })
  let at = 0

  if (answer.error) {
    const hasValid = group.tests.some((test) => test.valid)
    if (answer.error.includes('no value meets') && !hasValid) return counts.supported++
    list(`refused ${set.name} ${group.file}: ${group.description}: ${answer.error}`)
    return counts.refused++
  }
  counts.supported++
  group.tests.forEach((test, i) => {
    const isOf = texts[i].some((text, j) => answer.accepted[at + j])
    at += texts[i].length
    if (!test.valid && isOf) fail(set, group, 'an invalid instance is of the grammar', JSON.stringify(test.data))
    if (test.valid) {
      counts.valid++
      if (isOf) counts.accepted++
      else if (isLiteral) list(`lacking ${set.name} ${group.file}: ${group.description}: ${JSON.stringify(test.data)}`)
    } else counts.invalid++
  })
  let validate
  try {
    const ajv = addFormats(new set.Validator({ strict: false, logger: false, multipleOfPrecision: 2 }))
    validate = ajv.compile(group.schema)
  } catch { return } // not a schema for ajv: the suite has some that refer to others
  for (const text of answer.walks) {
    counts.walks++
    let value
    try { value = JSON.parse(text) } catch { fail(set, group, 'a text of the grammar is no JSON', text); continue }
    if (!validate(value)) fail(set, group, 'a text of the grammar is invalid', text)
  }
}

const table = []
for (const set of sets)
  for (const isLiteral of [true, false]) {
    const counts = { schemas: 0, supported: 0, refused: 0, valid: 0, accepted: 0, invalid: 0, walks: 0 }
    for (const group of set.groups) {
      counts.schemas++
      await run(set, group, counts, isLiteral)
    }
    table.push({ name: set.name, isRandom: set.isRandom, isLiteral, ...counts })
  }
child.stdin.end()

console.log(`| schemas of | read | schemas | supported | refused | valid instances in the grammar | invalid instances in it | random texts, invalid |`)
console.log('|---|---|---|---|---|---|---|---|')
for (const t of table)
  console.log(`| ${t.name} | ${t.isLiteral ? 'literally' : 'as replies are wanted'} | ${t.schemas} | ${t.supported} | ${t.refused} ` +
    `| ${t.accepted} of ${t.valid} | 0 of ${t.invalid} | ${t.walks}, 0 |`)
console.log(`wrong: ${wrong} (${suite})`)
assert.equal(wrong, 0)
for (const t of table.filter((t) => !t.isRandom)) {
  assert.ok(t.supported >= 0.85 * t.schemas, `${t.name}: only ${t.supported} of ${t.schemas} schemas are supported`)
  if (t.isLiteral) assert.ok(t.accepted >= 0.9 * t.valid, `${t.name}: only ${t.accepted} of ${t.valid} valid instances are in the grammar`)
}
