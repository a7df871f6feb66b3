/** The well-known spellings of forbidden addresses, each as a program would send it. */
import { describe, expect, it } from 'vitest'
import { getRaw, openTunnel, startBridge, startOrigin, type Bridge } from './loopback-fleet.ts'

/** What public DNS, or a hostile server, answers for these names. */
const ANSWERS: Record<string, string[]> = {
  localhost: ['127.0.0.1', '::1'],
  'localtest.me': ['127.0.0.1'],
  '127.0.0.1.nip.io': ['127.0.0.1'],
  'spoofed.burpcollaborator.net': ['127.0.0.1'],
  'metadata.google.internal': ['169.254.169.254'],
  metadata: ['169.254.169.254'],
  'instance-data.ec2.internal': ['169.254.169.254'],
  'kubernetes.default.svc': ['10.96.0.1'],
  'host.docker.internal': ['172.17.0.1'],
  'v6.evil.example': ['fd00:ec2::254'],
  'mapped.evil.example': ['::ffff:169.254.169.254'],
  'nat64.evil.example': ['64:ff9b::a9fe:a9fe'],
  'teredo.evil.example': ['2001:0:53aa:64c:0:fbff:80ff:fffe'],
  'mixed.evil.example': ['93.184.216.34', '10.0.0.1'],
  'zero.evil.example': ['0.0.0.0'],
  'compat.evil.example': ['::127.0.0.1'],
  'text.evil.example': ['not an address'],
}
const resolve = (name: string): Promise<string[]> => Promise.resolve(ANSWERS[name] ?? [])

const HOSTS = [
  '127.0.0.1',
  '127.1',
  '127.0.1',
  '0',
  '0.0.0.0',
  '0x7f.1',
  '0x7f000001',
  '0x7f.0x0.0x0.0x1',
  '0177.0.0.1',
  '0177.0000.0000.0001',
  '017700000001',
  '2130706433',
  '0x7f.00.1',
  '127.0.0.1.',
  '127.000.000.001',
  '1２7.0.0.1',
  '%31%32%37.0.0.1',
  '169.254.169.254',
  '169.254.169.254.',
  '2852039166',
  '0xa9fea9fe',
  '0xA9.0xFE.0xA9.0xFE',
  '0251.0376.0251.0376',
  '025177524776',
  '169.254.43518',
  '169.16689662',
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.1.1',
  '255.255.255.255',
  '224.0.0.1',
  '[::]',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[0000:0000:0000:0000:0000:0000:0000:0001]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::a9fe:a9fe]',
  '[2002:7f00:1::]',
  '[2001:0:53aa:64c:0:fbff:80ff:fffe]',
  '[fe80::1]',
  '[fe80::1%25lo]',
  '[fe80::1%lo]',
  '[fd00:ec2::254]',
  '[ff02::1]',
  '[::%31]',
  ...Object.keys(ANSWERS),
  'LOCALHOST',
  'localhost.',
  'metadata.google.internal.',
  'Metadata.Google.Internal',
  'ｌocalhost',
  'loc\u00adalhost',
]

const TRICKS = [
  'http://good.example@127.0.0.1/',
  'http://127.0.0.1@good.example/',
  'http://good.example:80@127.0.0.1/',
  'http://good.example%40127.0.0.1/',
  'http://127.0.0.1\\@good.example/',
  'http://good.example\\127.0.0.1/',
  'http:\\\\127.0.0.1/',
  'http:/127.0.0.1/',
  'http:127.0.0.1',
  'http:///127.0.0.1/',
  'http://127.0.0.1:80:80/',
  'http://127.0.0.1:99999/',
  'http://:80/',
  'http://[::1/',
  'http://127.0.0.1%00.good.example/',
  'http://127.0.0.1%0d%0aX:/',
  'http://127.0.0.1?good.example/',
  'http://127.0.0.1#good.example/',
  'https://127.0.0.1/',
  'ftp://127.0.0.1/',
  'file:///etc/passwd',
  'gopher://127.0.0.1:6379/_FLUSHALL',
  '//127.0.0.1/',
  '/latest/meta-data/',
  '*',
]

const REFUSED = /^HTTP\/1\.1 (400|403) /

const isForeign = (text: string): boolean => Buffer.byteLength(text) !== text.length

const raw = (text: string): string => Buffer.from(text).toString('latin1')

async function underPublic<T>(use: (bridge: Bridge) => Promise<T>): Promise<T> {
  await using bridge = await startBridge({ resolve, config: { ports: [80, 443] } })
  const result = await use(bridge)
  expect(bridge.egress.hosts).toEqual([])
  return result
}

