/**
 * The host’s side of guest/serial_bridge.py, which documents the frames. It carries connections to one port
 * of the guest’s vsock, one at a time, over a virtio-serial port that stays open.
 *
 *   booting ─ R → idle ─ O → opening ─ A → open ─ C → closing ─ C → idle
 *                               └─ N → idle
 */
import { Duplex } from 'node:stream'
import type { GuestStream } from './guest.ts'

const HEAD_BYTES = 5
const FRAME_BYTES = 65_536

export interface SerialVsock {
  /**
   * Null if nobody listens there, if the bridge has not said that it is ready, or if another connection is
   * open or opening.
   */
  connect(): Promise<GuestStream | null>
  /** Closes the open connection, because a machine must be saved without one. */
  settle(): Promise<void>
}

export function carryVsock(line: Duplex, { isReady }: { isReady: boolean }): SerialVsock {
  let state: 'booting' | 'idle' | 'opening' | 'open' | 'closing' = isReady ? 'idle' : 'booting'
  let opened = Promise.withResolvers<Duplex | null>()
  let closed = Promise.withResolvers<void>()
  let stream: Duplex | null = null

  function send(kind: string, data: Buffer = Buffer.alloc(0), sent?: (error?: Error | null) => void): void {
    const head = Buffer.alloc(HEAD_BYTES)
    head.write(kind, 'latin1')
    head.writeUInt32BE(data.length, 1)
    line.write(Buffer.concat([head, data]), sent)
  }

  function close(): void {
    if (state !== 'open') return
    state = 'closing'
    closed = Promise.withResolvers()
    // Reads and drops what is still in flight. Otherwise the guest could not write its last frame.
    line.resume()
    send('C')
  }

  const streamOfGuest = (): Duplex =>
    new Duplex({
      read: () => void line.resume(),
      write(data: Buffer, _encoding, done) {
        for (let at = 0; at + FRAME_BYTES < data.length; at += FRAME_BYTES)
          send('D', data.subarray(at, at + FRAME_BYTES))
        const rest = data.length % FRAME_BYTES || Math.min(data.length, FRAME_BYTES)
        send('D', data.subarray(data.length - rest), done)
      },
      final(done) {
        if (state === 'open') send('E')
        done()
      },
      destroy(error, done) {
        close()
        done(error)
      },
    })

  function hear(kind: string, data: Buffer): void {
    if (kind === 'R') state = 'idle'
    if (kind === 'N') {
      state = 'idle'
      opened.resolve(null)
    }
    if (kind === 'A') {
      state = 'open'
      stream = streamOfGuest()
      opened.resolve(stream)
    }
    if (kind === 'D' && state === 'open' && stream?.push(data) === false) line.pause()
    if (kind === 'E' && state === 'open') stream?.push(null)
    if (kind === 'C') {
      state = 'idle'
      closed.resolve()
    }
  }

  let got = Buffer.alloc(0)
  line.on('data', (chunk: Buffer) => {
    got = Buffer.concat([got, chunk])
    while (got.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + got.readUInt32BE(1)
      if (got.length < end) return
      const frame = got.subarray(0, end)
      got = got.subarray(end)
      hear(frame.toString('latin1', 0, 1), frame.subarray(HEAD_BYTES))
    }
  })
  line.on('error', () => {})
  line.once('close', () => {
    opened.resolve(null)
    closed.resolve()
    stream?.destroy()
  })

  return {
    async connect() {
      if (state === 'closing') await closed.promise
      if (state !== 'idle') return null
      state = 'opening'
      opened = Promise.withResolvers()
      send('O')
      const connection = await opened.promise
      if (connection === null) return null
      return { readable: connection, writable: connection, close: () => void connection.destroy() }
    },
    async settle() {
      if (state === 'opening') await opened.promise
      stream?.destroy()
      if (state === 'closing') await closed.promise
    },
  }
}
