/** Sessions that have a sandbox now or are paused, their files, and the outputs collected from them. */
import { CofferdamError } from '@cofferdam/contract/error-table'
import type { Accepted, ExecutionResult, Operations } from './wire.ts'
import { filePath, part, type Api, type Call, type CallOptions } from './api.ts'
import { executionsOf, ranged, type RangeOptions } from './executions.ts'
import type { List } from './pages.ts'

type ListOperation = Operations['listSessions']
export type Session = Operations['getSession']['result']
export type SessionListing = Operations['listSessionFiles']['result']
export type SessionOutputs = Operations['listSessionOutputs']['result']
export type SessionForks = Operations['forkSession']['result']
export type SessionOutput = SessionOutputs['outputs'][number]

/** What identifies a session: its backend, key and tenant. `tenant_id` is needed with an admin key. */
export type SessionName = { backend: string; key: string } & Operations['endSession']['query']

export interface Sessions {
  /** Newest first. */
  list(query?: ListOperation['query'], options?: CallOptions): List<Session, ListOperation['result']>
  /** One session. Throws `session_not_found`. */
  get(name: SessionName, options?: CallOptions): Promise<Session>
  /** Destroys the sandbox with everything in it, when it is this call's turn in the session. */
  end(name: SessionName, options?: CallOptions): Promise<void>
  /** Saves it to disk. Its next execution continues it, on any worker of the same host group. */
  pause(name: SessionName, options?: CallOptions): Promise<void>
  /** Continues a paused session before its next execution needs it. */
  resume(name: SessionName, options?: CallOptions): Promise<void>
  /** Makes a paused session with this session's files for each of 1 to 16 keys. This session goes on. */
  fork(name: SessionName, keys: string[], options?: CallOptions): Promise<SessionForks>
  /** The files of a session, or of a folder of it: at most 1,000. `truncated` tells that there are more. */
  files(name: SessionName, folder?: string, options?: CallOptions): Promise<SessionListing>
  /** One file as it is now, at most 8 MiB. */
  readFile(name: SessionName, path: string, options?: RangeOptions): Promise<Uint8Array>
  /** Writes one file, at most 8 MiB. Missing folders are created. */
  writeFile(
    name: SessionName,
    path: string,
    content: Uint8Array | string,
    options?: CallOptions,
  ): Promise<void>
  removeFile(name: SessionName, path: string, options?: CallOptions): Promise<void>
  /** The newest version of each collected file, by path. `runId` is the `run_id` of the collections. */
  outputs(
    runId: string,
    query?: Operations['listSessionOutputs']['query'],
    options?: CallOptions,
  ): List<SessionOutput, SessionOutputs>
  /** The newest version of one output. `tenant_id` is needed with an admin key. */
  output(
    runId: string,
    path: string,
    query?: Operations['getSessionOutput']['query'],
    options?: RangeOptions,
  ): Promise<Uint8Array>
}

/** Waits for an execution that the API accepted but did not see end. */
export type Settle = (accepted: Accepted, options: CallOptions) => Promise<ExecutionResult>

export function sessionsOf(api: Api, settle: Settle): Sessions {
  const executions = executionsOf(api)

  /**
   * Waits for an operation that was not finished when the API answered, and returns its result. Throws the
   * failure that it ended with.
   */
  async function ended(accepted: Accepted, options: CallOptions): Promise<ExecutionResult> {
    const result = await settle(accepted, options)
    if (result.ending === 'ok') return result
    const code = result.ending === 'error' || result.ending === 'sandbox_lost' ? 'internal' : 'conflict'
    const { execution_id, reason, error_message } = result
    throw new CofferdamError(code, error_message, { retry: 'never', details: { execution_id, reason } })
  }

  /** An operation that returns nothing. */
  async function change(call: Call, { signal }: CallOptions = {}): Promise<void> {
    const options = signal === undefined ? {} : { signal }
    const { status, body } = await api.answer<Accepted>({ ...call, ...options })
    if (status === 202) await ended(body, options)
  }

  return {
    list: (query, options) => api.list('/sessions', 'sessions', query, options),
    get: ({ backend, key, tenant_id }, options) =>
      api.json({ method: 'GET', path: pathOf({ backend, key }), query: { tenant_id }, ...options }),
    end: (name, options) => change({ method: 'DELETE', path: pathOf(name), query: queryOf(name) }, options),
    pause: (name, options) => change(actOn(name, 'pause'), options),
    resume: (name, options) => change(actOn(name, 'resume'), options),
    async fork(name, keys, options = {}) {
      const call: Call = { ...actOn(name, 'fork'), body: { keys }, repeat: 'if_refused', ...options }
      const { status, body } = await api.answer<SessionForks | Accepted>(call)
      if (status !== 202) return body as SessionForks
      return (await ended(body as Accepted, options)).value as SessionForks
    },
    async files(name, folder, options = {}) {
      const query = { ...queryOf(name), folder }
      const call: Call = { method: 'GET', path: `${pathOf(name)}/files`, query, ...options }
      const { status, body } = await api.answer<SessionListing | Accepted>(call)
      if (status !== 202) return body as SessionListing
      return (await ended(body as Accepted, options)).value as SessionListing
    },
    async readFile(name, file, options = {}) {
      const path = `${pathOf(name)}/files/${filePath(file)}`
      const call: Call = { method: 'GET', path, query: queryOf(name), ...ranged(options) }
      const { status, bytes } = await api.bytes(call)
      if (status !== 202) return bytes
      const accepted = JSON.parse(new TextDecoder().decode(bytes)) as Accepted
      const { execution_id, artifacts } = await ended(accepted, options)
      return executions.artifact(execution_id, artifacts[0]?.path ?? file, options)
    },
    writeFile(name, file, content, options) {
      const body = typeof content === 'string' ? new TextEncoder().encode(content) : content
      const path = `${pathOf(name)}/files/${filePath(file)}`
      return change({ method: 'PUT', path, query: queryOf(name), body }, options)
    },
    removeFile(name, file, options) {
      const path = `${pathOf(name)}/files/${filePath(file)}`
      return change({ method: 'DELETE', path, query: queryOf(name) }, options)
    },
    outputs: (runId, query, options) =>
      api.list(`/sessions/${part(runId)}/outputs`, 'outputs', query, options) as List<
        SessionOutput,
        SessionOutputs
      >,
    async output(runId, file, query, options) {
      const path = `/sessions/${part(runId)}/outputs/${filePath(file)}`
      return (await api.bytes({ method: 'GET', path, query, ...ranged(options) })).bytes
    },
  }
}

const pathOf = ({ backend, key }: Pick<SessionName, 'backend' | 'key'>): string =>
  `/backends/${part(backend)}/sessions/${part(key)}`

const actOn = (name: SessionName, act: 'pause' | 'resume' | 'fork'): Call => ({
  method: 'POST',
  path: `${pathOf(name)}/${act}`,
  query: queryOf(name),
})

const queryOf = ({ tenant_id, agent_id, template_id }: SessionName) => ({ tenant_id, agent_id, template_id })
