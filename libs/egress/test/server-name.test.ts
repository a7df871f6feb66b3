import { connect as connectTls } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { openTunnel, startBridge, startTcpOrigin, until, type BridgeOptions } from './loopback-fleet.ts'

/**
 * Returns Node's ClientHello for `servername` as it arrives at an origin, and the refusals. The ClientHello
 * is empty if the proxy refused it.
 */
async function handshakeThrough(
  options: BridgeOptions,
  connectHost: string,
  servername: string,
): Promise<{ arrived: Buffer; refusals: readonly { rule: string; reason: string }[] }> {
  let arrived = Buffer.alloc(0)
  let ended = false
  await using origin = await startTcpOrigin((socket) =>
    socket.on('data', (chunk: Buffer) => (arrived = Buffer.concat([arrived, chunk]))),
  )
  await using bridge = await startBridge({
    ...options,
    network: options.network ?? { allow: [`${connectHost}:${origin.port}`] },
    config: { private_allow: ['127.0.0.0/8'], ports: [origin.port] },
  })
  const { socket } = await openTunnel(bridge.port, `${connectHost}:${origin.port}`)
  const tls = connectTls({ socket, servername, rejectUnauthorized: false })
  tls.on('error', () => undefined).once('close', () => (ended = true))
  // A TLS record may arrive in several pieces. Its 5-byte header has the length of the rest.
  const isWhole = (): boolean => arrived.length >= 5 && arrived.length >= 5 + arrived.readUInt16BE(3)
  await until('the handshake to pass or end', () => ended || isWhole())
  tls.destroy()
  return { arrived, refusals: bridge.egress.refusals }
}

describe('the server name of a TLS handshake through CONNECT', () => {
  it("passes unchanged when it is the CONNECT's host, in upper or lower case", async () => {
    const { arrived, refusals } = await handshakeThrough({}, 'a.example', 'A.example')
    expect(arrived[0]).toBe(22)
    expect(arrived.toString('latin1')).toContain('A.example')
    expect(refusals).toEqual([])
  })

  it('is refused under an allow-list when it is another one, and no byte of it arrives', async () => {
    const { arrived, refusals } = await handshakeThrough({}, 'a.example', 'evil.example')
    expect(arrived).toHaveLength(0)
    expect(refusals).toMatchObject([
      { rule: 'server_name', reason: 'the TLS handshake asks for "evil.example"' },
    ])
  })

  it('is required under an allow-list, except for an address', async () => {
    const { arrived, refusals } = await handshakeThrough({}, 'a.example', '')
    expect(arrived).toHaveLength(0)
    expect(refusals).toMatchObject([{ rule: 'server_name', reason: 'the TLS handshake names no server' }])
    expect((await handshakeThrough({}, '127.0.0.1', '')).refusals).toEqual([])
  })

  it('may be anything under public', async () => {
    expect((await handshakeThrough({ network: 'public' }, 'a.example', '')).refusals).toEqual([])
    expect((await handshakeThrough({ network: 'public' }, 'a.example', 'other.example')).refusals).toEqual([])
  })

  it('is found in a hello that comes byte by byte and in several records', async () => {
    const { arrived } = await handshakeThrough({}, 'a.example', 'a.example')
    const message = arrived.subarray(5)
    const record = (part: Buffer): Buffer => Buffer.concat([Buffer.from([22, 3, 1, 0, part.length]), part])
    const split = Buffer.concat([
      record(message.subarray(0, 60)),
      record(message.subarray(60, 200)),
      ...Array.from({ length: Math.ceil((message.length - 200) / 250) }, (_, at) =>
        record(message.subarray(200 + at * 250, 450 + at * 250)),
      ),
    ])
    for (const [host, expected] of [
      ['a.example', split.length],
      ['b.example', 0],
    ] as const) {
      let got = 0
      await using origin = await startTcpOrigin((socket) =>
        socket.on('data', (chunk: Buffer) => (got += chunk.length)),
      )
      await using bridge = await startBridge({
        network: { allow: [`${host}:${origin.port}`] },
        config: { private_allow: ['127.0.0.0/8'] },
      })
      const { socket } = await openTunnel(bridge.port, `${host}:${origin.port}`)
      let closed = false
      socket.setNoDelay(true).once('close', () => (closed = true))
      for (const byte of split) socket.write(Buffer.from([byte]))
      await until('all of it, or the end', () => closed || got === split.length)
      expect(got).toBe(expected)
      socket.destroy()
    }
  })

  it.each([
    [
      'a hello that never ends',
      Buffer.concat([Buffer.from([22, 3, 1, 64, 0, 1, 0, 64, 0]), Buffer.alloc(20_000)]),
    ],
    ['an alert inside of it', Buffer.from([22, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2, 1, 0])],
    ['another handshake message', Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0])],
    ['lengths that lie', Buffer.from([22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 255, 255])],
  ])('is refused with %s', async (_what, bytes) => {
    let got = 0
    await using origin = await startTcpOrigin((socket) =>
      socket.on('data', (chunk: Buffer) => (got += chunk.length)),
    )
    await using bridge = await startBridge({
      network: { allow: [`a.example:${origin.port}`] },
      config: { private_allow: ['127.0.0.0/8'] },
    })
    const { socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
    const closed = new Promise((done) => socket.resume().once('close', done))
    socket.write(bytes)
    await closed
    expect(got).toBe(0)
    expect(bridge.egress.refusals.map(({ rule }) => rule)).toEqual(['server_name'])
  })

  it('is not required without TLS, and the origin may speak first', async () => {
    await using origin = await startTcpOrigin((socket) => {
      socket.write('SSH-2.0-origin\r\n')
      socket.once('data', (chunk: Buffer) => socket.end(chunk))
    })
    await using bridge = await startBridge({
      network: { allow: [`a.example:${origin.port}`] },
      config: { private_allow: ['127.0.0.0/8'] },
    })
    const { head, socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
    let text = head
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await until('the banner', () => text.endsWith('SSH-2.0-origin\r\n'))
    socket.write('SSH-2.0-program\r\n')
    await until('the echo', () => text.endsWith('SSH-2.0-program\r\n'))
    socket.destroy()
  })
})
