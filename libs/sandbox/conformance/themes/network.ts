/**
 * `network: none` reaches nothing: no host, no other sandbox, no metadata service. With any other network,
 * programs reach only a proxy on the sandbox's loopback, which passes their connections to the worker. This
 * is not tested for backends that use a network of their own for `public`.
 */
import { createServer, type AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Network, Program } from '@cofferdam/contract'
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/** A stand-in for the worker's proxy: answers a GET with its request line, and echoes after CONNECT. */
function proxyDouble(): { take: (connection: Duplex) => void; asked: string[]; open: () => number } {
  const asked: string[] = []
  let open = 0
  return {
    asked,
    open: () => open,
    take(connection) {
      open += 1
      connection.on('close', () => (open -= 1))
      connection.on('error', () => {})
      let head = ''
      const onData = (chunk: Buffer): void => {
        head += chunk.toString('latin1')
        if (!head.includes('\r\n\r\n')) return
        connection.off('data', onData)
        const line = head.slice(0, head.indexOf('\r\n'))
        asked.push(line)
        if (line.startsWith('CONNECT ')) {
          connection.write('HTTP/1.1 200 Connection established\r\n\r\n')
          connection.pipe(connection)
          return
        }
        const body = `asked by ${line}`
        connection.end(
          `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
        )
      }
      connection.on('data', onData)
    },
  }
}

const python = (source: string): Program => ({ type: 'script', language: 'python', source })

/**
 * The channel to the worker's proxy. Only for backends with `allow`: others use their own network for
 * `public`.
 */
function proxied(h: Harness): void {
  const networks: Network[] = ['public', { allow: ['example.test:80'] }]
  test.each(networks)('passes the connections of a program to the worker with network %j', async (wanted) => {
    const proxy = proxyDouble()
    const program = python(
      `import urllib.request\nprint(urllib.request.urlopen('http://example.test/path').read().decode())`,
    )
    const { stdout, stderr } = await h.once(program, { network: wanted }, { onConnection: proxy.take })
    expect(stdout.toString(), stderr.toString()).toBe('asked by GET http://example.test/path HTTP/1.1\n')
    expect(proxy.asked).toEqual(['GET http://example.test/path HTTP/1.1'])
    expect(proxy.open()).toBe(0)
  })

  test('carries large data in both directions over several CONNECT tunnels at once', async () => {
    const proxy = proxyDouble()
    const program = python(`
import hashlib, os, socket, threading
def one(n, out):
    s = socket.create_connection(('127.0.0.1', int(os.environ['http_proxy'].rsplit(':', 1)[1])))
    s.sendall(b'CONNECT host%d.test:443 HTTP/1.1\\r\\n\\r\\n' % n)
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        head += s.recv(1)
    data = bytes([n]) * 3000000
    threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
    got = b''
    while True:
        part = s.recv(65536)
        if not part:
            break
        got += part
    out[n] = got == data
out = {}
threads = [threading.Thread(target=one, args=(n, out)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(out.items()))
`)
    const { stdout, stderr } = await h.once(program, { network: 'public' }, { onConnection: proxy.take })
    expect(stdout.toString(), stderr.toString()).toBe('[(0, True), (1, True), (2, True), (3, True)]\n')
    expect(proxy.asked.toSorted()).toEqual([0, 1, 2, 3].map((n) => `CONNECT host${n}.test:443 HTTP/1.1`))
  })

  test('closes the connections of a program that ends', async () => {
    const proxy = proxyDouble()
    const program = python(`
import os, socket
s = socket.create_connection(('127.0.0.1', int(os.environ['http_proxy'].rsplit(':', 1)[1])))
s.sendall(b'CONNECT a.test:443 HTTP/1.1\\r\\n\\r\\n')
s.recv(10)
os._exit(3)
`)
    const { exit } = await h.once(program, { network: 'public' }, { onConnection: proxy.take })
    expect(exit.exitCode).toBe(3)
    expect([proxy.asked.length, proxy.open()]).toEqual([1, 0])
  })
}

export function network(h: Harness): void {
  if (h.capabilities.network.includes('allow')) proxied(h)
  const { connect } = h.programs
  if (connect === undefined || !h.capabilities.network.includes('none')) return

  test('connects to nothing with network none', async () => {
    let reached = 0
    const server = createServer((socket) => {
      reached += 1
      socket.destroy()
    })
    const listening = Promise.withResolvers<void>()
    server.listen(0, '0.0.0.0', listening.resolve)
    await listening.promise
    try {
      const { port } = server.address() as AddressInfo
      const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
      const targets: [string, number][] = own
        .filter((address) => address.family === 'IPv4')
        .slice(0, 4)
        .map((address) => [address.address, port])
      targets.push(['169.254.169.254', 80], ['1.1.1.1', 53], ['::1', port], ['localhost', port])
      const { stdout } = await h.once(connect(targets), { network: 'none' })
      expect(stdout.toString().trim().split('\n')).toEqual(targets.map(() => 'refused'))
      expect(reached).toBe(0)
    } finally {
      server.close()
    }
  })
}
