/**
 * Puts Redis' clock where a test wants it, for every script of the product that is loaded after this module: in the test's
 * own process by being imported first, in a worker by `NODE_OPTIONS=--import`. Neither Redis nor the product knows. The
 * clock stands still, so that "the last millisecond of the day" is one for as long as the test looks at it; `Date.now` of
 * the process follows when it is told (`movedDate`).
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** Milliseconds since the epoch; without it scripts see the real time. Of the queue's hash tag, so that routing stays. */
export const MOVED_CLOCK = '{cofferdam}:moved-clock'

const MOVED = `(function()
  local at = redis.call('GET', '${MOVED_CLOCK}')
  if not at then return redis.call('TIME') end
  return { math.floor(at / 1000), at % 1000 * 1000 }
end)()`

const readFileSync = fs.readFileSync
const reading: (...args: Parameters<typeof readFileSync>) => string | Buffer = (file, options) => {
  const content = readFileSync(file, options)
  return typeof content === 'string' && String(file).endsWith('.lua')
    ? content.replaceAll(`redis.call('TIME')`, MOVED)
    : content
}
fs.readFileSync = reading as typeof readFileSync
syncBuiltinESMExports()

/** What `Date.now` says to be while the clock stands there; the result puts it back. */
export function movedDate(atMs: () => number): () => void {
  const real = Date.now
  Date.now = atMs
  return () => {
    Date.now = real
  }
}
