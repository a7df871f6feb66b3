/**
 * Where Redis is, as one URL:
 *
 *   redis://host:6379/2   rediss://…(TLS)                       one server
 *   unix:///path/redis.sock?db=2                                one server
 *   redis+sentinel://s1:26379,s2,s3/master-name/2               the master that Sentinels name now
 *   redis+cluster://n1:7000,n2:7001                             a Redis Cluster, known by some of its nodes
 *
 * User and password stand before the hosts. `rediss+sentinel` and `rediss+cluster` use TLS. Sentinels with
 * their own password: `?sentinel_password=…`.
 */
import { CofferdamError } from '@cofferdam/contract'

export interface Node {
  host: string
  port: number
}

interface Login {
  username?: string
  password?: string
  tls?: Record<string, never>
}

export type RedisAddress =
  | { kind: 'url'; url: string }
  | ({ kind: 'unix'; path: string; db: number } & Login)
  | ({ kind: 'sentinel'; sentinels: Node[]; name: string; db: number; sentinelPassword?: string } & Login)
  | ({ kind: 'cluster'; nodes: Node[] } & Login)

/** Default ports of a Sentinel and of a server. */
const PORTS = { sentinel: 26_379, cluster: 6379 }

/** Throws CofferdamError `config_invalid`, which says what is expected and never has the password. */
export function parseRedisUrl(url: string): RedisAddress {
  if (url.startsWith('unix:')) return unixAddress(url)
  const many = /^(rediss?)\+(sentinel|cluster):\/\/(?:([^@/]*)@)?([^/?]+)(\/[^?]*)?(\?.*)?$/.exec(url)
  if (many === null) {
    if (/^rediss?:\/\//.test(url)) return { kind: 'url', url }
    throw invalid('expected redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://')
  }
  const [, scheme, kind, login = '', hosts = '', path = '', query = ''] = many
  const common = { ...loginOf(login), ...(scheme === 'rediss' ? { tls: {} } : {}) }
  const parts = path.split('/').filter((part) => part !== '')
  if (kind === 'cluster') {
    if (parts.length > 0) throw invalid('a cluster has no databases: redis+cluster://host:port,host:port')
    return { kind: 'cluster', nodes: nodesOf(hosts, PORTS.cluster), ...common }
  }
  const [name, db = '0'] = parts
  if (name === undefined || parts.length > 2 || !/^\d+$/.test(db))
    throw invalid('expected redis+sentinel://host:port,host:port/master-name or …/master-name/db')
  const sentinelPassword = new URLSearchParams(query).get('sentinel_password')
  return {
    kind: 'sentinel',
    sentinels: nodesOf(hosts, PORTS.sentinel),
    name: decodeURIComponent(name),
    db: Number(db),
    ...(sentinelPassword === null ? {} : { sentinelPassword }),
    ...common,
  }
}

function unixAddress(url: string): RedisAddress {
  const { pathname, searchParams, username, password } = new URL(url)
  const login = username === '' && password === '' ? '' : `${username}:${password}`
  return {
    kind: 'unix',
    path: decodeURIComponent(pathname),
    db: Number(searchParams.get('db') ?? 0),
    ...loginOf(login),
  }
}

function loginOf(text: string): Login {
  if (text === '') return {}
  const [username = '', password = ''] = text.split(':').map(decodeURIComponent)
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) }
}

/** Reads `host`, `host:port` and `[::1]:port`, separated by commas. */
function nodesOf(hosts: string, defaultPort: number): Node[] {
  return hosts.split(',').map((text) => {
    const [, six, four, port] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text.trim()) ?? []
    const host = six ?? four
    if (host === undefined) throw invalid(`"${text}" is not host:port`)
    return { host, port: port === undefined ? defaultPort : Number(port) }
  })
}

const invalid = (what: string): CofferdamError => new CofferdamError('config_invalid', `REDIS_URL: ${what}.`)
