/**
 * The egress proxy as a way to somewhere else: what a program reaches through it, around it and against it.
 * The one allowed origin is on this host's loopback. A forbidden origin listens on every address of this
 * host.
 */
import { readdirSync } from 'node:fs'
import { inLongTier } from '@cofferdam/embedded/needs'
import { afterAll, expect, test } from 'vitest'
import { memoryOf, peakMemoryOf, processesNamed, resetPeakMemory } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { startOrigins } from './origins.ts'
import { IDLE_MAX, python, startTarget, type Target } from './target.ts'

const MiB = 1024 * 1024
const origins = await startOrigins()
const here = `127.0.0.1:${origins.port}`
const there = `127.0.0.1:${origins.forbiddenPort}`
afterAll(() => origins[Symbol.asyncDispose]())

const EGRESS = {
  private_allow: [`127.0.0.1/32:${origins.port}`],
  // Allows the ports of the forbidden servers, so that only the address can be why they are refused.
  ports: [80, 443, origins.port, ...origins.forbidden.map(({ port }) => port)],
  max_bytes: 3 * 1024 * MiB,
  // A program that sends its request head at once never reaches this timeout, however busy the host is. One
  // test waits for it.
  header_timeout_ms: 8000,
}
const NETWORKS = { 'an allow-list': { allow: [here] }, public: 'public' as const }
const limits = { soft_timeout_ms: 60_000, hard_timeout_ms: 65_000 }
/** For 2 GiB: ten seconds on a quiet machine, more than 75 on one with a load of ten per core. */
const LARGE_MS = 300_000

const get = (url: string, host = 'origin'): string =>
  `GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
const connect = (authority: string, after = ''): string =>
  `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n${after}`

/** Spellings of loopback, metadata, private and link-local addresses, and of things that are no address. */
const HOSTS = `
  localhost LOCALHOST. 127.1 127.0.0.1. 0 0.0.0.0 2130706433 0x7f000001 0x7f.1 0177.0.0.1
  [::] [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::] [::127.0.0.1]
  ①②⑦.0.0.1 127。0。0。1 %31%32%37.0.0.1 127.0.0.1%00.example.com 127.0.0.1%09
  169.254.169.254 0xA9FEA9FE 2852039166 0251.0376.0251.0376 169.254.43518 [::ffff:169.254.169.254]
  [fd00:ec2::254] [fe80::1] metadata.google.internal 168.63.129.16 100.100.100.200
  10.0.0.1 172.17.0.1 192.168.0.1 100.64.0.1 224.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1`
  .trim()
  .split(/\s+/)
/** URLs and authorities that one parser may read as the allowed origin and another parser as another host. */
const CONFUSED = [
  `http://${here}@${there}/`,
  `http://${here}#@${there}/`,
  `http://${here}\\@${there}/`,
  `http://${there}\\@${here}/`,
  `http://${here}%40${there}/`,
  `http:///${there}/`,
  `http:${there}/`,
  `//${there}/`,
  `${there}`,
  `unix:/var/run/docker.sock`,
  `http+unix://%2Fvar%2Frun%2Fdocker.sock/info`,
  `http://unix:/var/run/docker.sock:/info`,
  `file:///etc/passwd`,
  `ftp://${there}/`,
  `gopher://${there}/_x`,
]

function* attempts(): Generator<[string, string]> {
  for (const host of HOSTS) {
    yield [`GET ${host}`, get(`http://${host}:${origins.forbiddenPort}/`)]
    yield [`CONNECT ${host}`, connect(`${host}:${origins.forbiddenPort}`, get('/'))]
  }
  for (const { address, port } of origins.forbidden) {
    const host = address.includes(':') ? `[${address}]` : address
    yield [`GET own ${address}`, get(`http://${host}:${port}/`)]
    yield [`CONNECT own ${address}`, connect(`${host}:${port}`, get('/'))]
  }
  for (const url of CONFUSED) {
    yield [`GET ${url}`, get(url)]
    yield [`CONNECT ${url}`, connect(url, get('/'))]
  }
  yield ['Host names another', get('/', there)]
  yield ['two CONNECTs', connect(there, connect(here, get('/')))]
}

/** The text as the program sends it: one character per byte. */
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')
const asking = (list: Iterable<[string, string]>): ReturnType<typeof python> =>
  ({
    ...program('ask_proxy'),
    argv: [JSON.stringify([...list].map(([label, raw]) => [label, latin1(raw)]))],
  }) as ReturnType<typeof python>

