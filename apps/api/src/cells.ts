/**
 * The cells that this process serves. Finds the Redis connection of the cell that has a tenant or an
 * execution.
 */
import type { Admission } from '@cofferdam/admission'
import { cellOfId, type ExecutionId, type SessionRegistry } from '@cofferdam/contract'
import { cellOf, inCell, isCellAway, isRedisAway, knownCell, type CellDirectory } from '@cofferdam/queue'
import { createSchedules, type Schedules } from '@cofferdam/routines'
import { createSessionRegistry } from '@cofferdam/sessions'
import type { StoredRoutine } from '@cofferdam/store'
import type { Redis } from 'ioredis'

export interface Cells {
  /** Connections of role `producer` by cell. */
  all: ReadonlyMap<number, Redis>
  /** Throws `cell_unavailable` for a cell that this process does not know, as does `ofId`. */
  ofTenant(this: void, tenantId: string): Promise<Redis>
  ofId(this: void, id: ExecutionId): Redis
}

/** Reads from the Redis of an execution. Returns undefined when that Redis or its cell does not answer. */
export async function readIfThere<T>(
  cells: Cells,
  id: ExecutionId,
  read: (redis: Redis, id: ExecutionId) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read(cells.ofId(id), id)
  } catch (error) {
    if (isRedisAway(error) || isCellAway(error)) return undefined
    throw error
  }
}

/** Admission as the API uses it. */
export type CapsOfTenants = Pick<Admission, 'usage' | 'setCaps' | 'setCapsSince' | 'capsRev' | 'getCaps'>

/** Schedules as the API uses them. */
export interface RoutineClock extends AsyncDisposable {
  apply(routine: StoredRoutine): Promise<void>
  forget(routine: StoredRoutine): Promise<void>
}

export function createCells(all: ReadonlyMap<number, Redis>, directory: CellDirectory): Cells {
  return {
    all,
    ofTenant: async (tenantId) => knownCell(all, await directory.cellOf(tenantId)),
    ofId: (id) => knownCell(all, cellOfId(id)),
  }
}

/** A fleet of one cell. Every tenant and execution is in it, whatever an ID says. */
export const oneCell = (redis: Redis): Cells => ({
  all: new Map([[cellOf(redis).number, redis]]),
  ofTenant: async () => redis,
  ofId: () => redis,
})

/** Sends each call to the admission of the tenant's cell. */
export function capsByCell(
  admissions: ReadonlyMap<number, Admission>,
  directory: CellDirectory,
): CapsOfTenants {
  const of = async <T>(tenantId: string, call: (admission: Admission) => Promise<T>): Promise<T> => {
    const cell = await directory.cellOf(tenantId)
    return await inCell(cell, () => call(knownCell(admissions, cell)))
  }
  return {
    usage: (tenantId, agentId) => of(tenantId, (admission) => admission.usage(tenantId, agentId)),
    setCaps: (tenantId, caps) => of(tenantId, (admission) => admission.setCaps(tenantId, caps)),
    setCapsSince: (tenantId, caps, rev) =>
      of(tenantId, (admission) => admission.setCapsSince(tenantId, caps, rev)),
    capsRev: (tenantId) => of(tenantId, (admission) => admission.capsRev(tenantId)),
    getCaps: (tenantId) => of(tenantId, (admission) => admission.getCaps(tenantId)),
  }
}

/** Looks up sessions in the registry of the tenant's cell. */
export function sessionsByCell(cells: Cells): Pick<SessionRegistry, 'find' | 'list'> {
  const registries = new Map([...cells.all].map(([cell, redis]) => [cell, createSessionRegistry({ redis })]))
  const of = async <T>(
    tenantId: string,
    call: (registry: Pick<SessionRegistry, 'find' | 'list'>) => Promise<T>,
  ): Promise<T> => {
    const cell = cellOf(await cells.ofTenant(tenantId)).number
    const registry = knownCell(registries, cell)
    return await (registries.size === 1 ? call(registry) : inCell(cell, () => call(registry)))
  }
  return {
    find: (name) => of(name.tenantId, (registry) => registry.find(name)),
    list: (tenantId, cursor) => of(tenantId, (registry) => registry.list(tenantId, cursor)),
  }
}

/** Applies and removes routines in the schedules of their tenant's cell. */
export function clockByCell(cells: Cells, onError: (error: unknown) => void): RoutineClock {
  const clocks = new Map([...cells.all.values()].map((redis) => [redis, createSchedules(redis, onError)]))
  const of = async ({ tenant_id }: StoredRoutine): Promise<Schedules | undefined> =>
    clocks.get(await cells.ofTenant(tenant_id))
  return {
    apply: async (routine) => (await of(routine))?.apply(routine),
    forget: async (routine) => (await of(routine))?.forget(routine.routine_id),
    async [Symbol.asyncDispose]() {
      await Promise.all([...clocks.values()].map((clock) => clock[Symbol.asyncDispose]()))
    },
  }
}
