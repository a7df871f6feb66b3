/** Whatever comes over a connection, the worker survives: vitest fails the file for any uncaught error. */
import { connect } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { getRaw, sendRaw, startBridge, startOrigin, until } from './loopback-fleet.ts'

describe('hostile bytes', () => {
  it('pipelined, mixed, cut and abandoned, harm neither the worker nor later requests', async () => {
    await using origin = await startOrigin((request, response) => {
      request.resume()
      if (request.url === '/late') setImmediate(() => response.end('late'))
      else if (request.url === '/cut') response.write('x', () => response.destroy())
      else response.end('ok')
    })
    await using bridge = await startBridge({
      config: {
        private_allow: ['127.0.0.0/8'],
        ports: [origin.port],
        header_timeout_ms: 100,
        idle_timeout_ms: 100,
        max_names: 10_000,
      },
      packages: { pypi: ['*'], npm: ['*'] },
    })
    const at = `a.example:${origin.port}`
    const messages = [
      `GET http://${at}/late HTTP/1.1\r\nHost: a\r\n\r\n`,
      `GET http://${at}/cut HTTP/1.1\r\nHost: a\r\n\r\n`,
      `GET http://10.0.0.1/ HTTP/1.1\r\nHost: a\r\n\r\n`,
      `CONNECT ${at} HTTP/1.1\r\nHost: a\r\n\r\n`,
      `CONNECT 10.0.0.1:${origin.port} HTTP/1.1\r\nHost: a\r\n\r\n`,
      `CONNECT packages.cofferdam.internal:80 HTTP/1.1\r\nHost: a\r\n\r\n`,
      `GET http://packages.cofferdam.internal/npm/x HTTP/1.1\r\nHost: a\r\n\r\n`,
      `POST http://${at}/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
      `POST http://${at}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nshort`,
      `GET http://${at}/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
      `GET http://${at}/\u00ff\u0001 HTTP/1.1\r\nHost: a\r\n\r\n`,
      `GET / HTTP/1.0\r\n\r\n`,
      `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`,
      `GET http://${at}/ HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`,
      '\u0016\u0003\u0001\u0000\u0005hello',
      '\u0000\u0000',
    ]
    const session = fc.record({
      parts: fc.array(fc.constantFrom(...messages), { minLength: 1, maxLength: 6 }),
      cut: fc.double({ min: 0.3, max: 1.5, noNaN: true }),
      how: fc.constantFrom('end', 'reset', 'wait'),
    })
    await fc.assert(
      fc.asyncProperty(session, async ({ parts, cut, how }) => {
        const text = parts.join('')
        const socket = connect({ port: bridge.port, host: '127.0.0.1' })
        let closed = false
        socket.resume().on('error', () => undefined)
        socket.once('close', () => (closed = true))
        socket.write(text.slice(0, Math.ceil(text.length * cut)), 'latin1')
        if (how === 'end') socket.end()
        if (how === 'reset') socket.once('connect', () => socket.resetAndDestroy())
        await until(`the end of ${JSON.stringify({ parts, cut, how }).slice(0, 2000)}`, () => closed)
      }),
      { numRuns: 150, seed: 7 },
    )
    // Repeat if the process stood still for longer than its timers of 100 ms.
    await expect
      .poll(() => getRaw(bridge.port, `http://${at}/`), { timeout: 20_000 })
      .toMatch(/^HTTP\/1\.1 200/)
  })

  it('get no tunnel while an earlier answer is pending, because the two would mix', async () => {
    await using origin = await startOrigin((_request, response) => {
      setImmediate(() => response.end('late'))
    })
    await using bridge = await startBridge({
      config: { private_allow: ['127.0.0.0/8'], ports: [origin.port] },
    })
    const at = `a.example:${origin.port}`
    const answer = await sendRaw(
      bridge.port,
      `GET http://${at}/ HTTP/1.1\r\nHost: a\r\n\r\nCONNECT ${at} HTTP/1.1\r\nHost: a\r\n\r\n`,
    )
    expect(answer).not.toContain('Connection Established')
  })
})
