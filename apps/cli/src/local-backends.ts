/** The backends of this machine as a worker of this environment would have them. */
import { BACKENDS, createBackends, type BackendsConfigInput } from '@cofferdam/backends'
import { inTime, isAtLeast, ISOLATIONS, type Backend, type Isolation, type Probe } from '@cofferdam/contract'
import { loadConfig as loadWorkerConfig } from '@cofferdam/worker'
import type { Environment } from './config.ts'

/** Doubles for tests: they run no code, so nobody asks the doctor for them. */
const DOUBLES = ['fake', 'hostile']

/** The weakest level that is used without somebody's explicit policy (DESIGN §5). */
const SAFE_ISOLATION: Isolation = 'jail'

/** A first Docker answer on a cold daemon takes seconds; a self-jail probe starts a process or two. */
const PROBE_MS = 30_000

/** What was found out about one backend. */
export interface BackendFinding {
  name: string
  isolation: Isolation
  /** One sentence of what separates a program from the host there. */
  summary: string
  probe: Probe
  /** Strong enough to be used without an explicit policy. */
  safe: boolean
  /** A vendor's or a cluster's: who wants it sets it up, and nobody is told to. */
  remote: boolean
}

/** The worker's own settings; its servers need not be set for what runs no queue. */
export function workerSettings(environment: Environment) {
  return loadWorkerConfig({
    ...environment,
    REDIS_URL: environment['REDIS_URL'] || 'redis://unused',
    DATABASE_URL: environment['DATABASE_URL'] || 'postgres://unused',
  })
}

/** Makes every backend that this build knows (doubles left out), with the configured settings where there are some. */
export async function everyBackend(environment: Environment): Promise<Map<string, Backend>> {
  const configured: Record<string, unknown> = workerSettings(environment).backends
  const sections = Object.keys(BACKENDS)
    .filter((name) => !DOUBLES.includes(name))
    .map((name) => [name, configured[name] ?? {}])
  return await createBackends(Object.fromEntries(sections) as BackendsConfigInput)
}

/** Asks each backend whether it can run here; strongest first. */
export async function findBackends(
  backends: ReadonlyMap<string, Backend>,
  stop: AbortSignal,
): Promise<BackendFinding[]> {
  const findings = await Promise.all(
    [...backends].map(async ([name, backend]): Promise<BackendFinding> => {
      const probe = await probeOf(backend, stop)
      return {
        name,
        // After the probe: a ladder of several ways knows only then which one it stands on.
        isolation: backend.isolation,
        summary: Object.entries(BACKENDS).find(([known]) => known === name)?.[1].isolation ?? '',
        probe,
        safe: isAtLeast(backend.isolation, SAFE_ISOLATION),
        remote: backend.capabilities.remote === true,
      }
    }),
  )
  return findings.toSorted((a, b) => ISOLATIONS.indexOf(b.isolation) - ISOLATIONS.indexOf(a.isolation))
}

async function probeOf(backend: Backend, stop: AbortSignal): Promise<Probe> {
  const late = new AbortController()
  try {
    // A probe that does not listen to its signal must not hold up the others.
    return await inTime(backend.probe(AbortSignal.any([stop, late.signal])), PROBE_MS, () => {
      const error = new Error(`the probe did not end within ${PROBE_MS / 1000} s`)
      late.abort(error)
      return error
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { ok: false, why, fix: 'see the message; run cofferdam doctor again' }
  }
}
