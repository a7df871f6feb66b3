/** Which code interpreter is made for which tenant: what provisioning needs of the database. */
import type { Environment } from './request.ts'

/** A tenant's interpreter in one environment, as it is wanted. */
export interface WantedInterpreter {
  tenant_id: string
  environment: Environment
  /** Null: not there (yet). */
  interpreter_id: string | null
  /** Rises whenever an id is forgotten. */
  generation: number
  provisioned_at: string | null
  /** Whether the tenant may run code at all. */
  sandbox_enabled: boolean
}

/** Every method throws `store_unavailable`. */
export interface InterpreterRows {
  /** All that are wanted, of one tenant or by tenant and environment at most 1,000 behind `after`. */
  list(options: {
    tenantId?: string
    after?: Pick<WantedInterpreter, 'tenant_id' | 'environment'>
  }): Promise<WantedInterpreter[]>
  /** Wants these; those that are wanted already stay as they are. Throws `not_found` for an unknown tenant. */
  request(tenantId: string, environments: readonly Environment[], actor: string): Promise<void>
  /**
   * Writes the id that was made for a row as it was read. False when the row is gone, was forgotten since, or holds another
   * id: then what was made is nobody's. Throws `conflict` when another row names the id.
   */
  provisioned(
    row: Pick<WantedInterpreter, 'tenant_id' | 'environment' | 'generation'>,
    id: string,
    actor: string,
  ): Promise<boolean>
  /**
   * The service does not know `id` any more. False when the row names another by now. Null where none was written yet: what
   * the row's generation made is gone.
   */
  forget(tenantId: string, environment: Environment, id: string | null, actor: string): Promise<boolean>
  /** Nothing is wanted for the tenant any more. */
  remove(tenantId: string, actor: string): Promise<void>
  /** Whether any row names it. */
  isNamed(id: string): Promise<boolean>
  /** Runs `work` while no other process does; null when another one is at it. */
  inTurn<T>(work: () => Promise<T>): Promise<T | null>
}
