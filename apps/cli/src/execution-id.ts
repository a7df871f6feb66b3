/** Reads an execution id from the command line. */
import { executionIdSchema, type ExecutionId } from '@cofferdam/contract'
import type { CommandLine } from './command.ts'
import { UsageError } from './usage-error.ts'

/** The first word as an id. Throws `UsageError`. */
export function executionIdOf(line: CommandLine): ExecutionId {
  const word = line.words[0] ?? ''
  const id = executionIdSchema.safeParse(word)
  if (!id.success)
    throw new UsageError(`${JSON.stringify(word)} is no execution id: ${id.error.issues[0]?.message ?? ''}.`)
  return id.data
}
