/** Connections of real programs through a real agent. The worker's proxy is a small Node server. */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { once } from 'node:events'
import type { Program } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openLab, stop, type Agent, type Lab, type Ran } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

/**
 * The agents of this file share the machine's loopback, unlike sandboxes. The port is below those that the
 * kernel assigns (from 32768). Otherwise another test could get it before the agent listens.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 23_000 + Math.floor(Math.random() * 7000)
    const server = createTcpServer().listen(port, '127.0.0.1')
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('listening', () => resolve(true)).once('error', () => resolve(false))
    })
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

interface Wired extends Agent {
  port: number
  connections: Duplex[]
}

async function withAgent<T>(
  language: 'python' | 'javascript' | 'none',
  work: (agent: Wired) => Promise<T>,
): Promise<T> {
  const port = await freePort()
  const agent = await lab.start(language, { proxyPort: port })
  try {
    return await work(Object.assign(agent, { port, connections: [] }))
  } finally {
    await stop(agent)
  }
}

/** Runs the program, calls `serve` for every connection, and checks that no connection outlives the run. */
async function connect(agent: Wired, program: Program, serve: (connection: Duplex) => void): Promise<Ran> {
  const ran = await agent.run(program, {
    onConnection(connection) {
      agent.connections.push(connection)
      serve(connection)
    },
  })
  expect(agent.connections.filter((connection) => !connection.destroyed)).toEqual([])
  return ran
}

const python = (source: string): Program => ({ type: 'script', language: 'python', source })
/** Beginning of a program that connects by itself. */
const SOCKET = `import os, socket, struct, threading, time
def connect():
    host, port = os.environ["http_proxy"].rpartition("/")[2].split(":")
    return socket.create_connection((host, int(port)))
`

const answer = (request: IncomingMessage, response: ServerResponse): void => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () =>
    response.end(`${request.method} ${request.url} ${Buffer.concat(chunks).toString()}`),
  )
}

test.each<[string, 'python' | 'javascript' | 'none', Program]>([
  ['curl', 'none', { type: 'command', shell: 'curl -sS -d body http://example.test/path' }],
  [
    'urllib',
    'python',
    python(
      'import urllib.request as r\nprint(r.urlopen("http://example.test/path", b"body").read().decode(), end="")',
    ),
  ],
  [
    'fetch',
    'javascript',
    {
      type: 'script',
      language: 'javascript',
      source: `fetch('http://example.test/path', { method: 'POST', body: 'body' }).then((r) => r.text()).then((t) => process.stdout.write(t))`,
    },
  ],
])('carries the proxy requests of %s', async (name, language, program) => {
  await withAgent(language, async (agent) => {
    const server = createServer(answer)
    // Node's own proxy support uses CONNECT even for http.
    server.on('connect', (request, socket: Duplex) => {
      expect(request.url).toBe('example.test:80')
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      createServer((inner, response) => {
        inner.url = `http://example.test${inner.url}`
        answer(inner, response)
      }).emit('connection', socket)
    })
    const { stdout, stderr } = await connect(agent, program, (connection) =>
      server.emit('connection', connection),
    )
    expect({ name, stdout, stderr }).toEqual({
      name,
      stdout: 'POST http://example.test/path body',
      stderr: '',
    })
  })
})

test('sets the proxy variables unless the caller did, and none without connections', async () => {
  const shell = 'env | grep -i proxy | sort'
  await withAgent('none', async (agent) => {
    const proxy = `http://127.0.0.1:${agent.port}`
    const { stdout } = await agent.run(
      { type: 'command', shell },
      { onConnection: () => {} },
      { HTTP_PROXY: 'mine' },
    )
    expect(stdout.trim().split('\n').sort()).toEqual(
      [
        `ALL_PROXY=${proxy}`,
        'HTTP_PROXY=mine',
        `HTTPS_PROXY=${proxy}`,
        'NO_PROXY=localhost,127.0.0.1,::1',
        'NODE_USE_ENV_PROXY=1',
        `all_proxy=${proxy}`,
        `http_proxy=${proxy}`,
        `https_proxy=${proxy}`,
        'no_proxy=localhost,127.0.0.1,::1',
      ].sort(),
    )
  })
  expect((await lab.once({ type: 'command', shell })).stdout).toBe('')
})

test('listens only while a run may connect, run after run', async () => {
  const port = await freePort()
  const agent = await lab.start('none', { proxyPort: port, cell: true })
  const program: Program = {
    type: 'command',
    shell: `curl -sS --noproxy '*' http://127.0.0.1:${port}/ 2>/dev/null; echo $?`,
  }
  const server = createServer((_request, response) => response.end('here '))
  const onConnection = (connection: Duplex): void => void server.emit('connection', connection)
  expect((await agent.run(program, { onConnection })).stdout).toBe('here 0\n')
  expect((await agent.run(program)).stdout).toBe('7\n')
  expect((await agent.run(program, { onConnection })).stdout).toBe('here 0\n')
  await stop(agent)
})

