import { exerciseBackend, fakePrograms } from '../../conformance/index.ts'
import { createHostileBackend } from './index.ts'

// Without tricks, the hostile backend must keep the contract. A backend that is only late must keep it too.
await exerciseBackend('hostile', () => createHostileBackend(), { programs: fakePrograms, refsAreLocal: true })

await exerciseBackend(
  'late',
  () =>
    createHostileBackend({
      name: 'late',
      tricks: [{ open_late_ms: 15, exit_late_ms: 5, dispose_slow_ms: 20 }],
    }),
  { programs: fakePrograms, refsAreLocal: true },
)
