/** The registry entry of a session that any worker attaches to: during a turn, and between two turns. */
import { CofferdamError, turnMsOf, type SandboxSpec, type SessionEntry } from '@cofferdam/contract'
import type { BackendDeps } from '@cofferdam/sandbox/backend'
import { warmConfigSchema, unlike, type SlotLimits } from '@cofferdam/sandbox/warm'

/** The limits that also end a worker's own cells (`warm.cells`). */
export interface SessionLimits {
  /** Idle time of a session if none of its executions sets one. */
  idleMs: number
  /** Age at which a session ends after its turn, so that no interpreter state lives for ever. */
  maxAgeMs: number
  /** Runs after which a session that keeps nothing is replaced. */
  maxRuns: number
}

/** The worker's limits. `idleMs` is the backend's own if waiting costs money. */
export function sessionLimits({ warm }: BackendDeps, idleMs?: number): SessionLimits {
  const { cells } = warm?.config ?? warmConfigSchema.parse({})
  return { idleMs: idleMs ?? cells.idle_ms, maxAgeMs: cells.max_age_ms, maxRuns: cells.max_runs }
}

/**
 * The entry while a turn lasts: no worker joins the sandbox until the entry is at rest. `moreMs`: time to
 * start the sandbox.
 */
export function inTurn(entry: SessionEntry, spec: SandboxSpec, moreMs = 0): SessionEntry {
  const usedAtMs = Date.now()
  return {
    ...entry,
    turn: spec.executionId,
    executionId: spec.executionId,
    // A file request does not count as a run.
    runs: (entry.runs ?? 0) + (spec.program.type === 'files' ? 0 : 1),
    usedAtMs,
    idleAtMs: usedAtMs + moreMs + turnMsOf(spec),
  }
}

/** The entry at rest: its sandbox waits for the next turn. */
export function atRest(
  { turn: _over, ...entry }: SessionEntry,
  idleMs: number,
  { maxAgeMs }: SessionLimits,
): SessionEntry {
  const usedAtMs = Date.now()
  const oldAtMs = entry.createdAtMs + maxAgeMs
  return {
    ...entry,
    usedAtMs,
    idleAtMs: usedAtMs + idleMs,
    expiresAtMs: Math.min(entry.expiresAtMs ?? oldAtMs, oldAtMs),
  }
}

/** An execution without an idle time, such as a file request, keeps the session's. */
export const idleMsOf = (spec: SandboxSpec, rested: SessionEntry | null, { idleMs }: SessionLimits): number =>
  spec.session?.idleMs ?? (rested === null ? idleMs : rested.idleAtMs - rested.usedAtMs)

/** File requests work for as long as the session exists. */
export const isTooOld = (entry: SessionEntry, spec: SandboxSpec, { maxAgeMs }: SessionLimits): boolean =>
  spec.program.type !== 'files' && Date.now() - entry.createdAtMs > maxAgeMs

/** True if the session keeps nothing that the next execution would miss, and is old or has enough runs. */
export const isSpent = (entry: SessionEntry, { maxAgeMs, maxRuns }: SessionLimits): boolean =>
  entry.scope === 'none' && ((entry.runs ?? 0) >= maxRuns || Date.now() - entry.createdAtMs > maxAgeMs)

/** Limits that a session is opened with; its handle holds them by name. */
export function limitsOf({ limits: { memory_mib, cpus, pids, disk_mib } }: SandboxSpec) {
  return { memory_mib, cpus, pids, disk_mib } satisfies SlotLimits
}

/** Throws `conflict` if an execution asks for another scope or other limits. */
export function refuseOther({ scope, handle }: SessionEntry, spec: SandboxSpec): void {
  const of = (name: keyof SlotLimits): number => Number(handle[name])
  const limits = {
    memory_mib: of('memory_mib'),
    cpus: of('cpus'),
    pids: of('pids'),
    disk_mib: of('disk_mib'),
  }
  const problem = unlike({ scope, limits }, spec, limitsOf(spec))
  if (problem !== null) throw new CofferdamError('conflict', problem)
}
