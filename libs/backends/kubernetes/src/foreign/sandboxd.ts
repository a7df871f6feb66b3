/**
 * sandboxd, the runtime daemon of Agent Sandbox (KEP 539.2). Our agent is uploaded by its REST API and
 * started by its gRPC process service. The agent's stdin and stdout are the channel. The process ends with
 * its stream.
 */
import { Readable, type Writable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { guestBundle, unpackArgv } from '@cofferdam/sandbox/guest'
import { writableOf, type Channel } from '@cofferdam/backend-remote'
import { connectGrpc, type GrpcClient } from './grpc-client.ts'
import { fieldsOf, lengthField, varintField } from './protobuf-fields.ts'

const REST_PORT = 8080
const GRPC_PORT = 9090
const SERVICE = '/process.v1.ProcessService'
/** Below the 4 MiB that a gRPC server takes by default. */
const INPUT_MAX = 1024 * 1024
/** The end of the agent's stderr, for error messages. */
const STDERR_MAX = 4096
/** The bundle of the agent's files, below sandboxd's root, which also holds the workload's files. */
const BUNDLE = '.cofferdam-agent.json'

export interface ForeignPod {
  /** Its host name. */
  name: string
  ip: string
}

export interface SandboxdSettings {
  /** Where sandboxd keeps files (`--root-dir`). */
  root: string
  /** The folder for the agent. Programs can write it. */
  folder: string
  python: string
  token: string | null
}

/** Uploads the agent and starts it with `args`. Throws gRPC's errors. The caller then deletes the pod. */
export async function startBySandboxd(
  pod: ForeignPod,
  args: readonly string[],
  settings: SandboxdSettings,
  signal: AbortSignal,
): Promise<Channel> {
  const { root, folder, python, token } = settings
  const response = await fetch(`http://${hostOf(pod.ip)}:${REST_PORT}/v1/files/${BUNDLE}`, {
    method: 'PUT',
    headers: {
      'content-type': 'application/octet-stream',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
    body: new Uint8Array(guestBundle()),
    redirect: 'error',
    signal,
  })
  await response.body?.cancel()
  if (!response.ok)
    throw new CofferdamError(
      'sandbox_open_failed',
      `kubernetes: sandboxd answered a file with ${response.status}.`,
    )
  const grpc = connectGrpc(`http://${hostOf(pod.ip)}:${GRPC_PORT}`, token)
  const command = unpackArgv(python, { bundle: `${root}/${BUNDLE}`, folder, host: pod.name }, 'exec', args)
  try {
    return await openChannel(grpc, command, signal)
  } catch (error) {
    grpc.close()
    throw error
  }
}

/** An IPv6 address stands in brackets in a URL. */
export const hostOf = (ip: string): string => (ip.includes(':') ? `[${ip}]` : ip)

/** Field numbers: packages/sandboxd/spec/process/v1/process.proto of kubernetes-sigs/agent-sandbox. */
const START = {
  config: 1,
  command: 1,
  init: 1,
  processId: 1,
  stdout: 2,
  stderr: 3,
  exit: 4,
} as const
const WRITE = { processId: 1, input: 2 } as const

async function openChannel(
  grpc: GrpcClient,
  command: readonly string[],
  signal: AbortSignal,
): Promise<Channel> {
  const stop = new AbortController()
  const onAbort = (): void => stop.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  let stderr = ''
  const config = Buffer.concat(command.map((part) => lengthField(START.command, part)))
  const events = grpc.stream(`${SERVICE}/Start`, lengthField(START.config, config), stop.signal)
  try {
    const processId = await firstId(events)
    signal.throwIfAborted()

    async function* stdout(): AsyncGenerator<Buffer> {
      for await (const event of events)
        for (const { number, value } of fieldsOf(event)) {
          if (typeof value === 'number') continue
          if (number === START.stdout) yield value
          if (number === START.stderr) stderr = (stderr + value.toString('utf8')).slice(-STDERR_MAX)
          if (number === START.exit) return
        }
    }

    const readable = Readable.from(stdout(), { objectMode: false })
    readable.once('close', () => {
      stop.abort()
      grpc.close()
    })
    // Nobody listens after the session was closed, and an unhandled error event would end the worker.
    readable.on('error', () => {})
    const writable = stdinOf(grpc, processId, stop.signal)
    // End the output too, because the agent is useless without input. The reader then reports the error.
    writable.on('error', (error) => readable.destroy(error))
    return { readable, writable, stderrTail: () => stderr }
  } catch (error) {
    stop.abort()
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** sandboxd names the process before the first byte of output. */
async function firstId(events: AsyncGenerator<Buffer>): Promise<number> {
  const { value: event, done } = await events.next()
  for (const { number, value } of done === true ? [] : fieldsOf(event))
    if (number === START.init && typeof value !== 'number')
      for (const field of fieldsOf(value))
        if (field.number === START.processId && typeof field.value === 'number') return field.value
  throw new CofferdamError('protocol_violation', 'kubernetes: sandboxd started a process without an id.')
}

function stdinOf(grpc: GrpcClient, processId: number, signal: AbortSignal): Writable {
  const send = async (bytes: Buffer): Promise<void> => {
    for (let at = 0; at < bytes.length; at += INPUT_MAX)
      await grpc.call(
        `${SERVICE}/WriteStdin`,
        Buffer.concat([
          varintField(WRITE.processId, processId),
          lengthField(WRITE.input, bytes.subarray(at, at + INPUT_MAX)),
        ]),
        signal,
      )
  }
  return writableOf(send)
}
