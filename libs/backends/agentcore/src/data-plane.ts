/**
 * The operations of the data plane: those of sessions by a client that repeats calls, those that run programs by one that never
 * does. Every call waits for its turn in the account's rate. The SDK is loaded by the first call.
 */
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, type RateGate } from '@cofferdam/contract'
import { isConflict, isGone } from './classify-failure.ts'
import type { AgentcoreConfig } from './config.ts'
import { consumeStream, type OnText, type ToolResult } from './consume-stream.ts'
import { hidingKeys } from './hide-keys.ts'
import { openClients } from './sdk-clients.ts'

/** Longer than this nobody waits for a turn while nothing of a user has begun: the worker has other backends and the queue has patience. */
const TURN_MS = 10_000
const STOPS_MAX = 2
/** The service's most for a page, and 1,000 sessions for an account with as many ended ones again. */
const PAGE = 100
const PAGES_MAX = 1000

/** Which session, and of which interpreter. */
export interface SessionPlace {
  interpreter: string
  session: string
  /** Where this process had it started: when that was answered. */
  startedAtMs?: number
}

export interface Listed extends SessionPlace {
  name: string | undefined
}

export interface CallMore {
  onText?: OnText
  /** The span that the service's own become children of, in its form of the W3C. */
  traceParent?: string | undefined
  /** How long the call may wait for its turn in the account's rate. */
  turnMs?: number
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
          // It may be ending, or starting, just now: asked once more, and what is gone by then is gone.
          if (!isConflict(error) || attempt === STOPS_MAX) throw error
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
      // An iterator that is left keeps its socket busy; an aborted request does not.
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
