/** The arguments that tools share, and how they become an execution. Descriptions are for models. */
import {
  fileSchema,
  MAX_LIMITS,
  nameSchema,
  networkSchema,
  type ExecutionRequestInput,
} from '@cofferdam/contract'
import { z } from 'zod'
import { namedFields } from '../wire-schemas.ts'
import type { RunOptions } from './run-execution.ts'

/** The longest wait of a call, seconds. Clients and load balancers commonly give up after 60 s. */
const MAX_WAIT_S = 55
const DEFAULT_WAIT_S = 50

/**
 * Bytes of output in a result. They are few because some clients give all of them to their model.
 * `get_execution` reads the rest, of which up to 16 MiB are kept.
 */
const STDOUT_BYTES = 32 * 1024
const STDERR_BYTES = 16 * 1024

export const waitArgument = z
  .number()
  .min(0)
  .max(MAX_WAIT_S)
  .default(DEFAULT_WAIT_S)
  .describe(`Seconds to wait for the end, at most ${MAX_WAIT_S}. Then the answer has an execution_id.`)

export const sessionArgument = nameSchema.describe(
  'A name that you choose. Calls with the same name share files and, per language, variables, one at a ' +
    'time, until the session is idle for some minutes. Without it every call starts from nothing.',
)

/** Arguments of every tool that runs a program. */
export const runArguments = z.strictObject({
  files: z.array(fileSchema).max(256).optional().describe('Files to put into the work directory first.'),
  session: sessionArgument.optional(),
  timeout_s: z
    .number()
    .min(0.1)
    .max(MAX_LIMITS.interactive_timeout_ms / 1000)
    .optional()
    .describe('Seconds until the program is killed. Default 30.'),
  memory_mib: z.int().min(16).max(MAX_LIMITS.memory_mib).optional().describe('Default 256.'),
  network: networkSchema
    .optional()
    .describe('Default "none". {"allow": ["example.org"]} if the tenant permits these hosts.'),
  wait_s: waitArgument,
  detach: z
    .boolean()
    .default(false)
    .describe('Let the program go on when this call is cancelled or its connection breaks.'),
})

export const stdinArgument = z
  .string()
  .max(4 * 1024 * 1024)
  .optional()

export const artifactsArgument = z
  .array(z.string().min(1).max(512))
  .max(32)
  .optional()
  .describe('Globs of files to collect at the end, such as ["out/*.png"]. Images come back as images.')

type RunArguments = z.output<typeof runArguments>

/** The parts of an execution request that `runArguments` decides. */
export function requestOf({
  files,
  session,
  timeout_s,
  memory_mib,
  network,
}: RunArguments): Omit<ExecutionRequestInput, 'program' | 'tenant_id' | 'agent_id'> {
  return {
    ...namedFields({ files, network }),
    ...(session === undefined ? {} : { session: { key: session, scope: 'interpreter' as const } }),
    limits: {
      stdout_bytes: STDOUT_BYTES,
      stderr_bytes: STDERR_BYTES,
      ...(timeout_s === undefined ? {} : { hard_timeout_ms: Math.round(timeout_s * 1000) }),
      ...namedFields({ memory_mib }),
    },
  }
}

export const optionsOf = ({ wait_s, detach }: RunArguments): RunOptions => ({
  waitMs: Math.round(wait_s * 1000),
  detach,
})
