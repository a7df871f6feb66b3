/**
 * Caches probes of backends, and never runs two probes of one backend at once. A probe that throws or hangs
 * means "cannot run here", so that selection never fails for it.
 */
import { unlessAborted } from '@cofferdam/contract'
import type { Backend, Probe } from '@cofferdam/contract'
import { withDeadline, type Clock } from './clock.ts'

/** How long a good answer is used. The Backend contract has the same figure. */
const GOOD_FOR_MS = 30_000
/** A bad answer is used for less time, because a daemon that restarts is back within seconds. */
const BAD_FOR_MS = 5_000
/** A probe may start a container. If it takes longer than this, the daemon hangs. */
const PROBE_TIMEOUT_MS = 15_000

export interface ProbeCache {
  /** The last probe of `backend`, repeated when stale. Rejects only with the reason of `signal`. */
  probe(backend: Backend, signal: AbortSignal): Promise<Probe>
  /** Drops the cached probe. Call it after an open failure. */
  forget(backend: Backend): void
}

export function createProbeCache(clock: Clock): ProbeCache {
  // Bounded by the number of configured backends.
  const answers = new Map<Backend, { probe: Probe; atMs: number }>()
  const running = new Map<Backend, Promise<Probe>>()

  function fresh(backend: Backend): Probe | null {
    const answer = answers.get(backend)
    if (answer === undefined) return null
    const goodForMs = answer.probe.ok ? GOOD_FOR_MS : BAD_FOR_MS
    return clock.nowMs() - answer.atMs < goodForMs ? answer.probe : null
  }

  async function ask(backend: Backend): Promise<Probe> {
    try {
      const probe = await probeOnce(clock, backend)
      answers.set(backend, { probe, atMs: clock.nowMs() })
      return probe
    } finally {
      running.delete(backend)
    }
  }

  return {
    async probe(backend, signal) {
      const known = fresh(backend)
      if (known !== null) return known
      // All callers share this probe, so it must not end with the first caller's signal.
      const asked = running.get(backend) ?? ask(backend)
      running.set(backend, asked)
      return await unlessAborted(asked, signal)
    },
    forget: (backend) => void answers.delete(backend),
  }
}

async function probeOnce(clock: Clock, backend: Backend): Promise<Probe> {
  const timeout = new Error(`the probe did not answer within ${PROBE_TIMEOUT_MS} ms`)
  using bound = withDeadline(clock, new AbortController().signal, PROBE_TIMEOUT_MS, timeout)
  try {
    return await unlessAborted(backend.probe(bound.signal), bound.signal)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { ok: false, why: `its probe failed: ${why}`, fix: 'cofferdam doctor' }
  }
}
