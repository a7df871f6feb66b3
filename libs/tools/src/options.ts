/** How an application makes a code tool, and the defaults. */
import type { ExecutionRequest, HttpClient } from '@cofferdam/client'
import { LANGUAGES, type Language } from './languages.ts'
import type { ToolCall } from './tool-call.ts'

/** The methods of the client that the tool calls. Every client from `createClient` has them. */
export type ToolClient = Pick<HttpClient, 'enqueue' | 'wait' | 'stream' | 'cancel'> & {
  executions: Pick<HttpClient['executions'], 'output' | 'artifact'>
}

/** What stays between the calls of a session. Default: `interpreter`, which also keeps variables. */
export type SessionScope = NonNullable<NonNullable<ExecutionRequest['session']>['scope']>

/**
 * Decides which calls share files and variables. With a key, all calls of this tool share them. With a
 * function, the calls for which it returns the same key, for example one from `call.conversation` or
 * `call.context`. With a prefix, the calls for which the model chose the same name. Never make a key from a
 * user's text, because whoever knows the key gets what is in the session.
 */
export type SessionOption =
  | string
  | { prefix: string; scope?: SessionScope }
  | { key: string; scope?: SessionScope }
  | ((call: ToolCall) => string | undefined)

export interface CodeToolOptions {
  /** From `createClient`. Its key acts for the tenant. */
  client: ToolClient
  /** The tenant whose policy and caps apply. */
  tenantId: string
  /** The agent whose hourly cap applies. */
  agentId: string
  /** The user on whose behalf the agent works, for the audit row. */
  userId?: string
  /** The turn of the agent, for the audit row and for sessions of a run. */
  runId?: string
  /** The template whose settings apply besides those of the tenant. */
  templateId?: string
  /** Default: every call starts from nothing. */
  session?: SessionOption
  /** The backend to run on. Default: `auto`. */
  backend?: string
  /**
   * Limits, named as in the API. Default: 30 s, 256 MiB, and 32 KiB of stdout and 16 KiB of stderr in a
   * result.
   */
  limits?: NonNullable<ExecutionRequest['limits']>
  /** What programs may reach. Default: `none`. */
  network?: NonNullable<ExecutionRequest['network']>
  /** Default: all four. */
  languages?: readonly Language[]
  /**
   * Patterns of files to collect. PNG, JPEG and WebP images among them are shown to the model. Default:
   * images in the work directory, and everything in `out/`.
   */
  artifacts?: readonly string[]
  /** Default: `run_code`. */
  name?: string
  /** A sentence or two for the model, after the description, such as which modules are installed. */
  notes?: string
  /** Characters of text that the model gets of one result. Default: 20,000. At least 1,000. */
  maxChars?: number
  /**
   * How long a call waits for the ending, the time in the queue included, in milliseconds. An execution that
   * takes longer goes on, and the result has its ID. Default: 5 minutes after the hard deadline.
   */
  waitMs?: number
  /** Other fields of the request, such as `env`, `min_isolation`, `on_cap` or `files`. */
  request?: Omit<ExecutionRequest, 'program' | 'tenant_id' | 'agent_id' | 'session' | 'idempotency_key'>
  /** Called with errors that a result does not show: a failure on our side, or in a callback. For logs. */
  onProblem?: (error: unknown) => void
}

/** The options with their defaults. */
export interface Settings extends CodeToolOptions {
  limits: NonNullable<ExecutionRequest['limits']>
  network: NonNullable<ExecutionRequest['network']>
  languages: readonly Language[]
  artifacts: readonly string[]
  name: string
  maxChars: number
  waitMs: number
  hardTimeoutMs: number
  onProblem: (error: unknown) => void
}

/**
 * The most bytes of output in a result. They are few, because some SDKs keep results in their message
 * history.
 */
const OUTPUT = { stdout_bytes: 32 * 1024, stderr_bytes: 16 * 1024 }
/** The API's deadline if none is given. */
const HARD_TIMEOUT_MS = 30_000
/** If only a soft deadline is given, the hard deadline is this much later, in milliseconds. */
const GRACE_MS = 5000
const QUEUE_MS = 300_000
const ARTIFACTS = ['*.png', '*.jpg', '*.jpeg', '*.webp', 'out/**']
const MAX_CHARS = { default: 20_000, least: 1000 }
/** Names of tools, as all providers take them. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Throws TypeError for options that cannot work. */
export function settingsOf(options: CodeToolOptions): Settings {
  const { limits = {}, languages = LANGUAGES, name = 'run_code', maxChars = MAX_CHARS.default } = options
  const { hard_timeout_ms, soft_timeout_ms } = limits
  const hardTimeoutMs =
    hard_timeout_ms ?? (soft_timeout_ms === undefined ? HARD_TIMEOUT_MS : soft_timeout_ms + GRACE_MS)
  if (typeof options.client?.enqueue !== 'function') throw new TypeError('client: expected a client')
  for (const key of ['tenantId', 'agentId'] as const)
    if (typeof options[key] !== 'string' || options[key] === '')
      throw new TypeError(`${key}: expected a name`)
  if (!TOOL_NAME.test(name)) throw new TypeError('name: expected 1-64 letters, digits, _ or -')
  if (languages.length === 0 || languages.some((language) => !LANGUAGES.includes(language)))
    throw new TypeError(`languages: expected some of ${LANGUAGES.join(', ')}`)
  if (!(maxChars >= MAX_CHARS.least)) throw new TypeError(`maxChars: expected at least ${MAX_CHARS.least}`)
  return {
    ...options,
    limits: { ...OUTPUT, ...limits },
    network: options.network ?? 'none',
    languages,
    artifacts: options.artifacts ?? ARTIFACTS,
    name,
    maxChars,
    waitMs: options.waitMs ?? hardTimeoutMs + QUEUE_MS,
    hardTimeoutMs,
    onProblem: quiet(options.onProblem),
  }
}

/** Wraps the application's callback, so that an error in it cannot break a call. */
function quiet(onProblem: CodeToolOptions['onProblem']): (error: unknown) => void {
  return (error) => {
    try {
      onProblem?.(error)
    } catch {
      // The callback that reports errors has failed, so this error cannot be reported.
    }
  }
}
