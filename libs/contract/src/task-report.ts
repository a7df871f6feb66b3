/** What test runs and installs report besides their output. */
import { z } from 'zod'
import { BOUNDS } from './limits.ts'
import { PACKAGE_MANAGERS, TEST_FRAMEWORKS } from './program.ts'

const count = z.int().min(0)

const failureSchema = z.strictObject({
  name: z.string().max(1024).meta({ description: 'Name of the test.', example: 'test_prices.py::test_tax' }),
  file: z.string().max(BOUNDS.pathLength).nullable().meta({
    description: 'File of the failure. Null if the report names none.',
    example: 'tests/test_prices.py',
  }),
  line: z.int().min(1).nullable().meta({
    description: 'Line in that file, from 1. Null if the report names none.',
    example: 12,
  }),
  message: z.string().max(8192).meta({ description: 'Why it failed.', example: 'assert 19 == 21' }),
})

/** The outcome of a test run. Counts are single tests. */
export const testReportSchema = z.strictObject({
  framework: z.enum(TEST_FRAMEWORKS).meta({ description: 'The framework that ran.' }),
  command: z.string().meta({
    description: 'The command that ran, as a shell line.',
    example: 'python3 -m pytest',
  }),
  total: count.meta({ description: 'Tests in all.', example: 12 }),
  passed: count.meta({ description: 'Tests that passed.', example: 10 }),
  failed: count.meta({ description: 'Tests that failed.', example: 1 }),
  errored: count.meta({ description: 'Tests that could not be run or collected.', example: 0 }),
  skipped: count.meta({ description: 'Tests that were skipped.', example: 1 }),
  duration_ms: z.number().min(0).nullable().meta({
    description: 'As the framework reported, milliseconds. Null if it did not.',
    example: 820,
  }),
  failures: z.array(failureSchema).max(500).meta({
    description: 'Every test that failed or errored, at most 500.',
  }),
  failures_omitted: count.meta({ description: 'Number of failures that the list leaves out.', example: 0 }),
  complete: z.boolean().meta({
    description:
      'False when the run was stopped early, or when the framework’s report was missing or broken. ' +
      'Without a report the counts come from the printed summary.',
  }),
})
export type TestReport = z.infer<typeof testReportSchema>

const packageName = z.string().max(256).meta({ description: 'Name of the package.', example: 'requests' })

export const installReportSchema = z.strictObject({
  manager: z.enum(PACKAGE_MANAGERS).meta({ description: 'The package manager that ran.' }),
  command: z.string().meta({ description: 'The command that ran.', example: 'npm ci' }),
  packages: z
    .array(
      z.strictObject({
        name: packageName,
        version: z
          .string()
          .max(128)
          .meta({ description: 'The version that was fetched.', example: '2.32.5' }),
      }),
    )
    .max(2000)
    .meta({ description: 'Every package fetched through the package proxy, at most 2,000.' }),
  refused: z
    .array(
      z.strictObject({
        name: packageName,
        reason: z.string().max(512).meta({
          description: 'Why it was refused.',
          example: 'no rule of the tenant allows it',
        }),
      }),
    )
    .max(100)
    .meta({ description: 'Packages that the policy of the tenant refused, at most 100.' }),
})
export type InstallReport = z.infer<typeof installReportSchema>
