import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createResolve } from '@cofferdam/egress'
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
  private_allow: ['127.0.0.0/8'],
  ports: [80, 443, port],
})

describe('bytes of an execution', () => {
  it('end the connection at their bound in either direction, and refuse later connections', async () => {
    await using origin = await startOrigin((_request, response) => response.end(Buffer.alloc(1_000_000)))
    await using bridge = await startBridge({ config: { ...reachable(origin.port), max_bytes: 100_000 } })
    const url = `http://a.example:${origin.port}/`
    const answer = await getRaw(bridge.port, url)
    expect(answer.length).toBeLessThan(101_000)
    const { received, sent } = bridge.egress.bytes
    expect(received + sent).toBeLessThanOrEqual(100_000)
    const later = await getRaw(bridge.port, url)
    expect(later).toMatch(/^HTTP\/1\.1 403/)
    expect(later).toContain('the execution has spent its 100000 bytes')
    expect(origin.hits).toHaveLength(1)
  })

  it('include the bytes that a tunnel sends', async () => {
    let got = 0
    await using origin = await startTcpOrigin((socket) =>
      socket.on('data', (chunk: Buffer) => (got += chunk.length)),
    )
    await using bridge = await startBridge({ config: { ...reachable(origin.port), max_bytes: 50_000 } })
    const { socket } = await openTunnel(bridge.port, `a.example:${origin.port}`)
    let closed = false
    socket.resume().once('close', () => (closed = true))
    socket.write(Buffer.alloc(200_000))
    await until('the end of the tunnel', () => closed)
    expect(got).toBeLessThanOrEqual(50_000)
    expect(bridge.egress.refusals.map(({ rule }) => rule)).toEqual(['byte_limit'])
  })
})

describe('connections of an execution', () => {
  it('are answered with 503 above their bound, and accepted again when one ended', async () => {
    await using origin = await startTcpOrigin(() => undefined)
    await using bridge = await startBridge({ config: { ...reachable(origin.port), max_connections: 2 } })
    const target = `a.example:${origin.port}`
    const open = [await openTunnel(bridge.port, target), await openTunnel(bridge.port, target)]
    const third = await openTunnel(bridge.port, target)
    expect(third.head).toMatch(/^HTTP\/1\.1 503/)
    expect(third.head).toContain('2 connections are open already')
    // Reset the connection, because after a normal end the connection to the origin would stay half open.
    open[0]?.socket.resetAndDestroy()
    third.socket.destroy()
    await until('a free place', () => bridge.egress.hosts.length === 1)
    let again = ''
    for (let tries = 0; tries < 100 && !again.startsWith('HTTP/1.1 200'); tries += 1) {
      const attempt = await openTunnel(bridge.port, target)
      again = attempt.head
      attempt.socket.resetAndDestroy()
      // A refused connection counts until its end is seen, so retrying at once would always be refused.
      await new Promise((done) => setTimeout(done, 5))
    }
    expect(again).toMatch(/^HTTP\/1\.1 200/)
    open[1]?.socket.destroy()
  })

  it('are also bounded towards origins when requests are pipelined', async () => {
    let open = 0
    let most = 0
    await using origin = await startOrigin((request, response) => {
      open += 1
      most = Math.max(most, open)
      request.socket.once('close', () => (open -= 1))
      setImmediate(() => response.end('x'))
    })
    await using bridge = await startBridge({ config: { ...reachable(origin.port), max_connections: 4 } })
    const one = `GET http://a.example:${origin.port}/ HTTP/1.1\r\nHost: a\r\n\r\n`
    const last = one.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
    const answers = await sendRaw(bridge.port, one.repeat(40) + last)
    expect(answers).toContain('HTTP/1.1 503')
    expect(most).toBeLessThanOrEqual(4)
  })

  it('have a time limit for the next head only while no answer is pending', async () => {
    let finish: () => void = () => undefined
    await using origin = await startOrigin((request, response) => {
      if (request.url === '/first') return void response.end('first')
      response.write('begun')
      finish = () => void response.end('finished')
    })
    await using bridge = await startBridge({ config: { ...reachable(origin.port), header_timeout_ms: 1500 } })
    const to = (path: string): string => `GET http://a.example:${origin.port}${path} HTTP/1.1\r\nHost: a\r\n`
    const client = connect(bridge.port, '127.0.0.1')
    client.write(`${to('/first')}\r\n${to('/second')}Connection: close\r\n\r\n`)
    let answers = ''
    client.on('data', (chunk: Buffer) => {
      answers += chunk.toString()
      // Answers come in order, so the first is complete. Wait until the time limit has ended a connection
      // that sends nothing.
      if (answers.endsWith('begun\r\n')) void sendRaw(bridge.port, '').then(finish)
    })
    await once(client, 'close')
    expect(answers).toContain('finished')
  })

  it('end when no request comes, and when no bytes move', async () => {
    await using origin = await startTcpOrigin(() => undefined)
    await using hasty = await startBridge({ config: { ...reachable(origin.port), header_timeout_ms: 50 } })
    expect(await sendRaw(hasty.port, 'GET http://slow.exam')).toBe('')
    // A second bridge without the short header timeout: otherwise a process that stalls for 50 ms would end
    // the requests below.
    await using bridge = await startBridge({ config: { ...reachable(origin.port), idle_timeout_ms: 50 } })
    expect(await getRaw(bridge.port, `http://a.example:${origin.port}/`)).toMatch(/^HTTP\/1\.1 504/)
    const tunnel = `CONNECT a.example:${origin.port} HTTP/1.1\r\nHost: a\r\n\r\n`
    expect(await sendRaw(bridge.port, tunnel)).toMatch(/^HTTP\/1\.1 200/)
    expect(bridge.egress.refusals.at(-1)).toMatchObject({
      rule: 'timeout',
      reason: 'nothing moved for 50 ms',
    })
  })
})

