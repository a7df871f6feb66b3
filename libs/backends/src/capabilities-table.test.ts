import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { capabilitiesTable } from './capabilities-table.ts'
import { createBackends } from './create-backends.ts'

test('README.md shows what the backends declare', async () => {
  // Those whose capabilities do not depend on the host; `process` and `none` say in their own README what
  // holds where.
  const backends = await createBackends({
    docker: {},
    gvisor: {},
    agentcore: {},
    // As with a custom-container pool; an interpreter pool can less (src/azure/README.md).
    azure: { container_endpoint: 'https://pool.invalid' },
    e2b: {},
    kubernetes: {},
    fake: {},
  })
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(capabilitiesTable(backends.values()))
  for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
})
