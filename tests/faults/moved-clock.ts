/**
 * Sets the clock that our Redis scripts see, for every script that is loaded after this module. A test
 * imports it first, and a worker gets it by `NODE_OPTIONS=--import`. The clock stands still, so that "the
 * last millisecond of the day" lasts as long as the test needs it. `movedDate` makes `Date.now` of the
 * process follow.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Milliseconds since the epoch. Without this key, scripts see the real time. The key has the queue's hash
 * tag, so that scripts stay in their cluster slot.
 */
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

/** Makes `Date.now` return the same time. Disposing the result restores it. */
export function movedDate(atMs: () => number): () => void {
  const real = Date.now
  Date.now = atMs
  return () => {
    Date.now = real
  }
}
