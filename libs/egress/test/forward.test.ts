import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import {
  getRaw,
  openTunnel,
  sendRaw,
  startBridge,
  startOrigin,
  startTcpOrigin,
  until,
} from './loopback-fleet.ts'

const reachable = (port: number): { private_allow: string[]; ports: number[] } => ({
  private_allow: [`127.0.0.0/8:${port}`],
  ports: [80, 443, port],
})

describe('plain HTTP through the proxy', () => {
  it('passes request and answer, and records host and bytes', async () => {
    await using origin = await startOrigin((request, response) => {
      request.pipe(response.writeHead(201, { 'x-kept': 'yes' }))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await sendRaw(
      bridge.port,
      `POST http://api.example:${origin.port}/a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 201 Created\r\n/)
    expect(answer).toContain('x-kept: yes')
    expect(answer).toContain('hello')
    expect(bridge.egress.hosts).toEqual([`api.example:${origin.port}`])
    expect(bridge.egress.bytes.sent).toBeGreaterThan(5)
    expect(bridge.egress.bytes.received).toBeGreaterThan(5)
  })

  it('gets a new Host from the judged target, without hop-by-hop headers', async () => {
    let seen: Record<string, unknown> = {}
    await using origin = await startOrigin((request, response) => {
      seen = request.headers
      response.end('ok')
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    await getRaw(
      bridge.port,
      `http://good.example:${origin.port}/`,
      'Host: evil.example\r\nProxy-Authorization: Basic abc\r\nX-Secret-Hop: 1\r\nConnection: x-secret-hop\r\nUpgrade: h2c\r\nX-Kept: 1\r\n',
    )
    expect(seen).toEqual({ host: `good.example:${origin.port}`, 'x-kept': '1', connection: 'close' })
  })

  it('can use one connection for several requests, each of which is judged', async () => {
    await using origin = await startOrigin((_request, response) => response.end('ok'))
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await sendRaw(
      bridge.port,
      `GET http://a.example:${origin.port}/1 HTTP/1.1\r\nHost: a\r\n\r\n` +
        `GET http://a.example:9/2 HTTP/1.1\r\nHost: a\r\n\r\n`,
    )
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 403'])
    expect(origin.hits).toHaveLength(1)
  })

  it('passes a redirect back, and judges the request that follows it', async () => {
    await using origin = await startOrigin((_request, response) => {
      response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end()
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const first = await getRaw(bridge.port, `http://a.example:${origin.port}/`)
    const location = /location: (.*)\r/.exec(first)?.[1] ?? ''
    expect(location).toBe('http://169.254.169.254/latest/meta-data/')
    const second = await getRaw(bridge.port, location)
    expect(second).toMatch(/^HTTP\/1\.1 403/)
    expect(second).toContain('Cofferdam refused 169.254.169.254:80: it is a link-local address.')
  })

  it.each([
    ['both lengths', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'],
    ['two different lengths', 'Content-Length: 5\r\nContent-Length: 6\r\n'],
    ['an obfuscated encoding', 'Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n'],
    ['a bare line feed in a header', 'X-A: b\nContent-Length: 4\r\n'],
  ])('is answered 400 for a request with %s, without a request to the origin', async (_what, headers) => {
    await using origin = await startOrigin((_request, response) => response.end('ok'))
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await sendRaw(
      bridge.port,
      `POST http://a.example:${origin.port}/ HTTP/1.1\r\nHost: a\r\n${headers}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 400/)
    expect(origin.hits).toEqual([])
  })

  it('is refused for websockets, with what to do instead', async () => {
    await using bridge = await startBridge()
    const answer = await sendRaw(
      bridge.port,
      'GET http://a.example/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 400/)
    expect(answer).toContain('upgraded connections pass by CONNECT only')
  })

  it.each([
    [
      'switches protocols unasked',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nzzz',
      502,
    ],
    [
      'sends both lengths',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      502,
    ],
    ['sends too large a head', `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(40_000)}\r\n\r\n`, 502],
    ['says nothing', '', 502],
    [
      'sends many interim answers',
      `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(50)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`,
      200,
    ],
    ['sends odd letters', 'HTTP/1.1 200 \u00e4\u00f6\r\nX-A: \u00e4\u00f6\r\nContent-Length: 0\r\n\r\n', 200],
    [
      'sends a second answer',
      'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX-Second: 1\r\n\r\n',
      200,
    ],
  ])('gives a well-formed answer when the origin %s', async (_what, bytes, status) => {
    await using origin = await startTcpOrigin((socket) => {
      socket.once('data', () => socket.end(Buffer.from(bytes, 'latin1')))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await getRaw(bridge.port, `http://a.example:${origin.port}/`)
    expect(answer.slice(0, 12)).toBe(`HTTP/1.1 ${status}`)
    expect(answer).not.toContain('X-Second')
  })

  it('ends the connection when the origin sends less than it announced', async () => {
    await using origin = await startTcpOrigin((socket) => {
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await sendRaw(
      bridge.port,
      `GET http://a.example:${origin.port}/ HTTP/1.1\r\nHost: a\r\n\r\n`,
    )
    expect(answer).toContain('short')
  })

  it('is answered 502 when the origin does not speak HTTP', async () => {
    await using origin = await startTcpOrigin((socket) => socket.end('SSH-2.0-x\r\n'))
    await using bridge = await startBridge({ config: reachable(origin.port) })
    expect(await getRaw(bridge.port, `http://a.example:${origin.port}/`)).toMatch(/^HTTP\/1\.1 502/)
  })

  it.each(['the program goes away', 'the execution ends'])('leaves no connection when %s', async (how) => {
    const closed: string[] = []
    await using origin = await startOrigin((request, response) => {
      response.write('x')
      request.socket.once('close', () => closed.push('origin'))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const program = connect({ port: bridge.port, host: '127.0.0.1' })
    program.resume().on('error', () => undefined)
    program.once('close', () => closed.push('program'))
    program.write(`GET http://a.example:${origin.port}/ HTTP/1.1\r\nHost: a\r\n\r\n`)
    await until('the request', () => origin.hits.length === 1)
    if (how === 'the program goes away') program.destroy()
    else await bridge.egress.close()
    await until('both ends to close', () => closed.length === 2)
  })
})

describe('CONNECT', () => {
  it('passes bytes in both directions, and half-closes each separately', async () => {
    await using origin = await startTcpOrigin((socket) => {
      let got = ''
      socket.on('data', (chunk: Buffer) => (got += chunk.toString()))
      socket.on('end', () => socket.end(`got ${got}`))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await tunnelExchange(bridge.port, `db.example:${origin.port}`, 'abc')
    expect(answer).toBe('got abc')
    expect(bridge.egress.hosts).toEqual([`db.example:${origin.port}`])
    expect(bridge.egress.bytes).toEqual({ received: 7, sent: 3 })
  })

  it('is refused with a body that names target, rule and remedy', async () => {
    await using bridge = await startBridge({ network: { allow: ['a.example'] } })
    const { head, socket } = await openTunnel(bridge.port, 'b.example:443')
    socket.destroy()
    expect(head).toMatch(/^HTTP\/1\.1 403 Forbidden/)
    expect(head).toContain('x-cofferdam-refused: network')
    expect(head).toContain(
      'Cofferdam refused b.example:443: the host is not on the allow-list of this execution. Ask for it in',
    )
    expect(bridge.egress.refusals).toEqual([
      {
        target: 'b.example:443',
        rule: 'network',
        reason: 'the host is not on the allow-list of this execution',
      },
    ])
  })

  it('keeps bytes that came with the CONNECT', async () => {
    await using origin = await startTcpOrigin((socket) => {
      socket.once('data', (chunk: Buffer) => socket.end(`got ${chunk.toString()}`))
    })
    await using bridge = await startBridge({ config: reachable(origin.port) })
    const answer = await sendRaw(
      bridge.port,
      `CONNECT a.example:${origin.port} HTTP/1.1\r\nHost: a\r\n\r\nearly`,
    )
    expect(answer).toBe('HTTP/1.1 200 Connection Established\r\n\r\ngot early')
  })
})

async function tunnelExchange(port: number, target: string, text: string): Promise<string> {
  const { head, socket } = await openTunnel(port, target)
  expect(head).toBe('HTTP/1.1 200 Connection Established\r\n\r\n')
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.end(text)
  await new Promise((done) => socket.once('end', done))
  return Buffer.concat(chunks).toString()
}
