/**
 * The data plane's operations. The client for session operations repeats calls; the client that runs programs
 * never does. Every call first waits for the account's rate limit. The first call loads the SDK.
 */
import type { ToolArguments, ToolName, BedrockAgentCoreClientConfig } from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, type RateGate } from '@cofferdam/contract'
import { isConflict, isGone } from './classify-failure.ts'
import type { AgentcoreConfig } from './config.ts'
import { consumeStream, type OnText, type ToolResult } from './consume-stream.ts'
import { credentialsFrom } from './credentials.ts'
import { hidingKeys } from './hide-keys.ts'
import { ATTEMPTS } from './retry-calls.ts'

/**
 * Longest wait for the rate limit if the caller gives no `turnMs`. Short, because another backend or attempt
 * may serve instead.
 */
const TURN_MS = 10_000
/** The service's largest page. An account has up to 1,000 sessions, and about as many ended ones. */
const PAGE = 100
const PAGES_MAX = 1000

/** A session and its interpreter. */
export interface SessionPlace {
  interpreter: string
  session: string
  /** Time at which this process received the answer to Start, if it started the session. */
  startedAtMs?: number
}

export interface Listed extends SessionPlace {
  name: string | undefined
}

export interface CallMore {
  onText?: OnText
  /** Parent for the service's own spans, in the W3C form. */
  traceParent?: string | undefined
  /** How long the call may wait for the account's rate limit. */
  turnMs?: number
}

export interface DataPlane {
  /** Starts one session per token, however often it is called. */
  start(wish: {
    interpreter: string
    name: string
    seconds: number
    token: string
    traceParent?: string | undefined
  }): Promise<SessionPlace>
  /** Returns false if the session does not exist. */
  stop(id: SessionPlace): Promise<boolean>
  /** All running sessions. */
  list(interpreter: string): Promise<Listed[]>
  /** Sends one call once. Reads the stream to its end or aborts the request. */
  call(
    id: SessionPlace,
    name: ToolName,
    given: ToolArguments,
    signal: AbortSignal,
    more?: CallMore,
  ): Promise<ToolResult>
  /** A short call that checks address, keys and interpreter. */
  ping(interpreter: string, signal: AbortSignal): Promise<void>
  close(): void
}

/** Makes no request before the first call. */
export function createDataPlane(config: AgentcoreConfig, rate: RateGate): DataPlane {
  let loaded: ReturnType<typeof openClients> | null = null
  const load = () => (loaded ??= openClients(config))
  const account = `agentcore:${config.region ?? ''}:${config.endpoint ?? ''}`

  const turn = async (operation: string, signal: AbortSignal, waitMs = TURN_MS): Promise<void> =>
    await rate.take(`${account}:${operation}`, config.calls_per_second, { waitMs, signal })
  const inTime = (): AbortSignal => AbortSignal.timeout(config.api_timeout_ms)

  return {
    async start({ interpreter, name, seconds, token, traceParent }) {
      const signal = inTime()
      await turn('Start', signal)
      const { sdk, lifecycle } = await load()
      const starting = new sdk.StartCodeInterpreterSessionCommand({
        codeInterpreterIdentifier: interpreter,
        name,
        sessionTimeoutSeconds: seconds,
        clientToken: token,
        traceParent,
      })
      const { sessionId } = await hidingKeys(lifecycle, () =>
        lifecycle.send(starting, { abortSignal: signal }),
      )
      return { interpreter, session: checkedId(sessionId), startedAtMs: Date.now() }
    },

    async stop({ interpreter, session }) {
      const signal = inTime()
      const { sdk, lifecycle } = await load()
      const stopping = { codeInterpreterIdentifier: interpreter, sessionId: session }
      for (let attempt = 1; ; attempt += 1) {
        await turn('Stop', signal)
        const command = new sdk.StopCodeInterpreterSessionCommand(stopping)
        try {
          await hidingKeys(lifecycle, () => lifecycle.send(command, { abortSignal: signal }))
          return true
        } catch (error) {
          if (isGone(error)) return false
          // The session may be starting or ending. Try once more, and accept that it is gone by then.
          if (!isConflict(error) || attempt === ATTEMPTS.stop) throw error
        }
      }
    },

    async list(interpreter) {
      const { sdk, lifecycle } = await load()
      const found: Listed[] = []
      let nextToken: string | undefined
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const signal = inTime()
        await turn('List', signal)
        const listing = new sdk.ListCodeInterpreterSessionsCommand({
          codeInterpreterIdentifier: interpreter,
          status: 'READY',
          maxResults: PAGE,
          ...(nextToken === undefined ? {} : { nextToken }),
        })
        const answer = await hidingKeys(lifecycle, () => lifecycle.send(listing, { abortSignal: signal }))
        for (const { sessionId, name } of answer.items ?? [])
          found.push({ interpreter, session: checkedId(sessionId), name })
        nextToken = answer.nextToken
        if (nextToken === undefined || nextToken === '') return found
      }
      throw new CofferdamError('backend_unavailable', 'AgentCore: the list of sessions does not end.')
    },

    async call({ interpreter, session }, name, given, signal, { onText, traceParent, turnMs } = {}) {
      await turn('Invoke', signal, turnMs)
      const { sdk, invoke } = await load()
      signal.throwIfAborted()
      // Leaving the iterator early keeps the socket busy; aborting the request frees it.
      const request = new AbortController()
      try {
        const invoking = new sdk.InvokeCodeInterpreterCommand({
          codeInterpreterIdentifier: interpreter,
          sessionId: session,
          name,
          arguments: given,
          traceParent,
        })
        const abortSignal = AbortSignal.any([request.signal, signal])
        return await hidingKeys(invoke, async () => {
          const { stream } = await invoke.send(invoking, { abortSignal })
          return await consumeStream(stream ?? (async function* () {})(), onText)
        })
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
      const asking = new sdk.ListCodeInterpreterSessionsCommand({
        codeInterpreterIdentifier: interpreter,
        maxResults: 1,
      })
      await hidingKeys(lifecycle, () => lifecycle.send(asking, { abortSignal: both }))
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

function checkedId(id: string | undefined): string {
  if (id !== undefined && /^[0-9a-zA-Z]{1,40}$/.test(id)) return id
  throw new CofferdamError('protocol_violation', 'AgentCore: a session without an id that can be used.')
}

/** Maximum connections of a client. The SDK's own agent has 50 and makes other calls wait. */
const SOCKETS = 500
const CONNECT_MS = 5_000

/**
 * Loads the SDK and makes no request. `lifecycle` repeats calls, because a Start has an idempotency token and
 * a second Stop does no harm. `invoke` never repeats: with the SDK's default, a broken connection ran the
 * program twice (measured).
 */
async function openClients(config: AgentcoreConfig) {
  const sdk = await import('@aws-sdk/client-bedrock-agentcore')
  const agent = { keepAlive: true, maxSockets: SOCKETS }
  const common: BedrockAgentCoreClientConfig = {
    ...(config.region === undefined ? {} : { region: config.region }),
    ...(config.endpoint === undefined ? {} : { endpoint: config.endpoint }),
    ...(config.credentials_file === undefined
      ? {}
      : { credentials: credentialsFrom(config.credentials_file, config.profile) }),
    // No request timeout: a quiet program sends nothing for a long time, and every call has a signal.
    requestHandler: { httpAgent: agent, httpsAgent: agent, connectionTimeout: CONNECT_MS },
  }
  return {
    sdk,
    lifecycle: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: ATTEMPTS.lifecycle }),
    invoke: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: 1 }),
  }
}
