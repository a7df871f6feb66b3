/**
 * What a call returns: plain JSON, with fields named as in the API. A failure is also a result, not an
 * exception.
 */
import type { ExecutionResult } from '@cofferdam/client'
import type { ObjectSchema } from './json-schema.ts'

/** An image that the program left, small enough for a model. */
export interface CodeImage {
  path: string
  media_type: string
  /** In base64. */
  data: string
}

/** Why the program did not give a result. */
export interface Problem {
  /** Stable word: an error of the API (docs/errors.md), an ending, or `invalid_input`. */
  code: string
  message: string
  /** Whether the same call may work: never, later, or on another backend. */
  retry: 'never' | 'later' | 'elsewhere'
  /** Do not repeat the call before this time. UTC, ISO 8601. */
  retry_at?: string
}

/**
 * - `ended`: the program ran. `ok` says whether it ended with status 0.
 * - `running`: the execution goes on because the wait was too short, or this is a preliminary result.
 * - `cancelled`: the SDK gave the call up, or somebody cancelled the execution.
 * - `refused`: nothing ran, because of invalid input, a policy, a cap or a full queue.
 * - `failed`: the platform failed.
 */
export type CodeStatus = 'ended' | 'running' | 'cancelled' | 'refused' | 'failed'

export interface CodeResult {
  status: CodeStatus
  ok: boolean
  /** With this ID, the application can read the execution's full output, artifacts and audit row. */
  execution_id?: string
  ending?: ExecutionResult['ending']
  exit_code?: number | null
  /** The head of the standard output. */
  stdout: string
  /** The end of the standard output, if `stdout` has only its head. */
  stdout_tail?: string
  /** The tail of the standard error. */
  stderr: string
  /** What the program wrote, in bytes. */
  stdout_bytes: number
  stderr_bytes: number
  stdout_truncated: boolean
  stderr_truncated: boolean
  /** Value of the last expression, as JSON. */
  value?: unknown
  duration_ms?: number
  /** Class and text of the error, for an execution that did not end well. */
  error?: string
  error_message?: string
  artifacts: { path: string; size: number }[]
  images: CodeImage[]
  session?: { fresh: boolean; interpreter: string }
  problem?: Problem
}

const text = { type: 'string' }
const count = { type: 'integer' }
const flag = { type: 'boolean' }
const list = (properties: Record<string, { type: string }>) => ({
  type: 'array',
  items: { type: 'object', properties, required: Object.keys(properties) },
})

/** The JSON Schema of a result. Later releases may add fields. */
export const OUTPUT_SCHEMA: Omit<ObjectSchema, 'additionalProperties'> = {
  type: 'object',
  properties: {
    status: { type: 'string', enum: ['ended', 'running', 'cancelled', 'refused', 'failed'] },
    ok: { ...flag, description: 'Whether the program ended with status 0.' },
    execution_id: text,
    ending: { ...text, description: 'How the execution ended, exactly.' },
    exit_code: { type: ['integer', 'null'] },
    stdout: text,
    stdout_tail: text,
    stderr: text,
    stdout_bytes: count,
    stderr_bytes: count,
    stdout_truncated: flag,
    stderr_truncated: flag,
    value: { description: 'Value of the last expression.' },
    duration_ms: { type: 'number' },
    error: text,
    error_message: text,
    artifacts: list({ path: text, size: count }),
    images: list({ path: text, media_type: text, data: text }),
    session: {
      type: 'object',
      properties: { fresh: flag, interpreter: text },
      required: ['fresh', 'interpreter'],
    },
    problem: {
      type: 'object',
      properties: {
        code: text,
        message: text,
        retry: { type: 'string', enum: ['never', 'later', 'elsewhere'] },
        retry_at: text,
      },
      required: ['code', 'message', 'retry'],
    },
  },
  required: ['status', 'ok', 'stdout', 'stderr', 'artifacts', 'images'],
}

/** A result without output. */
export const emptyResult = (status: CodeStatus, more: Partial<CodeResult> = {}): CodeResult => ({
  status,
  ok: false,
  stdout: '',
  stderr: '',
  stdout_bytes: 0,
  stderr_bytes: 0,
  stdout_truncated: false,
  stderr_truncated: false,
  artifacts: [],
  images: [],
  ...more,
})

/** Whether the model should be told that the call itself failed: SDKs have a flag for it. */
export const isFailure = ({ status }: CodeResult): boolean => status === 'refused' || status === 'failed'