describe('under network public', () => {
  it.each(HOSTS)('http://%s/ is refused', async (host) => {
    await underPublic(async (bridge) => {
      const answer = await getRaw(bridge.port, raw(`http://${host}/`))
      // Full-width letters arrive as other bytes, so they form an unknown name. It cannot be reached either.
      expect(answer).toMatch(isForeign(host) ? /^HTTP\/1\.1 (400|403|502) / : REFUSED)
    })
  })

  it.each(HOSTS)('CONNECT %s:443 is refused', async (host) => {
    await underPublic(async (bridge) => {
      const { head, socket } = await openTunnel(bridge.port, raw(`${host}:443`))
      socket.destroy()
      expect(head).toMatch(isForeign(host) ? /^HTTP\/1\.1 (400|403|502) / : REFUSED)
    })
  })

  it.each(TRICKS)('GET %s is refused', async (url) => {
    await underPublic(async (bridge) => expect(await getRaw(bridge.port, url)).toMatch(REFUSED))
  })

  it.each([
    'good.example',
    'good.example:443@127.0.0.1:80',
    'http://127.0.0.1/',
    '127.0.0.1:80/x',
    '[::1]',
    ':443',
  ])('CONNECT %s is refused', async (target) => {
    await underPublic(async (bridge) => {
      const { head, socket } = await openTunnel(bridge.port, target)
      socket.destroy()
      expect(head).toMatch(/^HTTP\/1\.1 (400|403|502) /)
    })
  })

  it('the answer names the address that a name resolved to', async () => {
    await underPublic(async (bridge) => {
      expect(await getRaw(bridge.port, 'http://metadata.google.internal/')).toContain(
        'Cofferdam refused metadata.google.internal:80: the name resolves to 169.254.169.254, which is a link-local address.',
      )
    })
  })
})

describe('a name whose addresses change', () => {
  it('is resolved once per connection, which then goes to the judged address', async () => {
    await using origin = await startOrigin((_request, response) => response.end('judged'))
    const answers = [['127.0.0.2'], ['127.0.0.3']]
    const asked: string[] = []
    await using bridge = await startBridge({
      resolve: (name) => {
        asked.push(name)
        return Promise.resolve(answers.shift() ?? [])
      },
      // Only the first answer may be reached. The origin listens on another address, so connecting fails.
      config: { private_allow: [`127.0.0.2/32:${origin.port}`], ports: [origin.port] },
    })
    const url = `http://rebind.example:${origin.port}/`
    expect(await getRaw(bridge.port, url)).toMatch(/^HTTP\/1\.1 502/)
    expect(asked).toEqual(['rebind.example'])
    expect(await getRaw(bridge.port, url)).toMatch(/^HTTP\/1\.1 403/)
    expect(asked).toEqual(['rebind.example', 'rebind.example'])
    expect(origin.hits).toEqual([])
  })

  it('is refused when one of its addresses is refused, in any order', async () => {
    await using origin = await startOrigin((_request, response) => response.end('no'))
    for (const addresses of [
      ['127.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '127.0.0.1'],
    ]) {
      await using bridge = await startBridge({
        resolve: () => Promise.resolve(addresses),
        config: { private_allow: [`127.0.0.1/32:${origin.port}`], ports: [origin.port] },
      })
      expect(await getRaw(bridge.port, `http://mixed.example:${origin.port}/`)).toMatch(/^HTTP\/1\.1 403/)
    }
    expect(origin.hits).toEqual([])
  })

  it('never reaches the worker by one of its public addresses', async () => {
    await using bridge = await startBridge({
      resolve: () => Promise.resolve(['93.184.216.34']),
      ownAddresses: () => ['93.184.216.34'],
    })
    expect(await getRaw(bridge.port, 'http://self.example/')).toContain('an address of the worker itself')
  })
})

describe('under an allow-list', () => {
  it('only names on the list are resolved', async () => {
    const asked: string[] = []
    await using bridge = await startBridge({
      network: { allow: ['a.example', '*.b.example'] },
      resolve: (name) => {
        asked.push(name)
        return Promise.resolve([])
      },
    })
    for (const host of ['secret-data.evil.example', 'b.example', 'a.example.evil.example', '1.1.1.1'])
      expect(await getRaw(bridge.port, `http://${host}/`)).toMatch(/^HTTP\/1\.1 403/)
    expect(asked).toEqual([])
    expect(await getRaw(bridge.port, 'http://x.b.example/')).toMatch(/^HTTP\/1\.1 502/)
    expect(asked).toEqual(['x.b.example'])
  })

  it('no private address is reached, even if it is listed', async () => {
    await using bridge = await startBridge({ network: { allow: ['10.0.0.1', 'a.example'] } })
    expect(await getRaw(bridge.port, 'http://10.0.0.1/')).toContain('it is a private address')
    expect(await getRaw(bridge.port, 'http://a.example/')).toContain('a loopback address')
  })
})
