/** Plain HTTP through a CONNECT under an allow-list: every request must ask for the CONNECT's host. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { openTunnel, startBridge, startOrigin, startTcpOrigin, until } from './loopback-fleet.ts'

/**
 * Sends `pieces` through a tunnel to a.example. Returns everything that came back, and the requests that
 * reached the origin.
 */
async function through(pieces: (port: number) => string[], network: 'listed' | 'public' = 'listed') {
  await using origin = await startOrigin((request, response) => {
    request.resume().once('end', () => response.end(`for ${request.url}`))
  })
  await using bridge = await startBridge({
    network: network === 'public' ? 'public' : { allow: [`a.example:${origin.port}`] },
    config: { private_allow: ['127.0.0.0/8'], ports: [origin.port] },
  })
  const { socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
  let said = ''
  let isClosed = false
  socket.setNoDelay(true).on('data', (chunk: Buffer) => (said += chunk.toString()))
  socket.once('close', () => (isClosed = true))
  for (const piece of pieces(origin.port)) {
    socket.write(piece)
    await turn()
  }
  await until('the end', () => isClosed)
  return { said, hits: origin.hits, port: origin.port, refusals: bridge.egress.refusals }
}

const get = (path: string, host: string, more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
const LAST = 'Connection: close\r\n'

it("requests for the CONNECT's host pass, one after another and byte by byte", async () => {
  const { said, hits, port, refusals } = await through((at) => [
    ...Array.from(get('/1', `A.example:${at}`)),
    get('/2', 'a.example', LAST),
  ])
  expect(said).toMatch(/for \/1[^]*for \/2/)
  expect(hits).toEqual(['/1', '/2'].map((path) => `GET ${path} host=a.example:${port}`))
  expect(refusals).toEqual([])
})

it.each<[string, (port: number) => string[]]>([
  ['another Host', () => [get('/', 'evil.example', LAST)]],
  ['another port', () => [get('/', 'a.example:1', LAST)]],
  ['no Host', () => [`GET / HTTP/1.0\r\n\r\n`]],
  ['an absolute address', (at) => [get('http://evil.example/', `a.example:${at}`, LAST)]],
  ['a method of its own, after empty lines', () => [`\r\n\r\nbrew / HTTP/1.1\r\nHost: evil.example\r\n\r\n`]],
  ['another Host, byte by byte', () => Array.from(get('/', 'evil.example', LAST))],
  ['HTTP/2 without TLS', () => ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']],
  ['a WebSocket', () => [get('/', 'a.example', 'Connection: Upgrade\r\nUpgrade: websocket\r\n')]],
])('a request with %s is refused, and nothing of it arrives', async (_what, pieces) => {
  const { said, hits } = await through(pieces)
  expect(said).toMatch(/^HTTP\/1.1 4\d\d /)
  expect(hits).toEqual([])
})

it('a later request of the connection is refused if it asks for another host', async () => {
  const body = 'x=1'
  const { hits, port, refusals } = await through((at) => [
    `POST /1 HTTP/1.1\r\nHost: a.example:${at}\r\nContent-Length: ${body.length}\r\n\r\n${body}${get('/2', 'evil.example', LAST)}`,
  ])
  expect(hits).toEqual([`POST /1 host=a.example:${port}`])
  expect(refusals).toMatchObject([
    { rule: 'server_name', reason: 'the HTTP request asks for "evil.example"' },
  ])
})

it('requests for any host pass under public', async () => {
  const { hits } = await through(() => [get('/', 'other.example', LAST)], 'public')
  expect(hits).toEqual(['GET / host=other.example'])
})

it('a request is refused if the server spoke first', async () => {
  let got = ''
  await using origin = await startTcpOrigin((socket) => {
    socket.write('220 ready\r\n')
    socket.on('data', (chunk: Buffer) => (got += chunk.toString()))
  })
  await using bridge = await startBridge({
    network: { allow: [`a.example:${origin.port}`] },
    config: { private_allow: ['127.0.0.0/8'] },
  })
  const { head, socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
  let said = head
  let isClosed = false
  socket.on('data', (chunk: Buffer) => (said += chunk.toString())).once('close', () => (isClosed = true))
  await until('the banner', () => said.endsWith('220 ready\r\n'))
  socket.write('HELO a.example\r\n')
  await until('the greeting', () => got === 'HELO a.example\r\n')
  socket.destroy()
  await until('the end', () => isClosed)

  got = ''
  const second = await openTunnel(bridge.port, `a.example:${origin.port}`)
  let wasCut = false
  second.socket.resume().once('close', () => (wasCut = true))
  await until('the banner', () => second.head.includes('220') || second.socket.bytesRead > second.head.length)
  second.socket.write(get('/', 'evil.example'))
  await until('the cut', () => wasCut)
  expect(got).toBe('')
})

it('an unfinished line passes when its connection ends', async () => {
  let got = ''
  await using origin = await startTcpOrigin((socket) => {
    socket.on('data', (chunk: Buffer) => (got += chunk.toString())).once('end', () => socket.end())
  })
  await using bridge = await startBridge({
    network: { allow: [`a.example:${origin.port}`] },
    config: { private_allow: ['127.0.0.0/8'] },
  })
  const { socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
  socket.resume().end('no line end')
  await until('the line', () => got === 'no line end')
})
