import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { freePort } from '../src/free-port.ts'
import { needs } from '../src/needs.ts'
import { containerCommand, publishedPort } from '../src/redis-container.ts'
import { supervise } from '../src/supervise.ts'
import { redisAnswers } from '../src/start-redis.ts'

/**
 * Emulates the docker client where no image can be pulled: it runs the container's command on the host, with
 * its stdin and with another path for `/data`.
 */
const DOCKER = `#!/bin/sh
here=$(dirname "$0")
case "$1" in
  port) echo "127.0.0.1:$(cat "$here/port")";;
  run)
    while [ "$1" != "--volume" ]; do shift; done
    data=\${2%:/data}
    while [ "$1" != "-c" ]; do shift; done
    script=$(printf %s "$2" | sed "s/kill -TERM 1/kill -TERM $$/")
    shift 3
    conf="$data/container-auth.conf"
    shift 3
    exec sh -c "$script" redis-server "$conf" --dir "$data" --port "$(cat "$here/port")" --bind 127.0.0.1 "$@";;
esac
`

needs('redis-server').describe('a Redis container (docker client replaced)', () => {
  it('requires its password, and ends when its stdin closes', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
    try {
      const docker = join(dir, 'docker')
      writeFileSync(join(dir, 'port'), String(await freePort()))
      writeFileSync(docker, DOCKER)
      chmodSync(docker, 0o755)
      const argv = containerCommand(
        { docker, image: 'valkey/valkey:8' },
        { name: 'x', password: 'secret', flags: ['--appendonly', 'no', '--save', ''], dataDir: dir },
      )
      expect(argv.join(' ')).not.toContain('secret')
      const container = await supervise('Redis', { argv, stdin: 'pipe' }, () => {})
      const at = { host: '127.0.0.1', port: (await publishedPort(docker, 'x')) ?? 0 }
      await container.ready(() => redisAnswers(at, 'secret'), 20_000)
      expect(await redisAnswers(at, 'wrong')).toBe(false)
      container.closeStdin()
      expect(await container.exited).toBe('exited with code 0')
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  })
})
