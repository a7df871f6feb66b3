/** Figures in words, short enough for a table. */

/** A duration: `420 ms`, `3.2 s`, `4 m 05 s`, `3 h 12 m`, `5 d 2 h`. */
export function duration(ms: number): string {
  const whole = Math.max(0, ms)
  if (whole < 1000) return `${Math.round(whole)} ms`
  if (whole < 60_000) return `${(whole / 1000).toFixed(whole < 10_000 ? 1 : 0)} s`
  const seconds = Math.floor(whole / 1000)
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} m ${String(seconds % 60).padStart(2, '0')} s`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, '0')} m`
  return `${Math.floor(hours / 24)} d ${hours % 24} h`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** A size: `12 B`, `4.0 KiB`, `210 MiB`. */
export function size(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`
}

/** A number with separators: `12,400`. At most three decimals. */
export const count = (value: number): string => value.toLocaleString('en-US')

/** A number of things: `1 worker`, `3 workers`. */
export const counted = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`

/** Cost in the operator’s unit, from micro-units: `0.0042`. */
export function cost(microUnits: number): string {
  const value = microUnits / 1_000_000
  if (value === 0) return '0'
  return value >= 100 ? value.toFixed(0) : value.toPrecision(2)
}

/** A part of 1: `42 %`, `4.2 %`, `0.03 %`, `0 %`. What is not 0 is never shown as 0. */
export function percent(part: number): string {
  const value = part * 100
  if (value === 0) return '0 %'
  if (value < 0.01) return '< 0.01 %'
  return `${value.toFixed(value >= 9.95 ? 0 : value >= 0.995 ? 1 : 2)} %`
}

/** How long ago, or in how long: `just now`, `4 s ago`, `in 2 m`. */
export function relative(atMs: number, nowMs: number): string {
  const distance = nowMs - atMs
  if (Math.abs(distance) < 1500) return 'just now'
  const coarse = duration(
    Math.abs(distance) < 60_000 ? Math.round(Math.abs(distance) / 1000) * 1000 : Math.abs(distance),
  )
  const short = coarse.replace(/^(\d+)\.0 s$/, '$1 s').replace(/^(\d+ [mhd]) .*$/, '$1')
  return distance > 0 ? `${short} ago` : `in ${short}`
}
