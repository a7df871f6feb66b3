/** What an agent's sandbox is made of: a session of a fleet, and what each command in it may use. */
import type { ExecutionRequest, HttpClient } from '@cofferdam/client'

/** The parts of the client that a sandbox calls. */
export type SandboxClient = Pick<
  HttpClient,
  'run' | 'enqueue' | 'stream' | 'wait' | 'cancel' | 'executions' | 'sessions'
>

type Limits = NonNullable<ExecutionRequest['limits']>

export interface SandboxOptions {
  client: SandboxClient
  tenantId: string
  agentId: string
  templateId?: string
  userId?: string
  /**
   * The key of the session. The same key is the same sandbox, also from another process. Default: a new one.
   * Never use text of a user. Use the ID of a conversation.
   */
  key?: string
  /** The backend, such as `docker`. Default: the first that fits. */
  backend?: string
  minIsolation?: NonNullable<ExecutionRequest['min_isolation']>
  /**
   * `files` (default): between two commands only the work folder stays. `processes`: background processes
   * stay, too, on the backends that can do that. With `processes`, cancelling a command ends the whole
   * sandbox.
   */
  scope?: 'files' | 'processes'
  /** The sandbox ends after it was idle for this long, milliseconds. Default: the worker's, 5 minutes. */
  idleMs?: number
  /** Refuse with `session_not_found` instead of beginning a new session. Default false. */
  mustExist?: boolean
  /** Fixed with the first command of the session. Default: those of the fleet. */
  limits?: Pick<Limits, 'memory_mib' | 'cpus' | 'pids' | 'disk_mib'>
  /** Default `none`. */
  network?: NonNullable<ExecutionRequest['network']>
  /** Variables of every command. */
  env?: Readonly<Record<string, string>>
  /**
   * A command is stopped after this many milliseconds, unless it has its own `timeoutMs`. Default 120,000.
   */
  timeoutMs?: number
}

/** Agents expect to install and build. Two minutes are the default of common shell tools of agents. */
export const DEFAULT_TIMEOUT_MS = 120_000

/** What is added to the request of one command. */
export interface RequestParts {
  program: Extract<ExecutionRequest['program'], { type: 'command' }>
  backend: string
  key: string
  mustExist: boolean
  env?: Readonly<Record<string, string>>
  timeoutMs?: number
}

/** The request of one command in the session. */
export function requestOf(options: SandboxOptions, parts: RequestParts): ExecutionRequest {
  const { templateId, userId, minIsolation, idleMs, network, limits } = options
  const env = { ...options.env, ...parts.env }
  return {
    tenant_id: options.tenantId,
    agent_id: options.agentId,
    ...(templateId === undefined ? {} : { template_id: templateId }),
    ...(userId === undefined ? {} : { user_id: userId }),
    program: parts.program,
    backend: parts.backend,
    ...(minIsolation === undefined ? {} : { min_isolation: minIsolation }),
    ...(network === undefined ? {} : { network }),
    session: {
      key: parts.key,
      scope: options.scope ?? 'files',
      ...(idleMs === undefined ? {} : { idle_ms: idleMs }),
      ...(parts.mustExist ? { must_exist: true } : {}),
    },
    limits: { ...limits, soft_timeout_ms: parts.timeoutMs ?? options.timeoutMs ?? DEFAULT_TIMEOUT_MS },
    ...(Object.keys(env).length === 0 ? {} : { env }),
    invocation_source: 'chat',
  }
}
