import type { ApiConnection } from './api-connection.ts'
import type { CommandLine } from './command.ts'
import type { Terminal } from './terminal.ts'

/** What a verb of `cofferdam tenant` has to work with. */
export interface TenantCall {
  api: ApiConnection
  /** `/v1/tenants/{tenant}` of the first word. */
  path: string
  /** The words behind the verb, the tenant first; none for `list`. */
  words: readonly string[]
  line: CommandLine
  terminal: Terminal
}
