/** A Redis Cluster of three masters on this host. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { freePort } from '../../../libs/embedded/src/free-port.ts'
import { startRedisProcess, until, type RedisProcess } from './redis-process.ts'

export interface RedisCluster extends AsyncDisposable {
  /** The URL in the form of REDIS_URL. */
  url: string
  nodes: RedisProcess[]
  nodeOf(key: string): Promise<RedisProcess>
  /** Kills with SIGKILL, then starts the same server on the same append-only file. */
  restart(node: RedisProcess): Promise<void>
  /** Starts a replica of a node. Resolves when it has all data. */
  replicate(node: RedisProcess): Promise<RedisProcess>
}

const SLOTS = 16_384

export async function startRedisCluster(): Promise<RedisCluster> {
  const root = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-cluster-'))
  const start = (port: number): Promise<RedisProcess> =>
    startRedisProcess(path.join(root, `${port}`), port, [
      '--cluster-enabled',
      'yes',
      '--cluster-node-timeout',
      '2000',
      '--appendonly',
      'yes',
      // Acknowledged writes survive a kill, so that the restart below loses nothing.
      '--appendfsync',
      'always',
      '--cluster-require-full-coverage',
      'no',
    ])
  const nodes: RedisProcess[] = []
  const replicas: RedisProcess[] = []
  for (let n = 0; n < 3; n += 1) nodes.push(await start(await freePort()))
  const share = Math.ceil(SLOTS / nodes.length)
  for (const [n, node] of nodes.entries()) {
    await node.command('CLUSTER', 'ADDSLOTSRANGE', n * share, Math.min(SLOTS, (n + 1) * share) - 1)
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', n + 1)
  }
  for (const node of nodes.slice(1)) await node.command('CLUSTER', 'MEET', '127.0.0.1', nodes[0]?.port ?? 0)
  for (const node of nodes)
    await until(
      'cluster',
      async () =>
        /cluster_state:ok[\s\S]*cluster_known_nodes:3/.test(String(await node.command('CLUSTER', 'INFO'))),
      20_000,
    )

  return {
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    nodes,
    async nodeOf(key) {
      const slot = Number(await nodes[0]?.command('CLUSTER', 'KEYSLOT', key))
      const node = nodes[Math.floor(slot / share)]
      if (node === undefined) throw new Error(`no node for slot ${slot}`)
      return node
    },
    async restart(node) {
      await node.kill()
      const again = await start(node.port)
      nodes[nodes.indexOf(node)] = again
      await until(
        'cluster',
        async () => String(await again.command('CLUSTER', 'INFO')).includes('cluster_state:ok'),
        20_000,
      )
    },
    async replicate(node) {
      const replica = await start(await freePort())
      replicas.push(replica)
      await replica.command('CLUSTER', 'MEET', '127.0.0.1', node.port)
      const id = String(await node.command('CLUSTER', 'MYID'))
      await until(
        'replica',
        async () => String(await replica.command('CLUSTER', 'NODES')).includes(id),
        20_000,
      )
      await replica.command('CLUSTER', 'REPLICATE', id)
      await until(
        'replica',
        async () => String(await replica.command('INFO', 'replication')).includes('master_link_status:up'),
        20_000,
      )
      return replica
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...nodes, ...replicas].map((node) => node.kill()))
      await rm(root, { recursive: true, force: true })
    },
  }
}