const descriptorsOf = (target: Target): number => readdirSync(`/proc/${target.pid}/fd`).length

await onTargets(
  (target) => {
    for (const [name, network] of Object.entries(NETWORKS)) {
      test(`no spelling of a private address is reached (${name})`, async () => {
        const before = origins.intruders()
        const list = [...attempts()]
        const half = Math.ceil(list.length / 2)
        // Split over two executions, because the arguments of one are bounded.
        for (const part of [list.slice(0, half), list.slice(half)]) {
          const { outcome, stdout, stderr } = await target.run({ program: asking(part), network, limits })
          expect(outcome, stderr).toMatchObject({ ending: 'ok', outboundHosts: [] })
          const answers = Object.entries(JSON.parse(stdout) as Record<string, string[]>)
          expect(answers.length).toBe(part.length)
          expect(answers.filter(([, codes]) => codes.some((code) => !/^[45]\d\d$/.test(code)))).toEqual([])
        }
        expect(origins.intruders()).toBe(before)
      })

      test(`redirects and smuggled requests reach only the allowed origin (${name})`, async () => {
        const before = origins.intruders()
        const first = origins.hits.length
        const list: [string, string][] = [
          ['plain', get(`http://${here}/plain`)],
          ['host', get(`http://${here}/host`, there)],
          [
            'pipelined',
            get(`http://${here}/one`).replace('close', 'keep-alive') + get(`http://${there}/two`),
          ],
          [
            'lengths',
            `POST http://${here}/l HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${get(`http://${there}/`)}`,
          ],
          [
            'hidden',
            `GET http://${here}/h HTTP/1.1\r\nHost: x\r\nX: a\n\nGET http://${there}/ HTTP/1.1\r\n\r\n`,
          ],
          [
            'upgrade',
            `GET http://${here}/u HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: ${there}\r\n\r\n`,
          ],
          ['tunnel', connect(here, get('/tunnel', here))],
          ['another in it', connect(here, get('/tunnel', there))],
        ]
        const { outcome, stdout } = await target.run({ program: asking(list), network, limits })
        const answers = JSON.parse(stdout) as Record<string, string[]>
        expect(answers).toMatchObject({ plain: ['200'], host: ['200'], tunnel: ['200', '200'] })
        // A program that may reach one origin may not ask it for another one.
        expect(answers['another in it']).toEqual(['200', network === 'public' ? '200' : '403'])
        expect(answers['pipelined']).toEqual(['200', '403'])
        // Requests reach the origin under its own name, whatever Host header they had.
        const hits = origins.hits.slice(first)
        expect(hits).toContain(`GET /host ${here}`)
        expect(hits.filter((hit) => hit.includes('/two'))).toEqual([])
        expect(outcome.outboundHosts).toEqual([here])
        const targets = [
          `http://${there}/`,
          'http://169.254.169.254/latest/meta-data/',
          'http://localhost/',
          `http://[::1]:${origins.forbiddenPort}/`,
        ]
        const followed = await target.run({
          program: python(`
import json, os, urllib.request, urllib.parse
for name in ('no_proxy', 'NO_PROXY'): os.environ.pop(name, None)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': 'http://127.0.0.1:3128'}))
got = []
for to in ${JSON.stringify(targets)}:
    try: got.append(opener.open('http://${here}/redirect?to=' + urllib.parse.quote(to), timeout=10).read().decode())
    except urllib.error.HTTPError as error: got.append(error.code)
print(json.dumps(got))`),
          network,
          limits,
        })
        // If DNS has no address for `localhost`, the proxy answers 502 before it judges an address.
        expect(JSON.parse(followed.stdout)).toEqual([403, 403, expect.toBeOneOf([403, 502]), 403])
        expect(followed.outcome.outboundHosts).toEqual([here])
        expect(origins.intruders()).toBe(before)
      })
    }

    test('nothing is reached around the proxy: no socket, datagram, name, interface or file', async () => {
      const before = origins.intruders()
      const ports = origins.forbidden.map(({ address, port }) => [address, port])
      const argv = [
        JSON.stringify([...ports, ['127.0.0.1', origins.port], ['169.254.169.254', 80], ['1.1.1.1', 53]]),
        'none',
      ]
      const network = 'public' as const
      const beside = await target.run({
        program: { ...program('reach_network'), argv } as ReturnType<typeof program>,
        network,
        limits,
      })
      expect(beside.stdout).toBe('[]\n')
      const { stdout } = await target.run({
        program: python(`
import os, socket
print(sorted(line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]))
for path in ('/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock', '/run/cofferdam/s', '/cofferdam/s'):
    try:
        socket.socket(socket.AF_UNIX).connect(path); print('connected', path)
    except OSError: pass
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    try: socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('1.1.1.1', 0)); print('ping')
    except OSError: pass`),
        network,
        limits,
      })
      expect(stdout).toBe("['lo']\n")
      expect(origins.intruders()).toBe(before)
    })

    // An emulated machine makes a tenth of the connections in the same time.
    const many = target.kernel === 'guest' ? 1000 : 10_000
    inLongTier(`${many} connections cost the worker neither descriptors nor memory that stay`, async () => {
      await target.run({ program: asking([['warm up', get(`http://${here}/`)]]), network: 'public', limits })
      resetPeakMemory(target.pid)
      const [memory, descriptors] = [memoryOf(target.pid), descriptorsOf(target)]
      let most = 0
      const watching = setInterval(() => (most = Math.max(most, descriptorsOf(target))), 20)
      const { outcome, stdout } = await target
        .run({
          program: python(`
import http.client, socket
held, made = [], 0
for _ in range(${many}):
    one = socket.socket()
    # Do not wait: the agent's accept queue is full most of the time, and a retry takes a second.
    one.setblocking(False)
    one.connect_ex(('127.0.0.1', 3128))
    made += 1
    try: one.send(b'CONNECT ${here} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' if made % 2 else b'x' * 100)
    except OSError: pass
    held.append(one)
    if len(held) > 100: held.pop(0).close()
for one in held: one.close()
last = http.client.HTTPConnection('127.0.0.1', 3128, timeout=40)
last.request('GET', 'http://${here}/')
print(last.getresponse().status)
print(made)`),
          network: 'public',
          limits: { ...limits, hard_timeout_ms: 80_000, soft_timeout_ms: 70_000 },
        })
        .finally(() => clearInterval(watching))
      expect(outcome, outcome.failureReason ?? '').toMatchObject({ ending: 'ok' })
      console.log(
        `${target.name}: a flood of connections, ${most - descriptors} descriptors more at most, ${Math.round((peakMemoryOf(target.pid) - memory) / MiB)} MiB`,
      )
      expect(stdout).toBe(`200\n${many}\n`)
      // At most 64 connections to origins are open at once. The rest is for the descriptors of the sandbox
      // itself.
      expect(most - descriptors).toBeLessThan(64 + 24)
      expect(peakMemoryOf(target.pid) - memory).toBeLessThan(160 * MiB)
      await eventually(() => {
        // Pooled sandboxes that started during the flood may remain. The connections would have left hundreds
        // of descriptors.
        expect(descriptorsOf(target)).toBeLessThanOrEqual(descriptors + 4 * IDLE_MAX + 4)
        expect(origins.open.size).toBe(0)
      })
    })

    inLongTier(
      'a large download and upload pass through a worker that keeps little of it',
      { timeout: LARGE_MS },
      async () => {
        // Large enough that buffering would show: 1 GiB each way where the channel is a socket.
        const size = target.name === 'docker warm' ? 1024 : target.kernel === 'guest' ? 16 : 192
        resetPeakMemory(target.pid)
        const before = memoryOf(target.pid)
        const taken = origins.taken()
        const { outcome, stdout, stderr } = await target.run({
          program: python(`
import http.client
down = http.client.HTTPConnection('127.0.0.1', 3128)
down.request('GET', 'http://${here}/bytes?n=${size}')
answer, total = down.getresponse(), 0
while True:
    data = answer.read(1 << 20)
    if not data: break
    total += len(data)
block = b'x' * (1 << 20)
up = http.client.HTTPConnection('127.0.0.1', 3128)
up.request('POST', 'http://${here}/take', (block for _ in range(${size})), {'Content-Length': str(${size} << 20)})
print(total >> 20, up.getresponse().status)`),
          network: { allow: [here] },
          limits: { ...limits, soft_timeout_ms: LARGE_MS - 20_000, hard_timeout_ms: LARGE_MS - 10_000 },
        })
        expect(outcome, stderr).toMatchObject({ ending: 'ok' })
        expect(stdout).toBe(`${size} 200\n`)
        expect(origins.taken() - taken).toBe(size * MiB)
        const grown = peakMemoryOf(target.pid) - before
        console.log(
          `${target.name}: ${2 * size} MiB through the proxy grew the worker by ${Math.round(grown / MiB)} MiB`,
        )
        // Buffers of both directions, and garbage that Node collects late. Does not grow with the data.
        expect(grown).toBeLessThan(192 * MiB)
      },
    )

    test('a byte cap applies to both directions together', async () => {
      await using small = await startTarget({ ...target, egress: { ...EGRESS, max_bytes: 4 * MiB } })
      const taken = origins.taken()
      const { stdout } = await small.run({
        program: python(`
import http.client
total = 0
for turn in range(3):
    try:
        down = http.client.HTTPConnection('127.0.0.1', 3128, timeout=20)
        down.request('GET', 'http://${here}/bytes?n=3')
        answer = down.getresponse()
        while answer.status == 200:
            data = answer.read(65536)
            if not data: break
            total += len(data)
    except (OSError, http.client.HTTPException): pass
try:
    up = http.client.HTTPConnection('127.0.0.1', 3128, timeout=20)
    up.request('POST', 'http://${here}/take', b'x' * (8 << 20))
    print(up.getresponse().status)
except (OSError, http.client.HTTPException): print('closed')
print(total)`),
        network: { allow: [here] },
        limits,
      })
      const [status, total] = stdout.trim().split('\n')
      expect(status).toMatch(/^(403|closed)$/)
      expect(Number(total)).toBeGreaterThan(2 * MiB)
      expect(Number(total) + origins.taken() - taken).toBeLessThanOrEqual(4 * MiB)
    })

    test('unfinished requests are ended and do not keep others waiting', async () => {
      const { stdout, stderr } = await target.run({
        program: python(`
import http.client, socket, time
slow = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(40)]
for one in slow: one.send(b'GET http://${here}/ HTTP/1.1\\r\\nX: ')
begin, open_still = time.monotonic(), set(slow)
quick = http.client.HTTPConnection('127.0.0.1', 3128, timeout=20)
quick.request('GET', 'http://${here}/')
print(quick.getresponse().status)
while open_still and time.monotonic() - begin < 30:
    for one in list(open_still):
        try:
            one.send(b'a')
            one.setblocking(False)
            if one.recv(4096) == b'': open_still.discard(one)
        except BlockingIOError: pass
        except OSError: open_still.discard(one)
    time.sleep(0.05)
print(len(open_still))`),
        network: { allow: [here] },
        limits,
      })
      expect(stdout, stderr).toBe('200\n0\n')
    })

    test('a connection that a daemon keeps ends with the execution', async () => {
      const name = `keeps${process.pid}x${target.pid}`
      const { outcome } = await target.run({
        program: python(`
import os, socket
one = socket.create_connection(('127.0.0.1', 3128))
one.send(b'CONNECT ${here} HTTP/1.1\\r\\n\\r\\n')
print(one.recv(100)[:12].decode(), flush=True)
if os.fork() == 0:
    os.setsid()
    os.set_inheritable(one.fileno(), True)
    os.execv('/bin/sleep', ['${name}', '600'])`),
        network: { allow: [here] },
        limits,
      })
      expect(outcome).toMatchObject({ ending: 'ok', stdout: { text: 'HTTP/1.1 200\n' } })
      expect(processesNamed(name)).toEqual([])
      await eventually(() => expect(origins.open.size).toBe(0))
    })

    test('a sandbox without a network has no proxy, also beside a sandbox that has one', async () => {
      const waiting = target.start({
        program: python(`
import socket, time
one = socket.create_connection(('127.0.0.1', 3128)); print('up', flush=True); time.sleep(60)`),
        network: 'public',
      })
      await waiting.said('up')
      const { stdout } = await target.run({
        program: python(`
import os, socket
try: socket.create_connection(('127.0.0.1', 3128), 2); print('reached')
except OSError: print('refused')
print([name for name in os.environ if 'proxy' in name.lower()])`),
      })
      expect(stdout).toBe('refused\n[]\n')
      waiting.stop('cancelled')
      await waiting.gone
    })

    test('the worker ignores tunnel frames that a program forges', async () => {
      const { outcome } = await target.run({ program: program('forge'), network: { allow: [here] }, limits })
      expect(outcome).toMatchObject({ ending: 'error', exitCode: 3, outboundHosts: [] })
      expect(outcome.value).toBeUndefined()
    })
  },
  {
    daily: ({ name }) => name === 'bwrap as root',
    where: ({ name }) => !['docker', 'self-jail as a user', 'self-jail without namespaces'].includes(name),
    more: { egress: EGRESS },
  },
)
