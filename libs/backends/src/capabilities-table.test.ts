import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { capabilitiesTable } from './capabilities-table.ts'
import { createBackends } from './create-backends.ts'

test('README.md shows the capabilities that the backends declare', async () => {
  // Backends whose capabilities do not depend on the host; READMEs of `process` and `none` have theirs.
  const backends = await createBackends({
    docker: {},
    gvisor: {},
    agentcore: {},
    // With a custom-container pool. An interpreter pool can do less (libs/backends/azure/README.md).
    azure: { container_endpoint: 'https://pool.invalid' },
    e2b: {},
    kubernetes: {},
    fake: {},
  })
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(capabilitiesTable(backends.values()))
  for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
})
