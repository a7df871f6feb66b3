/**
 * Cells: sandboxes that serve several executions of one trust domain, one after the other.
 *
 *   opening ──▶ busy ──end: proven clean──▶ idle ──take──▶ busy …
 *      │ failed   │ lost, unclean, too many runs    │ idle too long, too old, evicted, channel closed
 *      ▼          ▼                                 ▼
 *    gone       destroyed ◀─────────────────────────┘
 *
 * A session has one cell at a time; its executions take turns in order of arrival. Reuse scope `tenant` has
 * up to `max_per_tenant` cells of a kind, which keep nothing. A cell never serves two tenants: the tenant is
 * in the key. Whoever waits for a turn holds a worker's slot, so waiters are bounded by the worker's slots.
 * A session without a cell begins anew, unless it is paused on disk (paused-cells.ts) and can be resumed.
 */
import {
  CofferdamError,
  newSandboxId,
  newSessionId,
  type SandboxSpec,
  type SessionId,
} from '@cofferdam/contract'
import { SILENT, type BackendDeps, type BackendLogger } from '../deps.ts'
import { createCellDomains, shownCell, type Cell, type Domain } from './cell-domains.ts'
import { createLeftSlots } from './left-slots.ts'
import { keepingOf, resumeCell, type Keeping, type PausedCells } from './paused-cells.ts'
import { refuseBeginning, unlike } from './session-refusals.ts'
import { bytesOf, runKeeps, type CellSlot, type SlotKind, type SlotSpec } from './slot.ts'
import type { DropReason, WarmDeps } from './warm-deps.ts'

/** Interval of checks for idle and old cells. */
const TEND_MS = 1_000

/**
 * Longest time to clean a cell; then it is destroyed. Cleaning takes milliseconds, or seconds on a busy host.
 * The time is long, because a destroyed cell loses its session's files. It is less than the 20 s after which
 * the executor reports a leak.
 */
const CLEAN_MS = 15_000

/** One execution's turn in a cell. */
export interface Turn<S extends CellSlot> extends Keeping {
  readonly slot: S
  readonly warm: boolean
  /** What the caller learns about the cell's session. Null for reuse scope `tenant`. */
  readonly session: { id: SessionId; fresh: boolean } | null
  /** True for scopes `interpreter` and `processes`: the run uses the kept interpreter. */
  readonly keepsInterpreter: boolean
  /** True for scope `processes`: the end of a run kills no process of the session. */
  readonly keepsProcesses: boolean
  /** Ends the turn once: cleans the cell, or destroys it (always if `lost`). Resolves when that is proven. */
  end(lost: boolean): Promise<void>
}

export interface Cells<S extends CellSlot> {
  /** Waits for the turn. Rejects like `start`, with `conflict` (`unlike`), or with the signal's reason. */
  take(spec: SandboxSpec, kind: SlotKind, signal: AbortSignal): Promise<Turn<S>>
  readonly count: number
  /** Destroys every cell and opens no more. */
  close(): Promise<void>
}

