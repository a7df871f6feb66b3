/** A master, a replica and three Sentinels that agree on a failover. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { freePort } from '../../../libs/embedded/src/free-port.ts'
import { startRedisProcess, until, type RedisProcess } from './redis-process.ts'

export interface WatchedRedis extends AsyncDisposable {
  /** The URL in the form of REDIS_URL. */
  url: string
  master: RedisProcess
  replica: RedisProcess
  /** Resolves when the Sentinels name the replica as the master. */
  failedOver(): Promise<void>
}

export async function startWatchedRedis(): Promise<WatchedRedis> {
  const root = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-sentinels-'))
  const server = (name: string, port: number, args: string[] = []): Promise<RedisProcess> =>
    startRedisProcess(path.join(root, name), port, ['--appendonly', 'yes', ...args])
  const master = await server('master', await freePort())
  const replica = await server('replica', await freePort(), ['--replicaof', `127.0.0.1 ${master.port}`])
  const sentinels: RedisProcess[] = []
  for (let n = 0; n < 3; n += 1) {
    const port = await freePort()
    const file = path.join(root, `sentinel-${n}.conf`)
    await writeFile(
      file,
      `port ${port}\nbind 127.0.0.1\ndir ${root}\nsentinel monitor watched 127.0.0.1 ${master.port} 2\n` +
        // With less than 3 s, Sentinels take a busy machine's master for dead before the test kills it.
        'sentinel down-after-milliseconds watched 3000\nsentinel failover-timeout watched 10000\n',
    )
    sentinels.push(await startRedisProcess(root, port, [file, '--sentinel']))
  }
  await until(
    'replica',
    async () => String(await replica.command('INFO', 'replication')).includes('link_status:up'),
    40_000,
  )
  for (const sentinel of sentinels)
    await until(
      'sentinels',
      async () => {
        const facts = (await sentinel.command('SENTINEL', 'MASTER', 'watched')) as string[]
        const of = (name: string) => facts[facts.indexOf(name) + 1]
        return of('num-slaves') === '1' && of('num-other-sentinels') === '2'
      },
      40_000,
    )
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/watched/0`,
    master,
    replica,
    async failedOver() {
      await until('promotion', async () => String(await replica.command('ROLE')).startsWith('master'), 60_000)
      for (const sentinel of sentinels)
        await until(
          'word of the promotion',
          async () =>
            ((await sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'watched')) as string[])[1] ===
            `${replica.port}`,
          40_000,
        )
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([master, replica, ...sentinels].map((one) => one.kill()))
      await rm(root, { recursive: true, force: true })
    },
  }
}
