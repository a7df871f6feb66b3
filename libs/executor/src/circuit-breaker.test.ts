import { describe, expect, it } from 'vitest'
import { createManualClock } from '../test/manual-clock.ts'
import { createCircuitBreaker } from './circuit-breaker.ts'

describe('circuit breaker', () => {
  it('opens after failures in a row, allows one trial after a cooldown, closes on success', async () => {
    const clock = createManualClock()
    const circuits = createCircuitBreaker(clock, { threshold: 2, cooldownMs: 1000 })
    circuits.failed('docker')
    expect(circuits.tryEnter('docker')).toBe(true)
    circuits.failed('docker')
    expect(circuits.tryEnter('docker')).toBe(false)
    expect(circuits.tryEnter('bwrap')).toBe(true)

    await clock.advance(1000)
    expect(circuits.state('docker')).toBe('half-open')
    expect(circuits.tryEnter('docker')).toBe(true)
    expect(circuits.tryEnter('docker')).toBe(false)
    circuits.succeeded('docker')
    expect(circuits.state('docker')).toBe('closed')
  })

  it('opens again when the trial fails, and allows another trial when one was abandoned', async () => {
    const clock = createManualClock()
    const circuits = createCircuitBreaker(clock, { threshold: 1, cooldownMs: 1000 })
    circuits.failed('docker')
    await clock.advance(1000)
    expect(circuits.tryEnter('docker')).toBe(true)
    circuits.abandoned('docker')
    expect(circuits.tryEnter('docker')).toBe(true)
    circuits.failed('docker')
    expect(circuits.state('docker')).toBe('open')
  })

  it('resets the count of failures on a success', () => {
    const circuits = createCircuitBreaker(createManualClock(), { threshold: 2 })
    circuits.failed('docker')
    circuits.succeeded('docker')
    circuits.failed('docker')
    expect(circuits.state('docker')).toBe('closed')
  })
})