export function createCells<S extends CellSlot>(parts: {
  backend: string
  start(spec: SlotSpec, signal: AbortSignal): Promise<S>
  deps: WarmDeps
  logger?: BackendLogger
  onLeft?: BackendDeps['onLeft'] | undefined
  /** Absent if the backend cannot keep sessions on disk. */
  paused?: PausedCells<S> | undefined
}): Cells<S> {
  const { deps, backend, logger = SILENT } = parts
  const settings = deps.config.cells
  const left = createLeftSlots({ backend, onLeft: parts.onLeft, logger })
  const domains = createCellDomains<S>(backend, settings)
  const work = new Set<Promise<unknown>>()
  let closed = false
  const tending = setInterval(tend, TEND_MS)
  tending.unref()
  deps.memory.onPressure(letGo)

  /** Opens a cell that is already counted. */
  async function openCell(
    domain: Domain<S>,
    spec: SandboxSpec,
    kind: SlotKind,
    signal: AbortSignal,
  ): Promise<Cell<S>> {
    try {
      if (closed) throw new CofferdamError('shutting_down')
      const cell = (await resumed(domain, spec, signal)) ?? (await begun(spec, kind, signal))
      if (closed) {
        await cell.slot.destroy().catch((error: unknown) => left.add(cell.slot, cell.memory, error))
        throw new CofferdamError('shutting_down')
      }
      domain.cells.add(cell)
      cell.slot.onClosed(() => {
        if (cell.idleSinceMs !== null) drop(domain, cell, 'died')
      })
      return cell
    } catch (error) {
      domain.count -= 1
      domains.freed(domain)
      throw error
    }
  }

  /** Resumes the session of the domain if it is paused. Otherwise returns null. */
  async function resumed({ session }: Domain<S>, { owner }: SandboxSpec, signal: AbortSignal) {
    const { paused } = parts
    if (session === null || paused === undefined || !(await paused.has(session))) return null
    evict()
    return await resumeCell(paused, session, owner, deps.memory, signal)
  }

  async function begun(spec: SandboxSpec, kind: SlotKind, signal: AbortSignal): Promise<Cell<S>> {
    refuseBeginning(spec)
    evict()
    const slot = await parts.start({ ...kind, slotId: newSandboxId(), owner: spec.owner }, signal)
    return {
      slot,
      id: newSessionId(),
      scope: spec.session?.scope ?? 'none',
      limits: kind.limits,
      runs: 0,
      createdMs: Date.now(),
      startedMs: Date.now(),
      idleMs: spec.session?.idleMs ?? settings.idle_ms,
      ownBytes: 0,
      idleSinceMs: null,
      executionId: spec.executionId,
      memory: null,
    }
  }

  /** Drops an idle cell if there are too many. */
  function evict(): void {
    if (domains.count <= settings.max) return
    const [first] = domains.idle()
    if (first === undefined)
      throw new CofferdamError(
        'sandbox_open_failed',
        `${backend}: all ${settings.max} cells are busy. Try again later, or raise warm.cells.max.`,
      )
    drop(first.domain, first.cell, 'surplus')
  }

  function letGo(bytes: number): void {
    let left = bytes
    for (const { domain, cell } of domains.idle()) {
      if (left <= 0) return
      left -= bytesOf(cell.slot.spec) + cell.ownBytes
      drop(domain, cell, 'pressure')
    }
  }

  /** Reports a session's cell as it is now. */
  function show({ session }: Domain<S>, cell: Cell<S>): void {
    if (session !== null) deps.onSession?.(session, shownCell(cell, settings.max_age_ms))
  }

  /**
   * Removes the cell at once, so that nobody gets it; resolves when it is proven gone. If it rejects, the
   * caller still holds the cell and its memory.
   */
  async function discard(domain: Domain<S>, cell: Cell<S>, why: DropReason): Promise<void> {
    if (!domain.cells.delete(cell)) return await cell.slot.destroy()
    if (domain.session !== null) deps.onSession?.(domain.session, null)
    cell.idleSinceMs = null
    deps.observe?.({ type: 'dropped', backend, why })
    const gone = cell.slot.destroy().then(() => cell.memory?.[Symbol.dispose]())
    const settled = gone.catch(() => undefined).finally(() => work.delete(settled))
    work.add(settled)
    domain.count -= 1
    domains.freed(domain)
    await gone
  }

  /** Like `discard`, for a cell that no execution uses. Does not wait. Retried on failure (left-slots.ts). */
  function drop(domain: Domain<S>, cell: Cell<S>, why: DropReason): void {
    discard(domain, cell, why).catch((error: unknown) => left.add(cell.slot, cell.memory, error))
  }

  async function endTurn(domain: Domain<S>, cell: Cell<S>, lost: boolean): Promise<void> {
    if (lost || closed || !cell.slot.alive) return await discard(domain, cell, 'died')
    const isSpent = cell.runs >= settings.max_runs || Date.now() - cell.startedMs > settings.max_age_ms
    if (isSpent && cell.scope === 'none') return await discard(domain, cell, 'runs')
    try {
      await cell.slot.clean(cell.scope, AbortSignal.timeout(CLEAN_MS))
    } catch (error) {
      logger.warn({ err: error, backend }, 'a cell could not be proven clean and is destroyed')
      return await discard(domain, cell, 'unclean')
    }
    await rest(domain, cell)
  }

  /** Lets a clean cell wait, or gives it to the next waiter. */
  async function rest(domain: Domain<S>, cell: Cell<S>): Promise<void> {
    if (closed || !cell.slot.alive) return await discard(domain, cell, 'died')
    cell.memory ??= deps.memory.tryAcquire(bytesOf(cell.slot.spec) + cell.ownBytes)
    cell.idleSinceMs = Date.now()
    if (cell.memory === null && domain.line.length === 0) return await discard(domain, cell, 'pressure')
    show(domain, cell)
    domains.freed(domain)
  }

  function tend(): void {
    const now = Date.now()
    for (const { domain, cell } of domains.idle()) {
      if (now - (cell.idleSinceMs ?? now) > cell.idleMs) drop(domain, cell, 'idle')
      else if (now - cell.startedMs > settings.max_age_ms) drop(domain, cell, 'age')
    }
  }

  return {
    async take(spec, kind, signal) {
      signal.throwIfAborted()
      if (closed) throw new CofferdamError('shutting_down')
      const domain = domains.of(spec, kind)
      const taken = (await domains.turnIn(domain, signal)) ?? (await openCell(domain, spec, kind, signal))
      const problem = unlike(taken, spec, kind.limits)
      if (problem !== null) {
        // Nothing ran, so it is still clean.
        await rest(domain, taken).catch((error: unknown) => left.add(taken.slot, taken.memory, error))
        throw new CofferdamError('conflict', problem)
      }
      taken.runs += 1
      taken.executionId = spec.executionId
      const isFirst = taken.runs === 1
      deps.observe?.({ type: 'taken', backend, warm: !isFirst })
      show(domain, taken)
      let ending: Promise<void> | null = null
      return {
        slot: taken.slot,
        warm: !isFirst,
        session: spec.session === null ? null : { id: taken.id, fresh: isFirst || taken.scope === 'none' },
        ...runKeeps(taken.scope),
        ...keepingOf(parts.paused, domain.session, taken),
        end: (lost) => (ending ??= endTurn(domain, taken, lost)),
      }
    },
    get count() {
      return domains.count
    },
    async close() {
      closed = true
      clearInterval(tending)
      for (const { domain, cell } of domains.all()) drop(domain, cell, 'idle')
      while (work.size > 0) await Promise.all(work)
    },
  }
}
