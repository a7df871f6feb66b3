/**
 * MCP over stdio as a relay. Each line of stdin is one message, which goes to `POST /mcp` of the API. Each
 * message of the answer becomes one line of stdout. So the tools are defined once, in the API.
 *
 *   request ─► POST ─► answer, or messages of an event stream     the API restarts ─► POST again
 *   `notifications/cancelled` ─► the POST is closed, which cancels what it began
 *   stdin ends ─► every open POST is closed
 */
import { setTimeout as pause } from 'node:timers/promises'
import { errorBodySchema, type ErrorCode } from '@cofferdam/contract'
import { z } from 'zod'
import { jsonOf } from './api-connection.ts'
import { mcpHeaders, messageSchema, repeatable, type Message, type Negotiated } from './mcp-headers.ts'

export interface RelayOptions {
  /** Messages of the client, one a line. */
  input: AsyncIterable<Uint8Array | string>
  /** Writes one message as a line. Nothing else may reach the client. */
  write: (line: string) => void
  /** The endpoint, with its query. */
  url: string
  key: string
  /** Ends the relay like the end of the input. */
  stop: AbortSignal
  /** One line for the user, on stderr. */
  note: (text: string) => void
}

/** The longest line in characters. It fits the largest body that the API accepts, if the text is ASCII. */
const LINE_MAX = 28 * 1024 * 1024

/** The prefix of the lines in an event stream that contain a message. */
const DATA = 'data: '

/** Pauses before a message is sent again. Together, 46 s, they bridge a restart of the API under load. */
const PAUSES_MS = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000]

/** Codes of temporary tool errors, such as those that occur while a restarted API connects to Redis. */
const PASSING: ReadonlySet<string> = new Set<ErrorCode>([
  'busy',
  'queue_unavailable',
  'shutting_down',
  'store_unavailable',
])

/** Answers of a proxy whose API is away, and of an API that shuts down. */
const AWAY: ReadonlySet<number> = new Set([502, 503, 504])

/** Relays until the input ends or `stop` aborts. What is still open then is closed. */
export async function relayMessages(options: RelayOptions): Promise<void> {
  const relay = createRelay(options)
  const ended = new AbortController()
  const stop = AbortSignal.any([options.stop, ended.signal])
  const closing = Promise.withResolvers<undefined>()
  options.stop.addEventListener('abort', () => closing.resolve(undefined), { once: true })
  const read = async (): Promise<void> => {
    for await (const line of linesOf(options.input)) if (line.trim() !== '') relay.take(line, stop)
  }
  try {
    await Promise.race([read(), closing.promise])
  } finally {
    ended.abort()
    await relay.settled()
  }
}

/** Splits the input into lines. Throws for a line longer than LINE_MAX. */
async function* linesOf(
  input: Iterable<string> | AsyncIterable<Uint8Array | string>,
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of input) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    if (rest.length > LINE_MAX) throw new Error('a message is longer than 28 MiB')
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

interface Relay {
  /** Begins to relay one message. */
  take(line: string, stop: AbortSignal): void
  /** Resolves when no request is open any more. */
  settled(): Promise<void>
}

