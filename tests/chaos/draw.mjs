// draw.mjs - random numbers from a seed (splitmix64, as in tests/support/support.c)
export const drawer = (seed) => {
  let state = BigInt(seed)
  const mask = (1n << 64n) - 1n
  const next = (bound) => {
    state = (state + 0x9E3779B97F4A7C15n) & mask
    let x = state
    x = ((x ^ (x >> 30n)) * 0xBF58476D1CE4E5B9n) & mask
    x = ((x ^ (x >> 27n)) * 0x94D049BB133111EBn) & mask
    return Number((x ^ (x >> 31n)) % BigInt(bound))
  }
  return { next, pick: (list) => list[next(list.length)], chance: (percent) => next(100) < percent }
}
