// random.mjs - schemas put together at random, of keywords that bear upon each other; the same for the same seed
export const randomSchemas = (seed, n) => {
  let state = BigInt(seed) * 6364136223846793005n + 1442695040888963407n
  const next = (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn
    return Number((state >> 33n) % BigInt(below))
  }
  const one = (list) => list[next(list.length)]
  const some = (list) => list.filter(() => next(2) === 0)
  const names = ['a', 'b', 'ab', 'c']
  const values = [0, 1, -3, 2.5, '', 'a', 'abc', true, null, [], [1], {}, { a: 1 }]
  const patterns = ['^a', 'b$', '^[ab]*$', 'a.c', '^(a|bc){1,2}$', '[^a]', '\\d', '^.{0,3}$']

  const string = (schema) => {
    if (next(2)) schema.minLength = next(3)
    if (next(2)) schema.maxLength = 1 + next(5)
    if (next(2)) schema.pattern = one(patterns)
  }
  const number = (schema) => {
    if (next(2)) schema[one(['minimum', 'exclusiveMinimum'])] = one([-10, -0.5, 0, 1, 2.25])
    if (next(2)) schema[one(['maximum', 'exclusiveMaximum'])] = one([0, 1, 3.75, 12, 100])
    if (next(3) === 0) schema.multipleOf = one([1, 2, 3, 0.5, 0.25, 10])
  }
  const array = (schema, depth) => {
    if (next(2)) schema.items = any(depth - 1)
    if (next(3) === 0) schema.prefixItems = [any(depth - 1), any(depth - 1)].slice(0, 1 + next(2))
    if (next(3) === 0) schema.minItems = next(3)
    if (next(3) === 0) schema.maxItems = 1 + next(4)
    if (next(4) === 0) schema.contains = any(depth - 1)
    if (schema.contains !== undefined && next(2)) schema.maxContains = 1 + next(2)
    if (next(5) === 0) { schema.uniqueItems = true; schema.items = { enum: some(values).concat([7]) } }
  }
  const object = (schema, depth) => {
    if (next(4)) schema.properties = Object.fromEntries(some(names).map((name) => [name, any(depth - 1)]))
    if (next(2)) schema.required = some(names)
    if (next(3) === 0) schema.additionalProperties = next(2) ? any(depth - 1) : false
    if (next(4) === 0) schema.patternProperties = { [one(patterns.slice(0, 4))]: any(depth - 1) }
    if (next(5) === 0) schema.propertyNames = { [one(['minLength', 'maxLength'])]: 1 + next(2) }
    if (next(4) === 0) schema.minProperties = next(3)
    if (next(4) === 0) schema.maxProperties = 1 + next(3)
    if (next(6) === 0) schema.dependentRequired = { [one(names)]: some(names) }
    if (next(6) === 0) schema.unevaluatedProperties = false
  }
  let mayRefer = true
  const any = (depth) => {
    const schema = {}
    if (depth <= 0) return one([true, { type: one(['string', 'integer', 'null', 'boolean']) }, { const: one(values) }, {}])
    if (next(3)) schema.type = next(4) ? one(['string', 'integer', 'number', 'array', 'object', 'boolean', 'null']) : ['string', 'object', 'integer']
    if (next(3) === 0) string(schema)
    if (next(3) === 0) number(schema)
    if (next(3) === 0 || schema.type === 'array') array(schema, depth)
    if (next(3) === 0 || schema.type === 'object') object(schema, depth)
    if (next(8) === 0) schema.enum = [...new Set(some(values).concat([1, 'ab']))]
    for (const key of ['anyOf', 'oneOf', 'allOf']) if (next(6) === 0) schema[key] = [any(depth - 1), any(depth - 1)]
    if (next(8) === 0) schema.not = any(depth - 1)
    if (next(10) === 0) { schema.if = any(depth - 1); schema.then = any(depth - 1); schema.else = any(depth - 1) }
    if (next(12) === 0 && mayRefer) schema.$ref = '#/$defs/d'
    return schema
  }
  const definition = () => {
    mayRefer = false // to itself, which would be a circle
    const schema = any(1)
    mayRefer = true
    return schema
  }
  return Array.from({ length: n }, () => ({ ...any(3), $defs: { d: definition() } }))
}