describe('names', () => {
  it('are resolved up to their bound, and known ones beyond it', async () => {
    await using bridge = await startBridge({ config: { max_names: 2 }, resolve: () => Promise.resolve([]) })
    const status = async (name: string): Promise<string> =>
      (await getRaw(bridge.port, `http://${name}/`)).slice(9, 12)
    expect([await status('a.x'), await status('b.x'), await status('c.x'), await status('a.x')]).toEqual([
      '502',
      '502',
      '403',
      '502',
    ])
  })

  it('that never resolve end at the connect timeout with 504, even if the resolver hangs', async () => {
    await using bridge = await startBridge({
      config: { connect_timeout_ms: 60 },
      resolve: () => new Promise(() => undefined),
    })
    const answer = await getRaw(bridge.port, 'http://tarpit.example/')
    expect(answer).toMatch(/^HTTP\/1\.1 504/)
    expect(answer).toContain('no connection within 60 ms')
  })

  it('are resolved by the name servers directly, without search domains, until an abort', async () => {
    const server = createSocket('udp4')
    const asked: string[] = []
    server.on('message', (query, from) => {
      const name = query
        .toString('latin1', 12, query.indexOf(0, 12))
        .replaceAll(/[^\w-]/g, '.')
        .slice(1)
      asked.push(name)
      // The answer is the query itself with the flags of a response and NXDOMAIN (3). `silent` names get no
      // answer.
      if (name.startsWith('silent')) return
      const answer = Buffer.from(query)
      answer.writeUInt16BE(0x81_83, 2)
      server.send(answer, from.port, from.address)
    })
    await new Promise<void>((done) => server.bind(0, '127.0.0.1', done))
    const resolve = createResolve([`127.0.0.1:${(server.address() as AddressInfo).port}`])
    expect(await resolve('kubernetes.default', AbortSignal.timeout(30_000))).toEqual([])
    expect(new Set(asked)).toEqual(new Set(['kubernetes.default']))
    expect(await resolve('silent.example', AbortSignal.timeout(50))).toEqual([])
    await new Promise<void>((done) => server.close(done))
  })
})

describe('the ledger', () => {
  it('is bounded: it has at most 256 refusals, in the order of first use', async () => {
    await using bridge = await startBridge({ config: { max_names: 1000 } })
    for (let at = 0; at < 260; at += 1) await getRaw(bridge.port, `http://h${at}.example:9/`)
    expect(bridge.egress.refusals).toHaveLength(256)
    expect(bridge.egress.refusals[0]?.target).toBe('h0.example:9')
  })

  it('has every reached host: a host that cannot be recorded any more is refused', async () => {
    await using origin = await startOrigin((_request, response) => response.end())
    // max_names limits neither addresses nor the ports of a name. The limit of 256 host:port pairs counts
    // both.
    await using bridge = await startBridge({ config: { ...reachable(origin.port), max_names: 2 } })
    const status = async (host: string): Promise<string> =>
      (await getRaw(bridge.port, `http://${host}:${origin.port}/`)).slice(9, 12)
    // Nothing listens there, but the ledger must assume that the program reached them.
    for (let at = 0; at < 256; at += 1) expect(await status(`127.0.7.${at}`)).toBe('502')
    expect(await getRaw(bridge.port, `http://127.0.0.1:${origin.port}/`)).toMatch(
      /^HTTP\/1\.1 403 .*: 256 hosts were reached by this execution already/s,
    )
    expect(await status('127.0.7.0')).toBe('502')
    expect(origin.hits).toEqual([])
    expect(bridge.egress.hosts).toHaveLength(256)
  })
})
