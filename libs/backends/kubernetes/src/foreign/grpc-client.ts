/**
 * The part of gRPC over cleartext HTTP/2 that sandboxd needs (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md). A
 * message is one flag byte, its length as a big-endian u32, and its bytes. The trailers hold the status of
 * the call.
 */
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import { CofferdamError } from '@cofferdam/contract'

/** sandboxd sends at most 4 KiB of output at once; gRPC's own bound is 4 MiB. */
const MESSAGE_MAX = 4 * 1024 * 1024
const HEAD_BYTES = 5

export interface GrpcClient {
  /**
   * Sends one message and returns the answer. Throws `sandbox_lost` if the connection or the process is gone,
   * `protocol_violation` for an invalid answer, and `sandbox_open_failed` for any other status.
   */
  call(method: string, message: Buffer, signal: AbortSignal): Promise<Buffer>
  /** Sends one message and yields each answer. Leaving the iteration ends the call. Throws like `call`. */
  stream(method: string, message: Buffer, signal: AbortSignal): AsyncGenerator<Buffer>
  close(): void
}

/** Connects on first use. Every call sends `token` as bearer token. */
export function connectGrpc(origin: string, token: string | null): GrpcClient {
  let session: ClientHttp2Session | null = null
  const use = (): ClientHttp2Session => {
    if (session === null || session.destroyed || session.closed) {
      session = connect(origin)
      // Each call reports its own failure.
      session.on('error', () => undefined)
    }
    return session
  }

  async function* stream(method: string, message: Buffer, signal: AbortSignal): AsyncGenerator<Buffer> {
    signal.throwIfAborted()
    const request = use().request({
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    })
    const onAbort = (): void => void request.destroy()
    signal.addEventListener('abort', onAbort, { once: true })
    const status = statusOf(request)
    try {
      request.end(enveloped(message))
      yield* messagesOf(request)
      const ended = await status
      if (ended.code !== '0') throw failed(method, ended)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CofferdamError) throw error
      throw new CofferdamError('sandbox_lost', `kubernetes: the connection to sandboxd broke in ${method}.`, {
        cause: error,
      })
    } finally {
      signal.removeEventListener('abort', onAbort)
      request.destroy()
    }
  }

  return {
    stream,
    async call(method, message, signal) {
      const answers: Buffer[] = []
      for await (const answer of stream(method, message, signal)) answers.push(answer)
      if (answers.length !== 1)
        throw new CofferdamError(
          'protocol_violation',
          `kubernetes: ${method} answered ${answers.length} messages.`,
        )
      return answers[0] as Buffer
    },
    close: () => session?.destroy(),
  }
}

interface Status {
  code: string
  message: string
}

/** The status in the trailers, or in the headers if there is no body. Never rejects. */
function statusOf(request: ClientHttp2Stream): Promise<Status> {
  const { promise, resolve } = Promise.withResolvers<Status>()
  const read = (headers: Record<string, unknown>): void => {
    const { ':status': http, 'grpc-status': code, 'grpc-message': said } = headers
    if (typeof code === 'string') resolve({ code, message: typeof said === 'string' ? said : '' })
    else if (typeof http === 'number' && http !== 200) resolve({ code: 'none', message: `HTTP ${http}` })
  }
  request.on('response', read)
  request.on('trailers', read)
  request.once('close', () => resolve({ code: 'none', message: 'the stream was cut off' }))
  return promise
}

function failed(method: string, { code, message }: Status): CofferdamError {
  // Status 5 NOT_FOUND for a process that ended, 14 UNAVAILABLE, and a stream without a status.
  const isGone = code === '5' || code === '14' || message === 'the stream was cut off'
  return new CofferdamError(
    isGone ? 'sandbox_lost' : 'sandbox_open_failed',
    `kubernetes: sandboxd ended ${method} with status ${code}.`,
    { details: { said: message.slice(0, 300) } },
  )
}

function enveloped(message: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

async function* messagesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of chunks) {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    while (held.length >= HEAD_BYTES) {
      const length = held.readUInt32BE(1)
      if (held[0] !== 0 || length > MESSAGE_MAX)
        throw new CofferdamError(
          'protocol_violation',
          `kubernetes: sandboxd sent a message of ${length} bytes.`,
        )
      if (held.length < HEAD_BYTES + length) break
      yield held.subarray(HEAD_BYTES, HEAD_BYTES + length)
      held = held.subarray(HEAD_BYTES + length)
    }
  }
}
