/** How an attempt ended: `ending` is fine-grained, `exit_status` its class. Agents see the error class. */
import { z } from 'zod'

export const EXIT_STATUSES = [
  'ok',
  'error',
  'timeout',
  'oom',
  'cap_exceeded',
  'provisioning',
  'cancelled',
] as const
export const exitStatusSchema = z.enum(EXIT_STATUSES)
export type ExitStatus = z.infer<typeof exitStatusSchema>

export const ENDINGS = [
  'ok',
  'error',
  'crashed',
  'soft_timeout',
  'hard_timeout',
  'oom',
  'pids_limit',
  'disk_limit',
  'output_limit',
  'cancelled',
  'policy_denied',
  'cap_exceeded',
  'provisioning',
  'sandbox_lost',
  'worker_lost',
] as const
export const endingSchema = z.enum(ENDINGS)
export type Ending = z.infer<typeof endingSchema>

export const ERROR_CLASSES = [
  'SandboxError',
  'SandboxTimeout',
  'SandboxOOM',
  'SandboxCapExceeded',
  'SandboxProvisioning',
  'SandboxPolicyDenied',
  'SandboxCancelled',
] as const
export const errorClassSchema = z.enum(ERROR_CLASSES)
export type ErrorClass = z.infer<typeof errorClassSchema>

const TABLE: Record<Ending, { exitStatus: ExitStatus; errorClass: ErrorClass | null }> = {
  ok: { exitStatus: 'ok', errorClass: null },
  error: { exitStatus: 'error', errorClass: 'SandboxError' },
  crashed: { exitStatus: 'error', errorClass: 'SandboxError' },
  soft_timeout: { exitStatus: 'timeout', errorClass: 'SandboxTimeout' },
  hard_timeout: { exitStatus: 'timeout', errorClass: 'SandboxTimeout' },
  oom: { exitStatus: 'oom', errorClass: 'SandboxOOM' },
  pids_limit: { exitStatus: 'error', errorClass: 'SandboxError' },
  disk_limit: { exitStatus: 'error', errorClass: 'SandboxError' },
  output_limit: { exitStatus: 'error', errorClass: 'SandboxError' },
  cancelled: { exitStatus: 'cancelled', errorClass: 'SandboxCancelled' },
  policy_denied: { exitStatus: 'provisioning', errorClass: 'SandboxPolicyDenied' },
  cap_exceeded: { exitStatus: 'cap_exceeded', errorClass: 'SandboxCapExceeded' },
  provisioning: { exitStatus: 'provisioning', errorClass: 'SandboxProvisioning' },
  sandbox_lost: { exitStatus: 'error', errorClass: 'SandboxError' },
  worker_lost: { exitStatus: 'error', errorClass: 'SandboxError' },
}

export const exitStatusOf = (ending: Ending): ExitStatus => TABLE[ending].exitStatus
/** The error class that an agent sees for an ending. Null for `ok`. */
export const errorClassOf = (ending: Ending): ErrorClass | null => TABLE[ending].errorClass
