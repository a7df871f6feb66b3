/**
 * vitest globalSetup of the whole run: tells the test files which parts this machine has. scripts/test.ts has found them
 * already; a vitest that was started by hand or by an editor finds them here.
 */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FoundParts } from '@cofferdam/embedded/needs'
import type { TestProject } from 'vitest/node'
import { findParts, partsForTests } from './machine-parts.ts'

export default async function setup(project: TestProject): Promise<void> {
  const told = process.env['TEST_PARTS']
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const parts =
    told === undefined
      ? partsForTests(await findParts({ root, buildsImage: false }))
      : (JSON.parse(told) as FoundParts)
  project.provide('cofferdamParts', parts)
}
