/**
 * Measures the queue end to end without sandboxes (put, take, begin, settle, reply) in one process beside its
 * own Redis. Run `node libs/queue/test/measure.ts [executions] [in flight] [slots]`.
 */
import { newWorkerId } from '@cofferdam/contract'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis } from '@cofferdam/embedded'
import { connectRedis, createConsumer, createProducer } from '../src/index.ts'
import { recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'

const [count = 5000, inFlight = 64, slots = 32] = process.argv.slice(2).map(Number)
const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-measure-'))
const server = await startRedis({ dataDir, durable: true })
const connections = (['producer', 'worker', 'subscriber'] as const).map((role) =>
  connectRedis(server.url, role),
)
const [producing, working, subscriber] = connections
if (producing === undefined || working === undefined || subscriber === undefined)
  throw new Error('unreachable')
const producer = createProducer({ redis: producing, subscriber })
const consumer = createConsumer({
  redis: working,
  subscriber,
  workerId: newWorkerId('0123456789ab'),
  slots,
  lanes: ['interactive', 'routine'],
  async process(taken) {
    await taken.begin(sandboxRef(), SANDBOX_INFO)
    taken.emit({ type: 'output', at_ms: Date.now(), stream: 'stdout', text: 'hello\n' })
    await taken.settle(recordOf(taken, 'ok', 'hello\n'), { slotMs: 1 })
  },
  onOutbox: async () => undefined,
})
consumer.start()

const redisCpuMs = async (): Promise<number> => {
  const info = await working.info('cpu')
  const read = (name: string): number => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1] ?? 0)
  return (read('used_cpu_user') + read('used_cpu_sys')) * 1000
}

async function round(executions: number, tenants: number): Promise<void> {
  const waits: number[] = []
  let next = 0
  const startMs = performance.now()
  const cpu = process.cpuUsage()
  const redisBefore = await redisCpuMs()
  const client = async (): Promise<void> => {
    while (next < executions) {
      const n = (next += 1)
      const putMs = performance.now()
      const { execution_id } = await producer.put(requestOf({ tenant_id: `t${n % tenants}` }), {
        awaitReply: true,
      })
      await producer.wait(execution_id, { timeoutMs: 60_000 })
      waits.push(performance.now() - putMs)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, client))
  const seconds = (performance.now() - startMs) / 1000
  const { user, system } = process.cpuUsage(cpu)
  waits.sort((a, b) => a - b)
  const at = (share: number): string => (waits[Math.floor(waits.length * share)] ?? 0).toFixed(1)
  console.log(
    `${tenants} tenant(s): ${(executions / seconds).toFixed(0)} executions/s, put to result p50 ${at(0.5)} ms p99 ${at(0.99)} ms,`,
    `CPU per execution ${((user + system) / executions).toFixed(0)} µs node + ${((((await redisCpuMs()) - redisBefore) * 1000) / executions).toFixed(0)} µs redis`,
  )
}

await round(500, 10)
await round(count, 10)
await round(count, 1)
const latencies: number[] = []
for (let n = 0; n < 300; n += 1) {
  const startMs = performance.now()
  const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
  await producer.wait(execution_id, { timeoutMs: 60_000 })
  latencies.push(performance.now() - startMs)
}
latencies.sort((a, b) => a - b)
console.log(`one at a time: p50 ${latencies[150]?.toFixed(2)} ms, p99 ${latencies[297]?.toFixed(2)} ms`)

await consumer.drain({ graceMs: 1000 })
await producer[Symbol.asyncDispose]()
for (const connection of connections) connection.disconnect()
await server.stop()
rmSync(dataDir, { recursive: true, force: true })
