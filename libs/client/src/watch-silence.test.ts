import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { watchOver } from './watch-silence.ts'

describe('a watch over a call', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('aborts after the silence, and not before', () => {
    const watch = watchOver([])
    watch.limitSilence(45_000)
    vi.advanceTimersByTime(44_999)
    expect(watch.signal.aborted).toBe(false)
    vi.advanceTimersByTime(1)
    expect(watch.signal.reason).toMatchObject({ message: 'nothing heard within 45000 ms' })
  })

  it('starts anew with everything that is heard, and has no limit after null', () => {
    const watch = watchOver([])
    for (let heard = 0; heard < 5; heard += 1) {
      watch.limitSilence(45_000)
      vi.advanceTimersByTime(44_000)
    }
    watch.limitSilence(null)
    vi.advanceTimersByTime(1_000_000)
    expect(watch.signal.aborted).toBe(false)
  })

  it('aborts within five seconds when the machine slept for longer than the silence', () => {
    const watch = watchOver([])
    watch.limitSilence(45_000)
    vi.advanceTimersByTime(2000)
    vi.setSystemTime(Date.now() + 3_600_000)
    vi.advanceTimersByTime(5000)
    expect(watch.signal.aborted).toBe(true)
  })

  it('aborts in time when the clock is set back', () => {
    const watch = watchOver([])
    watch.limitSilence(45_000)
    vi.setSystemTime(Date.now() - 3_600_000)
    vi.advanceTimersByTime(45_000)
    expect(watch.signal.aborted).toBe(true)
  })

  it('aborts with the reason of a followed signal, also of one that had aborted before', () => {
    const stop = new AbortController()
    const [before, after] = [watchOver([undefined, stop.signal]), () => watchOver([stop.signal])]
    stop.abort('enough')
    expect([before.signal.reason, after().signal.reason]).toEqual(['enough', 'enough'])
  })

  it('leaves no timer and no listener when it ends', () => {
    const stop = new AbortController()
    const removed = vi.spyOn(stop.signal, 'removeEventListener')
    const watch = watchOver([stop.signal])
    watch.limitSilence(45_000)
    watch.end()
    expect(vi.getTimerCount()).toBe(0)
    expect(removed).toHaveBeenCalledOnce()
  })
})
