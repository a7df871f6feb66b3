import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import type { Progress } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { systemClock } from './clock.ts'
import { watchProgress } from './progress.ts'

/** A clock that the test moves. */
function handClock() {
  let nowMs = 0
  let timers: { atMs: number; run: () => void }[] = []
  return {
    nowMs: () => nowMs,
    after(ms: number, run: () => void) {
      const timer = { atMs: nowMs + ms, run }
      timers.push(timer)
      return () => void (timers = timers.filter((one) => one !== timer))
    },
    wind(toMs: number) {
      for (;;) {
        const due = timers.filter((one) => one.atMs <= toMs).toSorted((a, b) => a.atMs - b.atMs)[0]
        if (due === undefined) break
        timers = timers.filter((one) => one !== due)
        nowMs = due.atMs
        due.run()
      }
      nowMs = toMs
    },
  }
}

const said = (fraction: number): Progress => ({ fraction, message: '' })

describe('progress', () => {
  it('is passed on at most ten times a second, newest first, and always before the end', () => {
    const clock = handClock()
    const heard: number[] = []
    const watch = watchProgress({
      heartbeatMs: undefined,
      clock,
      onProgress: ({ fraction }) => void heard.push(fraction),
    })
    for (let ms = 0; ms < 1000; ms += 1) {
      clock.wind(ms)
      watch.hear(said(ms / 1000))
    }
    expect(heard).toEqual(
      [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        .map((n) => (n === 0 ? 0 : n - 0.001))
        .map((n) => expect.closeTo(n, 2)),
    )
    watch[Symbol.dispose]()
    expect(heard.at(-1)).toBe(0.999)
    clock.wind(5000)
    expect(heard).toHaveLength(11)
    expect(watch.silent.aborted).toBe(false)
  })

  it("that is missing for a heartbeat's time is reported once, and each report delays that", () => {
    const clock = handClock()
    const watch = watchProgress({ heartbeatMs: 1000, clock, onProgress: () => undefined })
    for (const ms of [900, 1800, 2700]) {
      clock.wind(ms)
      watch.hear(said(0.5))
    }
    clock.wind(3699)
    expect(watch.silent.aborted).toBe(false)
    clock.wind(3700)
    expect(watch.silent.aborted).toBe(true)
  })

  it('that came while the process itself stood still counts', async () => {
    const server = createServer((socket) => socket.end('report')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').pause()
    // The report is in the socket, and nothing has read it yet.
    await Promise.all([once(client, 'connect'), once(server, 'connection')])
    using watch = watchProgress({ heartbeatMs: 5, clock: systemClock, onProgress: () => undefined })
    const heard = once(client.resume(), 'data').then(() => watch.silent.aborted)
    const untilMs = performance.now() + 20
    while (performance.now() < untilMs);
    expect(await heard).toBe(false)
    server.close()
  })
})
