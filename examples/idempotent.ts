/**
 * Enqueues one request twice under the same key: it runs once. The same key with another body is refused.
 *
 * Output:
 *   same execution: true
 *   idempotency_conflict
 */
import { randomUUID } from 'node:crypto'
import { connect } from './connect.ts'

await using client = connect()
const enqueue = (idempotencyKey: string, source: string) =>
  client.enqueue({
    tenant_id: 'demo',
    agent_id: 'examples',
    idempotency_key: idempotencyKey,
    program: { type: 'script', language: 'python', source },
  })

const key = randomUUID()
const first = await enqueue(key, 'print("once")')
const second = await enqueue(key, 'print("once")')
console.log('same execution:', first.execution_id === second.execution_id)
await enqueue(key, 'print("twice")').catch((error: { code: string }) => console.log(error.code))
