/** Finds a Redis server: on PATH, in an unpacked Debian package, or in a container. */
import { debianRedis } from './debian-redis.ts'
import { EmbeddedServerError } from './embedded-server-error.ts'
import { findOnPath, succeeds } from './find-program.ts'

export type RedisSource = 'path' | 'package' | 'container'

export type FoundRedis =
  | { kind: 'program'; server: string; env?: Record<string, string>; how: string }
  | { kind: 'container'; docker: string; image: string; how: string }

/** Valkey is BSD-licensed and speaks the same protocol. */
const IMAGE = 'valkey/valkey:8'
/** A healthy daemon answers within a second. 5 s also cover a loaded machine. */
const DAEMON_TIMEOUT_MS = 5000

/** Tries the sources in order. Throws `server_missing`, which says what to install. */
export async function findRedis(sources: readonly RedisSource[], cacheDir: string): Promise<FoundRedis> {
  for (const source of sources) {
    const found = await from(source, cacheDir)
    if (found !== null) return found
  }
  throw new EmbeddedServerError('server_missing', `No Redis or Valkey server was found. ${advice()}`)
}

async function from(source: RedisSource, cacheDir: string): Promise<FoundRedis | null> {
  if (source === 'path') {
    const server = await findOnPath(['valkey-server', 'redis-server'])
    return server === null ? null : { kind: 'program', server, how: `${server} (on PATH)` }
  }
  if (source === 'package') {
    const unpacked = await debianRedis(cacheDir)
    if (unpacked === null) return null
    const env = { LD_LIBRARY_PATH: unpacked.libraries }
    return { kind: 'program', server: unpacked.server, env, how: `Debian package unpacked in ${cacheDir}` }
  }
  const docker = await findOnPath(['docker'])
  if (docker === null) return null
  const answers = await succeeds([docker, 'version', '--format', '{{.Server.Version}}'], {
    timeoutMs: DAEMON_TIMEOUT_MS,
  })
  return answers ? { kind: 'container', docker, image: IMAGE, how: `container ${IMAGE}` } : null
}

function advice(): string {
  const install =
    process.platform === 'darwin'
      ? 'Run `brew install valkey`'
      : 'Run `sudo apt-get update` and start again (the package is then unpacked without root), ' +
        'or `sudo apt-get install redis-server`, or your system’s valkey package'
  return `${install}; or start Docker; or \`docker compose up -d redis\` and set REDIS_URL.`
}
