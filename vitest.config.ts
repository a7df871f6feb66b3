/**
 * Two groups of files run one after the other. The first runs four files at a time on two cores, because most
 * of them sometimes wait for programs, servers, doubles and sandboxes. The second runs the files that drive
 * this machine to its limits, one at a time. Still, no file may depend on being alone. Its measurements must
 * hold on a machine ten times as slow, and whatever it makes on the host needs a unique name.
 *
 * The projects `long` and `long-alone` are the second tier, `npm run test:long`: files named
 * `*.long.test.ts`, and those that go through a table of backends or targets of which `npm test` takes a
 * part. Two of them run at a time, because many start a whole fleet.
 */
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './scripts/longest-first.ts'

const NEVER = ['**/node_modules/**', '**/.data/**', '**/.cache/**']
const NOT_LONG = [...NEVER, '**/*.long.test.ts']

/** These drive the machine to its limits or measure how soon it answers: nothing runs beside them. */
const ALONE_FILES = ['tests/security/{exhaustion,load,neighbours}.test.ts']
/** `npm test` runs a part of each of these files. The long tier runs all of it. */
const PARTLY_SHORT = [
  'tests/security/**/*.test.ts',
  'tests/e2e/{copied-code,dispatcher,dispatcher-backends,egress}.test.ts',
  'tests/e2e/{mcp-local,places,remote-backends,routines}.test.ts',
  'tests/faults/{caps,chaos,crowd,worker-killed}.test.ts',
  'libs/{sandbox,backends/*}/src/**/*.conformance.test.ts',
  'libs/backends/microvm/test/{firecracker,microvm}.test.ts',
  'libs/sandbox/test/process-jail.test.ts',
  'libs/sandbox/test/guest/{background-sequences,bare-run,cell}.test.ts',
  'libs/admission/src/command-policy/judge-command.test.ts',
  'libs/admission/test/{commands-of-bash,never-passed}.test.ts',
  'libs/queue/test/{fairness,session}.test.ts',
  'tests/model/{queue,kinds}.test.ts',
  'apps/cli/test/commands.test.ts',
  'apps/dispatcher/src/tools/differential.test.ts',
  'libs/executor/test/tasks.test.ts',
  'libs/backends/azure/test/azure.test.ts',
  'tests/ui/{attacks,execution,fairness,fleet-pages,hostile}.test.ts',
  'tests/ui/{playground,rerun,settings,sign-in,tenants}.test.ts',
]

// A slow, shared 2-core machine sometimes runs at a tenth of the speed of a quiet one. With these timeouts, a
// hang still ends within minutes. Files share a process and its modules, because starting and importing anew
// took a second of CPU time for each file.
const UNIT = { testTimeout: 20_000, hookTimeout: 30_000, isolate: false }
const PATIENT = { testTimeout: 180_000, hookTimeout: 240_000, isolate: false }
const FOUR_AT_A_TIME = { maxWorkers: 4, sequence: { groupOrder: 0 } }
const TWO_AT_A_TIME = { maxWorkers: 2, sequence: { groupOrder: 0 } }
const ALONE = { fileParallelism: false, sequence: { groupOrder: 1 } }

export default defineConfig({
  test: {
    pool: 'forks',
    teardownTimeout: 60_000,
    passWithNoTests: true,
    // Parts of the machine, and one throw-away Redis and Postgres that start when a test asks for them.
    globalSetup: ['scripts/provide-parts.ts', 'libs/embedded/src/test-servers.ts'],
    provide: { cofferdamTier: 'short' },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: [
            '{apps,libs,libs/backends}/*/src/**/*.test.ts',
            'infra/{doubles/*,images}/*.test.ts',
            'scripts/**/*.test.ts',
            'bench/*.test.ts',
          ],
          exclude: [...NOT_LONG, '**/*.conformance.test.ts'],
          ...UNIT,
          ...FOUR_AT_A_TIME,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['{apps,libs,libs/backends}/*/test/**/*.test.ts'],
          exclude: NOT_LONG,
          ...PATIENT,
          ...FOUR_AT_A_TIME,
        },
      },
      {
        test: {
          name: 'conformance',
          include: ['libs/{sandbox,backends/*}/src/**/*.conformance.test.ts'],
          exclude: NOT_LONG,
          ...PATIENT,
          ...FOUR_AT_A_TIME,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['tests/**/*.test.ts'],
          exclude: [...NOT_LONG, ...ALONE_FILES],
          ...PATIENT,
          ...FOUR_AT_A_TIME,
        },
      },
      {
        test: {
          name: 'alone',
          include: ALONE_FILES,
          exclude: NOT_LONG,
          ...PATIENT,
          ...ALONE,
        },
      },
      {
        test: {
          name: 'long',
          include: ['**/*.long.test.ts', ...PARTLY_SHORT],
          exclude: [...NEVER, ...ALONE_FILES],
          provide: { cofferdamTier: 'long' },
          ...PATIENT,
          ...TWO_AT_A_TIME,
        },
      },
      {
        test: {
          name: 'long-alone',
          include: ALONE_FILES,
          exclude: NEVER,
          provide: { cofferdamTier: 'long' },
          ...PATIENT,
          ...ALONE,
        },
      },
    ],
  },
})
