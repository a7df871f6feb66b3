/**
 * The five operations of the data plane, by two clients: one that repeats calls, for sessions, and one that never does, for what
 * runs programs (with the SDK's default a connection that broke after a run executed the program twice). Every call waits for
 * its turn in the account's rate. The SDK is loaded by the first call.
 */
import type { BedrockAgentCoreClientConfig, ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, type RateGate } from '@cofferdam/contract'
import { isGone } from './classify-failure.ts'
import type { AgentcoreConfig } from './config.ts'
import { consumeStream, type OnText, type ToolResult } from './consume-stream.ts'
import { credentialsFrom } from './credentials.ts'

/** Executions of a worker at once; the SDK's own agent has 50 sockets and lets the others wait. */
const SOCKETS = 500
const CONNECT_MS = 5_000
/** Longer than this nobody waits for a turn: the worker has other backends and the queue has patience. */
const TURN_MS = 10_000
const ATTEMPTS = 3
/** The service's most for a page, and 1,000 sessions for an account with as many ended ones again. */
const PAGE = 100
const PAGES_MAX = 1000

/** Which session, and of which interpreter. */
export interface SessionPlace {
  interpreter: string
  session: string
}

export interface Listed extends SessionPlace {
  name: string | undefined
}

export interface CallMore {
  onText?: OnText
  /** The span that the service's own become children of, in its form of the W3C. */
  traceParent?: string | undefined
}

export interface DataPlane {
  /** One session for one token, however often it is asked for. */
  start(wish: {
    interpreter: string
    name: string
    seconds: number
    token: string
    traceParent?: string | undefined
  }): Promise<SessionPlace>
  /** False when there was none (any more). */
  stop(id: SessionPlace): Promise<boolean>
  /** All that run. */
  list(interpreter: string): Promise<Listed[]>
  /** One call that is sent once. The stream is read to its end, or the request is aborted. */
  call(
    id: SessionPlace,
    name: ToolName,
    given: ToolArguments,
    signal: AbortSignal,
    more?: CallMore,
  ): Promise<ToolResult>
  /** One short call, to see whether address, keys and interpreter are good. */
  ping(interpreter: string, signal: AbortSignal): Promise<void>
  close(): void
}

/** Creates it; talks to nothing before the first call. */
export function createDataPlane(config: AgentcoreConfig, rate: RateGate): DataPlane {
  let loaded: ReturnType<typeof clients> | null = null
  const load = () => (loaded ??= clients(config))
  const account = `agentcore:${config.region ?? ''}:${config.endpoint ?? ''}`

  const turn = async (operation: string, signal: AbortSignal): Promise<void> =>
    await rate.take(`${account}:${operation}`, config.calls_per_second, { waitMs: TURN_MS, signal })
  const inTime = (): AbortSignal => AbortSignal.timeout(config.api_timeout_ms)

  return {
    async start({ interpreter, name, seconds, token, traceParent }) {
      const signal = inTime()
      await turn('Start', signal)
      const { sdk, lifecycle } = await load()
      const { sessionId } = await lifecycle.send(
        new sdk.StartCodeInterpreterSessionCommand({
          codeInterpreterIdentifier: interpreter,
          name,
          sessionTimeoutSeconds: seconds,
          clientToken: token,
          traceParent,
        }),
        { abortSignal: signal },
      )
      return { interpreter, session: checkedId(sessionId) }
    },

    async stop({ interpreter, session }) {
      const signal = inTime()
      await turn('Stop', signal)
      const { sdk, lifecycle } = await load()
      const stopping = new sdk.StopCodeInterpreterSessionCommand({
        codeInterpreterIdentifier: interpreter,
        sessionId: session,
      })
      try {
        await lifecycle.send(stopping, { abortSignal: signal })
        return true
      } catch (error) {
        if (isGone(error)) return false
        throw error
      }
    },

    async list(interpreter) {
      const { sdk, lifecycle } = await load()
      const found: Listed[] = []
      let nextToken: string | undefined
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const signal = inTime()
        await turn('List', signal)
        const answer = await lifecycle.send(
          new sdk.ListCodeInterpreterSessionsCommand({
            codeInterpreterIdentifier: interpreter,
            status: 'READY',
            maxResults: PAGE,
            ...(nextToken === undefined ? {} : { nextToken }),
          }),
          { abortSignal: signal },
        )
        for (const { sessionId, name } of answer.items ?? [])
          found.push({ interpreter, session: checkedId(sessionId), name })
        nextToken = answer.nextToken
        if (nextToken === undefined) return found
      }
      throw new CofferdamError('backend_unavailable', 'AgentCore: the list of sessions does not end.')
    },

    async call({ interpreter, session }, name, given, signal, { onText, traceParent } = {}) {
      await turn('Invoke', signal)
      const { sdk, invoke } = await load()
      signal.throwIfAborted()
      // An iterator that is left keeps its socket busy; an aborted request does not.
      const request = new AbortController()
      try {
        const answer = await invoke.send(
          new sdk.InvokeCodeInterpreterCommand({
            codeInterpreterIdentifier: interpreter,
            sessionId: session,
            name,
            arguments: given,
            traceParent,
          }),
          { abortSignal: AbortSignal.any([request.signal, signal]) },
        )
        return await consumeStream(answer.stream ?? (async function* () {})(), onText)
      } catch (error) {
        signal.throwIfAborted()
        throw error
      } finally {
        request.abort()
      }
    },

    async ping(interpreter, signal) {
      const both = AbortSignal.any([signal, inTime()])
      await turn('List', both)
      const { sdk, lifecycle } = await load()
      const asking = { codeInterpreterIdentifier: interpreter, maxResults: 1 }
      await lifecycle.send(new sdk.ListCodeInterpreterSessionsCommand(asking), { abortSignal: both })
    },

    close() {
      void loaded?.then(
        ({ lifecycle, invoke }) => {
          lifecycle.destroy()
          invoke.destroy()
        },
        () => undefined,
      )
    },
  }
}

async function clients(config: AgentcoreConfig) {
  const sdk = await import('@aws-sdk/client-bedrock-agentcore')
  const agent = { keepAlive: true, maxSockets: SOCKETS }
  const common: BedrockAgentCoreClientConfig = {
    ...(config.region === undefined ? {} : { region: config.region }),
    ...(config.endpoint === undefined ? {} : { endpoint: config.endpoint }),
    ...(config.credentials_file === undefined
      ? {}
      : { credentials: credentialsFrom(config.credentials_file, config.profile) }),
    // No time-out of its own: a quiet program is silence, and every call has a signal.
    requestHandler: { httpAgent: agent, httpsAgent: agent, connectionTimeout: CONNECT_MS },
  }
  return {
    sdk,
    lifecycle: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: ATTEMPTS }),
    invoke: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: 1 }),
  }
}

function checkedId(id: string | undefined): string {
  if (id !== undefined && /^[0-9a-zA-Z]{1,40}$/.test(id)) return id
  throw new CofferdamError('protocol_violation', 'AgentCore: a session without an id that can be used.')
}
