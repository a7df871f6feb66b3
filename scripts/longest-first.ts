/**
 * Orders the test files. One project comes after the other, because a test process serves one project and
 * costs a second of CPU time to start. In each, the long files come first, so that none of them runs last,
 * alone, while the other core is idle.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take long, in the order in which they start. Their file size does not show how long they take.
 */
export const LONG_FILES: readonly string[] = [
  // Of the long tier: 5 to 40 minutes each.
  'tests/promises/missing-parts.long.test.ts',
  'libs/backends/microvm/test/firecracker-conformance.long.test.ts',
  'tests/security/microvm.long.test.ts',
  // The next two files mostly wait, so they start beside files that compute. Otherwise all four workers would
  // wait later.
  'libs/queue/test/redelivery.test.ts',
  'libs/sessions/test/registry.test.ts',
  'libs/backends/azure/test/azure.test.ts',
  'apps/cli/test/commands.test.ts',
  'libs/backends/agentcore/test/agentcore.test.ts',
  'libs/backends/microvm/test/microvm.test.ts',
  'libs/executor/test/tasks.test.ts',
  'libs/queue/test/fairness.test.ts',
  'libs/backends/microvm/test/firecracker.test.ts',
  'apps/dispatcher/src/tools/differential.test.ts',
  'libs/sandbox/src/docker/prove-isolation.test.ts',
  'apps/dispatcher/src/on-work.test.ts',
  'apps/dispatcher/src/tools/hostile.test.ts',
  'libs/sandbox/src/docker/oom-events.test.ts',
  'tests/e2e/dispatcher.test.ts',
  'libs/sandbox/src/docker/docker.conformance.test.ts',
  'libs/backends/microvm/src/microvm.conformance.test.ts',
  'tests/ui/tenants.test.ts',
  'tests/ui/executions.test.ts',
  'tests/security/cells.test.ts',
  'tests/e2e/places.test.ts',
  'tests/ui/playground.test.ts',
  'tests/ui/fairness.test.ts',
  'tests/ui/hostile.test.ts',
  'tests/ui/settings.test.ts',
  'tests/ui/fleet-pages.test.ts',
  'tests/e2e/egress.test.ts',
  'libs/sandbox/src/process/bwrap.conformance.test.ts',
  'libs/sandbox/src/docker/gvisor.conformance.test.ts',
  'tests/e2e/dispatcher-backends.test.ts',
  'tests/ui/execution.test.ts',
  'tests/e2e/remote-backends.test.ts',
  'tests/e2e/routines.test.ts',
  'tests/faults/stores-away.test.ts',
  'tests/e2e/python-client.test.ts',
  'tests/faults/caps.test.ts',
  'tests/faults/phases.test.ts',
  'tests/faults/worker-killed.test.ts',
  'tests/faults/chaos.test.ts',
  'tests/security/egress.test.ts',
  'tests/security/exhaustion.test.ts',
  'tests/security/load.test.ts',
  'tests/security/neighbours.test.ts',
  'tests/security/agent.test.ts',
]

const rankOf = (path: string): number => {
  const rank = LONG_FILES.findIndex((name) => path.endsWith(`/${name}`))
  return rank < 0 ? LONG_FILES.length : rank
}

/** The project with the most short files is last here. Other projects follow in vitest's own order. */
const PROJECTS: readonly string[] = ['unit', 'conformance', 'e2e', 'integration']

const rankOfProject = ({ project }: TestSpecification): number => {
  const rank = PROJECTS.indexOf(project.name)
  return rank < 0 ? PROJECTS.length : rank
}

/** By project, the long files first, then in vitest's own order. vitest creates it, so it must be a class. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted(
      (a, b) => rankOfProject(a) - rankOfProject(b) || rankOf(a.moduleId) - rankOf(b.moduleId),
    )
  }
}
