/**
 * One circuit per backend, so that executions skip a broken backend at once and do not each wait for an open
 * timeout.
 *
 *   closed ──`threshold` open failures in a row──▶ open ──`cooldownMs`──▶ half-open ──success──▶ closed
 *                                                   ▲                        │
 *                                                   └────────failure─────────┘
 *
 * Half-open allows one trial at a time. A success while closed resets the count of failures.
 */
import type { Clock } from './clock.ts'

export type CircuitState = 'closed' | 'open' | 'half-open'

export interface CircuitBreaker {
  /**
   * Claims the right to try `backend`. False while its circuit is open or another trial runs. Report the end
   * of the try with one of the next three methods.
   */
  tryEnter(backend: string): boolean
  succeeded(backend: string): void
  failed(backend: string): void
  /** Ends a try that says nothing about the backend (cancelled, refused). */
  abandoned(backend: string): void
  state(backend: string): CircuitState
}

export interface CircuitOptions {
  /** Open failures in a row that open the circuit. Default 5: fewer would trip on a bad image. */
  threshold?: number
  /** How long it stays open, milliseconds. Default 15,000: half of the probe's cache time. */
  cooldownMs?: number
}

interface Circuit {
  failures: number
  /** Null when closed. */
  openedAtMs: number | null
  trialRunning: boolean
}

export function createCircuitBreaker(clock: Clock, options: CircuitOptions = {}): CircuitBreaker {
  const { threshold = 5, cooldownMs = 15_000 } = options
  // Bounded by the number of configured backends.
  const circuits = new Map<string, Circuit>()

  function circuitOf(backend: string): Circuit {
    const known = circuits.get(backend)
    if (known !== undefined) return known
    const fresh: Circuit = { failures: 0, openedAtMs: null, trialRunning: false }
    circuits.set(backend, fresh)
    return fresh
  }

  function stateOf({ openedAtMs }: Circuit): CircuitState {
    if (openedAtMs === null) return 'closed'
    return clock.nowMs() - openedAtMs < cooldownMs ? 'open' : 'half-open'
  }

  return {
    tryEnter(backend) {
      const circuit = circuitOf(backend)
      const state = stateOf(circuit)
      if (state === 'closed') return true
      if (state === 'open' || circuit.trialRunning) return false
      circuit.trialRunning = true
      return true
    },
    succeeded(backend) {
      circuits.delete(backend)
    },
    failed(backend) {
      const circuit = circuitOf(backend)
      circuit.failures += 1
      circuit.trialRunning = false
      if (circuit.failures >= threshold) circuit.openedAtMs = clock.nowMs()
    },
    abandoned(backend) {
      circuitOf(backend).trialRunning = false
    },
    state: (backend) => stateOf(circuitOf(backend)),
  }
}
