/**
 * Projects in three groups. First unit and integration, two files at a time; then e2e and the conformance of backends whose sandboxes are
 * elsewhere, two at a time, for those mostly wait; then alone, file after file, what measures deadlines, drives this machine to its limits or
 * compares order and pace: the conformance of local backends, security, faults. All the same no file may depend on being alone: what it
 * measures must hold on a machine ten times as slow, and what it makes on the host has names of its own.
 */
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './scripts/longest-first.ts'

const NEVER = ['**/node_modules/**', '**/.data/**', '**/*.long.test.ts']
/** Starts one throw-away Redis and Postgres a run, and stops them at its end. */
const TEST_SERVERS = './libs/embedded/src/test-servers.ts'
const globalSetup = existsSync(new URL(TEST_SERVERS, import.meta.url)) ? [TEST_SERVERS] : []
const REMOTE = 'libs/backends/src/{agentcore,azure,e2b,kubernetes}/**/*.conformance.test.ts'

/** Files that go through a table of backends, targets or themes: part of it in `npm test`, all of it in the long tier. */
const WHOLE_IN_LONG = ['tests/security/**/*.test.ts', 'libs/backends/src/**/*.conformance.test.ts']

// A slow, shared 2-core machine runs at a tenth of a quiet one at times; a hang still ends within minutes.
const FIRST = { maxWorkers: 2, sequence: { groupOrder: 0 } }
const CONFORMANCE = { testTimeout: 120_000, hookTimeout: 180_000 }
const FLEET = { globalSetup, testTimeout: 180_000, hookTimeout: 240_000 }
const IN_PAIRS = { maxWorkers: 2, sequence: { groupOrder: 1 } }
const ALONE = { fileParallelism: false, sequence: { groupOrder: 2 } }

export default defineConfig({
  test: {
    pool: 'forks',
    teardownTimeout: 60_000,
    globalSetup: ['scripts/provide-parts.ts'],
    provide: { cofferdamTier: 'short' },
    passWithNoTests: true,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{apps,libs}/*/src/**/*.test.ts', 'scripts/*.test.ts', 'bench/*.test.ts'],
          exclude: [...NEVER, '**/*.conformance.test.ts'],
          testTimeout: 20_000,
          hookTimeout: 30_000,
          ...FIRST,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['{apps,libs}/*/test/**/*.test.ts'],
          exclude: NEVER,
          globalSetup,
          testTimeout: 60_000,
          hookTimeout: 120_000,
          ...FIRST,
        },
      },
      {
        test: {
          name: 'conformance-remote',
          include: [REMOTE],
          exclude: NEVER,
          ...CONFORMANCE,
          ...IN_PAIRS,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['tests/{e2e,architecture}/**/*.test.ts'],
          exclude: NEVER,
          ...FLEET,
          ...IN_PAIRS,
        },
      },
      {
        test: {
          name: 'conformance',
          include: ['libs/backends/src/**/*.conformance.test.ts'],
          exclude: [...NEVER, REMOTE],
          ...CONFORMANCE,
          ...ALONE,
        },
      },
      {
        test: {
          name: 'security',
          include: ['tests/security/**/*.test.ts'],
          exclude: NEVER,
          ...FLEET,
          ...ALONE,
        },
      },
      {
        test: {
          name: 'faults',
          include: ['tests/{faults,model}/**/*.test.ts'],
          exclude: NEVER,
          ...FLEET,
          ...ALONE,
        },
      },
      {
        test: {
          name: 'long',
          include: ['**/*.long.test.ts', ...WHOLE_IN_LONG],
          exclude: ['**/node_modules/**', '**/.data/**', '**/.cache/**'],
          provide: { cofferdamTier: 'long' },
          ...FLEET,
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
