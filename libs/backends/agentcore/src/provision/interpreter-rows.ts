/** What provisioning needs of the database; documented at the store's `CodeInterpreters`. */
import type { Environment } from '@cofferdam/contract'

export interface WantedInterpreter {
  tenant_id: string
  environment: Environment
  interpreter_id: string | null
  generation: number
  provisioned_at: string | null
  sandbox_enabled: boolean
}

type RowKey = Pick<WantedInterpreter, 'tenant_id' | 'environment'>

export interface InterpreterRows {
  list(options: { tenantId?: string; after?: RowKey }): Promise<WantedInterpreter[]>
  request(tenantId: string, environments: readonly Environment[], actor: string): Promise<void>
  provisioned(
    row: RowKey & Pick<WantedInterpreter, 'generation'>,
    id: string,
    actor: string,
  ): Promise<boolean>
  forget(tenantId: string, environment: Environment, id: string | null, actor: string): Promise<boolean>
  remove(tenantId: string, actor: string): Promise<void>
  isNamed(id: string): Promise<boolean>
  inTurn<T>(work: () => Promise<T>): Promise<T | null>
}
