/** The executions that serve a session: all run in its sandbox and are audited under its ID. */
import {
  MAX_LIMITS,
  nameSchema,
  type ExecutionRequestInput,
  type FileIn,
  type FileOperation,
} from '@cofferdam/contract'
import type { EnvironmentConfig } from './config.ts'
import type { ToolPlan } from './tools/tool.ts'

/** Folders in the work directory. `SURROUNDINGS.links` gives them the names that agents know. */
export const SESSION_FOLDERS = { outputs: '.session/outputs', memory: '.session/memory' } as const

/**
 * Makes the folders and prints the work directory. If the image lacks the links with the names that agents
 * know, makes them where it can.
 */
const PREPARING = [
  `mkdir -p ${Object.values(SESSION_FOLDERS).join(' ')}`,
  '{ [ -L /mnt/session ] || ln -s "$PWD/.session" /mnt/session; } 2>/dev/null',
  '{ [ -L /mnt/memory ] || ln -s "$PWD/.session/memory" /mnt/memory; } 2>/dev/null',
  'pwd -P',
].join('\n')

/** Deadlines of preparing: it makes two folders and writes the provided files. */
const PREPARE = { soft_timeout_ms: 20_000, hard_timeout_ms: 25_000 } as const

export interface SessionRequests {
  /** Makes the sandbox if the session has none, with its folders, and writes `files`. May be repeated. */
  prepare(files: readonly FileIn[]): ExecutionRequestInput
  /** `key` is the same whenever the same call is made again. */
  call(key: string, toolUseId: string, agentId: string, plan: ToolPlan): ExecutionRequestInput
  /** A command of ours in the sandbox that the session has. */
  inspect(argv: readonly string[], stdin: string): ExecutionRequestInput
  /** An operation on the session's files, on the backend that has its sandbox. Not charged. */
  operate(op: FileOperation, backend: string, path?: string): ExecutionRequestInput
}

export function sessionRequests(environment: EnvironmentConfig, sessionId: string): SessionRequests {
  const { tenant_id, agent_id, template_id, network, limits } = environment
  const common = {
    tenant_id,
    agent_id,
    ...(template_id === undefined ? {} : { template_id }),
    run_id: sessionId,
    session: {
      key: sessionId,
      scope: environment.shell === 'kept' ? 'processes' : 'files',
      idle_ms: environment.park_ms,
    },
    backend: environment.backend,
    network,
    limits,
    invocation_source: 'chat',
  } satisfies Partial<ExecutionRequestInput>
  return {
    prepare: (files) => ({
      ...common,
      program: { type: 'command', shell: PREPARING },
      ...(files.length === 0 ? {} : { files: [...files] }),
      limits: { ...limits, ...PREPARE },
      // A retry is safe, because the call that waits for the sandbox has not begun. Without a retry, the
      // agent would read that the machine stopped.
      retry: { max_attempts: 3, on: ['worker_lost', 'sandbox_lost'] },
    }),
    call: (key, toolUseId, agentId, plan) => ({
      ...common,
      agent_id: agentId,
      idempotency_key: `${sessionId}:${key}`,
      ...(nameSchema.safeParse(toolUseId).success ? { tool_call_id: toolUseId } : {}),
      session: { ...common.session, must_exist: true },
      program: plan.program,
      ...(plan.stdin === undefined ? {} : { stdin: plan.stdin }),
      limits: { ...limits, ...plan.limits },
    }),
    inspect: (argv, stdin) => ({
      ...common,
      session: { ...common.session, must_exist: true },
      program: { type: 'command', argv: [...argv] },
      stdin,
      limits: { ...limits, ...PREPARE, stdout_bytes: MAX_LIMITS.stdout_bytes },
    }),
    operate: (op, backend, path) => ({
      ...common,
      backend,
      network: 'none',
      program: { type: 'files', op, ...(path === undefined ? {} : { path }) },
    }),
  }
}
