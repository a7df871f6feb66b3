/**
 * The first words on a connection to a pod, before its agent's frames (libs/sandbox/agent: pod.py,
 * reattach.py).
 *
 *   fresh   {pod, options}                 ─▶  {pod}                     nobody was here before
 *           {pod, options, fence} + key    ─▶  {pod, keeps}              and it will wait for others with this key
 *   again   {pod, fence, nonce} ─▶ {nonce, proof} ─▶ {proof} ─▶ {pod}    each shows the other that it has the key
 *
 * Another pod may have the address by now. So the worker's first message names the Sandbox, and the pod
 * checks the name.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { ClaimedPod } from './claim-state.ts'

const ANSWER_MAX = 4096

/** What the next worker of a session needs to connect to its pod. */
export interface SessionHold {
  /** 32 bytes. */
  key: Buffer
  /** The fence of the lease that holds the session. */
  fence: number
}

/** The greeting failed: another process answered, or the pod refused or closed the connection. */
export class NotTakenIn extends CofferdamError {
  constructor(message: string) {
    super('sandbox_open_failed', message)
  }
}

const refusalSchema = z.object({ error: z.string().max(300) })
const freshSchema = z.object({ pod: z.string(), keeps: z.literal(true).optional() })
const challengeSchema = z.object({ nonce: z.string().max(200), proof: z.string().regex(/^[0-9a-f]{64}$/) })
const takenSchema = z.object({ pod: z.string() })

/** Greets a pod that no worker has used yet. Throws `sandbox_open_failed`. */
export async function greetFresh(
  socket: Socket,
  pod: ClaimedPod,
  options: readonly string[],
  hold: SessionHold | null,
  signal: AbortSignal,
): Promise<void> {
  const fence = hold === null ? {} : { fence: hold.fence }
  say(socket, { pod: pod.name, options, ...fence }, hold?.key)
  const answer = await heard(socket, pod, freshSchema, signal)
  if (answer.pod !== pod.name) throw another(pod)
  if (hold !== null && answer.keeps !== true)
    throw new CofferdamError(
      'sandbox_open_failed',
      'kubernetes: the image is older than session_secret_file; build and push it again.',
    )
}

/** Greets a pod that waits for its session's next worker. Throws `sandbox_open_failed` if it refuses. */
export async function greetAgain(
  socket: Socket,
  pod: ClaimedPod,
  { key, fence }: SessionHold,
  signal: AbortSignal,
): Promise<void> {
  const ours = randomBytes(16).toString('hex')
  say(socket, { pod: pod.name, fence, nonce: ours })
  const { nonce, proof } = await heard(socket, pod, challengeSchema, signal)
  const proofOf = (side: 'pod' | 'worker'): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([side, pod.name, fence, ours, nonce]))
      .digest()
  if (!timingSafeEqual(Buffer.from(proof, 'hex'), proofOf('pod'))) throw another(pod)
  say(socket, { proof: proofOf('worker').toString('hex') })
  if ((await heard(socket, pod, takenSchema, signal)).pod !== pod.name) throw another(pod)
}

function say(socket: Socket, words: object, more: Buffer = Buffer.alloc(0)): void {
  socket.write(Buffer.concat([Buffer.from(`${JSON.stringify(words)}\n`), more]))
}

async function heard<Schema extends z.ZodType>(
  socket: Socket,
  pod: ClaimedPod,
  schema: Schema,
  signal: AbortSignal,
): Promise<z.output<Schema>> {
  let line = Buffer.alloc(0)
  while (!line.includes(0x0a)) {
    const chunk = await nextByte(socket, signal)
    if (chunk === null || line.length > ANSWER_MAX)
      throw new NotTakenIn(`kubernetes: ${pod.name} closed the connection.`)
    line = Buffer.concat([line, chunk])
  }
  const said = parsedJson(line)
  const refused = refusalSchema.safeParse(said)
  if (refused.success) throw new NotTakenIn(`kubernetes: ${pod.name} refuses: ${refused.data.error}.`)
  const answer = schema.safeParse(said)
  if (!answer.success) throw another(pod)
  return answer.data
}

function parsedJson(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString('utf8'))
  } catch {
    return null
  }
}

const another = ({ ip, name }: ClaimedPod): NotTakenIn =>
  new NotTakenIn(`kubernetes: what answers at ${ip} is not ${name}.`)

/** Reads one byte at a time: bytes after the line belong to the agent. Null at the end. */
async function nextByte(socket: Socket, signal: AbortSignal): Promise<Buffer | null> {
  for (;;) {
    const byte = socket.read(1) as Buffer | null
    if (byte !== null) return byte
    if (socket.readableEnded || socket.destroyed) return null
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const done = (): void => resolve(undefined)
    const events = ['readable', 'end', 'close', 'error'] as const
    for (const event of events) socket.once(event, done)
    signal.addEventListener('abort', done, { once: true })
    await promise
    for (const event of events) socket.off(event, done)
    signal.removeEventListener('abort', done)
  }
}
