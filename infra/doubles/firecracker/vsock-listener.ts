/**
 * The host’s side of Firecracker’s vsock (docs/vsock.md; src/vmm/src/devices/virtio/vsock/unix/muxer.rs).
 * Like the VMM, it reads a connection’s first bytes once. If they are not a whole line, or if nobody listens
 * on the wanted port, it closes the connection without an answer.
 */
import { createServer, type Server, type Socket } from 'node:net'
import type { Guest } from './guest.ts'
import type { VsockFault } from './faults.ts'
import { SOCKET_PATH_BYTES, VSOCK_CONNECTIONS } from './rules.ts'

/** muxer.rs, read_local_stream_port: at most 32 bytes, at least those of "connect 0\n". */
const LINE_BYTES = 32
const LEAST_BYTES = 10
/** muxer.rs, local_port_last: the host’s ports count up, starting with the one after this. */
const FIRST_PORT = 2 ** 30

export interface VsockListener {
  close(): void
}

/** Listens on the path, or returns why it cannot, as Firecracker says it. */
export async function listenVsock(
  path: string,
  guest: Guest,
  fault: VsockFault | null,
): Promise<VsockListener | string> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES) return 'path must be shorter than SUN_LEN'
  const sockets = new Set<Socket>()
  let port = FIRST_PORT
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {})
    if (sockets.size >= VSOCK_CONNECTIONS) return void socket.destroy()
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    if (fault === 'silent') return void socket.resume()
    socket.once('data', (first: Buffer) => void serve(socket, first))
    socket.resume()
  })

  async function serve(socket: Socket, first: Buffer): Promise<void> {
    socket.pause()
    if (fault !== null) return misbehave(socket, fault)
    const wanted = portOf(first)
    const stream = wanted === null ? null : await guest.connect(wanted.port)
    if (wanted === null || stream === null) return void socket.destroy()
    port += 1
    socket.write(`OK ${port}\n`)
    if (wanted.rest.length > 0) stream.writable.write(wanted.rest)
    socket.pipe(stream.writable)
    stream.readable.pipe(socket)
    stream.readable.once('close', () => socket.destroy())
    socket.once('close', () => stream.close())
    if (socket.destroyed) stream.close()
  }

  const problem = await bound(server, path)
  if (problem !== null) return problem
  return {
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

function portOf(first: Buffer): { port: number; rest: Buffer } | null {
  if (first.length < LEAST_BYTES) return null
  const end = first.subarray(0, LINE_BYTES).indexOf(0x0a)
  const words = first.subarray(0, end).toString('latin1').split(/\s+/)
  if (end < 0 || words[0]?.toLowerCase() !== 'connect' || !/^\d{1,10}$/.test(words[1] ?? '')) return null
  return { port: Number(words[1]), rest: first.subarray(end + 1) }
}

function misbehave(socket: Socket, fault: VsockFault): void {
  switch (fault) {
    case 'close':
      return void socket.destroy()
    case 'half':
      return void socket.end('OK 10737')
    case 'junk':
      return void socket.write('HTTP/1.1 200 OK\r\n\r\n')
    case 'long':
      return void socket.write('O'.repeat(4096))
    case 'silent':
      return
  }
}

const bound = (server: Server, path: string): Promise<string | null> =>
  new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'EADDRINUSE' ? 'Address in use (os error 98)' : String(error.code)),
    )
    server.listen(path, () => resolve(null))
  })
