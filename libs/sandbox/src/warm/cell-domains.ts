/**
 * Who shares cells, and in which order: the executions of one session, or those of one tenant and kind.
 *
 *   an idle cell ─▶ that one     fewer than `max` ─▶ the right to open one     else: waits, in order of arrival
 *
 * A cell never serves two tenants, because the tenant is in the key.
 */
import type {
  ExecutionId,
  SandboxSpec,
  SessionEntry,
  SessionId,
  SessionName,
  SessionScope,
} from '@cofferdam/contract'
import type { CellSettings } from './config.ts'
import { createLine, type Line } from './line.ts'
import type { CellSlot, SlotKind, SlotLimits } from './slot.ts'

export interface Cell<S extends CellSlot> {
  slot: S
  id: SessionId
  scope: SessionScope
  limits: SlotLimits
  runs: number
  createdMs: number
  /**
   * Time of creation plus all time that the session was paused on disk, so that pauses do not count to its
   * age.
   */
  startedMs: number
  idleMs: number
  /** Memory that a resumed sandbox has for itself, but that a new sandbox would share with others. */
  ownBytes: number
  /** Null while an execution uses it. */
  idleSinceMs: number | null
  /** The execution of the last turn. */
  executionId: ExecutionId
  /** The cell's share of the memory budget while the cell is idle, and during the turn that resumed it. */
  memory: Disposable | null
}

/**
 * What `/v1/sessions` shows of a session's cell. Only the cell's worker reaches the cell, so epoch is 0 and
 * the handle is empty.
 */
export function shownCell<S extends CellSlot>(
  cell: Cell<S>,
  maxAgeMs: number,
): { entry: SessionEntry; isBusy: boolean } {
  const usedAtMs = cell.idleSinceMs ?? Date.now()
  const expiresAtMs = cell.startedMs + maxAgeMs
  return {
    entry: {
      sessionId: cell.id,
      scope: cell.scope,
      epoch: 0,
      handle: {},
      createdAtMs: cell.createdMs,
      usedAtMs,
      executionId: cell.executionId,
      idleAtMs: Math.min(usedAtMs + cell.idleMs, expiresAtMs),
      expiresAtMs,
    },
    isBusy: cell.idleSinceMs === null,
  }
}

/** All cells of one session, or of one tenant and kind. */
export interface Domain<S extends CellSlot> {
  readonly key: string
  /** Null for reuse scope `tenant`. */
  readonly session: SessionName | null
  readonly max: number
  /** Includes cells that are opening. */
  count: number
  readonly cells: Set<Cell<S>>
  /**
   * Waiting callers. Each gets an idle cell or null. With null the caller must open one, which `count`
   * already includes.
   */
  readonly line: Line<Cell<S> | null>
}

export interface CellDomains<S extends CellSlot> {
  of(spec: SandboxSpec, kind: SlotKind): Domain<S>
  /**
   * Resolves, in order of arrival, to an idle cell or to null. With null the caller must open one, which
   * `count` already includes. Rejects with the signal's reason.
   */
  turnIn(domain: Domain<S>, signal: AbortSignal): Promise<Cell<S> | null>
  /** Gives an idle cell, or the right to open one, to the longest waiter. */
  freed(domain: Domain<S>): void
  /** Cells of all domains, including those that are opening. */
  readonly count: number
  all(): { domain: Domain<S>; cell: Cell<S> }[]
  /** Idle cells, in the order in which to give them up. */
  idle(): { domain: Domain<S>; cell: Cell<S> }[]
}

/** A domain exists while it has cells or waiters. */
export function createCellDomains<S extends CellSlot>(
  backend: string,
  settings: Pick<CellSettings, 'max_per_tenant'>,
): CellDomains<S> {
  const domains = new Map<string, Domain<S>>()

  function takeIdle(domain: Domain<S>): Cell<S> | null {
    for (const cell of domain.cells) {
      if (cell.idleSinceMs === null || !cell.slot.alive) continue
      cell.idleSinceMs = null
      cell.memory?.[Symbol.dispose]()
      cell.memory = null
      return cell
    }
    return null
  }

  const all = (): { domain: Domain<S>; cell: Cell<S> }[] =>
    [...domains.values()].flatMap((domain) => [...domain.cells].map((cell) => ({ domain, cell })))

  return {
    of({ tenantId, session }, kind) {
      const key =
        session === null
          ? JSON.stringify([tenantId, 'tenant', kind.limits, kind.preload])
          : JSON.stringify([tenantId, 'session', session.key])
      const found = domains.get(key)
      if (found !== undefined) return found
      const domain: Domain<S> = {
        key,
        session: session === null ? null : { tenantId, backend, key: session.key },
        max: session === null ? settings.max_per_tenant : 1,
        count: 0,
        cells: new Set(),
        line: createLine(),
      }
      domains.set(key, domain)
      return domain
    },
    async turnIn(domain, signal) {
      if (domain.line.length > 0) return await domain.line.join(signal)
      const idle = takeIdle(domain)
      if (idle !== null) return idle
      if (domain.count >= domain.max) return await domain.line.join(signal)
      domain.count += 1
      return null
    },
    freed(domain) {
      if (domain.line.length === 0) {
        if (domain.count === 0) domains.delete(domain.key)
        return
      }
      const idle = takeIdle(domain)
      if (idle === null && domain.count >= domain.max) return
      if (idle === null) domain.count += 1
      domain.line.serve(idle)
    },
    get count() {
      return [...domains.values()].reduce((sum, { count }) => sum + count, 0)
    },
    all,
    idle: () =>
      all()
        .filter(({ cell }) => cell.idleSinceMs !== null)
        .toSorted(
          (a, b) =>
            // Cells that keep nothing come first, because to lose one costs only time.
            Number(a.cell.scope !== 'none') - Number(b.cell.scope !== 'none') ||
            (a.cell.idleSinceMs ?? 0) - (b.cell.idleSinceMs ?? 0),
        ),
  }
}
