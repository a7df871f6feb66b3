/**
 * Five projects in three groups: unit and integration, two files at a time; then conformance and e2e, two at a time, for those mostly
 * wait: for daemons, leases and programs that sleep; then faults, alone, for those compare order and pace. All the same no file may
 * depend on being alone: what it measures must hold on a machine ten times as slow, and what it makes on the host has names of its own.
 */
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './scripts/longest-first.ts'

const NEVER = ['**/node_modules/**', '**/.data/**']
/** Starts one throw-away Redis and Postgres a run, and stops them at its end. */
const TEST_SERVERS = './libs/embedded/src/test-servers.ts'
const globalSetup = existsSync(new URL(TEST_SERVERS, import.meta.url)) ? [TEST_SERVERS] : []

export default defineConfig({
  test: {
    pool: 'forks',
    // A slow, shared 2-core machine runs at a tenth of a quiet one at times; a hang still ends within minutes.
    teardownTimeout: 60_000,
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
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
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
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'conformance',
          include: ['libs/backends/src/**/*.conformance.test.ts'],
          exclude: NEVER,
          testTimeout: 120_000,
          hookTimeout: 180_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['tests/{e2e,security,architecture}/**/*.test.ts'],
          exclude: NEVER,
          globalSetup,
          testTimeout: 180_000,
          hookTimeout: 240_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'faults',
          include: ['tests/{faults,model}/**/*.test.ts'],
          exclude: NEVER,
          globalSetup,
          testTimeout: 180_000,
          hookTimeout: 240_000,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
