// numbers.js - numbers as people read them

// 1234567 -> "1,234,567"
export const count = (n) => Math.round(n).toLocaleString('en-US')

// 1, 'row' -> "1 row"; 2, 'row' -> "2 rows"
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`

// Bytes in binary units with three digits: 268435456 -> "256 MiB"
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let at = 0
  while (n >= 1023.5 && at < units.length - 1) {
    n /= 1024
    at++
  }
  return `${at > 0 && n < 99.95 ? n.toFixed(n < 9.995 ? 2 : 1) : Math.round(n)} ${units[at]}`
}

// A rate with three digits: 0.123, 4.56, 78.9, 1,234
export const rate = (n) => (n < 99.95 ? String(Number(n.toPrecision(3))) : count(n))

// 0.912 -> "91 %"; null -> "–"
export const share = (n) => (n === null ? '–' : `${Math.round(n * 100)} %`)

// Milliseconds: 0.4 ms, 21 ms, 1.5 s, 12 s, 3 min, 2.5 h
export function time(ms) {
  if (ms < 999.5) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 119.5) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}

// The time of day: "18:02:15"
export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB')
