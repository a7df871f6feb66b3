/** The worker's connection to an origin, as a byte stream that counts, stops at the execution's bound, and ends when idle. */
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Ledger } from './ledger.ts'
import { Refused } from './refusal.ts'

/** Takes over `socket`. Every byte in either direction is counted before it passes; errors are `Refused`. */
export function meteredStream(socket: Socket, target: string, ledger: Ledger, idleMs: number): Duplex {
  const spent = (): Refused => new Refused(target, 'byte_limit', 'the execution has spent its bytes')
  const stream = new Duplex({
    allowHalfOpen: true,
    read: () => socket.resume(),
    write(chunk: Buffer, _encoding, done) {
      idle.refresh()
      if (ledger.passes('sent', chunk.length)) socket.write(chunk, done)
      else done(spent())
    },
    final: (done) => socket.end(done),
    destroy(error, done) {
      clearTimeout(idle)
      socket.destroy()
      done(error)
    },
  })
  // Whoever uses the stream listens while it does; afterwards an error must still not end the worker.
  stream.on('error', () => undefined)
  const idle = setTimeout(() => {
    stream.destroy(new Refused(target, 'timeout', `nothing moved for ${idleMs} ms`))
  }, idleMs)
  socket.on('data', (chunk: Buffer) => {
    idle.refresh()
    if (!ledger.passes('received', chunk.length)) stream.destroy(spent())
    else if (!stream.push(chunk)) socket.pause()
  })
  socket.once('end', () => stream.push(null))
  socket.once('error', (cause) => {
    stream.destroy(new Refused(target, 'unreachable', 'the connection broke', cause))
  })
  socket.once('close', () => stream.destroy())
  return stream
}
