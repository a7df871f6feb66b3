/** The order of test files, so that the long ones do not come last and run alone while the other core has nothing to do. */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files of half a minute and more on a quiet 2-core machine, the longest first. Their size, which vitest goes by, does not tell. */
export const LONG_FILES: readonly string[] = [
  'tests/security/cells.test.ts',
  'libs/sandbox/src/docker/gvisor.conformance.test.ts',
  'libs/sandbox/src/docker/docker.conformance.test.ts',
  'tests/security/egress.test.ts',
  'tests/security/exhaustion.test.ts',
  'apps/cli/test/commands.test.ts',
  'tests/e2e/remote-backends.test.ts',
  'tests/faults/caps.test.ts',
  'tests/e2e/routines.test.ts',
  'tests/faults/phases.test.ts',
  'tests/faults/worker-killed.test.ts',
  'tests/faults/chaos.test.ts',
  'tests/security/neighbours.test.ts',
  'tests/security/agent.test.ts',
  'tests/security/load.test.ts',
]

const rankOf = (path: string): number => {
  const rank = LONG_FILES.findIndex((name) => path.endsWith(`/${name}`))
  return rank < 0 ? LONG_FILES.length : rank
}

/** Vitest's own order behind the files that are known to be long. Made by vitest, hence a class. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rankOf(a.moduleId) - rankOf(b.moduleId))
  }
}
