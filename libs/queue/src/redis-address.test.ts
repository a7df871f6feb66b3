import { expect, it } from 'vitest'
import { parseRedisUrl } from './redis-address.ts'

it('reads one server, a socket, Sentinels and a cluster', () => {
  expect(parseRedisUrl('redis://h:1/2')).toEqual({ kind: 'url', url: 'redis://h:1/2' })
  expect(parseRedisUrl('unix:///a%20b/r.sock?db=3')).toEqual({ kind: 'unix', path: '/a b/r.sock', db: 3 })
  expect(parseRedisUrl('redis+sentinel://:p%40ss@s1,s2:5000/mymaster/4?sentinel_password=x')).toEqual({
    kind: 'sentinel',
    sentinels: [
      { host: 's1', port: 26_379 },
      { host: 's2', port: 5000 },
    ],
    name: 'mymaster',
    db: 4,
    password: 'p@ss',
    sentinelPassword: 'x',
  })
  expect(parseRedisUrl('rediss+cluster://u:p@n1:7000,[::1]:7001')).toEqual({
    kind: 'cluster',
    nodes: [
      { host: 'n1', port: 7000 },
      { host: '::1', port: 7001 },
    ],
    username: 'u',
    password: 'p',
    tls: {},
  })
})

it.each([
  ['http://h', 'expected redis://'],
  ['redis+sentinel://s1,s2', 'master-name'],
  ['redis+sentinel://s1/m/x', 'master-name'],
  ['redis+cluster://n1/1', 'no databases'],
  ['redis+cluster://n1,:7000', 'is not host:port'],
])('refuses %s and says what it expects', (url, expected) => {
  expect(() => parseRedisUrl(url)).toThrow(expected)
})
