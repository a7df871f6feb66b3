/** Why the backend has its own client (docs/decisions/0014): what E2B's SDK does that our client must not. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Sandbox } from '@e2b/code-interpreter'
import { needs } from '@cofferdam/embedded/needs'
import { expect, it, onTestFinished } from 'vitest'
import { clientCosts } from './client-cost.ts'

it('E2B’s SDK reports success for an interpreter stream that was cut off', async () => {
  const server = createServer((request, response) => {
    if (request.method === 'DELETE') return response.writeHead(204).end()
    if (request.url?.startsWith('/execute') !== true)
      return response.writeHead(201).end('{"sandboxID": "cut", "envdVersion": "0.5.7"}')
    return response.end(
      '{"type": "number_of_executions", "execution_count": 1}\n{"type": "stdout", "text": "half"}\n',
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const sandbox = await Sandbox.create({ apiKey: 'e2b_0', apiUrl: origin, sandboxUrl: origin })
  const { error, logs } = await sandbox.runCode("print('half and half')")
  // If this becomes an error, one reason for our own client is gone.
  expect([error, logs.stdout]).toEqual([undefined, ['half']])
})

needs('bwrap').it('our client reads the same output as the SDK and keeps none of it in memory', async () => {
  const { sdk, ours } = await clientCosts(20_000_000, 1)
  expect([sdk.bytes, ours.bytes]).toEqual([20_000_000, 20_000_000])
  // The SDK keeps the whole text. Other memory of a process varies by tens of MiB.
  expect(ours.run_peak_mib).toBeLessThan(sdk.run_peak_mib)
})
