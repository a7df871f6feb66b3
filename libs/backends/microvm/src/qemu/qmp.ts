/** QEMU's machine protocol over the socket that it inherited. Answers come in the order of the commands. */
import type { Duplex } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

/** Longest line, in characters: a guest that took over QEMU may send anything. */
const LINE_MAX = 1 << 20
/** Longest wait for an answer, which takes milliseconds on an idle host. As long as a boot may take. */
const ANSWER_MS = 300_000

const answerSchema = z.union([
  z.object({ return: z.unknown() }),
  z.object({ error: z.object({ class: z.string(), desc: z.string() }) }),
])

export interface Qmp {
  /** Sends a command at once. Rejects with QEMU's description, or when the connection ends. */
  command(name: string, parameters?: object): Promise<unknown>
  close(): void
}

export function createQmp(socket: Duplex): Qmp {
  const waiting: PromiseWithResolvers<unknown>[] = []
  let text = ''
  let over: CofferdamError | null = null

  function end(why: string): void {
    if (over !== null) return
    over = new CofferdamError('sandbox_open_failed', `qemu: ${why}`)
    for (const one of waiting.splice(0)) one.reject(over)
    socket.destroy()
  }

  function hear(line: string): void {
    let said: unknown
    try {
      said = JSON.parse(line)
    } catch {
      return end('it sent no JSON')
    }
    const answer = answerSchema.safeParse(said)
    // Ignore the greeting and events.
    if (!answer.success) return
    const asked = waiting.shift()
    if (asked === undefined) return end('it answered without a question')
    if ('error' in answer.data)
      asked.reject(new CofferdamError('sandbox_open_failed', `qemu: ${answer.data.error.desc}`))
    else asked.resolve(answer.data.return)
  }

  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8')
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    if (text.length > LINE_MAX) return end('it sent too long a line')
    for (const line of lines) if (line.trim() !== '') hear(line)
  })
  socket.on('error', () => end('its connection broke'))
  socket.on('close', () => end('it ended'))

  return {
    command(name, parameters) {
      const asked = Promise.withResolvers<unknown>()
      // A caller that sends several commands may look at the first failure only. The others must not be
      // unhandled.
      asked.promise.catch(() => {})
      if (over !== null) asked.reject(over)
      else {
        const late = setTimeout(() => end('it does not answer'), ANSWER_MS)
        void asked.promise.catch(() => {}).finally(() => clearTimeout(late))
        waiting.push(asked)
        const words = parameters === undefined ? {} : { arguments: parameters }
        socket.write(`${JSON.stringify({ execute: name, ...words })}\n`)
      }
      return asked.promise
    },
    close: () => end('its connection was closed'),
  }
}
