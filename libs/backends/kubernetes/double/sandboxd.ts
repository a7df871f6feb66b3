/**
 * The double's sandboxd: PUT /v1/files, and Start and WriteStdin of its process service, on two unix sockets.
 * Calls need the bearer token below. `node sandboxd.ts REST GRPC` runs in the jail and imports only Node.js.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2'
import { resolve } from 'node:path'

const ROOT = '/home/user'
const [restSocket, grpcSocket] = process.argv.slice(2)
const NOT_FOUND = '5'
const UNAUTHENTICATED = '16'
/** Not a secret: users of the double write it into `foreign.token_file`. */
const BEARER = 'Bearer cofferdam-double'

createServer((request, response) => {
  const answer = (status: number, content: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(content))
  }
  if (request.headers.authorization !== BEARER) return answer(401, { code: 'UNAUTHENTICATED' })
  const url = new URL(request.url ?? '/', 'http://pod')
  if (url.pathname === '/v1/health') return answer(200, { status: 'ok' })
  const path = resolve(ROOT, `./${decodeURIComponent(url.pathname.replace(/^\/v1\/files/, ''))}`)
  if (request.method !== 'PUT' || !path.startsWith(`${ROOT}/`))
    return answer(403, { code: 'PERMISSION_DENIED' })
  const parts: Buffer[] = []
  request.on('data', (part: Buffer) => parts.push(part))
  request.on('end', () => {
    writeFileSync(`${path}.part`, Buffer.concat(parts))
    renameSync(`${path}.part`, path)
    answer(201, { path })
  })
}).listen(restSocket)

const processes = new Map<number, ChildProcess>()
let last = 0

const grpc = createHttp2Server()
grpc.on('stream', (stream: ServerHttp2Stream, headers) => {
  const parts: Buffer[] = []
  stream.on('error', () => undefined)
  stream.on('data', (part: Buffer) => parts.push(part))
  stream.on('end', () => {
    if (headers.authorization !== BEARER) return respond(stream, UNAUTHENTICATED)
    // One message after an envelope head of five bytes.
    const message = Buffer.concat(parts).subarray(5)
    if (headers[':path'] === '/process.v1.ProcessService/Start') start(stream, message)
    else if (headers[':path'] === '/process.v1.ProcessService/WriteStdin') writeStdin(stream, message)
    else respond(stream, '12')
  })
})
grpc.listen(grpcSocket)

function start(stream: ServerHttp2Stream, message: Buffer): void {
  const config = read(message).get(1)?.[0] as Buffer
  const [command = '', ...args] = (read(config).get(1) as Buffer[]).map(String)
  const id = (last += 1)
  const child = spawn(command, args, { cwd: ROOT, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  processes.set(id, child)
  respond(stream, null)
  send(stream, field(1, Buffer.from([0x08, id])))
  child.stdout.on('data', (bytes: Buffer) => pause(child.stdout, send(stream, field(2, bytes)), stream))
  child.stderr.on('data', (bytes: Buffer) => pause(child.stderr, send(stream, field(3, bytes)), stream))
  child.stdin.on('error', () => undefined)
  child.on('error', () => finish(stream, '13'))
  child.on('close', (code) => {
    processes.delete(id)
    send(stream, field(4, Buffer.from([0x08, Math.max(0, code ?? 137) & 0x7f])))
    finish(stream, '0')
  })
  // A process ends with its stream.
  stream.on('close', () => child.pid !== undefined && child.exitCode === null && endGroup(child.pid))
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The processes have ended already.
  }
}

function pause(
  source: { pause(): unknown; resume(): unknown },
  isTaken: boolean,
  stream: ServerHttp2Stream,
): void {
  if (isTaken) return
  source.pause()
  stream.once('drain', () => source.resume())
}

function writeStdin(stream: ServerHttp2Stream, message: Buffer): void {
  const fields = read(message)
  const child = processes.get(fields.get(1)?.[0] as number)
  if (child === undefined) return respond(stream, NOT_FOUND)
  child.stdin?.write(fields.get(2)?.[0] as Buffer, () => {
    respond(stream, null)
    send(stream, Buffer.alloc(0))
    finish(stream, '0')
  })
}

/** Sends headers. With a status it also ends the stream, without a body. */
function respond(stream: ServerHttp2Stream, status: string | null): void {
  if (stream.destroyed) return
  const head = { ':status': 200, 'content-type': 'application/grpc' }
  if (status === null) stream.respond(head, { waitForTrailers: true })
  else stream.respond({ ...head, 'grpc-status': status }, { endStream: true })
}

function send(stream: ServerHttp2Stream, message: Buffer): boolean {
  if (stream.destroyed || stream.writableEnded) return true
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return stream.write(Buffer.concat([head, message]))
}

function finish(stream: ServerHttp2Stream, status: string): void {
  if (stream.destroyed || stream.writableEnded) return
  stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status }))
  stream.end()
}

/** Encodes a protobuf field that contains bytes. */
function field(number: number, bytes: Buffer): Buffer {
  const length: number[] = []
  let rest = bytes.length
  for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80)
  return Buffer.concat([Buffer.from([number * 8 + 2, ...length, rest]), bytes])
}

/** Decodes a protobuf message: its numbers and bytes, by field number. */
function read(message: Buffer): Map<number, (number | Buffer)[]> {
  const fields = new Map<number, (number | Buffer)[]>()
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = message[at++] ?? 0
      value += (byte & 0x7f) * shift
      if (byte < 0x80) return value
    }
  }
  while (at < message.length) {
    const tag = varint()
    const value = varint()
    const isBytes = tag % 8 === 2
    const content = isBytes ? message.subarray(at, at + value) : value
    if (isBytes) at += value
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), content])
  }
  return fields
}
