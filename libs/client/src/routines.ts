/** Routines: executions that run on a schedule or on demand, and their runs. */
import type { ExecutionRequest, Operations, Routine, RoutineRun } from './wire.ts'
import { part, type Api, type CallOptions } from './api.ts'
import type { List } from './pages.ts'

type ListOperation = Operations['listRoutines']
export type RoutineEvent = Operations['listRoutineEvents']['result']['events'][number]

/** What each run executes. The fields that belong to a single run come from the routine. */
export type RoutineRequest = Omit<
  ExecutionRequest,
  'idempotency_key' | 'traceparent' | 'delay_ms' | 'invocation_source'
>
export type NewRoutine = Omit<Operations['createRoutine']['body'], 'request'> & { request: RoutineRequest }
export type RoutineChange = Omit<Operations['changeRoutine']['body'], 'request'> & {
  request?: RoutineRequest | undefined
}

/** How many entries to return, for a list without pages. */
export interface LimitOptions extends CallOptions {
  /** From 1 to 500. Default 50. */
  limit?: number
}

export interface Routines {
  create(body: NewRoutine, options?: CallOptions): Promise<Routine>
  /** Newest first. */
  list(query?: ListOperation['query'], options?: CallOptions): List<Routine, ListOperation['result']>
  get(id: string, options?: CallOptions): Promise<Routine>
  /** Changes the named parts. A run in progress continues unchanged. */
  change(id: string, body: RoutineChange, options?: CallOptions): Promise<Routine>
  /** Deletes the routine and the history of its runs. A run in progress continues. */
  delete(id: string, options?: CallOptions): Promise<void>
  /** Runs it now. Repeating a `key` repeats the answer and runs nothing. Default: a new one for each call. */
  run(id: string, options?: CallOptions & { key?: string }): Promise<RoutineRun>
  /** The last runs that were due, newest first. 200 are kept. */
  runs(id: string, options?: LimitOptions): Promise<RoutineRun[]>
  /** Who changed what, newest first, also of a deleted routine. */
  events(id: string, options?: LimitOptions): Promise<RoutineEvent[]>
}

export function routinesOf(api: Api): Routines {
  const at = (id: string, rest = ''): string => `/routines/${part(id)}${rest}`
  return {
    create: (body, options) =>
      api.json({ method: 'POST', path: '/routines', body, repeat: 'if_refused', ...options }),
    list: (query, options) => api.list('/routines', 'routines', query, options),
    get: (id, options) => api.json({ method: 'GET', path: at(id), ...options }),
    change: (id, body, options) => api.json({ method: 'PATCH', path: at(id), body, ...options }),
    delete: (id, options) => api.json({ method: 'DELETE', path: at(id), ...options }),
    run: (id, { key = crypto.randomUUID(), ...options } = {}) =>
      api.json({ method: 'POST', path: at(id, '/run'), body: { key }, ...options }),
    async runs(id, { limit, ...options } = {}) {
      const call = { method: 'GET', path: at(id, '/runs'), query: { limit }, ...options } as const
      return (await api.json<Operations['listRoutineRuns']['result']>(call)).runs
    },
    async events(id, { limit, ...options } = {}) {
      const call = { method: 'GET', path: at(id, '/events'), query: { limit }, ...options } as const
      return (await api.json<Operations['listRoutineEvents']['result']>(call)).events
    },
  }
}
