import type { Client } from '@cofferdam/client'
import { newExecutionId, type ExecutionRequestInput } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { runWithin } from './run-execution.ts'

const request: ExecutionRequestInput = {
  tenant_id: 't',
  agent_id: 'a',
  program: { type: 'command', argv: ['true'] },
}

/** A client that accepts an execution, which never ends. */
const endless: Pick<Client, 'enqueue' | 'wait'> = {
  enqueue: () =>
    Promise.resolve({ execution_id: newExecutionId() } as Awaited<ReturnType<Client['enqueue']>>),
  wait: (_id, { signal } = {}) =>
    new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
}

it('throws a typed error, which a tool call can report, if an execution does not end in time', async () => {
  await expect(runWithin(endless as Client, request, 20)).rejects.toMatchObject({ code: 'wait_timeout' })
})

it('passes on why the queue refused an execution', async () => {
  const refusal = new Error('no')
  const client = { ...endless, enqueue: () => Promise.reject(refusal) }
  await expect(runWithin(client as unknown as Client, request, 60_000)).rejects.toBe(refusal)
})