test.each(['up', 'down'])(
  'carries 128 MB %s without buffering them',
  async (direction) => {
    const total = 128_000_000
    await withAgent('python', async (agent) => {
      const source =
        direction === 'up'
          ? `s = connect()
block = bytes(1000000)
for _ in range(128): s.sendall(block)
s.shutdown(socket.SHUT_WR)
print(s.recv(100).decode())`
          : `s, n = connect(), 0
while True:
    data = s.recv(1 << 20)
    if not data: break
    n += len(data)
print(n)`
      const before = process.memoryUsage().rss
      let peak = before
      let seen = 0
      const note = (): number => (peak = Math.max(peak, process.memoryUsage().rss))
      const { stdout } = await connect(agent, python(SOCKET + source), (connection) => {
        if (direction === 'up') {
          connection.on('data', (chunk: Buffer) => {
            seen += chunk.length
            note()
          })
          connection.on('end', () => connection.end(String(seen)))
          return
        }
        const block = Buffer.alloc(1_000_000)
        let left = 128
        const more = (): void => {
          note()
          while (left-- > 0) if (!connection.write(block)) return void connection.once('drain', more)
          connection.end()
        }
        more()
        connection.resume()
      })
      expect(stdout.trim()).toBe(String(total))
      // Memory may hold two windows, the pipe's buffers and uncollected garbage, but not the 128 MB.
      expect(peak - before).toBeLessThan(96 << 20)
      const highest = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${agent.child.pid}/status`, 'utf8'))
      expect(Number(highest?.[1])).toBeLessThan(40_000)
    })
  },
  60_000,
)

test('serves 64 connections at once, and the 65th waits until one has ended', async () => {
  await withAgent('python', async (agent) => {
    let most = 0
    const held: Duplex[] = []
    const { stdout } = await connect(
      agent,
      python(`${SOCKET}
got = []
def one(n):
    s = connect()
    s.sendall(b"%d;" % n)
    got.append(s.recv(10))
threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(got) == sorted(b"%d" % n for n in range(100)))`),
      (connection) => {
        const alive = agent.connections.filter((c) => !c.destroyed).length
        most = Math.max(most, alive)
        held.push(connection)
        connection.on('data', (chunk: Buffer) => {
          connection.end(chunk.subarray(0, -1))
        })
        // Answers nobody before all 64 connections are open.
        connection.pause()
        if (most === 64) for (const one of held.splice(0)) one.resume()
      },
    )
    expect(stdout).toBe('True\n')
    expect(most).toBe(64)
    expect(agent.connections).toHaveLength(100)
  })
})

test('keeps one direction open after the other has ended', async () => {
  await withAgent('python', async (agent) => {
    const up = await connect(
      agent,
      python(
        `${SOCKET}s = connect()\ns.sendall(b"question")\ns.shutdown(socket.SHUT_WR)\nprint(s.makefile().read())`,
      ),
      (connection) => {
        let asked = ''
        connection.on('data', (chunk: Buffer) => (asked += chunk.toString()))
        connection.on('end', () => {
          connection.write('answer to ')
          setImmediate(() => connection.end(asked))
        })
      },
    )
    expect(up.stdout).toBe('answer to question\n')
  })
  await withAgent('python', async (agent) => {
    let late = ''
    const down = await connect(
      agent,
      python(`${SOCKET}s = connect()
print(s.makefile().read())
s.sendall(b"late")
s.shutdown(socket.SHUT_WR)
print(connect().recv(10))`),
      (connection) => {
        if (agent.connections.length === 2) {
          // The program waits until its first connection is closed, so that the run does not end before.
          const first = agent.connections[0]!
          if (first.closed) connection.end('closed')
          else first.on('close', () => connection.end('closed'))
          return
        }
        connection.end('over')
        connection.on('data', (chunk: Buffer) => (late += chunk.toString()))
      },
    )
    expect(down.stdout).toBe("over\nb'closed'\n")
    expect(late).toBe('late')
  })
})

test('passes a reset on in both directions', async () => {
  await withAgent('python', async (agent) => {
    const errors: string[] = []
    const { stdout } = await connect(
      agent,
      python(`${SOCKET}
a = connect()
a.sendall(b"reset me")
try: print(a.recv(10))
except ConnectionResetError: print("reset")
b = connect()
b.sendall(b"mine")
b.recv(1)
b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
b.close()
c = connect()
print(c.recv(10))`),
      (connection) => {
        connection.on('error', (error: NodeJS.ErrnoException) => errors.push(String(error.code)))
        connection.once('data', (chunk: Buffer) => {
          if (chunk.toString() === 'reset me') connection.destroy(new Error('no'))
          else connection.write('x')
        })
        if (agent.connections.length === 3)
          void vi
            .waitFor(() => expect(errors).toContain('ECONNRESET'), 20_000)
            .then(() => connection.end('seen'))
      },
    )
    expect(stdout).toBe("reset\nb'seen'\n")
    expect(errors).toEqual(['undefined', 'ECONNRESET'])
  })
})

test('stops a writer on either end whose reader does not read, while output continues', async () => {
  await withAgent('python', async (agent) => {
    let written = 0
    const done = Promise.withResolvers<void>()
    const { stdout } = await connect(
      agent,
      python(`${SOCKET}
s = connect()
s.setblocking(False)
sent, idle = 0, 0
# The window, and after it until nothing more goes for a while.
while sent < 256 * 1024 or idle < 20:
    try:
        sent += s.send(bytes(65536))
        idle = 0
    except BlockingIOError:
        idle += 1
        time.sleep(0.01)
print("x" * 300000)
print(sent)`),
      (connection) => {
        // Nobody reads at either end.
        const block = Buffer.alloc(65_536)
        const more = (): void => {
          while (connection.writable && written < 64 << 20) {
            written += block.length
            if (!connection.write(block)) return void connection.once('drain', more)
          }
        }
        more()
        connection.on('close', () => done.resolve())
      },
    )
    await done.promise
    const [text, sent] = stdout.trim().split('\n')
    expect(text).toHaveLength(300_000)
    // A window, and the kernel's buffers of a loopback connection (tcp_rmem and tcp_wmem: up to about 10 MB).
    expect(Number(sent)).toBeLessThan(24 << 20)
    expect(written).toBeLessThan(24 << 20)
  })
})

test('neither output nor connections starve behind the other', async () => {
  await withAgent('python', async (agent) => {
    let received = 0
    let printed = 0
    const both = Promise.withResolvers<void>()
    const check = (): void => {
      if (received > 20 << 20 && printed > 20 << 20) both.resolve()
    }
    const running = agent.run(
      python(`${SOCKET}
def flood():
    s = connect()
    while True: s.sendall(bytes(65536))
for _ in range(4): threading.Thread(target=flood, daemon=True).start()
while True: os.write(1, bytes(65536))`),
      {
        maxOutputBytes: { stdout: 1 << 30, stderr: 1000 },
        onOutput: (_stream, chunk) => {
          printed += chunk.length
          check()
        },
        onConnection: (connection) => {
          agent.connections.push(connection)
          connection.on('data', (chunk: Buffer) => {
            received += chunk.length
            check()
          })
        },
      },
    )
    running.catch(() => {})
    await both.promise
    agent.session.close()
    await expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect(agent.connections.every((connection) => connection.destroyed)).toBe(true)
  })
}, 30_000)

test('ends all connections with the run, and refuses those of an aborted run', async () => {
  await withAgent('python', async (agent) => {
    const first = await connect(
      agent,
      python(`${SOCKET}s = connect()\ns.sendall(b"hi")\nprint("on")`),
      () => {},
    )
    expect(first.stdout).toBe('on\n')
    const ending = new AbortController()
    const opened = Promise.withResolvers<void>()
    const running = agent.run(python(`${SOCKET}\nwhile True: connect().sendall(b"x")`), {
      signal: ending.signal,
      onConnection: (connection) => {
        agent.connections.push(connection)
        if (agent.connections.length > 10) opened.resolve()
        else connection.destroy()
      },
    })
    running.catch(() => {})
    await opened.promise
    const reason = new Error('enough')
    ending.abort(reason)
    await expect(running).rejects.toBe(reason)
    expect(agent.connections.every((connection) => connection.destroyed)).toBe(true)
    expect((await agent.session.usage()).wall_ms).toBeGreaterThan(0)
    expect(agent.session.closed).toBe(false)
  })
})

test('refuses a run that may connect before it begins if the port is taken', async () => {
  const taken = createTcpServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const agent = await lab.start('none', { proxyPort: port })
  const program: Program = { type: 'command', shell: 'touch ran' }
  await expect(agent.run(program, { onConnection: () => {} })).rejects.toMatchObject({
    code: 'sandbox_open_failed',
    details: { said: `cannot listen on 127.0.0.1:${port}: Address already in use` },
  })
  expect(await agent.session.list(['**'], 10)).toEqual([])
  taken.close()
  await stop(agent)
})
