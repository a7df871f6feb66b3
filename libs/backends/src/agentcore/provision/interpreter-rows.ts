/** What provisioning needs of the database; `Store.codeInterpreters` fits. */
import type { Environment } from '../interpreters.ts'

/** One wanted interpreter. */
export interface WantedInterpreter {
  tenant_id: string
  environment: Environment
  /** Null: not there (yet). */
  interpreter_id: string | null
  /** Rises whenever an id is forgotten. */
  generation: number
  provisioned_at: string | null
  sandbox_enabled: boolean
}

/** Every method throws `store_unavailable`. */
export interface InterpreterRows {
  /** Of one tenant, or page by page all behind `after`; an empty page is the last. */
  list(options: {
    tenantId?: string
    after?: Pick<WantedInterpreter, 'tenant_id' | 'environment'>
  }): Promise<WantedInterpreter[]>
  request(tenantId: string, environments: readonly Environment[], actor: string): Promise<void>
  /** False when the row is gone, was forgotten since it was read, or holds another id. */
  provisioned(
    row: Pick<WantedInterpreter, 'tenant_id' | 'environment' | 'generation'>,
    id: string,
    actor: string,
  ): Promise<boolean>
  /** `id` null: what the present token makes is gone; the next one is another. */
  forget(tenantId: string, environment: Environment, id: string | null, actor: string): Promise<boolean>
  remove(tenantId: string, actor: string): Promise<void>
  isNamed(id: string): Promise<boolean>
  /** Runs `work` while no other process does; null when another one is at it. */
  inTurn<T>(work: () => Promise<T>): Promise<T | null>
}
