import { DEFAULT_LIMITS, newSandboxId, newWorkerId } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { agentFiles } from './agent-command.ts'

const { memory_mib, cpus, pids, disk_mib } = DEFAULT_LIMITS
const limits = { memory_mib, cpus, pids, disk_mib }
const KiB = 1024

it.each([
  ['python', false, false],
  ['none', false, false],
  ['typescript', false, true],
  ['python', true, true],
] as const)(
  'uploads the TypeScript compiler only if a script may need it (%s, cell: %s)',
  (language, cell, needs) => {
    const spec = {
      language,
      cell,
      preload: [],
      limits,
      slotId: newSandboxId(),
      owner: newWorkerId('e2be2be2be2b'),
    }
    const bytes = agentFiles(spec, true).reduce((sum, file) => sum + file.bytes.length, 0)
    expect(bytes > 300 * KiB).toBe(needs)
  },
)
