/**
 * vitest globalSetup of the whole run: tells the test files which parts this machine has. scripts/test.ts
 * passes the parts that it found. A vitest that a person or an editor started finds them here.
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
