/** The agent channel gives plain Duplex streams instead of sockets: no address, setTimeout or destroySoon. */
import { duplexPair, type Duplex } from 'node:stream'
import { createEgress, egressConfigSchema, type ExecutionEgress } from '@cofferdam/egress'
import { describe, expect, it } from 'vitest'
import { startOrigin, startTcpOrigin, until } from './loopback-fleet.ts'

function openExecution(port: number): { program: Duplex; execution: ExecutionEgress } {
  const config = egressConfigSchema.parse({ private_allow: ['127.0.0.0/8'], ports: [port] })
  const worker = createEgress({ config, resolve: () => Promise.resolve(['127.0.0.1']) })
  const execution = worker.open({ network: 'public', packages: null })
  const [program, ours] = duplexPair()
  execution.accept(ours)
  return { program, execution }
}

describe('a connection that is not a socket', () => {
  it('passes requests one after the other, and ends with the execution', async () => {
    await using origin = await startOrigin((request, response) => response.end(`path ${request.url};`))
    const { program, execution } = openExecution(origin.port)
    let text = ''
    let closed = false
    program.on('data', (chunk: Buffer) => (text += chunk.toString())).on('error', () => undefined)
    program.once('close', () => (closed = true)).once('end', () => program.destroy())
    for (const path of ['/1', '/2']) {
      program.write(`GET http://a.example:${origin.port}${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      await until(path, () => text.includes(`path ${path};`))
    }
    await execution.close()
    await until('the end', () => closed)
  })

  it('holds the origin back while the program does not read, and later delivers everything', async () => {
    const total = 64 * 2 ** 20
    await using origin = await startTcpOrigin((socket) => {
      socket.once('data', () => socket.end(Buffer.alloc(total, 1)))
    })
    const { program, execution } = openExecution(origin.port)
    program.write(`CONNECT a.example:${origin.port} HTTP/1.1\r\nHost: a\r\n\r\ngo`)
    await until('the first bytes', () => execution.bytes.received > 0)
    let before = -1
    await until('the flow to stop', () => {
      const isStill = before === execution.bytes.received
      before = execution.bytes.received
      return isStill
    })
    // The program has read nothing, so all received bytes are in the worker's memory: at most what its
    // buffers hold.
    expect(execution.bytes.received).toBeLessThan(2 ** 20)
    let got = 0
    for await (const chunk of program) {
      got += (chunk as Buffer).length
      if (got >= total) break
    }
    expect(got).toBeGreaterThanOrEqual(total)
    await execution.close()
  })
})