function createRelay({ url, key, write, note }: RelayOptions): Relay {
  /** Open requests by their ID as JSON, because 1 and "1" are two IDs. */
  const open = new Map<string, AbortController>()
  const working = new Set<Promise<void>>()
  const known: Negotiated = { version: null, session: null }

  const fail = (id: string | number | null, code: number, message: string): void =>
    write(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }))

  async function send(message: Message, signal: AbortSignal): Promise<void> {
    const body = JSON.stringify(repeatable(message))
    const headers = { ...mcpHeaders(message, known), authorization: `Bearer ${key}` }
    for (let turn = 0; ; turn += 1) {
      try {
        const response = await fetch(url, { method: 'POST', headers, body, signal })
        const isLast = turn === PAUSES_MS.length
        if (!AWAY.has(response.status) || isLast) return await answer(message, response, isLast)
        await response.body?.cancel()
      } catch (error) {
        if (signal.aborted) return
        if (turn === PAUSES_MS.length) return fail(message.id ?? null, -32_603, unreachable(url, error))
      }
      if (turn === 0) note('The API does not answer. Trying again.')
      await pause(PAUSES_MS[turn], undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
    }
  }

  /** Throws if the answer breaks off, or if it is a temporary error and `isLast` is false. */
  async function answer(message: Message, response: Response, isLast: boolean): Promise<void> {
    if (message.id === undefined) {
      await response.body?.cancel()
      return
    }
    known.session = response.headers.get('mcp-session-id') ?? known.session
    if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
      let isAnswered = false
      // The API writes each message as one line of data.
      for await (const line of linesOf(response.body ?? []))
        if (line.startsWith(DATA)) isAnswered = pass(message, line.slice(DATA.length), isLast) || isAnswered
      if (!isAnswered) throw new Error('the answer broke off')
      return
    }
    const text = await response.text()
    if (!pass(message, text, isLast)) fail(message.id, -32_603, refusalOf(response.status, text))
  }

  /** Writes `text` if it is a message. Returns whether it is the answer to `request`. */
  function pass(request: Message, text: string, isLast: boolean): boolean {
    const message = messageSchema.safeParse(jsonOf(text)).data
    if (message === undefined) return false
    if (!isLast && isPassing(message)) throw new Error('the API is not ready')
    if (request.method === 'initialize') known.version = versionOf(message) ?? known.version
    // The answer gets the ID of the request, because an error that was found before reading the request has
    // none.
    const isAnswer = message.method === undefined
    write(JSON.stringify(isAnswer ? { ...message, id: request.id } : message))
    return isAnswer
  }

  return {
    take(line, stop) {
      const parsed = messageSchema.safeParse(jsonOf(line))
      if (!parsed.success) {
        if (jsonOf(line) === null) return fail(null, -32_700, 'The line is not JSON.')
        return fail(null, -32_600, 'The line is not one JSON-RPC message.')
      }
      const message = parsed.data
      if (message.method === undefined) return
      if (message.method === 'notifications/cancelled') {
        open.get(JSON.stringify(message.params?.['requestId']))?.abort()
        return
      }
      const name = JSON.stringify(message.id)
      const controller = new AbortController()
      if (message.id !== undefined) open.set(name, controller)
      const work = send(message, AbortSignal.any([stop, controller.signal]))
        .catch((error: unknown) => fail(message.id ?? null, -32_603, String(error)))
        .finally(() => {
          if (open.get(name) === controller) open.delete(name)
          working.delete(work)
        })
      working.add(work)
    },
    async settled() {
      await Promise.all(working)
    },
  }
}

const toolErrorSchema = z.looseObject({
  result: z.looseObject({
    isError: z.literal(true),
    _meta: z.looseObject({ 'io.cofferdam/error': z.looseObject({ code: z.string() }) }),
  }),
})

/** Whether `answer` is a temporary tool error of the platform. */
function isPassing(answer: unknown): boolean {
  const code = toolErrorSchema.safeParse(answer).data?.result._meta['io.cofferdam/error'].code
  return code !== undefined && PASSING.has(code)
}

const initializedSchema = z.looseObject({ result: z.looseObject({ protocolVersion: z.string() }) })

/** The version that the answer to `initialize` names. Null for an error. */
const versionOf = (answer: unknown): string | null =>
  initializedSchema.safeParse(answer).data?.result.protocolVersion ?? null

/**
 * The error text for a request that the API refused before it read the message, such as one with an unknown
 * key.
 */
function refusalOf(status: number, text: string): string {
  const refusal = errorBodySchema.safeParse(jsonOf(text)).data?.error
  return refusal === undefined
    ? `The API answered ${status}.`
    : `${refusal.code}: ${refusal.message} ${refusal.hint}`
}

const unreachable = (url: string, error: unknown): string =>
  `The API at ${new URL(url).origin} does not answer (${String(error)}). Start one with \`cofferdam up\`.`
