/** The backends of this machine, as a worker with this environment would have them. */
import { BACKENDS, type BackendsConfigInput, createBackends } from '@cofferdam/backends'
import { type Backend, inTime, isAtLeast, type Isolation, ISOLATIONS, type Probe } from '@cofferdam/contract'
import { loadConfig as loadWorkerConfig } from '@cofferdam/worker'
import type { Environment } from './config.ts'

/** Test doubles. They run no code, so doctor does not report them. */
const DOUBLES = ['fake', 'hostile']

/** The weakest level that is used without an explicit policy of the tenant. */
const SAFE_ISOLATION: Isolation = 'jail'

/** The first answer of a cold Docker daemon takes seconds. A probe of the jail starts up to two processes. */
const PROBE_MS = 30_000

/** What a probe found out about one backend. */
export interface BackendFinding {
  name: string
  isolation: Isolation
  /** One sentence: what separates a program from the host. */
  summary: string
  probe: Probe
  /** Whether it is strong enough to be used without an explicit policy. */
  safe: boolean
  /** Whether it belongs to a vendor or a cluster. Then no advice to install it is given. */
  remote: boolean
}

/** The worker's settings. Redis and Postgres may be unset, because a local run uses neither. */
export function workerSettings(environment: Environment) {
  return loadWorkerConfig({
    ...environment,
    REDIS_URL: environment['REDIS_URL'] || 'redis://unused',
    DATABASE_URL: environment['DATABASE_URL'] || 'postgres://unused',
  })
}

/**
 * Probes whether backends can run here: those that the worker would have, or every one of this build. Leaves
 * out the test doubles. Sorted, strongest first.
 */
export async function findBackends(
  environment: Environment,
  which: 'configured' | 'every',
  stop: AbortSignal,
): Promise<BackendFinding[]> {
  const configured: Record<string, unknown> = workerSettings(environment).backends
  const sections = Object.keys(which === 'every' ? BACKENDS : configured)
    .filter((name) => !DOUBLES.includes(name))
    .map((name) => [name, configured[name] ?? {}])
  const backends = await createBackends(Object.fromEntries(sections) as BackendsConfigInput)
  try {
    const findings = await Promise.all(
      [...backends].map(async ([name, backend]): Promise<BackendFinding> => {
        const probe = await probeOf(backend, stop)
        return {
          name,
          // Read after the probe, because a backend with several levels knows its level only then.
          isolation: backend.isolation,
          summary: Object.entries(BACKENDS).find(([known]) => known === name)?.[1].isolation ?? '',
          probe,
          // An emulated machine needs the tenant's `allow_emulation`.
          safe: isAtLeast(backend.isolation, SAFE_ISOLATION) && backend.isolation !== 'microvm-emulated',
          remote: backend.capabilities.remote === true,
        }
      }),
    )
    return findings.toSorted((a, b) => ISOLATIONS.indexOf(b.isolation) - ISOLATIONS.indexOf(a.isolation))
  } finally {
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
  }
}

async function probeOf(backend: Backend, stop: AbortSignal): Promise<Probe> {
  const late = new AbortController()
  try {
    // A probe that ignores its signal must not delay the others.
    return await inTime(backend.probe(AbortSignal.any([stop, late.signal])), PROBE_MS, () => {
      const error = new Error(`the probe did not end within ${PROBE_MS / 1000} s`)
      late.abort(error)
      return error
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { ok: false, why, fix: 'fix what the message says, then run cofferdam doctor again' }
  }
}

/** The strongest backend that works and needs no explicit policy. Null when there is none. */
export const bestOf = (findings: readonly BackendFinding[]): BackendFinding | null =>
  findings.find((finding) => finding.probe.ok && finding.safe) ?? null

/** Local backends that would be stronger than `used` but cannot run, each with the reason and the fix. */
export function whyNotStronger(findings: readonly BackendFinding[], used: BackendFinding): string[] {
  return findings.flatMap(({ name, isolation, safe, remote, probe }) =>
    probe.ok || !safe || remote || isolation === used.isolation || !isAtLeast(isolation, used.isolation)
      ? []
      : [`${name} (${isolation}): ${probe.why}\n      → ${probe.fix}`],
  )
}

/** Why a worker with this environment has no safe backend, and how to get one. */
export function whyUnsafe(environment: Environment, findings: readonly BackendFinding[]): string[] {
  const names = Object.keys(workerSettings(environment).backends).join(', ')
  return [
    `The worker would have these backends: ${names} (COFFERDAM_BACKENDS).`,
    ...howToGetOne(findings, process.platform),
  ]
}

/** What to install when no safe backend works. */
export function howToGetOne(findings: readonly BackendFinding[], platform: NodeJS.Platform): string[] {
  const reasons = findings.flatMap(({ name, safe, remote, probe }) =>
    probe.ok || remote || !safe ? [] : [`  ${name}: ${probe.why}\n    → ${probe.fix}`],
  )
  const install =
    platform === 'linux'
      ? [
          '  Debian, Ubuntu:  sudo apt-get install python3 bubblewrap',
          '  Fedora:          sudo dnf install python3 bubblewrap',
          '  or Docker:       https://docs.docker.com/engine/install/, then npm run image',
        ]
      : platform === 'darwin'
        ? [
            '  macOS:           install Docker Desktop or colima (brew install colima docker), then npm ' +
              'run image',
          ]
        : ['  install Docker, then npm run image (on Windows: inside WSL 2)']
  return [
    'No safe backend works on this machine, and an unsafe one is never used silently:',
    ...reasons,
    'Install one of these:',
    ...install,
  ]
}
